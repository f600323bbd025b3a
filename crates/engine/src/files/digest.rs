//! The contents of files in 16 bytes: taken at the checkpoint, compared at the restart.
//!
//! Reading a file takes time during which a program should not be frozen. So the files of a job are read while it runs,
//! and remembered with what the kernel says about their last change. During the stop, only files that have changed since
//! then are read.

use super::{FileId, Proof, build_id};
use standfast_core::Checksum;
use standfast_format::records::{Bytes, Coverage, FileDigest, FileIdentity, FileReference};
use standfast_linux::abi;
use standfast_linux::sys::file::FileSystem;
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Mutex, PoisonError};

/// Largest file that is read completely while the program runs: 64 MiB take about 10 ms, once.
const WHOLE_BYTES_MAX: u64 = 64 << 20;
/// Largest file that is read completely while the program is frozen: 8 MiB take about a millisecond.
const WHOLE_BYTES_MAX_STOPPED: u64 = 8 << 20;
/// Largest file that is read completely while the program runs if its times prove nothing and no process is seen to
/// write to it: 1 GiB takes about 150 ms, once.
const WHOLE_BYTES_MAX_UNPROVED: u64 = 1 << 30;

/// Whether the program is frozen meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    Running,
    Stopped,
    /// A small part of each of many files is enough.
    Samples,
}

/// How to inspect a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    pub(crate) haste: Haste,
    /// Whether the job has it mapped and may write through the mapping, so that it may change at any moment without a
    /// trace.
    pub(crate) is_mapped: bool,
    /// Whether the job may write to it by other means.
    pub(crate) is_written: bool,
}

impl Scan {
    /// Inspects a file that the job only reads.
    pub(crate) fn reading(haste: Haste) -> Self {
        Self { haste, is_mapped: false, is_written: false }
    }
}

/// Digests that have been taken, so that a file is read again only if it has changed.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    known: Mutex<HashMap<FileId, Known>>,
}

/// What a file was when it was read, and what it held.
#[derive(Debug, Clone)]
struct Known {
    identity: FileIdentity,
    length: u64,
    content: Content,
    /// Whether its times reveal every later change; otherwise the digest counts only for the checkpoint in progress.
    lasts: bool,
}

/// What a file held.
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
    /// Begins another checkpoint: forgets digests of the previous one that nothing proves to be still correct.
    pub(crate) fn begin(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, known| known.lasts);
    }

    /// Fills in what a file holds. A file that cannot be read, or has been replaced, gets no digest.
    pub(crate) fn fill(&self, reference: &mut FileReference, scan: Scan) {
        if !scan.is_mapped && self.fill_known(reference) {
            return;
        }
        let key = FileId::of_reference(reference);
        let Ok((content, proof)) = read_unchanged(reference, scan) else { return };
        content.clone().note(reference);
        let counts = proof == Proof::Whole || proof == Proof::OfWrites && scan.haste != Haste::Stopped;
        if counts && !scan.is_mapped {
            // Reading a large file repeatedly costs more than a restart that accepts one whose change left no trace.
            let lasts = proof == Proof::Whole || !scan.is_written && reference.length > WHOLE_BYTES_MAX;
            let entry = Known { identity: reference.identity, length: reference.length, content, lasts };
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, entry);
        }
    }

    /// Forgets all other files.
    pub(crate) fn keep_only(&self, files: &BTreeSet<FileId>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| files.contains(key));
    }

    /// Fills in what a file holds, if it has been read before and has not changed since; reports whether it did.
    pub(crate) fn fill_known(&self, reference: &mut FileReference) -> bool {
        let key = FileId::of_reference(reference);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let known = known.filter(|known| (known.identity, known.length) == (reference.identity, reference.length));
        let is_known = known.is_some();
        known.into_iter().for_each(|known| known.content.note(reference));
        is_known
    }
}

