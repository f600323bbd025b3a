//! Restores files that the job does not have open: cuts off what has grown, and moves away new files.
//! [`super::listing`] decides about them.

use super::family::Family;
use super::files::FileNote;
use super::known_names::KnownNames;
use super::listing::{ComePlan, FILES_MAX, ListedPlan, name};
use super::plan::JobPlan;
use super::tails::{KeepTail, Tail};
use crate::error::kernel;
use crate::file_policy::Objection;
use crate::files::FileId;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_linux::abi;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

impl Family {
    /// Returns the files that are the job's, and a note of those that stay because their owner is unknown. Refuses,
    /// before anything is written, if one of the job's files may not be cut back.
    pub(super) fn settle_listed<'a>(
        &self,
        plan: &'a JobPlan<'_>,
        known: &KnownNames<'_>,
    ) -> Result<(Vec<&'a ListedPlan>, Option<FileNote>), EngineError> {
        let is_ours = |listed: &&ListedPlan| listed.may_go() && (!listed.is_doubtful || known.contains(name(listed)));
        let (settled, others): (Vec<_>, Vec<_>) = plan.listed.iter().partition(is_ours);
        let stay = others.into_iter().filter(|listed| listed.cut.is_none() && !listed.is_shared);
        let paths: Vec<_> = stay.map(|listed| listed.path.clone()).collect();
        let stay = (!paths.is_empty()).then_some(FileNote::Stay { paths });
        let objected = settled.iter().filter_map(|listed| Some((listed, listed.against.clone()?)));
        let mut blockers: Vec<_> = objected
            .map(|(listed, Objection { why, hint, .. })| {
                Blocker::new(RefusalCode::FileChanged, format!("file {}", listed.path.display()), why).with_hint(hint)
            })
            .collect();
        if settled.len() > FILES_MAX {
            blockers.push(Blocker::new(RefusalCode::FileChanged, format!("{} files", settled.len()), format!("the program has appended to them since the checkpoint, and the appended parts of at most {FILES_MAX} can be kept")).with_hint("continue with them as they are: standfast restart --files keep"));
        }
        if blockers.is_empty() { Ok((settled, stay)) } else { Err(EngineError::Refused(blockers)) }
    }

    /// Cuts them back and sets them aside; nothing is touched before all of it has been kept. Other parts of a distributed job
    /// may do the same at the same time: what is as it should be already is left alone.
    pub(super) fn cut_back_listed(
        &mut self,
        settled: &[&ListedPlan],
        come: &ComePlan,
        keep: &mut KeepTail<'_>,
    ) -> Result<Vec<FileNote>, EngineError> {
        let mut notes = Vec::new();
        let mut files = Vec::new();
        for listed in settled {
            let path = listed.path.clone();
            let opened = listed.open().map_err(|source| kernel(&format!("opening {}", path.display()), source))?;
            let Some(file) = opened else { continue };
            let start = listed.cut.unwrap_or_default();
            let bytes = listed.length - start;
            let is_removed = listed.cut.is_none();
            let kept = keep(&Tail { path: &path, file: &file, start, bytes, is_whole: true, is_removed })
                .map_err(|source| EngineError::Tail { path: path.display().to_string(), source })?;
            notes.push(match listed.cut {
                Some(_) => FileNote::CutBack { path, bytes, kept, is_whole: true },
                None => FileNote::SetAside { path, kept },
            });
            files.push((listed, file));
        }
        for (listed, file) in files {
            listed
                .cut_back(&file)
                .map_err(|source| kernel(&format!("cutting {} back", listed.path.display()), source))?;
            if let Some(was) = &listed.was {
                self.processes[0].put_time_back(&listed.path, was, &file);
            }
        }
        come.remove(&mut notes);
        Ok(notes)
    }
}

impl ComePlan {
    /// Removes new links and directories. A leftover harms only a program that makes it again.
    fn remove(&self, notes: &mut Vec<FileNote>) {
        for (link, target) in &self.links {
            let is_it = std::fs::read_link(link).is_ok_and(|now| now == *target);
            if is_it && std::fs::remove_file(link).is_ok() {
                notes.push(FileNote::LinkRemoved { path: link.clone(), target: target.clone() });
            }
        }
        for directory in &self.directories {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

impl ListedPlan {
    /// Opens the file that was judged, unless another part has cut it back or set it aside.
    fn open(&self) -> io::Result<Option<File>> {
        let flags = abi::O_NOFOLLOW | abi::O_NONBLOCK | abi::O_NOCTTY;
        match OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.path) {
            Ok(file) => Ok(self.is_to_change(&file)?.then_some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.cut.is_none() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reports whether it is as it was judged, and not yet as it should be.
    fn is_to_change(&self, file: &File) -> io::Result<bool> {
        let status = file.metadata()?;
        if (FileId::of(&status), status.len()) == (self.key, self.length) {
            return Ok(true);
        }
        let is_done = FileId::of(&status) == self.key && Some(status.len()) == self.cut;
        if is_done { Ok(false) } else { Err(io::Error::other("another program is writing to it")) }
    }

    fn cut_back(&self, file: &File) -> io::Result<()> {
        if !self.is_to_change(file)? {
            return Ok(());
        }
        match self.cut {
            Some(length) => file.set_len(length),
            None => match self.path.symlink_metadata() {
                Ok(status) if FileId::of(&status) == self.key => std::fs::remove_file(&self.path),
                Ok(_) => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            },
        }
    }
}
