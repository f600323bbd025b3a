//! Locks on files. The kernel shows those of an open file description with each of its descriptors, and those of a
//! process with each descriptor that the process has of the file: every lock is noted once, with an open file through which
//! it can be taken again.

use super::shown::Shown;
use super::{O_ACCMODE, O_WRONLY, Walk};
use standfast_format::records::{FileLock, LockKind};
use standfast_linux::proc::{self, Lock};

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

    /// The record of a lock, if it is the job's and can be taken through this descriptor.
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

    /// Whether whoever started the run has taken it, and only lent the open file: `flock FILE standfast run`.
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
