//! What a reservation of a terabyte adds to a checkpoint when hardly any of it is used, compared with the used pages
//! alone.

use crate::figures::{Verdict, median, milliseconds};
use crate::pause::{Taken, checkpoint};
use anyhow::Result;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::{PATIENCE, Running};
use standfast_tests::victims::VAST;
use std::time::Duration;

const MORE_TIME_MAX: Duration = Duration::from_millis(1);
const MORE_BYTES_MAX: u64 = 1_000_000;

struct Job {
    arena: Arena,
    running: Running,
    taken: Vec<Taken>,
}

impl Job {
    fn start(arguments: &[&str]) -> Result<Self> {
        let arena = Arena::new()?;
        let running = Standfast::new(&arena)?.run(Checkpoints::OnRequest, &VAST.with(arguments)?)?;
        Standfast::new(&arena)?.await_gate()?;
        Ok(Self { arena, running, taken: Vec::new() })
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.taken.push(checkpoint(Standfast::new(&self.arena)?, &self.arena)?);
        Ok(())
    }

    /// Returns the median pause and the size of the largest image.
    fn end(self) -> Result<(Duration, u64)> {
        open_gate(&self.arena)?;
        self.running.wait(PATIENCE)?.well("the job")?;
        let pauses: Vec<_> = self.taken.iter().map(|taken| taken.pause).collect();
        Ok((median(&pauses), self.taken.iter().map(|taken| taken.file_bytes).max().unwrap_or_default()))
    }
}

/// Takes checkpoints of both jobs in turn.
pub(crate) fn of_a_terabyte(repeats: usize) -> Result<Verdict> {
    let (mut vast, mut small) = (Job::start(&[])?, Job::start(&["small"])?);
    for _ in 0..repeats * 3 {
        vast.checkpoint()?;
        small.checkpoint()?;
    }
    let ((time, bytes), (time_without, bytes_without)) = (vast.end()?, small.end()?);
    let (more_time, more_bytes) = (time.saturating_sub(time_without), bytes.saturating_sub(bytes_without));
    Ok(Verdict {
        promise: format!(
            "a reservation of 1 TB adds to a checkpoint: at most {} and 1 MB",
            milliseconds(MORE_TIME_MAX)
        ),
        measured: format!(
            "{} ({} against {}) and {more_bytes} bytes",
            milliseconds(more_time),
            milliseconds(time),
            milliseconds(time_without)
        ),
        holds: more_time <= MORE_TIME_MAX && more_bytes <= MORE_BYTES_MAX,
    })
}
