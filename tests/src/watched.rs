//! MPI programs under `standfast group run`, which launches them again by itself. One command reaches the undisturbed
//! result, whatever is killed, hangs or disappears.

use crate::arena::Arena;
use crate::command::Standfast;
use crate::mpi::{Code, Mpi, RANKS, said};
use crate::running::{Ended, Output, PATIENCE, Running, until};
use crate::simulated::Nodes;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// The time after which a hung process ends itself.
const HANG: &str = "2s";
/// More steps than any test waits for.
const STEPS_MAX: usize = 1_000_000_000;
/// Pages of each process.
const PAGES: &str = "48";

/// A program under `group run`, and its expected result.
pub(crate) struct Watched<'a> {
    mpi: Mpi,
    program: &'a Path,
    pub(crate) arena: Arena,
    seed: u64,
    pub(crate) random: Rng,
    /// `None` if the program runs until the file `enough` exists.
    course: Option<Course>,
    /// Number of lives at the time of the last strike.
    lives: usize,
}

/// A number of steps, and their undisturbed result.
struct Course {
    steps: usize,
    truth: Ended,
}

impl<'a> Watched<'a> {
    fn new(mpi: Mpi, program: &'a Path, steps: usize, seed: u64) -> Result<Self> {
        let course = Some(Course { steps, truth: mpi.undisturbed(program, steps, PAGES)? });
        Ok(Self { course, ..Self::endless(mpi, program, seed)? })
    }

    pub(crate) fn endless(mpi: Mpi, program: &'a Path, seed: u64) -> Result<Self> {
        Ok(Self { mpi, program, arena: Arena::new()?, seed, random: Rng::with_seed(seed), course: None, lives: 0 })
    }

    /// Starts `group run` with these options, and its launcher with these arguments.
    pub(crate) fn start(&self, name: &str, options: &[&str], launcher: &[&str]) -> Result<Running> {
        let mut command = Standfast::new(&self.arena)?.command(&["group", "run", "-d"]);
        command.arg(self.arena.images()).args(options).arg("--").args(self.mpi.launcher).args(launcher);
        command.args(["-n", &RANKS.to_string()]).arg(self.program).args(self.arguments());
        command.env("FIELD_TELLS", "").env("STANDFAST_GROUP_MEMORY", self.memory()).env("FIELD_UNTIL", self.enough());
        Running::start(&self.arena, name, Output::Log, &mut command)
    }

    /// Starts the same job on nodes.
    fn start_on(&mut self, nodes: &Nodes, of: &Job<'_>) -> Result<Running> {
        let standfast = Standfast::new(&self.arena)?.command(&[]);
        self.lives = 0;
        let until = format!("FIELD_UNTIL={}", self.enough().display());
        let mut command = nodes.command(&self.arena, standfast.get_program(), &["FIELD_TELLS=", &until]);
        command.args(["group", "run", "-d"]).arg(self.arena.folder().join(of.directory)).args(of.options);
        command.args(["--nodes", of.nodes, "--agent", &nodes.agent(), "--"]);
        command.args(self.mpi.on_nodes(&nodes.agent())).args(["-n", &RANKS.to_string()]).arg(self.program);
        command.args(self.arguments());
        Running::start(&self.arena, of.name, Output::Log, &mut command)
    }

    pub(crate) fn arguments(&self) -> [String; 2] {
        let steps = self.course.as_ref().map_or(STEPS_MAX, |course| course.steps);
        [steps.to_string(), PAGES.into()]
    }

    /// Returns the path of the file that ends an endless program.
    pub(crate) fn enough(&self) -> PathBuf {
        self.arena.folder().join("enough")
    }

    /// Returns the folder for the memory of all ranks, without nodes.
    fn memory(&self) -> PathBuf {
        let memory = self.arena.folder().join("memory");
        let _ = fs::create_dir(&memory);
        memory
    }

    fn wait_for_epochs(&self, running: &mut Running, epochs: usize) -> Result<()> {
        until(PATIENCE, "some epochs", || {
            ensure!(!running.has_ended()?, "the job has ended by itself; {}", self.said());
            Ok((epochs_of(running) >= epochs).then_some(()))
        })
        .with_context(|| self.said())
    }

