//! Errors of commands on other nodes.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a command on another node could not be started or followed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// A file of the job cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read the file with the secret.
    #[error("{}: other users can read the job's secret\nhint: remove it and start the job again", .0.display())]
    Exposed(PathBuf),
    /// The list of nodes has a line that cannot be read.
    #[error("{}: {line:?} is not a node and its address", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// The job has no such node.
    #[error("{node} is not a node of the job; its nodes: {nodes}")]
    Unknown {
        /// The name that was asked for.
        node: String,
        /// The names of the nodes.
        nodes: String,
    },
    /// The node does not answer.
    #[error("{node} does not answer at {address}: {source}")]
    Unreachable {
        /// The node.
        node: String,
        /// Where its server is.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The other end does not know the job's secret, or speaks another language.
    #[error("whoever answers does not belong to this job: {0}")]
    Stranger(&'static str),
    /// The other end refused the command.
    #[error("the command was refused: {0}")]
    Refused(String),
    /// The connection ended before the command.
    #[error("the connection ended before the command")]
    Lost,
    /// The system refused something.
    #[error("{action}: {source}")]
    System {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Names what failed.
pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> RemoteError {
    move |source| RemoteError::System { action, source }
}
