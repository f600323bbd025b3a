//! The report of a run at its end.

use super::{Cluster, Failure, Host, RunOutcome};
use standfast_group::Rank;

impl Cluster<'_> {
    pub(super) fn sketch(&self) -> String {
        let host = |(rank, host): (&Rank, &Host)| {
            let protocol = host.process.protocol();
            format!("{}: {:?} at {}, {:?}", rank.0, protocol.logical_rank(), host.last_epoch, protocol.stage())
        };
        self.hosts.iter().map(host).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn end(mut self) -> Result<RunOutcome, Failure> {
        for host in self.hosts.values() {
            let Some(logical_rank) = host.process.protocol().logical_rank() else { continue };
            self.outcome.steady.insert(logical_rank, host.shard_store.pages());
            if let Some(program) = &host.program {
                self.outcome.program.insert(logical_rank, program.pages());
            }
            let done = !self.scenario.plan.is_member(logical_rank) || host.last_epoch >= self.scenario.epochs;
            if !done && !self.outcome.refused {
                return Err(Failure(format!("{logical_rank:?} comes to no end; {}", self.sketch())));
            }
        }
        Ok(self.outcome)
    }

    pub(super) fn note_pages(&mut self, rank: Rank) {
        let Some(host) = self.hosts.get(&rank) else { return };
        let Some(logical_rank) = host.process.protocol().logical_rank() else { return };
        if self.scenario.habits.steady.is_some() {
            let (own, checks) = host.shard_store.pages();
            let peak = self.outcome.peaks.entry(logical_rank).or_default();
            *peak = (peak.0.max(own), peak.1.max(checks));
        }
    }
}
