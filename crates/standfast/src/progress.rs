//! Reports the progress of long work, so that a wait of minutes does not look like a hang. The first report comes after
//! two seconds, and each later one after twice the previous time.

use crate::event::{JobEvent, LongWork};
use standfast_store::Progress;
use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time that work may take before it is reported.
const UNREPORTED_MAX: Duration = Duration::from_secs(2);

/// Schedule of the reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reports {
    due: Instant,
    pause: Duration,
}

impl Reports {
    /// Makes the schedule for work that begins now.
    pub(crate) fn begin(now: Instant) -> Self {
        Self { due: now + UNREPORTED_MAX, pause: UNREPORTED_MAX }
    }

    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Reports whether a report is due, and if so schedules the next one.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.pause *= 2;
            self.due = now + self.pause;
        }
        is_due
    }
}

/// Does `work` in a thread of its own, and reports from this one.
pub(crate) fn reported<T: Send>(
    progress: &Progress,
    what: LongWork,
    listener: &mut dyn FnMut(&JobEvent),
    work: impl FnOnce() -> T + Send,
) -> T {
    thread::scope(|scope| {
        let (running, ended) = channel::<()>();
        let worker = scope.spawn(move || {
            let _running = running;
            work()
        });
        let mut reports = Reports::begin(Instant::now());
        while ended.recv_timeout(reports.due().saturating_duration_since(Instant::now()))
            == Err(RecvTimeoutError::Timeout)
        {
            if reports.take_due(Instant::now()) {
                listener(&JobEvent::of_progress(what, progress));
            }
        }
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

impl JobEvent {
    /// Makes an event of the progress of work.
    pub(crate) fn of_progress(work: LongWork, progress: &Progress) -> Self {
        Self::Progress { work, done_bytes: progress.done_bytes(), total_bytes: progress.total_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_reported_after_2_s_and_then_at_doubled_delays() {
        let begun = Instant::now();
        let mut reports = Reports::begin(begun);
        let mut made = Vec::new();
        for seconds in 0..=31 {
            if reports.take_due(begun + Duration::from_secs(seconds)) {
                made.push(seconds);
            }
        }
        assert_eq!(made, [2, 6, 14, 30]);
    }

    #[test]
    fn short_work_is_not_reported() {
        let silent = &mut |event: &JobEvent| panic!("{event}");
        assert_eq!(reported(&Progress::default(), LongWork::Verifying { generation: 1 }, silent, || 7), 7);
    }
}
