//! Files that the job appends to without holding them open. What was added since the checkpoint is cut off, so that the
//! job writes it once and not twice. This file decides by what the checkpoint listed of their directories, and acts
//! when the whole job has been rebuilt.
//!
//! ```text
//! listed, longer, below as it was    appended to: cut back, unless somebody else may have done it
//! listed, below not as it was        written again from its beginning, as it will be once more: left alone
//! listed, of a database, changed     written in place, and would be once more: refused
//! not listed, created since          set aside, if the job knows its name, or the user asked for that; else left alone
//! ```

use super::files::{FileNote, Reckoning, as_path, in_use, is_own_stream};
use super::folders::saves_written;
use super::plan::JobPlan;
use crate::file_policy::{FilePolicy, Objection};
use crate::files::{FileId, TICK_NANOSECONDS, digest_of, is_database, open};
use crate::folders::{holds_checkpoints, is_of_programs, is_plain};
use crate::listing::{Contents, Entry, is_older};
use standfast_format::records::{FileIdentity, JobState, ListedDirectory, ListedFile};
use standfast_linux::sys::process;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most files of one restart that are cut back or set aside: each is kept. No more are listed.
pub(super) const FILES_MAX: usize = 2000;
/// The most entries that are examined in new directories.
const COME_NAMES_MAX: usize = 2000;
const CHOICE: &str = "cut it back (the truncated end is kept): standfast restart --files rollback; continue with it as it is: --files keep";

/// A file that has grown or is new since the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedPlan {
    pub(super) path: PathBuf,
    /// Its present identity.
    pub(super) key: FileId,
    pub(super) length: u64,
    /// Its length at the checkpoint; `None` if it did not exist.
    pub(super) cut: Option<u64>,
    /// Its former identity, if cutting it back restores that.
    pub(super) was: Option<FileIdentity>,
    /// Whether it is the job's only if the job knows its name.
    pub(super) is_doubtful: bool,
    /// Whether others are likely to write in its directory.
    pub(super) is_shared: bool,
    /// The objection to cutting it back, if it is the job's.
    pub(super) against: Option<Objection>,
}

/// The contents of a directory at the checkpoint, and now.
#[derive(Debug)]
pub(super) struct ListedNow<'a> {
    was: &'a ListedDirectory,
    now: Contents,
    /// The contents of new directories, by their paths below it.
    below: Vec<(PathBuf, Contents)>,
}

/// Entries that are removed together with the files that are set aside.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ComePlan {
    /// Symbolic links, which are removed, with their targets.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Directories, which are removed if they are empty by then; parents come after their children.
    pub(super) directories: Vec<PathBuf>,
}

/// Returns the listed directories in their present state. Directories that are gone or were replaced do not matter.
/// `is_deep` also examines everything below new directories, and not only what is directly in them.
pub(super) fn scan<'a>(listed: Option<&'a [ListedDirectory]>, is_deep: bool) -> Vec<ListedNow<'a>> {
    let paths: BTreeSet<&[u8]> = listed.unwrap_or_default().iter().map(|was| was.path.0.as_slice()).collect();
    let found = |was: &'a ListedDirectory| {
        let path = as_path(&was.path);
        let status = path.metadata().ok()?;
        let is_same = FileId::of(&status) == FileId { device: was.device, inode: was.inode };
        if !is_same || holds_checkpoints(path) {
            return None;
        }
        let now = Contents::of(path).ok()?;
        let is_deep = is_deep && !was.is_shared;
        let is_looked_into = |name: &OsStr| if is_deep { is_of_programs(name) } else { is_plain(name) };
        let known = names(was);
        let mut waiting: Vec<_> = now.directories.iter().filter(|name| !known.contains(name.as_bytes())).collect();
        waiting.retain(|name| is_looked_into(name) && !paths.contains(path.join(name).as_os_str().as_bytes()));
        let mut waiting: Vec<PathBuf> = waiting.into_iter().map(PathBuf::from).collect();
        let mut below = Vec::new();
        let mut names_left = COME_NAMES_MAX;
        while let Some(place) = waiting.pop() {
            let place_path = path.join(&place);
            if holds_checkpoints(&place_path) {
                continue;
            }
            let Ok(contents) = Contents::of(&place_path) else { continue };
            let names = contents.files.len() + contents.other_names().count();
            if names > names_left {
                break;
            }
            names_left -= names;
            let deeper = contents.directories.iter().filter(|name| is_deep && is_looked_into(name));
            waiting.extend(deeper.map(|name| place.join(name)));
            below.push((place, contents));
        }
        Some(ListedNow { was, below, now })
    };
    listed.unwrap_or_default().iter().filter_map(found).collect()
}

