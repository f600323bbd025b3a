//! Files that the job appends to without holding them open: what has come of them since the checkpoint is cut off, so that
//! the job writes it again once and not twice. Decides by what the checkpoint listed of their directories, and acts when
//! all of the job has been rebuilt.
//!
//! ```text
//! listed, longer, below as it was    appended to: cut back, unless it may be somebody else's doing
//! listed, below not as it was        written again from its beginning, as it will be once more: left alone
//! not listed, created since          set aside, if the job knows its name; else left alone
//! ```

use super::family::Family;
use super::files::{FileNote, FilePolicy, Objection, Reckoning, as_path, in_use, is_own_stream};
use super::names::NamesInMemory;
use super::plan::JobPlan;
use super::tails::{KeepTail, Tail};
use crate::files::{FileKey, TICK_NANOSECONDS, digest_of, open};
use crate::freeze::kernel;
use crate::listing::{Contents, Entry, is_older, is_plain};
use crate::{EngineError, Obstacle};
use standfast_format::records::{FileIdentity, ListedDirectory, ListedFile};
use standfast_linux::sys::process;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Files of one restart that are cut back or set aside: each is kept, and so many fit beside an image.
const FILES_MAX: usize = 64;
const CHOICE: &str = "to cut it back, what is cut off being kept: standfast restart --files rollback; to go on with it as it is: --files keep";

/// A file that has grown or come since the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedPlan {
    path: PathBuf,
    /// What it is now.
    key: FileKey,
    length: u64,
    /// How long it was at the checkpoint; `None` where it was not there.
    cut: Option<u64>,
    /// What it was, where it is that again when it has been cut back.
    was: Option<FileIdentity>,
    /// Whether it is the job's only if the job knows its name.
    is_doubtful: bool,
    /// What speaks against cutting it back, if it is the job's.
    against: Option<Objection>,
}

/// What a directory was at the checkpoint, and what is in it now.
#[derive(Debug)]
pub(super) struct ListedNow<'a> {
    was: &'a ListedDirectory,
    now: Contents,
    /// What is in directories that have come since.
    below: Vec<(PathBuf, Contents)>,
}

/// The listed directories as they are now; those that are gone, or other ones, are nobody's business.
pub(super) fn look<'a>(listed: Option<&'a [ListedDirectory]>) -> Vec<ListedNow<'a>> {
    let found = |was: &'a ListedDirectory| {
        let path = as_path(&was.path);
        let status = path.metadata().ok()?;
        let is_same = (status.dev(), status.ino()) == (was.device, was.inode);
        let now = is_same.then(|| Contents::of(path))?.ok()?;
        let known = names(was);
        let come = now.directories.iter().filter(|name| !known.contains(name.as_bytes()) && is_plain(name));
        let below = come.filter_map(|name| Some((PathBuf::from(name), Contents::of(&path.join(name)).ok()?)));
        Some(ListedNow { was, below: below.collect(), now })
    };
    listed.unwrap_or_default().iter().filter_map(found).collect()
}

/// All that was in a directory.
fn names(was: &ListedDirectory) -> BTreeSet<&[u8]> {
    was.files.iter().map(|file| &file.name).chain(&was.others).map(|name| name.0.as_slice()).collect()
}

impl<'a> ListedNow<'a> {
    /// Files that are longer than they were, with what they were.
    fn grown(&self) -> impl Iterator<Item = (&'a ListedFile, &Entry)> {
        self.was.files.iter().filter_map(|file| {
            let now = self.now.files.get(OsStr::from_bytes(&file.name.0))?;
            let is_same = now.key() == (file.identity.device, file.identity.inode);
            (is_same && now.length > file.length).then_some((file, now))
        })
    }

    /// Files that were not there, by their paths below the directory.
    fn created(&self) -> Vec<(PathBuf, &Entry)> {
        let known = names(self.was);
        let here = self.now.files.iter().filter(|(name, _)| !known.contains(name.as_bytes()));
        let here = here.map(|(name, now)| (PathBuf::from(name), now));
        let mut all: Vec<(PathBuf, &Entry)> = here.collect();
        for (place, contents) in &self.below {
            all.extend(contents.files.iter().map(|(name, now)| (place.join(name), now)));
        }
        all
    }

