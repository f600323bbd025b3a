//! Programs that have a signal tell them when a terminal can be read or written (O_ASYNC). A checkpoint takes the data in flight
//! out and puts it back, and no signal must tell of that.

use super::collect::{FoundTerminal, is_terminal};
use crate::objects::{O_ASYNC, O_PATH, Unsupported, Walk};
use standfast_linux::sys::descriptors::{clear_signal_target, set_signalling, signal_target};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The open files of a terminal that send signals. They send none until this value is dropped.
pub(super) struct Silence {
    files: Vec<SilencedFile>,
    /// Whether one of them is the master.
    pub(super) master: bool,
    /// Whether one of them is a slave.
    pub(super) slave: bool,
}

struct SilencedFile {
    own: OwnedFd,
    has_receiver: bool,
}

impl Walk<'_> {
    /// Silences the open files of a terminal. The job is frozen.
    pub(super) fn silence(&self, at: usize, found: &FoundTerminal) -> Result<Silence, Unsupported> {
        let mut silence = Silence { files: Vec::new(), master: false, slave: false };
        for (place, shown) in self.shown.iter().enumerate() {
            let flags = shown.information.flags;
            if flags & O_ASYNC == 0 || flags & O_PATH != 0 || !is_terminal(shown) {
                continue;
            }
            let own = shown.own(&self.holders)?;
            let is_master = place == found.place;
            if !is_master && self.slave(shown, &own)? != Some(at as u32) {
                continue;
            }
            (silence.master, silence.slave) = (silence.master || is_master, silence.slave || !is_master);
            silence.add(own)?;
        }
        Ok(silence)
    }
}

impl Silence {
    fn add(&mut self, own: OwnedFd) -> io::Result<()> {
        let has_receiver = signal_target(own.as_fd())?.1 != 0;
        set_signalling(own.as_fd(), false)?;
        self.files.push(SilencedFile { own, has_receiver });
        Ok(())
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        for SilencedFile { own, has_receiver } in &self.files {
            // It was on a moment ago, so it can be set. The kernel chooses a receiver if there is none.
            let _ = set_signalling(own.as_fd(), true);
            if !has_receiver {
                let _ = clear_signal_target(own.as_fd());
            }
        }
    }
}
