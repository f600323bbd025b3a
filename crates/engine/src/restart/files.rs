//! Decides about the files that a job depends on: whether each is unchanged, and what is to be cut off those that have
//! grown. Looks, and touches nothing.
//!
//! ```text
//! what it held at the checkpoint   unchanged: by the kernel's word (inode, times, length), else by its digest
//! what it has grown by             the job's own, unless another writer was seen or must have written; then by policy
//! ```

use super::folders::{Part, parts, saves_written};
use super::listing::{ListedNow, scan};
pub use super::notes::FileNote;
use super::streams::Streams;
use crate::file_policy::{FilePolicy, Objection};
use crate::files::{FileId, build_id, digest_of, identity, is_database, is_fresh, open, other_writers, times_tell_at};
use crate::folders::in_folders;
use crate::objects::{FilePlan, NamesPlan, RegularPlan, judge_names};
use standfast_format::manifest::FileEnd;
use standfast_format::records::{Bytes, Coverage, FileReference, JobState, OpenFile, OpenFileKind};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::sys::process;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const O_ACCMODE: u32 = abi::O_ACCMODE as u32;
const O_WRONLY: u32 = abi::O_WRONLY as u32;
const O_APPEND: u32 = abi::O_APPEND as u32;
const KEEP: &str = "continue with it as it is: standfast restart --files keep";

/// What a restart knows about files, and how it is to treat them.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileOptions<'a> {
    /// What to do about differences.
    pub policy: FilePolicy,
    /// The files that the job wrote, as they were when it ended; empty if nothing observed the end.
    pub ends: &'a [FileEnd],
    /// The job's own directory, which never counts as a part of its folders.
    pub own_directory: Option<&'a Path>,
    /// Where standard output and error continue.
    pub streams: Streams,
    /// When the job began, in nanoseconds since 1970.
    pub started_nanoseconds: i64,
    /// When it ended, if something observed it.
    pub ended_nanoseconds: Option<i64>,
    /// The processes of the job, if it is still running: this is a rehearsal then, and they are no strangers.
    pub alive: &'a [Pid],
}

/// The files of a job in their present state.
pub(super) struct Reckoning<'a> {
    pub(super) job: &'a JobState,
    pub(super) options: FileOptions<'a>,
    /// The files in folders of the job, as they were known at the checkpoint.
    pub(super) in_folders: BTreeSet<FileId>,
    /// For memory objects that are files which the job was seen to write: whose they are.
    pub(super) parts: HashMap<usize, Part>,
    /// What to do about the names of files that had several.
    pub(super) names: BTreeMap<FileId, NamesPlan>,
    /// The directories that the checkpoint listed, in their present state.
    pub(super) listed: Vec<ListedNow<'a>>,
    /// The files that the job has open or mapped, and who else writes to them.
    others: OnceCell<(BTreeSet<FileId>, HashMap<FileId, String>)>,
}

impl<'a> Reckoning<'a> {
    pub(super) fn new(job: &'a JobState, options: FileOptions<'a>) -> Self {
        // Files that stay as they are need no check.
        let listed = job.listed.as_deref().filter(|_| options.policy != FilePolicy::Keep);
        let listed = scan(listed, saves_written(job));
        let names = judge_names(job, options.policy);
        Self { job, options, in_folders: in_folders(job), parts: parts(job), names, listed, others: OnceCell::new() }
    }

