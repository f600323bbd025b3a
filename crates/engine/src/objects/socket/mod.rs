//! Sockets of the job, with their peers, their received data, and their options.

mod check;
mod collect;
mod exchange;
mod loopback;
mod restore;
mod spare_room;

use super::{Check, Kind, Known, Opening, Recorded, Walk};
use crate::EngineError;
pub(crate) use check::{SocketName, refuse_lone_part};
pub(crate) use collect::distant_sender;
pub(super) use collect::{Found, Unread, Usual};
pub(crate) use restore::{Connecting, Renamed};
pub(super) use restore::{Made, Names};
use standfast_format::records::{OpenFile, OpenFileKind};
use std::os::unix::fs::FileTypeExt;

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    walk.shown[place].file.file_type().is_socket().then(|| walk.socket(place))
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    if let OpenFileKind::Socket { socket } = file.kind
        && socket as usize >= check.job.sockets.len()
    {
        check.add_missing_part("names a socket");
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Socket { socket } = recorded.kind else { return None };
    Some(Ok(opening.sockets[*socket as usize].number))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::Socket { socket } = kind else { return None };
    Some(format!("socket {socket} of the job"))
}
