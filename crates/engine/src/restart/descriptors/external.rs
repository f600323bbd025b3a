//! External endpoints: a descriptor of the restart's own takes their place, or what is left when the other side is gone.

use super::{O_ACCMODE, O_NONBLOCK, O_WRONLY, Opening};
use crate::EngineError;

const AF_UNIX: u64 = libc::AF_UNIX as u64;
const SOCK_STREAM: u64 = libc::SOCK_STREAM as u64;

impl Opening<'_> {
    /// The restart's own descriptor of this number, which the new process has inherited.
    pub(super) fn take_over(&self, number: i32, flags: u32) -> Result<u64, EngineError> {
        let own = number as u64;
        // The terminal or pipe is shared with others: it is made non-blocking only if the program had it so.
        if flags & O_NONBLOCK != 0 {
            self.set_flags(own, flags)?;
        }
        Ok(own)
    }

    /// One end of a pipe or socket pair whose other end is closed.
    pub(super) fn make_widow(&self, socket: bool, flags: u32) -> Result<u64, EngineError> {
        let into = self.process.scratch;
        if socket {
            self.call("making a socket", libc::SYS_socketpair, [AF_UNIX, SOCK_STREAM, 0, into, 0, 0])?;
        } else {
            self.call("making a pipe", libc::SYS_pipe2, [into, 0, 0, 0, 0, 0])?;
        }
        let [first, second] = self.two_descriptors()?;
        let (kept, closed) = if flags & O_ACCMODE == O_WRONLY { (second, first) } else { (first, second) };
        self.close(closed)?;
        self.set_flags(kept, flags & O_NONBLOCK)?;
        Ok(kept)
    }
}
