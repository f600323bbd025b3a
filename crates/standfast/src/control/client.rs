//! The client side of the control socket.

use super::protocol::{LINE_BYTES_MAX, ProtocolError, Reply, Request, decode, encode};
use super::{SOCKET_NAME, SocketPlace, is_trusted};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest wait for the answer to a request that needs no checkpoint.
const ANSWER_SECONDS_MAX: u64 = 10;

/// Why a supervisor did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// There is no supervisor.
    #[error("no supervisor listens")]
    Nobody,
    /// A process of another user listens there.
    #[error("the control socket belongs to another user")]
    Untrusted,
    /// It closed the connection or stayed silent.
    #[error("the supervisor did not answer: {0}")]
    Silent(#[source] io::Error),
    /// Its answer is not of the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// Connects to the supervisor of the job in `directory` for a conversation that begins with a request.
pub(crate) fn converse(directory: &Path, request: Request) -> Result<UnixStream, ControlError> {
    let place = SocketPlace::open(directory, SOCKET_NAME).map_err(|_| ControlError::Nobody)?;
    let mut stream = place.connect().map_err(|_| ControlError::Nobody)?;
    if !is_trusted(&stream).map_err(ControlError::Silent)? {
        return Err(ControlError::Untrusted);
    }
    stream.write_all(&encode(request)).map_err(ControlError::Silent)?;
    Ok(stream)
}

/// Sends a request to the supervisor of the job in `directory`. Waits without limit for requests that write to the
/// disk.
pub(crate) fn ask(directory: &Path, request: Request) -> Result<Reply, ControlError> {
    let place = SocketPlace::open(directory, SOCKET_NAME).map_err(|_| ControlError::Nobody)?;
    let mut stream = place.connect().map_err(|_| ControlError::Nobody)?;
    if !is_trusted(&stream).map_err(ControlError::Silent)? {
        return Err(ControlError::Untrusted);
    }
    let patience = match request {
        Request::Checkpoint { .. } | Request::Cut(_) | Request::Coalesce | Request::End { .. } => None,
        Request::Status | Request::Here { .. } | Request::Enabled => Some(Duration::from_secs(ANSWER_SECONDS_MAX)),
    };
    let line = exchange(&mut stream, request, patience).map_err(ControlError::Silent)?;
    Ok(decode(&line)?)
}

fn exchange(stream: &mut UnixStream, request: Request, patience: Option<Duration>) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(patience)?;
    stream.write_all(&encode(request))?;
    let mut line = Vec::new();
    let limit = LINE_BYTES_MAX as u64 + 1;
    stream.take(limit).read_to_end(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended before answering"));
    }
    Ok(line)
}
