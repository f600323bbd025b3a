//! When somebody is notified: no checkpoint has been taken for longer than a limit, although some were tried; and when one
//! is taken again.

use super::conditions::Condition;
use super::{Effect, Machine};
use std::time::{Duration, Instant};

/// Who wants to know, and what was said.
#[derive(Debug)]
pub(super) struct Notifying {
    /// Time without a checkpoint after which somebody is notified; `None` if nobody wants to know.
    after: Option<Duration>,
    /// When the last checkpoint was taken, or the life began.
    since: Instant,
    is_notified: bool,
}

impl Notifying {
    pub(super) fn new(after: Option<Duration>, now: Instant) -> Self {
        Self { after, since: now, is_notified: false }
    }

    /// Returns when somebody will be notified, if checkpoints go on to fail.
    fn due(&self) -> Option<Instant> {
        self.after.filter(|_| !self.is_notified).map(|after| self.since + after)
    }
}

impl Machine {
    /// Returns when somebody is to be notified of checkpoints that fail; `None` while they do not.
    pub(super) fn notification_due(&self) -> Option<Instant> {
        self.reported.reason(Condition::NotTaken).and_then(|_| self.notifying.due())
    }

    /// Notifies of checkpoints that have failed for too long.
    pub(super) fn notify(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.notification_due().is_none_or(|due| due > now) {
            return;
        }
        let Some(reason) = self.reported.reason(Condition::NotTaken).cloned() else { return };
        self.notifying.is_notified = true;
        effects.push(Effect::Notify { is_protected: false, reason });
    }

    /// Notes that a checkpoint was taken, and notifies whoever was told that none was.
    pub(super) fn note_protected(&mut self, generation: u64, now: Instant, effects: &mut Vec<Effect>) {
        self.notifying.since = now;
        if std::mem::take(&mut self.notifying.is_notified) {
            effects.push(Effect::Notify { is_protected: true, reason: format!("checkpoint {generation} was taken") });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    const NOBODY: [bool; 0] = [];

    #[test]
    fn somebody_is_told_once_of_failures_that_last_and_once_of_their_end() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let flushes = FlushSchedule::new(Default::default(), Default::default(), begun);
        let settings = Settings { has_memory: false, ..Settings::imagined() };
        let settings = settings.notifying(Some(Duration::from_secs(10)));
        let mut machine = Machine::new(settings, flushes, None, begun);
        let told = |effects: Vec<Effect>| {
            let notified = |effect| match effect {
                Effect::Notify { is_protected, .. } => Some(is_protected),
                _ => None,
            };
            effects.into_iter().filter_map(notified).collect::<Vec<_>>()
        };
        assert_eq!(told(machine.on(Event::Tick, at(20))), NOBODY, "nothing has failed: this begins a checkpoint");
        let failure =
            || Failed { reason: "no room".to_owned(), attempt: AttemptEnd::Failed, is_disabled: false, is_end: false };
        assert_eq!(told(machine.on(Event::CheckpointEnded(Err(failure())), at(20))), NOBODY);
        assert_eq!(machine.due(), Some(at(10)), "it has been due for long");
        assert_eq!(told(machine.on(Event::Tick, at(20))), [false]);
        assert_eq!(told(machine.on(Event::Tick, at(21))), NOBODY);
        let taken = TakenFacts::imagined(1, Level::Directory);
        assert_eq!(told(machine.on(Event::CheckpointEnded(Ok(taken)), at(22))), [true]);
        assert_eq!(told(machine.on(Event::Tick, at(23))), NOBODY);
        assert_eq!(told(machine.on(Event::CheckpointEnded(Err(failure())), at(24))), NOBODY);
        assert_eq!(machine.due(), Some(at(25)), "the next checkpoint");
        assert_eq!(told(machine.on(Event::Tick, at(31))), NOBODY);
    }
}
