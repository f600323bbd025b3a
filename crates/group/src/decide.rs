//! What to recover: from everybody's report to an epoch and to who sits where. A pure function, run by the coordinator alone.
//!
//! The newest epoch is taken of which the sealed pieces suffice in *every* group, whether or not anybody has marked it:
//! marks lag behind. Of a local epoch every piece must be there, and with whoever sits on its seat. Pieces are the same epoch's only if life, number and random id agree, so the piece of a process that
//! comes back from a history that was given up is just a piece of another epoch.

use crate::identity::{EpochId, Level, Life, Rank, Seat};
use crate::plan::Plan;
use crate::shelf::PieceId;
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};

/// A sealed piece that a process has. Whether its pages are what was written shows when it is recovered.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Holding {
    /// Of which epoch.
    #[n(0)]
    pub epoch: EpochId,
    /// Of which seat.
    #[n(1)]
    pub seat: Seat,
    /// Whether the process has learned that everybody sealed it.
    #[n(2)]
    pub marked: bool,
    /// How it is kept.
    #[n(3)]
    pub level: Level,
}

/// What a process has to say before a recovery.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Report {
    /// The latest life that it knows of.
    #[n(0)]
    pub life: Life,
    /// Whether the application may have run already, so that starting from the beginning would be a surprise.
    #[n(1)]
    pub started: bool,
    /// Where it would sit if nothing speaks against it; `None` for a spare.
    #[n(2)]
    pub prefers: Option<Seat>,
    /// What it has.
    #[n(3)]
    pub holdings: Vec<Holding>,
    /// Whether its storage shows that it was there when the job began and that nothing can have been promised since: whoever
    /// is told that an epoch counts is told after all have sealed it, and in a recovery after all have marked it. Holds if no
    /// life has begun after that.
    #[n(4)]
    pub unpromised: bool,
}

impl Report {
    /// Takes a piece out that proved damaged; says whether it stood here.
    pub(crate) fn loses(&mut self, piece: PieceId) -> bool {
        let before = self.holdings.len();
        self.holdings.retain(|it| (it.epoch, it.seat) != (piece.epoch, piece.seat));
        self.holdings.len() < before
    }
}

/// What is to be done.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Restore {
    /// The life that begins.
    #[n(0)]
    pub life: Life,
    /// The epoch to go back to; `None` at the very start of a job.
    #[n(1)]
    pub epoch: Option<EpochId>,
    /// Who sits where from now on. A keeper's seat may stay empty, a member's never does.
    #[n(2)]
    pub seats: Vec<(Seat, Rank)>,
    /// Whose pieces there are. A process may hold another seat's piece than the one it takes: it lends it.
    #[n(3)]
    pub sources: Vec<(Seat, Rank)>,
    /// How the epoch is kept.
    #[n(4)]
    pub level: Level,
}

/// Why nothing can be recovered.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Refusal {
    /// The application had begun, and no piece of any epoch is left or was ever sealed.
    #[n(0)]
    #[error("there is no epoch to go back to: the job had begun, and nobody holds a sealed piece that can be read")]
    Nothing,
    /// There are pieces, but of no epoch enough.
    #[n(1)]
    #[error("epoch {epoch} cannot be recovered: group {group} lacks the pieces of {} seats, more than its code bears", .missing.len())]
    TooMuchLost {
        /// The newest epoch.
        #[n(0)]
        epoch: EpochId,
        /// The first group that is not whole.
        #[n(1)]
        group: u32,
        /// Seats of that group without a piece.
        #[n(2)]
        missing: Vec<Seat>,
    },
    /// Fewer processes than members.
    #[n(3)]
    #[error("the application has {members} members and only {present} processes are here: add processes, then recover")]
    TooFew {
        /// Members of the plan.
        #[n(0)]
        members: u32,
        /// Processes that are here.
        #[n(1)]
        present: u32,
    },
    /// What was computed is not what its owner had sealed, and there is no other epoch.
    #[n(4)]
    #[error("epoch {epoch} cannot be recovered: {reason}; and there is no other epoch to go back to")]
    Rejected {
        /// The epoch.
        #[n(0)]
        epoch: EpochId,
        /// What was found.
        #[n(1)]
        reason: String,
    },
}

