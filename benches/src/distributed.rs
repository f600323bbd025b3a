//! A distributed job: four ranks of an unmodified MPI program on simulated nodes, with little on its way between them. The
//! benchmark compares it with four jobs of the same size that have nothing to do with each other, one on each node, of
//! which a checkpoint (or a restart) is asked for at the same moment: what agreement and connections cost beyond the bytes.
//!
//! All nodes share this machine's processors and its disk.

use crate::figures::{Verdict, median, milliseconds};
use anyhow::{Context as _, Result};
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::standfast_binary;
use standfast_tests::distributed::Distributed;
use standfast_tests::mpi::MPIS;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::simulated::Nodes;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const PROGRAM: &str = include_str!("../programs/ring.c");
const RANKS: usize = 4;
/// The most that the pause of all may exceed that of the slowest of four: the parts freeze, and meet until nothing is on its
/// way any more.
const PAUSE_MORE: Duration = Duration::from_millis(25);
const FULL_MAX: f64 = 1.3;
const RESTART_MAX: f64 = 1.5;
/// Nodes are reached, ports listen, and connections are made again.
const RESTART_MORE: Duration = Duration::from_millis(300);

/// What was measured of one kind of jobs.
#[derive(Default)]
struct Times {
    /// Full checkpoints, until they are durable.
    full: Vec<Duration>,
    /// Pauses of those after which one page in a hundred had changed.
    pauses: Vec<Duration>,
    /// From the command until all ranks run.
    restarts: Vec<Duration>,
}

/// Measures everything, or nothing if Open MPI or namespaces are missing.
pub(crate) fn of_four_nodes(megabytes: u64, repeats: usize, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    let Some(program) = MPIS[0].compiled_alone("ring", PROGRAM)? else {
        say(not_measured("Open MPI is not here"));
        return Ok(());
    };
    let Some(nodes) = Nodes::new(RANKS)? else {
        say(not_measured("there are no namespaces for a plain user here"));
        return Ok(());
    };
    let (mut together, mut apart) = (Times::default(), Times::default());
    for _ in 0..repeats.div_ceil(2) {
        Apart::start(&nodes, &program, megabytes)?.measure(&mut apart)?;
        of_one_job(&nodes, &program, megabytes, &mut together)?;
    }
    let (pause, alone) = (median(&together.pauses), median(&apart.pauses));
    say(Verdict {
        promise: format!(
            "4 nodes, 1 % of {megabytes} MB: pause at most the slowest alone and {}",
            milliseconds(PAUSE_MORE)
        ),
        measured: format!("{} against {}", milliseconds(pause), milliseconds(alone)),
        holds: pause <= alone + PAUSE_MORE,
    });
    let what = "4 nodes: full checkpoint against the slowest alone";
    say(crate::figures::within(what.into(), &together.full, &apart.full, FULL_MAX));
    let (restart, alone) = (median(&together.restarts), median(&apart.restarts));
    let most = alone.mul_f64(RESTART_MAX) + RESTART_MORE;
    say(Verdict {
        promise: format!(
            "4 nodes: restart at most {RESTART_MAX} times the slowest alone and {}",
            milliseconds(RESTART_MORE)
        ),
        measured: format!("{} against {}", milliseconds(restart), milliseconds(alone)),
        holds: restart <= most,
    });
    Ok(())
}

fn not_measured(why: &str) -> Verdict {
    Verdict { promise: "distributed jobs".into(), measured: format!("not measured: {why}"), holds: true }
}

/// Where the ranks tell that they are ready, and are told to go on.
struct Ranks(PathBuf);

impl Ranks {
    fn file(&self, what: &str, rank: usize) -> PathBuf {
        self.0.join(format!("{what}-{rank}"))
    }

    fn await_ready(&self) -> Result<()> {
        until(PATIENCE, "the ranks to begin", || {
            Ok((0..RANKS).all(|rank| self.file("ready", rank).exists()).then_some(()))
        })
    }

    fn ask(&self) -> Result<()> {
        (0..RANKS).try_for_each(|rank| Ok(fs::write(self.file("go", rank), "")?))
    }

    fn await_written(&self) -> Result<()> {
        until(PATIENCE, "the ranks to write", || {
            Ok((0..RANKS).all(|rank| !self.file("go", rank).exists()).then_some(()))
        })
    }

    fn write(&self) -> Result<()> {
        self.ask()?;
        self.await_written()
    }

    /// Returns how long it takes until all ranks run again after `restart`.
    fn restarted<T>(&self, restart: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
        self.ask()?;
        let begun = Instant::now();
        let restarted = restart()?;
        self.await_written()?;
        Ok((begun.elapsed(), restarted))
    }
}

