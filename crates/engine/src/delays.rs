//! How long the threads of a job wait for a processor that others use, as the scheduler counts it. This shows what other
//! work costs a program, without touching the program. What it loses to others in caches and memory does not show.

use crate::Freezer;
use standfast_linux::proc::{self, ProcessorTime};
use standfast_linux::{Pid, Tid};
use std::time::Duration;

/// Maximum number of threads that are watched, since asking for each takes about ten microseconds.
const THREADS_MAX: usize = 64;

/// The threads that the job had when this was made, and how long each had waited at the last call.
#[derive(Debug)]
pub struct Delays(Vec<(Pid, Tid, Duration)>);

impl Freezer {
    /// Begins to watch how long the threads of the job wait for processors.
    pub fn delays(&self) -> Delays {
        let threads = |pid: Pid| {
            let ids = proc::threads(pid).unwrap_or_default();
            ids.into_iter().map(move |tid| (pid, tid))
        };
        let all = self.members().into_iter().flat_map(threads).take(THREADS_MAX);
        Delays(all.filter_map(|(pid, tid)| Some((pid, tid, ProcessorTime::of(pid, tid).ok()?.waited))).collect())
    }
}

impl Delays {
    /// Returns how long all of them together have waited since the last call. A thread that has ended no longer counts.
    pub fn since_last(&mut self) -> Duration {
        let mut waited = Duration::ZERO;
        self.0.retain_mut(|(pid, tid, before)| match ProcessorTime::of(*pid, *tid) {
            Ok(now) => {
                waited += now.waited.saturating_sub(*before);
                *before = now.waited;
                true
            }
            Err(_) => false,
        });
        waited
    }
}

/// Returns how long the calling thread has waited for a processor so far; zero if the kernel does not report it.
pub fn own_delay() -> Duration {
    let own = ProcessorTime::of(Pid::own(), Tid::own());
    own.map_or(Duration::ZERO, |time| time.waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delay_is_reported_once_and_ended_threads_are_dropped() {
        let (pid, tid) = (Pid::own(), Tid::own());
        let mut delays = Delays(vec![(pid, tid, Duration::ZERO), (pid, Tid::new(0), Duration::ZERO)]);
        let before = own_delay();
        let reported = delays.since_last();
        assert!(reported >= before && reported <= own_delay(), "{reported:?} is none of this thread's");
        assert_eq!(delays.0.len(), 1);
        assert!(delays.since_last() <= own_delay() - reported, "what was reported comes again");
    }
}
