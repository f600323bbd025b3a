//! Recovery decisions: from all reports, choose an epoch and a process for each logical rank. This is a pure function,
//! run by the coordinator alone.
//!
//! It takes the newest epoch whose sealed shards suffice in *every* group, whether or not any process has acknowledged
//! it: acknowledges lag behind. A local epoch needs every shard, and each must be with the process on its logical rank.
//! Shards belong to the same epoch only if life, number and random id agree. So if a process comes back from an abandoned
//! history, its shard is just a shard of another epoch.

use crate::identity::{EpochId, EpochLevel, Life, LogicalRank, Rank};
use crate::plan::Plan;
use crate::shard::ShardId;
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};

/// A sealed shard that a process has. Only recovery shows whether its pages are what was written.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Holding {
    /// The epoch.
    #[n(0)]
    pub epoch: EpochId,
    /// The logical rank.
    #[n(1)]
    pub logical_rank: LogicalRank,
    /// Whether the process has learned that all have sealed the epoch.
    #[n(2)]
    pub acknowledged: bool,
    /// The level of the epoch.
    #[n(3)]
    pub level: EpochLevel,
}

/// What a process reports before a recovery.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Report {
    /// The latest life that it knows.
    #[n(0)]
    pub life: Life,
    /// Whether the application may have run already, so that starting from the beginning would be a surprise.
    #[n(1)]
    pub started: bool,
    /// The logical rank that it prefers; `None` for a spare.
    #[n(2)]
    pub prefers: Option<LogicalRank>,
    /// Its sealed shards.
    #[n(3)]
    pub holdings: Vec<Holding>,
    /// Whether its storage shows that it was there when the job began and that nothing can have been promised since. A
    /// process learns that an epoch counts only after all have sealed it, and in a recovery after all have acknowledged
    /// it. Valid only if no later life has begun.
    #[n(4)]
    pub unpromised: bool,
}

impl Report {
    /// Removes a shard that proved damaged; reports whether it was in this report.
    pub(crate) fn loses(&mut self, shard: ShardId) -> bool {
        let before = self.holdings.len();
        self.holdings.retain(|it| (it.epoch, it.logical_rank) != (shard.epoch, shard.logical_rank));
        self.holdings.len() < before
    }
}

/// A decision about a recovery.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Restore {
    /// The life that begins.
    #[n(0)]
    pub life: Life,
    /// The epoch to roll back to; `None` at the very start of a job.
    #[n(1)]
    pub epoch: Option<EpochId>,
    /// The process on each logical rank from now on. A parity node's logical rank may stay empty, a member's never does.
    #[n(2)]
    pub logical_ranks: Vec<(LogicalRank, Rank)>,
    /// The process that provides each available shard. A process may hold the shard of another logical rank than the one
    /// it takes: then it lends it.
    #[n(3)]
    pub sources: Vec<(LogicalRank, Rank)>,
    /// The level of the epoch.
    #[n(4)]
    pub level: EpochLevel,
}

/// Why recovery is refused.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Refusal {
    /// The application had begun, and no shard of any epoch is left or was ever sealed.
    #[n(0)]
    #[error("there is no epoch to roll back to: the job had begun, and no member holds a readable sealed shard")]
    Nothing,
    /// There are shards, but not enough of any epoch.
    #[n(1)]
    #[error("epoch {epoch} cannot be recovered: group {group} lacks the shards of {} logical ranks, more than its code tolerates", .missing.len())]
    TooMuchLost {
        /// The newest epoch.
        #[n(0)]
        epoch: EpochId,
        /// The first group that lacks shards.
        #[n(1)]
        group: u32,
        /// Logical ranks of that group without a shard.
        #[n(2)]
        missing: Vec<LogicalRank>,
    },
    /// There are fewer processes than members.
    #[n(3)]
    #[error(
        "the application has {members} members and only {present} processes are here\nhint: add processes, then recover"
    )]
    TooFew {
        /// Members of the plan.
        #[n(0)]
        members: u32,
        /// Processes that are present.
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
        /// The reason.
        #[n(1)]
        reason: String,
    },
}

/// Epochs that could not be rebuilt in this membership, with the reasons. Some of them may no longer have any shards.
pub type Rejected = BTreeMap<EpochId, String>;

