//! Decides whether and how a job can be rebuilt here. Looks, and touches nothing.

use super::files::{FileNote, FileOptions, FilePolicy, Objection, Reckoning, RegularPlan, path_of, versions};
use super::folders::FolderPlan;
use super::foreseen::foreseen;
use super::listing::{ComePlan, ListedPlan};
use super::mapped_files::MappedPlan;
use super::other_names::NamesPlan;
use super::remake::{RemakePlan, Remaking};
use super::streams::{self, as_stream};
use super::vdso::{self, Vdso};
use crate::collect::machine;
use crate::job::is_inherited;
use crate::{Blocker, EngineError};
use standfast_core::PAGE_BYTES;
use standfast_format::records::{
    Backing, Bytes, EpollInterest, FileReference, JobState, Machine, Mapping, ObjectKind, OpenFile, OpenFileKind,
    ProcessState, ProcessTree, Watch,
};
use standfast_linux::processor;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Words in the registers of a thread.
const REGISTERS: usize = 27;
/// User addresses end here (47 bits, less a guard page).
const ADDRESS_END: u64 = 0x7fff_ffff_f000;

/// A job that can be rebuilt here.
#[derive(Debug)]
pub(super) struct JobPlan<'a> {
    pub(super) job: &'a JobState,
    /// For each living process, in the order of the image: they come before the zombies.
    pub(super) processes: Vec<ProcessPlan>,
    /// For each open file: what is to be done about it.
    pub(super) files: Vec<FilePlan>,
    /// For each open regular file: where it goes on.
    pub(super) regular: Vec<RegularPlan>,
    /// For each file that is mapped shared and written: what becomes of it.
    pub(super) mapped: Vec<MappedPlan>,
    /// For each file that had several names: what becomes of them.
    pub(super) names: Vec<NamesPlan>,
    /// For each folder that does not stay as it is: what becomes of it.
    pub(super) folders: Vec<FolderPlan>,
    /// Files that the job does not have open and that have grown or come since.
    pub(super) listed: Vec<ListedPlan>,
    /// What else has come since and is removed.
    pub(super) come: ComePlan,
    /// How the kernel's mappings come back.
    pub(super) vdso: Vdso,
    /// Copies that take the place of code files which are not what they were, by the paths of these.
    pub(super) copies: BTreeMap<Bytes, PathBuf>,
    /// For each socket: whether its name leads to it.
    pub(super) socket_names: Vec<SocketName>,
    /// What of the surroundings is made again.
    pub(super) remake: RemakePlan,
    /// What the user should know.
    pub(super) notes: Vec<FileNote>,
    /// What the job goes on without.
    pub(super) remarks: Vec<String>,
}

/// Whether others find a socket by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketName {
    /// It is what was recorded, with its file if it is a path.
    InSight,
    /// A path at which there is no file: it had none, needs none, or could not get it again.
    Hidden,
}

/// Finds a copy of a code file, see `RestartOptions`.
type SavedBinary<'a> = &'a dyn Fn(&FileReference) -> Option<PathBuf>;

/// What is decided about one process.
#[derive(Debug)]
pub(super) struct ProcessPlan {
    pub(super) executable: CString,
    /// Addresses that neither the old nor the new process uses: for the work in between.
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
    /// See [`JobPlan::files`].
    pub(super) files: &'a [FilePlan],
    /// See [`JobPlan::regular`].
    pub(super) regular: &'a [RegularPlan],
    /// How the kernel's mappings come back.
    pub(super) vdso: Vdso,
    /// See [`JobPlan::copies`].
    pub(super) copies: &'a BTreeMap<Bytes, PathBuf>,
    /// See [`JobPlan::socket_names`].
    pub(super) socket_names: &'a [SocketName],
}

/// What is found out about files along the way.
struct Found<'a> {
    regular: Vec<RegularPlan>,
    notes: Vec<FileNote>,
    remaking: Remaking<'a>,
}

/// How an open file comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilePlan {
    /// As the record says.
    AsRecorded,
    /// The restart's own descriptor of this number takes its place.
    Own(i32),
    /// As above, and it is the recorded file: it is cut back and positioned as the record says. Its path need not be open
    /// to this user (a log that root has redirected).
    OwnFile(i32),
    /// A pipe or socket whose other side is gone.
    PeerClosed,
}

