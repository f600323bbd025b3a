//! `core`: writes the processes of a checkpoint as core files, for debuggers. The job may be running; nothing of it is
//! changed. Pages are verified as they are read, and written where they belong, so that memory holds only the tables.

use crate::event::{JobEvent, LongWork};
use crate::progress::reported;
use crate::quoting::without_numbers;
use crate::report::{ChangedFileReport, CoreFileReport, CoreFilesReport};
use crate::{Error, Listener};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use standfast_engine::first_page;
use standfast_format::core_file::{CoreFilePlan, MappedFileNow, NoCoreFile};
use standfast_format::manifest::GenerationNumber;
use standfast_format::records::{Bytes, FileReference, JobState, ProcessState};
use standfast_format::{BoxError, ImageSource, Run};
use standfast_store::{Chain, JobDirectory, Levels, Selector, StoreError, random_token};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Core files that are written at a time. Each is an open file, beside up to 256 images, and a process may have 1024.
const FILES_AT_ONCE: usize = 128;
/// Memory may hold secrets.
const MODE: u32 = 0o600;

/// Which core files to write, and where.
#[derive(Debug, Clone, Default)]
pub struct CoreFilesRequest {
    /// The job's directory.
    pub directory: PathBuf,
    /// The checkpoint; `None` means the newest good one.
    pub at: Option<GenerationNumber>,
    /// The file, or its name without the process id if there are several processes; `None` means `core.PROGRAM.PID` in
    /// the working directory.
    pub output: Option<PathBuf>,
    /// The only process to write; `None` means all.
    pub pid: Option<i32>,
    /// Whether existing files are replaced.
    pub overwrite: bool,
}

/// Writes a core file of each process of a checkpoint, or of one of them.
///
/// # Errors
/// If there is no such checkpoint or process, a page does not verify, or a file exists already or cannot be written. No
/// file that is incomplete is left behind.
pub fn write_core_files(request: &CoreFilesRequest, listener: &mut Listener<'_>) -> Result<CoreFilesReport, Error> {
    let of_store = |error| Error::of_store(&request.directory, error);
    let opened = JobDirectory::look(&request.directory).map_err(of_store)?;
    let levels = Levels::open(opened.clone()).map_err(of_store)?.0;
    let (_, choice) = levels.choose(request.at.map_or(Selector::Newest, Selector::Exactly)).map_err(of_store)?;
    for skipped in &choice.skipped {
        let (generation, reason) = (skipped.number.get(), without_numbers(&skipped.reason.to_string()));
        listener(&JobEvent::Skipped { generation, reason });
    }
    let generation = choice.number.get();
    let job = choice.image.state();
    let mut mapped = MappedFiles { directory: &opened, files: BTreeMap::new() };
    let mut written = Vec::new();
    let wanted = wanted(job, generation, request)?;
    for some in wanted.chunks(FILES_AT_ONCE) {
        let files = some.iter().map(|process| CoreFile::begin(process, &choice.image, generation, &mut mapped));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        deliver(&choice.image, &files, generation, listener).map_err(|error| of_delivery(&request.directory, error))?;
        written.extend(files.into_iter().map(|file| file.unfinished));
    }
    let mut files = Vec::new();
    for (process, unfinished) in wanted.iter().zip(written) {
        let lengths = std::fs::metadata(&unfinished.path).map_err(|source| of_output(&process.target, source))?;
        unfinished.finish(&process.target, request.overwrite)?;
        files.push(CoreFileReport {
            path: process.target.clone(),
            pid: process.state.pid,
            executable: mapped.place(&process.state.executable),
            threads: process.state.threads.len() as u64,
            bytes: lengths.len(),
            // Blocks of the kernel's, whatever those of the file system are.
            disk_bytes: lengths.blocks() * 512,
            changed: mapped.changed(process.state),
        });
    }
    Ok(CoreFilesReport { generation, files })
}

/// A process to be written.
struct Wanted<'a> {
    place: usize,
    state: &'a ProcessState,
    target: PathBuf,
}