/// Decides from these reports what to recover.
///
/// # Errors
/// [`Refusal`] names the reason. No process has acted yet.
pub fn decide(plan: &Plan, reports: &BTreeMap<Rank, Report>, rejected: &Rejected) -> Result<Restore, Refusal> {
    let life = reports.values().map(latest_life).max().unwrap_or_default();
    let life = Life(life.0 + 1);
    let holdings =
        || reports.values().flat_map(|report| &report.holdings).filter(|holding| plan.has(holding.logical_rank));
    let named = holdings().map(|holding| (holding.epoch, holding.level)).collect::<BTreeSet<_>>();
    let mut epochs: Vec<_> = named.into_iter().collect();
    // The refusal of an encoded epoch says more, since local epochs are expected to be lost first.
    let (mut refusal, mut refusal_of_local) = (None, None);
    // Of two histories, the job continued with the one of the later life. Of epochs with the same life and number, at
    // most one was ever acknowledged, unless more was lost than is tolerated.
    let acknowledged: BTreeSet<_> =
        holdings().filter(|holding| holding.acknowledged).map(|holding| holding.epoch).collect();
    epochs.sort_by_key(|(epoch, _)| (epoch.life, epoch.number, acknowledged.contains(epoch), epoch.random));
    for (epoch, level) in epochs.into_iter().rev() {
        let refusal = if level == EpochLevel::Encoded { &mut refusal } else { &mut refusal_of_local };
        if let Some(reason) = rejected.get(&epoch) {
            // A failed attempt says more than missing shards.
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
        let logical_ranks = assigned(plan, reports, &holders)?;
        let sources = sources(&holders, &logical_ranks);
        let moves = sources
            .iter()
            .find(|(logical_rank, rank)| logical_ranks.get(logical_rank) != Some(rank))
            .map(|(logical_rank, _)| *logical_rank);
        match moves.filter(|_| level != EpochLevel::Encoded) {
            // A local shard is neither rebuilt nor handed over.
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
            let logical_ranks = assigned(plan, reports, &Holders::new())?.into_iter().collect();
            Ok(Restore { life, epoch: None, logical_ranks, sources: Vec::new(), level: EpochLevel::Encoded })
        }
    }
}

fn latest_life(report: &Report) -> Life {
    let held = report.holdings.iter().map(|holding| holding.epoch.life).max();
    held.unwrap_or_default().max(report.life)
}

/// The processes that have a shard of the recovered epoch, by logical rank: usually one each. A node that comes back has
/// a shard that another process has as well. If it has taken another logical rank, it has two shards until that recovery
/// is stable.
type Holders = BTreeMap<LogicalRank, Vec<Rank>>;

/// Returns the holders in order of preference: first processes that hold nothing else, then those that prefer the logical
/// rank.
///
/// A holder of a local epoch also needs the shard on which it is based.
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

/// Chooses the source of each shard. A process that has the shard of its own logical rank uses it, since it must not be
/// written again. Otherwise the first holder lends it.
fn sources(holders: &Holders, logical_ranks: &BTreeMap<LogicalRank, Rank>) -> Vec<(LogicalRank, Rank)> {
    let source = |(logical_rank, ranks): (&LogicalRank, &Vec<Rank>)| {
        let own = logical_ranks.get(logical_rank).filter(|rank| ranks.contains(rank));
        (*logical_rank, *own.unwrap_or(&ranks[0]))
    };
    holders.iter().map(source).collect()
}

/// Assigns the logical ranks. A process with a member's shard keeps that logical rank, or one of them. Empty logical
/// ranks of members go to the processes that prefer them, then to spares, then to parity nodes. The remaining processes
/// become parity nodes.
fn assigned(
    plan: &Plan,
    reports: &BTreeMap<Rank, Report>,
    holders: &Holders,
) -> Result<BTreeMap<LogicalRank, Rank>, Refusal> {
    let mut logical_ranks: BTreeMap<LogicalRank, Rank> = BTreeMap::new();
    let mut free: BTreeSet<Rank> = reports.keys().copied().collect();
    // Assign members first, so that a process with the shards of a member and of a parity node becomes the member.
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
