//! A program's directives about its own checkpoints (L11 to L14, M6, M7): found in its memory while it is frozen,
//! honoured, and answered there.
//!
//! Directives only remove pages from what the collection has found, and unreadable directives remove nothing. Read-only
//! memory is inherited from the last committed checkpoint without inspection, since the programmer has promised not to
//! write it. For this purpose, this process remembers which pages that checkpoint holds.

use crate::freeze::{Frozen, FrozenProcess};

use crate::error::kernel;
use crate::program::ProgramIdentity;
use crate::tables::{Directions, Tables, decoded};
use crate::{EngineError, ProcessIdentity};
use standfast_core::directions::{
    self, CheckpointOutcome, DirectionsError, DirectivesHeader, HEADER_BYTES, HeaderWrite, PLACES, Regions, Times,
    Usage,
};
use standfast_core::{Address, PageRange};
use standfast_linux::proc::Map;
use standfast_linux::{Pid, ProcessMemory, monotonic_clocks_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// The environment variable that tells a program's libstandfast that it runs under a supervisor, and where to reach it:
/// the job's directory, as an absolute path.
pub const DIRECTORY_VARIABLE: &str = "STANDFAST_DIRECTORY";

/// The environment variables that tell it what else to do.
pub(crate) const CHECK_VARIABLE: &str = "STANDFAST_CHECK_EXCLUSIONS";
pub(crate) const FREE_VARIABLE: &str = "STANDFAST_FREE_MEMORY";

/// The contents of dead memory after a restart, if exclusions are checked. As an address, an index or a number of any
/// kind, this value stands out.
const POISON: u8 = 0xa5;
/// How many bytes of it are written at a time.
const POISON_BYTES: u64 = 1 << 20;

/// Whether the programs of a frozen job are ready for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// They are ready.
    Ready,
    /// They are ready, and a thread waits for this checkpoint at its present point. Once it knows of the checkpoint, it
    /// continues, so the checkpoint cannot be attempted again.
    Awaited,
    /// One of its threads communicates with the supervisor at this moment.
    Asking,
    /// A program has disabled checkpoints temporarily. It has been told that one waits.
    Disabled,
}

/// What programs with directives learn before they continue after a restart.
#[derive(Debug, Clone, Copy)]
pub struct RestartNews<'a> {
    /// The generation from which they continue.
    pub generation: u64,
    /// The job's directory, as an absolute path, where they reach their supervisor.
    pub directory: &'a Path,
    /// When checkpoints are taken.
    pub advised: Advised,
}

/// What programs learn together with an outcome: for how long no request is honoured, and when the next checkpoint comes
/// in any case; `None` means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advised {
    /// Counted from now on.
    pub due_in: Option<Duration>,
    /// Counted from now on.
    pub next_in: Option<Duration>,
}

impl Frozen {
    /// Asks all programs of the job whether they are ready.
    ///
    /// # Errors
    /// If one of them has ended meanwhile.
    pub fn readiness(&self) -> Result<Readiness, EngineError> {
        let mut readiness = Readiness::Ready;
        for process in &self.processes {
            let Some(Heading { place, header: Ok(header) }) = process.heading()? else { continue };
            if header.is_asking {
                readiness = Readiness::Asking;
            } else if header.is_awaited && readiness == Readiness::Ready {
                readiness = Readiness::Awaited;
            }
            if header.is_disabled {
                write(&process.memory, place, &directions::pending())?;
                return Ok(Readiness::Disabled);
            }
        }
        Ok(readiness)
    }

    /// Reports to all programs of the job that a checkpoint has been taken as generation `taken`, or that there is none
    /// if it is `None`.
    ///
    /// # Errors
    /// If one of them has ended meanwhile.
    pub fn report_outcome(&self, taken: Option<u64>, advised: Advised) -> Result<(), EngineError> {
        let outcome = taken.map_or(CheckpointOutcome::Failed, CheckpointOutcome::Taken);
        self.processes.iter().try_for_each(|process| {
            let Some(Heading { place, header: Ok(header) }) = process.heading()? else { return Ok(()) };
            write(&process.memory, place, &header.outcome(outcome, advised.times(process.pid)))
        })
    }
}

/// Tells a rebuilt process, before it runs, that it has been restarted, and where its supervisor is.
pub(crate) fn report_restart(
    pid: Pid,
    memory: &ProcessMemory,
    [mapped, private]: [&[PageRange]; 2],
    news: RestartNews<'_>,
) -> Result<(), EngineError> {
    let Some(Heading { place, header: Ok(header) }) =
        find(memory, |place| mapped.iter().any(|map| map.contains(place)))?
    else {
        return Ok(());
    };
    // If the path is too long, the program cannot reach its supervisor, which is better than reaching another one.
    let path = news.directory.as_os_str().as_bytes();
    let directory = directions::directory(path).or_else(|| directions::directory(b"")).expect("nothing is short");
    write(memory, place, &directory)?;
    if header.is_checking {
        let is_mapped =
            |start: u64, end: u64| mapped.iter().any(|map| map.start().get() <= start && end <= map.end().get());
        // If the table makes no sense, everything was saved.
        decoded(memory, &header, None, &is_mapped).map_or(Ok(()), |(table, changes)| {
            poison(memory, &table.regions().clone().changed_by(&changes), private)
        })?;
    }
    write(memory, place, &header.outcome(CheckpointOutcome::Restarted(news.generation), news.advised.times(pid)))
}