    /// The files that are judged one by one.
    pub(super) fn keys(&self) -> impl Iterator<Item = FileKey> + '_ {
        self.grown().map(|(_, now)| now.key()).chain(self.created().into_iter().map(|(_, now)| now.key()))
    }
}

impl Reckoning<'_> {
    /// What becomes of files that have grown or come since the checkpoint.
    pub(super) fn judge_listed(&self) -> Vec<ListedPlan> {
        if self.options.policy == FilePolicy::Keep {
            return Vec::new();
        }
        let known = in_use(self.job);
        // What was there under another name has not been created since.
        let files = self.listed.iter().flat_map(|directory| &directory.was.files);
        let there: BTreeSet<FileKey> = files.map(|it| (it.identity.device, it.identity.inode)).collect();
        let mut plans = Vec::new();
        for directory in &self.listed {
            let path = as_path(&directory.was.path);
            for (was, now) in directory.grown().filter(|(_, now)| !known.contains(&now.key())) {
                plans.extend(self.judge_grown(directory.was, &path.join(OsStr::from_bytes(&was.name.0)), was, now));
            }
            let is_new = |now: &Entry| !known.contains(&now.key()) && !there.contains(&now.key());
            for (name, now) in directory.created().into_iter().filter(|(_, now)| is_new(now)) {
                plans.extend(self.judge_new(&path.join(name), now));
            }
        }
        plans
    }

    fn judge_grown(
        &self,
        directory: &ListedDirectory,
        path: &Path,
        was: &ListedFile,
        now: &Entry,
    ) -> Option<ListedPlan> {
        let is_unchanged = match was.digest {
            _ if was.length == 0 => Some(true),
            Some(digest) => {
                let found =
                    open(path.as_os_str().as_bytes()).and_then(|it| digest_of(&it, was.length, digest.coverage));
                Some(found.ok()? == digest)
            }
            None => None,
        };
        if is_unchanged == Some(false) {
            return None;
        }
        let grown = now.length - was.length;
        let against = match self.options.policy {
            FilePolicy::Rollback | FilePolicy::Keep => None,
            FilePolicy::Refuse => Some("--files refuse was asked for".to_owned()),
            FilePolicy::Auto => self.later_writer(path, now).or_else(|| {
                let is_old = is_older(was.born_nanoseconds, self.options.started_nanoseconds);
                if is_old {
                    Some("it existed before the program was started, so that others may have written to it".to_owned())
                } else if is_unchanged.is_none() {
                    Some("what it held at the checkpoint could not be recorded".to_owned())
                } else {
                    None
                }
            }),
        };
        let why = |why| {
            format!(
                "the program did not have it open at the checkpoint, it has grown by {grown} bytes since, and {why}"
            )
        };
        Some(ListedPlan {
            path: path.to_owned(),
            key: now.key(),
            length: now.length,
            cut: Some(was.length),
            was: is_unchanged.map(|_| was.identity),
            is_doubtful: directory.is_shared && !was.is_written,
            against: against.map(|it| Objection::new(why(it), CHOICE)),
        })
    }

    /// A file that was not there is set aside where the job has created it. It must be a file of this user's that has come
    /// into being since, and was not moved there.
    fn judge_new(&self, path: &Path, now: &Entry) -> Option<ListedPlan> {
        let taken = i64::try_from(self.job.clocks.realtime_nanoseconds).unwrap_or(i64::MAX);
        let is_created = now.born_nanoseconds.is_some_and(|born| born >= taken.saturating_sub(TICK_NANOSECONDS));
        let is_ours = now.owner == process::effective_user() && now.links == 1 && now.length > 0;
        let is_wanted = self.options.policy != FilePolicy::Refuse && is_created && is_ours && !is_own_stream(now.key());
        (is_wanted && self.later_writer(path, now).is_none()).then(|| ListedPlan {
            path: path.to_owned(),
            key: now.key(),
            length: now.length,
            cut: None,
            was: None,
            is_doubtful: true,
            against: None,
        })
    }

    /// Why somebody else has written to a file, or may be about to.
    fn later_writer(&self, path: &Path, now: &Entry) -> Option<String> {
        let is_own = is_own_stream(now.key());
        let foreign = path.metadata().ok().and_then(|status| self.foreign_writer(None, &status, is_own));
        let ended = self.options.ended_nanoseconds.filter(|_| !is_own);
        let is_late = ended.is_some_and(|end| now.identity.modified_nanoseconds > end.saturating_add(TICK_NANOSECONDS));
        foreign.or_else(|| is_late.then(|| "somebody else has written to it since the program ended".to_owned()))
    }
}

