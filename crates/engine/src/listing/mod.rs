//! Directories in which the job works, listed with each checkpoint. Some programs append to a file by opening, writing
//! and closing it. Such a file is open at hardly any checkpoint, and no unprivileged process can tell who appended to
//! it. From the list, a restart knows how long each file was. What it does about that is not decided here.
//!
//! ```text
//! look ahead   which directories, whether they can be listed within the limits; samples of the files: while the job runs
//! record       all of them once more, while the job is frozen; samples of those that have changed since
//! ```

mod directory;
mod unsaved;
mod written;

use crate::files::{Digests, FileId, Haste, Scan, TICK_NANOSECONDS, digest_of, open, residents};
use crate::folders::{Folders, holds_checkpoints, is_of_programs, is_plain};
use crate::outputs::Output;
use directory::{Budget, born, home_of, is_common, local_directory};
pub(crate) use directory::{Contents, Entry};
use standfast_format::records::{Bytes, FileIdentity, FileReference, JobState, ListedDirectory, ListedFile};
use standfast_linux::Pid;
use standfast_linux::proc::{self, leased_inodes};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use unsaved::{Cover, Unsaved};
pub use written::NotSaved;
pub(crate) use written::{FILE_BYTES_MAX, WrittenFolder};

/// Number of names in all directories together. Inspecting one costs about a microsecond, also while the program is
/// frozen.
const NAMES_MAX: usize = 2000;
/// How much processor time listing may take when it is first tried, while the program runs.
const LISTING_MAX: Duration = Duration::from_millis(5);
/// The limit at a restart, which is in less of a hurry.
const LISTING_AT_RESTART_MAX: Duration = Duration::from_secs(10);
/// Total number of directories, including those below the working directories.
const DIRECTORIES_MAX: usize = 100;
/// How long files are sampled ahead of one checkpoint; the rest is sampled before the next one.
const SAMPLING_MAX: Duration = Duration::from_millis(50);
/// How many bytes are sampled while the program is frozen: 2 MiB take about half a millisecond.
const SAMPLED_BYTES_MAX: u64 = 2 << 20;
/// A longer file is sampled, which costs no more than this.
const SAMPLE_BYTES: u64 = 384 << 10;
/// How long a look for other processes that work in the same directories stays valid.
const RESIDENTS_LAST: Duration = Duration::from_secs(60);
/// Maximum number of files that the job was seen to have open for writing.
const WRITTEN_MAX: usize = 10_000;
/// Maximum number of files that are made durable with one checkpoint.
const SYNCED_MAX: usize = 64;
/// Number of checkpoints at which a file older than the job must have grown before it is reported.
const GROWTHS: u32 = 2;

/// The directories of a job, as of the last look.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    state: Mutex<State>,
    samples: Digests,
}

#[derive(Debug, Default)]
struct State {
    /// When the job began, in nanoseconds since 1970. If this is unknown, nothing is listed.
    started: Option<i64>,
    chosen: Vec<Chosen>,
    /// Files that processes of the job were seen to have open for writing, with their creation times, since the number
    /// of a deleted file is given to the next one.
    written: BTreeMap<FileId, Option<i64>>,
    residents: Option<(Instant, BTreeSet<FileId>, BTreeSet<FileId>)>,
    growing: HashMap<FileId, Growing>,
    /// What was recorded last.
    recorded: Option<HashMap<FileId, FileIdentity>>,
    changed: Vec<PathBuf>,
    unsaved: Unsaved,
    news: Vec<ListingNews>,
    /// Whether exceeding the limits has been reported.
    is_limit_reported: bool,
    /// What has been reported as not saved.
    reported: BTreeSet<PathBuf>,
    /// Directories in which programs of the job have been handed files.
    handed_on_in: BTreeSet<PathBuf>,
    /// Inodes of files with leases, as of the last look ahead that read a file. To list them takes 10 ms or more.
    leased: BTreeSet<u64>,
}

#[derive(Debug, Clone)]
struct Chosen {
    path: PathBuf,
    is_shared: bool,
}

/// A file that is older than the job.
#[derive(Debug)]
struct Growing {
    last: FileReference,
    growths: u32,
}

