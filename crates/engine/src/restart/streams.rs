//! Decides where standard output and error of a job continue if they were files. By default they continue in these
//! files: a restart whose own output is redirected must not split the program's output between two files unasked.
//! Terminals and pipes are another matter: those of the run are gone, and the restart's own streams take their place.
//!
//! ```text
//! the restart's stream is the recorded file      its descriptor is used: this user need not be able to open the path
//! another file, a pipe, a terminal               the recorded file is opened again; by Streams::Redirected it is not
//! ...and others have added to that file          a file or pipe of the restart's takes its place; else the restart is refused
//! ```

use super::files::{FileNote, Reckoning, path_of};
use crate::file_policy::Objection;
use crate::files::FileId;
use crate::inheritance::is_inherited;
use crate::objects::FilePlan;
use standfast_format::records::{JobState, OpenFileKind};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::DescriptorInformation;
use standfast_linux::sys::process;
use standfast_linux::sys::tree::may_access;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

const O_ACCMODE: u32 = abi::O_ACCMODE as u32;
const O_RDWR: u32 = abi::O_RDWR as u32;
const O_RDONLY: u32 = abi::O_RDONLY as u32;
const O_WRONLY: u32 = abi::O_WRONLY as u32;

/// How to avoid an objection to the file of a standard stream.
pub(super) const REDIRECT: &str = "to continue in the output of this command instead: add --redirect";

/// Where standard output and error continue if they were files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Streams {
    /// In these files.
    #[default]
    Recorded,
    /// Where those of the restart go.
    Redirected,
}

/// Returns how the open file at `place` continues if it is a standard stream, and a note about it. Standard input is
/// never exchanged: a program in the middle of one file cannot continue in the middle of another.
pub(super) fn as_stream(job: &JobState, place: usize, streams: Streams) -> (FilePlan, Option<FileNote>) {
    let recorded = (FilePlan::AsRecorded, None);
    let open = &job.open_files[place];
    let OpenFileKind::Regular { file, .. } = &open.kind else { return recorded };
    let Some(stream) = stream_of(job, place) else { return recorded };
    let Some(own) = OwnStream::of(stream) else { return recorded };
    let access = open.flags & O_ACCMODE;
    let old = std::fs::metadata(path_of(file)).ok();
    if old.is_some_and(|old| FileId::of(&old) == FileId::of(&own.status)) {
        let serves = own.access == access || own.access == O_RDWR;
        return if serves { (FilePlan::OwnFile(stream), None) } else { recorded };
    }
    if access == O_RDONLY {
        return recorded;
    }
    let path = path_of(file).to_owned();
    match streams {
        Streams::Redirected if own.access != O_RDONLY => {
            (FilePlan::Own(stream), Some(FileNote::StreamMoved { stream, from: path, to: own.path }))
        }
        _ if own.catches_output() => {
            (FilePlan::AsRecorded, Some(FileNote::StreamStays { stream, path, own: own.path }))
        }
        _ => recorded,
    }
}

/// Reports whether the open file at `place` is standard output or error, which can be redirected.
pub(super) fn can_be_redirected(job: &JobState, place: usize) -> bool {
    stream_of(job, place).is_some() && job.open_files[place].flags & O_ACCMODE != O_RDONLY
}

impl Reckoning<'_> {
    /// Decides about an open file that we may not open. If it is a standard output of the main process, our own stream
    /// takes its place; else this returns why it is not available. A file that can be opened stays as recorded.
    pub(super) fn instead_of_unopenable(&self, place: usize) -> Result<(FilePlan, Option<FileNote>), String> {
        let recorded = Ok((FilePlan::AsRecorded, None));
        let open = &self.job.open_files[place];
        let OpenFileKind::Regular { file, .. } = &open.kind else { return recorded };
        let path = path_of(file);
        let Ok(now) = std::fs::metadata(path) else { return recorded };
        let needed = match open.flags & O_ACCMODE {
            O_RDONLY => abi::R_OK,
            O_WRONLY => abi::W_OK,
            _ => abi::R_OK | abi::W_OK,
        };
        // The owner of a file can grant himself missing permissions.
        if now.uid() == process::effective_user() {
            return recorded;
        }
        let Err(error) = may_access(path, needed) else { return recorded };
        let stream = stream_of(self.job, place).filter(|stream| *stream > 0 && is_inherited(*stream));
        let stream = stream.ok_or_else(|| format!("it cannot be opened again ({error})"))?;
        let to = std::fs::read_link(format!("/proc/self/fd/{stream}")).unwrap_or_default();
        let why = "it may not be opened by this user".to_owned();
        Ok((FilePlan::Own(stream), Some(FileNote::StreamElsewhere { stream, from: path.to_owned(), to, why })))
    }

    /// Decides about a standard output that others have added to since the checkpoint. Our own stream takes its place,
    /// if somebody collects what we write there. A batch system that adds its own line to the output of each job must
    /// not stop the next one.
    pub(super) fn instead_of_added_to(&self, place: usize, objection: &Objection) -> Option<(FilePlan, FileNote)> {
        let open = &self.job.open_files[place];
        let OpenFileKind::Regular { file, .. } = &open.kind else { return None };
        if !objection.is_addition || open.flags & O_ACCMODE == O_RDONLY {
            return None;
        }
        let stream = stream_of(self.job, place).filter(|stream| *stream > 0)?;
        let own = OwnStream::of(stream).filter(|own| own.access != O_RDONLY && own.catches_output())?;
        let (from, why) = (path_of(file).to_owned(), objection.why.clone());
        Some((FilePlan::Own(stream), FileNote::StreamElsewhere { stream, from, to: own.path, why }))
    }
}

/// Returns the number of the standard stream that an open file is. The job itself has redirected those of other
/// processes.
fn stream_of(job: &JobState, place: usize) -> Option<i32> {
    let descriptors = job.processes.iter().take(1).flat_map(|process| &process.descriptors);
    let mut streams = descriptors.filter(|it| it.open_file as usize == place && it.number < 3);
    streams.next().map(|descriptor| descriptor.number)
}

/// A standard stream of the restart.
struct OwnStream {
    status: Metadata,
    access: u32,
    path: PathBuf,
}

impl OwnStream {
    /// Returns `None` if it is closed, or would not reach the program.
    fn of(stream: i32) -> Option<Self> {
        let link = format!("/proc/self/fd/{stream}");
        let status = std::fs::metadata(&link).ok().filter(|_| is_inherited(stream))?;
        let access = DescriptorInformation::of(Pid::own(), stream).ok()?.flags & O_ACCMODE;
        Some(Self { status, access, path: std::fs::read_link(&link).unwrap_or_default() })
    }

    /// Reports whether somebody who directed it there may wait for output: in a file or at the end of a pipe, but not
    /// on a terminal.
    fn catches_output(&self) -> bool {
        let kind = self.status.file_type();
        kind.is_file() || kind.is_fifo()
    }
}
