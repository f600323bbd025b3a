//! A restart of all parts, as the coordinator steers it. No part begins a phase before all have finished the one before it:
//! nobody connects where nobody listens yet, and no program runs before all are complete.

use crate::{CoordinatorEffect, CoordinatorEvent, FromPart, PartIndex, RestartBarrier, ToPart};

/// A restart under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartsRestart {
    /// The phase that all are in.
    phase: RestartBarrier,
    /// Which parts have finished it.
    finished: Vec<bool>,
    /// Whether the queues of a part have taken less than before, so that connections are to be filled once more.
    is_short: bool,
    /// Which parts have failed or cannot be reached.
    gone: Vec<bool>,
    outcome: Option<RestartOutcome>,
}

/// How a restart has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RestartOutcome {
    /// All parts run.
    Running,
    /// No part runs, or those that do are to be ended.
    GivenUp {
        /// The part that was the first to fail, if it was one.
        part: Option<PartIndex>,
        /// Why, for people.
        reason: String,
    },
}

impl PartsRestart {
    /// Begins a restart of this number of parts, all of which have been asked for it.
    pub fn begin(parts: usize) -> Self {
        Self {
            phase: RestartBarrier::Listening,
            finished: vec![false; parts],
            is_short: false,
            gone: vec![false; parts],
            outcome: None,
        }
    }

    /// Returns how it has ended.
    pub fn outcome(&self) -> Option<&RestartOutcome> {
        self.outcome.as_ref()
    }

    /// Takes an event in, and returns what is to be done.
    pub fn take(&mut self, event: CoordinatorEvent) -> Vec<CoordinatorEffect> {
        if self.outcome.is_some() {
            return Vec::new();
        }
        match event {
            CoordinatorEvent::Said(part, FromPart::Reached { phase })
                if phase == self.phase && !self.finished[part] =>
            {
                self.finished[part] = true;
                self.go_on()
            }
            CoordinatorEvent::Said(part, FromPart::Short)
                if self.phase == RestartBarrier::Connected && !self.finished[part] =>
            {
                (self.finished[part], self.is_short) = (true, true);
                self.go_on()
            }
            CoordinatorEvent::Said(part, FromPart::Failed { reason }) => {
                self.gone[part] = true;
                self.give_up(Some(part), reason)
            }
            CoordinatorEvent::Said(part, said) => {
                self.give_up(Some(part), format!("it said what was not its turn to say: {said:?}"))
            }
            CoordinatorEvent::Lost(part) => {
                self.gone[part] = true;
                self.give_up(Some(part), "the connection to it was lost".to_owned())
            }
            CoordinatorEvent::TimeUp => {
                let late = self.finished.iter().position(|is_finished| !is_finished);
                self.give_up(late, "it took too long".to_owned())
            }
        }
    }

    fn go_on(&mut self) -> Vec<CoordinatorEffect> {
        if !self.finished.iter().all(|is_finished| *is_finished) {
            return Vec::new();
        }
        let message = if std::mem::take(&mut self.is_short) { ToPart::Again } else { ToPart::Continue };
        match self.phase {
            _ if message == ToPart::Again => {}
            RestartBarrier::Listening => self.phase = RestartBarrier::Connected,
            RestartBarrier::Connected => self.phase = RestartBarrier::Rebuilt,
            RestartBarrier::Rebuilt => self.phase = RestartBarrier::Ready,
            RestartBarrier::Ready => self.outcome = Some(RestartOutcome::Running),
        }
        self.finished.fill(false);
        (0..self.finished.len()).map(|to| CoordinatorEffect { to, message: message.clone() }).collect()
    }

    fn give_up(&mut self, part: Option<PartIndex>, reason: String) -> Vec<CoordinatorEffect> {
        let others = (0..self.finished.len()).filter(|to| !self.gone[*to]);
        let message = ToPart::GiveUp { reason: reason.clone() };
        let effects = others.map(|to| CoordinatorEffect { to, message: message.clone() }).collect();
        self.outcome = Some(RestartOutcome::GivenUp { part, reason });
        effects
    }
}
