//! The census of descriptors: which open files there are, who shares them, and what each needs to be opened again.

use super::reference;
use crate::Obstacle;
use crate::job::Inheritance;
use standfast_format::records::{
    Bytes, Descriptor, EpollInterest, OpenFile, OpenFileKind, PipeContents, StandardStream,
};
use standfast_linux::proc::{self, DescriptorInformation};
use standfast_linux::sys::process;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

const O_ACCMODE: u32 = libc::O_ACCMODE as u32;
const O_WRONLY: u32 = libc::O_WRONLY as u32;
const O_CREAT: u32 = libc::O_CREAT as u32;
const O_EXCL: u32 = libc::O_EXCL as u32;
const O_NOCTTY: u32 = libc::O_NOCTTY as u32;
const O_TRUNC: u32 = libc::O_TRUNC as u32;
const O_ASYNC: u32 = libc::O_ASYNC as u32;
const O_DIRECT: u32 = libc::O_DIRECT as u32;
const O_PATH: u32 = libc::O_PATH as u32;
const O_CLOEXEC: u32 = libc::O_CLOEXEC as u32;
const CREATION_FLAGS: u32 = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC;

/// Device nodes that mean the same to everybody: null, zero, full, random, urandom, and one's own terminal.
const DEVICES: [(u32, u32); 6] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0)];
/// Linux never lets a pipe hold more.
const PIPE_BYTES_MAX: usize = 1 << 31;

/// The descriptors of a process.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    pub(super) descriptors: Vec<Descriptor>,
    pub(super) open_files: Vec<OpenFile>,
    pub(super) pipes: Vec<PipeContents>,
    /// Regular files open for writing.
    pub(super) outputs: Vec<File>,
}

/// One descriptor as the kernel shows it.
struct Shown {
    number: i32,
    target: Vec<u8>,
    file: Metadata,
    information: DescriptorInformation,
}

impl Descriptors {
    pub(super) fn of(pid: i32, inheritance: &Inheritance, obstacles: &mut Vec<Obstacle>) -> io::Result<Self> {
        let mut census = DescriptorCensus {
            process: process::pidfd_open(pid)?,
            inheritance,
            shown: show(pid)?,
            found: Self::default(),
            pipe_inodes: Vec::new(),
        };
        let mut first_of_file: Vec<usize> = Vec::new();
        for place in 0..census.shown.len() {
            let shown = &census.shown[place];
            let (number, close_on_exec) = (shown.number, shown.information.flags & O_CLOEXEC != 0);
            let shared = first_of_file.iter().position(|first| same_file(pid, &census.shown[*first], shown));
            let open_file = match shared {
                Some(open_file) => open_file,
                None => match census.open_file(place)? {
                    Ok(file) => {
                        first_of_file.push(place);
                        census.found.open_files.push(file);
                        census.found.open_files.len() - 1
                    }
                    Err(obstacle) => {
                        obstacles.push(obstacle);
                        continue;
                    }
                },
            };
            census.found.descriptors.push(Descriptor { number, close_on_exec, open_file: open_file as u32 });
        }
        Ok(census.found)
    }
}

/// A descriptor closed by a running program while it is looked at is left out.
fn show(pid: i32) -> io::Result<Vec<Shown>> {
    let one = |number: i32| {
        Ok::<_, io::Error>(Shown {
            number,
            target: proc::link(pid, &format!("fd/{number}"))?,
            file: std::fs::metadata(format!("/proc/{pid}/fd/{number}"))?,
            information: DescriptorInformation::of(pid, number)?,
        })
    };
    Ok(proc::numbers(pid, "fd")?.into_iter().filter_map(|number| one(number).ok()).collect())
}

/// Whether two descriptors share an open file description, and so an offset and flags. Where the kernel cannot compare,
/// only what must be shared to be right counts: nothing does, and offsets are restored one by one.
fn same_file(pid: i32, one: &Shown, other: &Shown) -> bool {
    let alike = (one.file.dev(), one.file.ino()) == (other.file.dev(), other.file.ino()) && one.target == other.target;
    alike && process::same_open_file(pid, one.number, other.number).unwrap_or(false)
}

struct DescriptorCensus<'a> {
    process: OwnedFd,
    inheritance: &'a Inheritance,
    shown: Vec<Shown>,
    found: Descriptors,
    /// Inodes of the pipes in `found`, in the same order.
    pipe_inodes: Vec<u64>,
}

