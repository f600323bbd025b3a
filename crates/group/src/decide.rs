//! What to recover: from everybody's report to an epoch and to who sits where. A pure function, run by the coordinator alone.
//!
//! The newest epoch is taken of which the sealed shards suffice in *every* group, whether or not anybody has acknowledged it:
//! acknowledges lag behind. Of a local epoch every shard must be there, and with whoever sits on its logical rank. Shards are
//! the same epoch's only if life, number and random id agree, so the shard of a process that comes back from a history that
//! was given up is just a shard of another epoch.

use crate::identity::{EpochId, EpochLevel, Life, LogicalRank, Rank};
use crate::plan::Plan;
use crate::shard::ShardId;
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};

/// A sealed shard that a process has. Whether its pages are what was written shows when it is recovered.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Holding {
    /// Of which epoch.
    #[n(0)]
    pub epoch: EpochId,
    /// Of which logical rank.
    #[n(1)]
    pub logical_rank: LogicalRank,
    /// Whether the process has learned that everybody sealed it.
    #[n(2)]
    pub acknowledged: bool,
    /// How it is kept.
    #[n(3)]
    pub level: EpochLevel,
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
    pub prefers: Option<LogicalRank>,
    /// What it has.
    #[n(3)]
    pub holdings: Vec<Holding>,
    /// Whether its storage shows that it was there when the job began and that nothing can have been promised since: whoever
    /// is told that an epoch counts is told after all have sealed it, and in a recovery after all have acknowledged it. Holds
    /// if no life has begun after that.
    #[n(4)]
    pub unpromised: bool,
}