/// Room for arguments of injected calls and for pipe contents on their way.
pub(super) const SCRATCH_BYTES: u64 = 64 * 1024;
const OF_ITS_OWN: &str = "give the restart a file of its own for that stream (> FILE), or restart it as the other user";
/// `c_cc` of a terminal.
const CONTROL_CHARACTERS: usize = 19;
/// Room to park the kernel's mappings while they change places.
pub(super) const PARKING_BYTES: u64 = 1024 * 1024;
/// Kept free below growing stacks.
const STACK_ROOM: u64 = 2 * 1024 * 1024;

impl<'a> JobPlan<'a> {
    pub(super) fn make(
        job: &'a JobState,
        options: FileOptions<'_>,
        saved_binary: SavedBinary<'_>,
    ) -> Result<Self, EngineError> {
        let mut blockers = Blockers::default();
        let vdso = blockers.check_machine(job);
        blockers.check_process_tree(job);
        blockers.check_terminals(job);
        let reckoning = Reckoning::new(job, options);
        let copies = copies(job, &reckoning, saved_binary);
        let mut processes = Vec::new();
        for process in job.processes.iter().filter(|process| process.process_tree.wait_status.is_none()) {
            blockers.check_shape(process, job.objects.len());
            if !copies.contains_key(&process.executable.path) {
                blockers.check_unchanged(&reckoning, &process.executable, "executable");
            }
            blockers.check_mapped(&reckoning, process, &copies);
            // Where there is none that stands among the blockers.
            let scratch = hole(process);
            let path = match copies.get(&process.executable.path) {
                Some(copy) => copy.as_os_str().as_bytes().to_vec(),
                None => process.executable.path.0.clone(),
            };
            let executable = CString::new(path).unwrap_or_default();
            processes.push(ProcessPlan { executable, scratch: scratch.unwrap_or_default() });
        }
        let mut remaking = Remaking::new(job);
        blockers.check_names(&reckoning, &mut remaking);
        let mapped = blockers.check_mapped_files(&reckoning, &mut remaking);
        let folders = blockers.check_folders(&reckoning);
        blockers.check_working_directories(job, &mut remaking);
        let mut remarks = Vec::new();
        let socket_names = blockers.check_sockets(job, &mut remaking, &mut remarks);
        let mut found = Found { regular: Vec::new(), notes: Vec::new(), remaking };
        let mut check = |(place, file)| blockers.check_file(&reckoning, job, place, file, &mut found);
        let files = job.open_files.iter().enumerate().map(&mut check);
        let files = files.collect();
        if blockers.0.is_empty() {
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

    /// The plan of the process at `place`.
    pub(super) fn of(&self, place: usize) -> Plan<'_> {
        Plan {
            process: &self.job.processes[place],
            job: self.job,
            executable: &self.processes[place].executable,
            scratch: self.processes[place].scratch,
            files: &self.files,
            regular: &self.regular,
            vdso: self.vdso,
            copies: &self.copies,
            socket_names: &self.socket_names,
        }
    }
}

#[derive(Default)]
pub(super) struct Blockers(Vec<Blocker>);

impl Blockers {
    pub(super) fn add(&mut self, what: &str, why: &str, remedy: &str) {
        let blocker = Blocker { what: what.to_owned(), why: why.to_owned(), remedy: remedy.to_owned(), passing: false };
        if !self.0.contains(&blocker) {
            self.0.push(blocker);
        }
    }

    fn refusal(self) -> EngineError {
        EngineError::Refused(self.0)
    }

    fn check_machine(&mut self, job: &JobState) -> Vdso {
        let (was, is) = (&job.machine, machine(0));
        if was.architecture != is.architecture {
            let why = format!("the checkpoint was taken on {}, this machine is {}", was.architecture, is.architecture);
            self.add("processor", &why, "restart it on a machine of the same kind");
        }
        self.check_processor(was);
        vdso::decide(job, &is).unwrap_or_else(|blocker| {
            self.0.push(blocker);
            Vdso::Same
        })
    }

