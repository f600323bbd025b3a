//! Strikes a checkpoint or a restart at its n-th effective call, for one n. To cover all n, a caller repeats this until
//! it reports that no such call was left.

mod levels;

use crate::arena::Arena;
use crate::command::{Checkpoints, Standfast, copy_folder};
use crate::result::{OUTPUT, RunResult, open_gate};
use crate::running::{Ended, Output, PATIENCE, Running, until};
use crate::survival::explain;
use crate::tracer::{Blow, Sighting, Strike, Tracer};
use crate::traces;
use crate::victims::{Program, RING, SMALL};
use anyhow::{Context as _, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};

pub use levels::{FLUSH_DISASTERS, FlushDisaster};

/// What strikes a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disaster {
    /// SIGKILL of the supervisor.
    SupervisorKilled,
    /// SIGKILL of the program.
    ProgramKilled,
    /// SIGKILL of a process of the job that the others do not need.
    SpareKilled,
    /// SIGKILL of the clone from which the checkpoint is read.
    CloneKilled,
    /// One call fails with EIO.
    DiskError,
    /// The disk is full from some call on.
    DiskFull,
}

/// The disasters that can strike any program.
pub const DISASTERS: [Disaster; 4] =
    [Disaster::SupervisorKilled, Disaster::ProgramKilled, Disaster::DiskError, Disaster::DiskFull];

/// What exists before the checkpoint that is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// No checkpoint; the struck one is the first.
    Nothing,
    /// One intact generation.
    OneGeneration,
    /// Several generations that build upon each other, more than are kept.
    Chain,
}

/// The number of checkpoints in a chain that is to be coalesced.
const CHAIN: u32 = 4;

/// The program that is struck, and its expected result.
#[derive(Debug, Clone)]
pub struct Subject {
    program: Program,
    native: RunResult,
    /// Options that protect it.
    options: Vec<String>,
    /// Whether its checkpoints go to memory first.
    in_memory: bool,
}

impl Subject {
    /// Returns the smallest victim.
    ///
    /// # Errors
    /// When the victim does not compile or run.
    pub fn small() -> Result<Self> {
        let program = SMALL.with(&[])?;
        let native = RunResult::native(&program)?;
        Ok(Self { program, native, options: Vec::new(), in_memory: false })
    }

    /// Returns a tree of processes, one of which the others do not need.
    ///
    /// # Errors
    /// When the victim does not compile or run.
    pub fn ring() -> Result<Self> {
        let program = RING.with(&[])?;
        let native = RunResult::native(&program)?;
        Ok(Self { program, native, options: Vec::new(), in_memory: false })
    }

    /// Returns the same subject, protected with these options.
    #[must_use]
    pub fn protected_with(&self, options: &[&str]) -> Self {
        Self { options: options.iter().map(|word| (*word).to_owned()).collect(), ..self.clone() }
    }

    /// Strikes a checkpoint of a run at its `at`-th call. Returns what was seen. `struck` is `None` if the checkpoint
    /// has fewer calls, in which case it succeeds.
    ///
    /// # Errors
    /// When a promise is broken.
    pub fn strike_checkpoint(&self, before: Before, disaster: Disaster, at: u64) -> Result<Sighting> {
        self.strike_what_is_asked("checkpoint", before, disaster, at)
    }

    /// Like [`Subject::strike_checkpoint`], while a chain is coalesced.
    ///
    /// # Errors
    /// When a promise is broken.
    pub fn strike_coalescing(&self, disaster: Disaster, at: u64) -> Result<Sighting> {
        self.strike_what_is_asked("coalesce", Before::Chain, disaster, at)
    }

    fn strike_what_is_asked(
        &self,
        asked: &'static str,
        before: Before,
        disaster: Disaster,
        at: u64,
    ) -> Result<Sighting> {
        let mut arena = Arena::new()?;
        let scenario = Scenario::begin(&arena, self, before);
        let outcome = scenario.and_then(|scenario| scenario.strike(asked, disaster, at));
        explain(&mut arena, outcome, at).with_context(|| format!("{disaster:?} at call {at} of a {asked}"))
    }
}

