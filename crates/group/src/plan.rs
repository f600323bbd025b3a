//! The plan: the logical ranks, their groups, and the code that protects the pages of each group.
//!
//! A job makes its plan once, and it is the same in every process. Its digest is in every message and every sealed shard.
//! It names logical ranks, not processes: each recovery assigns processes to logical ranks ([`crate::decide`]).
//!
//! Plans of MPI programs have relaunch and rotating checks so far: recovery in place and dedicated parity nodes complete
//! the forms of diskless checkpointing in groups.

use crate::identity::LogicalRank;
use crate::layout::{Layout, RUN};
use standfast_core::Checksum;
use standfast_core::erasure::{CodeError, Scheme};
use standfast_format::manifest::JobId;
use std::hash::{Hash, Hasher};

/// Most logical ranks of a plan, limited by the size of one report of all of them.
pub const LOGICAL_RANKS_MAX: usize = 1 << 20;

/// Where a program continues after a failure, and so what a checkpoint must leave behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum RecoveryMode {
    /// Surviving processes roll back. The unchanged live memory *is* the new epoch until all have acknowledged it.
    InPlace,
    /// All processes are started again and find the shards that the old ones left. The changed pages of the new epoch are
    /// sealed beside the old ones.
    Relaunch,
}

/// Logical ranks that protect each other's pages.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Group {
    /// Members, in the order of the code's positions.
    pub members: Vec<LogicalRank>,
    /// Parity nodes, one for each check; none if the members hold the checks themselves, in rotation.
    pub parity_nodes: Vec<LogicalRank>,
    /// The code.
    pub scheme: Scheme,
}

/// All groups of a job.
#[derive(Clone, Debug)]
pub struct Plan {
    job: JobId,
    recovery_mode: RecoveryMode,
    groups: Vec<Group>,
    layouts: Vec<Layout>,
    /// Group and position of each logical rank.
    places: Vec<(usize, usize)>,
    members: usize,
    digest: Checksum,
}

/// Why a plan is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The code of a group is invalid.
    #[error("group {group}: {source}")]
    Code {
        /// The group.
        group: usize,
        /// The reason.
        source: CodeError,
    },
    /// Logical ranks are in no group, or in two.
    #[error("{0}")]
    LogicalRanks(String),
    /// A group would not survive the loss of one domain.
    #[error("{0}")]
    Weak(crate::weakness::Weakness),
}

impl Plan {
    /// Creates the plan of these groups. Members come first: all numbers below the number of members are members.
    ///
    /// # Errors
    /// [`PlanError`]
    pub fn new(job: JobId, recovery_mode: RecoveryMode, groups: Vec<Group>) -> Result<Self, PlanError> {
        let members: usize = groups.iter().map(|group| group.members.len()).sum();
        let logical_ranks = members + groups.iter().map(|group| group.parity_nodes.len()).sum::<usize>();
        if logical_ranks > LOGICAL_RANKS_MAX {
            return Err(PlanError::LogicalRanks(format!(
                "{logical_ranks} logical ranks are more than the {LOGICAL_RANKS_MAX} that a plan may have"
            )));
        }
        let mut places = vec![None; logical_ranks];
        let mut layouts = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let layout = Layout::new(group.scheme, group.members.len(), group.parity_nodes.len());
            layouts.push(layout.map_err(|source| PlanError::Code { group: index, source })?);
            for (position, logical_rank) in group.members.iter().chain(&group.parity_nodes).enumerate() {
                let is_member = position < group.members.len();
                let number = logical_rank.0 as usize;
                let right = (number < members) == is_member && number < logical_ranks;
                if !right || places[number].replace((index, position)).is_some() {
                    return Err(PlanError::LogicalRanks(format!(
                        "logical rank {number} is given twice, or is of the wrong kind"
                    )));
                }
            }
        }
        let places = places.into_iter().map(|place| place.expect("as many were given as there are, none twice"));
        let digest = digest(job, recovery_mode, &groups, RUN);
        Ok(Self { job, recovery_mode, layouts, places: places.collect(), members, digest, groups })
    }

    /// Creates a plan of one group with rotating checks over `members`.
    ///
    /// # Errors
    /// [`PlanError::Code`]
    pub fn rotating(job: JobId, recovery_mode: RecoveryMode, scheme: Scheme, members: u32) -> Result<Self, PlanError> {
        let group = Group { members: (0..members).map(LogicalRank).collect(), parity_nodes: Vec::new(), scheme };
        Self::new(job, recovery_mode, vec![group])
    }

    /// Creates a plan of one group with parity nodes.
    ///
    /// # Errors
    /// [`PlanError::Code`]
    pub fn dedicated(
        job: JobId,
        recovery_mode: RecoveryMode,
        scheme: Scheme,
        members: u32,
        parity_nodes: u32,
    ) -> Result<Self, PlanError> {
        let parity_nodes = (members..members + parity_nodes).map(LogicalRank).collect();
        Self::new(
            job,
            recovery_mode,
            vec![Group { members: (0..members).map(LogicalRank).collect(), parity_nodes, scheme }],
        )
    }

    /// Changes the length of runs in a column from the default of sixteen: in tests, even small programs then have slots
    /// in every stripe group.
    #[must_use]
    pub fn in_runs_of(self, slots: u32) -> Self {
        let digest = digest(self.job, self.recovery_mode, &self.groups, slots);
        let layouts = self.layouts.into_iter().map(|layout| layout.in_runs_of(slots)).collect();
        Self { layouts, digest, ..self }
    }

    /// Returns the job.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// Returns how the program continues after a failure.
    pub fn recovery_mode(&self) -> RecoveryMode {
        self.recovery_mode
    }

    /// Returns the groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the layout of a group.
    pub fn layout(&self, group: usize) -> &Layout {
        &self.layouts[group]
    }

    /// Returns the number of members.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns the number of all logical ranks.
    pub fn logical_ranks(&self) -> usize {
        self.places.len()
    }

    /// Reports whether the plan has the logical rank.
    pub fn has(&self, logical_rank: LogicalRank) -> bool {
        (logical_rank.0 as usize) < self.places.len()
    }

    /// Reports whether the logical rank belongs to an application process.
    pub fn is_member(&self, logical_rank: LogicalRank) -> bool {
        (logical_rank.0 as usize) < self.members
    }

    /// Returns group and position of a logical rank.
    pub fn place(&self, logical_rank: LogicalRank) -> (usize, usize) {
        self.places[logical_rank.0 as usize]
    }

    /// Returns the logical rank at a position of a group.
    pub fn logical_rank(&self, group: usize, position: usize) -> LogicalRank {
        let group = &self.groups[group];
        let members = group.members.len();
        if position < members { group.members[position] } else { group.parity_nodes[position - members] }
    }

    /// Returns the first group whose available shards do not suffice, and the logical ranks whose shards are missing.
    pub fn lacking(&self, has: impl Fn(LogicalRank) -> bool) -> Option<(usize, Vec<LogicalRank>)> {
        (0..self.groups.len()).find_map(|group| {
            let layout = self.layout(group);
            let positions = 0..layout.positions();
            let lost: Vec<usize> = positions.filter(|position| !has(self.logical_rank(group, *position))).collect();
            let missing = || lost.iter().map(|position| self.logical_rank(group, *position)).collect();
            (!layout.tolerates(&lost)).then(|| (group, missing()))
        })
    }

    /// Returns the first group with any missing shard, and the logical ranks whose shards are missing.
    pub fn incomplete(&self, has: impl Fn(LogicalRank) -> bool) -> Option<(usize, Vec<LogicalRank>)> {
        (0..self.groups.len()).find_map(|group| {
            let logical_ranks = (0..self.layout(group).positions()).map(|position| self.logical_rank(group, position));
            let missing: Vec<LogicalRank> = logical_ranks.filter(|logical_rank| !has(*logical_rank)).collect();
            (!missing.is_empty()).then_some((group, missing))
        })
    }

    /// Returns the digest, which distinguishes plans.
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

