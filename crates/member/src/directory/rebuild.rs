//! Rebuilds the missing shards of an epoch in a directory, without the program. It runs the protocol's own recovery, with
//! all logical ranks in this one process.

use super::{HeldEpoch, LevelDirectory};
use crate::error::MemberError;
use crate::settings::COSTS;
use crate::shard_store::{FileShardStore, make_durable};
use standfast_group::{
    Beginning, Effect, EpochId, Event, LogicalRank, Membership, Nothing, Plan, Process, Rank, Resumption, ShardId,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// The result of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The epoch.
    pub epoch: EpochId,
    /// The logical ranks that had no shard.
    pub logical_ranks: Vec<LogicalRank>,
}

/// Rebuilds the missing shards of the newest epoch that suffices. It verifies every shard, even if none is missing.
///
/// # Errors
/// [`MemberError`]: no epoch suffices; file system errors.
pub fn rebuild(directory: &Path) -> Result<Rebuilt, MemberError> {
    let place = LevelDirectory::new(directory);
    for held in place.epochs()? {
        if held.lacking()?.is_some() {
            continue;
        }
        match Workshop::open(&place, &held)?.work(held.epoch) {
            // A damaged shard of a local epoch cannot be rebuilt; the encoded one before it can.
            Err(MemberError::Refused(_)) if held.is_local() => {}
            rebuilt => return rebuilt,
        }
    }
    Err(MemberError::unusable(directory, "it holds too few shards to rebuild any epoch"))
}

/// All logical ranks of a job, in one process.
struct Workshop {
    logical_ranks: Vec<(Process, FileShardStore)>,
    events: VecDeque<(usize, Event)>,
    missing: Vec<LogicalRank>,
    place: LevelDirectory,
}

impl Workshop {
    fn open(place: &LevelDirectory, held: &HeldEpoch) -> Result<Self, MemberError> {
        let plan: Arc<Plan> = Arc::new(held.plan()?);
        let ranks = || (0..held.members() as u32).map(Rank);
        let logical_rank = |rank: Rank| -> Result<(Process, FileShardStore), MemberError> {
            let logical_rank = LogicalRank(rank.0);
            let path = place.place(ShardId { epoch: held.epoch, logical_rank });
            let shard_store = FileShardStore::open(&path, held.epoch.job, logical_rank, &held.plan)?;
            let beginning =
                Beginning { rank, prefers: Some(logical_rank), started: true, costs: COSTS, encode_every: 1 };
            let settings = standfast_group::ProcessSettings { beginning, compress: false, full: None };
            Ok((Process::new(plan.clone(), settings), shard_store))
        };
        let logical_ranks = ranks().map(logical_rank).collect::<Result<_, _>>()?;
        let membership = Membership { number: 1, present: ranks().collect() };
        let events = (0..held.members()).map(|at| (at, Event::Membership(membership.clone()))).collect();
        Ok(Self { logical_ranks, events, missing: held.missing(), place: place.clone() })
    }

    fn work(mut self, epoch: EpochId) -> Result<Rebuilt, MemberError> {
        let mut back = 0;
        while let Some((at, event)) = self.events.pop_front() {
            let (process, shard_store) = &mut self.logical_ranks[at];
            let effects = process.handle(event, &mut Nothing::default(), shard_store);
            for effect in effects {
                back += usize::from(self.act(at, effect, epoch)?);
            }
        }
        if back != self.logical_ranks.len() {
            return Err(MemberError::Disagreement("the rebuild did not complete".into()));
        }
        for logical_rank in &self.missing {
            make_durable(&self.place.place(ShardId { epoch, logical_rank: *logical_rank }))?;
        }
        self.place.prune()?;
        Ok(Rebuilt { epoch, logical_ranks: self.missing })
    }

    /// Executes an action of one of them. Reports whether it has rolled back to the epoch.
    fn act(&mut self, at: usize, effect: Effect, epoch: EpochId) -> Result<bool, MemberError> {
        let shard_store = &mut self.logical_ranks[at].1;
        let event = match effect {
            Effect::Send(to, bytes) => {
                self.events.push_back((to.0 as usize, Event::Message(Rank(at as u32), bytes)));
                return Ok(false);
            }
            Effect::Survey(membership) => Event::Surveyed(membership, shard_store.survey()),
            Effect::Seal(work) => {
                shard_store.seal(work)?;
                Event::Sealed(work.epoch)
            }
            Effect::Acknowledge(epoch) => {
                shard_store.acknowledge(epoch)?;
                Event::Acknowledged(epoch)
            }
            Effect::Keep { epoch, logical_rank, life } => {
                shard_store.keep(epoch, logical_rank, life)?;
                Event::Kept
            }
            Effect::Resume(Resumption::Rollback(to, _)) if to == epoch => return Ok(true),
            Effect::Resume(other) => {
                return Err(MemberError::Disagreement(format!("not what was asked for: {other:?}")));
            }
            Effect::Refuse(refusal) => return Err(refusal.into()),
            Effect::Leave(reason) => return Err(MemberError::Leave(reason)),
            Effect::Rejected(from, error) => {
                return Err(MemberError::Disagreement(format!("logical rank {}: {error}", from.0)));
            }
        };
        self.events.push_back((at, event));
        Ok(false)
    }
}