    /// Waits for a random moment in the life after the last strike, some epochs after its recovery. The moment counts as
    /// a strike.
    pub(crate) fn wait_for_a_moment(&mut self, running: &mut Running) -> Result<()> {
        until(PATIENCE, "the next life", || {
            ensure!(!running.has_ended()?, "the job has ended by itself; {}", self.said());
            Ok((lives_of(running) > self.lives).then_some(()))
        })
        .with_context(|| self.said())?;
        let epochs = epochs_of(running) + self.random.usize(1..20);
        self.wait_for_epochs(running, epochs)?;
        sleep(Duration::from_millis(self.random.u64(..30)));
        self.lives = lives_of(running);
        Ok(())
    }

    pub(crate) fn wait_until_told(&self, running: &mut Running, words: &str) -> Result<()> {
        until(PATIENCE, words, || {
            ensure!(!running.has_ended()?, "the job has ended by itself; {}", self.said());
            Ok(running.errors_so_far().contains(words).then_some(()))
        })
        .with_context(|| self.said())
    }

    /// Signals one rank, or none if the launcher has just been faster.
    pub(crate) fn strike(&mut self, signal: Signal) {
        self.strike_some(1, signal);
    }

    /// Signals this many ranks at once.
    fn strike_some(&mut self, count: usize, signal: Signal) {
        let mut ranks = self.arena.processes_of(self.program);
        self.random.shuffle(&mut ranks);
        for rank in ranks.into_iter().take(count) {
            let _ = kill(rank, signal);
        }
    }

    /// Strikes some nodes on which ranks run, at most as many at once as the code tolerates. Returns them.
    fn strike_nodes(&mut self, nodes: &Nodes, code: Code) -> Result<BTreeSet<usize>> {
        let count = self.random.usize(1..=code.losses());
        let mut ranks = self.arena.processes_of(self.program);
        self.random.shuffle(&mut ranks);
        let struck: BTreeSet<usize> = ranks.iter().filter_map(|rank| nodes.node_of(*rank)).take(count).collect();
        for node in &struck {
            if self.random.bool() { nodes.lose(*node)? } else { nodes.stop(*node)? }
        }
        Ok(struck)
    }

    /// Waits for the end. Checks that the result is undisturbed and that nothing is left.
    pub(crate) fn check(&self, running: Running) -> Result<Ended> {
        if self.course.is_none() {
            fs::write(self.enough(), "")?;
        }
        let ended = running.wait(PATIENCE)?.well("the watched job").with_context(|| self.said())?;
        self.compare(&ended).with_context(|| self.said())?;
        ensure!(!self.arena.images().exists(), "the job's directory is still there; {}", self.said());
        self.arena.wait_until_empty(PATIENCE)?;
        Ok(ended)
    }

    fn compare(&self, ended: &Ended) -> Result<()> {
        let truth = match &self.course {
            Some(course) => result(&course.truth).map(str::to_owned),
            None => {
                let steps = ended.errors.lines().rev().find_map(|line| line.strip_prefix("ended at step "));
                let steps = steps.context("it does not say where it ended")?.parse()?;
                result(&self.mpi.undisturbed(self.program, steps, PAGES)?).map(str::to_owned)
            }
        };
        let found = result(ended).map(str::to_owned);
        ensure!(found == truth, "{found:?} instead of {truth:?}");
        Ok(())
    }

    fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = Standfast::new(&self.arena)?.command(&["group"]);
        command.args(arguments).arg(self.arena.images()).arg("--json").env("STANDFAST_GROUP_MEMORY", self.memory());
        let ended = Running::complete(&self.arena, arguments[0], &mut command)?.well(arguments[0])?;
        serde_json::from_str(&ended.output).context("its answer")
    }

    pub(crate) fn said(&self) -> String {
        said(&self.arena, self.seed)
    }
}

/// Kills ranks.
///
/// # Errors
/// When the result differs from an undisturbed run, or something is left.
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

/// Stops a rank. The others must end themselves, and the command must launch the job again.
///
/// # Errors
/// Same as for [`survives_kills`].
pub fn survives_a_hang(mpi: Mpi, program: &Path, seed: u64) -> Result<()> {
    let mut watched = Watched::new(mpi, program, 300, seed)?;
    let mut running = watched.start("watched", &["--hang", HANG], &[])?;
    watched.wait_for_epochs(&mut running, 5)?;
    watched.strike(Signal::SIGSTOP);
    let ended = watched.check(running)?;
    ensure!(ended.errors.contains("hung for 2s and ends itself"), "nobody saw that it hung; {}", watched.said());
    Ok(())
}