impl Family {
    /// Those of the files that are the job's. Refuses, before anything is written, where one of them may not be cut back.
    pub(super) fn settle_listed<'a>(&self, plan: &'a JobPlan<'_>) -> Result<Vec<&'a ListedPlan>, EngineError> {
        let name = |listed: &'a ListedPlan| listed.path.file_name().unwrap_or_default().as_bytes();
        let doubtful = plan.listed.iter().filter(|listed| listed.is_doubtful);
        let known = NamesInMemory::find(self, plan, doubtful.map(name).collect());
        let settled: Vec<_> =
            plan.listed.iter().filter(|listed| !listed.is_doubtful || known.contains(name(listed))).collect();
        let objected = settled.iter().filter_map(|listed| Some((listed, listed.against.clone()?)));
        let mut obstacles: Vec<_> = objected
            .map(|(listed, Objection { why, remedy, .. })| Obstacle {
                what: format!("file {}", listed.path.display()),
                why,
                remedy,
                passing: false,
            })
            .collect();
        if settled.len() > FILES_MAX {
            obstacles.push(Obstacle {
                what: format!("{} files", settled.len()),
                why: format!("the program has appended to them since the checkpoint, and what {FILES_MAX} of them have grown by can be kept"),
                remedy: "to go on with them as they are: standfast restart --files keep".to_owned(),
                passing: false,
            });
        }
        if obstacles.is_empty() { Ok(settled) } else { Err(EngineError::Refused(obstacles)) }
    }

    /// Cuts them back and sets them aside; nothing is touched before all of it has been kept.
    pub(super) fn cut_back_listed(
        &mut self,
        settled: &[&ListedPlan],
        keep: &mut KeepTail<'_>,
    ) -> Result<Vec<FileNote>, EngineError> {
        let mut notes = Vec::new();
        let mut files = Vec::new();
        for listed in settled {
            let path = listed.path.clone();
            let file = listed.open().map_err(|source| kernel(&format!("opening {}", path.display()), source))?;
            let start = listed.cut.unwrap_or_default();
            let bytes = listed.length - start;
            let kept = keep(&Tail { path: &path, file: &file, start, bytes, is_whole: true })
                .map_err(|source| EngineError::Tail { path: path.display().to_string(), source })?;
            notes.push(match listed.cut {
                Some(_) => FileNote::CutBack { path, bytes, kept, is_whole: true },
                None => FileNote::SetAside { path, kept },
            });
            files.push(file);
        }
        for (listed, file) in settled.iter().zip(files) {
            listed
                .cut_back(&file)
                .map_err(|source| kernel(&format!("cutting {} back", listed.path.display()), source))?;
            if let Some(was) = &listed.was {
                self.processes[0].put_time_back(&listed.path, was, &file);
            }
        }
        Ok(notes)
    }
}

impl ListedPlan {
    /// Opens the file that was judged.
    fn open(&self) -> io::Result<File> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.path)?;
        self.check(&file)?;
        Ok(file)
    }

    fn check(&self, file: &File) -> io::Result<()> {
        let status = file.metadata()?;
        let is_same = (status.dev(), status.ino(), status.len()) == (self.key.0, self.key.1, self.length);
        let changed = || io::Error::other("somebody else writes to it at this moment");
        if is_same { Ok(()) } else { Err(changed()) }
    }

    fn cut_back(&self, file: &File) -> io::Result<()> {
        self.check(file)?;
        match self.cut {
            Some(length) => file.set_len(length),
            None => {
                let status = self.path.symlink_metadata()?;
                let is_there = (status.dev(), status.ino()) == self.key;
                if is_there { std::fs::remove_file(&self.path) } else { Ok(()) }
            }
        }
    }
}
