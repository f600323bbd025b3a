//! The census: everything that a frozen job holds, as records, or by name what of it could not be brought back.
//!
//! What `/proc` tells is asked first, and the obstacles found there end the census before anything is injected. Nothing
//! is written anywhere until the whole census stands.

mod apart;
mod asker;
mod attributes;
mod descriptors;
mod files;
mod kinship;
mod memory;
mod objects;
mod restrictions;
mod scheduling;
mod switches;
mod threads;
mod timers;

use crate::freeze::{Frozen, FrozenProcess, kernel};
use crate::job::{Inheritance, Kept, Shared};
use crate::track::{Look, Pages, Track, Tracking};
use crate::tree::{Member, Roots, borrows_memory, has_other_threads};
use crate::{CaptureOptions, EngineError, Obstacle, ProcessIdentity};
use attributes::Attributes;
pub(crate) use attributes::Looks;
pub use descriptors::ExternalSockets;
pub(crate) use descriptors::received;
use descriptors::{Descriptors, Motion, Terms};
pub use files::Output;
use files::reference;
pub(crate) use files::{code_files, look_ahead};
pub(crate) use memory::HUGE_PAGES;
pub(crate) use objects::ObjectContents;
use objects::Objects;
use standfast_core::Address;
use standfast_core::Checksum;
use standfast_format::records::{
    Bytes, Clocks, FileReference, JobState, Kinship, Limit, Machine, MemoryLayout, MemoryObject, ProcessState,
    StateArea,
};
use standfast_linux::proc::{self, Map, Stat, Status};
use standfast_linux::processor;
use standfast_linux::sys::process;
use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

/// Number of resource limits that Linux has.
const LIMITS: u32 = 16;

/// A job's records and where its memory is to be read.
#[derive(Debug)]
pub(crate) struct Census {
    pub(crate) state: JobState,
    /// For each process: which pages hold something.
    pub(crate) pages: Vec<Pages>,
    /// For each memory object: which of its pages hold something, and where they are read.
    pub(crate) objects: Vec<ObjectContents>,
    /// Files that the job has open for writing: what it wrote must be as durable as the checkpoint that counts on it.
    pub(crate) outputs: Vec<Output>,
}