/// Hashes an unambiguous listing of everything in the plan.
fn digest(job: JobId, recovery_mode: RecoveryMode, groups: &[Group], run: u32) -> Checksum {
    let mut bytes = job.to_bytes().to_vec();
    bytes.extend(run.to_le_bytes());
    bytes.push(match recovery_mode {
        RecoveryMode::InPlace => 0,
        RecoveryMode::Relaunch => 1,
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
        for logical_ranks in [&group.members, &group.parity_nodes] {
            bytes.extend((logical_ranks.len() as u64).to_le_bytes());
            logical_ranks.iter().for_each(|logical_rank| bytes.extend(logical_rank.0.to_le_bytes()));
        }
    }
    Checksum::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId::from_bytes([1; 16]);

    fn group(members: &[u32], parity_nodes: &[u32]) -> Group {
        let logical_ranks = |numbers: &[u32]| numbers.iter().copied().map(LogicalRank).collect();
        Group { members: logical_ranks(members), parity_nodes: logical_ranks(parity_nodes), scheme: Scheme::Parity }
    }

    #[test]
    fn every_logical_rank_has_one_place() {
        let groups = vec![group(&[0, 2], &[4]), group(&[3, 1], &[5])];
        let plan = Plan::new(JOB, RecoveryMode::InPlace, groups).unwrap();
        for logical_rank in (0..6).map(LogicalRank) {
            let (group, position) = plan.place(logical_rank);
            assert_eq!(plan.logical_rank(group, position), logical_rank);
            assert_eq!(plan.is_member(logical_rank), logical_rank.0 < 4);
        }
        assert!(!plan.has(LogicalRank(6)));
    }

    #[test]
    fn logical_ranks_given_twice_or_to_the_wrong_kind_are_refused() {
        let refused = |groups| Plan::new(JOB, RecoveryMode::InPlace, groups).unwrap_err().to_string();
        assert!(refused(vec![group(&[0, 0], &[2])]).contains("logical rank 0"));
        assert!(refused(vec![group(&[0, 2], &[1])]).contains("logical rank 2"));
        assert!(refused(vec![group(&[0, 1], &[7])]).contains("logical rank 7"));
        assert!(refused(vec![group(&[0], &[])]).contains("group 0"));
    }

    #[test]
    fn plans_that_differ_in_anything_have_other_digests() {
        let plan = |job, recovery_mode, groups| Plan::new(JobId::from_bytes([job; 16]), recovery_mode, groups).unwrap();
        let plain = || vec![group(&[0, 1], &[2])];
        let mut mirrored = vec![group(&[0, 1], &[])];
        mirrored[0].scheme = Scheme::Mirroring;
        let plans = [
            plan(1, RecoveryMode::InPlace, plain()),
            plan(2, RecoveryMode::InPlace, plain()),
            plan(1, RecoveryMode::Relaunch, plain()),
            plan(1, RecoveryMode::InPlace, vec![group(&[1, 0], &[2])]),
            plan(1, RecoveryMode::InPlace, mirrored),
        ];
        for (at, one) in plans.iter().enumerate() {
            assert!(plans.iter().skip(at + 1).all(|other| other != one));
        }
        assert_eq!(plans[0], plan(1, RecoveryMode::InPlace, plain()));
    }
}
