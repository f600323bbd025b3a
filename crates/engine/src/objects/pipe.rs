//! Pipes, named or not, whose two ends are the job's, or whose other end is closed everywhere. A restart makes them
//! before the open files that are their ends, and fills them with their former contents.

use super::pipe_contents::{Piece, pieces_in, pieces_of, recorded};
use super::shown::Shown;
use super::walk::Motion;
use super::{
    Check, Kind, Known, O_ACCMODE, O_DIRECT, O_LARGEFILE, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_WRONLY, Opening,
    Recorded, Unsupported, Walk, as_path,
};
use crate::error::kernel;
use crate::files::{FileId, other_holder};
use crate::scratch::SCRATCH_BYTES;
use crate::{EngineError, RefusalCode};
use standfast_core::PAGE_BYTES;
use standfast_format::records::{Bytes, OpenFile, OpenFileKind, PipeContents};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::sys::{descriptors, process};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

const PERMISSIONS: u32 = 0o7777;
/// The mode of a pipe made by pipe(2).
const USUAL_MODE: u32 = 0o600;

/// The kernel's value; the C library defines it as 0 if files are large anyway.
const F_SETPIPE_SZ: u64 = abi::F_SETPIPE_SZ as u64;

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    walk.shown[place].file.file_type().is_fifo().then(|| walk.pipe(place))
}

