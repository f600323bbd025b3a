//! Saving from a node's memory what processes that have ended left there: without messages, without the program.

use super::LevelDirectory;
use crate::error::MemberError;
use crate::memory_place;
use crate::shard_store::FileShardStore;
use standfast_format::manifest::JobId;
use standfast_group::{EpochId, EpochLevel, LogicalRank, ShardId};
use std::path::Path;

/// What has been saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Shards that are in the directory now.
    pub shards: Vec<(EpochId, LogicalRank)>,
    /// Logical ranks of which not all could be saved, and why.
    pub lost: Vec<(LogicalRank, String)>,
}

/// Copies what a job has in this node's memory to a directory: of each logical rank the newest encoded shard with the local one
/// upon it, and the encoded one before as long as nobody here knows that all have sealed the newest.
///
/// # Errors
/// Those of the file system; where it is another job's directory, or its processes still run.
pub fn salvage(memory: &Path, job: JobId, directory: &Path) -> Result<Salvaged, MemberError> {
    let directory = LevelDirectory::new(directory);
    directory.epochs_of(job)?;
    let mut salvaged = Salvaged { shards: Vec::new(), lost: Vec::new() };
    let held = memory_place::find(memory, job)?;
    for path in held.map_or(Ok(Vec::new()), |held| super::folders(&held, super::is_logical_rank_name))? {
        let Ok(shard_store) = FileShardStore::open_found(&path) else { continue };
        let sealed = shard_store.sealed();
        let newest_known =
            sealed.iter().rposition(|it| it.acknowledged && it.level == EpochLevel::Encoded).unwrap_or(0);
        let shards =
            sealed[newest_known..].iter().map(|held| ShardId { epoch: held.epoch, logical_rank: held.logical_rank });
        // Pages that are damaged make their shard as good as lost.
        for id in shards.filter(|id| shard_store.is_good(*id)) {
            match directory.keep(&shard_store.copy(id)) {
                Ok(()) => salvaged.shards.push((id.epoch, id.logical_rank)),
                Err(error) => salvaged.lost.push((id.logical_rank, error.to_string())),
            }
        }
    }
    directory.prune()?;
    Ok(salvaged)
}