/// What the user should know about a job's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingNews {
    /// A file that existed before the job is being appended to.
    Grows {
        /// The file.
        path: PathBuf,
    },
    /// Files of a database are written in place, and are too large to be saved unless that is requested.
    Database {
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// Programs of the job open a database, write to it and close it again.
    ClosedDatabase {
        /// The file.
        path: PathBuf,
    },
    /// A file that was open for writing at a checkpoint, and is not saved, has disappeared since.
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// Programs of the job hand files to each other that are not saved anywhere.
    HandedOn {
        /// One of them.
        path: PathBuf,
    },
    /// Files that the job writes are not saved, although that was requested.
    NotSaved {
        /// A file or a directory.
        path: PathBuf,
        /// Why they are not.
        why: NotSaved,
    },
    /// A directory holds more than can be listed with each checkpoint.
    TooMuch {
        /// The directory.
        path: PathBuf,
    },
}

/// A directory as it is while the job is frozen.
pub(crate) struct Listed {
    chosen: Chosen,
    status: Metadata,
    contents: Contents,
}

/// A walk through directories.
struct Walk<'a> {
    job: &'a Outline<'a>,
    home: Option<PathBuf>,
    working: Vec<PathBuf>,
    seen: BTreeSet<FileId>,
    found: Vec<(Chosen, FileId, Contents)>,
}

/// What a look ahead knows about the job.
pub(crate) struct Outline<'a> {
    /// Its processes, the main process first.
    pub(crate) pids: &'a [Pid],
    /// Processes whose children belong to the job.
    pub(crate) job: &'a [Pid],
    /// Files that it has open for writing.
    pub(crate) outputs: &'a BTreeMap<FileId, Vec<u8>>,
    /// Folders that are saved completely, and the job's own directory.
    pub(crate) folders: &'a Folders,
}

