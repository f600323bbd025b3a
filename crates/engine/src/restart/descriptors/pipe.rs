//! Pipes: made before the open files that are their ends, and filled with what was in them.

use super::{O_ACCMODE, O_WRONLY, Opening};
use crate::EngineError;
use crate::error::kernel;
use crate::scratch::SCRATCH_BYTES;
use standfast_format::records::{Bytes, PipeContents};
use standfast_linux::sys::descriptors;
use std::os::fd::AsFd;

const O_RDWR: u32 = libc::O_RDWR as u32;
/// As the kernel has it; the C library has none where files are large anyway.
const O_LARGEFILE: u32 = 0o100000;
const O_DIRECT: u32 = libc::O_DIRECT as u32;
const F_SETPIPE_SZ: u64 = libc::F_SETPIPE_SZ as u64;

/// The two ends of a pipe, parked.
pub(super) struct PipeEnds {
    reader: u64,
    writer: u64,
    /// Whether they are those that pipe2(2) made.
    is_unnamed: bool,
}

impl Opening<'_> {
    pub(super) fn make_pipes(&mut self) -> Result<(), EngineError> {
        let pipes = self.plan.job.pipes.iter().map(|pipe| self.make_pipe(pipe)).collect::<Result<_, _>>()?;
        self.pipes = pipes;
        Ok(())
    }

    fn make_pipe(&self, pipe: &PipeContents) -> Result<PipeEnds, EngineError> {
        let ends = match &pipe.path {
            None => self.make_unnamed()?,
            Some(path) => self.open_named(path)?,
        };
        let writer = ends.writer;
        self.call("sizing a pipe", libc::SYS_fcntl, [writer, F_SETPIPE_SZ, pipe.capacity.into(), 0, 0, 0])?;
        if !pipe.packets.is_empty() {
            self.set_flags(writer, O_DIRECT)?;
        }
        for piece in pieces(pipe) {
            let arguments = [writer, self.process.argument(piece)?, piece.len() as u64, 0, 0, 0];
            let written = self.call("filling a pipe", libc::SYS_write, arguments)?;
            if written != piece.len() as u64 {
                return Err(kernel("filling a pipe", std::io::ErrorKind::WriteZero.into()));
            }
        }
        if let Some(mode) = pipe.mode {
            self.call("setting a pipe's permissions", libc::SYS_fchmod, [writer, mode.into(), 0, 0, 0, 0])?;
        }
        Ok(ends)
    }

    fn make_unnamed(&self) -> Result<PipeEnds, EngineError> {
        self.call("making a pipe", libc::SYS_pipe2, [self.process.scratch, 0, 0, 0, 0, 0])?;
        let [reader, writer] = self.two_descriptors()?;
        Ok(PipeEnds { reader: self.park(reader)?, writer: self.park(writer)?, is_unnamed: true })
    }

    /// Both ends of a named pipe at once, which waits for nobody.
    fn open_named(&self, path: &Bytes) -> Result<PipeEnds, EngineError> {
        let both = self.park(self.open_path(&path.0, O_RDWR)?)?;
        let scanning = |source| kernel(&format!("looking at the named pipe {path}"), source);
        if descriptors::unread_bytes(self.own(both)?.as_fd()).map_err(scanning)? > 0 {
            return Err(scanning(std::io::Error::other("another program has written to it since the program ended")));
        }
        Ok(PipeEnds { reader: both, writer: both, is_unnamed: false })
    }

    /// What pipe2(2) has made is the one open file of each end that shows no O_LARGEFILE; all others were opened through
    /// /proc, as they are here.
    pub(super) fn open_pipe_end(&self, pipe: usize, flags: u32) -> Result<u64, EngineError> {
        let ends = &self.pipes[pipe];
        let end = if flags & O_ACCMODE == O_WRONLY { ends.writer } else { ends.reader };
        if ends.is_unnamed && flags & O_ACCMODE != O_RDWR && flags & O_LARGEFILE == 0 {
            let own = self.process.copy_to_parking(end, self.parking)?;
            self.set_flags(own, flags)?;
            return Ok(own);
        }
        let opened = self.open_path(format!("/proc/self/fd/{end}").as_bytes(), flags & !O_DIRECT)?;
        // Packet mode can be set, but not asked for when opening.
        if flags & O_DIRECT != 0 {
            self.set_flags(opened, flags)?;
        }
        Ok(opened)
    }
}

/// What is to be written at a time: packets as they were, or as much as fits the scratch memory.
fn pieces(pipe: &PipeContents) -> Vec<&[u8]> {
    if pipe.packets.is_empty() {
        return pipe.contents.0.chunks(SCRATCH_BYTES as usize).collect();
    }
    let mut rest = &pipe.contents.0[..];
    let mut pieces = Vec::with_capacity(pipe.packets.len());
    for length in &pipe.packets {
        let (piece, behind) = rest.split_at((*length as usize).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}