impl Census {
    /// One that `is_second` follows another for the same checkpoint.
    pub(crate) fn take(frozen: &Frozen, options: CaptureOptions, is_second: bool) -> Result<Self, EngineError> {
        let subjects: Vec<_> =
            frozen.processes.iter().map(|it| Subject::known(it, &frozen.shared)).collect::<Result<_, _>>()?;
        let kept = frozen.shared.kept().clone();
        let external_sockets = options.external_sockets;
        let terms = Terms { motion: Motion::Stopped, external_sockets, kept: &kept };
        let mut found = Findings::of(&subjects, &frozen.zombies, terms, &frozen.shared.inheritance)?;
        found.obstacles.append(&mut apart::find(&frozen.members()));
        refuse(&mut found.obstacles)?;
        found.objects.save_files(&found.descriptors.open_files, options.saved_files);
        let relations = kinship::Relations::of(frozen)?;
        let mut doubtful = Vec::new();
        for (place, process) in frozen.processes.iter().enumerate() {
            doubtful.push(found.objects.doubtful(place, process)?);
        }
        refuse(&mut found.objects.obstacles())?;
        let mut tracks = frozen.shared.tracks();
        let observes = tracks.resolve(options.tracking) == Tracking::Pagemap;
        let mut answers = Vec::new();
        for (place, process) in frozen.processes.iter().enumerate() {
            let identity = ProcessIdentity::of(process.pid)?;
            let is_new = observes && tracks.of(identity).is_none_or(|track| track.is_lost());
            let track = tracks.of(identity).filter(|_| observes && options.tracking == Tracking::Auto);
            let idle = track.map(Track::loosen_idle).unwrap_or_default();
            let mut inner = threads::Inner::ask(process, &frozen.shared, &doubtful[place], &idle, is_new)?;
            for (unit, worked) in idle.into_iter().zip(&inner.collapsed) {
                tracks.of(identity).into_iter().for_each(|track| track.note_collapsed(unit, *worked));
            }
            found.obstacles.append(&mut named(std::mem::take(&mut inner.obstacles), process.pid, subjects.len()));
            found.objects.keep_resident(place, &std::mem::take(&mut inner.resident));
            if let Some(userfault) = inner.userfault.take() {
                tracks.begin(identity, options.tracking, userfault);
            }
            answers.push((identity, inner));
        }
        let switches =
            frozen.processes.iter().zip(&answers).map(|(it, (_, inner))| (it.pid, it.parent, &inner.switches));
        found.obstacles.append(&mut apart::signalled_by_thread(switches)?);
        refuse(&mut found.obstacles)?;
        let mut pages = Vec::new();
        for (place, (process, (identity, inner))) in frozen.processes.iter().zip(&answers).enumerate() {
            let look = Look {
                owner: place as u32,
                unchanged_percent_min: options.unchanged_percent_min,
                compares: options.tracking == Tracking::Auto,
                is_second,
            };
            let track = tracks.of(*identity).filter(|_| observes).map(|track| (track, look));
            let live_stack = inner.live_stack(process, options.stack);
            pages.push(memory::populated(process, &found.processes[place].mappings, live_stack, track)?);
        }
        for ((of_process, process), pages) in found.processes.iter_mut().zip(&frozen.processes).zip(&mut pages) {
            of_process.mappings.note_guards(process.pid, pages)?;
        }
        let mut outputs = std::mem::take(&mut found.descriptors.outputs);
        outputs.extend(found.objects.outputs());
        let (records, objects) = std::mem::take(&mut found.objects).into_parts()?;
        let answers = answers.into_iter().map(|(_, inner)| inner).collect();
        let mut state = found.into_state(frozen, answers, records, relations)?;
        files::note_contents(&mut state, &frozen.shared);
        Ok(Self { state, pages, objects, outputs })
    }
}

/// Ends the census where something stands in the way.
fn refuse(obstacles: &mut Vec<Obstacle>) -> Result<(), EngineError> {
    if obstacles.is_empty() { Ok(()) } else { Err(EngineError::Refused(std::mem::take(obstacles))) }
}

/// Says whose obstacles they are, where there is more than one process.
fn named(mut obstacles: Vec<Obstacle>, pid: i32, processes: usize) -> Vec<Obstacle> {
    if processes > 1 && !obstacles.is_empty() {
        let name = proc::read(pid, "comm").unwrap_or_default();
        let name = String::from_utf8_lossy(&name);
        obstacles.iter_mut().for_each(|it| it.what = format!("{} of process {pid} ({})", it.what, name.trim()));
    }
    obstacles
}

/// Asks every process of a job what only it can ask the kernel for, and forgets the answers.
pub(crate) fn ask_from_within(frozen: &Frozen) -> Result<(), EngineError> {
    frozen
        .processes
        .iter()
        .try_for_each(|process| threads::Inner::ask(process, &frozen.shared, &[], &[], false).map(drop))
}

/// What in this process and its descendants could not be carried over: the part of the census that needs no freeze.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub fn examine(pid: i32, external_sockets: ExternalSockets) -> Result<Vec<Obstacle>, EngineError> {
    examine_with(pid, external_sockets, &Kept::default())
}

