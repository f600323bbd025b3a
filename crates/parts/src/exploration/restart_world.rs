//! A restart of all parts.

use super::{Links, PARTS, SEEDS, SEEDS_OF_REST, World, explore, wander_through};
use crate::{CoordinatorEvent, FromPart, PartIndex, PartsRestart, RestartBarrier, RestartOutcome, ToPart};

const PHASES: [RestartBarrier; 4] =
    [RestartBarrier::Listening, RestartBarrier::Connected, RestartBarrier::Rebuilt, RestartBarrier::Ready];

/// How far each part has come: the phases that it has finished, and whether it waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RestartWorld {
    restart: PartsRestart,
    finished: Vec<usize>,
    waits: Vec<bool>,
    has_ended: Vec<bool>,
    /// Whether the queues of the first part have taken less than before.
    was_short: bool,
    links: Links,
}

impl RestartWorld {
    fn new(parts: usize) -> Self {
        Self {
            restart: PartsRestart::begin(parts),
            finished: vec![0; parts],
            waits: vec![false; parts],
            has_ended: vec![false; parts],
            was_short: false,
            links: Links::new(parts),
        }
    }

    fn parts(&self) -> std::ops::Range<PartIndex> {
        0..self.finished.len()
    }

    fn runs(&self, part: PartIndex) -> bool {
        self.finished[part] == PHASES.len() && !self.waits[part]
    }

    fn is_under_way(&self, part: PartIndex) -> bool {
        !self.has_ended[part] && !self.runs(part)
    }
}

impl World for RestartWorld {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    fn steer(&mut self, event: CoordinatorEvent) {
        let effects = self.restart.take(event);
        self.links.tell(effects);
    }

    fn can_act(&self, part: PartIndex) -> bool {
        self.is_under_way(part) && (!self.waits[part] || self.links.hears(part))
    }

    fn can_fail(&self, part: PartIndex) -> bool {
        self.is_under_way(part) && !self.waits[part]
    }

    fn act(&mut self, part: PartIndex) {
        if self.waits[part] {
            self.waits[part] = false;
            match self.links.heard(part) {
                Some(ToPart::Continue) => {}
                Some(ToPart::Again) => self.finished[part] -= 1,
                _ => self.has_ended[part] = true,
            }
            return;
        }
        let phase = PHASES[self.finished[part]];
        self.finished[part] += 1;
        self.waits[part] = true;
        let may_be_short = part == 0 && phase == RestartBarrier::Connected;
        let is_short = may_be_short && !std::mem::replace(&mut self.was_short, true);
        self.links.say(part, if is_short { FromPart::Short } else { FromPart::Reached { phase } });
    }

    fn fail(&mut self, part: PartIndex) {
        self.has_ended[part] = true;
    }

    fn fault(&self, is_last: bool) -> Option<&'static str> {
        let is_complete = |finished: &usize| *finished == PHASES.len();
        let all_are_complete = self.finished.iter().all(is_complete);
        if self.parts().any(|part| self.runs(part) && !self.has_ended[part]) && !all_are_complete {
            return Some("a part runs before all are complete");
        }
        let begun = |part: PartIndex| self.finished[part] + usize::from(!self.waits[part]);
        let under_way = self.parts().filter(|part| !self.has_ended[*part]);
        let (furthest, last) = (under_way.map(begun).max(), self.finished.iter().min());
        if furthest.zip(last).is_some_and(|(furthest, last)| furthest > last + 1 && furthest <= PHASES.len()) {
            return Some("a part is in a phase for which another is not ready");
        }
        if is_last && self.parts().any(|part| self.is_under_way(part)) {
            return Some("a part waits for ever");
        }
        let all_run = self.parts().all(|part| self.runs(part) && !self.has_ended[part]);
        let is_said = matches!(self.restart.outcome(), Some(RestartOutcome::Running));
        (is_last && all_run && !is_said).then_some("nobody learns that all run")
    }
}

#[test]
fn every_order_of_events_of_a_restart_ends_well() {
    let worlds = explore(RestartWorld::new(PARTS)).unwrap();
    assert!(worlds > 1_000, "{worlds} worlds");
}

#[test]
fn random_orders_of_events_of_a_restart_end_well() {
    assert_eq!(wander_through(SEEDS, RestartWorld::new), Ok(()));
}

#[test]
#[ignore = "a minute; the first 2,000 seeds are in make test"]
fn many_random_orders_of_events_of_a_restart_end_well() {
    assert_eq!(wander_through(SEEDS_OF_REST, RestartWorld::new), Ok(()));
}