impl Report {
    /// Takes a shard out that proved damaged; says whether it stood here.
    pub(crate) fn loses(&mut self, shard: ShardId) -> bool {
        let before = self.holdings.len();
        self.holdings.retain(|it| (it.epoch, it.logical_rank) != (shard.epoch, shard.logical_rank));
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
    /// Who sits where from now on. A parity node's logical rank may stay empty, a member's never does.
    #[n(2)]
    pub logical_ranks: Vec<(LogicalRank, Rank)>,
    /// Whose shards there are. A process may hold another logical rank's shard than the one it takes: it lends it.
    #[n(3)]
    pub sources: Vec<(LogicalRank, Rank)>,
    /// How the epoch is kept.
    #[n(4)]
    pub level: EpochLevel,
}

/// Why nothing can be recovered.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Refusal {
    /// The application had begun, and no shard of any epoch is left or was ever sealed.
    #[n(0)]
    #[error("there is no epoch to roll back to: the job had begun, and no member holds a readable sealed shard")]
    Nothing,
    /// There are shards, but of no epoch enough.
    #[n(1)]
    #[error("epoch {epoch} cannot be recovered: group {group} lacks the shards of {} logical ranks, more than its code tolerates", .missing.len())]
    TooMuchLost {
        /// The newest epoch.
        #[n(0)]
        epoch: EpochId,
        /// The first group that is not whole.
        #[n(1)]
        group: u32,
        /// Logical ranks of that group without a shard.
        #[n(2)]
        missing: Vec<LogicalRank>,
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
    #[error("epoch {epoch} cannot be recovered: {reason}; there is no other epoch to roll back to")]
    Rejected {
        /// The epoch.
        #[n(0)]
        epoch: EpochId,
        /// What was found.
        #[n(1)]
        reason: String,
    },
}

/// Epochs that were tried in this membership and could not be rebuilt, with the reason; some of them nobody holds any more.
pub type Rejected = BTreeMap<EpochId, String>;

/// What to recover from these reports.
///
/// # Errors
/// [`Refusal`]: by name, and nobody has done anything yet.
pub fn decide(plan: &Plan, reports: &BTreeMap<Rank, Report>, rejected: &Rejected) -> Result<Restore, Refusal> {
    let life = reports.values().map(latest_life).max().unwrap_or_default();
    let life = Life(life.0 + 1);
    let holdings =
        || reports.values().flat_map(|report| &report.holdings).filter(|holding| plan.has(holding.logical_rank));
    let named = holdings().map(|holding| (holding.epoch, holding.level)).collect::<BTreeSet<_>>();
    let mut epochs: Vec<_> = named.into_iter().collect();
    // That of an encoded epoch says more: those between are expected to go first.
    let (mut refusal, mut refusal_of_local) = (None, None);
    // Of two histories the later life is the one that was gone on with. Equal in life and number, at most one was ever
    // acknowledged, unless more was lost than is tolerated.
    let acknowledged: BTreeSet<_> =
        holdings().filter(|holding| holding.acknowledged).map(|holding| holding.epoch).collect();
    epochs.sort_by_key(|(epoch, _)| (epoch.life, epoch.number, acknowledged.contains(epoch), epoch.random));
    for (epoch, level) in epochs.into_iter().rev() {
        let refusal = if level == EpochLevel::Encoded { &mut refusal } else { &mut refusal_of_local };
        if let Some(reason) = rejected.get(&epoch) {
            // What was tried says more than what could not be.
            if !matches!(refusal, Some(Refusal::Rejected { .. })) {
                *refusal = Some(Refusal::Rejected { epoch, reason: reason.clone() });
            }
            continue;
        }
        let holders = holders(reports, epoch, level, plan);
        let lacking = match level {
            EpochLevel::Encoded => plan.lacking(|logical_rank| holders.contains_key(&logical_rank)),
            EpochLevel::Local(_) => plan.incomplete(|logical_rank| holders.contains_key(&logical_rank)),
        };
        if let Some((group, missing)) = lacking {
            refusal.get_or_insert(Refusal::TooMuchLost { epoch, group: group as u32, missing });
            continue;
        }
        let logical_ranks = seated(plan, reports, &holders)?;
        let sources = sources(&holders, &logical_ranks);
        let moves = sources
            .iter()
            .find(|(logical_rank, rank)| logical_ranks.get(logical_rank) != Some(rank))
            .map(|(logical_rank, _)| *logical_rank);
        match moves.filter(|_| level != EpochLevel::Encoded) {
            // Nobody rebuilds a local shard, nor hands it over.
            Some(logical_rank) => {
                let (group, _) = plan.place(logical_rank);
                refusal.get_or_insert(Refusal::TooMuchLost { epoch, group: group as u32, missing: vec![logical_rank] });
            }
            None => {
                return Ok(Restore {
                    life,
                    epoch: Some(epoch),
                    logical_ranks: logical_ranks.into_iter().collect(),
                    sources,
                    level,
                });
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
            let logical_ranks = seated(plan, reports, &Holders::new())?.into_iter().collect();
            Ok(Restore { life, epoch: None, logical_ranks, sources: Vec::new(), level: EpochLevel::Encoded })
        }
    }
}

fn latest_life(report: &Report) -> Life {
    let held = report.holdings.iter().map(|holding| holding.epoch.life).max();
    held.unwrap_or_default().max(report.life)
}

/// Who has a logical rank's shard of the epoch that is recovered. Usually one process for each logical rank. A node that
/// comes back has a shard that another one has as well; and where it has taken another logical rank, it has two until that
/// recovery is stable.
type Holders = BTreeMap<LogicalRank, Vec<Rank>>;

/// In the order in which they come into question: those first that have nothing else, then those that prefer the logical rank.
///
/// Of a local epoch they have what it stands upon as well.
fn holders(reports: &BTreeMap<Rank, Report>, epoch: EpochId, level: EpochLevel, plan: &Plan) -> Holders {
    let of_epoch = |report: &Report| -> Vec<LogicalRank> {
        let stands = |logical_rank: LogicalRank| match level {
            EpochLevel::Local(Some(base)) => {
                report.holdings.iter().any(|it| it.epoch == base && it.logical_rank == logical_rank)
            }
            EpochLevel::Local(None) | EpochLevel::Encoded => true,
        };
        let of_it = |it: &&Holding| {
            (it.epoch, it.level) == (epoch, level) && plan.has(it.logical_rank) && stands(it.logical_rank)
        };
        report.holdings.iter().filter(of_it).map(|holding| holding.logical_rank).collect()
    };
    let mut holders = Holders::new();
    for (rank, report) in reports {
        of_epoch(report).into_iter().for_each(|logical_rank| holders.entry(logical_rank).or_default().push(*rank));
    }
    for (logical_rank, ranks) in &mut holders {
        ranks.sort_by_key(|rank| {
            let report = &reports[rank];
            (of_epoch(report).len(), report.prefers != Some(*logical_rank), *rank)
        });
    }
    holders
}

/// Whoever sits on a logical rank and has its shard uses that; it must not be written again. Otherwise the first who has it
/// lends it.
fn sources(holders: &Holders, logical_ranks: &BTreeMap<LogicalRank, Rank>) -> Vec<(LogicalRank, Rank)> {
    let source = |(logical_rank, ranks): (&LogicalRank, &Vec<Rank>)| {
        let own = logical_ranks.get(logical_rank).filter(|rank| ranks.contains(rank));
        (*logical_rank, *own.unwrap_or(&ranks[0]))
    };
    holders.iter().map(source).collect()
}

/// Who sits where. Whoever has a member's shard keeps that logical rank, or one of them. Empty members' logical ranks go to
/// Who prefers them, then to spares, then to parity nodes; what is left over becomes parity node.
fn seated(
    plan: &Plan,
    reports: &BTreeMap<Rank, Report>,
    holders: &Holders,
) -> Result<BTreeMap<LogicalRank, Rank>, Refusal> {
    let mut logical_ranks: BTreeMap<LogicalRank, Rank> = BTreeMap::new();
    let mut free: BTreeSet<Rank> = reports.keys().copied().collect();
    // Members come first, so that who has a member's and a parity node's shard sits down as the member.
    let (members, parity_nodes): (Vec<_>, Vec<_>) =
        holders.iter().partition(|(logical_rank, _)| plan.is_member(**logical_rank));
    for (logical_rank, ranks) in members {
        if let Some(rank) = ranks.iter().copied().find(|rank| free.remove(rank)) {
            logical_ranks.insert(*logical_rank, rank);
        }
    }
    let holds_check: BTreeMap<Rank, LogicalRank> = parity_nodes
        .iter()
        .flat_map(|(logical_rank, ranks)| ranks.iter().map(|rank| (*rank, **logical_rank)))
        .collect();
    let prefers = |rank: &Rank| reports[rank].prefers;
    let empty = |logical_ranks: &BTreeMap<LogicalRank, Rank>, kind: bool| -> Vec<LogicalRank> {
        let all = (0..plan.logical_ranks() as u32).map(LogicalRank);
        all.filter(|logical_rank| plan.is_member(*logical_rank) == kind && !logical_ranks.contains_key(logical_rank))
            .collect()
    };
    for logical_rank in empty(&logical_ranks, true) {
        if let Some(rank) = free.iter().copied().find(|rank| prefers(rank) == Some(logical_rank)) {
            free.remove(&rank);
            logical_ranks.insert(logical_rank, rank);
        }
    }
    // Spares first, processes that hold nothing next, parity nodes of checks last (D8).
    let reluctance = |rank: &Rank| (holds_check.contains_key(rank), prefers(rank).is_some(), *rank);
    for logical_rank in empty(&logical_ranks, true) {
        let Some(rank) = free.iter().copied().min_by_key(reluctance) else {
            return Err(Refusal::TooFew { members: plan.members() as u32, present: reports.len() as u32 });
        };
        free.remove(&rank);
        logical_ranks.insert(logical_rank, rank);
    }
    for (rank, logical_rank) in holds_check {
        if !logical_ranks.contains_key(&logical_rank) && free.remove(&rank) {
            logical_ranks.insert(logical_rank, rank);
        }
    }
    for logical_rank in empty(&logical_ranks, false) {
        let wish = free.iter().copied().find(|rank| prefers(rank) == Some(logical_rank));
        let Some(rank) = wish.or_else(|| free.first().copied()) else { break };
        free.remove(&rank);
        logical_ranks.insert(logical_rank, rank);
    }
    Ok(logical_ranks)
}

#[cfg(test)]
mod tests;
