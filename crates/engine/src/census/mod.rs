//! The census: everything that a frozen job holds, as records, or by name what of it could not be brought back.
//!
//! What `/proc` tells is asked first, and the obstacles found there end the census before anything is injected. Nothing
//! is written anywhere until the whole census stands.

mod asker;
mod attributes;
mod descriptors;
mod files;
mod memory;
mod objects;
mod restrictions;
mod scheduling;
mod switches;
mod threads;
mod timers;

use crate::freeze::{Frozen, FrozenProcess, kernel};
use crate::job::Inheritance;
use crate::track::{Pages, Tracking};
use crate::{EngineError, Obstacle, ProcessIdentity, StackPart};
use attributes::Attributes;
pub(crate) use attributes::Looks;
use descriptors::Descriptors;
pub use files::Output;
pub(crate) use files::look_ahead;
use files::reference;
pub(crate) use objects::ObjectContents;
use objects::Objects;
pub(crate) use restrictions::children;
use standfast_core::Address;
use standfast_core::Checksum;
use standfast_format::records::{
    Bytes, Clocks, FileReference, JobState, Limit, Machine, MemoryLayout, MemoryObject, ProcessState,
};
use standfast_linux::proc::{self, Map, Stat, Status};
use standfast_linux::sys::process;

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
    pub(crate) fn take(frozen: &Frozen, stack: StackPart, tracking: Tracking) -> Result<Self, EngineError> {
        let [process] = &frozen.processes[..] else {
            unreachable!("a job is a tree of one for now");
        };
        let status = Status::of(process.pid).map_err(|source| crate::freeze::forbidden(process.pid, source))?;
        let attributes = frozen.shared.looks.known(process.pid, status.locked_kib, &process.maps)?;
        let mut found = Findings::of(process.pid, &process.maps, &attributes, &frozen.shared.inheritance)?;
        if !found.obstacles.is_empty() {
            return Err(EngineError::Refused(found.obstacles));
        }
        let doubtful = found.objects.doubtful(0, process)?;
        let hidden = found.objects.obstacles();
        if !hidden.is_empty() {
            return Err(EngineError::Refused(hidden));
        }
        let mut tracks = frozen.shared.tracks();
        let identity = ProcessIdentity::of(process.pid)?;
        let is_new = tracking == Tracking::On && tracks.of(identity).is_none_or(|track| track.is_lost());
        let mut inner = threads::Inner::ask(process, &frozen.shared, &doubtful, is_new)?;
        if !inner.obstacles.is_empty() {
            return Err(EngineError::Refused(inner.obstacles));
        }
        found.objects.keep_resident(0, &std::mem::take(&mut inner.resident));
        if let Some(userfault) = inner.userfault.take() {
            tracks.begin(identity, userfault);
        }
        let track = tracks.of(identity).filter(|_| tracking == Tracking::On);
        let pages = memory::populated(process, &found.mappings, inner.live_stack(process, stack), track)?;
        found.mappings.note_guards(process.pid)?;
        let outputs = std::mem::take(&mut found.descriptors.outputs);
        let (records, objects) = std::mem::take(&mut found.objects).into_parts()?;
        let mut state = found.into_state(process, inner, records)?;
        files::note_contents(&mut state, &frozen.shared);
        Ok(Self { state, pages: vec![pages], objects, outputs })
    }
}

/// Asks every process of a job what only it can ask the kernel for, and forgets the answers.
pub(crate) fn ask_from_within(frozen: &Frozen) -> Result<(), EngineError> {
    frozen.processes.iter().try_for_each(|process| threads::Inner::ask(process, &frozen.shared, &[], false).map(drop))
}