/// The same of a job that has copies of files with code.
pub(crate) fn examine_with(
    pid: i32,
    external_sockets: ExternalSockets,
    kept: &Kept,
) -> Result<Vec<Obstacle>, EngineError> {
    let main = ProcessIdentity::of(pid)?;
    let parent = Stat::of(pid).map_err(|_| EngineError::Ended)?.parent;
    // To a supervisor of ours, or the init that one has made, come those that lose their parent.
    let executable = |pid| proc::link(pid, "exe").ok();
    let reaper =
        Some(parent).filter(|it| executable(*it).is_some_and(|own| executable(std::process::id() as i32) == Some(own)));
    let roots = Roots { main, reaper };
    let mut members = roots.members();
    // What lives in its parent's memory has come from vfork and will soon execute a program.
    members.retain(|member| !borrows_memory(member));
    loop {
        let terms = Terms { motion: Motion::Running, external_sockets, kept };
        let examined = examine_these(&members, terms);
        let before = members.len();
        members.retain(|member| member.wait_status.is_some() || has_memory(member.pid));
        match examined {
            // Others come and go: those that are still there are looked at again.
            Err(_) if members.len() < before && members.first().is_some_and(|first| first.pid == pid) => {}
            _ => return examined,
        }
    }
}

/// The same of these processes, which are one job.
fn examine_these(members: &[Member], terms: Terms<'_>) -> Result<Vec<Obstacle>, EngineError> {
    let (living, zombies): (Vec<_>, Vec<_>) = members.iter().cloned().partition(|it| it.wait_status.is_none());
    let at = |pid| {
        // Of one whose main thread has ended plain users are told nothing.
        let looked = if is_headless(pid) { Err(std::io::ErrorKind::PermissionDenied.into()) } else { Subject::at(pid) };
        looked.map_err(|source| crate::freeze::forbidden(pid, source))
    };
    let subjects: Vec<Subject<'_>> = living.iter().map(|member| at(member.pid)).collect::<Result<_, _>>()?;
    let main = subjects.first().ok_or(EngineError::Ended)?.pid;
    let mut obstacles = Findings::of(&subjects, &zombies, terms, &Inheritance::of_orphan(main))?.obstacles;
    for subject in &subjects {
        let looking = |source| crate::freeze::forbidden(subject.pid, source);
        let others = restrictions::of_other_threads(subject.pid).map_err(looking)?;
        obstacles.append(&mut named(others, subject.pid, subjects.len()));
    }
    obstacles.append(&mut apart::find(members));
    obstacles.append(&mut apart::traced(members));
    Ok(obstacles)
}

/// Whether a process is not on its way out.
fn has_memory(pid: i32) -> bool {
    proc::read(pid, "statm").is_ok_and(|pages| !pages.starts_with(b"0 ")) || is_headless(pid)
}

/// Whether its main thread has ended while others go on.
fn is_headless(pid: i32) -> bool {
    Stat::of(pid).is_ok_and(|stat| stat.state == b'Z') && has_other_threads(pid)
}

/// A process to be looked at.
struct Subject<'a> {
    pid: i32,
    maps: Cow<'a, [Map]>,
    attributes: Attributes,
}

impl<'a> Subject<'a> {
    /// One that stands still, with what has been found out about it before.
    fn known(process: &'a FrozenProcess, shared: &Shared) -> Result<Self, EngineError> {
        let pid = process.pid;
        let status = Status::of(pid).map_err(|source| crate::freeze::forbidden(pid, source))?;
        let attributes = shared.looks.known(pid, status.locked_kib, &process.maps)?;
        Ok(Self { pid, maps: Cow::Borrowed(&process.maps), attributes })
    }

    /// One that runs.
    fn at(pid: i32) -> std::io::Result<Self> {
        Ok(Self { pid, maps: Cow::Owned(Map::of(pid)?), attributes: Attributes::at(pid)? })
    }
}

/// What `/proc` tells of a job.
#[derive(Debug)]
struct Findings {
    obstacles: Vec<Obstacle>,
    descriptors: Descriptors,
    objects: Objects,
    processes: Vec<OfProcess>,
}

/// What `/proc` tells of one process.
#[derive(Debug)]
struct OfProcess {
    mappings: memory::Mappings,
    executable: FileReference,
    status: Status,
}

