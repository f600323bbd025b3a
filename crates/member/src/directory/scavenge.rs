//! Saving from a node's memory what processes that have ended left there: without messages, without the program.

use super::Directory;
use crate::error::MemberError;
use crate::memory_place;
use crate::shelf::FileShelf;
use standfast_format::manifest::JobId;
use standfast_group::{EpochId, Level, PieceId, Seat};
use std::path::Path;

/// What has been saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scavenged {
    /// Pieces that are in the directory now.
    pub pieces: Vec<(EpochId, Seat)>,
    /// Seats of which not all could be saved, and why.
    pub lost: Vec<(Seat, String)>,
}

/// Copies what a job has in this node's memory to a directory: of each seat the newest encoded piece with the local one
/// upon it, and the encoded one before as long as nobody here knows that all have sealed the newest.
///
/// # Errors
/// Those of the file system; where it is another job's directory, or its processes still run.
pub fn scavenge(memory: &Path, job: JobId, directory: &Path) -> Result<Scavenged, MemberError> {
    let directory = Directory::new(directory);
    directory.epochs_of(job)?;
    let mut scavenged = Scavenged { pieces: Vec::new(), lost: Vec::new() };
    let held = memory_place::find(memory, job)?;
    for path in held.map_or(Ok(Vec::new()), |held| super::folders(&held, super::is_seat_name))? {
        let Ok(shelf) = FileShelf::open_found(&path) else { continue };
        let sealed = shelf.sealed();
        let newest_known = sealed.iter().rposition(|it| it.marked && it.level == Level::Encoded).unwrap_or(0);
        let pieces = sealed[newest_known..].iter().map(|held| PieceId { epoch: held.epoch, seat: held.seat });
        // Pages that are damaged make their piece as good as lost.
        for id in pieces.filter(|id| shelf.is_good(*id)) {
            match directory.keep(&shelf.copy(id)) {
                Ok(()) => scavenged.pieces.push((id.epoch, id.seat)),
                Err(error) => scavenged.lost.push((id.seat, error.to_string())),
            }
        }
    }
    directory.prune()?;
    Ok(scavenged)
}