/// Checks that a named pipe exists, or can be made again.
fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    let OpenFileKind::Pipe { pipe } = file.kind else { return };
    match check.job.pipes.get(pipe as usize) {
        None => check.add_missing_part("names a pipe"),
        Some(PipeContents { path: Some(path), .. }) => {
            if let Err(why) = check.remaking.provide(as_path(path), abi::S_IFIFO) {
                check.blockers.add_missing(format!("named pipe {path}"), why);
            }
        }
        Some(_) => {}
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Pipe { pipe } = recorded.kind else { return None };
    Some(opening.open_pipe_end(*pipe as usize, recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::Pipe { pipe } = kind else { return None };
    Some(format!("pipe {pipe} within the job"))
}

/// The pipes found so far.
#[derive(Default)]
pub(super) struct Pipes {
    records: Vec<PipeContents>,
    /// Their identities, in the same order.
    identities: Vec<FileId>,
}

impl Pipes {
    pub(super) fn into_records(self) -> Vec<PipeContents> {
        self.records
    }
}

impl Walk<'_> {
    fn pipe(&mut self, place: usize) -> Known {
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
        let whole = reader.is_some() && writer.is_some();
        let is_named = !self.shown[place].target.starts_with(b"pipe:");
        let path = if is_named { self.name_of_pipe(place)? } else { None };
        // While the program runs, a descriptor of ours would delay what it sees when it closes the last of its own.
        if self.motion == Motion::Running && (whole || is_named) {
            return Ok(self.add_pipe(identity, PipeContents { path, ..PipeContents::default() }));
        }
        let own = self.shown[place].own(&self.holders)?;
        if !whole && !is_named && !process::pipe_is_peer_closed(own.as_fd()) {
            return Err(Unsupported::with_hint(
                RefusalCode::PipeOutside,
                "the other end of this pipe is outside the program",
                "start it with only its standard streams connected to other programs",
            ));
        }
        let in_packets = ends().any(|end| end.information.flags & O_DIRECT != 0);
        let record = match reader {
            Some(reader) => {
                let own = reader.own(&self.holders)?;
                let awaits_writer = writer.is_none() && self.is_writer_awaited(ends(), path.is_some())?;
                let awaits_writer = awaits_writer.then_some(true);
                PipeContents { awaits_writer, ..recorded(&pieces_in(own.as_fd(), in_packets)?) }
            }
            None => recorded(&left_to_read(own.as_fd(), in_packets)?),
        };
        let capacity = process::pipe_capacity(own.as_fd())?;
        let mode = Some(self.shown[place].file.mode() & PERMISSIONS).filter(|mode| !is_named && *mode != USUAL_MODE);
        Ok(self.add_pipe(identity, PipeContents { capacity, path, mode, ..record }))
    }

    /// Reports whether the readers of a pipe without writers wait for the next one, since they were opened after the last
    /// one had gone. A restart opens all of them at one moment, by the pipe's name.
    fn is_writer_awaited<'s>(
        &self,
        readers: impl Iterator<Item = &'s Shown>,
        has_name: bool,
    ) -> Result<bool, Unsupported> {
        let (mut waiting, mut at_the_end) = (false, false);
        for reader in readers {
            let is_at_the_end = process::pipe_is_peer_closed(reader.own(&self.holders)?.as_fd());
            waiting |= !is_at_the_end;
            at_the_end |= is_at_the_end;
        }
        match (waiting, at_the_end, has_name) {
            (true, true, _) => Err(Unsupported::for_now(
                RefusalCode::PipeReaders,
                "one of its readers has seen the last writer leave, and another one waits for the next writer",
            )),
            (true, false, false) => Err(Unsupported::for_now(
                RefusalCode::PipeReaders,
                "it waits for a writer, and its name has been removed",
            )),
            (waiting, ..) => Ok(waiting),
        }
    }

    fn add_pipe(&mut self, identity: FileId, record: PipeContents) -> OpenFileKind {
        self.pipes.records.push(record);
        self.pipes.identities.push(identity);
        OpenFileKind::Pipe { pipe: self.pipes.records.len() as u32 - 1 }
    }

    /// Returns the path of a named pipe, if it still has one. The kernel does not report whether one end of a named
    /// pipe is closed, so every process that might hold it is examined.
    fn name_of_pipe(&self, place: usize) -> Result<Option<Bytes>, Unsupported> {
        let shown = &self.shown[place];
        let job: Vec<Pid> = self.holders.iter().map(|holder| holder.pid).collect();
        if let Some(who) = other_holder(&job, |_, _, file| FileId::of(file) == shown.identity()) {
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
        if there.is_ok_and(|there| FileId::of(&there) == shown.identity()) {
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

/// Returns what waits in a pipe whose readers have all gone: whoever opens it next reads that. It takes a reader, and is
/// opened as one for that time.
fn left_to_read(writer: BorrowedFd<'_>, in_packets: bool) -> Result<Vec<Piece<'static>>, Unsupported> {
    if descriptors::unread_bytes(writer)? == 0 {
        return Ok(Vec::new());
    }
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let opened = OpenOptions::new().read(true).custom_flags(O_NONBLOCK as i32).open(path);
    let reader = opened.map_err(|error| {
        let why = format!("nobody has it open for reading, and its unread data could not be read ({error})");
        Unsupported::with_hint(RefusalCode::Permission, why, "let the owner read it: chmod u+r")
    })?;
    Ok(pieces_in(reader.as_fd(), in_packets)?)
}

/// The two ends of a pipe, parked.
pub(super) struct PipeEnds {
    reader: u64,
    writer: u64,
    /// Whether pipe2(2) made them.
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
            Some(path) => self.open_named(path, pipe.awaits_writer == Some(true))?,
        };
        let writer = ends.writer;
        self.call("sizing a pipe", abi::SYS_fcntl, [writer, F_SETPIPE_SZ, pipe.capacity.into(), 0, 0, 0])?;
        let mut pieces = pieces_of(pipe).into_iter().peekable();
        let mut in_packets = false;
        while let Some(piece) = pieces.next() {
            if piece.is_packet != in_packets {
                in_packets = piece.is_packet;
                self.set_flags(writer, if in_packets { O_DIRECT } else { 0 })?;
            }
            if !in_packets && pieces.peek().is_some_and(|next| next.is_packet) {
                self.fill_apart(writer, &piece.bytes)?;
            } else {
                piece.bytes.chunks(SCRATCH_BYTES as usize).try_for_each(|some| self.fill_pipe(writer, some))?;
            }
        }
        if let Some(mode) = pipe.mode {
            self.call("setting a pipe's permissions", abi::SYS_fchmod, [writer, mode.into(), 0, 0, 0, 0])?;
        }
        Ok(ends)
    }

    fn fill_pipe(&self, writer: u64, bytes: &[u8]) -> Result<(), EngineError> {
        let arguments = [writer, self.process.argument(bytes)?, bytes.len() as u64, 0, 0, 0];
        let written = self.call("filling a pipe", abi::SYS_write, arguments)?;
        if written == bytes.len() as u64 {
            return Ok(());
        }
        Err(kernel("filling a pipe", std::io::ErrorKind::WriteZero.into()))
    }

    /// Fills a pipe so that what is written behind these bytes is not added to their page, as the kernel adds packets
    /// that fit: it adds nothing to a page that tee(2) has put there.
    fn fill_apart(&self, writer: u64, bytes: &[u8]) -> Result<(), EngineError> {
        for page in bytes.chunks(PAGE_BYTES) {
            let other = self.make_unnamed()?;
            self.fill_pipe(other.writer, page)?;
            let arguments = [other.reader, writer, page.len() as u64, 0, 0, 0];
            self.call("filling a pipe from another one", abi::SYS_tee, arguments)?;
            self.close(other.reader)?;
            self.close(other.writer)?;
        }
        Ok(())
    }

    fn make_unnamed(&self) -> Result<PipeEnds, EngineError> {
        self.call("making a pipe", abi::SYS_pipe2, [self.process.scratch, 0, 0, 0, 0, 0])?;
        let [reader, writer] = self.two_descriptors()?;
        Ok(PipeEnds { reader: self.park(reader)?, writer: self.park(writer)?, is_unnamed: true })
    }

    /// Opens both ends of a named pipe at once, which does not block, or only the reading end if nobody may have opened
    /// the other one.
    fn open_named(&self, path: &Bytes, awaits_writer: bool) -> Result<PipeEnds, EngineError> {
        let access = if awaits_writer { O_RDONLY | O_NONBLOCK } else { O_RDWR };
        let both = self.park(self.open_path(&path.0, access)?)?;
        let scanning = |source| kernel(&format!("looking at the named pipe {path}"), source);
        if descriptors::unread_bytes(self.own(both)?.as_fd()).map_err(scanning)? > 0 {
            return Err(scanning(std::io::Error::other("another program has written to it since the program ended")));
        }
        Ok(PipeEnds { reader: both, writer: both, is_unnamed: false })
    }

    /// Opens one end of a pipe. The one open file of each end that pipe2(2) made shows no O_LARGEFILE. All others were
    /// opened through /proc, as they are here.
    fn open_pipe_end(&self, pipe: usize, flags: u32) -> Result<u64, EngineError> {
        let ends = &self.pipes[pipe];
        let end = if flags & O_ACCMODE == O_WRONLY { ends.writer } else { ends.reader };
        if ends.is_unnamed && flags & O_ACCMODE != O_RDWR && flags & O_LARGEFILE == 0 {
            let own = self.process.copy_to_parking(end, self.parking)?;
            self.set_flags(own, flags)?;
            return Ok(own);
        }
        // Packet mode can be set, but not requested when opening. To open a reading end waits for writers.
        let opened = self.open_path(format!("/proc/self/fd/{end}").as_bytes(), flags & !O_DIRECT | O_NONBLOCK)?;
        self.set_flags(opened, flags)?;
        Ok(opened)
    }
}
