//! Files that a program may write through shared mappings that are not writable at the stop. Some programs guard data
//! this way, and make a mapping writable only while they write to it. Tracking these mappings reveals whether they do.
//! Until then, such a file is not saved because of them, since other programs map whole databases this way and never
//! write to them.

use super::Subject;
use crate::EngineError;
use crate::error::kernel;
use crate::files::FileId;
use crate::track::Tracks;
use standfast_core::PageRange;
use standfast_linux::proc::Map;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// How many bytes of such mappings are tracked in a process. To begin takes 5 ms and 2 MiB of page tables for each GiB,
/// and the kernel maps the pages of a tracked file one by one.
const TRACKED_BYTES_MAX: u64 = 256 << 20;

/// Adds to `written` the files that the job has written through such mappings since the last scan, and tracks the
/// mappings that were not tracked.
pub(super) fn scan(
    subjects: &[Subject<'_>],
    tracks: &mut Tracks,
    written: &mut BTreeSet<FileId>,
) -> Result<(), EngineError> {
    for subject in subjects {
        let Some(track) = tracks.of(subject.identity()) else { continue };
        let (keys, ranges): (Vec<_>, Vec<_>) = guarded(subject, written).into_iter().unzip();
        let seen = track.written_through(&ranges);
        let seen = seen.map_err(|source| kernel("scanning the program's mapped files", source))?;
        written.extend(keys.into_iter().zip(seen).filter(|(_, is_written)| *is_written).map(|(key, _)| key));
    }
    Ok(())
}

/// Returns the mappings of a process that could be written, have not been seen to be, and fit into the tracking limit.
fn guarded(subject: &Subject<'_>, written: &BTreeSet<FileId>) -> Vec<(FileId, PageRange)> {
    let mut room = TRACKED_BYTES_MAX;
    let fits = |map: &&Map| {
        let fits = map.range().bytes() <= room;
        room -= if fits { map.range().bytes() } else { 0 };
        fits
    };
    let is_guarded = |map: &&Map| {
        map.shared
            && !map.protection.write
            && map.is_of_named_file()
            && !written.contains(&FileId { device: map.device, inode: map.inode })
            && subject.attributes.may_be_written(subject.pid, map) == Some(true)
    };
    // The memory that a device shows must be left alone.
    let is_regular = |map: &&Map| std::fs::metadata(OsStr::from_bytes(&map.path)).is_ok_and(|file| file.is_file());
    let maps = subject.maps.iter().filter(is_guarded).filter(is_regular).filter(fits);
    maps.map(|map| (FileId { device: map.device, inode: map.inode }, map.range())).collect()
}