impl Listing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes later checkpoints list directories, for a job that began at `started_nanoseconds`.
    pub(crate) fn begin(&self, started_nanoseconds: i64) {
        self.state().started = Some(started_nanoseconds);
    }

    /// Returns the findings since the last call.
    pub(crate) fn take_news(&self) -> Vec<ListingNews> {
        std::mem::take(&mut self.state().news)
    }

    /// Finds the directories, and reads what is in them.
    pub(crate) fn prefetch(&self, job: &Outline<'_>) {
        let mut state = self.state();
        let Some(started) = state.started else { return };
        state.note_written(job.outputs);
        let found = state.choose(job);
        state.chosen = found.iter().map(|(chosen, _)| chosen.clone()).collect();
        let State { unsaved, chosen, news, .. } = &mut *state;
        let cover = |place: &Path| match chosen.iter().find(|chosen| chosen.path == place) {
            _ if is_apart(place, job.folders) => Cover::Whole,
            Some(chosen) if job.folders.saves_written || !chosen.is_shared => Cover::Whole,
            Some(_) => Cover::Listed,
            None => Cover::None,
        };
        unsaved.find_gone(news);
        unsaved.find_handed_on(job, cover, started, news);
        let mut references: Vec<_> = found.iter().flat_map(|(chosen, contents)| referred(chosen, contents)).collect();
        // What has changed during the life of the job comes first, the newest files before the others.
        references.sort_by_key(|(_, _, reference)| std::cmp::Reverse(reference.identity.changed_nanoseconds));
        let keys: BTreeSet<FileId> = references.iter().map(|(_, entry, _)| entry.key()).collect();
        self.samples.begin();
        self.samples.keep_only(&keys);
        state.growing.retain(|key, _| keys.contains(key));
        if !job.folders.saves_written {
            let is_open = |file: &FileId| job.outputs.contains_key(file);
            let closed = references.iter().filter(|(chosen, entry, _)| !chosen.is_shared && !is_open(&entry.key()));
            let closed: Vec<_> = closed.map(|(_, _, reference)| reference).collect();
            let State { unsaved, news, .. } = &mut *state;
            unsaved.judge_closed(&closed, news);
        }
        if !references.iter_mut().all(|(_, _, reference)| self.samples.fill_known(reference)) {
            state.leased = leased_inodes().unwrap_or_default();
        }
        let deadline = Instant::now() + SAMPLING_MAX;
        for (chosen, entry, reference) in &mut references {
            if Instant::now() < deadline && !state.leased.contains(&reference.identity.inode) {
                self.samples.fill(reference, Scan::reading(Haste::Samples));
            }
            // Saved files are put back, whoever has written them.
            let is_asked_for = !chosen.is_shared && !job.folders.saves_written;
            if is_asked_for && is_older(entry.born_nanoseconds, started) {
                state.follow_growth(reference, job.outputs);
            }
        }
    }

    /// Lists everything in these directories while the job is frozen. If files that the job writes are saved, this
    /// includes directories that have appeared since the look ahead.
    pub(crate) fn list(&self, folders: &Folders) -> Option<Vec<Listed>> {
        let state = self.state();
        state.started?;
        let mut budget = Budget::new(2 * NAMES_MAX, 2 * LISTING_MAX);
        let mut known: BTreeSet<PathBuf> = state.chosen.iter().map(|chosen| chosen.path.clone()).collect();
        let mut waiting: VecDeque<Chosen> = state.chosen.iter().cloned().collect();
        let mut found = Vec::new();
        while let Some(chosen) = waiting.pop_front() {
            let Ok(status) = std::fs::metadata(&chosen.path) else { continue };
            let Some(contents) = Contents::within(&chosen.path, &mut budget).ok().flatten() else { continue };
            for name in contents.directories.iter().filter(|_| folders.saves_written && !chosen.is_shared) {
                let path = chosen.path.join(name);
                let is_wanted = is_of_programs(name) && !is_apart(&path, folders) && known.len() < DIRECTORIES_MAX;
                if is_wanted && known.insert(path.clone()) {
                    let Some(status) = local_directory(&path) else { continue };
                    let is_shared = is_common(&path, &status, None);
                    waiting.push_back(Chosen { path, is_shared });
                }
            }
            found.push(Listed { chosen, status, contents });
        }
        Some(found)
    }

    /// Turns the lists into records.
    pub(crate) fn record(&self, listed: Option<Vec<Listed>>) -> Option<Vec<ListedDirectory>> {
        let listed = listed?;
        let mut state = self.state();
        let mut identities = HashMap::new();
        let mut bytes_left = SAMPLED_BYTES_MAX;
        let recorded = listed.iter().map(|Listed { chosen, status, contents }| {
            let files = referred(chosen, contents).into_iter().map(|(_, entry, mut reference)| {
                if !self.samples.fill_known(&mut reference) {
                    let cost = reference.length.min(SAMPLE_BYTES);
                    if cost <= bytes_left && !state.leased.contains(&reference.identity.inode) {
                        bytes_left -= cost;
                        self.samples.fill(&mut reference, Scan::reading(Haste::Samples));
                    }
                }
                let path = Path::new(OsStr::from_bytes(&reference.path.0));
                let is_written = state.has_written(entry);
                if !chosen.is_shared || is_written {
                    identities.insert(entry.key(), (path.to_owned(), entry.identity));
                }
                ListedFile {
                    name: bytes(path.file_name().unwrap_or_default()),
                    length: entry.length,
                    identity: entry.identity,
                    born_nanoseconds: entry.born_nanoseconds,
                    digest: reference.digest,
                    is_written,
                }
            });
            ListedDirectory {
                path: bytes(chosen.path.as_os_str()),
                device: status.dev(),
                inode: status.ino(),
                is_shared: chosen.is_shared,
                files: files.collect(),
                others: contents.other_names().map(|name| bytes(name)).collect(),
            }
        });
        let recorded = recorded.collect();
        state.note_changed(identities);
        Some(recorded)
    }

    /// Notes what a checkpoint with these records does not save.
    pub(crate) fn note_unsaved(&self, state: &JobState) {
        self.state().unsaved.note(state);
    }

    /// Inspects what the last checkpoint did not save, while the program runs.
    pub(crate) fn judge_unsaved(&self) {
        let State { unsaved, news, .. } = &mut *self.state();
        unsaved.judge_open(news);
    }

    /// Returns files that have changed between the last two records, opened for reading. What the program has appended
    /// to them must be as durable as the checkpoint that relies on it.
    pub(crate) fn changed(&self) -> Vec<Output> {
        let opened = |path: PathBuf| File::open(&path).ok().map(|file| Output { path, file });
        std::mem::take(&mut self.state().changed).into_iter().filter_map(opened).collect()
    }
}