impl DescriptorCensus<'_> {
    fn open_file(&mut self, place: usize) -> io::Result<Result<OpenFile, Obstacle>> {
        let shown = &self.shown[place];
        let flags = shown.information.flags;
        let kind = if flags & O_PATH != 0 {
            Err(("a descriptor opened with O_PATH cannot be brought back yet".to_owned(), ""))
        } else if flags & O_ASYNC != 0 {
            Err(("signal-driven I/O (O_ASYNC) cannot be brought back yet".to_owned(), ""))
        } else if shown.information.locked {
            Err(("the program holds a lock on it, which cannot be brought back yet".to_owned(), ""))
        } else if shown.file.is_file() && shown.target.starts_with(b"/") && !shown.target.starts_with(b"/memfd:") {
            self.regular(place)?
        } else if let Some(stream) = self.stream(shown) {
            Ok(OpenFileKind::Stream { stream, was: Bytes::from(shown.target.as_slice()) })
        } else if let Some(number) = self.inherited(shown) {
            Ok(OpenFileKind::Inherited { number, was: Bytes::from(shown.target.as_slice()) })
        } else if shown.file.file_type().is_fifo() && shown.target.starts_with(b"pipe:") {
            self.pipe(place)?
        } else {
            self.other(shown)
        };
        let described = |(why, remedy): (String, &str)| Obstacle {
            what: format!("descriptor {} ({})", self.shown[place].number, describe(self, place)),
            why,
            remedy: remedy.to_owned(),
            // Programs hardly ever keep a directory open: they list it and close it.
            passing: self.shown[place].file.is_dir(),
        };
        Ok(kind.map(|kind| OpenFile { flags: flags & !CREATION_FLAGS, kind }).map_err(described))
    }

    /// A standard stream of this life that is not a file. Devices that mean the same everywhere are opened by path.
    fn stream(&self, shown: &Shown) -> Option<StandardStream> {
        let own = Some((shown.file.dev(), shown.file.ino()));
        if is_common_device(&shown.file) {
            return None;
        }
        let streams = [StandardStream::Input, StandardStream::Output, StandardStream::Error];
        let is = |number: usize| self.inheritance.streams[number] == own;
        let by_number = usize::try_from(shown.number).ok().filter(|number| *number < 3 && is(*number));
        by_number.or_else(|| (0..3).find(|number| is(*number))).map(|number| streams[number])
    }

    /// A pipe or socket that the life was started with.
    fn inherited(&self, shown: &Shown) -> Option<i32> {
        let connects = shown.file.file_type().is_fifo() || shown.file.file_type().is_socket();
        let own = (shown.file.dev(), shown.file.ino());
        let given = self.inheritance.others.iter().find(|(_, identity)| connects && *identity == own);
        given.map(|(number, _)| *number)
    }

    fn regular(&mut self, place: usize) -> io::Result<Result<OpenFileKind, (String, &'static str)>> {
        let shown = &self.shown[place];
        let file = match reference(&shown.target) {
            Ok(file) => file,
            Err(why) => return Ok(Err((why, "keep files in place while the program has them open"))),
        };
        if (file.identity.inode, file.identity.device) != (shown.file.ino(), shown.file.dev()) {
            let why = "another file has taken its place since it was opened".to_owned();
            return Ok(Err((why, "keep files in place while the program has them open")));
        }
        let offset = shown.information.position;
        if shown.information.flags & O_ACCMODE != 0 {
            let own = process::pidfd_getfd(self.process.as_fd(), shown.number)?;
            self.found.outputs.push(File::from(own));
        }
        Ok(Ok(OpenFileKind::Regular { file, offset }))
    }

    fn other(&self, shown: &Shown) -> Result<OpenFileKind, (String, &'static str)> {
        if shown.file.file_type().is_char_device() && is_common_device(&shown.file) {
            return Ok(OpenFileKind::Device { path: Bytes::from(shown.target.as_slice()), number: shown.file.rdev() });
        }
        let information = &shown.information;
        match shown.target.as_slice() {
            b"anon_inode:[eventfd]" => match information.event_count {
                Some(count) => Ok(OpenFileKind::EventCounter { count, semaphore: information.event_semaphore }),
                None => Err(("this kernel does not tell its count".to_owned(), "")),
            },
            b"anon_inode:[eventpoll]" => self.epoll(information),
            b"anon_inode:[io_uring]" => {
                let remedy = "Node.js: set UV_USE_IO_URING=0";
                Err((
                    "io_uring cannot be checkpointed: the kernel may be writing into the program's memory".to_owned(),
                    remedy,
                ))
            }
            _ => Err(("a descriptor of this kind cannot be brought back yet".to_owned(), "")),
        }
    }

    fn epoll(&self, information: &DescriptorInformation) -> Result<OpenFileKind, (String, &'static str)> {
        let mut interests = Vec::new();
        for target in &information.epoll_targets {
            let watched = self.shown.iter().find(|shown| shown.number == target.descriptor);
            if watched.is_none_or(|watched| watched.file.ino() != target.inode) {
                let why = format!(
                    "it still watches descriptor {}, which has been closed or means something else now",
                    target.descriptor
                );
                return Err((why, "remove descriptors from epoll before closing them"));
            }
            interests.push(EpollInterest { descriptor: target.descriptor, events: target.events, data: target.data });
        }
        Ok(OpenFileKind::Epoll { interests })
    }

    /// A pipe both ends of which are the program's, or whose other end is closed everywhere.
    fn pipe(&mut self, place: usize) -> io::Result<Result<OpenFileKind, (String, &'static str)>> {
        let (inode, number) = (self.shown[place].file.ino(), self.shown[place].number);
        if let Some(pipe) = self.pipe_inodes.iter().position(|known| *known == inode) {
            return Ok(Ok(OpenFileKind::Pipe { pipe: pipe as u32 }));
        }
        let ends = || self.shown.iter().filter(|other| other.file.ino() == inode && other.file.file_type().is_fifo());
        let access = |shown: &Shown| shown.information.flags & O_ACCMODE;
        let packets = ends().any(|end| end.information.flags & O_DIRECT != 0);
        let (reader, writer) = (ends().find(|end| access(end) != O_WRONLY), ends().find(|end| access(end) != 0));
        let own = process::pidfd_getfd(self.process.as_fd(), number)?;
        if packets {
            return Ok(Err(("a pipe in packet mode cannot be brought back yet".to_owned(), "")));
        }
        let whole = reader.is_some() && writer.is_some();
        if !whole && !process::pipe_is_widowed(own.as_fd()) {
            let why = "the other end of this pipe is outside the program".to_owned();
            return Ok(Err((why, "start it with only its standard streams connected to other programs")));
        }
        let contents = match reader {
            Some(reader) => read_without_taking(&process::pidfd_getfd(self.process.as_fd(), reader.number)?)?,
            None => Vec::new(),
        };
        let capacity = process::pipe_capacity(own.as_fd())?;
        self.found.pipes.push(PipeContents { capacity, contents: contents.into() });
        self.pipe_inodes.push(inode);
        Ok(Ok(OpenFileKind::Pipe { pipe: self.found.pipes.len() as u32 - 1 }))
    }
}