/// Selects the processes, none of which has ended, and names their files, none of which may exist.
fn wanted<'a>(job: &'a JobState, generation: u64, request: &CoreFilesRequest) -> Result<Vec<Wanted<'a>>, Error> {
    let living = || job.processes.iter().enumerate().filter(|(_, process)| !process.threads.is_empty());
    let chosen: Vec<_> = living().filter(|(_, process)| request.pid.is_none_or(|pid| pid == process.pid)).collect();
    if let (Some(pid), []) = (request.pid, &chosen[..]) {
        let others = living().map(|(_, process)| process.pid).collect();
        return Err(Error::NoSuchProcess { directory: request.directory.clone(), generation, pid, others });
    }
    let named = |state: &ProcessState| match &request.output {
        Some(output) if chosen.len() == 1 => output.clone(),
        Some(output) => with_ending(output, state.pid.to_string()),
        None => default_name(state),
    };
    let wanted: Vec<_> =
        chosen.iter().map(|(place, state)| Wanted { place: *place, state, target: named(state) }).collect();
    let taken = wanted.iter().find(|it| !request.overwrite && it.target.symlink_metadata().is_ok());
    taken.map_or(Ok(()), |taken| Err(Error::OutputExists(taken.target.clone())))?;
    Ok(wanted)
}

fn default_name(process: &ProcessState) -> PathBuf {
    let executable = Path::new(OsStr::from_bytes(&process.executable.path.0));
    let program = executable.file_name().unwrap_or(OsStr::new("program"));
    with_ending(&with_ending(Path::new("core"), program), process.pid.to_string())
}

fn with_ending(path: &Path, ending: impl AsRef<OsStr>) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(ending);
    name.into()
}

/// A core file under a temporary name, which is removed unless it is finished.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// Gives the file its name.
    fn finish(self, target: &Path, overwrite: bool) -> Result<(), Error> {
        if overwrite {
            return std::fs::rename(&self.path, target).map_err(|source| of_output(target, source));
        }
        match renameat_with(CWD, &self.path, CWD, target, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(Error::OutputExists(target.to_owned())),
            // The file system knows no such renaming.
            Err(Errno::INVAL | Errno::NOSYS) if target.symlink_metadata().is_err() => {
                std::fs::rename(&self.path, target).map_err(|source| of_output(target, source))
            }
            Err(Errno::INVAL | Errno::NOSYS) => Err(Error::OutputExists(target.to_owned())),
            Err(error) => Err(of_output(target, error.into())),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After a success it has another name.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A core file whose pages are yet to come.
struct CoreFile {
    plan: CoreFilePlan,
    file: File,
    target: PathBuf,
    unfinished: Unfinished,
}

impl CoreFile {
    fn begin(
        process: &Wanted<'_>,
        image: &Chain,
        generation: u64,
        mapped: &mut MappedFiles<'_>,
    ) -> Result<Self, Error> {
        mapped.look_at(process.state);
        let plan = CoreFilePlan::of(image.state(), process.place, image.runs(), &|file| mapped.now(file));
        let refused = |source: NoCoreFile| Error::NoCoreFile { pid: process.state.pid, generation, source };
        let plan = plan.map_err(refused)?;
        let target = process.target.clone();
        let path = with_ending(&with_ending(&target, random_token()), "tmp");
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&path);
        let file = file.map_err(|source| of_output(&target, source))?;
        let begun = Self { plan, file, target, unfinished: Unfinished { path } };
        let written = begun.file.set_len(begun.plan.bytes()).and_then(|()| {
            begun.plan.constants().try_for_each(|(offset, bytes)| begun.file.write_all_at(bytes, offset))
        });
        written.map_err(|source| of_output(&begun.target, source))?;
        Ok(begun)
    }

    fn place(&self, runs: &[Run], bytes: &[u8]) -> Result<(), BoxError> {
        let placed = self.plan.place(runs, bytes, &mut |offset, bytes| self.file.write_all_at(bytes, offset));
        placed.map_err(|source| BoxError::from(of_output(&self.target, source)))
    }
}

/// Reads and verifies all pages, and writes each into the files that it belongs in.
fn deliver(image: &Chain, files: &[CoreFile], generation: u64, listener: &mut Listener<'_>) -> Result<(), BoxError> {
    let place = |runs: &[Run], bytes: &[u8]| files.iter().try_for_each(|file| file.place(runs, bytes));
    reported(image.progress(), LongWork::WritingCore { generation }, listener, || image.deliver(&place))
}

fn of_delivery(directory: &Path, error: BoxError) -> Error {
    match error.downcast::<StoreError>() {
        Ok(error) => Error::of_store(directory, *error),
        Err(error) => *error.downcast::<Error>().expect("pages are read by the store and written here"),
    }
}

fn of_output(path: &Path, source: io::Error) -> Error {
    Error::Output { path: path.to_owned(), source }
}

/// The files that the job has mapped.
struct MappedFiles<'a> {
    directory: &'a JobDirectory,
    /// By path.
    files: BTreeMap<Vec<u8>, MappedFile>,
}

