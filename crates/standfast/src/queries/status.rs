//! `status` and `list`: the state of a job and what it has cost, from its directory and its supervisor. They write nothing.

use crate::Error;
use crate::control::{Reply, Request, ask};
use crate::history::{JobHistory, read_history};
use crate::quoting::without_numbers;
use crate::report::{
    DurableReport, GenerationReport, JobPhase, JobStatus, MemoryLevelReport, OverheadReport, StatusReport,
};
use crate::settings::JobOptions;
use standfast_format::manifest::{Generation, GenerationNumber, Outcome};
use standfast_store::{JobDirectory, LeaseState, Level, Levels, StoreError};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns a summary of the job in `directory`.
///
/// # Errors
/// If there is no job, or the directory cannot be read or trusted.
pub fn status(directory: &Path) -> Result<StatusReport, Error> {
    let opened = JobDirectory::look(directory).map_err(|error| Error::of_store(directory, error))?;
    let history = read_history(&opened);
    status_with(directory, opened, &history)
}

/// Returns a summary of the job in `directory`, which is opened, and whose history is known.
pub(super) fn status_with(directory: &Path, opened: JobDirectory, history: &JobHistory) -> Result<StatusReport, Error> {
    let of_store = |error| Error::of_store(directory, error);
    let lease_state = opened.lease_state().map_err(of_store)?;
    let live = match &lease_state {
        // As root, do not connect to a socket that another user has put there.
        LeaseState::Supervised(_) if !opened.is_of_another_user() => match ask(directory, Request::Status) {
            Ok(Reply::Status(live)) => Some(*live),
            // The supervisor may just be starting or ending; the lease shows that it is alive.
            Ok(_) | Err(_) => None,
        },
        _ => None,
    };
    // Read the levels after the supervisor's answer, so that a checkpoint that it reports is there.
    let (levels, missing) = Levels::open(opened.clone()).map_err(of_store)?;
    let manifest = opened.manifest().map_err(of_store)?;
    let program_pid = match &lease_state {
        LeaseState::Supervised(holder) => {
            live.as_ref().map(|live| live.program_pid).or(holder.program.map(|program| program.pid))
        }
        LeaseState::Orphaned(_, program) => Some(program.pid),
        _ => None,
    };
    let description = &manifest.description;
    let generations = generations(&levels).map_err(of_store)?;
    let state = job_status(&lease_state, manifest.outcome);
    Ok(StatusReport {
        durable: last_durable(&generations, SystemTime::now()),
        directory: directory.to_owned(),
        job: manifest.job.to_string(),
        program: description.program.to_string(),
        arguments: description.arguments.iter().map(ToString::to_string).collect(),
        working_directory: description.working_directory.to_string(),
        started_nanoseconds: description.started_nanoseconds,
        state,
        phase: JobPhase::of(state),
        program_pid,
        options: JobOptions::from_record(manifest.options),
        overhead: history.overhead(state == JobStatus::Running),
        live,
        generations,
        memory: manifest.memory.as_ref().and_then(|memory| memory.level).map(|_| MemoryLevelReport {
            place: levels.memory.as_ref().map(|memory| memory.path().to_owned()),
            missing: missing.map(|error| without_numbers(&error.to_string())),
        }),
    })
}

/// Returns the state of the job in `directory` in one word, without asking its supervisor.
///
/// # Errors
/// If the directory cannot be read or trusted.
pub fn phase(directory: &Path) -> Result<JobPhase, Error> {
    let found = JobDirectory::look(directory).and_then(|opened| {
        let lease_state = opened.lease_state()?;
        Ok(JobPhase::of(job_status(&lease_state, opened.manifest()?.outcome)))
    });
    match found {
        Err(StoreError::NoJob(_) | StoreError::NoDirectory(_)) => Ok(JobPhase::None),
        found => found.map_err(|error| Error::of_store(directory, error)),
    }
}

/// Returns the newest checkpoint on disk that is not superseded.
fn last_durable(generations: &[GenerationReport], now: SystemTime) -> Option<DurableReport> {
    let durable = generations.iter().rev().find(|it| it.is_on_disk && !it.is_superseded)?;
    let taken = UNIX_EPOCH + Duration::from_nanos(durable.taken_nanoseconds);
    let age = now.duration_since(taken).unwrap_or_default();
    Some(DurableReport { generation: durable.generation, age_seconds: age.as_secs_f64() })
}

/// Lists the generations of the job in `directory` in ascending order.
///
/// # Errors
/// If there is no job, or the directory cannot be read or trusted.
pub fn list(directory: &Path) -> Result<Vec<GenerationReport>, Error> {
    let of_store = |error| Error::of_store(directory, error);
    let levels = JobDirectory::look(directory).and_then(Levels::open).map_err(of_store)?.0;
    generations(&levels).map_err(of_store)
}

