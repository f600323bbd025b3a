//! Directories in which the job works, listed with each checkpoint. A file that a program appends to by opening, writing and
//! closing it is open at hardly any checkpoint, and nobody unprivileged can tell who has appended to it; a restart knows by
//! the list how long each file was. What the restart does about it is its own business.
//!
//! ```text
//! look ahead   which directories, whether they can be listed within the limits; samples of the files: while the job runs
//! record       all of them once more, while the job stands still; samples of those that have changed since
//! ```

mod directory;
mod unsaved;

use crate::census::Output;
use crate::files::{Digests, FileKey, Haste, Look, TICK_NANOSECONDS, digest_of, open, residents};
use crate::folders::Folders;
use directory::{Budget, home_of, is_common, local_directory};
pub(crate) use directory::{Contents, Entry};
use standfast_format::records::{Bytes, FileIdentity, FileReference, JobState, ListedDirectory, ListedFile};
use standfast_linux::proc::{self, leased_inodes};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
pub(crate) use unsaved::is_database;
use unsaved::{Cover, Unsaved};

/// Names in all directories together. To look at one costs about a microsecond, while the program stands still as well.
const NAMES_MAX: usize = 2000;
/// How much of a processor listing may take where it is tried first, while the program runs.
const LISTING_MAX: Duration = Duration::from_millis(5);
/// A restart is in less of a hurry.
const LISTING_AT_RESTART_MAX: Duration = Duration::from_secs(10);
/// Directories below the working directories are listed as well, so many in all.
const DIRECTORIES_MAX: usize = 100;
/// How long files are read for samples ahead of one checkpoint; what is left over has its turn at the next.
const SAMPLING_MAX: Duration = Duration::from_millis(50);
/// How much is read for samples while the program stands still: 2 MiB take about half a millisecond.
const SAMPLED_BYTES_MAX: u64 = 2 << 20;
/// A longer file is sampled, which costs no more than this.
const SAMPLE_BYTES: u64 = 384 << 10;
/// How long a look for other processes that work in the same directories is good for.
const RESIDENTS_LAST: Duration = Duration::from_secs(60);
/// Files that the job was seen to have open for writing, at most.
const WRITTEN_MAX: usize = 10_000;
/// Files that are made durable with one checkpoint, at most.
const SYNCED_MAX: usize = 64;
/// At how many checkpoints a file from before the job must have grown to be named.
const GROWTHS: u32 = 2;

/// The directories of a job, as last looked at.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    state: Mutex<State>,
    samples: Digests,
}

#[derive(Debug, Default)]
struct State {
    /// When the job began, in nanoseconds since 1970; nothing is listed where that is not known.
    started: Option<i64>,
    chosen: Vec<Chosen>,
    /// Files that processes of the job were seen to have open for writing.
    written: BTreeSet<FileKey>,
    residents: Option<(Instant, BTreeSet<FileKey>, BTreeSet<FileKey>)>,
    growing: HashMap<FileKey, Growing>,
    /// What was recorded last, and what of it had changed by then.
    recorded: Option<HashMap<FileKey, FileIdentity>>,
    changed: Vec<PathBuf>,
    unsaved: Unsaved,
    news: Vec<ListingNews>,
    /// Whether the limits have been said.
    is_limit_told: bool,
}

#[derive(Debug, Clone)]
struct Chosen {
    path: PathBuf,
    is_shared: bool,
}

/// A file from before the job.
#[derive(Debug)]
struct Growing {
    last: FileReference,
    growths: u32,
}

/// What the user should know of a job's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingNews {
    /// A file that existed before the job is being appended to.
    Grows {
        /// The file.
        path: PathBuf,
    },
    /// Files of a database are written in place, and too large to be saved by themselves.
    Database {
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// Programs of the job hand files to each other that are nowhere saved.
    HandedOn {
        /// One of them.
        path: PathBuf,
    },
    /// There is more in a directory than can be listed with each checkpoint.
    TooMuch {
        /// The directory.
        path: PathBuf,
    },
}

/// What a look ahead knows of the job.
pub(crate) struct Outline<'a> {
    /// Its processes, the main process first.
    pub(crate) pids: &'a [i32],
    /// Those whose children are the job's.
    pub(crate) job: &'a [i32],
    /// Files that it has open for writing.
    pub(crate) outputs: &'a BTreeMap<FileKey, Vec<u8>>,
    /// What is saved as a whole, and the job's own directory.
    pub(crate) folders: &'a Folders,
}

