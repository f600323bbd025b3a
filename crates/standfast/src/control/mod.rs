//! The control socket: how `checkpoint DIR` and `status DIR` talk to the supervisor of a job.
//!
//! A Unix socket named `control` in the job's directory, which only its owner may enter; the other side's user is
//! checked all the same.

mod client;
mod place;
mod protocol;
mod server;

pub(crate) use client::{ControlError, ask};
pub(crate) use protocol::{Reply, Request};
pub(crate) use server::{ClientId, ControlSocket};

pub(crate) use place::{SocketPlace, is_trusted};

/// The socket's name in the job's directory.
pub(crate) const SOCKET_NAME: &str = "control";