/// Epochs that were tried in this muster and could not be rebuilt, with the reason; some of them nobody holds any more.
pub type Rejected = BTreeMap<EpochId, String>;

/// What to recover from these reports.
///
/// # Errors
/// [`Refusal`]: by name, and nobody has done anything yet.
pub fn decide(plan: &Plan, reports: &BTreeMap<Rank, Report>, rejected: &Rejected) -> Result<Restore, Refusal> {
    let life = reports.values().map(latest_life).max().unwrap_or_default();
    let life = Life(life.0 + 1);
    let holdings = || reports.values().flat_map(|report| &report.holdings).filter(|holding| plan.has(holding.seat));
    let named = holdings().map(|holding| (holding.epoch, holding.level)).collect::<BTreeSet<_>>();
    let mut epochs: Vec<_> = named.into_iter().collect();
    // That of an encoded epoch says more: those between are expected to go first.
    let (mut refusal, mut refusal_of_local) = (None, None);
    // Of two histories the later life is the one that was gone on with. Equal in life and number, at most one was ever
    // marked, unless more was lost than is borne.
    let marked: BTreeSet<_> = holdings().filter(|holding| holding.marked).map(|holding| holding.epoch).collect();
    epochs.sort_by_key(|(epoch, _)| (epoch.life, epoch.number, marked.contains(epoch), epoch.random));
    for (epoch, level) in epochs.into_iter().rev() {
        let refusal = if level == Level::Encoded { &mut refusal } else { &mut refusal_of_local };
        if let Some(reason) = rejected.get(&epoch) {
            // What was tried says more than what could not be.
            if !matches!(refusal, Some(Refusal::Rejected { .. })) {
                *refusal = Some(Refusal::Rejected { epoch, reason: reason.clone() });
            }
            continue;
        }
        let holders = holders(reports, (epoch, level), plan);
        let lacking = match level {
            Level::Encoded => plan.lacking(|seat| holders.contains_key(&seat)),
            Level::Local(_) => plan.incomplete(|seat| holders.contains_key(&seat)),
        };
        if let Some((group, missing)) = lacking {
            refusal.get_or_insert(Refusal::TooMuchLost { epoch, group: group as u32, missing });
            continue;
        }
        let seats = seated(plan, reports, &holders)?;
        let sources = sources(&holders, &seats);
        let moves = sources.iter().find(|(seat, rank)| seats.get(seat) != Some(rank)).map(|(seat, _)| *seat);
        match moves.filter(|_| level != Level::Encoded) {
            // Nobody rebuilds a local piece, nor hands it over.
            Some(seat) => {
                let (group, _) = plan.place(seat);
                refusal.get_or_insert(Refusal::TooMuchLost { epoch, group: group as u32, missing: vec![seat] });
            }
            None => {
                return Ok(Restore { life, epoch: Some(epoch), seats: seats.into_iter().collect(), sources, level });
            }
        }
    }
    let of_tried = || rejected.last_key_value().map(|(epoch, reason)| (*epoch, reason.clone()));
    let refusal = refusal.or(refusal_of_local);
    let refusal = refusal.or_else(|| of_tried().map(|(epoch, reason)| Refusal::Rejected { epoch, reason }));
    if reports.values().any(|report| report.started) {
        return Err(refusal.unwrap_or(Refusal::Nothing));
    }
    let none_was_promised = |report: &Report| report.unpromised && report.life.0 + 1 == life.0;
    match refusal {
        Some(refusal) if !reports.values().any(none_was_promised) => Err(refusal),
        _ => {
            let seats = seated(plan, reports, &Holders::new())?.into_iter().collect();
            Ok(Restore { life, epoch: None, seats, sources: Vec::new(), level: Level::Encoded })
        }
    }
}

fn latest_life(report: &Report) -> Life {
    let held = report.holdings.iter().map(|holding| holding.epoch.life).max();
    held.unwrap_or_default().max(report.life)
}

/// Who has a seat's piece of the epoch that is recovered. Usually one process for each seat. A node that comes back has a
/// piece that another one has as well; and where it has taken another seat, it has two until that recovery is settled.
type Holders = BTreeMap<Seat, Vec<Rank>>;

