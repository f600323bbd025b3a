//! Errors of the store, sorted by what a caller can do about them.

use crate::foreign_link::ForeignLink;
use crate::holder::Holder;
use standfast_core::cause;
use standfast_format::image::ImageError;
use standfast_format::manifest::{GenerationNumber, ManifestError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The reason why the store failed. None of these errors damages a generation that was good before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory does not exist.
    #[error("there is no directory {path}\nhint: start a job in it: standfast run -d {path} PROGRAM", path = .0.display())]
    NoDirectory(PathBuf),
    /// The directory holds no job.
    #[error("{path} holds no job\nhint: start one in it: standfast run -d {path} PROGRAM", path = .0.display())]
    NoJob(PathBuf),
    /// The job has no checkpoint yet.
    #[error("the job in {} has no checkpoint yet\nhint: start it from the beginning: standfast run --fresh", .0.display())]
    NoCheckpoint(PathBuf),
    /// There are checkpoints, but none of them is good.
    #[error("no checkpoint in {} can be used: {}", .directory.display(), list_skipped(.skipped))]
    NoneGood {
        /// The directory.
        directory: PathBuf,
        /// All generations that were tried, newest first.
        skipped: Vec<Skipped>,
    },
    /// The requested generation does not exist.
    #[error("there is no checkpoint {number} in {path}\nhint: see which there are: standfast list {path}", path = .directory.display())]
    NoSuchGeneration {
        /// The directory.
        directory: PathBuf,
        /// The requested generation.
        number: GenerationNumber,
    },
    /// Another user owns it or can write to it, so its content cannot be trusted.
    #[error("{} is not safe to use: {fault}\nhint: {hint}", .path.display())]
    Untrusted {
        /// Directory or file.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
        /// What the user can do.
        hint: String,
    },
    /// The content of an image differs from what was written.
    #[error("{}: {source}", .path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ImageError,
    },
    /// A file that Standfast did not write occupies the name of a checkpoint.
    #[error("{} has the name of a checkpoint and is not one\nhint: move it away, or choose another directory with -d", .0.display())]
    NotAnImage(PathBuf),
    /// An image is intact, but is not the one that the manifest names.
    #[error("{} is not the image that the manifest names: it was replaced or belongs to another job", .0.display())]
    WrongImage(PathBuf),
    /// An older generation from which this one inherits is not good.
    #[error("it is based on checkpoint {number}: {source}")]
    Link {
        /// The older generation.
        number: GenerationNumber,
        /// What is wrong with it.
        source: Box<StoreError>,
    },
    /// This process failed to read the generation before.
    #[error("it was found damaged before")]
    FoundBad {
        /// Whether the cause was damage.
        is_damage: bool,
    },
    /// The content of the manifest differs from what was written.
    #[error("{}: {source}", .path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ManifestError,
    },
    /// There is no room for a new checkpoint.
    #[error("no space left for {}; the previous checkpoint is kept\nhint: free some space, or choose another directory with -d", .0.display())]
    NoSpace(PathBuf),
    /// The disk or the file system refused.
    #[error("cannot {action} {}: {source}\nhint: {hint}", .path.display())]
    StorageBackend {
        /// The attempted action: `write`.
        action: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
        /// What the user can do.
        hint: &'static str,
    },
    /// A live supervisor holds the job.
    #[error("the job is already supervised by process {} on {}", .0.supervisor.pid, .0.host)]
    Supervised(Holder),
    /// The supervisor is gone, but the program still runs: a second life would write the same files.
    #[error(
        "the program still runs as process {pid}, although its supervisor is gone\nhint: save it once more with standfast checkpoint, or end it: kill {pid}"
    )]
    ProgramStillRuns {
        /// The program.
        pid: i32,
    },
    /// Both the supervisor and the program are gone.
    #[error("the program has ended")]
    NothingToAdopt,
    /// The lease belongs to a machine or container that is not visible from here.
    #[error(
        "the job was last supervised on {}; no heartbeat for {} s\nhint: if you are sure that it no longer runs there, use --force",
        .holder.host, .silent.as_secs()
    )]
    HeldElsewhere {
        /// The holder of the lease.
        holder: Holder,
        /// Time since the last heartbeat.
        silent: Duration,
    },
    /// The lease was taken in another boot, on this machine or on one of the same name. Its holder may be alive there.
    #[error(
        "the job is supervised on another machine that is also named {}: its heartbeat continues\nhint: stop it there; if you are sure that it no longer runs, use --force",
        .0.host
    )]
    HeldByNamesake(Holder),
    /// The lease cannot be read, so its holder is unknown.
    #[error("cannot read the lease {}: its contents are not those of a lease\nhint: if you are sure that the job runs nowhere, use --force", .0.display())]
    LeaseUnreadable(PathBuf),
    /// Another process has taken the job over by force: this one must no longer write.
    #[error("another process has taken over the lease on {}: this one writes no further checkpoints", .0.display())]
    LeaseLost(PathBuf),
    /// This process is already writing another checkpoint of the same job.
    #[error("a checkpoint of this job is already being written\nhint: wait until it is complete")]
    Busy,
    /// The sink failed and reported the reason earlier.
    #[error("writing this checkpoint was abandoned after an earlier error")]
    Abandoned,
}

