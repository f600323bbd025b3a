//! Tasks that would not stop on request, since the kernel has put them to sleep for a disk, or until a child of vfork
//! has executed a program. We wait for them while the job runs, not while it is frozen.
//!
//! A task that slept at the look before a freeze probably sleeps again, at the same place. A database that constantly
//! syncs to a slow disk would make each freeze fail. Such tasks are stopped first, as they wake, while the others still
//! run.
//!
//! A task that falls asleep for a moment again and again, like a database that syncs, does not count: the wait is only
//! for a single long sleep.

use crate::EngineError;
use standfast_linux::proc::{self, Stat, Status};
use standfast_linux::{Pid, Tid};
use std::time::{Duration, Instant};

/// Limits of the pause between two looks, which grows from the first to the second.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// A task in an uninterruptible sleep, and the number of that sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sleeper {
    pid: Pid,
    tid: Tid,
    times_slept: u64,
}

impl Sleeper {
    /// Returns the sleep of a task if it is uninterruptible.
    fn of(pid: Pid, tid: Tid) -> Option<Self> {
        let sleeps = || Stat::of_task(pid, tid).is_ok_and(|stat| stat.state == b'D');
        if !sleeps() {
            return None;
        }
        let times_slept = Status::of_task(pid, tid).ok()?.times_slept;
        sleeps().then_some(Self { pid, tid, times_slept })
    }

    fn still_sleeps(&self) -> bool {
        Self::of(self.pid, self.tid) == Some(*self)
    }
}

/// Returns the threads of a process that are in an uninterruptible sleep.
pub(super) fn asleep(pid: Pid) -> Vec<Tid> {
    let sleeps = |tid: &Tid| Stat::of_task(pid, *tid).is_ok_and(|stat| stat.state == b'D');
    proc::threads(pid).unwrap_or_default().into_iter().filter(sleeps).collect()
}

/// Waits until each task of these processes has been seen outside an uninterruptible sleep, or in another one. The
/// processes run meanwhile. Calls `note` with whether there were such tasks at first.
///
/// # Errors
/// [`EngineError::Unstoppable`] if a task stays asleep for longer than `limit`.
pub(crate) fn await_sleepers(pids: &[Pid], limit: Duration, note: impl FnOnce(bool)) -> Result<(), EngineError> {
    let deadline = Instant::now() + limit;
    let tasks = |pid: &Pid| {
        let pid = *pid;
        proc::threads(pid).unwrap_or_default().into_iter().map(move |tid| (pid, tid))
    };
    let mut sleepers: Vec<Sleeper> =
        pids.iter().flat_map(tasks).filter_map(|(pid, tid)| Sleeper::of(pid, tid)).collect();
    note(!sleepers.is_empty());
    let mut pause = PAUSE_MIN;
    while let Some(sleeper) = sleepers.first() {
        if Instant::now() >= deadline {
            return Err(EngineError::Unstoppable { tid: sleeper.tid, stood_still: Duration::ZERO });
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
        sleepers.retain(Sleeper::still_sleeps);
    }
    Ok(())
}
