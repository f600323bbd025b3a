//! Reports the progress of long work, so that a wait of minutes does not look like a hang. A first line is due after two
//! seconds, and each later one after twice the previous time. A bar on a terminal is drawn more often.

use crate::event::{JobEvent, LongWork};
use standfast_store::Progress;
use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time that work may take before it is reported.
const UNREPORTED_MAX: Duration = Duration::from_secs(2);

/// Time between two reports for a bar.
const BAR_PAUSE: Duration = Duration::from_millis(250);

/// Schedule of the lines.
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
        let (mut reports, mut is_reported) = (Reports::begin(Instant::now()), false);
        while ended.recv_timeout(BAR_PAUSE) == Err(RecvTimeoutError::Timeout) {
            listener(&JobEvent::of_progress(what, progress, reports.take_due(Instant::now())));
            is_reported = true;
        }
        let done = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        if is_reported {
            listener(&JobEvent::ProgressEnded { work: what });
        }
        done
    })
}

impl JobEvent {
    /// Makes an event of the progress of work, of which a line is due or not.
    pub(crate) fn of_progress(work: LongWork, progress: &Progress, is_line: bool) -> Self {
        Self::Progress { work, done_bytes: progress.done_bytes(), total_bytes: progress.total_bytes(), is_line }
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
    fn a_bar_is_drawn_until_the_work_is_done() {
        let (progress, work) = (Progress::default(), LongWork::Verifying { generation: 1 });
        let (enough, waits) = channel();
        let mut events = Vec::new();
        let mut listener = |event: &JobEvent| {
            events.push(event.clone());
            // The work has ended after the second one.
            let _ = if events.len() >= 2 { enough.send(()) } else { Ok(()) };
        };
        reported(&progress, work, &mut listener, move || waits.recv().expect("two reports"));
        let (last, before) = events.split_last().expect("there are some");
        assert_eq!(*last, JobEvent::ProgressEnded { work });
        let is_bar = |event: &JobEvent| matches!(event, JobEvent::Progress { done_bytes: 0, .. });
        assert!(before.len() >= 2 && before.iter().all(is_bar), "{before:?}");
    }

    #[test]
    fn short_work_is_not_reported() {
        let silent = &mut |event: &JobEvent| panic!("{event}");
        assert_eq!(reported(&Progress::default(), LongWork::Verifying { generation: 1 }, silent, || 7), 7);
    }
}