/// Fills dead memory with a pattern, so that code that reads it before it is written again finds nothing plausible.
fn poison(memory: &ProcessMemory, regions: &Regions, private: &[PageRange]) -> Result<(), EngineError> {
    let pattern = vec![POISON; POISON_BYTES as usize];
    for region in regions.all().iter().filter(|region| region.usage == Usage::Dead) {
        for map in private {
            let (mut at, end) = (region.start.max(map.start().get()), region.end.min(map.end().get()));
            while at < end {
                let bytes = (end - at).min(POISON_BYTES);
                memory
                    .write(Address::new(at), &pattern[..bytes as usize])
                    .map_err(|source| kernel("filling dead memory", source))?;
                at += bytes;
            }
        }
    }
    Ok(())
}

impl Advised {
    /// Returns the times on the clock that the process sees.
    fn times(self, pid: Pid) -> Times {
        let (now, _) = monotonic_clocks_of(pid);
        let at = |wait: Option<Duration>| match wait {
            None => u64::MAX,
            // At once, on whichever clock the program uses: it may lag some milliseconds.
            Some(Duration::ZERO) => 0,
            Some(wait) => now.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)),
        };
        Times { due_at: at(self.due_in), next_at: at(self.next_in) }
    }
}

/// A header in a process's memory.
struct Heading {
    place: Address,
    header: Result<DirectivesHeader, DirectionsError>,
}

impl FrozenProcess {
    fn heading(&self) -> Result<Option<Heading>, EngineError> {
        find(&self.memory, |place| self.maps.iter().any(|map| is_ours(map) && map.contains(place.get())))
    }

    /// Returns its program, if that may have directives about its memory.
    pub(crate) fn program(&self, process: ProcessIdentity) -> ProgramIdentity {
        let may_direct = |map: &Map| is_ours(map) && PLACES.iter().any(|place| map.contains(place.get()));
        match self.maps.iter().any(may_direct) {
            true => ProgramIdentity::of(process, &self.memory),
            false => ProgramIdentity::unknown(process),
        }
    }

    /// Returns the directives of its program, if it has any, and its table as far as it is known.
    pub(crate) fn directions(
        &self,
        program: ProgramIdentity,
        tables: &mut Tables,
    ) -> Result<Option<Directions>, EngineError> {
        let known = tables.take(program);
        let Some(Heading { header, .. }) = self.heading()? else { return Ok(None) };
        let is_mapped = |start, end| self.maps.iter().any(|map| map.contains(start) && end <= map.end);
        let decoded = header.map_err(|error| error.to_string()).and_then(|header| {
            let (table, changes) = decoded(&self.memory, &header, known, &is_mapped)?;
            Ok(Directions {
                epoch: header.epoch,
                table,
                changes,
                problem: None,
                records: header.is_checking.then_some(header.records),
            })
        });
        Ok(Some(decoded.unwrap_or_else(|problem| Directions { problem: Some(problem), ..Directions::default() })))
    }
}

/// Reports whether a mapping is of the kind that libstandfast makes.
fn is_ours(map: &Map) -> bool {
    !map.shared && map.inode == 0 && map.protection.read && map.protection.write
}

fn find(memory: &ProcessMemory, is_there: impl Fn(Address) -> bool) -> Result<Option<Heading>, EngineError> {
    for place in PLACES.into_iter().filter(|place| is_there(*place)) {
        let mut bytes = [0; HEADER_BYTES];
        memory.read(place, &mut bytes).map_err(|source| kernel("reading what the program directs", source))?;
        match DirectivesHeader::parse(&bytes) {
            Ok(None) => {}
            Ok(Some(header)) => return Ok(Some(Heading { place, header: Ok(header) })),
            Err(error) => return Ok(Some(Heading { place, header: Err(error) })),
        }
    }
    Ok(None)
}

/// Returns the header of a process that may run, if it has a valid one.
pub(crate) fn heading_at_rest(memory: &ProcessMemory) -> Option<(Address, DirectivesHeader)> {
    PLACES.into_iter().find_map(|place| {
        let mut bytes = [0; HEADER_BYTES];
        memory.read(place, &mut bytes).ok()?;
        Some((place, DirectivesHeader::parse(&bytes).ok()??))
    })
}

pub(crate) fn write(memory: &ProcessMemory, place: Address, message: &HeaderWrite) -> Result<(), EngineError> {
    let to = place.plus(message.offset);
    memory.write(to, &message.bytes).map_err(|source| kernel("telling the program of its checkpoint", source))
}
