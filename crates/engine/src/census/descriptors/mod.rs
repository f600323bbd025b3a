//! The census of descriptors: which open files there are, who shares them, and what each needs to be opened again.
//!
//! This file walks and finds out who shares what; a file for each family of open files knows what its members need.
//! What descriptors share stands once, in tables of the job: an open file is known by what the kernel says of it
//! (kcmp(2), inode), never by the process or the number under which it was met first.

mod anonymous;
mod epoll;
mod external;
mod inotify;
mod pipe;
mod refused;
mod regular;
mod shown;

use crate::Obstacle;
use crate::census::Output;
use crate::job::Inheritance;
use pipe::Pipes;
use shown::{Holder, Shown};
use standfast_format::records::{Bytes, Descriptor, OpenFile, OpenFileKind, PipeContents};
use std::io;
use std::os::unix::fs::FileTypeExt;

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

/// The descriptors of a job.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// Of each process, ascending by number.
    pub(super) descriptors: Vec<Vec<Descriptor>>,
    pub(super) open_files: Vec<OpenFile>,
    pub(super) pipes: Vec<PipeContents>,
    /// Regular files open for writing.
    pub(super) outputs: Vec<Output>,
}

/// What an open file is, or why that cannot be carried over.
type Known = Result<OpenFileKind, Unfit>;

/// Why an open file could not be recorded.
enum Unfit {
    /// It cannot be brought back.
    Refused { why: String, remedy: &'static str },
    /// It cannot be brought back as it is at this moment.
    NotNow { why: String },
    /// The kernel did not tell.
    Unknown(io::Error),
}

impl Unfit {
    fn because(why: impl Into<String>) -> Self {
        Self::Refused { why: why.into(), remedy: "" }
    }

    fn for_now(why: impl Into<String>) -> Self {
        Self::NotNow { why: why.into() }
    }

    fn with_remedy(why: impl Into<String>, remedy: &'static str) -> Self {
        Self::Refused { why: why.into(), remedy }
    }
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Self {
        Self::Unknown(error)
    }
}

impl Descriptors {
    /// Of the processes `pids`, which are one job.
    pub(super) fn of(pids: &[i32], inheritance: &Inheritance, obstacles: &mut Vec<Obstacle>) -> io::Result<Self> {
        let holders = pids.iter().map(|pid| Holder::of(*pid)).collect::<io::Result<Vec<_>>>()?;
        let mut shown = Vec::new();
        for (place, holder) in holders.iter().enumerate() {
            shown.extend(holder.show(place)?);
        }
        let found = Self { descriptors: vec![Vec::new(); pids.len()], ..Self::default() };
        let mut walk = Walk { holders, inheritance, shown, known: Vec::new(), found, pipes: Pipes::default() };
        walk.walk(obstacles)?;
        walk.watched(obstacles)?;
        walk.found.pipes = walk.pipes.into_records();
        Ok(walk.found)
    }
}

/// A census of descriptors under way.
struct Walk<'a> {
    holders: Vec<Holder>,
    inheritance: &'a Inheritance,
    /// Every descriptor of every process.
    shown: Vec<Shown>,
    /// For each open file found, the place of a descriptor of it.
    known: Vec<usize>,
    found: Descriptors,
    pipes: Pipes,
}

impl Walk<'_> {
    fn walk(&mut self, obstacles: &mut Vec<Obstacle>) -> io::Result<()> {
        for place in 0..self.shown.len() {
            let open_file = match self.position(&self.shown[place]) {
                Some(open_file) => open_file,
                None => match self.kind(place) {
                    Ok(kind) => {
                        let flags = self.shown[place].information.flags & !CREATION_FLAGS;
                        self.known.push(place);
                        self.found.open_files.push(OpenFile { flags, kind });
                        self.known.len() - 1
                    }
                    Err(unfit) => {
                        obstacles.push(self.obstacle(place, unfit)?);
                        continue;
                    }
                },
            };
            let shown = &self.shown[place];
            let close_on_exec = shown.information.flags & O_CLOEXEC != 0;
            let descriptor = Descriptor { number: shown.number, close_on_exec, open_file: open_file as u32 };
            self.found.descriptors[shown.holder].push(descriptor);
        }
        Ok(())
    }

    /// The position of an open file among those found so far.
    fn position(&self, shown: &Shown) -> Option<usize> {
        self.known.iter().position(|known| self.shown[*known].is_same_file(shown, &self.holders))
    }

    fn obstacle(&self, place: usize, unfit: Unfit) -> io::Result<Obstacle> {
        let shown = &self.shown[place];
        let (why, remedy, passing) = match unfit {
            // Programs hardly ever keep a directory open: they list it and close it.
            Unfit::Refused { why, remedy } => (why, remedy, shown.file.is_dir()),
            Unfit::NotNow { why } => (why, "", true),
            Unfit::Unknown(error) => return Err(error),
        };
        let what = format!("descriptor {} ({})", shown.number, shown.describe(&self.holders));
        Ok(Obstacle { what, why, remedy: remedy.to_owned(), passing })
    }

    /// Which family an open file belongs to, and what that family says of it.
    fn kind(&mut self, place: usize) -> Known {
        let shown = &self.shown[place];
        let flags = shown.information.flags;
        if flags & O_PATH != 0 {
            return Err(Unfit::because("a descriptor opened with O_PATH cannot be brought back yet"));
        }
        if flags & O_ASYNC != 0 {
            return Err(Unfit::because("signal-driven I/O (O_ASYNC) cannot be brought back yet"));
        }
        if shown.information.locked {
            return Err(Unfit::because("the program holds a lock on it, which cannot be brought back yet"));
        }
        if shown.file.is_file() && shown.target.starts_with(b"/") && !shown.target.starts_with(b"/memfd:") {
            return self.regular(place);
        }
        if let Some(external) = self.external(shown) {
            return Ok(external);
        }
        if shown.file.file_type().is_fifo() && shown.target.starts_with(b"pipe:") {
            return self.pipe(place);
        }
        if shown.is_common_device() {
            return Ok(OpenFileKind::Device {
                path: Bytes::from(shown.target.as_slice()),
                number: std::os::unix::fs::MetadataExt::rdev(&shown.file),
            });
        }
        self.anonymous(place)
    }
}
