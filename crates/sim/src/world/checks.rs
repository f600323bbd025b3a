//! The invariants of every state of the model, and the key that identifies a state.

use super::{Host, Model, ProtocolFault, Violation, Work, World, survey, tolerance};
use standfast_core::Checksum;
use standfast_group::{EpochId, LogicalRank, Protocol, Rank, RecoveryMode, Rejected, Report, decide};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

impl World {
    /// Reports whether nothing is in progress and every logical rank has the shard that it keeps.
    pub(super) fn is_whole(&self, model: &Model) -> bool {
        let quiet = self.links.is_empty() && self.hosts.values().all(|host| host.work.is_empty() && !host.unreported);
        let shards = |protocol: &Protocol| usize::from(protocol.newest() != protocol.kept()) + 1;
        let is_whole = |host: &&Host| host.shard_store.shards.len() == shards(&host.protocol);
        let kept = self.hosts.values().filter(|host| host.protocol.logical_rank().is_some()).filter(is_whole);
        quiet && kept.count() == model.plan.logical_ranks()
    }

    /// Checks the invariants of every state.
    ///
    /// # Errors
    /// [`Violation`]
    pub fn check(&self, model: &Model) -> Result<(), Violation> {
        if self.missing <= tolerance(&model.plan) {
            self.check_recoverable(model)?;
        }
        let idle = self.progress(model).is_empty();
        let enough = self.hosts.len() >= model.plan.members() && self.missing <= tolerance(&model.plan);
        // In place, the job cannot begin again if nothing was promised yet.
        let may_refuse = !enough || (self.promised.is_none() && model.plan.recovery_mode() == RecoveryMode::InPlace);
        let done = self.hosts.values().all(|host| {
            host.protocol.logical_rank().is_none_or(|logical_rank| !model.plan.is_member(logical_rank))
                || host.last_epoch >= model.epochs
        });
        if (idle && !done && !self.is_refused()) || (self.is_refused() && !may_refuse) {
            return Err(Violation::Stuck(self.sketch()));
        }
        Ok(())
    }

    pub(super) fn sketch(&self) -> String {
        let host = |(rank, host): (&Rank, &Host)| {
            let (logical_rank, stage) = (host.protocol.logical_rank(), host.protocol.stage());
            let (shards, work) = (&host.shard_store.shards, &host.work);
            let last = host.last_epoch;
            format!("process {}: {logical_rank:?} {stage:?}, shards {shards:?}, work {work:?}, at {last}", rank.0)
        };
        let hosts: Vec<String> = self.hosts.iter().map(host).collect();
        format!("{} failures, promised {:?}; {}", self.missing, self.promised, hosts.join("; "))
    }

    /// Checks that after every further tolerated loss there is an epoch to roll back to, no older than any from which an
    /// application continued.
    pub(super) fn check_recoverable(&self, model: &Model) -> Result<(), Violation> {
        let age = |epoch: EpochId| (epoch.life, epoch.number);
        let spare = tolerance(&model.plan) - self.missing;
        let ranks: Vec<Rank> = self.hosts.keys().copied().collect();
        for bits in 0..1_u32 << ranks.len() {
            if bits.count_ones() > spare {
                continue;
            }
            let mut reports = BTreeMap::new();
            for (index, rank) in ranks.iter().enumerate() {
                let mut report = Report { started: true, ..Report::default() };
                if bits >> index & 1 == 0 {
                    report.holdings = survey(model, &self.hosts[rank].shard_store).holdings;
                }
                reports.insert(*rank, report);
            }
            // Whether there are enough processes is another question.
            reports.extend((0..8).map(|extra| (Rank(u32::MAX - extra), Report::default())));
            let is_lossless = self.missing == 0 && bits == 0;
            let Some(promised) = (if is_lossless { self.promised } else { self.encoded }) else { continue };
            let found = decide(&model.plan, &reports, &Rejected::new());
            let good = found.as_ref().is_ok_and(|restore| {
                restore.epoch.is_some_and(|epoch| epoch == promised || age(epoch) > age(promised))
            });
            if !good && model.plant != Some(ProtocolFault::IdIgnored) {
                let lost: Vec<_> = (0..ranks.len()).filter(|index| bits >> index & 1 == 1).collect();
                let what = format!("{promised} was promised; without {lost:?} of {ranks:?} there is {found:?}");
                return Err(Violation::Unrecoverable(what));
            }
        }
        Ok(())
    }

    /// Returns the key of the state; states with equal keys are one.
    pub fn key(&self, model: &Model) -> u128 {
        if !model.symmetric {
            return hash_of(self);
        }
        assert!(!model.messages && !model.returns, "links have names in them, and so have shards of who comes back");
        let coordinator = self.membership.coordinator();
        let logical_ranks = |host: &Host, logical_rank: LogicalRank| {
            (Some(logical_rank) == host.protocol.logical_rank(), model.plan.is_member(logical_rank))
        };
        let mut hosts: Vec<u128> = Vec::new();
        for (rank, host) in &self.hosts {
            let shards: BTreeSet<_> =
                host.shard_store.shards.iter().map(|((e, s), p)| (*e, logical_ranks(host, *s), *p)).collect();
            let work: Vec<_> = host.work.iter().map(sketch_of).collect();
            let logical_rank = host.protocol.logical_rank().map(|logical_rank| model.plan.is_member(logical_rank));
            let own =
                (*rank == coordinator, logical_rank, host.shard_store.life, host.shard_store.promised, shards, work);
            let kept = (host.protocol.kept(), host.protocol.newest());
            let stage = (host.protocol.stage(), kept, host.last_epoch, host.refused);
            hosts.push(hash_of(&(own, stage)));
        }
        hosts.sort_unstable();
        let member = |logical_rank: LogicalRank| model.plan.is_member(logical_rank);
        let away: Vec<BTreeSet<_>> =
            self.away.iter().map(|it| it.shards.iter().map(|((e, s), m)| (*e, member(*s), *m)).collect()).collect();
        let left = (self.kills_left, self.crashes_left, self.missing);
        let rest = (self.membership.number, left, self.promised, self.encoded, self.rolled_back);
        hash_of(&(hosts, away, rest))
    }
}

pub(super) fn sketch_of(work: &Work) -> (u8, Option<EpochId>, Option<EpochId>) {
    match work {
        Work::Survey => (0, None, None),
        Work::Encode(epoch, base, _) => (1, Some(*epoch), *base),
        Work::Rebuild(epoch, _) => (2, Some(*epoch), None),
        Work::Seal { epoch, .. } => (3, Some(*epoch), None),
        Work::Acknowledge(epoch) => (4, Some(*epoch), None),
        Work::Keep(epoch, ..) => (5, *epoch, None),
        Work::Stage(epoch, base) => (6, Some(*epoch), Some(*base)),
    }
}

/// All bytes that a value writes to be hashed. They are hashed to 128 bits at once, since exploring does little else.
pub(super) struct Written(Vec<u8>);

/// Most values write no more.
pub(super) const USUAL_BYTES: usize = 1024;

impl Hasher for Written {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        self.sum() as u64
    }
}

impl Written {
    fn sum(&self) -> u128 {
        u128::from_le_bytes(Checksum::of(&self.0).to_bytes())
    }
}

pub(super) fn hash_of(value: &impl Hash) -> u128 {
    let mut written = Written(Vec::with_capacity(USUAL_BYTES));
    value.hash(&mut written);
    written.sum()
}
