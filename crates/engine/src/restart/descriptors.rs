//! Descriptors of a process under construction. All open files are made first and parked above every number that the
//! program uses; then each descriptor is put in its place; then the parking area is closed.

use super::construction::Construction;
use super::plan::{FilePlan, Plan, SCRATCH_BYTES};
use crate::EngineError;
use crate::freeze::kernel;
use standfast_core::Address;
use standfast_format::records::{EpollInterest, OpenFile, OpenFileKind, PipeContents};

const F_SETFL: u64 = libc::F_SETFL as u64;
const F_DUPFD: u64 = libc::F_DUPFD as u64;
const F_SETPIPE_SZ: u64 = libc::F_SETPIPE_SZ as u64;
const O_ACCMODE: u32 = libc::O_ACCMODE as u32;
const O_WRONLY: u32 = libc::O_WRONLY as u32;
const O_NONBLOCK: u32 = libc::O_NONBLOCK as u32;
const O_CLOEXEC: u64 = libc::O_CLOEXEC as u64;
const AF_UNIX: u64 = libc::AF_UNIX as u64;
const SOCK_STREAM: u64 = libc::SOCK_STREAM as u64;
const EFD_SEMAPHORE: u64 = libc::EFD_SEMAPHORE as u64;
const EPOLL_CTL_ADD: u64 = libc::EPOLL_CTL_ADD as u64;

/// One pipe on its way: its two ends, parked.
struct Parked {
    reader: u64,
    writer: u64,
}

impl Construction {
    pub(super) fn open_descriptors(&self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let highest = plan.process.descriptors.iter().map(|descriptor| descriptor.number).max().unwrap_or(2);
        let parking = highest.max(2) as u64 + 1;
        let pipes: Vec<Parked> =
            plan.job.pipes.iter().map(|pipe| self.make_pipe(pipe, parking)).collect::<Result<_, _>>()?;
        let mut files = Vec::new();
        for (file, how) in plan.job.open_files.iter().zip(&plan.files) {
            let opened = self.open_file(file, *how, &pipes)?;
            files.push(self.park(opened, parking, !matches!(how, FilePlan::Own(_) | FilePlan::OwnFile(_)))?);
        }
        self.call("closing streams", libc::SYS_close_range, [0, parking - 1, 0, 0, 0, 0])?;
        for descriptor in &plan.process.descriptors {
            let missing = || kernel("placing descriptors", std::io::ErrorKind::InvalidData.into());
            let file = *files.get(descriptor.open_file as usize).ok_or_else(missing)?;
            let flags = if descriptor.close_on_exec { O_CLOEXEC } else { 0 };
            let number = descriptor.number as u64;
            self.call(&format!("placing descriptor {number}"), libc::SYS_dup3, [file, number, flags, 0, 0, 0])?;
        }
        for (file, parked) in plan.job.open_files.iter().zip(&files) {
            if let OpenFileKind::Epoll { interests } = &file.kind {
                interests.iter().try_for_each(|interest| self.watch(*parked, interest))?;
            }
        }
        self.call("closing what was parked", libc::SYS_close_range, [parking, u32::MAX.into(), 0, 0, 0, 0]).map(drop)
    }

    /// Moves a descriptor to the lowest free number from `parking` on. A stream of our own stays open where it was.
    fn park(&self, descriptor: u64, parking: u64, close: bool) -> Result<u64, EngineError> {
        let parked = self.call("parking a descriptor", libc::SYS_fcntl, [descriptor, F_DUPFD, parking, 0, 0, 0])?;
        if close {
            self.close(descriptor)?;
        }
        Ok(parked)
    }

