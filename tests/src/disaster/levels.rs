//! Disasters with a level in memory: a level that becomes full at a call of a checkpoint, and flushes to disk that are
//! struck at their n-th call.

use super::{Scenario, Subject, continues, is_running};
use crate::arena::Arena;
use crate::disaster::Before;
use crate::result::open_gate;
use crate::running::{PATIENCE, until};
use crate::survival::explain;
use crate::tracer::{Blow, Sighting, Strike};
use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use std::fs;

/// The folder of the arena that stands in for memory.
const MEMORY: &str = "memory";
/// The name of the thread that flushes checkpoints.
const FLUSHING: &str = "flush";

/// What strikes a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushDisaster {
    /// SIGKILL of the supervisor.
    SupervisorKilled,
    /// SIGKILL of the program.
    ProgramKilled,
    /// The disk is full from some call on.
    DiskFull,
    /// Memory is emptied during the flush.
    MemoryEmptied,
}

/// All of them.
pub const FLUSH_DISASTERS: [FlushDisaster; 4] = [
    FlushDisaster::SupervisorKilled,
    FlushDisaster::ProgramKilled,
    FlushDisaster::DiskFull,
    FlushDisaster::MemoryEmptied,
];

impl Subject {
    /// Returns the same subject with checkpoints that go to memory first.
    #[must_use]
    pub fn in_memory(&self) -> Self {
        Self { in_memory: true, ..self.clone() }
    }

    /// Returns the options for checkpoints in memory.
    pub(super) fn memory(&self, arena: &Arena) -> Result<Vec<String>> {
        if !self.in_memory {
            return Ok(Vec::new());
        }
        let place = arena.folder().join(MEMORY);
        fs::create_dir(&place).context("making the folder that stands for memory")?;
        Ok(vec!["--memory".to_owned(), place.display().to_string()])
    }

    /// Fills memory up at the `at`-th call that takes space there, during a checkpoint that follows another one. The
    /// checkpoint goes to disk instead.
    ///
    /// # Errors
    /// When a promise is broken.
    pub fn strike_full_memory(&self, at: u64) -> Result<Sighting> {
        let mut arena = Arena::new()?;
        let scenario = Scenario::begin(&arena, self, Before::OneGeneration);
        let outcome = scenario.and_then(|scenario| scenario.with_full_memory(at));
        explain(&mut arena, outcome, at).with_context(|| format!("memory that is full at call {at}"))
    }

    /// Strikes the flush of a checkpoint at its `at`-th call. An earlier checkpoint is already on disk.
    ///
    /// # Errors
    /// When a promise is broken.
    pub fn strike_flush(&self, disaster: FlushDisaster, at: u64) -> Result<Sighting> {
        let mut arena = Arena::new()?;
        let scenario = Scenario::begin(&arena, self, Before::OneGeneration);
        let outcome = scenario.and_then(|scenario| scenario.flush_struck(disaster, at));
        explain(&mut arena, outcome, at).with_context(|| format!("{disaster:?} at call {at} of a flush"))
    }
}

impl Scenario<'_> {
    fn with_full_memory(self, at: u64) -> Result<Sighting> {
        self.tracer.arm(Strike::new(at, Blow::FailFromHereOn(Errno::ENOSPC)).on_files_of(MEMORY));
        self.standfast.checkpoint().context("a checkpoint while memory is full")?;
        let sighting = self.tracer.disarm();
        if sighting.struck.is_some() {
            let told = self.tracer.errors_so_far();
            let is_decent = !told.contains("panicked") && !told.contains("os error");
            ensure!(told.contains("checkpoints go to disk instead of memory") && is_decent, "it said: {told}");
        }
        let (standfast, arena, subject) = (self.standfast, self.arena, self.subject);
        if at.is_multiple_of(2) {
            self.standfast.checkpoint().context("a checkpoint when there is room again")?;
            self.runs_on_with_supervisor()?;
            gave_memory_back(arena)?;
        } else {
            self.all_killed()?;
            continues(standfast, arena, subject)?;
        }
        Ok(sighting)
    }

    fn flush_struck(self, disaster: FlushDisaster, at: u64) -> Result<Sighting> {
        self.await_on_disk(1)?;
        let strike = match disaster {
            FlushDisaster::SupervisorKilled => Blow::KillSupervisor,
            FlushDisaster::ProgramKilled => Blow::KillProgram(self.program),
            FlushDisaster::DiskFull => Blow::FailFromHereOn(Errno::ENOSPC),
            FlushDisaster::MemoryEmptied => Blow::Empty(MEMORY),
        };
        self.tracer.arm(Strike::new(at, strike).by(FLUSHING));
        // If the supervisor is killed as soon as the flush begins, the request may get no answer.
        let _ = self.standfast.ask("checkpoint", &self.arena.images(), &[])?;
        until(PATIENCE, "the flush to be struck or to end", || {
            let is_struck = self.tracer.sighting().struck.is_some() || self.tracer.has_ended();
            Ok((is_struck || self.is_on_disk(2)?).then_some(()))
        })?;
        if disaster == FlushDisaster::SupervisorKilled && self.tracer.sighting().struck.is_some() {
            until(PATIENCE, "the supervisor to die", || Ok(self.tracer.has_ended().then_some(())))?;
        }
        let sighting = self.tracer.disarm();
        let (standfast, arena, subject) = (self.standfast, self.arena, self.subject);
        match (disaster, sighting.struck) {
            (FlushDisaster::SupervisorKilled, Some(_)) => self.runs_on_alone(at)?,
            (FlushDisaster::ProgramKilled, Some(_)) => self.was_killed()?,
            (FlushDisaster::MemoryEmptied, Some(_)) => {
                self.standfast.checkpoint().context("a checkpoint when memory is empty")?;
                self.all_killed()?;
                continues(standfast, arena, subject)?;
            }
            (FlushDisaster::DiskFull, Some(_)) if at.is_multiple_of(2) => {
                self.all_killed()?;
                continues(standfast, arena, subject)?;
            }
            _ => self.runs_on_with_supervisor()?,
        }
        gave_memory_back(arena)?;
        Ok(sighting)
    }

    fn await_on_disk(&self, generation: u64) -> Result<()> {
        until(PATIENCE, "a checkpoint to get to the disk", || Ok(self.is_on_disk(generation)?.then_some(())))
    }

    fn is_on_disk(&self, generation: u64) -> Result<bool> {
        let status = self.standfast.status(&self.arena.images())?;
        let all = status["generations"].as_array().context("status has generations")?;
        Ok(all.iter().any(|it| it["generation"] == generation && it["is_on_disk"] == true))
    }

    /// Kills the supervisor and the program, as if the whole machine failed.
    fn all_killed(self) -> Result<()> {
        kill(self.tracer.supervisor(), Signal::SIGKILL)?;
        kill(self.program, Signal::SIGKILL)?;
        let ended = self.tracer.wait()?;
        ensure!(matches!(ended, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "the supervisor ended with {ended:?}");
        self.arena.wait_until_empty(PATIENCE)?;
        until(PATIENCE, "the program to be dead", || Ok((!is_running(self.program)).then_some(())))?;
        open_gate(self.arena)
    }
}

fn gave_memory_back(arena: &Arena) -> Result<()> {
    let left: Vec<_> = fs::read_dir(arena.folder().join(MEMORY))?.flatten().map(|entry| entry.file_name()).collect();
    ensure!(left.is_empty(), "memory was not given back: {left:?}");
    Ok(())
}
