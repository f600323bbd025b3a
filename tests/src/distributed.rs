//! Distributed jobs on simulated nodes: begun, struck in every way at random moments, and continued as a whole.

use crate::arena::Arena;
use crate::command::standfast_binary;
use crate::mpi::{Mpi, Unmodified};
use crate::running::{Ended, Output, PATIENCE, Running, until};
use crate::simulated::Nodes;
use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The number of blows at one job. More would mostly hit it before it has gone on.
const BLOWS_MAX: usize = 6;
/// After the last blow a job is restarted more than once only if it failed on its own.
const LIVES_MAX: usize = 2 * BLOWS_MAX;
/// How long a life lasts before the blow, in milliseconds.
const LIFE: std::ops::Range<u64> = 300..2500;
/// The time between checkpoints.
const INTERVALS: [&str; 3] = ["100ms", "300ms", "700ms"];
/// Where they go.
const LEVELS: [&[&str]; 2] = [&[], &["--memory", "/dev/shm", "--flush-every", "3"]];
/// How long MPI_Finalize may take.
const FINALIZE_MAX: Duration = Duration::from_secs(20);
/// How often it may take longer in the jobs of some blows. Without Standfast it did so in one of a hundred runs.
const HUNG_MAX: usize = 1;
/// The pause between two looks at what a job has printed.
const GLANCE: Duration = Duration::from_millis(50);
/// Some four seconds without checkpoints.
const STEPS: u32 = 160;
const STEPS_OF_MPICH: u32 = 500;

/// What is killed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// All processes on all nodes, and the command that was typed.
    Everything,
    /// All processes on one node.
    Part,
    /// The supervisor of one part.
    Supervisor,
    /// The command that was typed.
    Coordinator,
    /// All processes of Standfast on all nodes. What they have started runs on.
    Standfast,
}

/// One of them is drawn each time, so those that are listed more often are likelier.
const BLOWS: [Blow; 8] = [
    Blow::Everything,
    Blow::Everything,
    Blow::Everything,
    Blow::Part,
    Blow::Part,
    Blow::Supervisor,
    Blow::Coordinator,
    Blow::Standfast,
];

/// A distributed job in an arena.
#[derive(Debug)]
pub struct Distributed<'a> {
    /// Its nodes.
    pub nodes: &'a Nodes,
    /// Where its processes and files are.
    pub arena: &'a Arena,
    lives: usize,
}

/// What a job is to run and to endure.
#[derive(Debug, Clone, Copy)]
pub struct Ordeal<'a> {
    /// The command.
    pub command: &'a [&'a str],
    /// The number of blows.
    pub blows: usize,
    /// What its last line begins with, if it may hang after that: MPICH's MPI_Finalize sometimes does (docs/group-protocol.md).
    pub last_line: Option<&'a str>,
}

/// A job that was struck again and again.
#[derive(Debug)]
pub struct Struck {
    /// The number of blows.
    pub blows: usize,
    /// How it ended.
    pub end: StruckEnd,
}

/// How a job has ended that was struck.
#[derive(Debug)]
pub enum StruckEnd {
    /// A blow came before the first checkpoint that counts.
    TooEarly,
    /// Well. This is what it had printed.
    Well(String),
    /// It had printed this, all there was, and its MPI_Finalize did not end.
    HungAtEnd(String),
}

/// How jobs have ended that were struck.
#[derive(Debug, Clone, Copy, Default)]
pub struct Endings {
    /// The number of those that ended well.
    pub well: usize,
    /// Of those that were struck before their first checkpoint, so that they could not be continued.
    pub too_early: usize,
    /// Of those that had printed everything when MPI_Finalize did not end.
    pub hung_at_end: usize,
}

impl<'a> Distributed<'a> {
    /// Prepares a job, and does not begin it.
    pub fn new(nodes: &'a Nodes, arena: &'a Arena) -> Self {
        Self { nodes, arena, lives: 0 }
    }

    /// Returns the job's directory.
    pub fn directory(&self) -> PathBuf {
        self.arena.folder().join("job")
    }

    /// Begins it with this command.
    ///
    /// # Errors
    /// When `standfast run` cannot be started.
    pub fn run(&mut self, interval: &str, command: &[&str]) -> Result<Running> {
        self.run_with(&["-i", interval], command)
    }