    /// Code that the program has chosen for the old processor must run on this one.
    fn check_processor(&mut self, was: &Machine) {
        let here = processor::features();
        let missing: Vec<_> = was.processor_features.iter().filter(|name| !here.contains(&name.as_str())).collect();
        if !missing.is_empty() {
            let names = missing.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
            let why = format!("this one lacks what the program may use: {names}");
            self.add("processor", &why, "restart it on a machine that has all that the old one had");
        }
        let lacking = was.xsave_features & !processor::enabled_state();
        let areas = processor::state_areas(was.xsave_features);
        let moved = was.state_areas.iter().any(|was| !areas.contains(&(was.feature, was.offset, was.bytes)));
        if lacking != 0 || moved {
            let why = format!(
                "it keeps the registers that the program uses in another way (XSAVE features {:#x})",
                was.xsave_features
            );
            self.add("processor", &why, "restart it on a machine of the same kind");
        }
    }

    /// A tree: the main process first, parents before children, the living before the dead, every id once.
    fn check_process_tree(&mut self, job: &JobState) {
        let living = job.processes.iter().take_while(|process| process.process_tree.wait_status.is_none()).count();
        let is_sound = |(place, process): (usize, &ProcessState)| {
            let ProcessTree { parent, wait_status, .. } = process.process_tree;
            let below = parent.is_none_or(|parent| (parent as usize) < place.min(living));
            below && wait_status.is_some() == (place >= living) && (wait_status.is_none() || parent.is_some())
        };
        let ids: BTreeSet<i32> = job.processes.iter().map(|process| process.pid).collect();
        let sound = living > 0 && ids.len() == job.processes.len() && job.processes[0].process_tree.parent.is_none();
        if !sound || !job.processes.iter().enumerate().all(is_sound) {
            self.add(
                "image",
                "it verifies, but describes a tree of processes that cannot be",
                "use another generation",
            );
        } else {
            self.0.append(&mut foreseen(job));
        }
    }

    /// A session has one terminal, and its leader lives.
    fn check_terminals(&mut self, job: &JobState) {
        let leads = |session: i32| {
            let leader =
                job.processes.iter().find(|process| process.pid == session).map(|process| process.process_tree);
            leader.is_some_and(|leader| leader.session == session && leader.wait_status.is_none())
        };
        let sessions: Vec<i32> = job.terminals.iter().filter_map(|it| it.controls).map(|it| it.session).collect();
        let once: BTreeSet<i32> = sessions.iter().copied().collect();
        let held = job.terminals.iter().filter(|it| it.held).count();
        if once.len() != sessions.len() || !sessions.into_iter().all(leads) || held > 1 {
            self.add(
                "image",
                "it verifies, but gives a terminal to a session that is not there, or has two held for it",
                "use another generation",
            );
        }
    }

    /// What the decoder cannot know to be wrong: an image that would make this code misbehave is refused here.
    fn check_shape(&mut self, process: &ProcessState, objects: usize) {
        let mappings = process.mappings.iter().map(|mapping| (mapping.start, mapping.end));
        let special = process.special_mappings.iter().map(|mapping| (mapping.start, mapping.end));
        let mut ranges: Vec<_> = mappings.chain(special).collect();
        ranges.sort_unstable();
        let page = PAGE_BYTES as u64;
        let sound = |(start, end): &(u64, u64)| {
            start < end && *end <= ADDRESS_END && start.is_multiple_of(page) && end.is_multiple_of(page)
        };
        let backed = |mapping: &Mapping| match mapping.backing {
            Backing::SharedObject { object, offset } | Backing::PrivateObject { object, offset } => {
                (object as usize) < objects && offset.is_multiple_of(page)
            }
            _ => true,
        };
        let backed = process.mappings.iter().all(backed);
        let apart = ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        let threads = process.threads.iter().all(|thread| thread.registers.len() == REGISTERS);
        let signals = process.pending.iter().chain(process.threads.iter().flat_map(|thread| &thread.pending));
        let signals = signals.into_iter().all(|signal| signal.information.0.len() == 128);
        if process.threads.is_empty() || !ranges.iter().all(sound) || !apart || !backed || !threads || !signals {
            self.add("image", "it verifies, but describes a process that cannot be", "use another generation");
        }
    }

    /// Code and data that come from a file again must be what they were.
    fn check_unchanged(&mut self, reckoning: &Reckoning<'_>, file: &FileReference, role: &str) {
        if let Err(Objection { why, remedy, .. }) = reckoning.judge_mapped(file) {
            self.add(&format!("{role} {}", file.path), &why, &remedy);
        }
    }