impl Listing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has directories listed from now on, of a job that began then.
    pub(crate) fn begin(&self, started_nanoseconds: i64) {
        self.state().started = Some(started_nanoseconds);
    }

    /// What has come to light since this was asked last.
    pub(crate) fn take_news(&self) -> Vec<ListingNews> {
        std::mem::take(&mut self.state().news)
    }

    /// Finds the directories, and reads what is in them.
    pub(crate) fn look_ahead(&self, job: &Outline<'_>) {
        let mut state = self.state();
        let Some(started) = state.started else { return };
        let room = WRITTEN_MAX.saturating_sub(state.written.len());
        state.written.extend(job.outputs.keys().take(room));
        let found = state.choose(job);
        state.chosen = found.iter().map(|(chosen, _)| chosen.clone()).collect();
        let State { unsaved, chosen, news, .. } = &mut *state;
        let cover = |place: &Path| match chosen.iter().find(|chosen| chosen.path == place) {
            _ if is_apart(place, job.folders) => Cover::Whole,
            Some(chosen) if !chosen.is_shared => Cover::Whole,
            Some(_) => Cover::Listed,
            None => Cover::None,
        };
        unsaved.find_handed_on(job, cover, started, news);
        let mut references: Vec<_> = found.iter().flat_map(|(chosen, contents)| referred(chosen, contents)).collect();
        // What has changed in the life of the job comes first, the newest of it before the others.
        references.sort_by_key(|(_, _, reference)| std::cmp::Reverse(reference.identity.changed_nanoseconds));
        let keys: BTreeSet<FileKey> = references.iter().map(|(_, entry, _)| entry.key()).collect();
        self.samples.begin();
        self.samples.keep_only(&keys);
        state.growing.retain(|key, _| keys.contains(key));
        let leased = leased_inodes().unwrap_or_default();
        let deadline = Instant::now() + SAMPLING_MAX;
        for (chosen, entry, reference) in &mut references {
            if Instant::now() < deadline && !leased.contains(&reference.identity.inode) {
                self.samples.fill(reference, Look::reading(Haste::Samples));
            }
            if !chosen.is_shared && is_older(entry.born_nanoseconds, started) {
                state.follow_growth(reference, job.outputs);
            }
        }
    }

    /// All that is in these directories while the job stands still.
    pub(crate) fn record(&self) -> Option<Vec<ListedDirectory>> {
        let mut state = self.state();
        state.started?;
        let mut identities = HashMap::new();
        let mut budget = Budget::new(2 * NAMES_MAX, 2 * LISTING_MAX);
        let mut bytes_left = SAMPLED_BYTES_MAX;
        let leased = leased_inodes().unwrap_or_default();
        let listed = state.chosen.iter().filter_map(|chosen| {
            let status = std::fs::metadata(&chosen.path).ok()?;
            let contents = Contents::within(&chosen.path, &mut budget).ok().flatten()?;
            let files = referred(chosen, &contents).into_iter().map(|(_, entry, mut reference)| {
                if !self.samples.fill_known(&mut reference) {
                    let cost = reference.length.min(SAMPLE_BYTES);
                    if cost <= bytes_left && !leased.contains(&reference.identity.inode) {
                        bytes_left -= cost;
                        self.samples.fill(&mut reference, Look::reading(Haste::Samples));
                    }
                }
                let path = Path::new(OsStr::from_bytes(&reference.path.0));
                let is_written = state.written.contains(&entry.key());
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
            Some(ListedDirectory {
                path: bytes(chosen.path.as_os_str()),
                device: status.dev(),
                inode: status.ino(),
                is_shared: chosen.is_shared,
                files: files.collect(),
                others: contents.directories.iter().chain(&contents.others).map(|name| bytes(name)).collect(),
            })
        });
        let listed = listed.collect();
        state.note_changed(identities);
        Some(listed)
    }

    /// Takes note of what a checkpoint with these records does not save.
    pub(crate) fn note_unsaved(&self, state: &JobState) {
        self.state().unsaved.note(state);
    }

    /// Looks at what the last checkpoint did not save, while the program runs.
    pub(crate) fn judge_unsaved(&self) {
        let State { unsaved, news, .. } = &mut *self.state();
        unsaved.judge_open(news);
    }

    /// Files that have changed between the last two records, opened for reading: what the program has appended to them must
    /// be as durable as the checkpoint that counts on it.
    pub(crate) fn changed(&self) -> Vec<Output> {
        let opened = |path: PathBuf| File::open(&path).ok().map(|file| Output { path, file });
        std::mem::take(&mut self.state().changed).into_iter().filter_map(opened).collect()
    }
}

impl State {
    /// The directories that can be listed within the limits, with what is in them now: working directories and those of
    /// files that are open for writing, then what lies below them.
    fn choose(&mut self, job: &Outline<'_>) -> Vec<(Chosen, Contents)> {
        let home = job.pids.first().and_then(|pid| home_of(*pid));
        let mut waiting: VecDeque<(PathBuf, usize)> =
            first_directories(job).into_iter().map(|path| (path, 0)).collect();
        let working = working_directories(job);
        let mut budget = Budget::new(NAMES_MAX, LISTING_MAX);
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        while let Some((path, depth)) = waiting.pop_front() {
            let Some(status) = local_directory(&path) else { continue };
            if is_apart(&path, job.folders) || !seen.insert((status.dev(), status.ino())) {
                continue;
            }
            if seen.len() > DIRECTORIES_MAX {
                break;
            }
            // Where the job merely has a log open, the others there are hardly its own.
            let is_shared = is_common(&path, &status, home.as_deref()) || depth == 0 && !working.contains(&path);
            match Contents::within(&path, &mut budget) {
                Ok(Some(contents)) => {
                    let below = contents.directories.iter().filter(|name| depth == 0 && !is_shared && is_plain(name));
                    waiting.extend(below.map(|name| (path.join(name), depth + 1)));
                    found.push(((Chosen { path, is_shared }), (status.dev(), status.ino()), contents));
                }
                Ok(None) => {
                    if !is_shared && depth == 0 && !std::mem::replace(&mut self.is_limit_told, true) {
                        self.news.push(ListingNews::TooMuch { path });
                    }
                    break;
                }
                Err(_) => {}
            }
        }
        let keys: BTreeSet<FileKey> = found.iter().map(|(_, key, _)| *key).collect();
        let lived_in = self.residents_of(&keys, job.job);
        let settled = found.into_iter().map(|(chosen, key, contents)| {
            let is_shared = chosen.is_shared || lived_in.contains(&key);
            (Chosen { is_shared, ..chosen }, contents)
        });
        settled.collect()
    }

    fn note_changed(&mut self, now: HashMap<FileKey, (PathBuf, FileIdentity)>) {
        let before = self.recorded.replace(now.iter().map(|(key, (_, identity))| (*key, *identity)).collect());
        let has_changed = |key: &FileKey, identity: &FileIdentity| match &before {
            Some(before) => before.get(key) != Some(identity),
            // What is older has been there before the job, and is as durable as anything.
            None => self.started.is_some_and(|started| identity.changed_nanoseconds >= started),
        };
        let changed = now.into_iter().filter(|(key, (_, identity))| has_changed(key, identity));
        self.changed = changed.map(|(_, (path, _))| path).take(SYNCED_MAX).collect();
    }

    fn residents_of(&mut self, keys: &BTreeSet<FileKey>, job: &[i32]) -> BTreeSet<FileKey> {
        let last = self.residents.take();
        let last = last.filter(|(at, of, _)| at.elapsed() < RESIDENTS_LAST && of.is_superset(keys));
        let (_, _, found) =
            self.residents.insert(last.unwrap_or_else(|| (Instant::now(), keys.clone(), residents(keys, job))));
        found.clone()
    }

    /// Notes whether a file from before the job has been appended to since it was looked at last.
    fn follow_growth(&mut self, now: &FileReference, outputs: &BTreeMap<FileKey, Vec<u8>>) {
        let key = (now.identity.device, now.identity.inode);
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

/// Working directories, and those of the files that the job has open for writing.
fn first_directories(job: &Outline<'_>) -> Vec<PathBuf> {
    let working = working_directories(job);
    let of_outputs = job.outputs.values().filter_map(|output| Path::new(OsStr::from_bytes(output)).parent());
    let mut all: Vec<_> = working.into_iter().chain(of_outputs.map(Path::to_owned)).collect();
    let mut seen = BTreeSet::new();
    all.retain(|path| path.is_absolute() && seen.insert(path.clone()));
    all
}

/// Whether a directory goes with the job as a whole, or holds its checkpoints.
fn is_apart(path: &Path, folders: &Folders) -> bool {
    folders.paths.iter().chain(&folders.except).any(|folder| path.starts_with(folder))
}

/// Hidden directories hold what programs keep for themselves; those of jobs are the supervisors'.
pub(crate) fn is_plain(name: &OsStr) -> bool {
    let name = name.as_bytes();
    !name.starts_with(b".") && !name.ends_with(b".standfast")
}

/// Whether a file was there before the job began. One of which that is not known counts as old.
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