/// Returns the names of all that was in a directory.
fn names(was: &ListedDirectory) -> BTreeSet<&[u8]> {
    was.files.iter().map(|file| &file.name).chain(&was.others).map(|name| name.0.as_slice()).collect()
}

impl<'a> ListedNow<'a> {
    /// Returns files that still exist, with their former state.
    fn same(&self) -> impl Iterator<Item = (&'a ListedFile, &Entry)> {
        self.was.files.iter().filter_map(|file| {
            let now = self.now.files.get(OsStr::from_bytes(&file.name.0))?;
            (now.key() == FileId::of_identity(&file.identity)).then_some((file, now))
        })
    }

    /// Returns those that are longer than they were.
    fn grown(&self) -> impl Iterator<Item = (&'a ListedFile, &Entry)> {
        self.same().filter(|(was, now)| now.length > was.length)
    }

    /// Returns new files, by their paths below the directory.
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

    /// Returns the path of an entry that `name_in` finds in it, or in new directories below it.
    pub(super) fn find(&self, name_in: &impl Fn(&Contents) -> Option<OsString>) -> Option<PathBuf> {
        let path = as_path(&self.was.path);
        let below = || self.below.iter().find_map(|(place, contents)| Some(path.join(place).join(name_in(contents)?)));
        name_in(&self.now).map(|name| path.join(name)).or_else(below)
    }

    /// Returns new symbolic links and new directories.
    fn come(&self, is_created: impl Fn(&Entry) -> bool) -> ComePlan {
        let known = names(self.was);
        let path = as_path(&self.was.path);
        let here = self.now.links.iter().filter(|(name, _)| !known.contains(name.as_bytes()));
        let mut links: Vec<_> = here.map(|(name, now)| (path.join(name), now)).collect();
        let mut directories = Vec::new();
        for (place, contents) in self.below.iter().rev() {
            links.extend(contents.links.iter().map(|(name, now)| (path.join(place).join(name), now)));
            directories.push(path.join(place));
        }
        let links = links.into_iter().filter(|(_, now)| is_created(now));
        let links = links.filter_map(|(path, _)| Some((path.clone(), std::fs::read_link(path).ok()?)));
        ComePlan { links: links.collect(), directories }
    }

    /// Returns the files that are judged one by one.
    pub(super) fn keys(&self) -> impl Iterator<Item = FileId> + '_ {
        self.grown().map(|(_, now)| now.key()).chain(self.created().into_iter().map(|(_, now)| now.key()))
    }
}