    /// Returns how the open file at `place` continues.
    pub(super) fn judge_open(&self, place: usize, how: FilePlan) -> Result<RegularPlan, Objection> {
        let open = &self.job.open_files[place];
        let OpenFileKind::Regular { file, offset, other_writer } = &open.kind else {
            unreachable!("only regular files are judged");
        };
        let path = match how {
            FilePlan::OwnFile(stream) => PathBuf::from(format!("/proc/self/fd/{stream}")),
            _ => self.path_now(file).to_owned(),
        };
        let is_saved = self.is_in_image(file);
        if is_saved && self.options.policy != FilePolicy::Refuse && !path.exists() {
            return Ok(RegularPlan { place, offset: *offset, cut: None, judged: None, renamed: None });
        }
        let now = match find(&path) {
            Err(gone) if is_free(&path) => return self.judge_renamed(place, file, gone),
            found => found?,
        };
        let judged = Some(FileId::of(&now));
        let unmoved = RegularPlan { place, offset: *offset, cut: None, judged, renamed: None };
        if self.is_in_folder(file) {
            return Ok(unmoved);
        }
        let grown = now.len().saturating_sub(file.length);
        match self.options.policy {
            FilePolicy::Keep if self.is_written_at_its_end(file) && *offset == file.length => {
                return Ok(RegularPlan { offset: now.len(), ..unmoved });
            }
            FilePolicy::Keep => return Ok(unmoved),
            FilePolicy::Refuse if grown > 0 => {
                return Err(Objection::new(format!("it has grown by {grown} bytes since the checkpoint"), KEEP));
            }
            _ => {}
        }
        if now.len() < file.length && !is_saved {
            let why = format!(
                "it has {} bytes, but had {} at the checkpoint (the program's offset was {offset}): some of it is lost",
                now.len(),
                file.length
            );
            return Err(Objection::new(why, "put the missing part back, or redirect with >> instead of >"));
        }
        self.check_content(file, &path, &now)?;
        if grown == 0 || open.flags & O_ACCMODE == 0 {
            return Ok(unmoved);
        }
        if self.options.policy == FilePolicy::Auto
            && let Some(who) = self.foreign_writer(other_writer.as_ref(), &now, matches!(how, FilePlan::OwnFile(_)))
        {
            let why = format!("it has grown by {grown} bytes since the checkpoint, and {who}");
            let hint =
                format!("cut it back anyway (the truncated end is kept): standfast restart --files rollback; {KEEP}");
            return Err(Objection { is_addition: true, ..Objection::new(why, hint) });
        }
        Ok(RegularPlan { cut: Some(file.length), ..unmoved })
    }

    /// Returns how an open file continues that its name no longer leads to, as `gone` says.
    fn judge_renamed(&self, place: usize, file: &FileReference, gone: Objection) -> Result<RegularPlan, Objection> {
        let OpenFileKind::Regular { offset, .. } = self.job.open_files[place].kind else { return Err(gone) };
        let is_wanted = self.options.policy != FilePolicy::Refuse;
        let Some(from) = self.renamed(file).filter(|_| is_wanted) else { return Err(gone) };
        let now = find(&from)?;
        let elsewhere = |why| format!("it has been renamed to {} since, and {why}", from.display());
        if now.len() < file.length {
            return Err(Objection { why: elsewhere("is shorter now".to_owned()), ..gone });
        }
        self.check_content(file, &from, &now).map_err(|it| Objection { why: elsewhere(it.why), ..it })?;
        Ok(RegularPlan { place, offset, cut: None, judged: None, renamed: Some(from) })
    }

    /// Checks whether a mapped or executed file is unchanged.
    pub(super) fn judge_mapped(&self, file: &FileReference) -> Result<(), Objection> {
        let path = path_of(file);
        // A file that one process has mapped for writing, and others for reading, is made again.
        let is_put_back = self.is_in_image(file) && !self.is_executed(file);
        if is_put_back && self.options.policy != FilePolicy::Refuse && !path.exists() {
            return Ok(());
        }
        let now = find(path)?;
        if now.len() < file.length && !is_put_back {
            let why = format!("it has {} bytes, but had {} at the checkpoint", now.len(), file.length);
            return Err(Objection::new(with_versions(why, file), "put the old version back"));
        }
        self.check_content(file, path, &now).map_err(|it| Objection { why: with_versions(it.why, file), ..it })
    }

    /// Reports whether a copy of a file has the same contents as the file at the checkpoint, every byte of it.
    pub(super) fn is_copy(file: &FileReference, copy: &Path) -> bool {
        let Some(recorded) = file.digest.filter(|digest| digest.coverage == Coverage::Whole) else { return false };
        let same = || {
            let opened = open(copy.as_os_str().as_bytes())?;
            let length = opened.metadata()?.len();
            Ok::<_, std::io::Error>(length == file.length && digest_of(&opened, length, Coverage::Whole)? == recorded)
        };
        same().unwrap_or(false)
    }

    /// Reports whether a process executes a file, which can be put back only while nobody does.
    fn is_executed(&self, file: &FileReference) -> bool {
        self.job.processes.iter().any(|process| process.executable.path == file.path)
    }

