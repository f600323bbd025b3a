//! The client: has a command executed on another node, and passes its streams on until it has ended.

use crate::error::system;
use crate::greeting::greet;
use crate::message::{Purpose, RemoteMessage, StreamKind};
use crate::relay::{Relay, await_any};
use crate::{NodeList, RemoteError, Secret};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A command for another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteCommand {
    /// The node's name.
    pub node: String,
    /// A line for its shell.
    pub line: Vec<u8>,
}

/// Executes a command on another node; its input comes from the first of `streams`, its output and its errors go to the
/// others. Returns its status when it has ended, in the form of wait(2).
///
/// # Errors
/// When the node cannot be reached or refuses the command, or the connection ends before the command.
pub fn run(
    command: &RemoteCommand,
    nodes: &NodeList,
    secret: &Secret,
    streams: [OwnedFd; 3],
) -> Result<i32, RemoteError> {
    let address = nodes.address(&command.node)?;
    let connection = |port: u16, purpose: &Purpose| {
        let address = SocketAddr::new(address.ip(), port);
        let unreachable = |source| RemoteError::Unreachable { node: command.node.clone(), address, source };
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_MAX).map_err(unreachable)?;
        greet(&mut stream, secret, purpose)?;
        Ok(stream)
    };
    let mut control = connection(address.port(), &Purpose::Command { line: command.line.clone() })?;
    let (port, ticket) = match RemoteMessage::receive(&mut control)? {
        RemoteMessage::Streams { port, ticket } => (port, ticket),
        RemoteMessage::Refused { reason } => return Err(RemoteError::Refused(reason)),
        _ => return Err(RemoteError::Stranger("it did not open the streams")),
    };
    let stream = |kind| connection(port, &Purpose::Stream { ticket, kind }).map(OwnedFd::from);
    let [input, output, errors] = streams;
    let mut relays = [
        Relay::new(input, stream(StreamKind::Input)?)?,
        Relay::to_shared(stream(StreamKind::Output)?, output),
        Relay::to_shared(stream(StreamKind::Errors)?, errors),
    ];
    follow(&mut control, &mut relays)
}

/// Relays the streams until the command has ended and its output has been passed on.
fn follow(control: &mut TcpStream, relays: &mut [Relay; 3]) -> Result<i32, RemoteError> {
    let mut ended = None;
    loop {
        if let Some(status) = ended
            && relays[1..].iter().all(Relay::is_done)
        {
            return Ok(status);
        }
        let [is_told] = await_any(relays, [ended.is_none().then_some(control.as_fd())])?;
        if is_told {
            ended = match RemoteMessage::receive(control)? {
                RemoteMessage::Ended { status } => Some(status),
                RemoteMessage::Refused { reason } => return Err(RemoteError::Refused(reason)),
                _ => return Err(RemoteError::Stranger("it did not say how the command ended")),
            };
        }
    }
}

/// Returns copies of this process's own streams.
///
/// # Errors
/// When there are no descriptors left.
pub fn own_streams() -> Result<[OwnedFd; 3], RemoteError> {
    let copied = system("copying the standard streams");
    let copies = || {
        Ok([
            std::io::stdin().as_fd().try_clone_to_owned()?,
            std::io::stdout().as_fd().try_clone_to_owned()?,
            std::io::stderr().as_fd().try_clone_to_owned()?,
        ])
    };
    copies().map_err(copied)
}
