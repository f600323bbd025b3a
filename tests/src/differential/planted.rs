//! Faults in a command that was built with them (`--features planted-faults`), and how many programs it takes to find them.

use super::batch::AT_A_TIME;
use super::generator::generate;
use super::run::{Outcome, judge, judge_with};
use anyhow::Result;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The faults that the command can plant.
pub const FAULTS: &[&str] = &[
    "stale page",
    "merged segments",
    "shared memory that is private",
    "lost advice",
    "lost flag of a file",
    "offset of a file",
    "dropped lock of a file",
    "lost close-on-exec",
    "count of an event counter",
    "dropped entry of epoll",
    "dropped watch of inotify",
    "lost mask of a signal descriptor",
    "lost interval of a timer descriptor",
    "lost interval timer",
    "dropped byte of a pipe",
    "lost option of a socket",
    "dropped message of a socket",
    "size of a terminal",
    "dropped message of a queue",
    "dropped message of a POSIX queue",
    "value of a semaphore",
    "dropped signal of a thread",
    "dropped signal of a process",
    "lost mask of signals",
    "lost handler of a signal",
    "mask of new files",
    "limit",
    "niceness",
    "name of a thread",
    "status of a zombie",
];

/// What came of the search for a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// How many programs ran.
    pub programs: u64,
    /// How it showed, if it did.
    pub found: Option<String>,
}

/// Runs programs until one observes a fault that it does not observe without it.
///
/// # Errors
/// When the harness fails.
pub fn find(fault: &str, seeds: Range<u64>) -> Result<Search> {
    let next = AtomicU64::new(seeds.start);
    let is_found = AtomicBool::new(false);
    let work = || -> Result<Option<String>> {
        while !is_found.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let script = generate(seed).script;
            if let Outcome::Different(what) = judge_with(&script, Some(fault))?
                && !matches!(judge(&script)?, Outcome::Different(_))
            {
                is_found.store(true, Ordering::Relaxed);
                return Ok(Some(what));
            }
        }
        Ok(None)
    };
    let found: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join().expect("a worker returns its errors"));
        results.collect::<Result<_>>()
    })?;
    let programs = next.into_inner().min(seeds.end) - seeds.start;
    Ok(Search { programs, found: found.into_iter().flatten().next() })
}
