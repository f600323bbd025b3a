//! Examines and processes what a job of many processes has on disk and in this node's memory, without the program.

use super::job_name::{job_name, named_job};
use crate::error::Error;
use serde::Serialize;
use standfast_format::manifest::JobId;
use standfast_member::{HeldEpoch, LevelDirectory, held_in_memory, job_named, variables};
use std::path::{Path, PathBuf};

/// Default mount point of this node's memory file system.
const MEMORY: &str = "/dev/shm";

/// Returns the directory of the job's shards on this node: `/dev/shm`, or the value of the variable that the library
/// heeds as well.
pub fn group_memory(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> PathBuf {
    variable(variables::MEMORY).map_or_else(|| MEMORY.into(), PathBuf::from)
}

/// An epoch with at least one shard.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct GroupEpoch {
    /// Number, life, and the beginning of its random number.
    pub epoch: String,
    /// `directory`, or `memory` of this node.
    pub place: &'static str,
    /// `encoded`, or `local` if each shard stands by itself.
    pub level: &'static str,
    /// Logical ranks whose shards are there.
    pub held: Vec<u32>,
    /// Logical ranks whose shards are missing.
    pub missing: Vec<u32>,
    /// Whether the missing shards can be rebuilt from those that are there.
    pub suffices: bool,
    /// Number of shards of any one group that may still be lost.
    pub tolerates: usize,
}

/// A shard that was verified.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct GroupShard {
    /// Its epoch.
    pub epoch: String,
    /// Its logical rank.
    pub logical_rank: u32,
    /// Why the shard cannot be used.
    pub damage: Option<String>,
}

/// Lists the epochs of a job in its directory and in this node's memory.
///
/// # Errors
/// [`Error::Group`]
pub fn group_status(directory: &Path, memory: &Path) -> Result<Vec<GroupEpoch>, Error> {
    let mut epochs = Vec::new();
    // Check the owner before anything is read.
    let name = job_name(directory)?;
    for held in LevelDirectory::new(directory).epochs()? {
        epochs.push(report(&held, "directory")?);
    }
    if let Some(name) = name {
        for held in held_in_memory(memory, job_named(name.as_bytes()))? {
            epochs.push(report(&held, "memory")?);
        }
    }
    Ok(epochs)
}

fn report(held: &HeldEpoch, place: &'static str) -> Result<GroupEpoch, Error> {
    let tolerates = held.tolerates()?;
    Ok(GroupEpoch {
        epoch: held.epoch.to_string(),
        place,
        level: if held.is_local() { "local" } else { "encoded" },
        held: held.logical_ranks.keys().map(|logical_rank| logical_rank.0).collect(),
        missing: held.missing().iter().map(|logical_rank| logical_rank.0).collect(),
        suffices: tolerates.is_some(),
        tolerates: tolerates.unwrap_or(0),
    })
}

/// Verifies every page of every shard in a directory.
///
/// # Errors
/// [`Error::Group`]
pub fn group_verify(directory: &Path) -> Result<Vec<GroupShard>, Error> {
    let mut shards = Vec::new();
    job_name(directory)?;
    for held in LevelDirectory::new(directory).epochs()? {
        for (logical_rank, damage) in held.verify() {
            shards.push(GroupShard { epoch: held.epoch.to_string(), logical_rank: logical_rank.0, damage });
        }
    }
    Ok(shards)
}

/// Shards that were rebuilt.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct GroupRebuilt {
    /// Their epoch.
    pub epoch: String,
    /// Logical ranks of the shards.
    pub logical_ranks: Vec<u32>,
}

/// Rebuilds the shards that the newest epoch of a directory lacks.
///
/// # Errors
/// [`Error::Group`]
pub fn group_rebuild(directory: &Path) -> Result<GroupRebuilt, Error> {
    job_name(directory)?;
    let rebuilt = standfast_member::rebuild(directory)?;
    Ok(GroupRebuilt {
        epoch: rebuilt.epoch.to_string(),
        logical_ranks: rebuilt.logical_ranks.iter().map(|logical_rank| logical_rank.0).collect(),
    })
}

/// Shards that were saved from a node's memory.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct GroupSaved {
    /// Epochs and logical ranks of the shards that are in the directory now.
    pub shards: Vec<(String, u32)>,
    /// What could not be saved, and why.
    pub lost: Vec<String>,
}

/// Copies what a directory's job has in this node's memory into the directory. Its processes must have ended.
///
/// # Errors
/// [`Error::Group`], and if the directory names no job.
pub fn group_salvage(directory: &Path, memory: &Path) -> Result<GroupSaved, Error> {
    save(directory, memory, job_named(named_job(directory)?.as_bytes()))
}

pub(super) fn save(directory: &Path, memory: &Path, job: JobId) -> Result<GroupSaved, Error> {
    let salvaged = standfast_member::salvage(memory, job, directory)?;
    Ok(GroupSaved {
        shards: salvaged.shards.iter().map(|(epoch, logical_rank)| (epoch.to_string(), logical_rank.0)).collect(),
        lost: salvaged
            .lost
            .iter()
            .map(|(logical_rank, reason)| format!("logical rank {}: {reason}", logical_rank.0))
            .collect(),
    })
}