    /// Begins it with this command and these options.
    ///
    /// # Errors
    /// When `standfast run` cannot be started.
    pub fn run_with(&mut self, options: &[&str], command: &[&str]) -> Result<Running> {
        let (directory, nodes, agent) = (self.directory().display().to_string(), self.nodes.list(), self.nodes.agent());
        let usual = ["run", "--nodes", &nodes, "--agent", &agent, "-d", &directory];
        self.start(&[&usual, options, &["--"], command].concat())
    }

    /// Continues it, or takes it over.
    ///
    /// # Errors
    /// When `standfast restart` cannot be started.
    pub fn restart(&mut self) -> Result<Running> {
        let directory = self.directory().display().to_string();
        self.start(&["restart", &directory])
    }

    /// Starts `standfast` with these words, beside the nodes.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, words: &[&str]) -> Result<Running> {
        self.lives += 1;
        let mut command = self.nodes.command(self.arena, standfast_binary()?.as_os_str(), &[]);
        // That of each node. Open MPI names a folder there after the node and the process, and another test has both.
        command.env("TMPDIR", "/tmp");
        command.args(words).current_dir(self.arena.work()).stdin(Stdio::null());
        Running::start(self.arena, &format!("life-{}", self.lives), Output::Log, &mut command)
    }

    /// Returns what the command has printed in all lives, as far as it counts.
    ///
    /// # Errors
    /// When it has printed nothing yet.
    pub fn printed(&self) -> Result<String> {
        fs::read_to_string(self.directory().join("part-0/output")).context("the output of the job")
    }

    /// Waits for a checkpoint that has begun after this call.
    ///
    /// # Errors
    /// When none is taken for long.
    pub fn await_checkpoint(&self, running: &Running) -> Result<()> {
        let taken = || running.errors_so_far().matches("durable after").count();
        let wanted = taken() + 2;
        until(PATIENCE, "a checkpoint", || Ok((taken() >= wanted).then_some(())))
    }

    /// Returns the processes of `standfast` with this word, by the rest of their command lines.
    ///
    /// # Errors
    /// When there is no `standfast`.
    pub fn processes_with(&self, word: &str) -> Result<Vec<Pid>> {
        let line = |pid: &Pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut found: Vec<_> = self.arena.processes().into_iter().map(|pid| (line(&pid), pid)).collect();
        let command = standfast_binary()?.as_os_str().as_encoded_bytes();
        found.retain(|(line, _)| {
            let mut words = line.split(|byte| *byte == 0);
            words.next() == Some(command) && words.any(|it| it == word.as_bytes())
        });
        found.sort();
        Ok(found.into_iter().map(|(_, pid)| pid).collect())
    }

    /// Strikes a job at random moments and in every way, and continues it each time.
    ///
    /// # Errors
    /// When it hangs, cannot be continued, or leaves processes behind.
    pub fn survives_blows(&mut self, ordeal: Ordeal<'_>, random: &mut Rng) -> Result<Struck> {
        let Ordeal { command, blows, last_line } = ordeal;
        let interval = INTERVALS[random.usize(..INTERVALS.len())];
        let levels = LEVELS[random.usize(..LEVELS.len())];
        let mut running = self.run_with(&[&["-i", interval], levels].concat(), command)?;
        let (mut struck, mut said) = (Vec::new(), String::new());
        for _ in 0..LIVES_MAX {
            let life = Duration::from_millis(random.u64(LIFE));
            if !ends_within(&mut running, life)? && struck.len() < blows.min(BLOWS_MAX) {
                let blow = BLOWS[random.usize(..BLOWS.len())];
                self.strike(blow, random)?;
                struck.push(blow);
            }
            if let Some(last_line) = last_line
                && self.hangs_after(last_line, &mut running)?
            {
                self.arena.clear();
                return Ok(Struck { blows: struck.len(), end: StruckEnd::HungAtEnd(self.printed()?) });
            }
            let ended = running.wait(2 * PATIENCE).with_context(|| format!("after {struck:?}"))?;
            if ended.exited(0) {
                self.arena.wait_until_empty(PATIENCE).with_context(|| format!("after {struck:?}"))?;
                return Ok(Struck { blows: struck.len(), end: StruckEnd::Well(self.printed()?) });
            }
            if is_too_early(&ended) {
                self.arena.clear();
                return Ok(Struck { blows: struck.len(), end: StruckEnd::TooEarly });
            }
            said = ended.errors;
            running = self.restart()?;
        }
        bail!("it did not end well in {LIVES_MAX} lives, after {struck:?}: {said}")
    }

    /// Waits until the job has ended, or has printed its last line and does not end.
    fn hangs_after(&self, last_line: &str, running: &mut Running) -> Result<bool> {
        let has_printed_all = || self.printed().is_ok_and(|it| it.lines().any(|line| line.starts_with(last_line)));
        let begun = Instant::now();
        while begun.elapsed() < 2 * PATIENCE && !has_printed_all() {
            if ends_within(running, GLANCE)? {
                return Ok(false);
            }
        }
        Ok(has_printed_all() && !ends_within(running, FINALIZE_MAX)?)
    }

    fn strike(&self, blow: Blow, random: &mut Rng) -> Result<()> {
        let node = random.usize(..self.nodes.len());
        let supervisors = || {
            Ok::<_, anyhow::Error>([self.processes_with("part-run")?, self.processes_with("part-restart")?].concat())
        };
        let victims = match blow {
            Blow::Everything => {
                self.arena.clear();
                return Ok(());
            }
            Blow::Part => {
                self.arena.processes().into_iter().filter(|pid| self.nodes.node_of(*pid) == Some(node)).collect()
            }
            Blow::Supervisor => random.choice(supervisors()?).into_iter().collect(),
            Blow::Standfast => self.arena.processes_of(standfast_binary()?),
            Blow::Coordinator => [self.processes_with("--nodes")?, self.processes_with("restart")?].concat(),
        };
        // Some may have ended meanwhile.
        victims.into_iter().for_each(|pid| _ = kill(pid, Signal::SIGKILL));
        Ok(())
    }
}

