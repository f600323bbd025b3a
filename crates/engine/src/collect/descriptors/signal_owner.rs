//! Signal-driven I/O: who is told when an open file is ready, or has urgent data (F_SETOWN, O_ASYNC).

use super::{O_ASYNC, O_PATH, Unsupported, Walk};
use crate::RefusalCode;
use standfast_format::records::SignalTarget;
use standfast_linux::sys::descriptors;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

/// As `F_GETOWN_EX` numbers them.
const THREAD: i32 = 0;
const PROCESS: i32 = 1;
const GROUP: i32 = 2;

/// Who is told of events of an open file, and by which signal.
#[derive(Default)]
pub(super) struct SignalOwner {
    /// A process of the job, with its signal.
    pub(super) target: Option<SignalTarget>,
    /// The signal where nobody is told.
    pub(super) signal: Option<i32>,
}

impl Walk<'_> {
    pub(super) fn signal_owner(&self, place: usize) -> Result<SignalOwner, Unsupported> {
        let shown = &self.shown[place];
        let flags = shown.information.flags;
        // A place in the file system tells of nothing.
        if flags & O_PATH != 0 {
            return Ok(SignalOwner::default());
        }
        let own = shown.own(&self.holders)?;
        let signal = descriptors::signal_number(own.as_fd())?;
        let (kind, id) = descriptors::signal_target(own.as_fd())?;
        if id == 0 {
            return Ok(SignalOwner { target: None, signal: Some(signal).filter(|signal| *signal != 0) });
        }
        let process = self.job().iter().position(|holder| holder.pid == id);
        let is_telling = flags & O_ASYNC != 0 || shown.file.file_type().is_socket();
        match process.filter(|_| matches!(kind, THREAD | PROCESS | GROUP)) {
            Some(process) => {
                let (main_thread, group) = (kind == THREAD, (kind == GROUP).then_some(true));
                let target = SignalTarget { process: process as u32, main_thread, signal, group };
                Ok(SignalOwner { target: Some(target), signal: None })
            }
            // It is not the program's, which may have been lent it by whoever is to be told.
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
