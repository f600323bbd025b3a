//! Pipes, named or not, whose two ends are the job's, or whose other end is closed everywhere.

use super::shown::Shown;
use super::{Known, O_ACCMODE, O_DIRECT, O_PATH, O_WRONLY, Unsupported, Walk};
use crate::RefusalCode;
use crate::files::other_holder;
use standfast_format::records::{Bytes, OpenFileKind, PipeContents};
use standfast_linux::sys::process;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Linux never lets a pipe hold more.
const PIPE_BYTES_MAX: usize = 1 << 31;

const PERMISSIONS: u32 = 0o7777;
/// What pipe(2) gives.
const USUAL_MODE: u32 = 0o600;

/// The pipes found so far.
#[derive(Default)]
pub(super) struct Pipes {
    records: Vec<PipeContents>,
    /// Their identities, in the same order.
    identities: Vec<(u64, u64)>,
}

impl Pipes {
    pub(super) fn into_records(self) -> Vec<PipeContents> {
        self.records
    }
}

impl Walk<'_> {
    pub(super) fn pipe(&mut self, place: usize) -> Known {
        let identity = self.shown[place].identity();
        if let Some(pipe) = self.pipes.identities.iter().position(|known| *known == identity) {
            return Ok(OpenFileKind::Pipe { pipe: pipe as u32 });
        }
        let is_end = |other: &&Shown| {
            let is_open = other.information.flags & O_PATH == 0;
            other.identity() == identity && other.file.file_type().is_fifo() && is_open
        };
        let ends = || self.shown.iter().filter(is_end);
        let access = |shown: &Shown| shown.information.flags & O_ACCMODE;
        let (reader, writer) = (ends().find(|end| access(end) != O_WRONLY), ends().find(|end| access(end) != 0));
        let own = self.shown[place].own(&self.holders)?;
        let whole = reader.is_some() && writer.is_some();
        let is_named = !self.shown[place].target.starts_with(b"pipe:");
        let path = if is_named { self.name_of_pipe(place)? } else { None };
        if !whole && !is_named && !process::pipe_is_peer_closed(own.as_fd()) {
            return Err(Unsupported::with_hint(
                RefusalCode::PipeOutside,
                "the other end of this pipe is outside the program",
                "start it with only its standard streams connected to other programs",
            ));
        }
        let in_packets = ends().any(|end| end.information.flags & O_DIRECT != 0);
        let pieces = match reader {
            Some(reader) => read_without_taking(&reader.own(&self.holders)?)?,
            None => Vec::new(),
        };
        let capacity = process::pipe_capacity(own.as_fd())?;
        let packets = pieces.iter().map(|piece| piece.len() as u32).filter(|_| in_packets || pieces.len() > 1);
        let packets = packets.collect();
        let mode = Some(self.shown[place].file.mode() & PERMISSIONS).filter(|mode| !is_named && *mode != USUAL_MODE);
        self.pipes.records.push(PipeContents { capacity, contents: pieces.concat().into(), packets, path, mode });
        self.pipes.identities.push(identity);
        Ok(OpenFileKind::Pipe { pipe: self.pipes.records.len() as u32 - 1 })
    }

    /// The path of a named pipe, if it has one still. Whether one end is closed the kernel does not tell of these, so
    /// everybody who might hold it is asked.
    fn name_of_pipe(&self, place: usize) -> Result<Option<Bytes>, Unsupported> {
        let shown = &self.shown[place];
        let job: Vec<i32> = self.holders.iter().map(|holder| holder.pid).collect();
        if let Some(who) = other_holder(&job, |_, _, file| (file.dev(), file.ino()) == shown.identity()) {
            return Err(Unsupported::with_hint(
                RefusalCode::PipeOutside,
                format!("{who}, which is outside the program, has this named pipe open as well"),
                "start both under one standfast run",
            ));
        }
        if shown.file.nlink() == 0 {
            return Ok(None);
        }
        let there = std::fs::symlink_metadata(OsStr::from_bytes(&shown.target));
        if there.is_ok_and(|there| (there.dev(), there.ino()) == shown.identity()) {
            self.refuse_unopenable(shown)?;
            return Ok(Some(Bytes::from(shown.target.as_slice())));
        }
        Err(Unsupported::with_hint(
            RefusalCode::PathChanged,
            "it cannot be found under its path any more",
            "keep named pipes in place while in use",
        ))
    }
}

/// What a pipe holds, by tee(2) into one of our own: nothing is consumed. A piece is what a single read would give: all, or
/// one packet if it was written in packet mode.
fn read_without_taking(pipe: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let (mut copy, into) = io::pipe()?;
    let capacity = process::pipe_capacity(pipe.as_fd())?;
    // A larger pipe than the system allows us to make cannot be copied; the program made it with more rights.
    if process::pipe_capacity(into.as_fd())? < capacity {
        process::set_pipe_capacity(into.as_fd(), capacity)?;
    }
    let mut left = process::tee(pipe.as_fd(), into.as_fd(), PIPE_BYTES_MAX)?;
    let mut pieces = Vec::new();
    while left > 0 {
        let mut piece = vec![0u8; left];
        let bytes = copy.read(&mut piece)?;
        piece.truncate(bytes);
        left -= piece.len();
        pieces.push(piece);
    }
    Ok(pieces)
}
