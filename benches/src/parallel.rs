//! What it costs parallel programs that they are protected: MPI programs that know nothing of Standfast, on simulated nodes,
//! with and without it. Between checkpoints a message takes as long as without, and checkpoints every ten seconds cost
//! little of the time of two solvers.
//!
//! All nodes share this machine's processors and its disk.

use crate::figures::{Verdict, median, ratio};
use crate::ranks::Ranks;
use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::standfast_binary;
use standfast_tests::distributed::Distributed;
use standfast_tests::mpi::MPIS;
use standfast_tests::running::{Output, PATIENCE, Running};
use standfast_tests::simulated::Nodes;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PING_PONG: &str = include_str!("../programs/ping_pong.c");
const FIVE_POINT: &str = include_str!("../programs/five_point.c");

/// Pairs of jobs whose messages are compared. Each job is started for its pair.
const PAIRS: usize = 20;
/// Bursts of each job of a pair, in turns.
const BURSTS: usize = 15;
/// The quantile of Student's distribution for a 95 % interval of that many pairs.
const STUDENT: f64 = 2.093;
const WIDTH_MAX: f64 = 0.02;
const MESSAGE_MAX: f64 = 1.01;

const SOLVER_RANKS: usize = 4;
/// How long a solver runs, at about.
const SOLVED: Duration = Duration::from_secs(120);
/// A run of at least this length tells how large the problem must be.
const TRIED: Duration = Duration::from_secs(6);
const SOLVER_INTERVAL: &str = "10s";
const SOLVER_MAX: f64 = 1.05;
/// A solver that misses the promise is measured this often. The medians count.
const SOLVER_ROUNDS: usize = 3;

/// Measures everything, or nothing if Open MPI or namespaces are missing.
pub(crate) fn on_nodes(say: &mut dyn FnMut(Verdict)) -> Result<()> {
    let (Some(ping_pong), Some(five_point)) =
        (MPIS[0].compiled_alone("ping_pong", PING_PONG)?, MPIS[0].compiled_alone("five_point", FIVE_POINT)?)
    else {
        say(not_measured("Open MPI is not here"));
        return Ok(());
    };
    let (Some(two), Some(four)) = (Nodes::new(2)?, Nodes::new(SOLVER_RANKS)?) else {
        say(not_measured("there are no namespaces for a plain user here"));
        return Ok(());
    };
    say(messages(&two, &ping_pong)?);
    drop(two);
    let examples = Arena::new()?;
    let pcg = pcg(&examples)?;
    say(Solver { name: "pcg", path: pcg, smallest: 64, power: 4 }.promise(&four)?);
    say(Solver { name: "five-point", path: five_point, smallest: 250, power: 1 }.promise(&four)?);
    Ok(())
}

fn not_measured(why: &str) -> Verdict {
    Verdict { promise: "parallel programs".into(), measured: format!("not measured: {why}"), holds: true }
}

/// Returns the launcher's words that both kinds of jobs have.
fn launcher(ranks: usize) -> Vec<String> {
    // Ranks that wait let others of the same processor run, and none is bound to one.
    let shared = ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"].map(str::to_owned);
    let mut words = MPIS[0].across_nodes(ranks);
    words.splice(1..1, shared);
    words
}

