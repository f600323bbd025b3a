//! The control socket, through which `checkpoint DIR` and `status DIR` talk to the supervisor of a job.
//!
//! It is a Unix socket named `control` in the job's directory, which only its owner may enter. The peer's user is
//! checked all the same.

mod client;
mod place;
mod protocol;
mod server;

use crate::event::{JobEvent, Listener};
use crate::quoting::InWords;
pub(crate) use client::{ControlError, ask, converse};
pub(crate) use protocol::{Reply, Request, decode};
pub(crate) use server::{ClientId, ControlSocket};

pub(crate) use place::{SocketPlace, is_trusted};
use std::path::Path;

/// Name of the socket in the job's directory.
pub(crate) const SOCKET_NAME: &str = "control";

/// Opens the control socket. If the file system has no sockets, the program is protected without one.
pub(crate) fn bind_control(directory: &Path, listener: &mut Listener<'_>) -> Option<ControlSocket> {
    ControlSocket::bind(directory)
        .map_err(|error| {
            let reason = format!(
                "standfast checkpoint and standfast status cannot reach this supervisor, because its directory takes no socket: {}",
                InWords(&error)
            );
            listener(&JobEvent::Trouble { reason });
        })
        .ok()
}
