//! MPI programs under `standfast group run`, which launches them again by itself: one command, and the undisturbed result,
//! whatever is killed, hangs or is taken away.

use crate::arena::Arena;
use crate::command::Standfast;
use crate::mpi::{Code, Life, Mpi, RANKS, said};
use crate::nodes::Nodes;
use crate::running::{Ended, Output, PATIENCE, Running, until};
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A process that has hung so long ends itself.
const HANG: &str = "2s";

/// A program under `group run`, and what it must come to.
struct Watched<'a> {
    mpi: Mpi,
    program: &'a Path,
    arena: Arena,
    seed: u64,
    random: Rng,
    steps: usize,
    truth: Ended,
}

impl<'a> Watched<'a> {
    fn new(mpi: Mpi, program: &'a Path, steps: usize, seed: u64) -> Result<Self> {
        let life = Life { arguments: [steps.to_string(), "48".into()], code: Code::Parity, shift: 0 };
        let quiet = Arena::new()?;
        let truth = mpi.launch(&quiet, "undisturbed", program, &life)?.wait(PATIENCE)?.well("the undisturbed job")?;
        Ok(Self { mpi, program, arena: Arena::new()?, seed, random: Rng::with_seed(seed), steps, truth })
    }

    /// `group run`, with these options, of the launcher with these.
    fn start(&self, name: &str, options: &[&str], launcher: &[&str]) -> Result<Running> {
        let mut command = Standfast::new(&self.arena)?.command(&["group", "run", "-d"]);
        command.arg(self.arena.images()).args(options).arg("--").args(self.mpi.launcher).args(launcher);
        command.args(["-n", &RANKS.to_string()]).arg(self.program).args([self.steps.to_string(), "48".into()]);
        command.env("FIELD_TELLS", "").env("STANDFAST_GROUP_MEMORY", self.memory());
        Running::start(&self.arena, name, Output::Log, &mut command)
    }

    /// The memory of all ranks, where there are no nodes.
    fn memory(&self) -> std::path::PathBuf {
        let memory = self.arena.folder().join("memory");
        let _ = fs::create_dir(&memory);
        memory
    }

    fn wait_for_epochs(&self, running: &mut Running, epochs: usize) -> Result<()> {
        until(PATIENCE, "some epochs", || {
            ensure!(!running.has_ended()?, "the job has ended by itself; {}", self.said());
            let told =
                running.errors_so_far().lines().filter(|line| line.contains("epoch ") && line.ends_with(" ms")).count();
            Ok((told >= epochs).then_some(()))
        })
    }

    /// One rank, or none where the launcher has just been quicker.
    fn strike(&mut self, signal: Signal) {
        if let Some(rank) = self.random.choice(self.arena.processes_of(self.program)) {
            let _ = kill(rank, signal);
        }
    }

    /// The undisturbed result, and nothing that is left.
    fn check(&self, running: Running) -> Result<Ended> {
        let ended = running.wait(PATIENCE)?.well("the watched job").with_context(|| self.said())?;
        let (found, truth) = (result(&ended), result(&self.truth));
        ensure!(found == truth, "{found:?} instead of {truth:?}; {}", self.said());
        ensure!(!self.arena.images().exists(), "the job's directory is still there; {}", self.said());
        self.arena.wait_until_empty(PATIENCE)?;
        Ok(ended)
    }

    fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = Standfast::new(&self.arena)?.command(&["group"]);
        command.args(arguments).arg(self.arena.images()).arg("--json").env("STANDFAST_GROUP_MEMORY", self.memory());
        let ended = Running::complete(&self.arena, arguments[0], &mut command)?.well(arguments[0])?;
        serde_json::from_str(&ended.output).context("its answer")
    }

    fn said(&self) -> String {
        said(&self.arena, self.seed)
    }
}

/// Ranks are killed.
///
/// # Errors
/// When the result is not that of an undisturbed run, or something is left.
pub fn survives_kills(mpi: Mpi, program: &Path, strikes: usize, seed: u64) -> Result<()> {
    let mut watched = Watched::new(mpi, program, strikes * 30 + 50, seed)?;
    let mut running = watched.start("watched", &[], &[])?;
    let mut epochs = 0;
    for _ in 0..strikes {
        epochs += watched.random.usize(1..20);
        watched.wait_for_epochs(&mut running, epochs)?;
        watched.strike(Signal::SIGKILL);
    }
    let ended = watched.check(running)?;
    ensure!(ended.errors.contains("launching it again"), "nothing was launched again; {}", watched.said());
    Ok(())
}