    /// Checks that the contents of the file at the checkpoint are still there, unless they are put back. A program that
    /// has been replaced meanwhile continues with a copy.
    fn check_content(&self, file: &FileReference, path: &Path, now: &Metadata) -> Result<(), Objection> {
        if self.is_in_image(file) && !self.is_executed(file) {
            return Ok(());
        }
        let taken = i64::try_from(self.job.clocks.realtime_nanoseconds).unwrap_or(i64::MAX);
        let is_untouched = identity(now) == file.identity && now.len() == file.length;
        let times_tell = times_tell_at(path);
        if is_untouched && times_tell && !is_fresh(&file.identity, taken) {
            return Ok(());
        }
        let at_its_end = self.is_written_at_its_end(file);
        let Some(recorded) = file.digest else {
            let why = "it has been touched since the checkpoint, and what it held could not be recorded";
            return if is_untouched || at_its_end { Ok(()) } else { Err(Objection::new(why, KEEP)) };
        };
        let unreadable =
            |error| Objection::new(format!("it has been touched since, and cannot be read ({error})"), KEEP);
        let opened = open(path.as_os_str().as_bytes()).map_err(unreadable)?;
        let found = digest_of(&opened, file.length, recorded.coverage).map_err(unreadable)?;
        if found != recorded {
            let why = "what it held at the checkpoint has been changed since";
            return Err(Objection::new(why, hint_for_changed(file)));
        }
        let is_only_touched =
            now.len() == file.length && identity(now).modified_nanoseconds == file.identity.modified_nanoseconds;
        if recorded.coverage == Coverage::Whole || at_its_end {
            return Ok(());
        }
        if is_only_touched {
            let why = format!(
                "with {} bytes it was too large to be recorded whole, and on this file system writes through a mapping change no times: whether it was changed is unknown",
                file.length
            );
            let hint = format!("have such files saved: standfast run --save-files={}; {KEEP}", file.length);
            return if times_tell || !self.is_written(file) { Ok(()) } else { Err(Objection::new(why, hint)) };
        }
        let why = format!(
            "it was written to since the checkpoint, and with {} bytes it was too large to be recorded whole",
            file.length
        );
        Err(Objection::new(why, KEEP))
    }

    /// Reports whether the job had the file open or mapped for writing at the checkpoint.
    fn is_written(&self, file: &FileReference) -> bool {
        let key = |file: &FileReference| FileId::of_reference(file);
        let opens = |open: &OpenFile| open.flags & O_ACCMODE != 0 && open.kind.file().map(key) == Some(key(file));
        let mut mapped = self.job.objects.iter().filter_map(|object| object.kind.file());
        mapped.any(|mapped| key(mapped) == key(file)) || self.job.open_files.iter().any(opens)
    }

    /// Reports whether, as far as can be seen, the job writes this file only at its end. Then the job has not
    /// overwritten its older contents.
    fn is_written_at_its_end(&self, file: &FileReference) -> bool {
        let key = |file: &FileReference| FileId::of_reference(file);
        let mut writers = self.job.open_files.iter().filter_map(|open| match &open.kind {
            OpenFileKind::Regular { file: other, offset, .. } if key(other) == key(file) => Some((open.flags, *offset)),
            _ => None,
        });
        let mut writes = false;
        let all = writers.all(|(flags, offset)| {
            writes |= flags & O_ACCMODE != 0;
            let at_end = flags & O_ACCMODE == O_WRONLY && offset == file.length;
            flags & O_ACCMODE == 0 || flags & O_APPEND != 0 || at_end
        });
        all && writes
    }

    /// Returns who else has a file open for writing. The first call looks for writers of all files of the job.
    fn other_writer(&self, key: FileId) -> Option<String> {
        let (files, others) = self.others.get_or_init(|| {
            let mapped = self.job.objects.iter().filter_map(|object| object.kind.file());
            let all = mapped.chain(self.job.open_files.iter().filter_map(|open| open.kind.file()));
            let mut files: BTreeSet<_> =
                all.filter_map(|file| find(path_of(file)).ok()).map(|it| FileId::of(&it)).collect();
            files.extend(self.listed.iter().flat_map(ListedNow::keys));
            let others = other_writers(&files, self.options.alive);
            (files, others)
        });
        if files.contains(&key) {
            return others.get(&key).cloned();
        }
        other_writers(&BTreeSet::from([key]), self.options.alive).remove(&key)
    }