/// What in this process could not be carried over: the part of the census that needs no freeze.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub fn examine(pid: i32) -> Result<Vec<Obstacle>, EngineError> {
    let maps = Map::of(pid).map_err(|source| crate::freeze::forbidden(pid, source))?;
    let attributes = Attributes::at(pid).map_err(|source| crate::freeze::forbidden(pid, source))?;
    let found = Findings::of(pid, &maps, &attributes, &Inheritance::of_orphan(pid))?;
    let others = restrictions::of_other_threads(pid).map_err(|source| crate::freeze::forbidden(pid, source))?;
    Ok(found.obstacles.into_iter().chain(others).collect())
}

/// What `/proc` tells of a process.
#[derive(Debug)]
struct Findings {
    obstacles: Vec<Obstacle>,
    mappings: memory::Mappings,
    descriptors: Descriptors,
    objects: Objects,
    executable: FileReference,
    status: Status,
}

impl Findings {
    fn of(pid: i32, maps: &[Map], attributes: &Attributes, inheritance: &Inheritance) -> Result<Self, EngineError> {
        let looking = |source| crate::freeze::forbidden(pid, source);
        let status = Status::of(pid).map_err(looking)?;
        let mut obstacles = restrictions::find(pid, &status).map_err(looking)?;
        let mut objects = Objects::default();
        let descriptors = Descriptors::of(&[pid], inheritance, &mut obstacles).map_err(looking)?;
        let mappings = memory::Mappings::of(pid, maps, attributes, &mut objects, &mut obstacles).map_err(looking)?;
        let path = proc::link(pid, "exe").map_err(looking)?;
        let executable = match reference(&path) {
            Ok(executable) => executable,
            Err(why) => {
                obstacles.push(Obstacle {
                    what: format!("executable {}", String::from_utf8_lossy(&path)),
                    why,
                    remedy: "start the program again from the installed file".to_owned(),
                    passing: false,
                });
                FileReference::default()
            }
        };
        Ok(Self { obstacles, mappings, descriptors, objects, executable, status })
    }

    fn into_state(
        self,
        process: &FrozenProcess,
        inner: threads::Inner,
        objects: Vec<MemoryObject>,
    ) -> Result<JobState, EngineError> {
        let pid = process.pid;
        let asking = |source| kernel("taking the census", source);
        let arguments = proc::read(pid, "cmdline").map_err(asking)?;
        let arguments = arguments.strip_suffix(b"\0").unwrap_or(&arguments);
        let personality = proc::read(pid, "personality").map_err(asking)?;
        let personality = String::from_utf8_lossy(&personality);
        let state = ProcessState {
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
            descriptors: self.descriptors.descriptors.into_iter().next().unwrap_or_default(),
            threads: inner.threads,
            timers: inner.found.timers,
            permitted_features: inner.permitted_features,
            switches: inner.switches,
        };
        Ok(JobState {
            machine: machine(inner.xsave_features),
            clocks: clocks(pid),
            processes: vec![state],
            open_files: self.descriptors.open_files,
            pipes: self.descriptors.pipes,
            objects,
        })
    }
}

/// This machine, as far as a restart must find it again.
pub(crate) fn machine(xsave_features: u64) -> Machine {
    let line = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    Machine {
        architecture: std::env::consts::ARCH.to_owned(),
        kernel_release: line("/proc/sys/kernel/osrelease"),
        host: line("/proc/sys/kernel/hostname"),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        vdso: own_vdso(),
        xsave_features,
    }
}

/// Checksum of the vdso of this process: the kernel gives every process the same code.
fn own_vdso() -> Checksum {
    let own = std::process::id() as i32;
    let bytes = || {
        let maps = Map::of(own).ok()?;
        let vdso = maps.iter().find(|map| map.path == b"[vdso]")?;
        let mut bytes = vec![0u8; vdso.range().bytes() as usize];
        let memory = standfast_linux::ProcessMemory::open(own).ok()?;
        memory.read(Address::new(vdso.start), &mut bytes).ok()?;
        Some(bytes)
    };
    Checksum::of(&bytes().unwrap_or_default())
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
