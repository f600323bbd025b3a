//! Memory objects of a job under construction: made again in the new process, filled from outside, sealed, mapped.
//!
//! ```text
//! make      an empty file in memory, with a descriptor in the main process, which the others inherit, and one of ours
//! private   mappings of it that copy on write, before the pages come, since some pages are theirs
//! fill      pages that the image has; all others are holes
//! seal      against writing: before shared mappings, which the seal would forbid
//! shared    mappings of it
//! seal      against later mappings that write, and against more seals
//! ```
//!
//! The descriptors in the new processes live until their own descriptors have been placed. To restore an open file that
//! is an object, open `/proc/self/fd/N` with `N` from [`Object::descriptor`].

use super::SHARED_MEMORY_NAME;
use crate::EngineError;
use crate::construction::{Construction, Object};
use crate::error::kernel;
use standfast_core::{Address, PAGE_BYTES};
use standfast_format::records::{JobState, MemoryObject, ObjectKind, Owner};
use standfast_format::{BoxError, Run};
use standfast_linux::abi;
use standfast_linux::sys::file;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

const MFD_ALLOW_SEALING: u64 = abi::MFD_ALLOW_SEALING as u64;
const MFD_EXEC: u64 = abi::MFD_EXEC as u64;
const O_TMPFILE: u64 = (abi::O_TMPFILE | abi::O_RDWR) as u64;
const OWNER_ONLY: u64 = 0o600;
const EXECUTABLE: u32 = 0o111;
/// Seals that take effect on later mappings, or on later seals.
const LATE_SEALS: u32 = file::SEAL_FUTURE_WRITE | file::SEAL_SEAL;

/// One file with the saved contents of all files on disks, one after the other, until they are put where they belong.
/// There may be more of them than a process may have open.
struct Staging {
    descriptor: u64,
    own: Arc<File>,
    end: u64,
}

impl Construction {
    /// Makes all objects of the job, empty and of the right length. Their descriptors are numbered from `parking` on.
    pub(crate) fn make_objects(&mut self, job: &JobState, parking: u64) -> Result<(), EngineError> {
        let mut staging = None;
        let objects = job.objects.iter().map(|object| match object.kind {
            ObjectKind::MappedFile { .. } => self.stage(object, &mut staging, parking),
            _ => self.make_object(object, parking),
        });
        self.objects = Arc::new(objects.collect::<Result<_, _>>()?);
        if let Some(Staging { own, end, .. }) = staging {
            own.set_len(end).map_err(|source| kernel("sizing shared memory", source))?;
        }
        Ok(())
    }

    fn stage(&self, object: &MemoryObject, staging: &mut Option<Staging>, parking: u64) -> Result<Object, EngineError> {
        let staging = match staging {
            Some(staging) => staging,
            none => {
                let made = self.make_memory_file(b"staged files", &object.kind)?;
                let (descriptor, own) = self.park_shared(made, parking)?;
                none.insert(Staging { descriptor, own: Arc::new(own), end: 0 })
            }
        };
        let base = staging.end;
        let length = object.length;
        let pages = length.checked_next_multiple_of(PAGE_BYTES as u64);
        // An absurd length is refused when the file is made that long.
        staging.end = base.saturating_add(pages.unwrap_or(u64::MAX));
        Ok(Object { descriptor: staging.descriptor, own: Arc::clone(&staging.own), base, length })
    }

    fn make_object(&self, object: &MemoryObject, parking: u64) -> Result<Object, EngineError> {
        let made = match &object.kind {
            ObjectKind::SharedMemory => self.make_memory_file(SHARED_MEMORY_NAME, &object.kind)?,
            ObjectKind::MemoryFile { name, .. } => self.make_memory_file(&name.0, &object.kind)?,
            // Contents from the image are put here first, and where they belong when all of them have verified.
            ObjectKind::MappedFile { .. } | ObjectKind::Segment { .. } => {
                self.make_memory_file(b"staged memory", &object.kind)?
            }
            ObjectKind::DeletedFile { path, .. } => self.make_deleted_file(&path.0)?,
        };
        let (descriptor, own) = self.park_shared(made, parking)?;
        own.set_len(object.length).map_err(|source| kernel("sizing shared memory", source))?;
        Ok(Object { descriptor, own: Arc::new(own), base: 0, length: object.length })
    }

    /// Parks a file in the new process, and takes a descriptor of it for us.
    fn park_shared(&self, made: u64, parking: u64) -> Result<(u64, File), EngineError> {
        let descriptor = self.park(made, parking)?;
        let taking = |source| kernel("sharing memory with the new process", source);
        let theirs = self.copy_of(descriptor)?;
        // Opened by ourselves: the program may have it in append mode.
        let own = File::options().read(true).write(true).open(format!("/proc/self/fd/{}", theirs.as_raw_fd()));
        Ok((descriptor, own.map_err(taking)?))
    }

    fn make_memory_file(&self, name: &[u8], kind: &ObjectKind) -> Result<u64, EngineError> {
        let flags = MFD_ALLOW_SEALING | executable_flag(kind);
        let name = self.path_argument(name)?;
        self.call("making shared memory", abi::SYS_memfd_create, [name, flags, 0, 0, 0, 0])
    }

