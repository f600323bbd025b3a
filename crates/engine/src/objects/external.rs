//! External endpoints: open files that lead out of the job and were given to it at its start. The record names the
//! descriptor of the restart that takes over, not what the endpoint holds. If the other side of one is gone, a restart
//! brings back what is left of it.

use super::shown::Shown;
use super::{Kind, Known, O_ACCMODE, O_NONBLOCK, O_WRONLY, Opening, Recorded, Walk, nothing};
use crate::EngineError;
use standfast_format::records::{Bytes, OpenFileKind, StandardStream};
use standfast_linux::abi;
use std::os::unix::fs::FileTypeExt;

const AF_UNIX: u64 = abi::AF_UNIX as u64;
const SOCK_STREAM: u64 = abi::SOCK_STREAM as u64;

pub(super) const KIND: Kind = Kind { collect, check: nothing, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    walk.external(&walk.shown[place]).map(Ok)
}

/// Makes an endpoint whose other side is gone. For all others, a descriptor of the restart's own is planned.
fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Inherited { was, .. } = recorded.kind else { return None };
    Some(opening.make_peer_closed_end(was.0.starts_with(b"socket:"), recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    match kind {
        OpenFileKind::Stream { stream, was } => {
            let name = match stream {
                StandardStream::Input => "input",
                StandardStream::Output => "output",
                StandardStream::Error => "error",
            };
            Some(format!("standard {name} ({was})"))
        }
        OpenFileKind::Inherited { number, was } => Some(format!("inherited as descriptor {number} ({was})")),
        _ => None,
    }
}

impl Walk<'_> {
    pub(super) fn external(&self, shown: &Shown) -> Option<OpenFileKind> {
        let was = || Bytes::from(shown.target.as_slice());
        if let Some(stream) = self.stream(shown) {
            return Some(OpenFileKind::Stream { stream, was: was() });
        }
        self.inherited(shown).map(|number| OpenFileKind::Inherited { number, was: was() })
    }

    /// Returns which standard stream of this life it is, unless it is a file. Devices that mean the same everywhere are
    /// opened by path.
    fn stream(&self, shown: &Shown) -> Option<StandardStream> {
        if shown.is_common_device() {
            return None;
        }
        let streams = [StandardStream::Input, StandardStream::Output, StandardStream::Error];
        let is = |number: usize| self.inheritance.streams[number] == Some(shown.identity());
        let by_number = usize::try_from(shown.number).ok().filter(|number| *number < 3 && is(*number));
        by_number.or_else(|| (0..3).find(|number| is(*number))).map(|number| streams[number])
    }

    /// Returns the number of a pipe or socket that the life was started with.
    fn inherited(&self, shown: &Shown) -> Option<i32> {
        let connects = shown.file.file_type().is_fifo() || shown.file.file_type().is_socket();
        let given = self.inheritance.others.iter().find(|(_, identity)| connects && *identity == shown.identity());
        given.map(|(number, _)| *number)
    }
}

impl Opening<'_> {
    /// Returns the restart's own descriptor of this number, which the new process has inherited.
    pub(super) fn take_over(&self, number: i32, flags: u32) -> Result<u64, EngineError> {
        let own = number as u64;
        // Others share the terminal or pipe: it becomes non-blocking only if the program had it so.
        if flags & O_NONBLOCK != 0 {
            self.set_flags(own, flags)?;
        }
        Ok(own)
    }

    /// Makes one end of a pipe or socket pair whose other end is closed.
    fn make_peer_closed_end(&self, socket: bool, flags: u32) -> Result<u64, EngineError> {
        let into = self.process.scratch;
        if socket {
            self.call("making a socket", abi::SYS_socketpair, [AF_UNIX, SOCK_STREAM, 0, into, 0, 0])?;
        } else {
            self.call("making a pipe", abi::SYS_pipe2, [into, 0, 0, 0, 0, 0])?;
        }
        let [first, second] = self.two_descriptors()?;
        let (kept, closed) = if flags & O_ACCMODE == O_WRONLY { (second, first) } else { (first, second) };
        self.close(closed)?;
        self.set_flags(kept, flags & O_NONBLOCK)?;
        Ok(kept)
    }
}
