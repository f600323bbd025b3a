//! A distributed job: four ranks of an unmodified MPI program on simulated nodes, with little on its way between them. The
//! benchmark compares it with four jobs of the same size that have nothing to do with each other, one on each node, of
//! which a checkpoint (or a restart) is asked for at the same moment: what agreement and connections cost beyond the bytes.
//!
//! All nodes share this machine's processors and its disk.

use crate::figures::{Verdict, median, milliseconds};
use crate::ranks::Ranks;
use anyhow::{Context as _, Result};
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::standfast_binary;
use standfast_tests::distributed::Distributed;
use standfast_tests::mpi::MPIS;
use standfast_tests::running::{Output, PATIENCE, Running};
use standfast_tests::simulated::Nodes;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const PROGRAM: &str = include_str!("../programs/ring.c");
const RANKS: usize = 4;
/// What is on its way on each connection, at most and in the second row.
const LITTLE_KILOBYTES: u64 = 32;
const MUCH_KILOBYTES: u64 = 4096;
/// The most that the pause of all may exceed that of the slowest of four: the parts freeze, and meet until nothing is on its
/// way any more.
const PAUSE_MORE: Duration = Duration::from_millis(25);
const FULL_MAX: f64 = 1.3;
const RESTART_MAX: f64 = 1.5;
/// How long jobs run before their first checkpoint. Ten seconds after the start, executables and libraries are copied. And a
/// virtual machine gives free memory back to its host: to write where that was costs several times as much, so jobs that
/// begin while memory is still warm seem faster.
const SETTLED: Duration = Duration::from_secs(15);
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

/// The MPI program: how much memory each rank has, and how large its messages are.
#[derive(Clone, Copy)]
struct Ring<'a> {
    path: &'a Path,
    megabytes: u64,
    kilobytes: u64,
}

impl Ring<'_> {
    fn words(&self, directory: &Path) -> [String; 4] {
        let Self { path, megabytes, kilobytes } = self;
        [path.display().to_string(), megabytes.to_string(), directory.display().to_string(), kilobytes.to_string()]
    }
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
    let ring = Ring { path: &program, megabytes, kilobytes: LITTLE_KILOBYTES };
    let busy = Ring { kilobytes: MUCH_KILOBYTES, ..ring };
    let (mut together, mut apart, mut with_much) = (Times::default(), Times::default(), Times::default());
    for _ in 0..repeats.div_ceil(2) {
        Apart::start(&nodes, ring)?.measure(&mut apart)?;
        of_one_job(&nodes, ring, &mut together)?;
        of_one_job(&nodes, busy, &mut with_much)?;
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
    say(Verdict {
        promise: format!("the same with messages of {MUCH_KILOBYTES} KiB (no promise)"),
        measured: milliseconds(median(&with_much.pauses)),
        holds: true,
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

/// Measures one job of all nodes.
fn of_one_job(nodes: &Nodes, ring: Ring<'_>, times: &mut Times) -> Result<()> {
    let arena = Arena::new()?;
    let ranks = Ranks::new(arena.work(), RANKS);
    let mut job = Distributed::new(nodes, &arena);
    let words = [MPIS[0].across_nodes(RANKS), ring.words(&arena.work()).to_vec()].concat();
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
    std::thread::sleep(SETTLED);
    times.full.push(checkpoint()?);
    for _ in 0..2 {
        ranks.go()?;
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
    fn start(nodes: &'a Nodes, ring: Ring<'_>) -> Result<Self> {
        let mut apart = Self { nodes, arena: Arena::new()?, running: Vec::new() };
        let work = apart.arena.work();
        let words =
            |rank: usize| format!("run -i off -d {} -- {} {rank}", apart.directory(rank), ring.words(&work).join(" "));
        apart.running = apart.on_all("run", words)?;
        Ranks::new(work, RANKS).await_ready().with_context(|| apart.arena.evidence())?;
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
        let ranks = Ranks::new(self.arena.work(), RANKS);
        std::thread::sleep(SETTLED);
        times.full.push(self.checkpoint()?.0);
        for _ in 0..2 {
            ranks.go()?;
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
