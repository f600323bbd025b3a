//! The control socket: how `checkpoint DIR` and `status DIR` talk to the supervisor of a job.
//!
//! A Unix socket named `control` in the job's directory, which only its owner may enter; the other side's user is
//! checked all the same.

mod client;
mod place;
mod protocol;
mod server;

use crate::event::{JobEvent, Listener};
use crate::quoting::InWords;
pub(crate) use client::{ControlError, ask};
pub(crate) use protocol::{Reply, Request};
pub(crate) use server::{ClientId, ControlSocket};

pub(crate) use place::{SocketPlace, is_trusted};
use std::path::Path;

/// The socket's name in the job's directory.
pub(crate) const SOCKET_NAME: &str = "control";

/// The control socket; where a file system has no sockets, a program is protected without.
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