impl Findings {
    fn of(
        subjects: &[Subject<'_>],
        zombies: &[Member],
        terms: Terms<'_>,
        inheritance: &Inheritance,
    ) -> Result<Self, EngineError> {
        let pids: Vec<i32> = subjects.iter().map(|subject| subject.pid).collect();
        let zombies: Vec<i32> = zombies.iter().map(|zombie| zombie.pid).collect();
        let looking = |source| crate::freeze::forbidden(pids[0], source);
        let mut found = Self {
            obstacles: Vec::new(),
            descriptors: Descriptors::default(),
            objects: Objects::default(),
            processes: Vec::new(),
        };
        let (objects, obstacles) = (&mut found.objects, &mut found.obstacles);
        found.descriptors =
            Descriptors::of(&pids, &zombies, terms, inheritance, objects, obstacles).map_err(looking)?;
        for (place, subject) in subjects.iter().enumerate() {
            let mut obstacles = Vec::new();
            let of_process = OfProcess::of(place, subject, terms.kept, &mut found.objects, &mut obstacles);
            let looking = |source| crate::freeze::forbidden(subject.pid, source);
            found.processes.push(of_process.map_err(looking)?);
            found.obstacles.append(&mut named(obstacles, subject.pid, subjects.len()));
        }
        found.objects.refuse_shared_segments(&mut found.obstacles);
        found.obstacles.append(&mut restrictions::kernel_queues(&pids).map_err(looking)?);
        Ok(found)
    }

    fn into_state(
        self,
        frozen: &Frozen,
        answers: Vec<threads::Inner>,
        objects: Vec<MemoryObject>,
        mut relations: kinship::Relations,
    ) -> Result<JobState, EngineError> {
        let machine = machine(answers.iter().fold(0, |all, inner| all | inner.xsave_features));
        let clocks = clocks(frozen.processes[0].pid);
        let mut descriptors = self.descriptors.descriptors.into_iter();
        let mut processes: Vec<ProcessState> = Vec::new();
        let untold: Vec<_> = answers.iter().flat_map(|inner| inner.untold.clone()).collect();
        for ((process, of_process), inner) in frozen.processes.iter().zip(self.processes).zip(answers) {
            let mut state = of_process.into_state(process, inner)?;
            state.descriptors = descriptors.next().unwrap_or_default();
            state.kinship = relations.living.remove(0);
            processes.push(state);
        }
        for (child, news) in untold {
            if let Some(process) = processes.iter_mut().find(|process| process.pid == child) {
                process.kinship.untold = Some(news);
            }
        }
        processes.append(&mut relations.zombies);
        Ok(JobState {
            machine,
            clocks,
            processes,
            open_files: self.descriptors.open_files,
            pipes: self.descriptors.pipes,
            sockets: self.descriptors.sockets,
            objects,
            terminals: self.descriptors.terminals,
        })
    }
}

impl OfProcess {
    fn of(
        place: usize,
        subject: &Subject<'_>,
        kept: &Kept,
        objects: &mut Objects,
        obstacles: &mut Vec<Obstacle>,
    ) -> std::io::Result<Self> {
        let status = Status::of(subject.pid)?;
        obstacles.append(&mut restrictions::find(&status)?);
        let mappings =
            memory::Mappings::of((subject.pid, place), &subject.maps, &subject.attributes, kept, objects, obstacles)?;
        let path = proc::link(subject.pid, "exe")?;
        let executable = reference(&path).or_else(|why| replaced(subject.pid, &path, kept).ok_or(why));
        let executable = executable.unwrap_or_else(|why| {
            obstacles.push(Obstacle {
                what: format!("executable {}", String::from_utf8_lossy(&path)),
                why,
                remedy: "start the program again from the installed file".to_owned(),
                passing: false,
            });
            FileReference::default()
        });
        Ok(Self { mappings, executable, status })
    }