impl Reckoning<'_> {
    /// Decides about files that have grown or are new since the checkpoint.
    pub(super) fn judge_listed(&self) -> Vec<ListedPlan> {
        if self.options.policy == FilePolicy::Keep {
            return Vec::new();
        }
        let known = in_use(self.job);
        let saved = saved_paths(self.job);
        let files = self.listed.iter().flat_map(|directory| &directory.was.files);
        let there: HashMap<FileId, Option<i64>> =
            files.map(|it| (FileId::of_identity(&it.identity), it.born_nanoseconds)).collect();
        // The inode number of a removed file goes to the next file that is made, which is another one.
        let is_same = |now: &Entry| match there.get(&now.key()) {
            Some(born) => born.is_none() || *born == now.born_nanoseconds,
            None => now.born_nanoseconds.is_none_or(|born| born <= self.taken().saturating_add(TICK_NANOSECONDS)),
        };
        let is_in_use = |now: &Entry| known.contains(&now.key()) && is_same(now);
        let mut plans = Vec::new();
        for directory in &self.listed {
            let path = as_path(&directory.was.path);
            // An open file that was removed, and made again by an earlier restart, may have its old inode number. It is
            // judged where it is open.
            let is_open = |was: &ListedFile| known.contains(&FileId::of_identity(&was.identity));
            for (was, now) in directory.same().filter(|(was, _)| !is_open(was)) {
                let path = path.join(OsStr::from_bytes(&was.name.0));
                if !saved.contains(&path) {
                    plans.extend(self.judge_same(directory.was, &path, was, now));
                }
            }
            // A file that existed under another name is not new.
            let was_there = |now: &Entry| is_in_use(now) || there.contains_key(&now.key()) && is_same(now);
            for (name, now) in directory.created().into_iter().filter(|(_, now)| !was_there(now)) {
                plans.extend(self.judge_new(directory.was, &path.join(name), now));
            }
        }
        plans
    }

    /// Reports whether the user has declared all new files in a directory the job's, if they may be the job's at all.
    fn are_claimed(&self, directory: &ListedDirectory) -> bool {
        let is_asked = match self.options.policy {
            FilePolicy::Rollback => true,
            FilePolicy::Auto => saves_written(self.job),
            FilePolicy::Keep | FilePolicy::Refuse => false,
        };
        is_asked && !directory.is_shared
    }

    /// Returns files that have changed, though all that the job writes in their directories was to be saved. They had
    /// not been written yet, or were too long.
    pub(super) fn changed_unsaved(&self) -> Option<FileNote> {
        let (in_use, saved) = (in_use(self.job), saved_paths(self.job));
        let is_ours =
            |directory: &&ListedNow<'_>| self.options.policy == FilePolicy::Auto && self.are_claimed(directory.was);
        let mut paths = Vec::new();
        for directory in self.listed.iter().filter(is_ours) {
            for was in &directory.was.files {
                let name = OsStr::from_bytes(&was.name.0);
                let path = as_path(&directory.was.path).join(name);
                let is_other = in_use.contains(&FileId::of_identity(&was.identity)) || saved.contains(&path);
                let is_changed = directory.now.files.get(name).is_none_or(|now| {
                    let is_touched = now.identity.modified_nanoseconds != was.identity.modified_nanoseconds;
                    // A file that has only grown is cut back, or refuses the restart.
                    let has_only_grown =
                        || now.length > was.length && !matches!(is_unchanged_below(&path, was), Ok(Some(false)));
                    is_touched && !has_only_grown()
                });
                if !is_other && is_changed {
                    paths.push(path);
                }
            }
        }
        (!paths.is_empty()).then_some(FileNote::ChangedUnsaved { paths })
    }

    /// Returns new links and directories in those directories whose new files are set aside.
    pub(super) fn judge_come(&self) -> ComePlan {
        let mut all = ComePlan::default();
        for directory in self.listed.iter().filter(|directory| self.are_claimed(directory.was)) {
            let come = directory.come(|now| self.is_created(now));
            all.links.extend(come.links);
            all.directories.extend(come.directories);
        }
        all
    }

    /// Decides about a file that still exists and is not open.
    fn judge_same(
        &self,
        directory: &ListedDirectory,
        path: &Path,
        was: &ListedFile,
        now: &Entry,
    ) -> Option<ListedPlan> {
        let is_changed = now.identity.modified_nanoseconds != was.identity.modified_nanoseconds;
        if is_changed && is_database(path.as_os_str().as_bytes()) {
            return Some(changed_database(directory, path, was, now));
        }
        if now.length > was.length { self.judge_grown(directory, path, was, now) } else { None }
    }

    fn judge_grown(
        &self,
        directory: &ListedDirectory,
        path: &Path,
        was: &ListedFile,
        now: &Entry,
    ) -> Option<ListedPlan> {
        let is_unchanged = is_unchanged_below(path, was).ok()?;
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
            is_shared: directory.is_shared,
            against: against.map(|it| Objection::new(why(it), CHOICE)),
        })
    }

    /// Decides about a new file, which is set aside if the job has created it. It must be a file of this user that was
    /// created since the checkpoint, and not moved there.
    fn judge_new(&self, directory: &ListedDirectory, path: &Path, now: &Entry) -> Option<ListedPlan> {
        let is_claimed = self.are_claimed(directory);
        // An empty file counts if it is put back with all that the job has written.
        let is_something = now.length > 0 || is_claimed && saves_written(self.job);
        let is_ours = self.is_created(now) && is_something && !is_own_stream(now.key());
        let is_wanted = self.options.policy != FilePolicy::Refuse && is_ours;
        // With an objection it stays, and harms only a program that appends to it.
        let against = || self.later_writer(path, now).map(|why| Objection::new(why, ""));
        is_wanted.then(|| ListedPlan {
            path: path.to_owned(),
            key: now.key(),
            length: now.length,
            cut: None,
            was: None,
            is_doubtful: !is_claimed,
            is_shared: directory.is_shared,
            against: against(),
        })
    }

    /// Reports whether this user created an entry since the checkpoint.
    fn is_created(&self, now: &Entry) -> bool {
        let is_new = |born: i64| born >= self.taken().saturating_sub(TICK_NANOSECONDS);
        now.born_nanoseconds.is_some_and(is_new) && now.owner == process::effective_user()
    }

    /// Returns when the checkpoint was taken.
    pub(super) fn taken(&self) -> i64 {
        i64::try_from(self.job.clocks.realtime_nanoseconds).unwrap_or(i64::MAX)
    }

    /// Returns why somebody else has written to a file, or may be about to.
    fn later_writer(&self, path: &Path, now: &Entry) -> Option<String> {
        let is_own = is_own_stream(now.key());
        let foreign = path.metadata().ok().and_then(|status| self.foreign_writer(None, &status, is_own));
        foreign.or_else(|| self.late_writer(&now.identity))
    }

    /// Returns why somebody else must have written to a file in this state after the end of the job, if that end was
    /// observed.
    pub(super) fn late_writer(&self, now: &FileIdentity) -> Option<String> {
        let is_own = is_own_stream(FileId { device: now.device, inode: now.inode });
        let ended = self.options.ended_nanoseconds.filter(|_| !is_own);
        let is_late = ended.is_some_and(|end| now.modified_nanoseconds > end.saturating_add(TICK_NANOSECONDS));
        is_late.then(|| "another program has written to it since the program ended".to_owned())
    }
}

