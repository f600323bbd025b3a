//! How long a task has slept, and in which system call: `/proc/TID/syscall` and `sched`. Reading them does not wake the
//! task.

use super::{Stat, parse, parse_hex, words};
use crate::{PinnedToCpu, Tid};

/// A task that sleeps in a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleep {
    /// Number of the call.
    pub call: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The stack pointer of the caller.
    pub stack: u64,
    /// Minimum time that it has slept, in nanoseconds.
    pub nanoseconds: u64,
    /// Number of times that it has gone to sleep so far.
    pub times_slept: u64,
}

impl Sleep {
    /// Reads the sleep of a task, if it sleeps and the kernel reports all of that (CONFIG_SCHED_DEBUG).
    pub fn of(tid: Tid) -> Option<Self> {
        // The scheduler has a clock for each processor, and no two clocks agree.
        let _same_clock = PinnedToCpu::new(Stat::of(tid.as_process()).ok()?.cpu)?;
        let times_slept = Self::times_slept(tid)?;
        let (call, arguments, stack) = waiting_call(&super::read(tid.as_process(), "syscall").ok()?)?;
        let fell_asleep = last_ran(&super::read(tid.as_process(), "sched").ok()?)?;
        // Our own time is that of the last tick or later, so it is behind the task's clock by at most one tick.
        let now = last_ran(&super::read(Tid::own().as_process(), "sched").ok()?)?;
        let nanoseconds = now.saturating_sub(fell_asleep);
        if fell_asleep == 0 {
            // The task has been moved to another processor and has not run there.
            return None;
        }
        // If the task has run meanwhile, these values belong to different sleeps.
        (Self::times_slept(tid)? == times_slept).then_some(Self { call, arguments, stack, nanoseconds, times_slept })
    }

    /// Returns how often a task has gone to sleep so far, or stopped for a tracer. Preemption does not count.
    pub fn times_slept(tid: Tid) -> Option<u64> {
        let text = super::read(tid.as_process(), "sched").ok()?;
        let line = text.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"nr_voluntary_switches"))?;
        parse(words(line).last()?)
    }
}

/// Parses `232 0x3 0x7ffc... 0x1 0x3e8 0x0 0x0 0x7ffc...(stack) 0x7f80...(instruction)`, or `running`.
fn waiting_call(text: &[u8]) -> Option<(i64, [u64; 6], u64)> {
    let mut words = words(text);
    let call = parse(words.next()?)?;
    let mut numbers = words.map_while(|word| parse_hex(word.strip_prefix(b"0x")?));
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = numbers.next()?;
    }
    Some((call, arguments, numbers.next()?))
}

/// Parses `se.exec_start : 12154242.117169`, the time when the task last ran in milliseconds of the scheduler's clock.
/// Returns nanoseconds.
fn last_ran(text: &[u8]) -> Option<u64> {
    let line = text.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"se.exec_start"))?;
    let (milliseconds, rest) = std::str::from_utf8(line).ok()?.rsplit_once([' ', ':'])?.1.split_once('.')?;
    let (milliseconds, rest) = (milliseconds.parse::<u64>().ok()?, rest.trim_end());
    let nanoseconds = rest.parse::<u64>().ok().filter(|_| rest.len() == 6)?;
    milliseconds.checked_mul(1_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_times_are_understood() {
        let text = b"232 0x3 0x7ffceb903ff0 0x1 0x3e8 0x0 0x0 0x7ffceb903eb8 0x7f80c835eef3 new\n";
        let arguments = [3, 0x7ffc_eb90_3ff0, 1, 0x3e8, 0, 0];
        assert_eq!(waiting_call(text), Some((232, arguments, 0x7ffc_eb90_3eb8)));
        assert_eq!(waiting_call(b"running\n"), None);
        let text = b"sed (1, #threads: 1)\n---\nfuture\nfuture : x\nse.exec_start          :      12154242.117169\nse.vruntime : 1.0\n";
        assert_eq!(last_ran(text), Some(12_154_242_117_169));
        assert_eq!(last_ran(b"nothing\n"), None);
    }

    #[test]
    fn a_sleeping_thread_is_reported_with_its_sleep_time() {
        let (tell, told) = std::sync::mpsc::channel();
        let (wake, sleeps) = std::sync::mpsc::channel::<()>();
        // It may sleep for long before the first read.
        let begin = std::time::Instant::now();
        let sleeper = std::thread::spawn(move || {
            tell.send(Tid::own()).unwrap();
            assert!(sleeps.recv().is_err());
        });
        let tid = told.recv().unwrap();
        // Repeat until it sleeps in this call: for a moment it may sleep elsewhere. Skip a kernel that does not report
        // sleeps.
        while let Some(text) =
            super::super::read(tid.as_process(), "sched").ok().filter(|text| last_ran(text).is_some())
        {
            assert!(!text.is_empty());
            let sleep = Sleep::of(tid).filter(|sleep| sleep.nanoseconds > 0);
            if let Some(sleep) = sleep.filter(|sleep| sleep.call == libc::SYS_futex) {
                assert!(u128::from(sleep.nanoseconds) <= begin.elapsed().as_nanos() + 1_000_000_000);
                break;
            }
            std::thread::yield_now();
        }
        drop(wake);
        sleeper.join().unwrap();
    }
}
