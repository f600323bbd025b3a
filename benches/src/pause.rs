//! How long a checkpoint freezes a tiny process.

use crate::figures::{Verdict, median, milliseconds};
use anyhow::{Context as _, Result};
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::PATIENCE;
use standfast_tests::victims::SMALL;
use std::time::Duration;

const BOUND: Duration = Duration::from_millis(5);

/// Takes several checkpoints of the smallest victim.
pub(crate) fn of_a_tiny_process(repeats: usize) -> Result<Verdict> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &SMALL.with(&[])?)?;
    standfast.await_gate()?;
    let mut pauses = Vec::new();
    for _ in 0..repeats * 3 {
        pauses.push(checkpoint(standfast, &arena)?.pause);
    }
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job")?;
    let pause = median(&pauses);
    let promise = format!("freeze to thaw of a tiny process: at most {}", milliseconds(BOUND));
    Ok(Verdict { promise, measured: milliseconds(pause), holds: pause <= BOUND })
}

/// What a checkpoint reports about itself.
pub(crate) struct Taken {
    /// The time for which the program was frozen.
    pub(crate) pause: Duration,
    /// The part of it that was needed to find out what has changed.
    pub(crate) scanning: Duration,
    /// The time from the start of the checkpoint until it was durable.
    pub(crate) durable: Duration,
    /// The number of pages with contents.
    pub(crate) pages_scanned: u64,
    /// The number of those pages that were read.
    pub(crate) pages_read: u64,
    /// The size of the image.
    pub(crate) file_bytes: u64,
}

/// Takes a checkpoint on request, and returns its report.
pub(crate) fn checkpoint(standfast: Standfast<'_>, arena: &Arena) -> Result<Taken> {
    let said = standfast.ask("checkpoint", &arena.images(), &["--json"])?.well("checkpoint")?;
    let report: Value = serde_json::from_str(&said.output).with_context(|| format!("it said {:?}", said.output))?;
    let number = |name: &str| report[name].as_u64().with_context(|| format!("no {name} in {report}"));
    let time = |name: &str| number(name).map(Duration::from_nanos);
    Ok(Taken {
        pause: time("pause_nanoseconds")?,
        scanning: time("scanning_nanoseconds")?,
        durable: time("durable_nanoseconds")?,
        pages_scanned: number("pages_scanned")?,
        pages_read: number("pages_read")?,
        file_bytes: number("file_bytes")?,
    })
}