/// Strikes unmodified programs of this MPI `blows` times, on two to four nodes. All end with the output of an undisturbed run.
/// Returns nothing if there are no simulated nodes here, or this MPI is not installed.
///
/// # Errors
/// When one ends with another output, or not at all.
pub fn survives_blows(mpi: Mpi, blows: usize, seed: u64) -> Result<Option<Endings>> {
    let mut random = Rng::with_seed(seed);
    let is_mpich = mpi.name.starts_with("MPICH");
    let steps = if is_mpich { STEPS_OF_MPICH } else { STEPS };
    let (mut left, mut endings) = (blows, Endings::default());
    while left > 0 {
        // On more nodes MPI_Finalize hangs more often.
        let ranks = if is_mpich { 2 } else { random.usize(2..5) };
        let Some(program) = mpi.unmodified_across_nodes(Unmodified::Steps, ranks, steps)? else { return Ok(None) };
        let Some(nodes) = Nodes::new(ranks)? else { return Ok(None) };
        let arena = Arena::new()?;
        let words = program.words();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let last_line = format!("{} ", steps - 1);
        let ordeal = Ordeal { command: &words, blows: left, last_line: is_mpich.then_some(last_line.as_str()) };
        let struck = Distributed::new(&nodes, &arena).survives_blows(ordeal, &mut random)?;
        left -= struck.blows;
        let printed = match struck.end {
            StruckEnd::TooEarly => {
                endings.too_early += 1;
                continue;
            }
            StruckEnd::Well(printed) => {
                endings.well += 1;
                printed
            }
            StruckEnd::HungAtEnd(printed) => {
                endings.hung_at_end += 1;
                printed
            }
        };
        let undisturbed = Arena::new()?;
        let mut command = undisturbed.command(&program.path);
        let native = Running::complete(&undisturbed, "native", command.args(&program.arguments))?;
        let expected = native.well("the program")?.output;
        ensure!(printed == expected, "on {ranks} nodes it printed {printed:?}, and undisturbed {expected:?}");
    }
    ensure!(endings.hung_at_end <= HUNG_MAX, "MPI_Finalize hangs too often: {endings:?}");
    Ok(Some(endings))
}

/// Reports whether a command ends within this time.
fn ends_within(running: &mut Running, limit: Duration) -> Result<bool> {
    const PAUSE: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if running.has_ended()? {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
    }
    running.has_ended()
}

/// Reports whether a restart has refused because the job was struck before its first checkpoint.
fn is_too_early(ended: &Ended) -> bool {
    ended.errors.contains("no checkpoint of the job is complete")
}
