//! Commands on other nodes: what ssh(1) does for the launcher of a parallel program, by processes that all belong to the
//! job. So the connections between them are connections of the job as well, and a checkpoint of the whole job has both of
//! their ends.
//!
//! ```text
//!  a node: launcher                          another node: server, one for each node
//!             | starts                                        | starts for each client
//!          client =========== control connection ========== shim
//!             |    ---- connections for stdin, stdout, stderr ----    |
//!                                                             | pipes, wait(2)
//!                                                           command
//! ```
//!
//! Each connection begins with a greeting (`greeting.rs`), in which both ends prove that they know the job's secret. After
//! it, nothing is encrypted.
#![forbid(unsafe_code)]

mod client;
mod error;
mod greeting;
mod message;
mod node_list;
mod relay;
mod secret;
mod server;
mod shim;

pub use client::{RemoteCommand, own_streams, run};
pub use error::RemoteError;
pub use message::RemoteMessage;
pub use node_list::NodeList;
pub use secret::Secret;
pub use server::serve;
pub use shim::answer;

#[cfg(test)]
mod tests;