/// A run whose victim waits at its gate.
struct Scenario<'a> {
    arena: &'a Arena,
    subject: &'a Subject,
    standfast: Standfast<'a>,
    tracer: Tracer,
    program: Pid,
}

impl<'a> Scenario<'a> {
    fn begin(arena: &'a Arena, subject: &'a Subject, before: Before) -> Result<Self> {
        let standfast = Standfast::new(arena)?;
        let options = [subject.options.clone(), subject.memory(arena)?].concat();
        let command = standfast.run_command_with(&options, Checkpoints::OnRequest, &subject.program);
        let output = Output::File(arena.work().join(OUTPUT));
        let tracer = Tracer::start(arena, "run", output, &command, None)?;
        standfast.await_gate()?;
        let program = standfast.await_program()?;
        let earlier = match before {
            Before::Nothing => 0,
            Before::OneGeneration => 1,
            Before::Chain => CHAIN,
        };
        for _ in 0..earlier {
            standfast.checkpoint().context("an earlier checkpoint, undisturbed")?;
        }
        Ok(Self { arena, subject, standfast, tracer, program })
    }

    fn strike(self, what: &str, disaster: Disaster, at: u64) -> Result<Sighting> {
        let arena = self.arena;
        let blow = match disaster {
            Disaster::SupervisorKilled => Blow::KillSupervisor,
            Disaster::ProgramKilled => Blow::KillProgram(self.program),
            Disaster::SpareKilled => Blow::KillProgram(spare(arena)?),
            Disaster::CloneKilled => Blow::KillClones(self.program),
            Disaster::DiskError => Blow::Fail(Errno::EIO),
            Disaster::DiskFull => Blow::FailFromHereOn(Errno::ENOSPC),
        };
        self.tracer.arm(Strike::new(at, blow));
        let asked = self.standfast.ask(what, &self.arena.images(), &[])?;
        let sighting = self.tracer.disarm();
        match (disaster, sighting.struck) {
            (_, None) => {
                let asked = asked.well("what was not struck");
                asked.and_then(|_| self.runs_on_with_supervisor())
            }
            (Disaster::SupervisorKilled, _) => self.runs_on_alone(at),
            (Disaster::ProgramKilled, _) => self.was_killed(),
            (Disaster::DiskError | Disaster::DiskFull, _) => self.runs_on_though_disk_failed(&asked),
            (Disaster::SpareKilled | Disaster::CloneKilled, _) => self.runs_on_without(&asked),
        }
        .and_then(|()| traces::ensure_none(arena))
        .with_context(|| format!("struck: {sighting:?}"))?;
        Ok(sighting)
    }

