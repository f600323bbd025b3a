//! Failures: which process fails, what the code still tolerates, and how the others continue.

use super::{Cluster, Failure, Happening, Node};
use standfast_group::{LogicalRank, MemoryShardStore, Rank, RecoveryMode, ShardId, ShardStore, Stage};
use std::collections::BTreeSet;

impl Cluster<'_> {
    /// Lets a node or a disk fail.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        if self.outcome.refused || self.hosts.len() < 2 || self.kills_left == 0 {
            return Ok(());
        }
        // In place there is nothing to roll back to yet, and the run would be over. That is mostly not of interest.
        let begun = self.promised.is_some() || self.scenario.plan.recovery_mode() == RecoveryMode::Relaunch;
        if !begun && self.random.u8(..8) > 0 {
            let later = self.random.u64(1..5_000);
            self.agenda.after(later, Happening::Kill);
            return Ok(());
        }
        self.kills_left -= 1;
        if self.scenario.plan.recovery_mode() == RecoveryMode::Relaunch && self.random.u8(..4) == 0 {
            // A crash in which the memory of all nodes survives.
            self.outcome.kills += 1;
            return self.begin_again(None);
        }
        let ranks: Vec<Rank> = self.hosts.keys().copied().collect();
        let victim = ranks[self.random.usize(..ranks.len())];
        let disk = self.random.u8(..5) == 0;
        if !self.tolerates(victim) {
            if self.random.u32(..100) >= self.scenario.beyond_percent {
                return Ok(());
            }
            self.beyond = true;
        }
        self.outcome.kills += 1;
        if disk {
            let choice = self.random.usize(..);
            self.damaged = true;
            self.hosts.get_mut(&victim).expect("it was chosen").shard_store.damage(choice);
            self.lose_logical_ranks(victim);
            return self.begin_again(None);
        }
        self.lose_logical_ranks(victim);
        let lost = self.hosts.remove(&victim).expect("it was chosen");
        self.begin_again(Some(lost.shard_store))
    }

    /// Continues after a failure. In place the others are informed; otherwise all processes start again, and a node that
    /// was away may come back with all that it had.
    pub(super) fn begin_again(&mut self, lost: Option<MemoryShardStore>) -> Result<(), Failure> {
        let back = (self.random.u8(..3) == 0).then(|| self.away.pop()).flatten();
        let gone = usize::from(lost.is_some());
        if self.random.bool() {
            self.away.extend(lost);
        }
        match self.scenario.plan.recovery_mode() {
            RecoveryMode::InPlace => {
                if self.random.u8(..3) == 0 {
                    self.add_host(Node { shard_store: back.unwrap_or_default(), ..Node::default() });
                }
                self.assemble();
            }
            RecoveryMode::Relaunch => {
                self.agenda.retain(|happening| matches!(happening, Happening::Kill));
                let served: Vec<_> = self.hosts.keys().map(|rank| self.groups_of(*rank)).collect();
                let hosts = std::mem::take(&mut self.hosts).into_values().zip(served);
                let mut nodes: Vec<Node> =
                    hosts.map(|(host, served)| Node { shard_store: host.shard_store, served }).collect();
                nodes.extend(vec![Node::default(); gone]);
                nodes.extend(back.map(|shard_store| Node { shard_store, ..Node::default() }));
                self.launch(nodes);
            }
        }
        Ok(())
    }

    /// Reports whether every group still tolerates the loss of this host's shards.
    pub(super) fn tolerates(&self, victim: Rank) -> bool {
        self.groups_of(victim).into_iter().all(|group| {
            let tolerance = self.scenario.plan.layout(group).code().tolerance() as u32;
            let vacated =
                self.vacated.iter().filter(|logical_rank| self.scenario.plan.place(**logical_rank).0 == group).count()
                    as u32;
            self.lost.get(&group).copied().unwrap_or(0) + vacated < tolerance
        })
    }

    /// Records vacated logical ranks: a parity node that takes a member's logical rank leaves its own, possibly in
    /// another group.
    pub(super) fn note_vacated(&mut self, rank: Rank) {
        let protocol = self.hosts[&rank].process.protocol();
        if let Stage::Sealing(work) = protocol.stage()
            && work.recovery
        {
            let logical_ranks = (0..self.scenario.plan.logical_ranks() as u32).map(LogicalRank);
            let vacated = logical_ranks.filter(|logical_rank| {
                !protocol.logical_ranks().contains_key(logical_rank) && !self.empty.contains(logical_rank)
            });
            self.vacated = vacated.collect();
        }
    }

    pub(super) fn lose_logical_ranks(&mut self, victim: Rank) {
        self.has_lost = true;
        for group in self.groups_of(victim) {
            *self.lost.entry(group).or_default() += 1;
        }
    }

    /// Returns the groups of which a host has shards, or in which it has or had a logical rank.
    fn groups_of(&self, rank: Rank) -> BTreeSet<usize> {
        let host = &self.hosts[&rank];
        let shards = host.shard_store.shards().map(|shard| shard.logical_rank);
        let logical_ranks = shards.chain(host.process.protocol().logical_rank());
        logical_ranks
            .map(|logical_rank| self.scenario.plan.place(logical_rank).0)
            .chain(host.served.iter().copied())
            .collect()
    }

    /// Records that all losses are repaired, except those of empty logical ranks, once all processes keep the same epoch
    /// again and continue.
    pub(super) fn note_wholeness(&mut self) {
        if !self.has_membership {
            return;
        }
        let mut taken = BTreeSet::new();
        for host in self.hosts.values() {
            let protocol = host.process.protocol();
            let works = match protocol.stage() {
                Stage::Idle => true,
                Stage::Working(work) | Stage::Sealing(work) | Stage::Sealed(work) => !work.recovery,
                _ => false,
            };
            let shard = protocol
                .kept()
                .zip(protocol.logical_rank())
                .map(|(epoch, logical_rank)| ShardId { epoch, logical_rank });
            if !works
                || protocol.term().membership != self.membership
                || shard.is_some_and(|shard| !host.shard_store.has(shard))
            {
                return;
            }
            taken.extend(protocol.logical_rank());
        }
        self.has_membership = false;
        self.lost.clear();
        self.vacated.clear();
        self.hosts.values_mut().for_each(|host| host.served.clear());
        self.empty = (0..self.scenario.plan.logical_ranks() as u32)
            .map(LogicalRank)
            .filter(|logical_rank| !taken.contains(logical_rank))
            .collect();
        for logical_rank in &self.empty {
            *self.lost.entry(self.scenario.plan.place(*logical_rank).0).or_default() += 1;
        }
        (self.beyond, self.damaged, self.has_lost) = (false, false, false);
    }
}