impl ListedPlan {
    /// Reports whether it is settled if it is the job's.
    pub(super) fn may_go(&self) -> bool {
        self.cut.is_some() || self.against.is_none()
    }
}

impl JobPlan<'_> {
    /// Returns the names of files that are the job's only if it knows them.
    pub(super) fn names_in_doubt(&self) -> impl Iterator<Item = &[u8]> {
        let listed = self.listed.iter().filter(|listed| listed.is_doubtful && listed.may_go());
        listed.map(name).chain(self.doubtful_names())
    }
}

/// Reports whether a file that is not shorter than before has the same contents up to its former length, if that is
/// known.
fn is_unchanged_below(path: &Path, was: &ListedFile) -> io::Result<Option<bool>> {
    match was.digest {
        _ if was.length == 0 => Ok(Some(true)),
        Some(digest) => {
            let file = open(path.as_os_str().as_bytes())?;
            Ok(Some(digest_of(&file, was.length, digest.coverage)? == digest))
        }
        None => Ok(None),
    }
}

/// Refuses a file of a database that programs of the job open and close again: nobody can take back what they have
/// written.
fn changed_database(directory: &ListedDirectory, path: &Path, was: &ListedFile, now: &Entry) -> ListedPlan {
    let why = "it belongs to an SQLite database, the program did not have it open at the checkpoint, and it has been written to since";
    let hint = "put back all files of the database as they were at the checkpoint; or start again with them saved: standfast run \
                --fresh --save-folder auto; continue with it as it is: standfast restart --files keep";
    ListedPlan {
        path: path.to_owned(),
        key: now.key(),
        length: now.length,
        cut: Some(was.length),
        was: None,
        is_doubtful: directory.is_shared && !was.is_written,
        is_shared: directory.is_shared,
        against: Some(Objection::new(why, hint)),
    }
}

/// Returns the last part of the path of a file.
pub(super) fn name(listed: &ListedPlan) -> &[u8] {
    listed.path.file_name().unwrap_or_default().as_bytes()
}

/// Returns the files whose contents are in the image because the job was seen to write them.
fn saved_paths(job: &JobState) -> BTreeSet<PathBuf> {
    let parts = job.folders.iter().filter(|folder| folder.is_part == Some(true));
    parts
        .flat_map(|folder| folder.entries.iter().map(|entry| as_path(&folder.path).join(as_path(&entry.name))))
        .collect()
}
