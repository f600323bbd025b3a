//! Why a transfer cannot continue.

use super::PartError;
use crate::message::Node;
use crate::shard::Damaged;

/// Why a part is rejected. It comes from a process with another plan, or was made by a fault: the epoch fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// No part with these numbers is expected.
    #[error("a part of sum {sum}, piece {piece}, for {to:?} is not waited for")]
    Unexpected {
        /// The sum.
        sum: u32,
        /// The piece.
        piece: u32,
        /// The receiving node.
        to: Node,
    },
    /// Its bytes are not valid pages.
    #[error(transparent)]
    Pages(#[from] PartError),
    /// The result does not have the syndrome of its shares.
    #[error("a page is not the sum of what was added: it was altered on its way, or in the memory of a process")]
    Altered,
    /// A page of this process itself is damaged.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}
