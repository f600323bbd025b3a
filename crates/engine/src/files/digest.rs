//! What files hold, in 16 bytes: taken at the checkpoint, compared at the restart.
//!
//! Reading a file costs time that a program should not stand still for. So the files of a job are read while it runs, and
//! remembered with what the kernel says of their last change; inside the stop only those are read that have changed since.

use super::{FileKey, build_id};
use standfast_core::Checksum;
use standfast_format::records::{Bytes, Coverage, FileDigest, FileIdentity, FileReference};
use standfast_linux::sys::file::FileSystem;
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest file that is read whole while the program runs: 64 MiB take some 10 ms, once.
const WHOLE_BYTES_MAX: u64 = 64 << 20;
/// Longest file that is read whole while the program stands still: 8 MiB take about a millisecond.
const WHOLE_BYTES_MAX_STOPPED: u64 = 8 << 20;
/// Two changes of a file within this time may look like one: file systems tell time by the tick, 10 ms at most.
pub(crate) const TICK_NANOSECONDS: i64 = 20_000_000;

/// Whether the program stands still meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    Running,
    Stopped,
    /// Of many files a little each will do.
    Samples,
}

/// Digests that have been taken, so that no file is read twice unless it has changed.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    known: Mutex<HashMap<FileKey, Known>>,
}

/// What a file was when it was read, and what it held.
#[derive(Debug, Clone)]
struct Known {
    identity: FileIdentity,
    length: u64,
    content: Content,
}

/// What it held.
#[derive(Debug, Clone)]
struct Content {
    digest: FileDigest,
    build_id: Option<Bytes>,
}

impl Content {
    fn note(self, reference: &mut FileReference) {
        (reference.digest, reference.build_id) = (Some(self.digest), self.build_id);
    }
}

impl Digests {
    /// Fills in what a file holds. One that cannot be read, or has become another one, stays without.
    pub(crate) fn fill(&self, reference: &mut FileReference, haste: Haste) {
        if self.fill_known(reference) {
            return;
        }
        let key = (reference.identity.device, reference.identity.inode);
        let Ok(content) = read_unchanged(reference, haste) else { return };
        content.clone().note(reference);
        if !is_fresh(&reference.identity, now_nanoseconds()) {
            let entry = Known { identity: reference.identity, length: reference.length, content };
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, entry);
        }
    }

    /// Forgets all other files.
    pub(crate) fn keep_only(&self, files: &BTreeSet<FileKey>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| files.contains(key));
    }

    /// Fills in what a file holds, if it has been read before and not changed since; says whether it has.
    pub(crate) fn fill_known(&self, reference: &mut FileReference) -> bool {
        let key = (reference.identity.device, reference.identity.inode);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let known = known.filter(|known| (known.identity, known.length) == (reference.identity, reference.length));
        let is_known = known.is_some();
        known.into_iter().for_each(|known| known.content.note(reference));
        is_known
    }
}

/// The content of a file that is, before and after it was read, the one that the reference names.
fn read_unchanged(reference: &FileReference, haste: Haste) -> io::Result<Content> {
    let changed = || io::Error::other("the file changes while it is read");
    let file = open(&reference.path.0)?;
    // To read what the kernel makes up may wait for something, or change it.
    if FileSystem::of(file.as_fd())? != FileSystem::Ordinary {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let is_same = || {
        let now = file.metadata()?;
        Ok::<_, io::Error>((now.len(), identity(&now)) == (reference.length, reference.identity))
    };
    if !is_same()? {
        return Err(changed());
    }
    let whole = match haste {
        Haste::Running => WHOLE_BYTES_MAX,
        Haste::Stopped => WHOLE_BYTES_MAX_STOPPED,
        Haste::Samples => 0,
    };
    let coverage = if reference.length <= whole { Coverage::Whole } else { Coverage::Sampled };
    let digest = digest_of(&file, reference.length, coverage)?;
    let build_id = if haste == Haste::Samples { None } else { build_id(&file).map(Bytes) };
    if is_same()? { Ok(Content { digest, build_id }) } else { Err(changed()) }
}

/// What a file holds below `length`.
pub(crate) fn digest_of(file: &File, length: u64, coverage: Coverage) -> io::Result<FileDigest> {
    let mut sums = Vec::new();
    let mut buffer = Vec::new();
    for (offset, bytes) in coverage.pieces(length) {
        buffer.resize(usize::try_from(bytes).expect("a piece is small"), 0);
        file.read_exact_at(&mut buffer, offset)?;
        sums.extend(Checksum::of(&buffer).to_bytes());
    }
    Ok(FileDigest { coverage, checksum: Checksum::of(&sums) })
}

/// Opens a file for looking at, which must neither wait nor become anybody's terminal.
pub(crate) fn open(path: &[u8]) -> io::Result<File> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;
    let path = std::ffi::OsStr::from_bytes(path);
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Which file this is.
pub(crate) fn identity(file: &Metadata) -> FileIdentity {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    FileIdentity {
        device: file.dev(),
        inode: file.ino(),
        modified_nanoseconds: nanoseconds(file.mtime(), file.mtime_nsec()),
        changed_nanoseconds: nanoseconds(file.ctime(), file.ctime_nsec()),
    }
}

/// Whether a file was changed so short before `moment` that a later change might bear the same time.
pub(crate) fn is_fresh(identity: &FileIdentity, moment: i64) -> bool {
    let age = moment.saturating_sub(identity.changed_nanoseconds);
    (-TICK_NANOSECONDS..TICK_NANOSECONDS).contains(&age)
}

fn now_nanoseconds() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn reference(path: &Path) -> FileReference {
        let file = std::fs::metadata(path).unwrap();
        let identity = identity(&file);
        FileReference {
            path: path.as_os_str().as_bytes().into(),
            length: file.len(),
            identity,
            ..FileReference::default()
        }
    }

    #[test]
    fn every_changed_byte_of_a_file_that_is_read_whole_changes_its_digest() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let mut bytes = vec![7u8; (2 << 20) + 3];
        std::fs::write(&path, &bytes).unwrap();
        let digests = Digests::default();
        let mut before = reference(&path);
        digests.fill(&mut before, Haste::Stopped);
        for at in [0, 1 << 20, (2 << 20) + 2] {
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let file = File::open(&path).unwrap();
            let now = digest_of(&file, before.length, Coverage::Whole).unwrap();
            assert_ne!(Some(now), before.digest);
            bytes[at] ^= 1;
        }
        std::fs::write(&path, &bytes).unwrap();
        let now = digest_of(&File::open(&path).unwrap(), before.length, Coverage::Whole).unwrap();
        assert_eq!(Some(now), before.digest);
    }

    #[test]
    fn a_file_that_is_no_longer_the_one_that_was_meant_has_no_digest() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        std::fs::write(&path, "first").unwrap();
        let mut meant = reference(&path);
        std::fs::write(&path, "other length").unwrap();
        Digests::default().fill(&mut meant, Haste::Running);
        assert_eq!(meant.digest, None);
    }

    #[test]
    fn a_change_within_the_tick_before_is_not_trusted() {
        let touched = FileIdentity { changed_nanoseconds: 1_000_000_000, ..FileIdentity::default() };
        assert!(is_fresh(&touched, 1_000_000_000 + TICK_NANOSECONDS - 1));
        assert!(!is_fresh(&touched, 1_000_000_000 + TICK_NANOSECONDS));
    }
}