impl State {
    fn note_written(&mut self, outputs: &BTreeMap<FileId, Vec<u8>>) {
        for (key, path) in outputs {
            let status = std::fs::metadata(OsStr::from_bytes(path)).ok();
            let Some(status) = status.filter(|it| FileId::of(it) == *key) else { continue };
            if self.written.len() < WRITTEN_MAX || self.written.contains_key(key) {
                self.written.insert(*key, born(&status));
            }
        }
    }

    /// Reports whether a process of the job was seen to have a file open for writing.
    fn has_written(&self, entry: &Entry) -> bool {
        self.written.get(&entry.key()).is_some_and(|born| *born == entry.born_nanoseconds)
    }

    /// Returns the directories that can be listed within the limits, with their present contents. These are working
    /// directories, directories of files that are open for writing, and then what is directly below them. If files that
    /// the job writes are saved, they include everything below, and directories for temporary files.
    fn choose(&mut self, job: &Outline<'_>) -> Vec<(Chosen, Contents)> {
        let mut walk = Walk {
            job,
            home: job.pids.first().and_then(|pid| home_of(*pid)),
            working: working_directories(job),
            seen: BTreeSet::new(),
            found: Vec::new(),
        };
        self.walk(&mut walk, first_directories(job));
        if job.folders.saves_written {
            let temporary = self.temporary_directories(job);
            self.walk(&mut walk, temporary);
        }
        let keys: BTreeSet<FileId> = walk.found.iter().map(|(_, key, _)| *key).collect();
        let lived_in = self.residents_of(&keys, job.job);
        let settled = walk.found.into_iter().map(|(chosen, key, contents)| {
            let is_shared = chosen.is_shared || lived_in.contains(&key);
            (Chosen { is_shared, ..chosen }, contents)
        });
        let settled: Vec<_> = settled.collect();
        for (chosen, _) in settled.iter().filter(|(chosen, _)| chosen.is_shared && walk.working.contains(&chosen.path))
        {
            self.note_unlisted(job, &chosen.path, NotSaved::Shared);
        }
        settled
    }

    /// Lists these directories and what is below them, hidden ones last, since those may hold much that does not matter.
    fn walk(&mut self, walk: &mut Walk<'_>, first: Vec<PathBuf>) {
        let job = walk.job;
        let saves_written = job.folders.saves_written;
        let mut waiting: VecDeque<(PathBuf, usize)> = first.into_iter().map(|path| (path, 0)).collect();
        let mut hidden: VecDeque<(PathBuf, usize)> = VecDeque::new();
        let mut budget = Budget::new(NAMES_MAX, LISTING_MAX);
        while let Some((path, depth)) = waiting.pop_front().or_else(|| hidden.pop_front()) {
            let Some(status) = local_directory(&path) else {
                self.note_unlisted(job, &path, NotSaved::Elsewhere);
                continue;
            };
            if is_apart(&path, job.folders) || !walk.seen.insert(FileId::of(&status)) {
                continue;
            }
            if walk.seen.len() > DIRECTORIES_MAX {
                self.note_unlisted(job, &path, NotSaved::TooMuch);
                break;
            }
            // If the job merely has a log open there, the other files are hardly its own.
            let is_common = is_common(&path, &status, walk.home.as_deref());
            let is_shared = is_common || depth == 0 && !walk.working.contains(&path);
            match Contents::within(&path, &mut budget) {
                Ok(Some(contents)) => {
                    for name in contents.directories.iter().filter(|_| !is_shared && (depth == 0 || saves_written)) {
                        match is_plain(name) {
                            true => waiting.push_back((path.join(name), depth + 1)),
                            false if saves_written && is_of_programs(name) => {
                                hidden.push_back((path.join(name), depth + 1));
                            }
                            false => {}
                        }
                    }
                    walk.found.push((Chosen { path, is_shared }, FileId::of(&status), contents));
                }
                Ok(None) => {
                    let is_reported = saves_written || is_shared || depth > 0 || self.is_limit_reported;
                    self.note_unlisted(job, &path, NotSaved::TooMuch);
                    if !is_reported {
                        self.is_limit_reported = true;
                        self.news.push(ListingNews::TooMuch { path });
                    }
                    break;
                }
                Err(_) => {}
            }
        }
    }