/// What a pipe holds, by tee(2) into one of our own: nothing is consumed.
fn read_without_taking(pipe: &OwnedFd) -> io::Result<Vec<u8>> {
    let (mut copy, into) = io::pipe()?;
    let capacity = process::pipe_capacity(pipe.as_fd())?;
    // A larger pipe than the system allows us to make cannot be copied; the program made it with more rights.
    if process::pipe_capacity(into.as_fd())? < capacity {
        process::set_pipe_capacity(into.as_fd(), capacity)?;
    }
    let held = process::tee(pipe.as_fd(), into.as_fd(), PIPE_BYTES_MAX)?;
    let mut contents = vec![0u8; held];
    copy.read_exact(&mut contents)?;
    Ok(contents)
}

fn is_common_device(file: &Metadata) -> bool {
    let number = file.rdev();
    // makedev(3) for the small numbers concerned.
    let (major, minor) = ((number >> 8 & 0xfff) as u32, (number & 0xff) as u32);
    file.file_type().is_char_device() && DEVICES.contains(&(major, minor))
}

/// What a descriptor is, for people.
fn describe(census: &DescriptorCensus<'_>, place: usize) -> String {
    let shown = &census.shown[place];
    let target = String::from_utf8_lossy(&shown.target).into_owned();
    if shown.file.file_type().is_socket() {
        let own = process::pidfd_getfd(census.process.as_fd(), shown.number);
        let kind = own.and_then(|own| process::socket_kind(own.as_fd()));
        return match kind {
            Ok((1, _)) => "unix socket".to_owned(),
            Ok((2 | 10, 1)) => "TCP socket".to_owned(),
            Ok((2 | 10, 2)) => "UDP socket".to_owned(),
            Ok((16, _)) => "netlink socket".to_owned(),
            _ => target,
        };
    }
    let anonymous = target.strip_prefix("anon_inode:").map(|name| name.trim_matches(['[', ']']).to_owned());
    anonymous.unwrap_or(if shown.file.is_dir() { format!("directory {target}") } else { target })
}
