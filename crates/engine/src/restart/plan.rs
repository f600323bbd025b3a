//! Decides whether and how a job can be rebuilt here. Looks, and touches nothing.

use super::files::{FileNote, FileOptions, Reckoning, versions};
use super::folders::FolderPlan;
use super::listing::{ComePlan, ListedPlan};
use super::mapped_files::MappedPlan;
use super::open_files::Found;
use super::vdso::Vdso;
use crate::EngineError;
use crate::objects::{Blockers, Check, FilePlan, NamesPlan, OpenFilesPlan, RegularPlan, SocketName};
use crate::remake::{RemakePlan, Remaking};
use crate::scratch::hole;
use standfast_format::records::{Bytes, FileReference, JobState, ProcessState};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A job that can be rebuilt here.
#[derive(Debug)]
pub(super) struct JobPlan<'a> {
    pub(super) job: &'a JobState,
    /// For each living process, in the order of the image: they come before the zombies.
    pub(super) processes: Vec<ProcessPlan>,
    /// For each open file, what to do about it.
    pub(super) files: Vec<FilePlan>,
    /// For each open regular file, where it continues.
    pub(super) regular: Vec<RegularPlan>,
    /// For each file that is mapped shared and written, what to do about it.
    pub(super) mapped: Vec<MappedPlan>,
    /// For each file that had several names, what to do about them.
    pub(super) names: Vec<NamesPlan>,
    /// For each folder that does not stay as it is, what to do about it.
    pub(super) folders: Vec<FolderPlan>,
    /// Files that the job does not have open and that have grown or are new.
    pub(super) listed: Vec<ListedPlan>,
    /// Other new entries, which are removed.
    pub(super) come: ComePlan,
    /// How the kernel's mappings are restored.
    pub(super) vdso: Vdso,
    /// Copies that replace changed code files, by the paths of these files.
    pub(super) copies: BTreeMap<Bytes, PathBuf>,
    /// For each socket, whether its name leads to it.
    pub(super) socket_names: Vec<SocketName>,
    /// Parts of the surroundings that are made again.
    pub(super) remake: RemakePlan,
    /// Notes for the user.
    pub(super) notes: Vec<FileNote>,
    /// What the job continues without.
    pub(super) remarks: Vec<String>,
}

/// Finds a copy of a code file, see `RestartOptions`.
type SavedBinary<'a> = &'a dyn Fn(&FileReference) -> Option<PathBuf>;

/// The decisions about one process.
#[derive(Debug)]
pub(super) struct ProcessPlan {
    pub(super) executable: CString,
    /// Addresses that neither the old nor the new process uses, for the work in between.
    pub(super) scratch: u64,
}

/// One process and the job that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) process: &'a ProcessState,
    pub(super) job: &'a JobState,
    pub(super) executable: &'a CStr,
    /// See [`ProcessPlan::scratch`].
    pub(super) scratch: u64,
    /// How the kernel's mappings are restored.
    pub(super) vdso: Vdso,
    /// See [`JobPlan::copies`].
    pub(super) copies: &'a BTreeMap<Bytes, PathBuf>,
}

impl<'a> JobPlan<'a> {
    pub(super) fn make(
        job: &'a JobState,
        options: FileOptions<'_>,
        saved_binary: SavedBinary<'_>,
    ) -> Result<Self, EngineError> {
        let mut blockers = Blockers::default();
        let vdso = blockers.check_machine(job);
        blockers.check_process_tree(job);
        let mut remaking = Remaking::new(job);
        Check { job, blockers: &mut blockers, remaking: &mut remaking }.terminals();
        let reckoning = Reckoning::new(job, options);
        let copies = copies(job, &reckoning, saved_binary);
        let processes = blockers.plan_processes(&reckoning, &copies);
        blockers.check_names(&reckoning, &mut remaking);
        let mapped = blockers.check_mapped_files(&reckoning, &mut remaking);
        let folders = blockers.check_folders(&reckoning);
        let mut remarks = Vec::new();
        let mut check = Check { job, blockers: &mut blockers, remaking: &mut remaking };
        check.working_directories();
        let socket_names = check.sockets(options.alive, &mut remarks);
        let mut found = Found { regular: Vec::new(), notes: Vec::new(), remaking };
        let places = 0..job.open_files.len();
        let files = places.map(|place| blockers.check_file(&reckoning, place, &mut found)).collect();
        if blockers.is_empty() {
            let Found { regular, mut notes, remaking } = found;
            let remake = remaking.into_plan();
            let recorded = |path: &Bytes| job.code_files().find(|file| file.path == *path);
            let note = |(path, kept): (&Bytes, &PathBuf)| FileNote::SavedBinary {
                versions: recorded(path).and_then(versions),
                path: PathBuf::from(OsStr::from_bytes(&path.0)),
                kept: kept.clone(),
            };
            notes.extend(copies.iter().map(note));
            let (listed, come) = (reckoning.judge_listed(), reckoning.judge_come());
            notes.extend(reckoning.changed_unsaved());
            Ok(Self {
                job,
                processes,
                files,
                regular,
                mapped,
                names: reckoning.names.into_values().collect(),
                folders,
                listed,
                come,
                vdso,
                copies,
                socket_names,
                remake,
                notes,
                remarks,
            })
        } else {
            Err(blockers.refusal())
        }
    }

    /// Returns the plan of the process at `place`.
    pub(super) fn of(&self, place: usize) -> Plan<'_> {
        Plan {
            process: &self.job.processes[place],
            job: self.job,
            executable: &self.processes[place].executable,
            scratch: self.processes[place].scratch,
            vdso: self.vdso,
            copies: &self.copies,
        }
    }

    /// Returns how open files are restored, as the process at `place` needs to know it.
    pub(super) fn open_files_of(&self, place: usize) -> OpenFilesPlan<'_> {
        OpenFilesPlan {
            process: &self.job.processes[place],
            job: self.job,
            files: &self.files,
            regular: &self.regular,
            socket_names: &self.socket_names,
        }
    }
}

impl Blockers {
    /// Decides about each living process.
    fn plan_processes(&mut self, reckoning: &Reckoning<'_>, copies: &BTreeMap<Bytes, PathBuf>) -> Vec<ProcessPlan> {
        let job = reckoning.job;
        let living = job.processes.iter().filter(|process| process.process_tree.wait_status.is_none());
        let plan = |process: &ProcessState| {
            self.check_shape(process, job.objects.len());
            if !copies.contains_key(&process.executable.path) {
                self.check_unchanged(reckoning, &process.executable, "executable");
            }
            self.check_mapped(reckoning, process, copies);
            let path = match copies.get(&process.executable.path) {
                Some(copy) => copy.as_os_str().as_bytes().to_vec(),
                None => process.executable.path.0.clone(),
            };
            // If there is no hole, the blockers say so.
            let scratch = hole(process).unwrap_or_default();
            ProcessPlan { executable: CString::new(path).unwrap_or_default(), scratch }
        };
        living.map(plan).collect()
    }
}

/// Returns copies of code files that have changed since the checkpoint.
fn copies(job: &JobState, reckoning: &Reckoning<'_>, saved_binary: SavedBinary<'_>) -> BTreeMap<Bytes, PathBuf> {
    let mut copies = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for file in job.code_files().filter(|file| seen.insert(&file.path)) {
        if reckoning.judge_mapped(file).is_ok() {
            continue;
        }
        if let Some(copy) = saved_binary(file).filter(|copy| Reckoning::is_copy(file, copy)) {
            copies.insert(file.path.clone(), copy);
        }
    }
    copies
}