/// Asks the command to end, which saves what is in memory. Removes and rebuilds one rank's piece, and removes all
/// memory. The same command must then continue from the directory.
///
/// # Errors
/// Same as for [`survives_kills`].
pub fn goes_on_from_what_was_saved(mpi: Mpi, program: &Path, seed: u64) -> Result<()> {
    // Enough steps for the request to arrive in the middle.
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
    ensure!(newest["tolerates"] == 1, "{newest}");
    take_away_one_piece(&watched.arena)?;
    fs::remove_dir_all(watched.memory())?;
    let rebuilt = watched.ask(&["rebuild"])?;
    ensure!(rebuilt["logical_ranks"].as_array().is_some_and(|logical_ranks| logical_ranks.len() == 1), "{rebuilt}");
    let verified = watched.ask(&["verify"])?;
    ensure!(
        verified.as_array().is_some_and(|it| it.len() >= RANKS && it.iter().all(|it| it["damage"].is_null())),
        "{verified}"
    );
    let again = watched.start("again", &[], &[])?;
    let ended = watched.check(again)?;
    ensure!(ended.errors.contains("rolls back to epoch"), "it does not say from where it goes on; {}", watched.said());
    Ok(())
}

/// Removes the second rank's piece of each epoch in the directory.
fn take_away_one_piece(arena: &Arena) -> Result<()> {
    for entry in fs::read_dir(arena.images())? {
        let logical_rank = entry?.path().join("seat-1");
        if logical_rank.is_dir() {
            fs::remove_dir_all(logical_rank)?;
        }
    }
    Ok(())
}

/// A job on nodes.
struct Job<'a> {
    name: &'a str,
    directory: &'a str,
    /// Their names, in this order.
    nodes: &'a str,
    options: &'a [&'a str],
}

