//! Decides which checkpoints are followed by the rehearsal of a restart, and what is said of the outcome.

use super::conditions::Condition;
use super::{Effect, Machine};
use crate::event::JobEvent;
use crate::report::{LastRehearsal, RehearsalReport};
use crate::settings::Rehearse;
use std::time::{Duration, Instant};

/// How many times as long as the last rehearsal took there is none, unless every Nth checkpoint is to have one: a job that
/// cannot be restarted must not rehearse all the time.
const REST_FACTOR: u32 = 100;

/// Rehearsals of this life.
#[derive(Debug, Default)]
pub(super) struct Rehearsals {
    /// When the one under way began.
    under_way: Option<Instant>,
    /// When the next one may begin.
    not_before: Option<Instant>,
    /// Checkpoints since the last rehearsal began.
    since: u32,
    last: Option<LastRehearsal>,
}

impl Rehearsals {
    /// Counts a checkpoint, and reports whether a rehearsal is to follow it.
    fn follow(&mut self, when: Rehearse, now: Instant) -> bool {
        self.since = self.since.saturating_add(1);
        let is_proven = matches!(self.last, Some(LastRehearsal::Passed(_)));
        let is_due = match when {
            Rehearse::Off => false,
            Rehearse::First => !is_proven && self.not_before.is_none_or(|time| time <= now),
            Rehearse::Every(number) => self.last.is_none() || self.since >= number.get(),
        };
        let begins = is_due && self.under_way.is_none();
        if begins {
            (self.under_way, self.since) = (Some(now), 0);
        }
        begins
    }

    fn end(&mut self, outcome: Option<LastRehearsal>, now: Instant) {
        let took = self.under_way.take().map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
        self.not_before = now.checked_add(took * REST_FACTOR);
        self.last = outcome.or(self.last.take());
    }

    /// Returns the outcome of the last one.
    pub(super) fn report(&self) -> Option<LastRehearsal> {
        self.last.clone()
    }
}

impl Machine {
    /// Begins a rehearsal after a checkpoint, if one is to follow it.
    pub(super) fn rehearse(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.rehearsals.follow(self.settings.rehearse, now) {
            effects.push(Effect::BeginRehearsal);
        }
    }

    pub(super) fn end_rehearsal(
        &mut self,
        outcome: Option<Result<RehearsalReport, String>>,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let last = outcome.map(|outcome| match outcome {
            Ok(report) => {
                let was_reported = self.reported.end(Condition::NotRestartable);
                effects.push(Effect::Say(JobEvent::Rehearsed { generation: report.generation, was_reported }));
                LastRehearsal::Passed(report)
            }
            Err(reason) => {
                if let Some(reason) = self.reported.note(Condition::NotRestartable, Some(reason.clone())) {
                    effects.push(Effect::Say(JobEvent::NotRestartable { reason }));
                }
                LastRehearsal::Failed { reason }
            }
        });
        self.rehearsals.end(last, now);
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
    fn the_first_is_repeated_at_long_intervals_until_it_passes() {
        let (mut rehearsals, begun, second) = (Rehearsals::default(), Instant::now(), Duration::from_secs(1));
        assert!(rehearsals.follow(Rehearse::First, begun));
        assert!(!rehearsals.follow(Rehearse::First, begun), "one is under way");
        rehearsals.end(Some(LastRehearsal::Failed { reason: String::new() }), begun + second);
        assert!(!rehearsals.follow(Rehearse::First, begun + 100 * second), "the last one took a second");
        assert!(rehearsals.follow(Rehearse::First, begun + 101 * second));
        rehearsals.end(None, begun + 101 * second);
        assert!(rehearsals.follow(Rehearse::First, begun + 102 * second), "it was killed");
        rehearsals.end(Some(passed()), begun + 102 * second);
        assert!(!rehearsals.follow(Rehearse::First, begun + 1000 * second));
    }

    #[test]
    fn every_nth_begins_with_the_first() {
        let (every, now) = ("every:3".parse().unwrap(), Instant::now());
        let mut rehearsals = Rehearsals::default();
        let mut begun = Vec::new();
        for checkpoint in 1..=9 {
            if rehearsals.follow(every, now) {
                begun.push(checkpoint);
                rehearsals.end(Some(passed()), now);
            }
        }
        assert_eq!(begun, [1, 4, 7]);
        assert!(!rehearsals.follow(Rehearse::Off, now));
    }
}
