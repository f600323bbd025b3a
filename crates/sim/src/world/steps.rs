//! The steps that are possible in a state of the model.

use super::{Model, Step, Work, World, has_done, tolerance};
use standfast_group::{EpochId, LogicalRank, Rank};

impl World {
    /// Returns all possible steps.
    pub fn steps(&self, model: &Model) -> Vec<Step> {
        let mut steps = self.progress(model);
        self.kills(model, &mut steps);
        steps
    }

    /// Returns the possible steps without a failure.
    pub(super) fn progress(&self, model: &Model) -> Vec<Step> {
        let reported =
            self.hosts.iter().filter(|(_, host)| host.unreported).map(|(rank, _)| Step::ReportMembership(*rank));
        let alive = |rank: &Rank| self.hosts.contains_key(rank);
        let full = self.links.iter().filter(|((_, to), link)| alive(to) && !link.is_empty());
        let messages = full.map(|((from, to), _)| Step::Deliver(*from, *to));
        let work = self.hosts.iter().filter(|(rank, _)| self.can_complete(model, **rank));
        reported.chain(messages).chain(work.map(|(rank, _)| Step::Complete(*rank))).collect()
    }

    pub(super) fn kills(&self, model: &Model, steps: &mut Vec<Step>) {
        if self.crashes_left > 0 && !self.is_refused() {
            steps.extend(self.hosts.keys().map(|rank| Step::Crash(*rank)));
        }
        let tolerates = model.beyond || self.missing < tolerance(&model.plan);
        if self.kills_left > 0 && tolerates && !self.is_refused() {
            for victim in self.hosts.keys() {
                let others = self.hosts.keys().filter(|rank| *rank != victim);
                for coordinator in others {
                    steps.push(Step::Kill { victim: *victim, coordinator: *coordinator, back: false });
                    if !self.away.is_empty() {
                        steps.push(Step::Kill { victim: *victim, coordinator: *coordinator, back: true });
                    }
                }
            }
        }
    }

    /// Reports whether work on bytes can end: only when all processes that contribute bytes have begun.
    pub(super) fn can_complete(&self, model: &Model, rank: Rank) -> bool {
        let host = &self.hosts[&rank];
        let group_of = |logical_rank: &LogicalRank| model.plan.place(*logical_rank).0;
        let began = |rank: &Rank, epoch: EpochId| {
            let Some(host) = self.hosts.get(rank) else { return false };
            let has = |work: &Work| match work {
                Work::Encode(of, ..) | Work::Rebuild(of, _) => *of == epoch,
                _ => false,
            };
            host.protocol.term() == self.hosts[&self.membership.coordinator()].protocol.term()
                && (host.work.iter().any(has) || has_done(host.protocol.stage(), epoch))
        };
        match host.work.front() {
            None => false,
            Some(Work::Encode(epoch, _, logical_ranks)) => {
                let mine = logical_ranks
                    .iter()
                    .find(|(_, holder)| *holder == rank)
                    .map(|(logical_rank, _)| group_of(logical_rank));
                let Some(mine) = mine else { return true };
                logical_ranks
                    .iter()
                    .filter(|(logical_rank, _)| group_of(logical_rank) == mine)
                    .all(|(_, holder)| began(holder, *epoch))
            }
            Some(Work::Rebuild(epoch, restore)) => {
                let all = restore.logical_ranks.iter().chain(&restore.sources);
                all.clone().filter(|(_, holder)| *holder == rank).all(|(logical_rank, _)| {
                    let mine = group_of(logical_rank);
                    all.clone()
                        .filter(|(logical_rank, _)| group_of(logical_rank) == mine)
                        .all(|(_, holder)| began(holder, *epoch))
                })
            }
            Some(_) => true,
        }
    }
}