    /// All but descriptors and kinship.
    fn into_state(self, process: &FrozenProcess, inner: threads::Inner) -> Result<ProcessState, EngineError> {
        let pid = process.pid;
        let asking = |source| kernel("taking the census", source);
        let arguments = proc::read(pid, "cmdline").map_err(asking)?;
        let arguments = arguments.strip_suffix(b"\0").unwrap_or(&arguments);
        let personality = proc::read(pid, "personality").map_err(asking)?;
        let personality = String::from_utf8_lossy(&personality);
        Ok(ProcessState {
            pid: self.status.process_ids.last().copied().unwrap_or(pid),
            executable: self.executable,
            arguments: arguments.split(|byte| *byte == 0).map(Bytes::from).collect(),
            working_directory: proc::link(pid, "cwd").map_err(asking)?.into(),
            umask: self.status.umask,
            personality: u32::from_str_radix(personality.trim(), 16).unwrap_or_default(),
            limits: limits(pid).map_err(asking)?,
            layout: layout(pid, inner.heap_end).map_err(asking)?,
            mappings: self.mappings.ordinary,
            special_mappings: self.mappings.special,
            dispositions: inner.dispositions,
            pending: inner.found.pending,
            descriptors: Vec::new(),
            threads: inner.threads,
            timers: inner.found.timers,
            permitted_features: inner.permitted_features,
            switches: inner.switches,
            kinship: Kinship::default(),
        })
    }
}

/// The executable of a process as it was when a copy of it was made.
fn replaced(pid: i32, path: &[u8], kept: &Kept) -> Option<FileReference> {
    let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    files::copied(path, file.ino(), kept)
}

/// This machine, as far as a restart must find it again, for a program that has these processor features.
pub(crate) fn machine(xsave_features: u64) -> Machine {
    static LAST: Mutex<Option<Machine>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match last.take().filter(|last| last.xsave_features == xsave_features) {
        Some(found) => last.insert(found).clone(),
        None => last.insert(find_machine(xsave_features)).clone(),
    }
}

fn find_machine(xsave_features: u64) -> Machine {
    let line = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    Machine {
        architecture: std::env::consts::ARCH.to_owned(),
        kernel_release: line("/proc/sys/kernel/osrelease"),
        host: line("/proc/sys/kernel/hostname"),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        vdso: Checksum::of(&own_vdso_code()),
        xsave_features,
        processor_features: processor::features().into_iter().map(str::to_owned).collect(),
        state_areas: processor::state_areas(xsave_features)
            .into_iter()
            .map(|(feature, offset, bytes)| StateArea { feature, offset, bytes })
            .collect(),
        vdso_code: own_vdso_code().into(),
    }
}

/// The vdso of this process: the kernel gives every process the same code.
pub(crate) fn own_vdso_code() -> Vec<u8> {
    let own = std::process::id() as i32;
    let bytes = || {
        let maps = Map::of(own).ok()?;
        let vdso = maps.iter().find(|map| map.path == b"[vdso]")?;
        let mut bytes = vec![0u8; vdso.range().bytes() as usize];
        let memory = standfast_linux::ProcessMemory::open(own).ok()?;
        memory.read(Address::new(vdso.start), &mut bytes).ok()?;
        Some(bytes)
    };
    bytes().unwrap_or_default()
}

fn clocks(pid: i32) -> Clocks {
    let (monotonic_nanoseconds, boottime_nanoseconds) = standfast_linux::monotonic_clocks_of(pid);
    Clocks {
        realtime_nanoseconds: process::clock_nanoseconds(libc::CLOCK_REALTIME),
        monotonic_nanoseconds,
        boottime_nanoseconds,
    }
}

fn limits(pid: i32) -> std::io::Result<Vec<Limit>> {
    (0..LIMITS).map(|resource| process::limit(pid, resource).map(|(soft, hard)| Limit { soft, hard })).collect()
}

fn layout(pid: i32, heap_end: u64) -> std::io::Result<MemoryLayout> {
    let [code_start, code_end, stack_start, data_start, data_end, heap_start, rest @ ..] = Stat::of(pid)?.layout;
    let [arguments_start, arguments_end, environment_start, environment_end] = rest;
    Ok(MemoryLayout {
        code_start,
        code_end,
        data_start,
        data_end,
        heap_start,
        heap_end,
        stack_start,
        arguments_start,
        arguments_end,
        environment_start,
        environment_end,
        auxiliary_vector: proc::read(pid, "auxv")?.into(),
    })
}