    /// Makes a file without a name, in the directory that it was in, or elsewhere: no path leads to it in any case.
    fn make_deleted_file(&self, path: &[u8]) -> Result<u64, EngineError> {
        let path = Path::new(OsStr::from_bytes(path));
        let directories = path.parent().into_iter().chain(["/tmp", "/var/tmp", "/dev/shm"].map(Path::new));
        let mut made = Err(kernel("making a deleted file", std::io::ErrorKind::NotFound.into()));
        for directory in directories {
            let argument = self.path_argument(directory.as_os_str().as_bytes())?;
            let action = format!("making a file in the place of {}, which has been deleted", path.display());
            made = self.call(&action, abi::SYS_open, [argument, O_TMPFILE, OWNER_ONLY, 0, 0, 0]);
            if made.is_ok() {
                break;
            }
        }
        made
    }

    /// Writes pages of an object. Called from several threads.
    pub(crate) fn fill_object(&self, place: usize, run: &Run, bytes: &[u8]) -> Result<(), BoxError> {
        let object = &self.objects[place];
        let start = run.range.start().get();
        let inside = object.length.saturating_sub(start).min(bytes.len() as u64) as usize;
        object.own.write_all_at(&bytes[..inside], object.base + start).map_err(Into::into)
    }

    /// Reads what has been placed from `start` on: an address of this process, or an offset in an object.
    pub(crate) fn read_placed(
        &self,
        job: &JobState,
        owner: u32,
        start: Address,
        into: &mut [u8],
    ) -> std::io::Result<()> {
        match job.owner(owner) {
            Some(Owner::Object(object)) => {
                let object = &self.objects[object];
                let inside = object.length.saturating_sub(start.get()).min(into.len() as u64) as usize;
                object.own.read_exact_at(&mut into[..inside], object.base + start.get())
            }
            _ => self.memory.read(start, into),
        }
    }

    /// Applies the seals that must come after filling.
    pub(crate) fn seal_filled(&self, job: &JobState) -> Result<(), EngineError> {
        self.seal(job, !LATE_SEALS)
    }

    /// Applies the seals that must come after mapping.
    pub(crate) fn seal_mapped(&self, job: &JobState) -> Result<(), EngineError> {
        self.seal(job, LATE_SEALS)
    }

    /// Returns the saved contents of an object that is no file on a disk, as a file of ours.
    pub(crate) fn staged(&self, place: usize) -> &File {
        &self.objects[place].own
    }

    /// Reads the saved contents of an object.
    pub(crate) fn read_staged(&self, place: usize, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        let object = &self.objects[place];
        object.own.read_exact_at(into, object.base + offset)
    }

    /// Gives files without a name the time of their last modification, now that their contents are restored.
    pub(crate) fn set_times_of_objects(&self, job: &JobState) -> Result<(), EngineError> {
        for (record, object) in job.objects.iter().zip(self.objects.iter()) {
            let Some(modified) = record.modified_nanoseconds else { continue };
            let setting = |source| kernel("setting a time of modification", source);
            file::set_modified(object.own.as_fd(), modified).map_err(setting)?;
        }
        Ok(())
    }

    fn seal(&self, job: &JobState, which: u32) -> Result<(), EngineError> {
        for (record, object) in job.objects.iter().zip(self.objects.iter()) {
            let (seals, mode) = match record.kind {
                ObjectKind::MemoryFile { seals, mode, .. } => (seals, mode),
                ObjectKind::DeletedFile { mode, .. } => (0, mode),
                ObjectKind::SharedMemory | ObjectKind::MappedFile { .. } | ObjectKind::Segment { .. } => continue,
            };
            if which & file::SEAL_SEAL == 0 {
                let permissions = Permissions::from_mode(mode);
                object.own.set_permissions(permissions).map_err(|source| kernel("setting permissions", source))?;
            }
            if seals & which != 0 {
                file::add_seals(object.own.as_fd(), seals & which)
                    .map_err(|source| kernel("sealing memory", source))?;
            }
        }
        Ok(())
    }
}

/// Returns the flag by which kernels since Linux 6.3 want to know whether a file in memory may ever be executed. A file
/// that was sealed while it could be executed gets the seal later, when it has its permissions.
fn executable_flag(kind: &ObjectKind) -> u64 {
    let is_known = std::fs::exists("/proc/sys/vm/memfd_noexec").unwrap_or(false);
    let is_never = |seals: u32, mode: u32| seals & file::SEAL_EXEC != 0 && mode & EXECUTABLE == 0;
    match (is_known, kind) {
        (false, _) => 0,
        (true, ObjectKind::MemoryFile { seals, mode, .. }) if is_never(*seals, *mode) => abi::MFD_NOEXEC_SEAL.into(),
        (true, _) => MFD_EXEC,
    }
}

/// Reports whether an image may hold a page of an object there.
pub(crate) fn is_inside(object: &MemoryObject, run: &Run) -> bool {
    run.range.end().get() <= object.length.next_multiple_of(PAGE_BYTES as u64)
}