/// Measures one job of all nodes.
fn of_one_job(nodes: &Nodes, program: &Path, megabytes: u64, times: &mut Times) -> Result<()> {
    let arena = Arena::new()?;
    let ranks = Ranks(arena.work());
    let mut job = Distributed::new(nodes, &arena);
    let words = [program.display().to_string(), megabytes.to_string(), arena.work().display().to_string()];
    let words = [MPIS[0].across_nodes(RANKS), words.to_vec()].concat();
    let running = job.run("off", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
    ranks.await_ready().with_context(|| arena.evidence())?;
    let directory = job.directory().display().to_string();
    let checkpoint = || {
        let begun = Instant::now();
        let mut command = nodes.command(&arena, standfast_binary()?.as_os_str(), &[]);
        Running::complete(&arena, "checkpoint", command.args(["checkpoint", &directory]))?
            .well("a checkpoint of all")?;
        Ok::<_, anyhow::Error>(begun.elapsed())
    };
    times.full.push(checkpoint()?);
    for _ in 0..2 {
        ranks.write()?;
        checkpoint()?;
        let mut command = nodes.command(&arena, standfast_binary()?.as_os_str(), &[]);
        let said =
            Running::complete(&arena, "status", command.args(["status", "--json", &directory]))?.well("status")?;
        let status: Value = serde_json::from_str(&said.output)?;
        let last = status["epochs"].as_array().and_then(|epochs| epochs.last()).context("an epoch")?;
        let pause = last["pause_nanoseconds"].as_u64().with_context(|| format!("no pause in {last}"))?;
        times.pauses.push(Duration::from_nanos(pause));
    }
    arena.clear();
    running.wait(PATIENCE)?;
    let (time, running) = ranks.restarted(|| job.restart()).with_context(|| arena.evidence())?;
    times.restarts.push(time);
    arena.clear();
    running.wait(PATIENCE).map(drop)
}

/// Four jobs that know nothing of each other, one on each node.
struct Apart<'a> {
    nodes: &'a Nodes,
    arena: Arena,
    running: Vec<Running>,
}

impl<'a> Apart<'a> {
    fn start(nodes: &'a Nodes, program: &Path, megabytes: u64) -> Result<Self> {
        let mut apart = Self { nodes, arena: Arena::new()?, running: Vec::new() };
        let work = apart.arena.work();
        let words = |rank: usize| {
            let directory = apart.directory(rank);
            let (program, work) = (program.display(), work.display());
            format!("run -i off -d {directory} -- {program} {megabytes} {work} {rank}")
        };
        apart.running = apart.on_all("run", words)?;
        Ranks(work).await_ready().with_context(|| apart.arena.evidence())?;
        Ok(apart)
    }

    fn directory(&self, rank: usize) -> String {
        self.arena.folder().join(format!("job-{rank}")).display().to_string()
    }

    /// Starts `standfast` with these words on all nodes at once.
    fn on_all(&self, name: &str, words: impl Fn(usize) -> String) -> Result<Vec<Running>> {
        let start = |rank: usize| {
            let agent = self.nodes.agent();
            let mut command = self.nodes.command(&self.arena, agent.as_ref(), &[]);
            let line = format!("exec {} {}", standfast_binary()?.display(), words(rank));
            command.args([self.nodes.name(rank), &line]).stdin(Stdio::null());
            Running::start(&self.arena, &format!("{name}-{rank}"), Output::Log, &mut command)
        };
        (0..RANKS).map(start).collect()
    }

    /// Takes a checkpoint of each at the same moment. Returns how long they took, and the longest pause.
    fn checkpoint(&self) -> Result<(Duration, Duration)> {
        let begun = Instant::now();
        let asked = self.on_all("checkpoint", |rank| format!("checkpoint --json {}", self.directory(rank)))?;
        let mut pauses = Vec::new();
        for asked in asked {
            let report: Value = serde_json::from_str(&asked.wait(PATIENCE)?.well("a checkpoint")?.output)?;
            let pause = report["pause_nanoseconds"].as_u64().with_context(|| format!("no pause in {report}"))?;
            pauses.push(Duration::from_nanos(pause));
        }
        Ok((begun.elapsed(), pauses.into_iter().max().unwrap_or_default()))
    }

    fn measure(mut self, times: &mut Times) -> Result<()> {
        let ranks = Ranks(self.arena.work());
        times.full.push(self.checkpoint()?.0);
        for _ in 0..2 {
            ranks.write()?;
            times.pauses.push(self.checkpoint()?.1);
        }
        self.end()?;
        let restart = || self.on_all("restart", |rank| format!("restart {}", self.directory(rank)));
        let (time, running) = ranks.restarted(restart).with_context(|| self.arena.evidence())?;
        times.restarts.push(time);
        self.running = running;
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.arena.clear();
        self.running.drain(..).try_for_each(|running| running.wait(PATIENCE).map(drop))
    }
}
