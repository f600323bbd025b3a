//! The plan: which seats there are, how they are divided into groups, and by which code each group keeps its pages.
//!
//! Made once for a job, the same in every process; its digest travels with every message and stands in every sealed piece.
//! It names seats, not processes: who sits where is decided at each recovery ([`crate::decide`]).

use crate::identity::Seat;
use crate::layout::{Layout, RUN};
use standfast_core::Checksum;
use standfast_core::erasure::{CodeError, Scheme};
use standfast_format::manifest::JobId;
use std::hash::{Hash, Hasher};

/// Most seats of a plan: what one report of all of them may take on the wire.
pub const SEATS_MAX: usize = 1 << 20;

/// Where a program goes on after a failure, and so what a checkpoint must leave behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum WayBack {
    /// Surviving processes roll back. The live memory, held still, *is* the new epoch until all have marked it.
    InPlace,
    /// All processes are started anew and find their pieces where the old ones left them: the new epoch's changed pages
    /// are sealed beside the old ones.
    Relaunch,
}

/// Seats that keep each other's pages.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Group {
    /// Members, in the order of the code's positions.
    pub members: Vec<Seat>,
    /// Keepers, one for each check; none where the members keep the checks themselves, in rotation.
    pub keepers: Vec<Seat>,
    /// Which code.
    pub scheme: Scheme,
}

/// All groups of a job.
#[derive(Clone, Debug)]
pub struct Plan {
    job: JobId,
    way_back: WayBack,
    groups: Vec<Group>,
    layouts: Vec<Layout>,
    /// For each seat its group and its position there.
    places: Vec<(usize, usize)>,
    members: usize,
    digest: Checksum,
}

/// Why there is no such plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A group's code.
    #[error("group {group}: {source}")]
    Code {
        /// Which group.
        group: usize,
        /// Why it has none.
        source: CodeError,
    },
    /// Seats that are in no group, or in two.
    #[error("{0}")]
    Seats(String),
    /// The loss of one domain would be too much.
    #[error("{0}")]
    Weak(crate::placement::Weakness),
}

