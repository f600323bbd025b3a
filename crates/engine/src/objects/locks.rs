//! Locks on files. The kernel shows the locks of an open file description with each of its descriptors. It shows those
//! of a process with each descriptor that the process has of the file. The walk records every lock once, with an open
//! file through which it can be taken again. A restart takes them when every descriptor has its number, and those of open
//! files that are only in messages before it sends these.

use super::shown::Shown;
use super::{O_ACCMODE, O_WRONLY, Opening, Walk};
use crate::EngineError;
use crate::error::kernel;
use standfast_format::records::{Bytes, FileLock, JobState, LockKind, OpenFile, OpenFileKind};
use standfast_linux::proc::{self, DescriptorInformation, Lock, LockOnFile};
use standfast_linux::{Pid, abi};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

impl Walk<'_> {
    pub(super) fn note_locks(&mut self) {
        for place in 0..self.shown.len() {
            let shown = &self.shown[place];
            let Some(open_file) = self.position(shown).filter(|_| !shown.information.locks.is_empty()) else {
                continue;
            };
            for lock in shown.information.locks.clone() {
                if let Some(lock) = self.lock_of_the_job(&self.shown[place], &lock)
                    && !self.is_noted(place, open_file, &lock)
                {
                    self.found.open_files[open_file].locks.push(lock);
                }
            }
        }
    }

    /// Returns the record of a lock, if it is the job's and can be taken through this descriptor.
    fn lock_of_the_job(&self, shown: &Shown, lock: &Lock) -> Option<FileLock> {
        let access = shown.information.flags & O_ACCMODE;
        let kind = match lock.kind {
            proc::ShownLockKind::Whole if self.is_taken_outside(shown, lock) => return None,
            proc::ShownLockKind::Whole => LockKind::Whole,
            proc::ShownLockKind::OpenFile => LockKind::OpenFile,
            // A process may hold it by way of another descriptor, which allows more.
            proc::ShownLockKind::Process if lock.exclusive && access == 0 => return None,
            proc::ShownLockKind::Process if !lock.exclusive && access == O_WRONLY => return None,
            proc::ShownLockKind::Process if shown.holder >= self.processes() => return None,
            proc::ShownLockKind::Process => LockKind::Process { process: shown.holder as u32 },
            proc::ShownLockKind::Other => return None,
        };
        let length = lock.end.map_or(0, |end| end - lock.start + 1);
        Some(FileLock { kind, exclusive: lock.exclusive, start: lock.start, length })
    }

    /// Reports whether the starter of the run has taken the lock and only lent the open file: `flock FILE standfast
    /// run`.
    fn is_taken_outside(&self, shown: &Shown, lock: &Lock) -> bool {
        let is_job = self.job().iter().any(|holder| holder.pid == lock.process);
        let given = self.inheritance.others.iter().map(|(_, identity)| Some(*identity));
        !is_job && given.chain(self.inheritance.streams).any(|identity| identity == Some(shown.identity()))
    }

    fn is_noted(&self, place: usize, open_file: usize, lock: &FileLock) -> bool {
        let identity = self.shown[place].identity();
        let mut others = self.found.open_files.iter().zip(&self.known).enumerate();
        others.any(|(position, (other, known))| {
            let same = match lock.kind {
                LockKind::Process { .. } => self.shown[*known].identity() == identity,
                LockKind::Whole | LockKind::OpenFile => position == open_file,
            };
            same && other.locks.contains(lock)
        })
    }
}

impl Opening<'_> {
    /// Takes the locks that this process holds, alone or together with others.
    pub(super) fn lock(&self) -> Result<(), EngineError> {
        for (place, file) in self.plan.job.open_files.iter().enumerate() {
            let Some(number) = self.number_of(place) else { continue };
            for lock in &file.locks {
                self.lock_one(number, lock).map_err(|error| named(error, file))?;
            }
        }
        Ok(())
    }

    /// Takes the locks of open files to which no descriptor of any process leads: they are on their way in messages.
    /// `files` are parked in this process.
    pub(super) fn lock_those_on_their_way(&self, files: &[Option<u64>]) -> Result<(), EngineError> {
        let job = self.plan.job;
        for (place, file) in job.open_files.iter().enumerate().filter(|(_, file)| !file.locks.is_empty()) {
            let mut descriptors = job.processes.iter().flat_map(|process| &process.descriptors);
            let Some(number) = files[place].filter(|_| !descriptors.any(|it| it.open_file as usize == place)) else {
                continue;
            };
            for lock in &file.locks {
                self.lock_one(number, lock).map_err(|error| named(error, file))?;
            }
        }
        Ok(())
    }

    fn lock_one(&self, number: u64, lock: &FileLock) -> Result<(), EngineError> {
        let command = match lock.kind {
            LockKind::Whole => {
                let how = if lock.exclusive { abi::LOCK_EX } else { abi::LOCK_SH } | abi::LOCK_NB;
                return self.call("locking a file", abi::SYS_flock, [number, how as u64, 0, 0, 0, 0]).map(drop);
            }
            LockKind::Process { process } => {
                let holder = self.plan.job.processes.get(process as usize);
                if holder.is_none_or(|holder| !std::ptr::eq(holder, self.plan.process)) {
                    return Ok(());
                }
                abi::F_SETLK
            }
            LockKind::OpenFile => abi::F_OFD_SETLK,
        };
        let kind = if lock.exclusive { abi::F_WRLCK } else { abi::F_RDLCK } as i16;
        // struct flock: type and whence, padding, start, length, pid, padding.
        let words = [u64::from(kind as u16), lock.start, lock.length, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let argument = self.process.argument(&bytes)?;
        self.call("locking a file", abi::SYS_fcntl, [number, command as u64, argument, 0, 0, 0]).map(drop)
    }
}

