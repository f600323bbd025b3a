//! Decides which checkpoints are followed by the rehearsal of a restart, and what is said of the outcome.

use super::told::Condition;
use super::{Effect, Machine};
use crate::event::JobEvent;
use crate::report::{LastRehearsal, RehearsalReport};
use crate::settings::Rehearse;

/// Rehearsals of this life.
#[derive(Debug, Default)]
pub(super) struct Rehearsals {
    is_under_way: bool,
    /// Checkpoints since the last rehearsal began.
    since: u32,
    last: Option<LastRehearsal>,
}

impl Rehearsals {
    /// Counts a checkpoint, and reports whether a rehearsal is to follow it.
    fn follow(&mut self, when: Rehearse) -> bool {
        self.since = self.since.saturating_add(1);
        let is_proven = matches!(self.last, Some(LastRehearsal::Passed(_)));
        let is_due = match when {
            Rehearse::Off => false,
            Rehearse::First => !is_proven,
            Rehearse::Every(number) => self.last.is_none() || self.since >= number.get(),
        };
        let begins = is_due && !self.is_under_way;
        if begins {
            (self.is_under_way, self.since) = (true, 0);
        }
        begins
    }

    /// Returns the outcome of the last one.
    pub(super) fn report(&self) -> Option<LastRehearsal> {
        self.last.clone()
    }
}

impl Machine {
    /// Begins a rehearsal behind a checkpoint, if one is to follow it.
    pub(super) fn rehearse(&mut self, effects: &mut Vec<Effect>) {
        if self.rehearsals.follow(self.settings.rehearse) {
            effects.push(Effect::BeginRehearsal);
        }
    }

    pub(super) fn end_rehearsal(&mut self, outcome: Result<RehearsalReport, String>, effects: &mut Vec<Effect>) {
        self.rehearsals.is_under_way = false;
        self.rehearsals.last = Some(match outcome {
            Ok(report) => {
                let was_told = self.told.end(Condition::NotRestartable);
                effects.push(Effect::Say(JobEvent::Rehearsed { generation: report.generation, was_told }));
                LastRehearsal::Passed(report)
            }
            Err(reason) => {
                if let Some(reason) = self.told.note(Condition::NotRestartable, Some(reason.clone())) {
                    effects.push(Effect::Say(JobEvent::NotRestartable { reason }));
                }
                LastRehearsal::Failed { reason }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed() -> LastRehearsal {
        let report = RehearsalReport { generation: 1, not_rebuilt: None, left_out: Vec::new(), notes: Vec::new() };
        LastRehearsal::Passed(report)
    }

    #[test]
    fn the_first_is_repeated_until_it_passes() {
        let mut rehearsals = Rehearsals::default();
        assert!(rehearsals.follow(Rehearse::First));
        assert!(!rehearsals.follow(Rehearse::First), "one is under way");
        rehearsals.is_under_way = false;
        rehearsals.last = Some(LastRehearsal::Failed { reason: String::new() });
        assert!(rehearsals.follow(Rehearse::First));
        (rehearsals.is_under_way, rehearsals.last) = (false, Some(passed()));
        assert!(!rehearsals.follow(Rehearse::First));
    }

    #[test]
    fn every_nth_begins_with_the_first() {
        let every = "every:3".parse().unwrap();
        let mut rehearsals = Rehearsals::default();
        let mut begun = Vec::new();
        for checkpoint in 1..=9 {
            if rehearsals.follow(every) {
                begun.push(checkpoint);
                (rehearsals.is_under_way, rehearsals.last) = (false, Some(passed()));
            }
        }
        assert_eq!(begun, [1, 4, 7]);
        assert!(!rehearsals.follow(Rehearse::Off));
    }
}