/// A generation that was skipped.
#[derive(Debug)]
pub struct Skipped {
    /// Its number.
    pub number: GenerationNumber,
    /// The reason.
    pub reason: Box<StoreError>,
}

/// Formats skipped generations as part of a sentence.
fn list_skipped(skipped: &[Skipped]) -> String {
    if skipped.is_empty() {
        return "there is no other checkpoint".into();
    }
    let each = skipped.iter().map(|it| format!("checkpoint {}: {}", it.number, cause(&it.reason.to_string())));
    each.collect::<Vec<_>>().join("; ")
}

impl StoreError {
    /// Reports whether an image is permanently damaged: its content is not what was written and never will be. A disk
    /// that is currently unreadable does not count, nor does a file that others can write.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Image { .. } | Self::WrongImage(_) => true,
            Self::Link { source, .. } => source.is_damage(),
            Self::FoundBad { is_damage } => *is_damage,
            Self::StorageBackend { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Returns the error for a path on which another user's symbolic link was found.
    fn led_astray(path: &Path, source: &io::Error) -> Option<Self> {
        let link = source.get_ref()?.downcast_ref::<ForeignLink>()?;
        Some(Self::Untrusted {
            path: path.to_owned(),
            fault: link.to_string(),
            hint: "if that is where you want to go, name the directory that it leads to".into(),
        })
    }

    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        if let Some(astray) = Self::led_astray(path, &source) {
            return astray;
        }
        let hint = match source.kind() {
            io::ErrorKind::NotFound => "the file is missing; see whether it was removed by hand",
            io::ErrorKind::PermissionDenied => "run this as the owner of the directory",
            io::ErrorKind::UnexpectedEof => "the file is shorter than it was written; restore it from a copy",
            _ => "check the disk",
        };
        Self::StorageBackend { action: "read", path: path.to_owned(), source, hint }
    }

    pub(crate) fn writing(path: &Path, source: io::Error) -> Self {
        if let Some(astray) = Self::led_astray(path, &source) {
            return astray;
        }
        let hint = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => return Self::NoSpace(path.to_owned()),
            io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only: choose another directory with -d",
            io::ErrorKind::PermissionDenied => "check the permissions of the directory",
            io::ErrorKind::FileTooLarge => "raise the limit on file sizes (`ulimit -f`) or use another file system",
            io::ErrorKind::NotFound => "see whether the directory was removed by hand",
            // It came from a thread that was to write.
            io::ErrorKind::WouldBlock => "allow more threads: ulimit -u, or pids.max of the control group",
            _ => "check the disk; the previous checkpoint is kept",
        };
        Self::StorageBackend { action: "write", path: path.to_owned(), source, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a change, run `INSTA_UPDATE=always cargo test -p standfast-store`, then read the difference.
    #[test]
    fn error_texts_match_the_reviewed_snapshot() {
        let path = || PathBuf::from("/work/heat.standfast");
        let number = GenerationNumber::new(7).expect("it is above 0");
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let skipped = || vec![Skipped { number, reason: Box::new(StoreError::WrongImage(path())) }];
        let errors = [
            StoreError::NoDirectory(path()),
            StoreError::NoJob(path()),
            StoreError::NoCheckpoint(path()),
            StoreError::NoneGood { directory: path(), skipped: skipped() },
            StoreError::NoSuchGeneration { directory: path(), number },
            StoreError::Untrusted { path: path(), fault: "others may write it".into(), hint: "chmod go-w it".into() },
            StoreError::NotAnImage(path()),
            StoreError::WrongImage(path()),
            StoreError::Link { number, source: Box::new(StoreError::WrongImage(path())) },
            StoreError::FoundBad { is_damage: true },
            StoreError::writing(&path(), full()),
            StoreError::writing(&path(), io::Error::from_raw_os_error(5)),
            StoreError::reading(&path(), io::Error::from_raw_os_error(13)),
            StoreError::ProgramStillRuns { pid: 7 },
            StoreError::NothingToAdopt,
            StoreError::LeaseUnreadable(path()),
            StoreError::LeaseLost(path()),
            StoreError::Busy,
            StoreError::Abandoned,
        ];
        insta::assert_snapshot!(errors.map(|error| error.to_string()).join("\n\n"));
    }
}