    fn note_changed(&mut self, now: HashMap<FileId, (PathBuf, FileIdentity)>) {
        let before = self.recorded.replace(now.iter().map(|(key, (_, identity))| (*key, *identity)).collect());
        let has_changed = |key: &FileId, identity: &FileIdentity| match &before {
            Some(before) => before.get(key) != Some(identity),
            // Older files existed before the job, and are as durable as anything.
            None => self.started.is_some_and(|started| identity.changed_nanoseconds >= started),
        };
        let changed = now.into_iter().filter(|(key, (_, identity))| has_changed(key, identity));
        self.changed = changed.map(|(_, (path, _))| path).take(SYNCED_MAX).collect();
    }

    fn residents_of(&mut self, keys: &BTreeSet<FileId>, job: &[Pid]) -> BTreeSet<FileId> {
        let last = self.residents.take();
        let last = last.filter(|(at, of, _)| at.elapsed() < RESIDENTS_LAST && of.is_superset(keys));
        let (_, _, found) =
            self.residents.insert(last.unwrap_or_else(|| (Instant::now(), keys.clone(), residents(keys, job))));
        found.clone()
    }

    /// Notes whether a file older than the job has been appended to since the last look.
    fn follow_growth(&mut self, now: &FileReference, outputs: &BTreeMap<FileId, Vec<u8>>) {
        let key = FileId::of_reference(now);
        let growing = self.growing.entry(key).or_insert_with(|| Growing { last: now.clone(), growths: 0 });
        let last = std::mem::replace(&mut growing.last, now.clone());
        if now.length <= last.length || outputs.contains_key(&key) {
            return;
        }
        let is_as_it_was = last.digest.is_some_and(|was| {
            let found = open(&now.path.0).and_then(|file| digest_of(&file, last.length, was.coverage));
            found.is_ok_and(|found| found == was)
        });
        if is_as_it_was {
            growing.growths += 1;
            if growing.growths == GROWTHS {
                self.news.push(ListingNews::Grows { path: OsStr::from_bytes(&now.path.0).into() });
            }
        }
    }
}

fn working_directories(job: &Outline<'_>) -> Vec<PathBuf> {
    let path = |link: Vec<u8>| PathBuf::from(OsStr::from_bytes(&link));
    job.pids.iter().filter_map(|pid| proc::link(*pid, "cwd").ok()).map(path).collect()
}

/// Returns the working directories, and those of the files that the job has open for writing.
fn first_directories(job: &Outline<'_>) -> Vec<PathBuf> {
    let working = working_directories(job);
    let of_outputs = job.outputs.values().filter_map(|output| Path::new(OsStr::from_bytes(output)).parent());
    let mut all: Vec<_> = working.into_iter().chain(of_outputs.map(Path::to_owned)).collect();
    let mut seen = BTreeSet::new();
    all.retain(|path| path.is_absolute() && seen.insert(path.clone()));
    all
}

/// Reports whether a directory is saved with the job completely, or holds checkpoints.
fn is_apart(path: &Path, folders: &Folders) -> bool {
    folders.paths.iter().chain(&folders.except).any(|folder| path.starts_with(folder)) || holds_checkpoints(path)
}

/// Reports whether a file existed before the job began. A file of unknown age counts as old.
pub(crate) fn is_older(born_nanoseconds: Option<i64>, started_nanoseconds: i64) -> bool {
    born_nanoseconds.is_none_or(|born| born < started_nanoseconds.saturating_sub(TICK_NANOSECONDS))
}

fn referred<'a>(chosen: &'a Chosen, contents: &'a Contents) -> Vec<(&'a Chosen, &'a Entry, FileReference)> {
    let reference = |(name, entry): (&OsString, &'a Entry)| {
        let path = bytes(chosen.path.join(name).as_os_str());
        let (length, identity) = (entry.length, entry.identity);
        (chosen, entry, FileReference { path, length, identity, ..FileReference::default() })
    };
    contents.files.iter().map(reference).collect()
}

fn bytes(text: &OsStr) -> Bytes {
    text.as_bytes().into()
}