/// Refuses a job whose locks others have taken since. `alive` are its own processes, if it is running. Takes no lock.
pub(crate) fn refuse_locked_by_others(job: &JobState, alive: &[Pid]) -> Result<(), EngineError> {
    if job.open_files.iter().all(|open| open.locks.is_empty()) {
        return Ok(());
    }
    let held = LockOnFile::all().map_err(|source| kernel("looking for locks of others", source))?;
    for open in job.open_files.iter().filter(|open| !open.locks.is_empty()) {
        let Some(path) = path_of(open) else { continue };
        let Ok(found) = std::fs::metadata(OsStr::from_bytes(&path.0)) else { continue };
        let on_it = held.iter().filter(|it| (it.device, it.inode) == (found.dev(), found.ino()));
        let mut in_the_way = on_it.filter(|it| open.locks.iter().any(|lock| conflict(lock, &it.lock)));
        if in_the_way.any(|it| !is_of_processes(it, alive) && !may_be_on_its_way(it, alive)) {
            let taken = io::Error::from_raw_os_error(abi::EAGAIN);
            return Err(named(kernel("locking a file", taken), open));
        }
    }
    Ok(())
}

/// Reports whether a lock cannot be taken while another one is held.
fn conflict(wanted: &FileLock, held: &Lock) -> bool {
    let wanted_is_whole = matches!(wanted.kind, LockKind::Whole);
    let is_same_sort = match held.kind {
        proc::ShownLockKind::Whole => wanted_is_whole,
        proc::ShownLockKind::Process | proc::ShownLockKind::OpenFile => !wanted_is_whole,
        proc::ShownLockKind::Other => false,
    };
    let is_before = |end: Option<u64>, start: u64| end.is_some_and(|end| end < start);
    let wanted_end = (wanted.length > 0).then(|| wanted.start + wanted.length - 1);
    let is_apart = is_before(wanted_end, held.start) || is_before(held.end, wanted.start);
    is_same_sort && !is_apart && (wanted.exclusive || held.exclusive)
}

/// Reports whether processes hold a lock. For one of an open file the kernel does not say who took it.
fn is_of_processes(it: &LockOnFile, processes: &[Pid]) -> bool {
    if it.lock.kind != proc::ShownLockKind::OpenFile {
        return processes.contains(&it.lock.process);
    }
    let shows_it = |pid: Pid, number: i32| {
        let file = std::fs::metadata(format!("/proc/{pid}/fd/{number}"));
        file.is_ok_and(|file| file.ino() == it.inode)
            && DescriptorInformation::of(pid, number).is_ok_and(|shown| shown.locks.contains(&it.lock))
    };
    processes.iter().any(|pid| {
        let numbers = proc::numbers(*pid, "fd").unwrap_or_default();
        numbers.into_iter().any(|number| shows_it(*pid, number))
    })
}

/// Reports whether a lock may be of an open file that is on its way in a message between processes.
fn may_be_on_its_way(it: &LockOnFile, processes: &[Pid]) -> bool {
    let awaits_files =
        |pid: Pid, number: i32| DescriptorInformation::of(pid, number).is_ok_and(|shown| shown.files_to_receive > 0);
    it.lock.kind == proc::ShownLockKind::OpenFile
        && processes.iter().any(|pid| {
            let numbers = proc::numbers(*pid, "fd").unwrap_or_default();
            numbers.into_iter().any(|number| awaits_files(*pid, number))
        })
}

fn path_of(open: &OpenFile) -> Option<&Bytes> {
    match &open.kind {
        OpenFileKind::Regular { file, .. } => Some(&file.path),
        OpenFileKind::Directory { path, .. } => Some(path),
        _ => None,
    }
}

/// Adds to an error which file somebody else has locked.
fn named(error: EngineError, open: &OpenFile) -> EngineError {
    match (error, path_of(open)) {
        (EngineError::Kernel { source, .. }, Some(path)) => {
            kernel(&format!("locking {path}, which the program had locked"), source)
        }
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_conflict_if_they_overlap_and_one_excludes() {
        let wanted = |kind, exclusive, start, length| FileLock { kind, exclusive, start, length };
        let held = |kind, exclusive, start, end| Lock { kind, exclusive, process: Pid::new(7), start, end };
        let (whole, part) = (proc::ShownLockKind::Whole, proc::ShownLockKind::OpenFile);
        let process = LockKind::Process { process: 0 };
        assert!(conflict(&wanted(LockKind::Whole, false, 0, 0), &held(whole, true, 0, None)));
        assert!(!conflict(&wanted(LockKind::Whole, false, 0, 0), &held(whole, false, 0, None)));
        assert!(!conflict(&wanted(LockKind::Whole, true, 0, 0), &held(part, true, 0, None)));
        assert!(conflict(&wanted(process, true, 10, 5), &held(part, false, 14, Some(20))));
        assert!(!conflict(&wanted(process, true, 10, 5), &held(part, false, 15, Some(20))));
        assert!(!conflict(&wanted(LockKind::OpenFile, true, 10, 0), &held(part, true, 0, Some(9))));
        assert!(conflict(&wanted(LockKind::OpenFile, true, 10, 0), &held(part, true, 99, None)));
    }
}
