//! Decides about each open file of a job that is rebuilt.

use super::files::{FileNote, Reckoning, path_of};
use super::streams::{self, as_stream};
use crate::inheritance::is_inherited;
use crate::objects::{Blockers, Check, FilePlan, RegularPlan};
use crate::remake::Remaking;
use crate::{Blocker, RefusalCode};
use standfast_format::records::{FileReference, OpenFileKind};

const OF_ITS_OWN: &str = "give the restart a file of its own for that stream (> FILE), or restart it as the other user";

/// Findings about files along the way.
pub(super) struct Found<'a> {
    pub(super) regular: Vec<RegularPlan>,
    pub(super) notes: Vec<FileNote>,
    pub(super) remaking: Remaking<'a>,
}

impl Blockers {
    /// Decides about the open file at `place`.
    pub(super) fn check_file<'j>(
        &mut self,
        reckoning: &Reckoning<'j>,
        place: usize,
        found: &mut Found<'j>,
    ) -> FilePlan {
        let job = reckoning.job;
        let file = &job.open_files[place];
        match &file.kind {
            OpenFileKind::Stream { stream, .. } => FilePlan::Own(*stream as i32),
            OpenFileKind::Regular { file: reference, .. } => self.check_regular(reckoning, place, reference, found),
            OpenFileKind::Inherited { number, .. } if is_inherited(*number) => FilePlan::Own(*number),
            OpenFileKind::Inherited { .. } => FilePlan::PeerClosed,
            _ => {
                Check { job, blockers: self, remaking: &mut found.remaking }.open_file(file);
                FilePlan::AsRecorded
            }
        }
    }

    /// Decides about a regular file. A stream of the restart may take its place; else the program continues in the
    /// recorded file.
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

    /// Decides whether a stream of the restart takes the place of a regular file.
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
}
