//! Checks soon after the start whether a checkpoint would succeed, so that users do not learn an hour later, at the
//! first checkpoint, that it cannot. The check neither stops nor touches the program. It also copies the files that the
//! program runs from, in case they are replaced before the first checkpoint.

use crate::background::Background;
use crate::checkpoint::{Destination, keep_code};
use crate::settings::Interval;
use standfast_engine::{EngineError, Freezer, rehearse};
use standfast_linux::DescriptorPassage;
use std::io;
use std::time::{Duration, Instant};

/// Time after which most programs hold what they are going to hold.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// Interval between checks if there are no periodic checkpoints.
const LOOKS: Duration = Duration::from_secs(600);

/// When to check, and what was found.
#[derive(Debug)]
pub(crate) struct Preflight {
    interval: Interval,
    due: Option<Instant>,
    checking: Option<Background<Result<(), EngineError>>>,
    /// Whether the last check found only blockers that may soon be gone.
    passing: bool,
}

impl Preflight {
    pub(crate) fn new(interval: Interval, now: Instant) -> Self {
        let first = match interval {
            Interval::Every(interval) if interval <= FIRST_LOOK => None,
            Interval::Every(_) | Interval::Auto | Interval::Off => Some(now + FIRST_LOOK),
        };
        Self { interval, due: first, checking: None, passing: false }
    }

    /// Returns when the next check is due. Returns `None` while one is under way, or if checkpoints themselves will
    /// report.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| self.checking.is_none())
    }

    /// Returns the check under way.
    pub(crate) fn checking(&self) -> Option<&Background<Result<(), EngineError>>> {
        self.checking.as_ref()
    }

    /// Begins `look` if it is due.
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

    /// Ends a check, and returns what would prevent a checkpoint, if anything. Blockers that may soon be gone count
    /// only if the next check still finds them.
    pub(crate) fn end(&mut self, now: Instant) -> Option<EngineError> {
        let seen = self.checking.take()?.join().ok()?;
        let was_passing = std::mem::take(&mut self.passing);
        self.due = match self.interval {
            Interval::Every(_) | Interval::Auto => None,
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

/// Checks a job.
pub(crate) fn look(destination: &Destination, freezer: &Freezer) -> Result<(), EngineError> {
    rehearse()?;
    // The first checkpoint will report errors of the disk.
    let _ = keep_code(destination, |file| freezer.has_copy_of(file), &freezer.code_files());
    // Then only a checkpoint can look at the descriptors.
    if DescriptorPassage::is_needed() {
        return Ok(());
    }
    let blockers = freezer.examine(destination.external_sockets)?;
    if blockers.is_empty() { Ok(()) } else { Err(EngineError::Refused(blockers)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_preflight_is_after_10_s_unless_a_checkpoint_is_due() {
        let now = Instant::now();
        let every = |seconds| Interval::Every(Duration::from_secs(seconds));
        assert_eq!(Preflight::new(Interval::Off, now).due(), Some(now + FIRST_LOOK));
        assert_eq!(Preflight::new(every(3600), now).due(), Some(now + FIRST_LOOK));
        assert_eq!(Preflight::new(every(10), now).due(), None);
    }

    #[test]
    fn a_preflight_of_an_ended_program_reports_nothing() {
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
