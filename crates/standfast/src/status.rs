//! `status` and `list`: how a job stands, as its directory and its supervisor tell it. Nothing is written.

use crate::Error;
use crate::control::{Reply, Request, ask};
use crate::options::JobOptions;
use crate::report::{GenerationReport, MemoryLevelReport, Standing as Stands, StatusReport};
use crate::spelling::without_numbers;
use standfast_format::manifest::{Generation, GenerationNumber, Outcome};
use standfast_store::{JobDirectory, Level, Levels, Standing, StoreError};
use std::collections::BTreeMap;
use std::path::Path;

/// The job in `directory` at a glance.
///
/// # Errors
/// When there is no job, or the directory cannot be read or trusted.
pub fn status(directory: &Path) -> Result<StatusReport, Error> {
    let of_store = |error| Error::of_store(directory, error);
    let opened = JobDirectory::look(directory).map_err(of_store)?;
    let standing = opened.standing().map_err(of_store)?;
    let live = match &standing {
        // Root does not connect to what another user has put there.
        Standing::Supervised(_) if !opened.is_of_another_user() => match ask(directory, Request::Status) {
            Ok(Reply::Status(live)) => Some(live),
            // It may just be starting or ending; that it lives is known from the lease.
            Ok(_) | Err(_) => None,
        },
        _ => None,
    };
    // Behind what the supervisor says, so that a checkpoint that it calls taken is there.
    let (levels, missing) = Levels::open(opened.clone()).map_err(of_store)?;
    let manifest = opened.manifest().map_err(of_store)?;
    let program_pid = match &standing {
        Standing::Supervised(holder) => {
            live.as_ref().map(|live| live.program_pid).or(holder.program.map(|program| program.pid))
        }
        Standing::Orphaned(_, program) => Some(program.pid),
        _ => None,
    };
    let description = &manifest.description;
    Ok(StatusReport {
        directory: directory.to_owned(),
        job: manifest.job.to_string(),
        program: description.program.to_string(),
        arguments: description.arguments.iter().map(ToString::to_string).collect(),
        working_directory: description.working_directory.to_string(),
        started_nanoseconds: description.started_nanoseconds,
        standing: stands(&standing, manifest.outcome),
        program_pid,
        options: JobOptions::from_record(manifest.options),
        live,
        generations: generations(&levels).map_err(of_store)?,
        memory: manifest.memory.as_ref().and_then(|memory| memory.level).map(|_| MemoryLevelReport {
            place: levels.memory.as_ref().map(|memory| memory.path().to_owned()),
            missing: missing.map(|error| without_numbers(&error.to_string())),
        }),
    })
}

/// The generations of the job in `directory`, ascending.
///
/// # Errors
/// When there is no job, or the directory cannot be read or trusted.
pub fn list(directory: &Path) -> Result<Vec<GenerationReport>, Error> {
    let of_store = |error| Error::of_store(directory, error);
    let levels = JobDirectory::look(directory).and_then(Levels::open).map_err(of_store)?.0;
    generations(&levels).map_err(of_store)
}

/// The generations of all levels, each once: as it is in memory where it is in both.
fn generations(levels: &Levels) -> Result<Vec<GenerationReport>, StoreError> {
    let mut all: BTreeMap<u64, GenerationReport> = BTreeMap::new();
    for (level, shelf) in levels.each() {
        for generation in shelf.manifest()?.generations {
            let number = generation.number.get();
            let report = all.entry(number).or_insert_with(|| GenerationReport::of(&generation, level));
            report.is_on_disk |= level == Level::Directory;
        }
    }
    Ok(all.into_values().collect())
}

impl GenerationReport {
    /// The report of a generation in the manifest of a level.
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

/// How a job stands, from who holds its lease and what was last noted about it.
fn stands(standing: &Standing, outcome: Outcome) -> Stands {
    match standing {
        Standing::Supervised(_) => Stands::Running,
        Standing::Orphaned(..) => Stands::Unprotected,
        Standing::OtherBoot(_, pulse, silent) if *silent < 2 * pulse.heartbeat => Stands::Elsewhere,
        Standing::Elsewhere(..) | Standing::Unreadable => Stands::Elsewhere,
        Standing::Free | Standing::Abandoned(_) | Standing::OtherBoot(..) => match outcome {
            Outcome::Running => Stands::BrokenOff,
            Outcome::Exited { status } => Stands::Exited { status },
            Outcome::Killed { signal } => Stands::Killed { signal },
            Outcome::Stopped => Stands::Stopped,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_nobody_holds_stands_as_was_last_noted() {
        let nobody = |outcome| stands(&Standing::Free, outcome);
        assert_eq!(nobody(Outcome::Running), Stands::BrokenOff);
        assert_eq!(nobody(Outcome::Stopped), Stands::Stopped);
        assert_eq!(nobody(Outcome::Killed { signal: 9 }), Stands::Killed { signal: 9 });
        assert_eq!(nobody(Outcome::Exited { status: 0 }), Stands::Exited { status: 0 });
        assert_eq!(stands(&Standing::Unreadable, Outcome::Running), Stands::Elsewhere);
    }
}
