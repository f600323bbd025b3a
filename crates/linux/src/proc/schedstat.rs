//! Time that a thread has run on a processor and has waited for one: `/proc/PID/task/TID/schedstat`.

use super::{malformed, parse, words};
use crate::{Pid, Tid};
use std::io;
use std::time::Duration;

/// Times since the thread was made, by the scheduler's own clock (CONFIG_SCHED_INFO; without it the file shows zeros).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessorTime {
    /// Time that it ran.
    pub ran: Duration,
    /// Time that it could have run while others did.
    pub waited: Duration,
}

impl ProcessorTime {
    /// Reads the times of a thread of a process.
    ///
    /// # Errors
    /// When it is gone, or the kernel does not report the times.
    pub fn of(pid: Pid, tid: Tid) -> io::Result<Self> {
        let text = super::read(pid, &format!("task/{tid}/schedstat"))?;
        Self::parse(&text).ok_or_else(|| malformed("schedstat"))
    }

    /// Parses the file: nanoseconds on a processor, nanoseconds of waiting, number of times on a processor.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut figures = words(text).map(parse::<u64>);
        let mut time = || figures.next().flatten().map(Duration::from_nanos);
        Some(Self { ran: time()?, waited: time()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_times_are_parsed_and_malformed_text_is_refused() {
        let [ran, waited] = [90_210_375, 72_157].map(Duration::from_nanos);
        assert_eq!(ProcessorTime::parse(b"90210375 72157 12 future\n"), Some(ProcessorTime { ran, waited }));
        assert_eq!(ProcessorTime::parse(b"90210375\n"), None);
        assert_eq!(ProcessorTime::parse(b"none 1 2\n"), None);
    }

    #[test]
    fn the_processor_time_of_a_running_thread_grows() {
        let (pid, tid) = (Pid::own(), Tid::own());
        let before = ProcessorTime::of(pid, tid).unwrap();
        // This would not end if the value never grew; it may already have grown at the first read.
        while ProcessorTime::of(pid, tid).unwrap().ran <= before.ran {}
    }

    #[test]
    fn a_thread_that_is_not_there_has_no_times() {
        assert!(ProcessorTime::of(Pid::own(), Tid::new(0)).is_err());
    }
}
