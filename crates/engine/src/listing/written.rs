//! Files that the job was seen to write. Checkpoints save their contents if that was requested: those in the listed
//! directories that have changed since the job began. In a directory that others write to as well, these files are
//! candidates: a restart puts back those whose names the job knows.

use super::unsaved::created_arguments;
use super::{Listed, Listing, ListingNews, Outline, State, is_older};
use crate::files::{FileId, TICK_NANOSECONDS};
use standfast_linux::proc;
use standfast_linux::sys::process;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longer files are not saved, since a changed file is read again completely while the job is frozen.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of candidates in directories that others write to as well; the newest are taken.
const CANDIDATES_MAX: usize = 64;
/// The default directory for temporary files, and the variable that overrides it.
const TEMPORARY: &[u8] = b"/tmp";
const VARIABLE: &[u8] = b"TMPDIR=";
/// Maximum number of directories for temporary files.
const TEMPORARY_MAX: usize = 16;
/// Maximum number of paths that are reported as not saved.
const REPORTED_MAX: usize = 20;

/// Why something that the job writes, or may write, is not saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSaved {
    /// The directory holds too much.
    TooMuch,
    /// It is on another machine.
    Elsewhere,
    /// Others use the directory as well: only files whose names the job knows are put back.
    Shared,
    /// The file is too long.
    TooLong,
    /// The file has several names.
    Linked,
    /// The file cannot be read.
    Unreadable,
}

/// What to save of a directory.
pub(crate) struct WrittenFolder<'a> {
    pub(crate) path: &'a Path,
    /// The directory itself, if it is the job's own.
    pub(crate) own: Option<&'a Metadata>,
    pub(crate) names: Vec<&'a OsStr>,
}

impl Listing {
    /// Returns what to save of these directories, except files in `others`, which are handled elsewhere. `held` are
    /// files that the job has open for any purpose.
    pub(crate) fn written<'a>(
        &self,
        listed: &'a [Listed],
        others: &BTreeSet<FileId>,
        held: &BTreeSet<FileId>,
    ) -> Vec<WrittenFolder<'a>> {
        let mut state = self.state();
        let Some(started) = state.started else { return Vec::new() };
        let mut folders = Vec::new();
        let mut candidates = Vec::new();
        for (place, Listed { chosen, status, contents }) in listed.iter().enumerate() {
            let links = contents.links.iter().filter(|_| !chosen.is_shared);
            let mut names = Vec::new();
            for (name, entry) in contents.files.iter().chain(links) {
                let is_changed = entry.identity.changed_nanoseconds >= started.saturating_sub(TICK_NANOSECONDS);
                let is_ours = entry.owner == process::effective_user();
                if !is_changed || !is_ours || others.contains(&entry.key()) {
                    continue;
                }
                let is_unsure = chosen.is_shared && !state.has_written(entry);
                if is_unsure && is_older(entry.born_nanoseconds, started) {
                    continue;
                }
                let is_candidate = is_unsure && !held.contains(&entry.key());
                let why = match (entry.links, entry.length) {
                    (2.., _) => Some(NotSaved::Linked),
                    (_, length) if length > FILE_BYTES_MAX => Some(NotSaved::TooLong),
                    _ => None,
                };
                match why {
                    Some(_) if is_candidate => {}
                    Some(why) => state.report(&chosen.path.join(name), why),
                    None if is_candidate => candidates.push((entry.identity.changed_nanoseconds, place, name)),
                    None => names.push(name.as_os_str()),
                }
            }
            let own = Some(status).filter(|_| !chosen.is_shared);
            folders.push(WrittenFolder { path: &chosen.path, own, names });
        }
        candidates.sort_unstable();
        for (_, place, name) in candidates.into_iter().rev().take(CANDIDATES_MAX) {
            folders[place].names.push(name);
        }
        folders
    }

    /// Reports that files are not saved, each of them once.
    pub(crate) fn report_not_saved(&self, paths: &[PathBuf], why: NotSaved) {
        let mut state = self.state();
        paths.iter().for_each(|path| state.report(path, why));
    }
}

impl State {
    fn report(&mut self, path: &Path, why: NotSaved) {
        if self.reported.len() < REPORTED_MAX && self.reported.insert(path.to_owned()) {
            self.news.push(ListingNews::NotSaved { path: path.to_owned(), why });
        }
    }

    /// Reports that a directory is not saved as requested.
    pub(super) fn note_unlisted(&mut self, job: &Outline<'_>, path: &Path, why: NotSaved) {
        if job.folders.saves_written && path.is_dir() {
            self.report(path, why);
        }
    }

    /// Returns directories in which the job's programs put temporary files, or were seen to be handed files.
    pub(super) fn temporary_directories(&mut self, job: &Outline<'_>) -> Vec<PathBuf> {
        let started = self.started.unwrap_or(i64::MAX);
        let mut named = BTreeSet::new();
        for pid in job.pids {
            let environment = proc::read(*pid, "environ").unwrap_or_default();
            let said = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(VARIABLE));
            named.insert(PathBuf::from(OsStr::from_bytes(said.unwrap_or(TEMPORARY))));
            let arguments = created_arguments(*pid, started);
            let places = arguments.iter().filter_map(|argument| argument.path.parent()).map(Path::to_owned);
            let room = TEMPORARY_MAX.saturating_sub(self.handed_on_in.len());
            self.handed_on_in.extend(places.take(room));
        }
        let all = named.into_iter().take(TEMPORARY_MAX).chain(self.handed_on_in.iter().cloned());
        all.filter(|path| path.is_absolute()).filter_map(|path| path.canonicalize().ok()).collect()
    }
}
