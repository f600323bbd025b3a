//! Checks whether there is room for more frames, in the memory file system and in what system and control group leave to
//! this process. When a control group is at its limit, the kernel kills processes instead of reporting that there is no
//! room.

use standfast_linux::proc::Room;
use standfast_linux::{FrameFile, Pid};
use std::path::Path;

/// Bytes left for the program. Processes of a node may check at the same moment.
const LEFT_BYTES: u64 = 16 << 20;

/// Bytes left for tables and states. These are small, but no epoch can be sealed without them.
const TABLES_BYTES: u64 = 1 << 20;

/// Divisor of the remaining room: even all processes of a node together stay within it before they check again.
const PROCESSES_MAX: u64 = 256;
/// Steps after which a process checks again, however much is left.
const STEPS_MAX: u64 = 16;

/// Checks the room before a shard store in this directory grows. Returns by how many steps it may grow before the next
/// check, at least one.
///
/// # Errors
/// What there is too little of, as text.
pub(crate) fn check(directory: &Path) -> Result<u64, String> {
    let left = rustix::fs::statvfs(directory).map(|it| it.f_bavail.saturating_mul(it.f_frsize));
    let left = left.map_err(|error| format!("{}: {error}", directory.display()))?;
    suffices(left, Room::of(Pid::own()).spare_bytes, directory)
}

/// Returns for how many steps the remaining file system space and memory suffice.
fn suffices(left_bytes: u64, spare_bytes: u64, directory: &Path) -> Result<u64, String> {
    let mebibytes = |bytes: u64| bytes >> 20;
    if left_bytes < FrameFile::STEP_BYTES + TABLES_BYTES {
        let (left, path) = (mebibytes(left_bytes), directory.display());
        return Err(format!("{path}: its memory file system has only {left} MiB left: make it larger, or empty it"));
    }
    if spare_bytes < FrameFile::STEP_BYTES + LEFT_BYTES {
        let spare = mebibytes(spare_bytes);
        return Err(format!(
            "the system or the control group leaves this process only {spare} MiB of memory, some of which is reserved"
        ));
    }
    Ok((left_bytes.min(spare_bytes) / (PROCESSES_MAX * FrameFile::STEP_BYTES)).clamp(1, STEPS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_of_memory_is_reported_with_its_kind() {
        let (step, path) = (FrameFile::STEP_BYTES, Path::new("/dev/shm/x"));
        assert_eq!(suffices(step + TABLES_BYTES, step + LEFT_BYTES, path), Ok(1));
        assert_eq!(suffices(u64::MAX, 3 * PROCESSES_MAX * step, path), Ok(3));
        assert_eq!(suffices(u64::MAX, u64::MAX, path), Ok(STEPS_MAX));
        assert!(
            suffices(step + TABLES_BYTES - 1, u64::MAX, path)
                .unwrap_err()
                .starts_with("/dev/shm/x: its memory file system has")
        );
        assert!(suffices(u64::MAX, step + LEFT_BYTES - 1, path).unwrap_err().contains("19 MiB of memory"));
    }
}
