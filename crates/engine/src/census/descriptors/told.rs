//! Signal-driven I/O: who is told when an open file is ready, or has urgent data (F_SETOWN, O_ASYNC).

use super::{O_ASYNC, O_PATH, Unfit, Walk};
use standfast_format::records::SignalTarget;
use standfast_linux::sys::descriptors;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

/// As `F_GETOWN_EX` numbers them.
const THREAD: i32 = 0;
const PROCESS: i32 = 1;

impl Walk<'_> {
    pub(super) fn told(&self, place: usize) -> Result<Option<SignalTarget>, Unfit> {
        let shown = &self.shown[place];
        let kind = shown.file.file_type();
        let flags = shown.information.flags;
        // Sockets tell of urgent data without O_ASYNC; a place in the file system tells of nothing.
        if flags & O_PATH != 0 || flags & O_ASYNC == 0 && !kind.is_socket() {
            return Ok(None);
        }
        let own = shown.own(&self.holders)?;
        let (kind, id) = descriptors::signal_target(own.as_fd())?;
        if id == 0 {
            return Ok(None);
        }
        let process = self.job().iter().position(|holder| holder.pid == id);
        match process.filter(|_| matches!(kind, THREAD | PROCESS)) {
            Some(process) => Ok(Some(SignalTarget {
                process: process as u32,
                main_thread: kind == THREAD,
                signal: descriptors::signal_number(own.as_fd())?,
            })),
            None => Err(Unfit::with_remedy(
                "its signals (F_SETOWN) go to a process group, a thread or a process that is not the program's own",
                "let them go to a process of the program",
            )),
        }
    }
}
