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
    #[error("cannot use {path}: {source}")]
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
    #[error("region {id} cannot be used: {reason}")]
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
    #[error("the state cannot be restored: {0}\nhint: end the job, since this process holds only a part of the state")]
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

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::manifest::JobId;
    use standfast_group::{EpochId, Life, LogicalRank, Place, RegionId, ShardId};

    /// After a change: `INSTA_UPDATE=always cargo test -p standfast-member`, then read the difference.
    #[test]
    fn error_texts_match_the_reviewed_snapshot() {
        let path = Path::new("/dev/shm/standfast/0");
        let epoch = EpochId { job: JobId::from_bytes([7; 16]), life: Life(2), number: 5, random: 9 };
        let shard = ShardId { epoch, logical_rank: LogicalRank(3) };
        let damaged = || Damaged { shard, place: Place::Slot(8) };
        let errors = [
            TransportError("MPI_Isend failed".to_owned()).into(),
            MemberError::file(path)(std::io::ErrorKind::StorageFull.into()),
            MemberError::unusable(path, "it is damaged"),
            MemberError::Disagreement("process 1: region 2 cannot be used: it overlaps region 3".to_owned()),
            Refusal::Nothing.into(),
            Refusal::TooMuchLost { epoch, group: 1, missing: vec![LogicalRank(2), LogicalRank(3)] }.into(),
            Refusal::TooFew { members: 4, present: 3 }.into(),
            Refusal::Rejected { epoch, reason: damaged().to_string() }.into(),
            MemberError::Leave("logical rank 3 could not be sealed".to_owned()),
            MemberError::Region { id: 2, reason: "it is not registered".to_owned() },
            SlotError::Full(RegionId(2)).into(),
            SlotError::Senseless("two pages in one slot").into(),
            damaged().into(),
            LoadError::Missing(shard).into(),
            LoadError::Damaged(damaged()).into(),
            LoadError::Different { shard, slot: 8 }.into(),
        ];
        insta::assert_snapshot!(errors.map(|error: MemberError| error.to_string()).join("\n\n"));
    }
}