    /// Many mappings are of few files, and each file is looked at once.
    fn check_mapped(&mut self, reckoning: &Reckoning<'_>, process: &ProcessState, copies: &BTreeMap<Bytes, PathBuf>) {
        let mut seen = BTreeSet::new();
        let of_file = process.mappings.iter().filter_map(|mapping| Some((mapping, mapping.backing.file()?)));
        // What a program may write to is as it likes, if that was asked for.
        let stays = |mapping: &Mapping| mapping.may_write == Some(true) && reckoning.options.policy == FilePolicy::Keep;
        for (_, file) in of_file.filter(|(mapping, _)| !stays(mapping)) {
            if seen.insert(&file.path) && !copies.contains_key(&file.path) {
                self.check_unchanged(reckoning, file, "mapped file");
            }
        }
    }

    /// Files that had several names.
    fn check_names(&mut self, reckoning: &Reckoning<'_>, remaking: &mut Remaking<'_>) {
        for names in reckoning.names.values() {
            if let Some(Objection { why, remedy, .. }) = &names.against {
                self.add(&format!("file {}", names.own.display()), why, remedy);
            }
            names.absent().for_each(|path| remaking.expect(path));
        }
    }

    /// Files that the program writes through a mapping.
    fn check_mapped_files(&mut self, reckoning: &Reckoning<'_>, remaking: &mut Remaking<'_>) -> Vec<MappedPlan> {
        let mut plans = Vec::new();
        for (place, object) in reckoning.job.objects.iter().enumerate() {
            let ObjectKind::MappedFile { file, .. } = &object.kind else { continue };
            let judged = reckoning.judge_mapped_file(place).and_then(|plan| {
                if !plan.is_doubtful {
                    reckoning.provide_for(file, remaking)?;
                }
                Ok(plan)
            });
            match judged {
                Ok(plan) => plans.push(plan),
                Err(Objection { why, remedy, .. }) => self.add(&format!("mapped file {}", file.path), &why, &remedy),
            }
        }
        plans
    }

    /// Folders that go with the job.
    fn check_folders(&mut self, reckoning: &Reckoning<'_>) -> Vec<FolderPlan> {
        let mut plans = Vec::new();
        for (place, folder) in reckoning.job.folders.iter().enumerate() {
            match reckoning.judge_folder(place) {
                Ok(plan) => plans.extend(plan),
                Err(Objection { why, remedy, .. }) => self.add(&format!("folder {}", folder.path), &why, &remedy),
            }
        }
        plans
    }

