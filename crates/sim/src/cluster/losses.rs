//! Failures: who is struck, what the code still bears, and how the others go on.

use super::{Cluster, Failure, Happening, Node};
use standfast_group::{MemoryShelf, PieceId, Rank, Seat, Shelf, Stage, WayBack};
use std::collections::BTreeSet;

impl Cluster<'_> {
    /// A node fails, or a disk does.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        if self.outcome.refused || self.hosts.len() < 2 || self.kills_left == 0 {
            return Ok(());
        }
        // In place there is nothing to go back to yet, and the run would be over: mostly that is not what is looked for.
        let begun = self.promised.is_some() || self.scenario.plan.way_back() == WayBack::Relaunch;
        if !begun && self.random.u8(..8) > 0 {
            let later = self.random.u64(1..5_000);
            self.agenda.after(later, Happening::Kill);
            return Ok(());
        }
        self.kills_left -= 1;
        if self.scenario.plan.way_back() == WayBack::Relaunch && self.random.u8(..4) == 0 {
            // A crash that leaves the memory of all nodes whole.
            self.outcome.kills += 1;
            return self.begin_again(None);
        }
        let ranks: Vec<Rank> = self.hosts.keys().copied().collect();
        let victim = ranks[self.random.usize(..ranks.len())];
        let disk = self.random.u8(..5) == 0;
        if !self.bears(victim) {
            if self.random.u32(..100) >= self.scenario.beyond_percent {
                return Ok(());
            }
            self.beyond = true;
        }
        self.outcome.kills += 1;
        if disk {
            let choice = self.random.usize(..);
            self.damaged = true;
            self.hosts.get_mut(&victim).expect("it was chosen").shelf.damage(choice);
            self.lose_seats(victim);
            return self.begin_again(None);
        }
        self.lose_seats(victim);
        let lost = self.hosts.remove(&victim).expect("it was chosen");
        self.begin_again(Some(lost.shelf))
    }

    /// After a failure: in place the others are told; otherwise all begin anew, in which a node may come back that was
    /// away, with all that it had.
    pub(super) fn begin_again(&mut self, lost: Option<MemoryShelf>) -> Result<(), Failure> {
        let back = (self.random.u8(..3) == 0).then(|| self.away.pop()).flatten();
        let gone = usize::from(lost.is_some());
        if self.random.bool() {
            self.away.extend(lost);
        }
        match self.scenario.plan.way_back() {
            WayBack::InPlace => {
                if self.random.u8(..3) == 0 {
                    self.add_host(Node { shelf: back.unwrap_or_default(), ..Node::default() });
                }
                self.assemble();
            }
            WayBack::Relaunch => {
                self.agenda.retain(|happening| matches!(happening, Happening::Kill));
                let served: Vec<_> = self.hosts.keys().map(|rank| self.groups_of(*rank)).collect();
                let hosts = std::mem::take(&mut self.hosts).into_values().zip(served);
                let mut nodes: Vec<Node> = hosts.map(|(host, served)| Node { shelf: host.shelf, served }).collect();
                nodes.extend(vec![Node::default(); gone]);
                nodes.extend(back.map(|shelf| Node { shelf, ..Node::default() }));
                self.launch(nodes);
            }
        }
        Ok(())
    }

    /// Whether every group still bears the loss of what this host has.
    pub(super) fn bears(&self, victim: Rank) -> bool {
        self.groups_of(victim).into_iter().all(|group| {
            let tolerance = self.scenario.plan.layout(group).code().tolerance() as u32;
            let vacated = self.vacated.iter().filter(|seat| self.scenario.plan.place(**seat).0 == group).count() as u32;
            self.lost.get(&group).copied().unwrap_or(0) + vacated < tolerance
        })
    }

    /// A keeper that takes a member's seat leaves its own, maybe that of another group.
    pub(super) fn note_vacated(&mut self, rank: Rank) {
        let protocol = self.hosts[&rank].process.protocol();
        if let Stage::Sealing(work) = protocol.stage()
            && work.recovery
        {
            let seats = (0..self.scenario.plan.seats() as u32).map(Seat);
            let vacated = seats.filter(|seat| !protocol.seats().contains_key(seat) && !self.empty.contains(seat));
            self.vacated = vacated.collect();
        }
    }

    pub(super) fn lose_seats(&mut self, victim: Rank) {
        self.has_lost = true;
        for group in self.groups_of(victim) {
            *self.lost.entry(group).or_default() += 1;
        }
    }

    /// The groups of which a host has pieces, or in which it sits or sat.
    fn groups_of(&self, rank: Rank) -> BTreeSet<usize> {
        let host = &self.hosts[&rank];
        let pieces = host.shelf.pieces().map(|piece| piece.seat);
        let seats = pieces.chain(host.process.protocol().seat());
        seats.map(|seat| self.scenario.plan.place(seat).0).chain(host.served.iter().copied()).collect()
    }

    /// Once everybody keeps the same epoch again and works on, all losses are made good but those of empty seats.
    pub(super) fn note_wholeness(&mut self) {
        if !self.mustered {
            return;
        }
        let mut seated = BTreeSet::new();
        for host in self.hosts.values() {
            let protocol = host.process.protocol();
            let works = match protocol.stage() {
                Stage::Idle => true,
                Stage::Working(work) | Stage::Sealing(work) | Stage::Sealed(work) => !work.recovery,
                _ => false,
            };
            let piece = protocol.kept().zip(protocol.seat()).map(|(epoch, seat)| PieceId { epoch, seat });
            if !works || protocol.term().muster != self.muster || piece.is_some_and(|piece| !host.shelf.has(piece)) {
                return;
            }
            seated.extend(protocol.seat());
        }
        self.mustered = false;
        self.lost.clear();
        self.vacated.clear();
        self.hosts.values_mut().for_each(|host| host.served.clear());
        self.empty = (0..self.scenario.plan.seats() as u32).map(Seat).filter(|seat| !seated.contains(seat)).collect();
        for seat in &self.empty {
            *self.lost.entry(self.scenario.plan.place(*seat).0).or_default() += 1;
        }
        (self.beyond, self.damaged, self.has_lost) = (false, false, false);
    }
}
