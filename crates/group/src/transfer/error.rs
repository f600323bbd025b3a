//! Why a transfer cannot go on.

use super::PartError;
use crate::message::Node;
use crate::shard::Damaged;

/// Why a part cannot be taken. It comes from a process with another plan, or was made by a fault: the epoch fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// It fits nothing that is waited for.
    #[error("a part of sum {sum}, piece {piece}, for {to:?} is not waited for")]
    Unexpected {
        /// Which sum.
        sum: u32,
        /// Which piece.
        piece: u32,
        /// For whom.
        to: Node,
    },
    /// Its pages are not pages.
    #[error(transparent)]
    Pages(#[from] PartError),
    /// What came out is not what went in.
    #[error("a page is not the sum of what was added: it was altered on its way, or in the memory of a process")]
    Altered,
    /// A page of this process's own is not what it was.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}
