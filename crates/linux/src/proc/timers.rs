//! `/proc/PID/timers`: the timers that a process has made with timer_create(2).

use super::{malformed, parse};
use crate::{Pid, Tid};
use std::io;

/// One timer of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerInformation {
    /// The kernel's id.
    pub id: i32,
    /// The signal that is sent on expiration.
    pub signal: u8,
    /// The value sent with the signal.
    pub value: u64,
    /// The clock, as the program named it: negative for processor time of a process or thread.
    pub clock: i32,
    /// Recipient of the signal.
    pub notice: Notice,
}

/// The recipient of a timer's signal. Ids are as the reader sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// `SIGEV_NONE`.
    Nobody,
    /// `SIGEV_SIGNAL`.
    Process,
    /// `SIGEV_THREAD_ID`.
    Thread(Tid),
}

impl TimerInformation {
    /// Reads the timers of a process, ascending by id.
    ///
    /// # Errors
    /// When it is gone, or the kernel does not report timers (no `CONFIG_CHECKPOINT_RESTORE`).
    pub fn of(pid: Pid) -> io::Result<Vec<Self>> {
        Self::parse(&super::read(pid, "timers")?)
    }

    /// Parses the file: four lines for each timer.
    ///
    /// # Errors
    /// When it is of unknown form.
    pub fn parse(text: &[u8]) -> io::Result<Vec<Self>> {
        let text = String::from_utf8_lossy(text);
        let mut lines = text.lines();
        let mut timers = Vec::new();
        while let Some(first) = lines.next() {
            let mut parsed = || {
                let id = number(first, "ID:")?;
                let (signal, value) = lines.next()?.strip_prefix("signal:")?.trim().split_once('/')?;
                let notice = notice(lines.next()?.strip_prefix("notify:")?.trim())?;
                let clock = number(lines.next()?, "ClockID:")?;
                let value = u64::from_str_radix(value.trim_start_matches("0x"), 16).ok()?;
                Some(Self { id, signal: parse(signal.as_bytes())?, value, clock, notice })
            };
            timers.push(parsed().ok_or_else(|| malformed("timers"))?);
        }
        timers.sort_by_key(|timer| timer.id);
        Ok(timers)
    }
}

fn number(line: &str, name: &str) -> Option<i32> {
    line.strip_prefix(name)?.trim().parse().ok()
}

/// Parses `none/pid.7`, `signal/pid.7`, `thread/pid.7`, or with `tid` if a thread is named.
fn notice(text: &str) -> Option<Notice> {
    let (kind, whom) = text.split_once('/')?;
    let (unit, id) = whom.split_once('.')?;
    match (kind, unit) {
        ("none", _) => Some(Notice::Nobody),
        (_, "tid") => id.parse().ok().map(Tid::new).map(Notice::Thread),
        ("signal" | "thread", "pid") => Some(Notice::Process),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_of_all_kinds_are_understood() {
        let text = b"ID: 3\nsignal: 34/00007ffe01020304\nnotify: signal/tid.77\nClockID: -6\n\
            ID: 0\nsignal: 14/0000000000000000\nnotify: none/pid.70\nClockID: 1\n\
            ID: 1\nsignal: 64/ffffffffffffffff\nnotify: signal/pid.70\nClockID: 0\n";
        let timer = |id, signal, value, clock, notice| TimerInformation { id, signal, value, clock, notice };
        let expected = [
            timer(0, 14, 0, 1, Notice::Nobody),
            timer(1, 64, u64::MAX, 0, Notice::Process),
            timer(3, 34, 0x7ffe_0102_0304, -6, Notice::Thread(Tid::new(77))),
        ];
        assert_eq!(TimerInformation::parse(text).unwrap(), expected);
        assert_eq!(TimerInformation::parse(b"").unwrap(), []);
        assert!(TimerInformation::parse(b"ID: 3\nsignal: 34\n").is_err());
        let unknown = b"ID: 3\nsignal: 34/0\nnotify: none/pid.7\nClockID: 1\nfuture: 1\n";
        assert!(TimerInformation::parse(unknown).is_err(), "a timer may have more to it than we know");
    }
}