/// Returns what checkpoints and failures have cost the job in `directory`; `None` if that was not recorded.
///
/// # Errors
/// If there is no job, or the directory cannot be read or trusted.
pub fn overhead(directory: &Path) -> Result<Option<OverheadReport>, Error> {
    let opened = JobDirectory::look(directory).map_err(|error| Error::of_store(directory, error))?;
    Ok(read_history(&opened).overhead(phase(directory)? == JobPhase::Running))
}

/// Returns the generations of all levels, each once. A generation in memory and on disk is reported as it is in memory.
fn generations(levels: &Levels) -> Result<Vec<GenerationReport>, StoreError> {
    let mut all: BTreeMap<u64, GenerationReport> = BTreeMap::new();
    for (level, level_directory) in levels.each() {
        for generation in level_directory.manifest()?.generations {
            let number = generation.number.get();
            let report = all.entry(number).or_insert_with(|| GenerationReport::of(&generation, level));
            report.is_on_disk |= level == Level::Directory;
        }
    }
    Ok(all.into_values().collect())
}

impl GenerationReport {
    /// Makes the report of a generation in the manifest of a level.
    pub(crate) fn of(generation: &Generation, level: Level) -> Self {
        Self {
            generation: generation.number.get(),
            parent: generation.parent.map(GenerationNumber::get),
            taken_nanoseconds: generation.taken_nanoseconds,
            pause_nanoseconds: generation.pause_nanoseconds,
            pages_stored: generation.stored_pages,
            pages_inherited: generation.inherited_pages,
            file_bytes: generation.file_bytes,
            is_superseded: generation.superseded,
            is_in_memory: level == Level::Memory,
            is_on_disk: level == Level::Directory,
            root: generation.root.to_string(),
        }
    }
}

/// Returns the state of a job, from the holder of its lease and the last recorded outcome.
fn job_status(lease_state: &LeaseState, outcome: Outcome) -> JobStatus {
    match lease_state {
        LeaseState::Supervised(_) => JobStatus::Running,
        LeaseState::Orphaned(..) => JobStatus::Unprotected,
        LeaseState::OtherBoot(_, pulse, silent) if *silent < 2 * pulse.heartbeat => JobStatus::Elsewhere,
        LeaseState::Elsewhere(..) | LeaseState::Unreadable => JobStatus::Elsewhere,
        LeaseState::Free | LeaseState::Abandoned(_) | LeaseState::OtherBoot(..) => match outcome {
            Outcome::Running => JobStatus::Crashed,
            Outcome::Exited { status } => JobStatus::Exited { status },
            Outcome::Killed { signal } => JobStatus::Killed { signal },
            Outcome::Stopped => JobStatus::Stopped,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_durable_checkpoint_is_the_newest_valid_one_on_disk() {
        let generation = |number, is_on_disk: bool, is_superseded: bool| GenerationReport {
            generation: number,
            parent: None,
            taken_nanoseconds: number * 1_000_000_000,
            pause_nanoseconds: 0,
            pages_stored: 0,
            pages_inherited: 0,
            file_bytes: 0,
            is_superseded,
            is_in_memory: !is_on_disk,
            is_on_disk,
            root: String::new(),
        };
        let all = [generation(1, true, false), generation(2, true, true), generation(3, false, false)];
        let now = UNIX_EPOCH + Duration::from_secs(61);
        assert_eq!(last_durable(&all, now), Some(DurableReport { generation: 1, age_seconds: 60.0 }));
        assert_eq!(last_durable(&all[1..], now), None);
    }

    #[test]
    fn a_job_with_a_free_lease_has_its_recorded_status() {
        let nobody = |outcome| job_status(&LeaseState::Free, outcome);
        assert_eq!(nobody(Outcome::Running), JobStatus::Crashed);
        assert_eq!(nobody(Outcome::Stopped), JobStatus::Stopped);
        assert_eq!(nobody(Outcome::Killed { signal: 9 }), JobStatus::Killed { signal: 9 });
        assert_eq!(nobody(Outcome::Exited { status: 0 }), JobStatus::Exited { status: 0 });
        assert_eq!(job_status(&LeaseState::Unreadable, Outcome::Running), JobStatus::Elsewhere);
    }

    #[test]
    fn a_stop_differs_from_a_program_that_ends_with_the_same_status() {
        let word = |state| JobPhase::of(state).to_string();
        assert_eq!(word(JobStatus::Stopped), "stopped");
        assert_eq!(word(JobStatus::Exited { status: 75 }), "failed");
        assert_eq!(word(JobStatus::Exited { status: 0 }), "finished");
        assert_eq!(word(JobStatus::Killed { signal: 11 }), "failed");
        assert_eq!(word(JobStatus::Killed { signal: 9 }), "killed");
    }
}
