//! Why a member cannot go on. Each names what is wrong and, where there is one, the remedy.

use crate::transport::TransportError;
use standfast_group::{Damaged, LoadError, Refusal, SlotError};
use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The transport has failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A file or directory.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Files that hold something else than they should.
    #[error("{path} cannot be used: {reason}")]
    Unusable {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The processes do not agree, or cannot form a group.
    #[error("{0}")]
    Disagreement(String),
    /// Nothing can be recovered.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// This process cannot keep what it must keep.
    #[error("this process cannot continue: {0}")]
    Leave(String),
    /// A region.
    #[error("region {id}: {reason}")]
    Region {
        /// Which.
        id: u64,
        /// What is wrong.
        reason: String,
    },
    /// There are no more slots.
    #[error(transparent)]
    Slots(#[from] SlotError),
    /// A page that was to be copied is not what was written.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The shard that was to be gone back to is not what it was. The memory holds part of it: the job must end.
    #[error("the state cannot be restored, end the job: {0}")]
    Load(#[from] LoadError),
}

impl MemberError {
    /// Whether the other processes know nothing of it, and would wait for this one.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Leave(_) | Self::File { .. } | Self::Unusable { .. } | Self::Damaged(_))
    }

    /// An error of the file system, with its path.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// A file that cannot be used.
    pub(crate) fn unusable(path: &Path, reason: impl Into<String>) -> Self {
        Self::Unusable { path: path.to_owned(), reason: reason.into() }
    }
}