impl<'a> Job<'a> {
    fn on(nodes: &'a str, options: &'a [&'a str]) -> Self {
        Self { name: "watched", directory: "images", nodes, options }
    }
}

/// Loses a node with its memory, so that a spare takes its place, and lets the node return as a spare. Then stops
/// another node, whose memory stays. That node returns with its old epoch just as a third node is lost with its memory.
///
/// # Errors
/// Same as for [`survives_kills`].
pub fn survives_lost_nodes(mpi: Mpi, program: &Path, nodes: &Nodes, seed: u64) -> Result<()> {
    let mut watched = Watched::endless(mpi, program, seed)?;
    let mut all: Vec<usize> = (0..RANKS).collect();
    watched.random.shuffle(&mut all);
    let missed = |node: usize| format!("because they do not answer: {}\n", nodes.name(node));
    let mut running = watched.start_on(nodes, &Job::on(&nodes.list(), &["--spares", "1"]))?;
    watched.wait_for_a_moment(&mut running)?;
    nodes.lose(all[0])?;
    watched.wait_until_told(&mut running, &missed(all[0]))?;
    nodes.start(all[0])?;
    watched.wait_for_a_moment(&mut running)?;
    nodes.stop(all[1])?;
    watched.wait_until_told(&mut running, &missed(all[1]))?;
    watched.wait_for_a_moment(&mut running)?;
    nodes.start(all[1])?;
    nodes.lose(all[2])?;
    watched.wait_for_a_moment(&mut running)?;
    let ended = watched.check(running)?;
    let left = nodes.left()?;
    ensure!(left.is_empty(), "left in memory: {left:?}; {}", watched.said());
    ensure!(ended.errors.contains(&missed(all[2])), "the last was not missed; {}", watched.said());
    Ok(())
}

/// Makes `strikes` strikes at random moments. Each hits one or two ranks, or as many nodes at once as the code
/// tolerates. The nodes lose their memory, or keep it and return with an old epoch.
///
/// # Errors
/// Same as for [`survives_kills`].
pub fn survives_strikes(mpi: Mpi, program: &Path, code: Code, strikes: usize, seed: u64) -> Result<bool> {
    let Some(nodes) = Nodes::new(RANKS + code.losses())? else { return Ok(false) };
    let mut watched = Watched::endless(mpi, program, seed)?;
    let (checks, tries) = (code.losses().to_string(), (2 * strikes + 2).to_string());
    let options = ["--spares", &checks, "--checks", &checks, "--tries", &tries];
    let mut running = watched.start_on(&nodes, &Job::on(&nodes.list(), &options))?;
    let mut away = BTreeSet::new();
    for _ in 0..strikes {
        watched.wait_for_a_moment(&mut running)?;
        std::mem::take(&mut away).into_iter().try_for_each(|node| nodes.start(node))?;
        if watched.random.u8(..3) == 0 {
            away = watched.strike_nodes(&nodes, code)?;
        } else {
            let ranks = watched.random.usize(1..=2);
            watched.strike_some(ranks, Signal::SIGKILL);
        }
    }
    watched.wait_for_a_moment(&mut running)?;
    away.into_iter().try_for_each(|node| nodes.start(node))?;
    watched.check(running)?;
    let left = nodes.left()?;
    ensure!(left.is_empty(), "left in memory: {left:?}; {}", watched.said());
    Ok(true)
}

/// Loses a node with its memory while there is no spare. The job must end with a reason and save what is in memory. The
/// same command must continue on the other nodes, in another order. What another job holds in their memory must stay
/// unchanged.
///
/// # Errors
/// Same as for [`survives_kills`].
pub fn goes_on_with_fewer_nodes(mpi: Mpi, program: &Path, nodes: &Nodes, seed: u64) -> Result<()> {
    let mut watched = Watched::endless(mpi, program, seed)?;
    let list = nodes.list();
    let other = Job { name: "other", directory: "other", ..Job::on(&list, &["--tries", "1"]) };
    let mut running = watched.start_on(nodes, &other)?;
    watched.wait_for_a_moment(&mut running)?;
    watched.strike(Signal::SIGKILL);
    ensure!(!running.wait(PATIENCE)?.exited(0), "it had only one try; {}", watched.said());
    let of_the_other = nodes.left()?;
    ensure!(!of_the_other.is_empty(), "nothing is left of the other job; {}", watched.said());

    let mut running = watched.start_on(nodes, &Job::on(&list, &[]))?;
    watched.wait_for_a_moment(&mut running)?;
    let lost = watched.random.usize(..RANKS);
    nodes.lose(lost)?;
    let refused = running.wait(PATIENCE)?;
    let reason = format!("3 nodes answer and 4 are needed; these do not: {}", nodes.name(lost));
    ensure!(!refused.exited(0) && refused.errors.contains(&reason), "no {reason:?}; {}", watched.said());
    ensure!(refused.errors.contains("are saved in"), "nothing was saved; {}", watched.said());
    let mut others: Vec<&str> = (0..RANKS).filter(|node| *node != lost).map(|node| nodes.name(node)).collect();
    watched.random.shuffle(&mut others);
    let mut running = watched.start_on(nodes, &Job { name: "fewer", ..Job::on(&others.join(","), &[]) })?;
    watched.wait_for_a_moment(&mut running)?;
    let ended = watched.check(running)?;
    ensure!(!ended.errors.contains("joined as 0"), "it began again; {}", watched.said());
    let is_there = |path: &&String| !path.starts_with(&format!("./{}/", nodes.name(lost)));
    let expected: BTreeSet<String> = of_the_other.iter().filter(is_there).cloned().collect();
    let left = nodes.left()?;
    ensure!(left == expected, "{left:?} instead of {expected:?}; {}", watched.said());
    Ok(())
}

/// Counts the lives: how often the processes have started or continued.
fn lives_of(running: &Running) -> usize {
    running.errors_so_far().lines().filter(|line| line.contains("rank 0 joined as")).count()
}

/// Counts the epochs that the processes have reported, in all lives.
fn epochs_of(running: &Running) -> usize {
    let told = running.errors_so_far();
    told.lines().filter(|line| line.contains("epoch ") && line.ends_with(" ms")).count()
}

/// Returns the checksum, which follows what MPICH's launcher prints on standard output about failed launches.
fn result(ended: &Ended) -> Option<&str> {
    ended.output.lines().last()
}