/// In the order in which they come into question: those first that have nothing else, then those that prefer the seat.
///
/// Of a local epoch they have what it stands upon as well.
fn holders(reports: &BTreeMap<Rank, Report>, (epoch, level): (EpochId, Level), plan: &Plan) -> Holders {
    let of_epoch = |report: &Report| -> Vec<Seat> {
        let stands = |seat: Seat| match level {
            Level::Local(Some(base)) => report.holdings.iter().any(|it| it.epoch == base && it.seat == seat),
            Level::Local(None) | Level::Encoded => true,
        };
        let of_it = |it: &&Holding| (it.epoch, it.level) == (epoch, level) && plan.has(it.seat) && stands(it.seat);
        report.holdings.iter().filter(of_it).map(|holding| holding.seat).collect()
    };
    let mut holders = Holders::new();
    for (rank, report) in reports {
        of_epoch(report).into_iter().for_each(|seat| holders.entry(seat).or_default().push(*rank));
    }
    for (seat, ranks) in &mut holders {
        ranks.sort_by_key(|rank| {
            let report = &reports[rank];
            (of_epoch(report).len(), report.prefers != Some(*seat), *rank)
        });
    }
    holders
}

/// Whoever sits on a seat and has its piece uses that; it must not be written anew. Otherwise the first who has it lends it.
fn sources(holders: &Holders, seats: &BTreeMap<Seat, Rank>) -> Vec<(Seat, Rank)> {
    let source = |(seat, ranks): (&Seat, &Vec<Rank>)| {
        let own = seats.get(seat).filter(|rank| ranks.contains(rank));
        (*seat, *own.unwrap_or(&ranks[0]))
    };
    holders.iter().map(source).collect()
}

/// Who sits where. Whoever has a member's piece keeps that seat, or one of them. Empty members' seats go to who prefers
/// them, then to spares, then to keepers; what is left over becomes keeper.
fn seated(plan: &Plan, reports: &BTreeMap<Rank, Report>, holders: &Holders) -> Result<BTreeMap<Seat, Rank>, Refusal> {
    let mut seats: BTreeMap<Seat, Rank> = BTreeMap::new();
    let mut free: BTreeSet<Rank> = reports.keys().copied().collect();
    // Members come first, so that who has a member's and a keeper's piece sits down as the member.
    let (members, keepers): (Vec<_>, Vec<_>) = holders.iter().partition(|(seat, _)| plan.is_member(**seat));
    for (seat, ranks) in members {
        if let Some(rank) = ranks.iter().copied().find(|rank| free.remove(rank)) {
            seats.insert(*seat, rank);
        }
    }
    let holds_check: BTreeMap<Rank, Seat> =
        keepers.iter().flat_map(|(seat, ranks)| ranks.iter().map(|rank| (*rank, **seat))).collect();
    let prefers = |rank: &Rank| reports[rank].prefers;
    let empty = |seats: &BTreeMap<Seat, Rank>, kind: bool| -> Vec<Seat> {
        let all = (0..plan.seats() as u32).map(Seat);
        all.filter(|seat| plan.is_member(*seat) == kind && !seats.contains_key(seat)).collect()
    };
    for seat in empty(&seats, true) {
        if let Some(rank) = free.iter().copied().find(|rank| prefers(rank) == Some(seat)) {
            free.remove(&rank);
            seats.insert(seat, rank);
        }
    }
    // Spares first, processes that hold nothing next, keepers of checks last (D8).
    let reluctance = |rank: &Rank| (holds_check.contains_key(rank), prefers(rank).is_some(), *rank);
    for seat in empty(&seats, true) {
        let Some(rank) = free.iter().copied().min_by_key(reluctance) else {
            return Err(Refusal::TooFew { members: plan.members() as u32, present: reports.len() as u32 });
        };
        free.remove(&rank);
        seats.insert(seat, rank);
    }
    for (rank, seat) in holds_check {
        if !seats.contains_key(&seat) && free.remove(&rank) {
            seats.insert(seat, rank);
        }
    }
    for seat in empty(&seats, false) {
        let wish = free.iter().copied().find(|rank| prefers(rank) == Some(seat));
        let Some(rank) = wish.or_else(|| free.first().copied()) else { break };
        free.remove(&rank);
        seats.insert(seat, rank);
    }
    Ok(seats)
}

#[cfg(test)]
mod tests;