    /// Checks that the program, whose supervisor is dead, still ends by itself and successfully, and that the directory
    /// can still continue it. In every second case, a new supervisor protects the orphan once more. It must cope with
    /// what the dead one left in the program.
    fn runs_on_alone(self, at: u64) -> Result<()> {
        let ended = self.tracer.wait()?;
        ensure!(matches!(ended, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "the supervisor ended with {ended:?}");
        ensure!(is_running(self.program), "the program did not outlive its supervisor");
        until(PATIENCE, "clones and those who made them to go", || {
            Ok(traces::strange_children(self.arena).is_empty().then_some(()))
        })?;
        if at.is_multiple_of(2) {
            let asked = self.standfast.ask("checkpoint", &self.arena.images(), &[])?;
            asked.well("a checkpoint of the orphan")?;
        }
        open_gate(self.arena)?;
        self.arena.wait_until_empty(PATIENCE).context("the orphaned program should end by itself")?;
        RunResult::read(&self.arena.work())?
            .must_equal(&self.subject.native)
            .context("the orphaned program's result")?;
        continues(self.standfast, self.arena, self.subject)
    }

    /// The checkpoint was taken, with or without the killed process, or the failure was reported to the user. The next
    /// checkpoint succeeds, and a restart from it reaches the same result as the program itself.
    fn runs_on_without(self, asked: &Ended) -> Result<()> {
        if !asked.exited(0) {
            let told = format!("{}{}", asked.errors, self.tracer.errors_so_far());
            ensure!(!told.trim().is_empty(), "a checkpoint failed and nobody was told");
            ensure!(!told.contains("panicked") && !told.contains("os error"), "told badly: {told}");
        }
        self.standfast.checkpoint().context("a checkpoint without the one that was killed")?;
        let (standfast, arena, subject) = (self.standfast, self.arena, self.subject);
        self.runs_on_with_supervisor()?;
        continues(standfast, arena, subject)
    }

    fn was_killed(self) -> Result<()> {
        let ended = self.tracer.wait()?;
        ensure!(matches!(ended, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "the supervisor ended with {ended:?}");
        self.arena.wait_until_empty(PATIENCE)?;
        open_gate(self.arena)?;
        continues(self.standfast, self.arena, self.subject)
    }

    /// Either the failed call did not matter, or the failure was reported to the user and the checkpoint does not exist.
    /// The next checkpoint succeeds.
    fn runs_on_though_disk_failed(self, asked: &Ended) -> Result<()> {
        if !asked.exited(0) {
            let told = format!("{}{}", asked.errors, self.tracer.errors_so_far());
            ensure!(!told.trim().is_empty(), "it failed and nobody was told");
            ensure!(!told.contains("panicked") && !told.contains("os error"), "told badly: {told}");
        }
        if self.standfast.newest_generation(&self.arena.images())?.is_some() {
            self.standfast.verify(&self.arena.images()).context("after the failed call")?;
        }
        self.standfast.checkpoint().context("a checkpoint after the disk works again")?;
        self.runs_on_with_supervisor()
    }

    fn runs_on_with_supervisor(self) -> Result<()> {
        ensure!(is_running(self.program), "the program did not survive the checkpoint");
        self.standfast.verify(&self.arena.images())?;
        open_gate(self.arena)?;
        let ended = self.tracer.wait()?;
        ensure!(matches!(ended, WaitStatus::Exited(_, 0)), "the supervisor ended with {ended:?}");
        RunResult::read(&self.arena.work())?.must_equal(&self.subject.native)
    }
}

/// Returns the process of the victim `ring` that the others do not need.
fn spare(arena: &Arena) -> Result<Pid> {
    let is_it = |pid: &Pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "idle");
    arena.processes().into_iter().find(is_it).context("the victim has a process that it can do without")
}

fn is_running(process: Pid) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("Z").trim_start().starts_with('Z'))
}

/// Checks that a restart from the directory gives the undisturbed result. If there is no checkpoint yet, the restart
/// must clearly say so.
fn continues(standfast: Standfast<'_>, arena: &Arena, subject: &Subject) -> Result<()> {
    if standfast.newest_generation(&arena.images())?.is_none() {
        let said = standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.refusal("a restart from nothing")?;
        ensure!(said.contains("no checkpoint"), "it does not say that there is no checkpoint: {said}");
        return Ok(());
    }
    standfast.verify(&arena.images())?;
    standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("restart")?;
    RunResult::read(&arena.work())?.must_equal(&subject.native).context("the restarted program's result")
}

/// A job that was killed after an intact generation, to be restarted again and again.
#[derive(Debug)]
pub struct KilledJob {
    arena: Arena,
    subject: Subject,
    pristine: PathBuf,
}

impl KilledJob {
    /// Runs a victim to its gate, takes two checkpoints and kills it.
    ///
    /// # Errors
    /// When any of these steps fails.
    pub fn new(subject: &Subject) -> Result<Self> {
        let mut arena = Arena::new()?;
        let outcome = Self::run_and_kill(&arena, subject);
        explain(&mut arena, outcome, 0)?;
        let pristine = arena.folder().join("pristine");
        fs::rename(arena.images(), &pristine)?;
        open_gate(&arena)?;
        Ok(Self { arena, subject: subject.clone(), pristine })
    }

