//! Cuts off what files have grown by since the checkpoint, after a callback has kept it. This is the last step of a
//! restart before the job runs; every check that could refuse comes before it.

use super::family::Family;
use super::files::{FileNote, path_of};
use super::plan::JobPlan;
use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use crate::files::FileId;
use standfast_format::BoxError;
use standfast_format::records::{FileReference, OpenFileKind, ProcessState};
use standfast_linux::sys::{descriptors, process};
use standfast_linux::{DescriptorPassage, Pid};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The end of a file that is about to be cut off.
#[derive(Debug)]
pub struct Tail<'a> {
    /// The path of the file.
    pub path: &'a Path,
    /// The file.
    pub file: &'a File,
    /// Where its tail begins.
    pub start: u64,
    /// How long the tail is.
    pub bytes: u64,
    /// Whether all of it must be kept, however long it is.
    pub is_whole: bool,
    /// Whether the file itself is removed, so that another name for it suffices.
    pub is_removed: bool,
}

/// Keeps what is cut off, and returns where.
pub type KeepTail<'a> = dyn FnMut(&Tail<'_>) -> Result<PathBuf, BoxError> + 'a;

impl Family {
    /// Cuts files back to their length at the checkpoint; nothing is cut off before all of it has been kept.
    pub(super) fn cut_back(
        &mut self,
        plan: &JobPlan<'_>,
        keep: &mut KeepTail<'_>,
    ) -> Result<Vec<FileNote>, EngineError> {
        let mut notes = Vec::new();
        let mut cuts = Vec::new();
        for regular in &plan.regular {
            let Some(length) = regular.cut else { continue };
            let OpenFileKind::Regular { file: reference, .. } = &plan.job.open_files[regular.place].kind else {
                unreachable!("only regular files are cut");
            };
            let path = path_of(reference);
            let cutting = |source| kernel(&format!("cutting {} back", reference.path), source);
            let file = self.to_cut(plan, regular.place).map_err(cutting)?;
            let found = file.metadata().map_err(cutting)?;
            if regular.judged.is_some_and(|judged| judged != FileId::of(&found)) {
                let why = "somebody else has put another file in its place";
                return Err(cutting(std::io::Error::other(why)));
            }
            let bytes = found.len().saturating_sub(length);
            // Several open files may lead to one file.
            if bytes > 0 && !notes.iter().any(|note| matches!(note, FileNote::CutBack { path: cut, .. } if cut == path))
            {
                notes.push(kept(reference, &file, length, bytes, keep)?);
            }
            cuts.push((reference, file, length));
        }
        for (reference, file, length) in cuts {
            let cutting = |source| kernel(&format!("cutting {} back", reference.path), source);
            let is_longer = file.metadata().map_err(cutting)?.len() > length;
            if is_longer {
                file.set_len(length).map_err(cutting)?;
                self.processes[0].put_time_back(path_of(reference), &reference.identity, &file);
            }
        }
        Ok(notes)
    }

    /// Removes the events that the work on files has caused from inotify instances of the job: the program has not
    /// caused them.
    pub(super) fn forget_events(&self, plan: &JobPlan<'_>) -> Result<(), EngineError> {
        let taking = |source| kernel("emptying an inotify instance", source);
        for (place, open) in plan.job.open_files.iter().enumerate() {
            if !matches!(open.kind, OpenFileKind::Watches { .. }) {
                continue;
            }
            let mut instance = self.own(plan, place).map_err(taking)?;
            // Never reads more than there is: the instance may be a blocking one.
            while let bytes @ 1.. = descriptors::unread_bytes(instance.as_fd()).map_err(taking)? {
                let mut events = vec![0; bytes];
                std::io::Read::read(&mut instance, &mut events).map_err(taking)?;
            }
        }
        Ok(())
    }

    /// Returns an open regular file of the new processes, as a descriptor by which it can be cut back.
    fn to_cut(&self, plan: &JobPlan<'_>, place: usize) -> std::io::Result<File> {
        if !DescriptorPassage::is_needed() {
            return self.own(plan, place);
        }
        let (pid, number) = self.holder(plan, place)?;
        File::options().read(true).write(true).open(format!("/proc/{pid}/fd/{number}"))
    }

    /// Returns an open file of the new processes, by its place in the job, as a descriptor of our own.
    fn own(&self, plan: &JobPlan<'_>, place: usize) -> std::io::Result<File> {
        let (pid, number) = self.holder(plan, place)?;
        let process = process::pidfd_open(pid)?;
        process::pidfd_getfd(process.as_fd(), number).map(File::from)
    }

    /// Returns a process that holds an open file, and the number of its descriptor.
    fn holder(&self, plan: &JobPlan<'_>, place: usize) -> std::io::Result<(Pid, i32)> {
        let missing = || std::io::Error::other("no descriptor leads to it");
        let holder = |(built, process): (&Construction, &ProcessState)| {
            let found = process.descriptors.iter().find(|it| it.open_file as usize == place)?;
            Some((built.pid(), found.number))
        };
        self.processes.iter().zip(&plan.job.processes).find_map(holder).ok_or_else(missing)
    }
}

fn kept(
    reference: &FileReference,
    file: &File,
    start: u64,
    bytes: u64,
    keep: &mut KeepTail<'_>,
) -> Result<FileNote, EngineError> {
    use std::os::fd::AsRawFd;
    let path = path_of(reference).to_owned();
    // The program's own descriptor may not be readable; it is used only if the file cannot be reopened.
    let readable = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let file = readable.as_ref().unwrap_or(file);
    let kept = keep(&Tail { path: &path, file, start, bytes, is_whole: false, is_removed: false })
        .map_err(|source| EngineError::Tail { path: reference.path.to_string(), source })?;
    Ok(FileNote::CutBack { path, bytes, kept, is_whole: false })
}