/// Where a file is found as it was at the checkpoint, and its first page.
struct MappedFile {
    /// Its copy, if it has changed itself and has one.
    copy: Option<PathBuf>,
    /// `None` if it has changed and has no copy.
    page: Option<Vec<u8>>,
}

impl MappedFiles<'_> {
    fn look_at(&mut self, process: &ProcessState) {
        if self.directory.is_of_another_user() {
            // No file is opened for root because the records of another user name it.
            return;
        }
        for file in process.mappings.iter().filter_map(|mapping| mapping.backing.file()) {
            self.files.entry(file.path.0.clone()).or_insert_with(|| MappedFile::find(self.directory, file));
        }
    }

    fn now(&self, file: &FileReference) -> MappedFileNow {
        let Some(found) = self.files.get(&file.path.0) else {
            // Nobody has looked.
            return MappedFileNow { path: Some(file.path.clone()), first_page: None };
        };
        let copy = found.copy.as_ref().map(|copy| Bytes::from(copy.as_os_str().as_bytes()));
        let path = found.page.is_some().then(|| copy.unwrap_or_else(|| file.path.clone()));
        MappedFileNow { path, first_page: found.page.clone() }
    }

    /// Returns where a debugger finds a file, or its own path if it is nowhere.
    fn place(&self, file: &FileReference) -> String {
        let copy = self.files.get(&file.path.0).and_then(|found| found.copy.as_ref());
        copy.map_or_else(|| file.path.to_string(), |copy| copy.to_string_lossy().into_owned())
    }

    /// Returns the files of a process that are no longer as they were at the checkpoint.
    fn changed(&self, process: &ProcessState) -> Vec<ChangedFileReport> {
        let mapped = process.mappings.iter().filter_map(|mapping| mapping.backing.file());
        let changed = mapped.filter_map(|file| {
            let found = self.files.get(&file.path.0)?;
            let is_changed = found.copy.is_some() || found.page.is_none();
            is_changed.then(|| ChangedFileReport { path: file.path.to_string(), copy: found.copy.clone() })
        });
        let mut changed: Vec<_> = changed.collect();
        changed.sort_by(|one, other| one.path.cmp(&other.path));
        changed.dedup();
        changed
    }
}

impl MappedFile {
    fn find(directory: &JobDirectory, file: &FileReference) -> Self {
        let path = Path::new(OsStr::from_bytes(&file.path.0));
        if let Some(page) = first_page(file, path) {
            return Self { copy: None, page: Some(page) };
        }
        let copy = file.digest.and_then(|digest| directory.saved_binary(digest.checksum, path));
        let page = copy.as_deref().and_then(|copy| first_page(file, copy));
        Self { copy: copy.filter(|_| page.is_some()).map(|copy| std::path::absolute(&copy).unwrap_or(copy)), page }
    }
}