    fn check_file(
        &mut self,
        reckoning: &Reckoning<'_>,
        job: &JobState,
        place: usize,
        file: &OpenFile,
        found: &mut Found<'_>,
    ) -> FilePlan {
        match &file.kind {
            OpenFileKind::Stream { stream, .. } => FilePlan::Own(*stream as i32),
            OpenFileKind::Regular { file: reference, .. } => {
                let (mut how, mut note) = match as_stream(job, place, reckoning.options.streams) {
                    (FilePlan::AsRecorded, stays) => match reckoning.instead_of_unopenable(place) {
                        Ok((FilePlan::AsRecorded, _)) => (FilePlan::AsRecorded, stays),
                        Ok(instead) => instead,
                        Err(why) => {
                            self.add(&format!("file {}", reference.path), &why, OF_ITS_OWN);
                            (FilePlan::AsRecorded, None)
                        }
                    },
                    known => known,
                };
                if !matches!(how, FilePlan::Own(_)) {
                    let judged = reckoning.judge_open(place, how).and_then(|plan| {
                        if let Some(from) = &plan.renamed {
                            reckoning.provide_for(reference, &mut found.remaking)?;
                            note =
                                Some(FileNote::CopiedBack { path: path_of(reference).to_owned(), from: from.clone() });
                        }
                        Ok(plan)
                    });
                    match judged {
                        Ok(plan) => found.regular.push(plan),
                        Err(objection) => {
                            if let Some((own, elsewhere)) = reckoning.instead_of_added_to(place, &objection) {
                                (how, note) = (own, Some(elsewhere));
                            } else {
                                let Objection { why, mut remedy, .. } = objection;
                                if streams::can_be_redirected(job, place) {
                                    remedy = format!("{remedy}; {}", streams::REDIRECT);
                                }
                                self.add(&format!("file {}", reference.path), &why, &remedy);
                            }
                        }
                    }
                }
                found.notes.extend(note);
                how
            }
            OpenFileKind::Device { path, number } => {
                let node = std::fs::metadata(Path::new(OsStr::from_bytes(&path.0)));
                if !node.is_ok_and(|node| node.file_type().is_char_device() && node.rdev() == *number) {
                    self.add(&format!("device {path}"), "it is not there, or another one than before", "");
                }
                FilePlan::AsRecorded
            }
            OpenFileKind::Pipe { pipe } => {
                self.check_pipe(job.pipes.get(*pipe as usize), &mut found.remaking);
                FilePlan::AsRecorded
            }
            OpenFileKind::Directory { path, position, device, inode } => {
                self.check_directory(path, (*position > 0).then_some((*device, *inode)), &mut found.remaking);
                FilePlan::AsRecorded
            }
            OpenFileKind::Place { path, mode, .. } => {
                self.check_place(path, mode & libc::S_IFMT, None);
                FilePlan::AsRecorded
            }
            OpenFileKind::Object { object, .. } => {
                if *object as usize >= job.objects.len() {
                    self.add("image", "it verifies, but names memory that it does not hold", "use another generation");
                }
                FilePlan::AsRecorded
            }
            OpenFileKind::Socket { socket } => {
                if *socket as usize >= job.sockets.len() {
                    self.add(
                        "image",
                        "it verifies, but names a socket that it does not hold",
                        "use another generation",
                    );
                }
                FilePlan::AsRecorded
            }
            OpenFileKind::MessageQueue { queue } => {
                if *queue as usize >= job.posix_queues.len() {
                    self.add(
                        "image",
                        "it verifies, but names a message queue that it does not hold",
                        "use another generation",
                    );
                }
                FilePlan::AsRecorded
            }
            OpenFileKind::Master { terminal } | OpenFileKind::Slave { terminal } => {
                let found = job.terminals.get(*terminal as usize);
                if found.is_none_or(|found| found.settings.characters.0.len() != CONTROL_CHARACTERS) {
                    let why = "it verifies, but names a terminal that it does not hold";
                    self.add("image", why, "use another generation");
                }
                FilePlan::AsRecorded
            }
            OpenFileKind::Inherited { number, .. } if is_inherited(*number) => FilePlan::Own(*number),
            OpenFileKind::Inherited { .. } => FilePlan::PeerClosed,
            OpenFileKind::Epoll { interests } => {
                let sound = |interest: &EpollInterest| {
                    interest.descriptor >= 0 && (interest.open_file as usize) < job.open_files.len()
                };
                if !interests.iter().all(sound) {
                    self.add(
                        "image",
                        "it verifies, but watches a file that it does not hold",
                        "use another generation",
                    );
                }
                FilePlan::AsRecorded
            }
            OpenFileKind::Watches { watches } => {
                watches.iter().for_each(|watch| self.check_watch(watch, &mut found.remaking));
                FilePlan::AsRecorded
            }
            OpenFileKind::Process { process } => {
                if *process as usize >= job.processes.len() {
                    self.add(
                        "image",
                        "it verifies, but names a process that it does not hold",
                        "use another generation",
                    );
                }
                FilePlan::AsRecorded
            }
            OpenFileKind::KernelFile { subject, path, .. } => {
                self.check_kernel_file(job, *subject, path);
                FilePlan::AsRecorded
            }
            OpenFileKind::EventCounter { .. }
            | OpenFileKind::Timer { .. }
            | OpenFileKind::Signals { .. }
            | OpenFileKind::HungUp => FilePlan::AsRecorded,
        }
    }

