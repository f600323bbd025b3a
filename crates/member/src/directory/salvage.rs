//! Saves shards that ended processes left in a node's memory: without messages, without the program.

use super::LevelDirectory;
use crate::error::MemberError;
use crate::memory_place;
use crate::shard_store::FileShardStore;
use standfast_format::manifest::JobId;
use standfast_group::{EpochId, EpochLevel, LogicalRank, ShardId};
use std::path::Path;

/// The result of saving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Shards that are now in the directory.
    pub shards: Vec<(EpochId, LogicalRank)>,
    /// Logical ranks whose shards could not all be saved, and the reasons.
    pub lost: Vec<(LogicalRank, String)>,
}

/// Copies a job's shards from this node's memory to a directory: for each logical rank the newest encoded shard and the
/// local one based on it. It also copies the previous encoded shard, unless a process here knows that all have sealed the
/// newest.
///
/// # Errors
/// File system errors; if the directory belongs to another job, or the job's processes still run.
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
        // A shard with damaged pages counts as lost.
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
