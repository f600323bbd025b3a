//! Checkpoints of distributed jobs whose connections are busy all the time: each must succeed at once, or soon.

use crate::arena::Arena;
use crate::command::standfast_binary;
use crate::distributed::Distributed;
use crate::mpi::{Mpi, Unmodified};
use crate::running::{Ended, PATIENCE, Running, until};
use crate::simulated::Nodes;
use crate::victims::FLOWS;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const NODES: usize = 2;
/// A checkpoint is late if it freezes the job for longer, or if all else takes longer: attempts that were given up, and writing.
const SOON: Duration = Duration::from_secs(1);
/// How long a checkpoint may be refused.
const REFUSED_MAX: Duration = Duration::from_secs(10);
/// Steps of an MPI program that does not end by itself.
const ENDLESS: u32 = 1_000_000;

/// What keeps the connections busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// As many bytes as pass, over connections that stay.
    Streams,
    /// The same into receive buffers of a small, fixed size (SO_RCVBUF), where much stays unsent.
    Narrow,
    /// Some bytes at a time.
    Small,
    /// Connections that are opened and closed all the time.
    Churn,
    /// What an MPI program sends.
    Of(Mpi),
}

impl fmt::Display for Traffic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Streams => "streams",
            Self::Narrow => "streams into small buffers",
            Self::Small => "small messages",
            Self::Churn => "short connections",
            Self::Of(mpi) => mpi.name,
        })
    }
}

/// All kinds of traffic without MPI.
pub const STREAMS: [Traffic; 4] = [Traffic::Streams, Traffic::Narrow, Traffic::Small, Traffic::Churn];

/// How checkpoints went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cuts {
    /// How many were taken.
    pub taken: usize,
    /// How many of them were late.
    pub late: usize,
    /// The longest time for which one froze the job.
    pub longest_pause: Duration,
    /// The longest time from the request until one was durable.
    pub slowest: Duration,
}

/// Takes this many checkpoints of a job with this traffic, kills it whole in the middle of them and at the end, and continues it.
/// Returns `None` if there are no simulated nodes here, or this MPI is not installed.
///
/// # Errors
/// When one is refused for long, or a byte is lost.
pub fn taken_under(traffic: Traffic, cuts: usize) -> Result<Option<Cuts>> {
    let Some(nodes) = Nodes::new(NODES)? else { return Ok(None) };
    let arena = Arena::new()?;
    let end = arena.work().join("end");
    let Some(words) = command(traffic, &end)? else { return Ok(None) };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut job = Distributed::new(&nodes, &arena);
    let mut running = job.run("off", &words)?;
    let mut all = Cuts::default();
    for half in [cuts / 2, cuts - cuts / 2] {
        for _ in 0..half {
            ensure!(!running.has_ended()?, "the job has ended: {}", running.errors_so_far());
            all.add(cut(&mut job).with_context(|| format!("after {all:?}; {}", arena.evidence()))?);
        }
        arena.clear();
        running.wait(PATIENCE)?;
        running = continued(&mut job).with_context(|| arena.evidence())?;
    }
    if let Traffic::Of(_) = traffic {
        arena.clear();
        return running.wait(PATIENCE).map(|_| Some(all));
    }
    fs::write(end, "")?;
    running.wait(PATIENCE)?.well("the job in its last life").with_context(|| arena.evidence())?;
    let printed = job.printed()?;
    ensure!(printed.matches("connections").count() == NODES, "not all streams have ended well: {printed:?}");
    arena.wait_until_empty(PATIENCE)?;
    Ok(Some(all))
}

/// Returns the command of a job with this traffic, which ends when a file appears.
fn command(traffic: Traffic, end: &Path) -> Result<Option<Vec<String>>> {
    let (longest, piece, room) = match traffic {
        Traffic::Of(mpi) => {
            return Ok(mpi.unmodified_across_nodes(Unmodified::Steps, NODES, ENDLESS)?.map(|program| program.words()));
        }
        Traffic::Streams => (u64::MAX >> 1, 64 << 10, 0),
        Traffic::Narrow => (u64::MAX >> 1, 64 << 10, 16 << 10),
        Traffic::Small => (u64::MAX >> 1, 200, 0),
        Traffic::Churn => (100_000, 10_000, 0),
    };
    let (standfast, program, end) = (standfast_binary()?.display(), FLOWS.with(&[])?.path, end.display());
    let of_node = |other: usize| format!("{} 7001 node{other} {end} {longest} {piece} {room}", program.display());
    let script = format!("{} & {standfast} rsh node2 {} && wait $!", of_node(2), of_node(1));
    Ok(Some(["sh", "-c", &script].map(str::to_owned).to_vec()))
}

/// Continues a job that was killed whole. A restart that still sees its processes die takes it over, and fails.
fn continued(job: &mut Distributed<'_>) -> Result<Running> {
    let runs = |said: &str| said.contains("continued");
    loop {
        let mut running = job.restart()?;
        until(PATIENCE, "the restart", || Ok((running.has_ended()? || runs(&running.errors_so_far())).then_some(())))?;
        let said = running.errors_so_far();
        if runs(&said) {
            return Ok(running);
        }
        ensure!(said.contains("taking over"), "it was not continued: {said}");
    }
}

/// Takes a checkpoint.
fn cut(job: &mut Distributed<'_>) -> Result<Cuts> {
    let begun = Instant::now();
    loop {
        // The first one may come before the job can be asked.
        let answer = ask(job, "checkpoint")?;
        if answer.exited(0) {
            let slowest = begun.elapsed();
            let list = ask(job, "list")?.well("list")?.output;
            let longest_pause = last_pause(&list).with_context(|| format!("the list is {list:?}"))?;
            let is_late = longest_pause > SOON || slowest.saturating_sub(longest_pause) > SOON;
            return Ok(Cuts { taken: 1, late: is_late.into(), longest_pause, slowest });
        }
        if begun.elapsed() > REFUSED_MAX {
            bail!("a checkpoint was refused for {:?}: {}", begun.elapsed(), answer.errors);
        }
    }
}

/// Has a command of standfast answer about the job.
fn ask(job: &Distributed<'_>, command: &str) -> Result<Ended> {
    let directory = job.directory().display().to_string();
    let mut asked = job.nodes.command(job.arena, standfast_binary()?.as_os_str(), &[]);
    Running::complete(job.arena, command, asked.args([command, "--json", &directory]))
}

/// Returns how long the last checkpoint of a list froze the job.
fn last_pause(list: &str) -> Result<Duration> {
    let epochs: Vec<Value> = serde_json::from_str(list)?;
    let last = epochs.last().context("no epoch")?;
    Ok(Duration::from_nanos(last["pause_nanoseconds"].as_u64().context("no pause")?))
}

impl Cuts {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.taken += other.taken;
        self.late += other.late;
        self.longest_pause = self.longest_pause.max(other.longest_pause);
        self.slowest = self.slowest.max(other.slowest);
    }
}
