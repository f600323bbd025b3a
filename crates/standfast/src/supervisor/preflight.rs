//! What a checkpoint would say if it were taken now, told soon after the start: nobody should learn an hour later, at the
//! first checkpoint, that there can be none. The program is looked at and neither stopped nor touched. The files that it runs
//! from are copied by the way, should they be replaced before the first checkpoint.

use crate::background::Background;
use crate::checkpoint::{Destination, keep_code};
use crate::settings::Interval;
use standfast_engine::{EngineError, Freezer, rehearse};
use std::io;
use std::time::{Duration, Instant};

/// By then most programs hold what they are going to hold.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// Where no checkpoint is due by itself, the program is looked at this often.
const LOOKS: Duration = Duration::from_secs(600);

/// When to look, and what was seen.
#[derive(Debug)]
pub(crate) struct Preflight {
    interval: Interval,
    due: Option<Instant>,
    checking: Option<Background<Result<(), EngineError>>>,
    /// Whether the last look found only what may be gone in a moment.
    passing: bool,
}

impl Preflight {
    pub(crate) fn new(interval: Interval, now: Instant) -> Self {
        let first = match interval {
            Interval::Every(interval) if interval <= FIRST_LOOK => None,
            Interval::Every(_) | Interval::Off => Some(now + FIRST_LOOK),
        };
        Self { interval, due: first, checking: None, passing: false }
    }

    /// When the next look is due; `None` while one is under way, or where checkpoints themselves will tell.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| self.checking.is_none())
    }

    /// The look under way.
    pub(crate) fn checking(&self) -> Option<&Background<Result<(), EngineError>>> {
        self.checking.as_ref()
    }

    /// Begins `look` if that is due.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        look: impl FnOnce() -> Result<(), EngineError> + Send + 'static,
    ) -> io::Result<()> {
        if self.due().is_some_and(|due| due <= now) {
            self.due = None;
            self.checking = Some(Background::begin("preflight", look)?);
        }
        Ok(())
    }

    /// What the look has found in the way of a checkpoint, if anything. What may be gone in a moment counts only when the
    /// next look still finds it.
    pub(crate) fn end(&mut self, now: Instant) -> Option<EngineError> {
        let seen = self.checking.take()?.join().ok()?;
        let was_passing = std::mem::take(&mut self.passing);
        self.due = match self.interval {
            Interval::Every(_) => None,
            Interval::Off => Some(now + LOOKS),
        };
        match seen {
            Ok(()) | Err(EngineError::Ended) => None,
            Err(EngineError::Refused(blockers)) if !was_passing && blockers.iter().all(|it| it.passing) => {
                self.passing = true;
                self.due = Some(now + FIRST_LOOK);
                None
            }
            Err(problem) => Some(problem),
        }
    }
}

/// Looks at a job.
pub(crate) fn look(destination: &Destination, freezer: &Freezer) -> Result<(), EngineError> {
    rehearse()?;
    // What the disk refuses the first checkpoint will tell.
    let _ = keep_code(destination, |file| freezer.has_copy_of(file), &freezer.code_files());
    let blockers = freezer.examine(destination.external_sockets.policy())?;
    if blockers.is_empty() { Ok(()) } else { Err(EngineError::Refused(blockers)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_comes_after_ten_seconds_unless_a_checkpoint_comes_first() {
        let now = Instant::now();
        let every = |seconds| Interval::Every(Duration::from_secs(seconds));
        assert_eq!(Preflight::new(Interval::Off, now).due(), Some(now + FIRST_LOOK));
        assert_eq!(Preflight::new(every(3600), now).due(), Some(now + FIRST_LOOK));
        assert_eq!(Preflight::new(every(10), now).due(), None);
    }

    #[test]
    fn a_look_at_a_program_that_is_gone_finds_nothing_and_the_next_one_is_planned_where_no_checkpoint_is() {
        for (interval, planned) in [(Interval::Off, true), (Interval::Every(Duration::from_secs(60)), false)] {
            let now = Instant::now();
            let mut preflight = Preflight::new(interval, now);
            preflight.begin(now + FIRST_LOOK, || Err(EngineError::Ended)).unwrap();
            assert!(preflight.checking().is_some() && preflight.due().is_none());
            assert!(preflight.end(now).is_none());
            assert_eq!(preflight.due().is_some(), planned);
        }
    }
}