/// Starts a program on these nodes without Standfast.
fn native(nodes: &Nodes, arena: &Arena, words: &[String]) -> Result<Running> {
    let reached = ["--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "plm_rsh_agent"].map(str::to_owned);
    let hosts = [nodes.agent(), "--host".to_owned(), nodes.list()];
    let mut command = nodes.command(arena, words[0].as_ref(), &[]);
    command.args(reached).args(hosts).args(&words[1..]).stdin(Stdio::null());
    Running::start(arena, "native", Output::Log, &mut command)
}

/// Compares messages of a job under Standfast, after a checkpoint, with those of a job without.
fn messages(nodes: &Nodes, program: &Path) -> Result<Verdict> {
    let ratios = (0..PAIRS).map(|_| pair(nodes, program)).collect::<Result<Vec<_>>>()?;
    let count = PAIRS as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = STUDENT * (variance / count).sqrt();
    Ok(Verdict {
        promise: format!("messages between two nodes: interval below {WIDTH_MAX} wide, from {MESSAGE_MAX} or less"),
        measured: format!("{:.4} to {:.4} ({PAIRS} pairs)", mean - half, mean + half),
        holds: 2.0 * half <= WIDTH_MAX && mean - half <= MESSAGE_MAX,
    })
}

/// Returns how many times longer a message takes under Standfast.
fn pair(nodes: &Nodes, program: &Path) -> Result<f64> {
    let (plain, protected) = (Arena::new()?, Arena::new()?);
    let words =
        |arena: &Arena| [launcher(2), vec![program.display().to_string(), arena.work().display().to_string()]].concat();
    let without = native(nodes, &plain, &words(&plain))?;
    let mut job = Distributed::new(nodes, &protected);
    let with = job.run("off", &words(&protected).iter().map(String::as_str).collect::<Vec<_>>())?;
    let ranks = [&plain, &protected].map(|arena| Ranks::new(arena.work(), 2));
    for (ranks, arena) in ranks.iter().zip([&plain, &protected]) {
        ranks.await_ready().with_context(|| arena.evidence())?;
    }
    let mut command = nodes.command(&protected, standfast_binary()?.as_os_str(), &[]);
    command.arg("checkpoint").arg(job.directory());
    Running::complete(&protected, "checkpoint", &mut command)?.well("a checkpoint")?;
    let mut times = [Vec::new(), Vec::new()];
    for burst in 0..BURSTS {
        for turn in [burst % 2, 1 - burst % 2] {
            ranks[turn].go()?;
            let took = fs::read_to_string([&plain, &protected][turn].work().join("took"))?;
            times[turn].push(Duration::from_nanos(took.trim().parse().context("a time")?));
        }
    }
    plain.clear();
    protected.clear();
    without.wait(PATIENCE)?;
    with.wait(PATIENCE)?;
    Ok(ratio(median(&times[1]), median(&times[0])))
}

/// Makes the solver of examples/mpi, without the group's functions.
fn pcg(place: &Arena) -> Result<PathBuf> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let out = place.folder().join("examples");
    let mut command = Command::new("make");
    command.arg("-s").arg("-C").arg(examples).arg(format!("OUT={}", out.display())).args(["GROUP=", "pcg"]);
    ensure!(command.status()?.success(), "examples/mpi/pcg cannot be made");
    Ok(out.join("pcg"))
}

/// A program whose work grows with a power of its first argument.
struct Solver {
    name: &'static str,
    path: PathBuf,
    smallest: u64,
    power: i32,
}

impl Solver {
    /// Compares its time with checkpoints with that without.
    fn promise(&self, nodes: &Nodes) -> Result<Verdict> {
        let size = self.size(nodes)?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..SOLVER_ROUNDS {
            let (time, expected) = self.alone(nodes, size)?;
            without.push(time);
            let (time, printed) = self.protected(nodes, size)?;
            with.push(time);
            ensure!(printed == expected, "{} printed {printed:?} instead of {expected:?}", self.name);
            if ratio(median(&with), median(&without)) <= SOLVER_MAX {
                break;
            }
        }
        let what = format!("{} on 4 nodes, every {SOLVER_INTERVAL}: running time", self.name);
        Ok(crate::figures::within(what, &with, &without, SOLVER_MAX))
    }

    /// Returns the size with which it runs for about [`SOLVED`].
    fn size(&self, nodes: &Nodes) -> Result<u64> {
        let mut size = self.smallest;
        loop {
            let (time, _) = self.alone(nodes, size)?;
            if time >= TRIED {
                return Ok((size as f64 * ratio(SOLVED, time).powf(1.0 / f64::from(self.power))) as u64);
            }
            size *= 2;
        }
    }

    fn words(&self, size: u64) -> Vec<String> {
        [launcher(SOLVER_RANKS), vec![self.path.display().to_string(), size.to_string()]].concat()
    }

    /// Returns how long it runs without Standfast, and what it prints.
    fn alone(&self, nodes: &Nodes, size: u64) -> Result<(Duration, String)> {
        let arena = Arena::new()?;
        let begun = Instant::now();
        let ended = native(nodes, &arena, &self.words(size))?.wait(4 * SOLVED)?.well(self.name)?;
        Ok((begun.elapsed(), ended.output))
    }

    /// Returns the same with checkpoints.
    fn protected(&self, nodes: &Nodes, size: u64) -> Result<(Duration, String)> {
        let arena = Arena::new()?;
        let words = self.words(size);
        let begun = Instant::now();
        let mut job = Distributed::new(nodes, &arena);
        let running = job.run(SOLVER_INTERVAL, &words.iter().map(String::as_str).collect::<Vec<_>>())?;
        running.wait(4 * SOLVED)?.well(self.name).with_context(|| arena.evidence())?;
        Ok((begun.elapsed(), job.printed()?))
    }
}