    /// Returns why somebody else may have changed a file; `seen` is the writer that was seen at the checkpoint.
    /// `is_own` says that the restart's own output goes there. Its caller (a script that logs its steps) may then have
    /// written there, and does not count as a stranger.
    pub(super) fn foreign_writer(&self, seen: Option<&Bytes>, now: &Metadata, is_own: bool) -> Option<String> {
        let key = FileId::of(now);
        if let Some(who) = self.other_writer(key) {
            return Some(format!("{who} writes to it as well"));
        }
        if let Some(who) = seen {
            return Some(format!("{who} wrote to it as well at the checkpoint"));
        }
        if is_own {
            return None;
        }
        let end = self.options.ends.iter().find(|end| FileId { device: end.device, inode: end.inode } == key);
        let modified = identity(now).modified_nanoseconds;
        if end.is_some_and(|end| (end.length, end.modified_nanoseconds) != (now.len(), modified)) {
            return Some("another program has written to it since the program ended".to_owned());
        }
        let rebooted = self.job.machine.boot_id != boot_id() && self.job.machine.host == host();
        if rebooted && modified > boot_nanoseconds() {
            return Some("another program has written to it since this machine was booted".to_owned());
        }
        None
    }
}

fn with_versions(why: String, file: &FileReference) -> String {
    versions(file).map_or_else(|| why.clone(), |versions| format!("{why} ({versions})"))
}

/// Returns what to do about a file whose old contents have changed. A database is more than one file, and none of them
/// may be exchanged alone. Nor may a restart continue with it as it is: the program has its old state in memory.
fn hint_for_changed(file: &FileReference) -> String {
    if is_database(&file.path.0) {
        return "put back all files of the database as they were at the checkpoint, with its log (-wal); or start again \
         with them saved: standfast run --fresh --save-files=SIZE"
            .to_owned();
    }
    format!("put the old version back; {KEEP}")
}

/// Returns the recorded and the present version of an executable or a library, if they differ.
pub(super) fn versions(file: &FileReference) -> Option<String> {
    let was = &file.build_id.as_ref()?.0;
    let digits = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let is = open(&file.path.0).ok().and_then(|now| build_id(&now)).filter(|is| is != was)?;
    Some(format!("build-id {} then, {} now", digits(was), digits(&is)))
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Returns when this machine was started, in nanoseconds since 1970.
fn boot_nanoseconds() -> i64 {
    let (now, up) = (process::clock_nanoseconds(abi::CLOCK_REALTIME), process::clock_nanoseconds(abi::CLOCK_BOOTTIME));
    i64::try_from(now.saturating_sub(up)).unwrap_or(i64::MAX)
}

pub(super) fn find(path: &Path) -> Result<Metadata, Objection> {
    match std::fs::metadata(path) {
        Ok(now) if now.is_file() => Ok(now),
        Ok(_) => Err(Objection::new("it is not a regular file any more", "put it back")),
        Err(error) => Err(Objection::new(format!("it cannot be found any more ({error})"), "put it back")),
    }
}

/// Reports whether a file can be made at a path. A symbolic link there that leads nowhere is in the way.
pub(super) fn is_free(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Returns the files that a job has open or mapped, or saves; other code judges these.
pub(super) fn in_use(job: &JobState) -> BTreeSet<FileId> {
    let objects = job.objects.iter().filter_map(|object| object.kind.file());
    job.files().chain(objects).map(FileId::of_reference).collect()
}

/// Reports whether our own standard output or error goes to a file.
pub(super) fn is_own_stream(key: FileId) -> bool {
    let own = [1, 2].map(|stream| std::fs::metadata(format!("/proc/self/fd/{stream}")));
    own.into_iter().flatten().any(|own| own.is_file() && FileId::of(&own) == key)
}

pub(super) fn path_of(file: &FileReference) -> &Path {
    as_path(&file.path)
}

pub(super) fn as_path(path: &Bytes) -> &Path {
    Path::new(OsStr::from_bytes(&path.0))
}
