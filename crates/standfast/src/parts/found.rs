//! What an agent finds of a part in its job's directory and in the memory of its node.

use super::agent_protocol::{FoundPart, RecordedEpoch};
use crate::Error;
use crate::interrupts::Interrupts;
use crate::queries::phase;
use crate::report::JobPhase;
use crate::takeover::await_exit;
use standfast_format::manifest::{Epoch, Generation};
use standfast_parts::PartsEpoch;
use standfast_store::{JobDirectory, Level, Levels, Purpose, StoreError};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl FoundPart {
    /// Looks at the part whose job is at `path`.
    pub(super) fn look(path: &Path) -> Result<Self, Error> {
        let phase = phase(path)?;
        if phase == JobPhase::None {
            return Ok(Self { phase, epochs: Vec::new() });
        }
        let epochs = epochs(path).map_err(|error| Error::of_store(path, error))?;
        Ok(Self { phase, epochs })
    }
}

/// Waits while an earlier life of the part is about to end: what was killed a moment ago looks as if it ran.
pub(super) fn await_end(path: &Path) -> Result<(), Error> {
    if phase(path)? == JobPhase::None {
        return Ok(());
    }
    let directory = JobDirectory::open(path).map_err(|error| Error::of_store(path, error))?;
    await_exit(&directory, path, Purpose::Live, Interrupts::default(), &mut |_| {})
}

/// Returns the epochs that are on the disk of a part, or nothing if it has no level in memory: all of them are there then.
pub(super) fn epochs_on_disk(path: &Path) -> Result<Option<Vec<PartsEpoch>>, StoreError> {
    let manifest = JobDirectory::open(path)?.manifest()?;
    let all = || manifest.generations.iter().filter_map(named).map(|(epoch, _)| epoch).collect();
    Ok(manifest.memory.is_some().then(all))
}

fn epochs(path: &Path) -> Result<Vec<RecordedEpoch>, StoreError> {
    let (levels, _) = Levels::open(JobDirectory::open(path)?)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut all: BTreeMap<u64, RecordedEpoch> = BTreeMap::new();
    for (level, directory) in levels.each() {
        for (epoch, generation) in directory.manifest()?.generations.iter().filter_map(named) {
            let taken = Duration::from_nanos(generation.taken_nanoseconds);
            let recorded = all.entry(generation.number.get()).or_insert(RecordedEpoch {
                epoch,
                generation: generation.number.get(),
                age_milliseconds: now.saturating_sub(taken).as_millis() as u64,
                bytes: generation.file_bytes,
                pause_nanoseconds: generation.pause_nanoseconds,
                is_on_disk: false,
            });
            recorded.is_on_disk |= level == Level::Directory;
        }
    }
    Ok(all.into_values().collect())
}

/// Returns the epoch of a generation that counts.
fn named(generation: &Generation) -> Option<(PartsEpoch, &Generation)> {
    let Epoch { number, cut } = generation.epoch.filter(|_| !generation.superseded)?;
    Some((PartsEpoch { number, cut }, generation))
}
