//! Signal-driven I/O: who receives the signal when an open file is ready, or has urgent data (F_SETOWN, O_ASYNC).

use super::walk::Motion;
use super::{O_ASYNC, O_PATH, Opening, Unsupported, Walk};
use crate::{EngineError, RefusalCode};
use standfast_format::records::{OpenFileKind, SignalTarget};
use standfast_linux::abi;
use standfast_linux::sys::descriptors;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

/// The numbers of `F_GETOWN_EX`.
const THREAD: i32 = 0;
const PROCESS: i32 = 1;
const GROUP: i32 = 2;
const O_APPEND: u32 = abi::O_APPEND as u32;
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;

/// Who receives a signal about events of an open file, and which signal.
#[derive(Default)]
pub(super) struct SignalOwner {
    /// A process of the job, with its signal.
    pub(super) target: Option<SignalTarget>,
    /// The signal, if it has no receiver.
    pub(super) signal: Option<i32>,
}

impl Walk<'_> {
    pub(super) fn signal_owner(&self, place: usize) -> Result<SignalOwner, Unsupported> {
        let shown = &self.shown[place];
        let flags = shown.information.flags;
        // A place in the file system reports no events.
        if flags & O_PATH != 0 {
            return Ok(SignalOwner::default());
        }
        // While the program runs, a descriptor of ours would delay what others see when it closes the last of its own.
        if self.motion == Motion::Running && flags & O_ASYNC == 0 {
            return Ok(SignalOwner::default());
        }
        let own = shown.own(&self.holders)?;
        let signal = descriptors::signal_number(own.as_fd())?;
        let (kind, id) = descriptors::signal_target(own.as_fd())?;
        // Only a descriptor of a process of the job comes first here, if there is one.
        if shown.holder == self.processes() && (id, signal) != (0, 0) {
            return Err(Unsupported::for_now(
                RefusalCode::SignalOwner,
                "it is in an unread message, and a restart needs a descriptor to set the receiver of its signals \
                 (F_SETOWN)",
            ));
        }
        if id == 0 {
            return Ok(SignalOwner { target: None, signal: Some(signal).filter(|signal| *signal != 0) });
        }
        let process = self.job().iter().position(|holder| holder.pid.get() == id);
        let is_telling = flags & O_ASYNC != 0 || shown.file.file_type().is_socket();
        match process.filter(|_| matches!(kind, THREAD | PROCESS | GROUP)) {
            Some(process) => {
                let (main_thread, group) = (kind == THREAD, (kind == GROUP).then_some(true));
                let target = SignalTarget { process: process as u32, main_thread, signal, group };
                Ok(SignalOwner { target: Some(target), signal: None })
            }
            // The file is not the program's own. Its lender may be the receiver.
            None if !is_telling && self.external(shown).is_some() => Ok(SignalOwner::default()),
            None => Err(Unsupported::with_hint(
                RefusalCode::SignalOwner,
                "its signals (F_SETOWN) go to a thread, to a process that is not the program's own, or to a process \
                 group without its leader",
                "let them go to a process of the program",
            )),
        }
    }
}

/// Reports whether the call that makes such a file takes no O_APPEND. It means nothing there, and can be set later.
fn is_never_made_to_append(kind: &OpenFileKind) -> bool {
    use OpenFileKind::{EventCounter, Master, Process, Signals, Thread, Timer};
    matches!(kind, EventCounter { .. } | Master { .. } | Process { .. } | Signals { .. } | Thread { .. } | Timer { .. })
}

impl Opening<'_> {
    /// Sets again who gets signals from open files, re-enables those that were enabled, and sets other flags that a file
    /// is not made with.
    pub(super) fn restore_signal_owners(&self) -> Result<(), EngineError> {
        for (place, file) in self.plan.job.open_files.iter().enumerate() {
            let Some(number) = self.number_of(place) else { continue };
            if let Some(target) = file.signal_target {
                self.restore_signal_owner(number, target)?;
            } else if let Some(signal) = file.signal {
                self.choose_signal(number, signal)?;
            }
            // Opening a file does not enable its signals, whatever the flags are.
            if file.flags & O_ASYNC != 0 || file.flags & O_APPEND != 0 && is_never_made_to_append(&file.kind) {
                self.set_flags(number, file.flags)?;
            }
        }
        Ok(())
    }

    fn restore_signal_owner(&self, number: u64, target: SignalTarget) -> Result<(), EngineError> {
        let process = self.plan.job.processes.get(target.process as usize);
        let is_itself = process.is_some_and(|process| std::ptr::eq(process, self.plan.process));
        let pid = match process {
            Some(process) if !is_itself => process.pid,
            _ => self.call("asking for the process id", abi::SYS_getpid, [0; 6])? as i32,
        };
        let kind = match (target.main_thread, target.group) {
            (_, Some(true)) => GROUP,
            (true, _) => THREAD,
            (false, _) => PROCESS,
        };
        let owner = self.process.argument([kind, pid].map(i32::to_le_bytes).as_flattened())?;
        let arguments = [number, F_SETOWN_EX, owner, 0, 0, 0];
        self.call("setting the receiver of a file's signals", abi::SYS_fcntl, arguments)?;
        self.choose_signal(number, target.signal)
    }

    fn choose_signal(&self, number: u64, signal: i32) -> Result<(), EngineError> {
        let arguments = [number, F_SETSIG, signal as u64, 0, 0, 0];
        self.call("choosing the signal that tells of events", abi::SYS_fcntl, arguments).map(drop)
    }
}