/// Returns the content of a file, and what its identity proves from now on. Fails unless the file is the one that the
/// reference names, both before and after reading.
fn read_unchanged(reference: &FileReference, scan: Scan) -> io::Result<(Content, Proof)> {
    let changed = || io::Error::other("the file changes while it is read");
    let file = open(&reference.path.0)?;
    // Reading files that the kernel generates may block, or change them.
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
    let proof = Proof::by(&reference.identity, file.as_fd());
    let whole = match scan.haste {
        Haste::Running if proof != Proof::OfWrites || scan.is_written => WHOLE_BYTES_MAX,
        Haste::Running => WHOLE_BYTES_MAX_UNPROVED,
        Haste::Stopped => WHOLE_BYTES_MAX_STOPPED,
        Haste::Samples => 0,
    };
    let coverage = if reference.length <= whole { Coverage::Whole } else { Coverage::Sampled };
    let digest = digest_of(&file, reference.length, coverage)?;
    let build_id = if scan.haste == Haste::Samples { None } else { build_id(&file).map(Bytes) };
    if is_same()? { Ok((Content { digest, build_id }, proof)) } else { Err(changed()) }
}

/// Returns the digest of what a file holds below `length`.
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

/// Opens a file for inspection, without blocking and without making it a controlling terminal.
pub(crate) fn open(path: &[u8]) -> io::Result<File> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;
    let path = std::ffi::OsStr::from_bytes(path);
    std::fs::OpenOptions::new().read(true).custom_flags(abi::O_NONBLOCK | abi::O_NOCTTY).open(path)
}

/// Returns the identity of a file.
pub(crate) fn identity(file: &Metadata) -> FileIdentity {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    FileIdentity {
        device: file.dev(),
        inode: file.ino(),
        modified_nanoseconds: nanoseconds(file.mtime(), file.mtime_nsec()),
        changed_nanoseconds: nanoseconds(file.ctime(), file.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::is_fresh;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::time::{SystemTime, UNIX_EPOCH};

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
    fn a_changed_byte_changes_the_digest_of_the_whole_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let mut bytes = vec![7u8; (2 << 20) + 3];
        std::fs::write(&path, &bytes).unwrap();
        let digests = Digests::default();
        let mut before = reference(&path);
        digests.fill(&mut before, Scan::reading(Haste::Stopped));
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
    fn a_file_that_has_changed_since_has_no_digest() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        std::fs::write(&path, "first").unwrap();
        let mut meant = reference(&path);
        std::fs::write(&path, "other length").unwrap();
        Digests::default().fill(&mut meant, Scan::reading(Haste::Running));
        assert_eq!(meant.digest, None);
    }

    /// Writes to a file through a mapping that ends right afterwards.
    fn write_mapped(path: &Path, byte: u8) {
        // A page that has been read is written without a fault.
        let script = "import mmap, sys\nfile = open(sys.argv[1], 'r+b')\nmemory = mmap.mmap(file.fileno(), 0)\n\
                      assert memory[0] != int(sys.argv[2])\nmemory[0] = int(sys.argv[2])";
        let mut python = std::process::Command::new("python3");
        assert!(python.args(["-c", script]).arg(path).arg(byte.to_string()).status().unwrap().success());
    }

    #[test]
    fn files_without_reliable_times_are_read_for_each_checkpoint() {
        let Ok(place) = tempfile::tempdir_in("/dev/shm") else { return };
        let path = place.path().join("file");
        std::fs::write(&path, [1u8; 5000]).unwrap();
        let digests = Digests::default();
        let scan = |scan: Scan| {
            let mut meant = reference(&path);
            // Long ago, by the clock of files.
            while is_fresh(&meant.identity, SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64) {
                std::thread::yield_now();
            }
            digests.fill(&mut meant, scan);
            meant
        };
        let running = Scan::reading(Haste::Running);
        let mapped = Scan { is_mapped: true, ..Scan::reading(Haste::Stopped) };
        let first = scan(running);
        write_mapped(&path, 2);
        assert_eq!(reference(&path).identity, first.identity, "its times tell nothing");
        assert_eq!(scan(Scan::reading(Haste::Stopped)).digest, first.digest, "it was read for this checkpoint");
        assert_ne!(scan(mapped).digest, first.digest);
        digests.begin();
        assert_ne!(scan(running).digest, first.digest);
    }
}