impl Plan {
    /// The plan of these groups. Members are numbered first: every number below that of members is a member's.
    ///
    /// # Errors
    /// [`PlanError`]
    pub fn new(job: JobId, way_back: WayBack, groups: Vec<Group>) -> Result<Self, PlanError> {
        let members: usize = groups.iter().map(|group| group.members.len()).sum();
        let seats = members + groups.iter().map(|group| group.keepers.len()).sum::<usize>();
        if seats > SEATS_MAX {
            return Err(PlanError::Seats(format!("{seats} seats are more than the {SEATS_MAX} that a plan may have")));
        }
        let mut places = vec![None; seats];
        let mut layouts = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let layout = Layout::new(group.scheme, group.members.len(), group.keepers.len());
            layouts.push(layout.map_err(|source| PlanError::Code { group: index, source })?);
            for (position, seat) in group.members.iter().chain(&group.keepers).enumerate() {
                let is_member = position < group.members.len();
                let number = seat.0 as usize;
                let right = (number < members) == is_member && number < seats;
                if !right || places[number].replace((index, position)).is_some() {
                    return Err(PlanError::Seats(format!("seat {number} is given twice, or is of the wrong kind")));
                }
            }
        }
        let places = places.into_iter().map(|place| place.expect("as many were given as there are, none twice"));
        let digest = digest(job, way_back, &groups, RUN);
        Ok(Self { job, way_back, layouts, places: places.collect(), members, digest, groups })
    }

    /// One group with rotating checks over `members`.
    ///
    /// # Errors
    /// [`PlanError::Code`]
    pub fn rotating(job: JobId, way_back: WayBack, scheme: Scheme, members: u32) -> Result<Self, PlanError> {
        let group = Group { members: (0..members).map(Seat).collect(), keepers: Vec::new(), scheme };
        Self::new(job, way_back, vec![group])
    }

    /// One group with keepers.
    ///
    /// # Errors
    /// [`PlanError::Code`]
    pub fn dedicated(
        job: JobId,
        way_back: WayBack,
        scheme: Scheme,
        members: u32,
        keepers: u32,
    ) -> Result<Self, PlanError> {
        let keepers = (members..members + keepers).map(Seat).collect();
        Self::new(job, way_back, vec![Group { members: (0..members).map(Seat).collect(), keepers, scheme }])
    }

    /// The same with other runs of slots in a column than those of sixteen: small programs in tests have theirs in every
    /// class of rows.
    #[must_use]
    pub fn in_runs_of(self, slots: u32) -> Self {
        let digest = digest(self.job, self.way_back, &self.groups, slots);
        let layouts = self.layouts.into_iter().map(|layout| layout.in_runs_of(slots)).collect();
        Self { layouts, digest, ..self }
    }

    /// Which job.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// How the program goes on after a failure.
    pub fn way_back(&self) -> WayBack {
        self.way_back
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The layout of a group.
    pub fn layout(&self, group: usize) -> &Layout {
        &self.layouts[group]
    }

    /// Number of member seats.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Number of all seats.
    pub fn seats(&self) -> usize {
        self.places.len()
    }

    /// Whether the plan has the seat.
    pub fn has(&self, seat: Seat) -> bool {
        (seat.0 as usize) < self.places.len()
    }

    /// Whether an application process sits there.
    pub fn is_member(&self, seat: Seat) -> bool {
        (seat.0 as usize) < self.members
    }

    /// Group and position of a seat.
    pub fn place(&self, seat: Seat) -> (usize, usize) {
        self.places[seat.0 as usize]
    }

    /// The seat at a position of a group.
    pub fn seat(&self, group: usize, position: usize) -> Seat {
        let group = &self.groups[group];
        let members = group.members.len();
        if position < members { group.members[position] } else { group.keepers[position - members] }
    }

    /// The first group of which the pieces that are there do not suffice, and the seats whose pieces are not there.
    pub fn lacking(&self, has: impl Fn(Seat) -> bool) -> Option<(usize, Vec<Seat>)> {
        (0..self.groups.len()).find_map(|group| {
            let layout = self.layout(group);
            let positions = 0..layout.positions();
            let lost: Vec<usize> = positions.filter(|position| !has(self.seat(group, *position))).collect();
            let missing = || lost.iter().map(|position| self.seat(group, *position)).collect();
            (!layout.bears(&lost)).then(|| (group, missing()))
        })
    }

    /// The first group of which somebody has no piece, and who.
    pub fn incomplete(&self, has: impl Fn(Seat) -> bool) -> Option<(usize, Vec<Seat>)> {
        (0..self.groups.len()).find_map(|group| {
            let seats = (0..self.layout(group).positions()).map(|position| self.seat(group, position));
            let missing: Vec<Seat> = seats.filter(|seat| !has(*seat)).collect();
            (!missing.is_empty()).then_some((group, missing))
        })
    }

    /// What tells one plan from another.
    pub fn digest(&self) -> Checksum {
        self.digest
    }
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Plan {}

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

/// Over an unambiguous listing of all that the plan says.
fn digest(job: JobId, way_back: WayBack, groups: &[Group], run: u32) -> Checksum {
    let mut bytes = job.to_bytes().to_vec();
    bytes.extend(run.to_le_bytes());
    bytes.push(match way_back {
        WayBack::InPlace => 0,
        WayBack::Relaunch => 1,
    });
    for group in groups {
        let (scheme, number) = match group.scheme {
            Scheme::Mirroring => (0, 0),
            Scheme::Parity => (1, 0),
            Scheme::OneDimensional { groups } => (2, groups),
            Scheme::EvenOdd => (3, 0),
            Scheme::ReedSolomon { checks } => (4, checks),
        };
        bytes.push(scheme);
        bytes.extend((number as u64).to_le_bytes());
        for seats in [&group.members, &group.keepers] {
            bytes.extend((seats.len() as u64).to_le_bytes());
            seats.iter().for_each(|seat| bytes.extend(seat.0.to_le_bytes()));
        }
    }
    Checksum::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId::from_bytes([1; 16]);

    fn group(members: &[u32], keepers: &[u32]) -> Group {
        let seats = |numbers: &[u32]| numbers.iter().copied().map(Seat).collect();
        Group { members: seats(members), keepers: seats(keepers), scheme: Scheme::Parity }
    }

    #[test]
    fn every_seat_has_one_place() {
        let groups = vec![group(&[0, 2], &[4]), group(&[3, 1], &[5])];
        let plan = Plan::new(JOB, WayBack::InPlace, groups).unwrap();
        for seat in (0..6).map(Seat) {
            let (group, position) = plan.place(seat);
            assert_eq!(plan.seat(group, position), seat);
            assert_eq!(plan.is_member(seat), seat.0 < 4);
        }
        assert!(!plan.has(Seat(6)));
    }

    #[test]
    fn seats_given_twice_or_to_the_wrong_kind_are_refused() {
        let refused = |groups| Plan::new(JOB, WayBack::InPlace, groups).unwrap_err().to_string();
        assert!(refused(vec![group(&[0, 0], &[2])]).contains("seat 0"));
        assert!(refused(vec![group(&[0, 2], &[1])]).contains("seat 2"));
        assert!(refused(vec![group(&[0, 1], &[7])]).contains("seat 7"));
        assert!(refused(vec![group(&[0], &[])]).contains("group 0"));
    }

    #[test]
    fn plans_that_differ_in_anything_have_other_digests() {
        let plan = |job, way_back, groups| Plan::new(JobId::from_bytes([job; 16]), way_back, groups).unwrap();
        let plain = || vec![group(&[0, 1], &[2])];
        let mut mirrored = vec![group(&[0, 1], &[])];
        mirrored[0].scheme = Scheme::Mirroring;
        let plans = [
            plan(1, WayBack::InPlace, plain()),
            plan(2, WayBack::InPlace, plain()),
            plan(1, WayBack::Relaunch, plain()),
            plan(1, WayBack::InPlace, vec![group(&[1, 0], &[2])]),
            plan(1, WayBack::InPlace, mirrored),
        ];
        for (at, one) in plans.iter().enumerate() {
            assert!(plans.iter().skip(at + 1).all(|other| other != one));
        }
        assert_eq!(plans[0], plan(1, WayBack::InPlace, plain()));
    }
}
