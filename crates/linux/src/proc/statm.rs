//! `/proc/PID/statm`: how much memory a process has.

use super::{malformed, parse, words};
use crate::Pid;
use std::io;

/// Pages of a process. All zero once it has given up its memory at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessPages {
    /// Pages of its address space.
    pub mapped: u64,
    /// Those that are in memory.
    pub resident: u64,
    /// Those of them that belong to files or shared memory.
    pub of_files: u64,
}

impl ProcessPages {
    /// Reads the pages of a process.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of(pid: Pid) -> io::Result<Self> {
        Self::parse(&super::read(pid, "statm")?).ok_or_else(|| malformed("statm"))
    }

    /// Parses the file.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut figures = words(text).map(parse::<u64>);
        let mut figure = || figures.next().flatten();
        Some(Self { mapped: figure()?, resident: figure()?, of_files: figure()? })
    }
}

/// Reports whether a process has memory. One that is ending has none.
pub fn has_memory(pid: Pid) -> bool {
    ProcessPages::of(pid).is_ok_and(|pages| pages.mapped != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Stat;
    use std::process::Command;

    #[test]
    fn only_the_first_three_figures_are_parsed() {
        let pages = ProcessPages { mapped: 730, resident: 24, of_files: 20 };
        assert_eq!(ProcessPages::parse(b"730 24 20 5 0 110 0 7 future\n"), Some(pages));
        assert_eq!(ProcessPages::parse(b"730 24\n"), None);
    }

    #[test]
    fn an_ended_process_has_no_memory() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::new(child.id() as i32);
        while Stat::of(pid).unwrap().state != b'Z' {
            std::thread::yield_now();
        }
        let (own, childs) = (has_memory(Pid::own()), has_memory(pid));
        child.wait().unwrap();
        assert_eq!((own, childs, has_memory(pid)), (true, false, false));
    }
}
