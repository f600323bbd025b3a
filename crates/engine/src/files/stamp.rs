//! Whether inode, times and length prove that the contents of a file are unchanged.
//!
//! ```text
//! write(2), truncate(2)          set the times, to the tick of the clock
//! a write through a mapping      sets them if it is the first to a clean page: on ext4, XFS, Btrfs and the like;
//!                                a second write to a dirty page that is still mapped sets nothing (measured)
//! the same in a memory file      sets nothing, ever (measured on tmpfs): its pages are never clean
//! system
//! ```
//!
//! So times prove nothing about a file that the job has mapped and may write through the mapping. Nor do they for a file
//! that was changed a moment ago, or whose file system is not known to note such writes.

use standfast_format::records::FileIdentity;
use standfast_linux::abi;
use standfast_linux::sys::file;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Two changes of a file within this time may look like one: file systems record time in ticks of at most 10 ms.
pub(crate) const TICK_NANOSECONDS: i64 = 20_000_000;

/// Which later changes of a file its identity reveals. The caller must know whether the job has mapped it for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Any change.
    Whole,
    /// Changes by write(2), but not through mappings.
    OfWrites,
    /// No change: the file was changed a moment ago.
    None,
}

impl Proof {
    /// Returns what the identity of an open file proves, if it was read now.
    pub(crate) fn by(identity: &FileIdentity, file: BorrowedFd<'_>) -> Self {
        match (is_fresh(identity, now_nanoseconds()), notes_mapped_writes(file)) {
            (true, _) => Self::None,
            (false, true) => Self::Whole,
            (false, false) => Self::OfWrites,
        }
    }
}

/// Reports whether the times of a file reveal later writes through mappings. Returns `false` if this cannot be
/// determined.
fn notes_mapped_writes(file: BorrowedFd<'_>) -> bool {
    file::notes_mapped_writes(file).unwrap_or(false)
}

/// Does the same for the file at a path, which need not be readable.
pub(crate) fn times_tell_at(path: &Path) -> bool {
    let file = OpenOptions::new().read(true).custom_flags(abi::O_PATH).open(path);
    file.is_ok_and(|file| notes_mapped_writes(file.as_fd()))
}

/// Reports whether a later change of a file might have the same time as the last one before `moment`: that was a tick
/// ago or less, or is in the future, since a clock was set back or belongs to another machine.
pub(crate) fn is_fresh(identity: &FileIdentity, moment: i64) -> bool {
    moment.saturating_sub(identity.changed_nanoseconds) < TICK_NANOSECONDS
}

fn now_nanoseconds() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::identity;

    fn changed_at(changed_nanoseconds: i64) -> FileIdentity {
        FileIdentity { changed_nanoseconds, ..FileIdentity::default() }
    }

    #[test]
    fn a_change_within_the_tick_before_is_not_trusted() {
        let touched = changed_at(1_000_000_000);
        assert!(is_fresh(&touched, 1_000_000_000 + TICK_NANOSECONDS - 1));
        assert!(!is_fresh(&touched, 1_000_000_000 + TICK_NANOSECONDS));
    }

    #[test]
    fn a_change_time_in_the_future_is_not_trusted() {
        for ahead in [1, TICK_NANOSECONDS + 1, 3600 * 1_000_000_000, i64::MAX - 1_000] {
            assert!(is_fresh(&changed_at(1_000 + ahead), 1_000), "{ahead} ns ahead");
        }
        assert!(is_fresh(&changed_at(i64::MAX), i64::MIN) && !is_fresh(&changed_at(i64::MIN), i64::MAX));
    }

    #[test]
    fn times_in_a_memory_file_system_prove_nothing() {
        let Ok(file) = tempfile::tempfile_in("/dev/shm") else { return };
        let old = FileIdentity { changed_nanoseconds: 1, ..identity(&file.metadata().unwrap()) };
        assert_eq!(Proof::by(&old, file.as_fd()), Proof::OfWrites);
        assert!(!times_tell_at(Path::new("/dev/shm")));
        assert_eq!(Proof::by(&changed_at(i64::MAX), file.as_fd()), Proof::None);
    }
}