/// A rank stands still: the others end themselves, and the job is launched again.
///
/// # Errors
/// As above.
pub fn survives_a_hang(mpi: Mpi, program: &Path, seed: u64) -> Result<()> {
    let mut watched = Watched::new(mpi, program, 300, seed)?;
    let mut running = watched.start("watched", &["--hang", HANG], &[])?;
    watched.wait_for_epochs(&mut running, 5)?;
    watched.strike(Signal::SIGSTOP);
    let ended = watched.check(running)?;
    ensure!(ended.errors.contains("hung for 2s and ends itself"), "nobody saw that it hung; {}", watched.said());
    Ok(())
}

/// The command is asked to end: what is in memory is saved. One rank's piece is taken away and rebuilt, all memory is lost,
/// and the same command goes on from the directory.
///
/// # Errors
/// As above.
pub fn goes_on_from_what_was_saved(mpi: Mpi, program: &Path, seed: u64) -> Result<()> {
    // Enough to be asked in the midst of it.
    let watched = Watched::new(mpi, program, 300, seed)?;
    let mut running = watched.start("asked", &[], &[])?;
    watched.wait_for_epochs(&mut running, 10)?;
    running.signal(Signal::SIGTERM)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(!ended.exited(0) && ended.errors.contains("are saved in"), "it was not saved; {}", watched.said());
    watched.arena.wait_until_empty(PATIENCE)?;
    let status = watched.ask(&["status"])?;
    let whole = |held: &&Value| held["place"] == "directory" && held["missing"].as_array().is_some_and(Vec::is_empty);
    let newest = status.as_array().and_then(|epochs| epochs.iter().find(whole));
    let newest = newest.with_context(|| format!("no epoch is whole: {status}; {}", watched.said()))?.clone();
    ensure!(newest["bears"] == 1, "{newest}");
    take_away_one_piece(&watched.arena)?;
    fs::remove_dir_all(watched.memory())?;
    let rebuilt = watched.ask(&["rebuild"])?;
    ensure!(rebuilt["seats"].as_array().is_some_and(|seats| seats.len() == 1), "{rebuilt}");
    let verified = watched.ask(&["verify"])?;
    ensure!(
        verified.as_array().is_some_and(|it| it.len() >= RANKS && it.iter().all(|it| it["damage"].is_null())),
        "{verified}"
    );
    let again = watched.start("again", &[], &[])?;
    let ended = watched.check(again)?;
    ensure!(ended.errors.contains("goes back to epoch"), "it does not say from where it goes on; {}", watched.said());
    Ok(())
}

/// Of each epoch in the directory, that of the second rank.
fn take_away_one_piece(arena: &Arena) -> Result<()> {
    for entry in fs::read_dir(arena.images())? {
        let seat = entry?.path().join("seat-1");
        if seat.is_dir() {
            fs::remove_dir_all(seat)?;
        }
    }
    Ok(())
}

/// A node dies with its memory: a spare takes its place. When it comes back and another dies, it is the spare.
///
/// # Errors
/// As above.
pub fn survives_dead_nodes(mpi: Mpi, program: &Path, seed: u64) -> Result<()> {
    let mut watched = Watched::new(mpi, program, 160, seed)?;
    let first = watched.random.usize(..RANKS);
    let second = (first + watched.random.usize(1..RANKS)) % RANKS;
    let ended = {
        let nodes = Nodes::new(&watched.arena, RANKS + 1)?;
        let (list, agent) = (nodes.list(), nodes.agent().into_string().unwrap_or_default());
        let options = ["--nodes", &list, "--spares", "1", "--agent", &agent];
        let launcher: Vec<&str> =
            mpi.agent.split(' ').chain([agent.as_str()]).chain(mpi.hosts.iter().copied()).collect();
        let mut running = watched.start("watched", &options, &launcher)?;
        let mut epochs = 10;
        for dead in [first, second] {
            watched.wait_for_epochs(&mut running, epochs)?;
            nodes.kill(dead)?;
            epochs += 20;
            watched.wait_for_epochs(&mut running, epochs)?;
            nodes.revive(dead)?;
        }
        let ended = watched.check(running)?;
        for node in 0..=RANKS {
            let left: Vec<_> = fs::read_dir(nodes.memory(node)).into_iter().flatten().flatten().collect();
            ensure!(left.iter().all(|it| it.file_name() == "tmp"), "left on {}: {left:?}", nodes.name(node));
        }
        ended
    };
    ensure!(ended.errors.matches("left out, since they do not answer: node").count() == 2, "{}", watched.said());
    Ok(())
}

/// The checksum, behind what MPICH's launcher says on standard output of launches that went wrong.
fn result(ended: &Ended) -> Option<&str> {
    ended.output.lines().last()
}