    fn run_and_kill(arena: &Arena, subject: &Subject) -> Result<()> {
        let standfast = Standfast::new(arena)?;
        let running = standfast.run_to_be_copied(Checkpoints::OnRequest, &subject.program)?;
        standfast.await_gate()?;
        let program = standfast.await_program()?;
        standfast.checkpoint()?;
        standfast.checkpoint()?;
        nix::sys::signal::kill(program, Signal::SIGKILL)?;
        let ended = running.wait(PATIENCE)?;
        ensure!(ended.killed_by(Signal::SIGKILL), "the supervisor ended with {}", ended.status);
        Ok(())
    }

    /// Returns the arena in which it ran.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Returns its expected result.
    pub fn native(&self) -> &RunResult {
        &self.subject.native
    }

    /// Replaces its directory with a fresh copy.
    ///
    /// # Errors
    /// When the directory cannot be copied.
    pub fn refresh(&self) -> Result<PathBuf> {
        let images = self.arena.images();
        if images.exists() {
            fs::remove_dir_all(&images)?;
        }
        copy_folder(&self.pristine, &images)?;
        Ok(images)
    }

    /// Kills a restart at its `at`-th call. Afterwards, the program is either gone or runs to its end by itself, and
    /// another restart gives the undisturbed result.
    ///
    /// # Errors
    /// When a promise is broken.
    pub fn strike_restart(&self, at: u64) -> Result<Sighting> {
        let outcome = self.struck_restart(Strike::new(at, Blow::KillSupervisor));
        outcome.with_context(|| format!("SIGKILL of a restart at its call {at}; {}", self.arena.evidence()))
    }

    /// Kills one of the processes that a restart creates, at the restart's `at`-th call. If the restart fails, nothing
    /// of it remains, and another restart gives the undisturbed result. If the job continues, it gives the undisturbed
    /// result itself.
    ///
    /// # Errors
    /// When a promise is broken.
    pub fn strike_restarting(&self, at: u64, process: usize) -> Result<Sighting> {
        let outcome = self.struck_restart(Strike::new(at, Blow::KillDescendant(process)));
        let what = format!("SIGKILL of process {process} of a restart at its call {at}");
        outcome.with_context(|| format!("{what}; {}", self.arena.evidence()))
    }

    fn struck_restart(&self, strike: Strike) -> Result<Sighting> {
        let images = self.refresh()?;
        let standfast = Standfast::new(&self.arena)?;
        let command = standfast.restart_command(&images);
        let tracer = Tracer::start(&self.arena, "struck-restart", Output::Nowhere, &command, Some(strike))?;
        let sighting = until(PATIENCE, "the restart to be struck or to end", || {
            let sighting = tracer.sighting();
            Ok((sighting.struck.is_some() || tracer.has_ended()).then_some(sighting))
        })?;
        let ended = tracer.wait()?;
        match (sighting.struck, strike.blow, ended) {
            (None, _, WaitStatus::Exited(_, 0)) => {
                RunResult::read(&self.arena.work())?.must_equal(self.native())?;
                return Ok(sighting);
            }
            (Some(_), Blow::KillSupervisor, WaitStatus::Signaled(_, Signal::SIGKILL, _)) => {}
            // The restart continued without the killed process.
            (Some(_), Blow::KillDescendant(_), WaitStatus::Exited(_, 0)) => {
                RunResult::read(&self.arena.work())?.must_equal(self.native())?;
            }
            (Some(_), Blow::KillDescendant(_), _) => {}
            (_, _, other) => bail!("the restart ended with {other:?} ({sighting:?})"),
        }
        let after = || format!("after {sighting:?}, ended with {ended:?}");
        self.arena.wait_until_empty(PATIENCE).with_context(after)?;
        continues(standfast, &self.arena, &self.subject).with_context(after)?;
        traces::ensure_none(&self.arena).with_context(after)?;
        Ok(sighting)
    }

    /// Restarts from `directory`, supervised.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn restart(&self, directory: &Path, name: &str) -> Result<Ended> {
        let running: Running = Standfast::new(&self.arena)?.restart(directory, name)?;
        running.wait(PATIENCE)
    }
}
