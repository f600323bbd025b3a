//! How a benchmark and the ranks of its MPI program tell each other what to do: by files in one directory.

use anyhow::Result;
use standfast_tests::running::{PATIENCE, until};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where the ranks tell that they are ready, and are told to go on.
pub(crate) struct Ranks {
    directory: PathBuf,
    count: usize,
}

impl Ranks {
    pub(crate) fn new(directory: PathBuf, count: usize) -> Self {
        Self { directory, count }
    }

    fn file(&self, what: &str, rank: usize) -> PathBuf {
        self.directory.join(format!("{what}-{rank}"))
    }

    pub(crate) fn await_ready(&self) -> Result<()> {
        until(PATIENCE, "the ranks to begin", || {
            Ok((0..self.count).all(|rank| self.file("ready", rank).exists()).then_some(()))
        })
    }

    fn ask(&self) -> Result<()> {
        (0..self.count).try_for_each(|rank| Ok(fs::write(self.file("go", rank), "")?))
    }

    fn await_done(&self) -> Result<()> {
        until(PATIENCE, "the ranks to do it", || {
            Ok((0..self.count).all(|rank| !self.file("go", rank).exists()).then_some(()))
        })
    }

    /// Lets each do once what it does when it is asked.
    pub(crate) fn go(&self) -> Result<()> {
        self.ask()?;
        self.await_done()
    }

    /// Returns how long it takes until all ranks run again after `restart`.
    pub(crate) fn restarted<T>(&self, restart: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
        self.ask()?;
        let begun = Instant::now();
        let restarted = restart()?;
        self.await_done()?;
        Ok((begun.elapsed(), restarted))
    }
}
