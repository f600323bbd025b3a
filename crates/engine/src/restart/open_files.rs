//! What becomes of each open file of a job that is rebuilt.

use super::blockers::Blockers;
use super::files::{FileNote, Reckoning, RegularPlan, path_of};
use super::plan::FilePlan;
use super::remake::Remaking;
use super::streams::{self, as_stream};
use crate::inheritance::is_inherited;
use crate::{Blocker, RefusalCode};
use standfast_format::records::{
    Bytes, EpollInterest, FileReference, JobState, OpenFile, OpenFileKind, PseudoTerminal, Watch,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

const OF_ITS_OWN: &str = "give the restart a file of its own for that stream (> FILE), or restart it as the other user";
/// `c_cc` of a terminal.
const CONTROL_CHARACTERS: usize = 19;

/// What is found out about files along the way.
pub(super) struct Found<'a> {
    pub(super) regular: Vec<RegularPlan>,
    pub(super) notes: Vec<FileNote>,
    pub(super) remaking: Remaking<'a>,
}

impl Blockers {
    /// Decides what becomes of the open file at `place`.
    pub(super) fn check_file(&mut self, reckoning: &Reckoning<'_>, place: usize, found: &mut Found<'_>) -> FilePlan {
        let job = reckoning.job;
        let file = &job.open_files[place];
        match &file.kind {
            OpenFileKind::Stream { stream, .. } => return FilePlan::Own(*stream as i32),
            OpenFileKind::Regular { file: reference, .. } => {
                return self.check_regular(reckoning, place, reference, found);
            }
            OpenFileKind::Inherited { number, .. } if is_inherited(*number) => return FilePlan::Own(*number),
            OpenFileKind::Inherited { .. } => return FilePlan::PeerClosed,
            OpenFileKind::Device { path, number } => self.check_device(path, *number),
            OpenFileKind::Pipe { pipe } => self.check_pipe(job.pipes.get(*pipe as usize), &mut found.remaking),
            OpenFileKind::Directory { path, position, device, inode } => {
                self.check_directory(path, (*position > 0).then_some((*device, *inode)), &mut found.remaking);
            }
            OpenFileKind::Place { path, mode, .. } => self.check_place(path, mode & libc::S_IFMT, None),
            OpenFileKind::Watches { watches } => {
                watches.iter().for_each(|watch| self.check_watch(watch, &mut found.remaking));
            }
            OpenFileKind::KernelFile { subject, path, .. } => self.check_kernel_file(job, *subject, path),
            _ => {}
        }
        if let Some(missing) = names_what_is_missing(job, file) {
            self.add_impossible(&format!("it verifies, but {missing} that it does not hold"));
        }
        FilePlan::AsRecorded
    }

    /// A stream of the restart may take the place of a regular file; elsewhere it goes on in the recorded file.
    fn check_regular(
        &mut self,
        reckoning: &Reckoning<'_>,
        place: usize,
        reference: &FileReference,
        found: &mut Found<'_>,
    ) -> FilePlan {
        let (how, mut note) = self.choose_stream(reckoning, place, reference);
        if matches!(how, FilePlan::Own(_)) {
            found.notes.extend(note);
            return how;
        }
        let judged = reckoning.judge_open(place, how).and_then(|plan| {
            if let Some(from) = &plan.renamed {
                reckoning.provide_for(reference, &mut found.remaking)?;
                note = Some(FileNote::CopiedBack { path: path_of(reference).to_owned(), from: from.clone() });
            }
            Ok(plan)
        });
        let (how, note) = match judged {
            Ok(plan) => {
                found.regular.push(plan);
                (how, note)
            }
            Err(objection) => match reckoning.instead_of_added_to(place, &objection) {
                Some((own, elsewhere)) => (own, Some(elsewhere)),
                None => {
                    let mut objection = objection;
                    if streams::can_be_redirected(reckoning.job, place) {
                        objection.hint = format!("{}; {}", objection.hint, streams::REDIRECT);
                    }
                    self.add_objection(&format!("file {}", reference.path), objection);
                    (how, note)
                }
            },
        };
        found.notes.extend(note);
        how
    }

    /// Whether a stream of the restart takes the place of a regular file.
    fn choose_stream(
        &mut self,
        reckoning: &Reckoning<'_>,
        place: usize,
        reference: &FileReference,
    ) -> (FilePlan, Option<FileNote>) {
        match as_stream(reckoning.job, place, reckoning.options.streams) {
            (FilePlan::AsRecorded, stays) => match reckoning.instead_of_unopenable(place) {
                Ok((FilePlan::AsRecorded, _)) => (FilePlan::AsRecorded, stays),
                Ok(instead) => instead,
                Err(why) => {
                    let what = format!("file {}", reference.path);
                    self.add(Blocker::new(RefusalCode::Permission, what, why).with_hint(OF_ITS_OWN));
                    (FilePlan::AsRecorded, None)
                }
            },
            known => known,
        }
    }

    fn check_device(&mut self, path: &Bytes, number: u64) {
        let node = std::fs::metadata(Path::new(OsStr::from_bytes(&path.0)));
        if !node.is_ok_and(|node| node.file_type().is_char_device() && node.rdev() == number) {
            let why = "it is not there, or is another device than before";
            self.add(Blocker::new(RefusalCode::PathTaken, format!("device {path}"), why));
        }
    }

    /// What an inotify instance watches must be there, and be the same, or be made again.
    fn check_watch(&mut self, watch: &Watch, remaking: &mut Remaking<'_>) {
        let path = Path::new(OsStr::from_bytes(&watch.path.0));
        let same = match std::fs::metadata(path) {
            Ok(now) => now.dev() != watch.device || now.ino() == watch.inode,
            Err(_) => remaking.provide_empty(path).is_ok(),
        };
        if !same {
            let why = "the program watches it (inotify), and it is gone or another one now";
            self.add_missing(format!("watched file {}", watch.path), why);
        }
    }
}

/// What an open file refers to and the image lacks.
fn names_what_is_missing(job: &JobState, file: &OpenFile) -> Option<&'static str> {
    let lacks = |place: u32, count: usize| place as usize >= count;
    match &file.kind {
        OpenFileKind::Object { object, .. } if lacks(*object, job.objects.len()) => Some("names memory"),
        OpenFileKind::Socket { socket } if lacks(*socket, job.sockets.len()) => Some("names a socket"),
        OpenFileKind::MessageQueue { queue } if lacks(*queue, job.posix_queues.len()) => Some("names a message queue"),
        OpenFileKind::Process { process } if lacks(*process, job.processes.len()) => Some("names a process"),
        OpenFileKind::Master { terminal } | OpenFileKind::Slave { terminal } => {
            let is_whole = |terminal: &PseudoTerminal| terminal.settings.characters.0.len() == CONTROL_CHARACTERS;
            (!job.terminals.get(*terminal as usize).is_some_and(is_whole)).then_some("names a terminal")
        }
        OpenFileKind::Epoll { interests } => {
            let is_sound =
                |interest: &EpollInterest| interest.descriptor >= 0 && !lacks(interest.open_file, job.open_files.len());
            (!interests.iter().all(is_sound)).then_some("watches a file")
        }
        _ => None,
    }
}
