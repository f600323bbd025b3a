//! Locks on files, and who is told of events by a signal: set when every descriptor has its number.

use super::{F_SETFL, O_ASYNC, Opening};
use crate::EngineError;
use crate::error::kernel;
use standfast_format::records::{FileLock, LockKind, OpenFile, OpenFileKind, SignalTarget};

const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;
const OWNER_THREAD: i32 = 0;
const OWNER_PROCESS: i32 = 1;
const OWNER_GROUP: i32 = 2;

impl Opening<'_> {
    /// Says again who gets signals from open files, and lets those flow that did.
    pub(super) fn tell(&self) -> Result<(), EngineError> {
        for (place, file) in self.plan.job.open_files.iter().enumerate() {
            let Some(number) = self.number_of(place) else { continue };
            if let Some(target) = file.signal_target {
                self.tell_one(number, target, file)?;
            } else if let Some(signal) = file.signal {
                self.choose_signal(number, signal)?;
            }
        }
        Ok(())
    }

    fn tell_one(&self, number: u64, target: SignalTarget, file: &OpenFile) -> Result<(), EngineError> {
        let telling = |command, argument| {
            let arguments = [number, command, argument, 0, 0, 0];
            self.call("setting who is told of events", libc::SYS_fcntl, arguments)
        };
        let process = self.plan.job.processes.get(target.process as usize);
        let is_itself = process.is_some_and(|process| std::ptr::eq(process, self.plan.process));
        let pid = match process {
            Some(process) if !is_itself => process.pid,
            _ => self.call("asking for the process id", libc::SYS_getpid, [0; 6])? as i32,
        };
        let kind = match (target.main_thread, target.group) {
            (_, Some(true)) => OWNER_GROUP,
            (true, _) => OWNER_THREAD,
            (false, _) => OWNER_PROCESS,
        };
        let owner = self.process.argument([kind, pid].map(i32::to_le_bytes).as_flattened())?;
        telling(F_SETOWN_EX, owner)?;
        self.choose_signal(number, target.signal)?;
        if file.flags & O_ASYNC != 0 {
            telling(F_SETFL, file.flags.into())?;
        }
        Ok(())
    }

    fn choose_signal(&self, number: u64, signal: i32) -> Result<(), EngineError> {
        let arguments = [number, F_SETSIG, signal as u64, 0, 0, 0];
        self.call("choosing the signal that tells of events", libc::SYS_fcntl, arguments).map(drop)
    }

    /// Takes the locks that this process holds, or holds together with others.
    pub(super) fn lock(&self) -> Result<(), EngineError> {
        for (place, file) in self.plan.job.open_files.iter().enumerate() {
            let Some(number) = self.number_of(place) else { continue };
            for lock in &file.locks {
                self.lock_one(number, lock).map_err(|error| named(error, file))?;
            }
        }
        Ok(())
    }

    fn lock_one(&self, number: u64, lock: &FileLock) -> Result<(), EngineError> {
        let command = match lock.kind {
            LockKind::Whole => {
                let how = if lock.exclusive { libc::LOCK_EX } else { libc::LOCK_SH } | libc::LOCK_NB;
                return self.call("locking a file", libc::SYS_flock, [number, how as u64, 0, 0, 0, 0]).map(drop);
            }
            LockKind::Process { process } => {
                let holder = self.plan.job.processes.get(process as usize);
                if holder.is_none_or(|holder| !std::ptr::eq(holder, self.plan.process)) {
                    return Ok(());
                }
                libc::F_SETLK
            }
            LockKind::OpenFile => libc::F_OFD_SETLK,
        };
        let kind = if lock.exclusive { libc::F_WRLCK } else { libc::F_RDLCK } as i16;
        // struct flock: type and whence, padding, start, length, pid, padding.
        let words = [u64::from(kind as u16), lock.start, lock.length, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let argument = self.process.argument(&bytes)?;
        self.call("locking a file", libc::SYS_fcntl, [number, command as u64, argument, 0, 0, 0]).map(drop)
    }

    /// A descriptor of this process for an open file.
    fn number_of(&self, place: usize) -> Option<u64> {
        let mut descriptors = self.plan.process.descriptors.iter();
        descriptors.find(|descriptor| descriptor.open_file as usize == place).map(|descriptor| descriptor.number as u64)
    }
}

/// Says which file somebody else has locked.
fn named(error: EngineError, file: &OpenFile) -> EngineError {
    let path = match &file.kind {
        OpenFileKind::Regular { file, .. } => &file.path,
        OpenFileKind::Directory { path, .. } => path,
        _ => return error,
    };
    match error {
        EngineError::Kernel { source, .. } => kernel(&format!("locking {path}, which the program had locked"), source),
        error => error,
    }
}