    fn close(&self, descriptor: u64) -> Result<(), EngineError> {
        self.call("closing a descriptor", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]).map(drop)
    }

    fn open_file(&self, file: &OpenFile, how: FilePlan, pipes: &[Parked]) -> Result<u64, EngineError> {
        if let FilePlan::Own(number) = how {
            // The terminal or pipe is shared with others: it is made non-blocking only if the program had it so.
            if file.flags & O_NONBLOCK != 0 {
                let arguments = [number as u64, F_SETFL, file.flags.into(), 0, 0, 0];
                self.call("setting a stream's flags", libc::SYS_fcntl, arguments)?;
            }
            return Ok(number as u64);
        }
        match &file.kind {
            OpenFileKind::Regular { file: reference, offset } => {
                let opened = match how {
                    FilePlan::OwnFile(stream) => stream as u64,
                    _ => self.open_path(&reference.path.0, file.flags)?,
                };
                if file.flags & O_ACCMODE != 0 {
                    let action = format!("cutting {} back to its length at the checkpoint", reference.path);
                    self.call(&action, libc::SYS_ftruncate, [opened, reference.length, 0, 0, 0, 0])?;
                }
                self.call("positioning a file", libc::SYS_lseek, [opened, *offset, 0, 0, 0, 0])?;
                Ok(opened)
            }
            OpenFileKind::Device { path, .. } => self.open_path(&path.0, file.flags),
            OpenFileKind::Pipe { pipe } => {
                // Each open file of a pipe is opened anew through /proc, since pipe2 makes only one for each end.
                let ends = &pipes[*pipe as usize];
                let end = if file.flags & O_ACCMODE == O_WRONLY { ends.writer } else { ends.reader };
                self.open_path(format!("/proc/self/fd/{end}").as_bytes(), file.flags)
            }
            OpenFileKind::EventCounter { count, semaphore } => self.make_counter(*count, *semaphore, file.flags),
            OpenFileKind::Epoll { .. } => self.call("making an epoll instance", libc::SYS_epoll_create1, [0; 6]),
            OpenFileKind::Inherited { was, .. } => self.make_widow(was.0.starts_with(b"socket:"), file.flags),
            OpenFileKind::Stream { .. } => unreachable!("a stream is planned to be one of our own"),
        }
    }

    fn open_path(&self, path: &[u8], flags: u32) -> Result<u64, EngineError> {
        let action = format!("opening {}", String::from_utf8_lossy(path));
        self.call(&action, libc::SYS_open, [self.path_argument(path)?, flags.into(), 0, 0, 0, 0])
    }

    /// One end of a pipe or socket pair whose other end is closed.
    fn make_widow(&self, socket: bool, flags: u32) -> Result<u64, EngineError> {
        let arguments = [AF_UNIX, SOCK_STREAM, 0, self.scratch, 0, 0];
        if socket {
            self.call("making a socket", libc::SYS_socketpair, arguments)?;
        } else {
            self.call("making a pipe", libc::SYS_pipe2, [self.scratch, 0, 0, 0, 0, 0])?;
        }
        let [first, second] = self.two_descriptors()?;
        let (kept, closed) = if flags & O_ACCMODE == O_WRONLY { (second, first) } else { (first, second) };
        self.close(closed)?;
        let arguments = [kept, F_SETFL, (flags & O_NONBLOCK).into(), 0, 0, 0];
        self.call("setting a descriptor's flags", libc::SYS_fcntl, arguments)?;
        Ok(kept)
    }

    /// The two descriptors that a call has left in the scratch memory.
    fn two_descriptors(&self) -> Result<[u64; 2], EngineError> {
        let mut ends = [[0u8; 4]; 2];
        let reading = |source| kernel("reading the new process", source);
        self.memory.read(Address::new(self.scratch), ends.as_flattened_mut()).map_err(reading)?;
        Ok(ends.map(|end| u32::from_le_bytes(end).into()))
    }

    fn make_pipe(&self, pipe: &PipeContents, parking: u64) -> Result<Parked, EngineError> {
        self.call("making a pipe", libc::SYS_pipe2, [self.scratch, 0, 0, 0, 0, 0])?;
        let [reader, writer] = self.two_descriptors()?;
        let (reader, writer) = (self.park(reader, parking, true)?, self.park(writer, parking, true)?);
        self.call("sizing a pipe", libc::SYS_fcntl, [writer, F_SETPIPE_SZ, pipe.capacity.into(), 0, 0, 0])?;
        for piece in pipe.contents.0.chunks(SCRATCH_BYTES as usize) {
            let arguments = [writer, self.argument(piece)?, piece.len() as u64, 0, 0, 0];
            let written = self.call("filling a pipe", libc::SYS_write, arguments)?;
            if written != piece.len() as u64 {
                return Err(kernel("filling a pipe", std::io::ErrorKind::WriteZero.into()));
            }
        }
        Ok(Parked { reader, writer })
    }

    fn make_counter(&self, count: u64, semaphore: bool, flags: u32) -> Result<u64, EngineError> {
        let semaphore = if semaphore { EFD_SEMAPHORE } else { 0 };
        let flags = u64::from(flags & O_NONBLOCK) | semaphore;
        let counter = self.call("making an event counter", libc::SYS_eventfd2, [0, flags, 0, 0, 0, 0])?;
        // The initial value that the call takes has 32 bits only.
        if count > 0 {
            let word = self.argument(&count.to_le_bytes())?;
            self.call("setting an event counter", libc::SYS_write, [counter, word, 8, 0, 0, 0])?;
        }
        Ok(counter)
    }

    fn watch(&self, epoll: u64, interest: &EpollInterest) -> Result<(), EngineError> {
        // struct epoll_event is packed: four bytes, then eight.
        let event = [&interest.events.to_le_bytes()[..], &interest.data.to_le_bytes()].concat();
        let event = self.argument(&event)?;
        let arguments = [epoll, EPOLL_CTL_ADD, interest.descriptor as u64, event, 0, 0];
        self.call("adding to an epoll instance", libc::SYS_epoll_ctl, arguments).map(drop)
    }
}
