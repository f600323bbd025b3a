//! Connections that were being made. They are asked for again last of all, when the job has been compared with its image and its
//! files are right: from then on the other side may answer, or refuse, at any moment.

use super::connect::any_port;
use super::{describe, options};
use crate::EngineError;
use crate::error::kernel;
use standfast_format::records::Bytes;
use standfast_linux::abi;
use standfast_linux::sys::{descriptors, socket};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// A socket whose connection was being made.
#[derive(Debug)]
pub(crate) struct Connecting {
    pub(super) own: OwnedFd,
    /// Its address, which the kernel may have chosen.
    pub(super) name: Bytes,
    pub(super) peer: Bytes,
}

impl Connecting {
    /// Asks the other side, without waiting for its answer. A call of the program that waits for it goes on waiting.
    pub(crate) fn connect(&self) -> Result<(), EngineError> {
        let peer = describe(&self.peer);
        let connecting = |source| kernel(&format!("connecting a socket to {peer} again"), source);
        self.bind().map_err(connecting)?;
        let waits = descriptors::set_waiting(self.own.as_fd(), false).map_err(connecting)?;
        let asked = socket::connect(self.own.as_fd(), &self.peer.0);
        descriptors::set_waiting(self.own.as_fd(), waits).map_err(connecting)?;
        match asked {
            Err(error) if error.raw_os_error() == Some(abi::EINPROGRESS) => Ok(()),
            asked => asked.map_err(connecting),
        }
    }

    /// Gives the socket its address again. If something else has its port by now, another one does as well: the other side has
    /// not heard of this one.
    fn bind(&self) -> io::Result<()> {
        let (own, name) = (self.own.as_fd(), &self.name.0);
        let bind_elsewhere = |own: BorrowedFd<'_>| socket::bind(own, &any_port(name));
        match socket::bind(own, name) {
            Err(error) if error.raw_os_error() == Some(abi::EADDRINUSE) => {
                // A connection of the previous life may linger there. The kernel then takes the port if it chooses it itself.
                options::choose_port(own, u16::from_be_bytes([name[2], name[3]]));
                bind_elsewhere(own)
            }
            bound => bound,
        }
    }
}
