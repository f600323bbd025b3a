//! Why a member cannot continue. Each error says what is wrong and, if there is one, the remedy.

use crate::transport::TransportError;
use standfast_group::{Damaged, LoadError, Refusal, SlotError};
use std::path::{Path, PathBuf};

/// An error of a member.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The transport has failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A file or directory operation failed.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file has unexpected content.
    #[error("{path} cannot be used: {reason}")]
    Unusable {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The processes do not agree, or cannot form a group.
    #[error("{0}")]
    Disagreement(String),
    /// Recovery is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// This process cannot store what it must keep.
    #[error("this process cannot continue: {0}")]
    Leave(String),
    /// A region cannot be registered or used.
    #[error("region {id}: {reason}")]
    Region {
        /// The number of the region.
        id: u64,
        /// What is wrong.
        reason: String,
    },
    /// No free slots are left.
    #[error(transparent)]
    Slots(#[from] SlotError),
    /// A page to be copied is not what was written.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The shard to be restored is not what it was. The memory holds part of it: the job must end.
    #[error("the state cannot be restored, end the job: {0}")]
    Load(#[from] LoadError),
}

impl MemberError {
    /// Reports whether the other processes do not know of the error, and would wait for this one.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Leave(_) | Self::File { .. } | Self::Unusable { .. } | Self::Damaged(_))
    }

    /// Wraps an error of the file system with its path.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// Creates an error for an unusable file.
    pub(crate) fn unusable(path: &Path, reason: impl Into<String>) -> Self {
        Self::Unusable { path: path.to_owned(), reason: reason.into() }
    }
}