    /// What an inotify instance watches must be there, and be the same, or be made again.
    fn check_watch(&mut self, watch: &Watch, remaking: &mut Remaking<'_>) {
        let path = Path::new(OsStr::from_bytes(&watch.path.0));
        let same = match std::fs::metadata(path) {
            Ok(now) => now.dev() != watch.device || now.ino() == watch.inode,
            Err(_) => remaking.provide_empty(path).is_ok(),
        };
        if !same {
            let why = "the program watches it (inotify), and it is gone or another one now";
            self.add(&format!("watched file {}", watch.path), why, "put it back");
        }
    }
}

/// Of the files that hold code: those that are not what they were, with copies that are.
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

/// The lowest addresses with room to work in that are well away from every mapping of the image.
pub(super) fn hole(process: &ProcessState) -> Option<u64> {
    let bytes = SCRATCH_BYTES + PARKING_BYTES;
    /// Lower addresses may be forbidden (vm.mmap_min_addr).
    const LOWEST: u64 = 0x1_0000;
    let special = process.special_mappings.iter().map(|mapping| (mapping.start, mapping.end));
    let mut taken: Vec<_> =
        process.mappings.iter().map(|mapping| (mapping.start, mapping.end)).chain(special).collect();
    taken.sort_unstable();
    let mut start = LOWEST;
    for (from, to) in taken {
        if from.saturating_sub(STACK_ROOM) >= start + bytes {
            break;
        }
        start = start.max(to);
    }
    (start + bytes <= ADDRESS_END).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{MappingAttributes, PendingSignal, Protection, ThreadState};

    fn process(ranges: &[(u64, u64)]) -> ProcessState {
        let mapping = |&(start, end): &(u64, u64)| Mapping {
            start,
            end,
            may_write: None,
            protection: Protection::default(),
            backing: Backing::Anonymous,
            grows_down: false,
            attributes: MappingAttributes::default(),
        };
        ProcessState { mappings: ranges.iter().map(mapping).collect(), ..ProcessState::default() }
    }

    #[test]
    fn the_hole_lies_apart_from_every_mapping_and_leaves_stacks_room() {
        assert_eq!(hole(&process(&[])), Some(0x1_0000));
        assert_eq!(hole(&process(&[(0x80_0000, 0x90_0000)])), Some(0x1_0000));
        let low = process(&[(0x1_0000, 0x2_0000), (0x3_0000, 0x50_0000)]);
        assert_eq!(hole(&low), Some(0x50_0000));
        assert_eq!(hole(&process(&[(0x1_0000, ADDRESS_END)])), None);
    }

    #[test]
    fn an_image_of_an_impossible_process_is_refused() {
        let thread = |registers| ThreadState { registers: vec![0; registers], ..ThreadState::default() };
        let signal = |bytes: usize| PendingSignal { signal: 10, information: vec![0u8; bytes].into() };
        let sound = ProcessState { threads: vec![thread(REGISTERS)], ..process(&[(0x1000, 0x2000), (0x2000, 0x4000)]) };
        let object = |object, offset| {
            let mut process = sound.clone();
            process.mappings[0].backing = Backing::SharedObject { object, offset };
            process
        };
        let is_refused = |process: &ProcessState| {
            let mut blockers = Blockers::default();
            blockers.check_shape(process, 1);
            !blockers.0.is_empty()
        };
        assert!(!is_refused(&sound) && !is_refused(&object(0, 0x1000)));
        for ranges in [
            &[(0x2000, 0x1000)][..],
            &[(0x1001, 0x2000)],
            &[(0x1000, 0x2001)],
            &[(0x1000, ADDRESS_END + 0x1000)],
            &[(0x1000, 0x3000), (0x2000, 0x4000)],
        ] {
            assert!(is_refused(&ProcessState { threads: sound.threads.clone(), ..process(ranges) }), "{ranges:x?}");
        }
        assert!(is_refused(&object(1, 0)), "an object that is not there");
        assert!(is_refused(&object(0, 0x1001)), "not the beginning of a page");
        assert!(is_refused(&ProcessState { threads: Vec::new(), ..sound.clone() }));
        assert!(is_refused(&ProcessState { threads: vec![thread(REGISTERS - 1)], ..sound.clone() }));
        assert!(is_refused(&ProcessState { pending: vec![signal(127)], ..sound.clone() }));
        assert!(!is_refused(&ProcessState { pending: vec![signal(128)], ..sound }));
    }

    fn named(was: &Machine) -> Vec<String> {
        let mut blockers = Blockers::default();
        blockers.check_processor(was);
        blockers.0.into_iter().map(|it| format!("{}: {}", it.what, it.why)).collect()
    }

    #[test]
    fn a_processor_that_lacks_what_the_program_may_use_is_refused_by_name() {
        let here = machine(0);
        assert_eq!(named(&here), [""; 0]);
        let features = [here.processor_features.as_slice(), &["time_travel".to_owned()]].concat();
        let said = named(&Machine { processor_features: features, ..here.clone() });
        assert!(said.len() == 1 && said[0].contains("time_travel"), "{said:?}");
        // Bit 63 of XCR0 will never be a feature.
        let said = named(&Machine { xsave_features: 1 << 63, ..here });
        assert!(said.len() == 1 && said[0].contains("XSAVE"), "{said:?}");
    }
}
