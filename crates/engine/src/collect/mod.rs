//! The collection: everything that a frozen job holds, as records, or by name what of it could not be brought back.
//!
//! What `/proc` tells is asked first, and the blockers found there end the collection before anything is injected. Nothing
//! is written anywhere until the whole collection stands.

mod apart;
mod attributes;
mod confirmation;
mod descriptors;
mod files;
mod guarded;
mod memory;
mod objects;
mod other_names;
mod process_snapshot;
mod process_tree;
mod remote_caller;
mod restrictions;
mod running;
mod scheduling;
mod supervisors;
mod surroundings;
mod switches;
mod system_v;
mod threads;
mod timers;
mod undo;

use crate::freeze::Frozen;

use crate::error::kernel;
use crate::inheritance::Inheritance;
use crate::job::Kept;
use crate::listing::{Listed, NotSaved};
use crate::restart::foreseen;
use crate::track::{Pages, Scan, Track, Tracking, Tracks};
use crate::tree::Member;
use crate::{Blocker, CaptureOptions, EngineError, ProcessIdentity, pool};
pub use attributes::Asking;
use attributes::Attributes;
pub(crate) use attributes::Scans;
pub use confirmation::Unconfirmed;
pub use descriptors::ExternalSockets;
pub(crate) use descriptors::received;
use descriptors::{Descriptors, Motion, Terms};
pub use files::Output;
use files::{References, opened, reference};
pub(crate) use files::{code_files, list_ahead, prefetch};
pub(crate) use memory::HUGE_PAGES;
use objects::Objects;
pub(crate) use objects::{ObjectContents, ObjectKey, data_of};
use process_snapshot::{ProcessAttributes, ProcessSnapshot, SupervisorBaseline};
pub use running::examine;
pub(crate) use running::{examine_folders, examine_with};
use standfast_core::Address;
use standfast_core::Checksum;
use standfast_format::records::{
    Clocks, FileReference, JobState, Machine, MemoryObject, ProcessState, ProcessTree, SavedFolder, SemaphoreSet,
    StateArea, Undo,
};
use standfast_linux::proc::{self, Map};
use standfast_linux::processor;
use standfast_linux::sys::process;
use std::borrow::Cow;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
pub(crate) use surroundings::{is_plain, socket_path};
use system_v::SystemV;
pub(crate) use system_v::{KnownObjects, is_leftover, known_here, made_since, was_here};
use threads::Also;

/// A job's records and where its memory is to be read.
#[derive(Debug)]
pub(crate) struct Collection {
    pub(crate) state: JobState,
    /// For each process: which it is.
    pub(crate) identities: Vec<ProcessIdentity>,
    /// For each process: which pages hold something.
    pub(crate) pages: Vec<Pages>,
    /// For each memory object: which of its pages hold something, and where they are read.
    pub(crate) objects: Vec<ObjectContents>,
    /// Files that the job has open for writing: what it wrote must be as durable as the checkpoint that counts on it.
    pub(crate) outputs: Vec<Output>,
    /// What was found out about its memory before it was stopped.
    pub(crate) unconfirmed: Unconfirmed,
}

impl Collection {
    /// One that `is_second` follows another for the same checkpoint.
    pub(crate) fn take(frozen: &Frozen, options: CaptureOptions, is_second: bool) -> Result<Self, EngineError> {
        let supervisor_baseline = SupervisorBaseline::scan()?;
        let subjects = Subject::all_known(frozen, options.asking)?;
        let unconfirmed = Subject::unconfirmed(&subjects, frozen);
        let process_snapshots: Vec<&ProcessSnapshot> =
            subjects.iter().map(|subject| &subject.process_snapshot).collect();
        guarded::scan(&subjects, &mut frozen.shared.tracks(), &mut frozen.shared.written())?;
        let mut found = Findings::of_stopped(frozen, &subjects, options, &supervisor_baseline)?;
        let listed = frozen.shared.listing.list(&frozen.shared.folders());
        let mut folders = found.objects.save_folders(&frozen.shared.folders(), &supervisor_baseline.status)?;
        if frozen.shared.folders().saves_written {
            folders.extend(found.save_written(frozen, listed.as_deref().unwrap_or_default()));
        }
        found.objects.save_files(&found.descriptors.open_files, options.saved_files);
        let relations = process_tree::Relations::of(frozen, &process_snapshots)?;
        found.objects.add_unattached_segments()?;
        let pids: Vec<i32> = frozen.processes.iter().map(|process| process.pid).collect();
        let mut system_v = found.objects.system_v.contents(&pids)?;
        let ipc_namespace = found.objects.system_v.namespace();
        let mut tracks = frozen.shared.tracks();
        let by_pagemap = tracks.resolve(options.tracking) == Tracking::Pagemap;
        let identities: Vec<_> = frozen
            .processes
            .iter()
            .zip(&process_snapshots)
            .map(|(it, process_snapshot)| process_snapshot.identity(it.pid))
            .collect();
        let stop = Stop {
            frozen,
            options,
            supervisor_baseline: &supervisor_baseline,
            process_snapshots: &process_snapshots,
            identities,
            by_pagemap,
        };
        let answers = stop.ask(&mut found, &mut tracks, &system_v.semaphores)?;
        // Of processes that are tracked from now on.
        guarded::scan(&subjects, &mut tracks, &mut frozen.shared.written())?;
        let pages = stop.scan(&mut found, &mut tracks, &answers, is_second)?;
        let identities = stop.identities;
        let with_ports = std::mem::take(&mut found.descriptors.with_ports);
        let mut outputs = std::mem::take(&mut found.descriptors.outputs);
        outputs.extend(found.objects.outputs());
        let (records, objects) = std::mem::take(&mut found.objects).into_parts()?;
        for (place, inner) in answers.iter().enumerate() {
            for (set, undo) in &inner.undo {
                let undo = Undo { process: place as u32, ..*undo };
                system_v.semaphores[*set].undo.push(undo);
            }
        }
        let mut state = found.into_state(frozen, &process_snapshots, answers, records, relations)?;
        refuse(&mut foreseen(&state))?;
        state.folders = folders;
        state.listed = frozen.shared.listing.record(listed);
        state.forks = proc::forks().unwrap_or_default();
        state.semaphores = system_v.semaphores;
        state.message_queues = system_v.queues;
        state.ipc_namespace = ipc_namespace;
        state.pid_namespace = system_v::pid_namespace(pids[0]);
        other_names::note(&mut state);
        state.surroundings = Some(surroundings::of(&state, &pids));
        files::note_contents(&mut state, &frozen.shared);
        frozen.shared.listing.note_unsaved(&state);
        // Nothing stands in the way of the checkpoint any more. Where it cannot be set, a restart may have to wait.
        with_ports.iter().for_each(|socket| drop(frozen.shared.reused_ports.set(socket.as_fd())));
        Ok(Self { state, identities, pages, objects, outputs, unconfirmed })
    }
}

/// A job that stands still to be looked at, and how.
struct Stop<'a> {
    frozen: &'a Frozen,
    options: CaptureOptions,
    supervisor_baseline: &'a SupervisorBaseline,
    process_snapshots: &'a [&'a ProcessSnapshot],
    identities: Vec<ProcessIdentity>,
    /// Whether the kernel notes for us what is written.
    by_pagemap: bool,
}

impl Stop<'_> {
    /// Asks each process what only it can ask the kernel for.
    fn ask(
        &self,
        found: &mut Findings,
        tracks: &mut Tracks,
        semaphores: &[SemaphoreSet],
    ) -> Result<Vec<threads::Inner>, EngineError> {
        let frozen = self.frozen;
        let probes = match found.objects.system_v.has_semaphores() {
            true => system_v::probes(frozen, semaphores)?,
            false => vec![None; frozen.processes.len()],
        };
        let mut doubtful = Vec::new();
        for (place, process) in frozen.processes.iter().enumerate() {
            let pages = found.objects.doubtful(place, process)?;
            doubtful.push(threads::Doubts { pages, descriptors: found.descriptors.doubtful(place) });
        }
        refuse(&mut found.objects.blockers())?;
        let parents: HashSet<i32> = frozen.members().iter().filter_map(|member| member.parent).collect();
        let mut answers: Vec<_> = frozen.processes.iter().map(|_| threads::Inner::default()).collect();
        for place in by_processor(self.process_snapshots) {
            let (process, identity) = (&frozen.processes[place], self.identities[place]);
            let loosens = self.by_pagemap && self.options.tracking == Tracking::Auto;
            let idle = tracks.of(identity).filter(|_| loosens).map(Track::loosen_idle).unwrap_or_default();
            let also = Also {
                supervisor_baseline: self.supervisor_baseline,
                doubts: &doubtful[place],
                idle: &idle,
                track: self.by_pagemap && tracks.of(identity).is_none_or(|track| track.is_lost()),
                has_children: parents.contains(&process.pid),
                undo: probes[place],
            };
            let inner = &mut answers[place];
            *inner = threads::Inner::ask(process, self.process_snapshots[place], &frozen.shared, also)?;
            for (unit, worked) in idle.into_iter().zip(&inner.collapsed) {
                tracks.of(identity).into_iter().for_each(|track| track.note_collapsed(unit, *worked));
            }
            found.objects.keep_resident(place, &std::mem::take(&mut inner.resident));
            found.descriptors.keep_inherited(place, &inner.inherited);
            if let Some(userfault) = inner.userfault.take() {
                tracks.begin(identity, self.options.tracking, userfault);
            }
        }
        for (process, inner) in frozen.processes.iter().zip(&mut answers) {
            let blockers = std::mem::take(&mut inner.blockers);
            found.blockers.append(&mut named(blockers, process.pid, frozen.processes.len()));
        }
        let switches = frozen.processes.iter().zip(&answers).map(|(it, inner)| (it.pid, it.parent, &inner.switches));
        found.blockers.append(&mut apart::signalled_by_thread(switches)?);
        refuse(&mut found.blockers)?;
        Ok(answers)
    }

    /// For each process: which pages hold something, and which of them have changed.
    fn scan(
        &self,
        found: &mut Findings,
        tracks: &mut Tracks,
        answers: &[threads::Inner],
        is_second: bool,
    ) -> Result<Vec<Pages>, EngineError> {
        let scan = Scan {
            owner: 0,
            faults: 0,
            unchanged_percent_min: self.options.unchanged_percent_min,
            compares: self.options.tracking == Tracking::Auto,
            is_second,
        };
        let asked = self.frozen.processes.iter().zip(answers).zip(found.processes.iter_mut());
        let spaces = asked.zip(tracks.of_each(&self.identities)).enumerate().map(|(place, (asked, track))| {
            let ((process, inner), of_process) = asked;
            let scan = Scan { owner: place as u32, faults: self.process_snapshots[place].stat.faults, ..scan };
            Mutex::new(memory::Space {
                pid: process.pid,
                mappings: &mut of_process.mappings,
                live_stack: inner.live_stack(process, self.options.stack),
                track: track.filter(|_| self.by_pagemap).map(|track| (track, scan)),
            })
        });
        let populated = |space: &Mutex<memory::Space<'_>>| space.lock().unwrap_or_else(PoisonError::into_inner).scan();
        pool::each(&spaces.collect::<Vec<_>>(), populated).into_iter().collect()
    }
}

/// The places of processes in an order in which those come together that ran on the same processor: to ask them we go
/// there ourselves.
fn by_processor(process_snapshots: &[&ProcessSnapshot]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..process_snapshots.len()).collect();
    places.sort_by_key(|place| process_snapshots[*place].stat.cpu);
    places
}

/// Ends the collection where something stands in the way.
fn refuse(blockers: &mut Vec<Blocker>) -> Result<(), EngineError> {
    if blockers.is_empty() { Ok(()) } else { Err(EngineError::Refused(std::mem::take(blockers))) }
}

/// Says whose blockers they are, where there is more than one process.
fn named(mut blockers: Vec<Blocker>, pid: i32, processes: usize) -> Vec<Blocker> {
    if processes > 1 && !blockers.is_empty() {
        let name = proc::read(pid, "comm").unwrap_or_default();
        let name = String::from_utf8_lossy(&name);
        blockers.iter_mut().for_each(|it| it.what = format!("{} of process {pid} ({})", it.what, name.trim()));
    }
    blockers
}

/// Asks every process of a job what only it can ask the kernel for, and forgets the answers.
pub(crate) fn ask_from_within(frozen: &Frozen) -> Result<(), EngineError> {
    let doubts = threads::Doubts::default();
    let also = Also {
        supervisor_baseline: &SupervisorBaseline::scan()?,
        doubts: &doubts,
        idle: &[],
        track: false,
        has_children: true,
        undo: None,
    };
    frozen.processes.iter().try_for_each(|process| {
        let process_snapshot =
            ProcessSnapshot::of(process.pid).map_err(|source| crate::forbidden::forbidden(process.pid, source))?;
        threads::Inner::ask(process, &process_snapshot, &frozen.shared, also).map(drop)
    })
}

/// A process to be looked at.
struct Subject<'a> {
    pid: i32,
    maps: Cow<'a, [Map]>,
    attributes: Attributes,
    process_snapshot: ProcessSnapshot,
}

impl<'a> Subject<'a> {
    /// Those that stand still, with what has been found out about them before.
    fn all_known(frozen: &'a Frozen, when: Asking) -> Result<Vec<Self>, EngineError> {
        let pids: Vec<i32> = frozen.processes.iter().map(|process| process.pid).collect();
        let process_snapshots = pool::each(&pids, |pid| ProcessSnapshot::of(*pid));
        let known = frozen.processes.iter().zip(process_snapshots).map(|(process, process_snapshot)| {
            let (pid, maps) = (process.pid, &process.maps);
            let process_snapshot = process_snapshot.map_err(|source| crate::forbidden::forbidden(pid, source))?;
            let (process, locked_kib) = (process_snapshot.identity(pid), process_snapshot.status.locked_kib);
            let attributes = frozen.shared.scans.known(process, locked_kib, maps, when)?;
            Ok(Self { pid, maps: Cow::Borrowed(maps), attributes, process_snapshot })
        });
        known.collect()
    }

    /// What of that has to be confirmed when they run again.
    fn unconfirmed(subjects: &[Self], frozen: &Frozen) -> Unconfirmed {
        let used = |subject: &Self| {
            let used = subject.attributes.unconfirmed(subject.pid, &subject.maps)?;
            Some((subject.process_snapshot.identity(subject.pid), used))
        };
        Unconfirmed::new(&frozen.shared, subjects.iter().filter_map(used).collect())
    }

    /// One that runs.
    fn at(pid: i32) -> std::io::Result<Self> {
        let (maps, attributes) = (Cow::Owned(Map::of(pid)?), Attributes::at(pid)?);
        Ok(Self { pid, maps, attributes, process_snapshot: ProcessSnapshot::of(pid)? })
    }
}

/// What `/proc` tells of a job.
#[derive(Debug)]
struct Findings {
    blockers: Vec<Blocker>,
    descriptors: Descriptors,
    objects: Objects,
    processes: Vec<OfProcess>,
}

/// What `/proc` tells of one process.
#[derive(Debug)]
struct OfProcess {
    mappings: memory::Mappings,
    executable: FileReference,
}

impl Findings {
    /// Of a job that stands still; refused where something is in the way.
    fn of_stopped(
        frozen: &Frozen,
        subjects: &[Subject<'_>],
        options: CaptureOptions,
        supervisor_baseline: &SupervisorBaseline,
    ) -> Result<Self, EngineError> {
        let (kept, terminal) = (frozen.shared.kept().clone(), frozen.shared.terminal());
        let written = frozen.shared.written().clone();
        let terms = Terms {
            motion: Motion::Stopped,
            external_sockets: options.external_sockets,
            kept: &kept,
            terminal: terminal.as_deref(),
            reused_ports: Some(&frozen.shared.reused_ports),
            written: &written,
        };
        let mut found = Self::of(subjects, &frozen.zombies, terms, &frozen.shared.inheritance, supervisor_baseline)?;
        *frozen.shared.written() = std::mem::take(&mut found.objects.written);
        let process_snapshots: Vec<&ProcessSnapshot> =
            subjects.iter().map(|subject| &subject.process_snapshot).collect();
        found.blockers.append(&mut apart::find(&frozen.members(), &process_snapshots));
        refuse(&mut found.blockers)?;
        Ok(found)
    }

    fn of(
        subjects: &[Subject<'_>],
        zombies: &[Member],
        terms: Terms<'_>,
        inheritance: &Inheritance,
        supervisor_baseline: &SupervisorBaseline,
    ) -> Result<Self, EngineError> {
        let pids: Vec<i32> = subjects.iter().map(|subject| subject.pid).collect();
        let zombies: Vec<i32> = zombies.iter().map(|zombie| zombie.pid).collect();
        let scanning = |source| crate::forbidden::forbidden(pids[0], source);
        let mut found = Self {
            blockers: Vec::new(),
            descriptors: Descriptors::default(),
            objects: Objects::with(SystemV::of(pids[0]).map_err(scanning)?, terms.written.clone()),
            processes: Vec::new(),
        };
        found.objects.note_written(subjects.iter().flat_map(|subject| subject.maps.iter()));
        let (objects, blockers) = (&mut found.objects, &mut found.blockers);
        let descriptors = Descriptors::of(&pids, &zombies, terms, inheritance, objects, blockers).map_err(scanning)?;
        let Some(descriptors) = descriptors else { return Ok(found) };
        found.descriptors = descriptors;
        let mut files = References::default();
        for (place, subject) in subjects.iter().enumerate() {
            let mut blockers = restrictions::of_thread(&subject.process_snapshot.status, &supervisor_baseline.status);
            blockers.extend(restrictions::of_process(&subject.process_snapshot.status));
            let of_process = OfProcess::of(place, subject, (terms.kept, &mut files), &mut found.objects, &mut blockers);
            let scanning = |source| crate::forbidden::forbidden(subject.pid, source);
            found.processes.push(of_process.map_err(scanning)?);
            blockers.extend(surroundings::judge_working_directory(subject.pid).map_err(scanning)?);
            found.blockers.append(&mut named(blockers, subject.pid, subjects.len()));
        }
        found.blockers.append(&mut found.objects.judge_system_v(&pids, inheritance));
        Ok(found)
    }

    /// Takes up the files that the job was seen to write.
    fn save_written(&mut self, frozen: &Frozen, listed: &[Listed]) -> Vec<SavedFolder> {
        let open_files = &self.descriptors.open_files;
        let at_ends = objects::written_at_ends(open_files);
        self.objects.save_written_at_ends(open_files, &at_ends);
        let held = open_files.iter().filter_map(|open| open.kind.file());
        let held = held.map(|file| (file.identity.device, file.identity.inode)).collect();
        let listing = &frozen.shared.listing;
        let (folders, unread) = self.objects.save_written(&listing.written(listed, &at_ends, &held));
        listing.tell_not_saved(&unread, NotSaved::Unreadable);
        folders
    }

    fn into_state(
        self,
        frozen: &Frozen,
        process_snapshots: &[&ProcessSnapshot],
        answers: Vec<threads::Inner>,
        objects: Vec<MemoryObject>,
        mut relations: process_tree::Relations,
    ) -> Result<JobState, EngineError> {
        let machine = machine(answers.iter().fold(0, |all, inner| all | inner.xsave_features));
        let clocks = clocks(frozen.processes[0].pid);
        let mut descriptors = self.descriptors.descriptors.into_iter();
        let mut processes: Vec<ProcessState> = Vec::new();
        let unreported: Vec<_> = answers.iter().flat_map(|inner| inner.unreported.clone()).collect();
        let pids: Vec<i32> = frozen.processes.iter().map(|process| process.pid).collect();
        let process_attributes = pool::each(&pids, |pid| ProcessAttributes::of(*pid));
        let attributes = process_snapshots.iter().zip(process_attributes);
        for ((of_process, inner), (process_snapshot, process_attributes)) in
            self.processes.into_iter().zip(answers).zip(attributes)
        {
            let process_attributes = process_attributes.map_err(|source| kernel("taking the collection", source))?;
            let mut state = of_process.into_state(inner, process_snapshot, process_attributes);
            state.descriptors = descriptors.next().unwrap_or_default();
            state.process_tree = relations.living.remove(0);
            processes.push(state);
        }
        for (child, news) in unreported {
            if let Some(process) = processes.iter_mut().find(|process| process.pid == child) {
                process.process_tree.unreported = Some(news);
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
            posix_queues: self.descriptors.posix_queues,
            ..JobState::default()
        })
    }
}

impl OfProcess {
    fn of(
        place: usize,
        subject: &Subject<'_>,
        (kept, files): (&Kept, &mut References),
        objects: &mut Objects,
        blockers: &mut Vec<Blocker>,
    ) -> std::io::Result<Self> {
        let mappings = memory::Mappings::of((subject, place), (kept, files), objects, blockers)?;
        let path = &subject.process_snapshot.executable;
        let executable = files.reference(path).or_else(|why| replaced(subject.pid, path, kept).ok_or(why));
        let executable = executable.unwrap_or_else(|why| {
            blockers.push(Blocker {
                what: format!("executable {}", String::from_utf8_lossy(path)),
                why,
                remedy: "start the program again from the installed file".to_owned(),
                passing: false,
            });
            FileReference::default()
        });
        Ok(Self { mappings, executable })
    }

    /// All but descriptors and process tree.
    fn into_state(
        self,
        inner: threads::Inner,
        process_snapshot: &ProcessSnapshot,
        process_attributes: ProcessAttributes,
    ) -> ProcessState {
        ProcessState {
            pid: process_snapshot.status.process_ids.last().copied().unwrap_or_default(),
            executable: self.executable,
            layout: process_attributes.layout(&process_snapshot.stat, inner.heap_end),
            arguments: process_attributes.arguments,
            working_directory: process_attributes.working_directory,
            umask: process_snapshot.status.umask,
            personality: process_attributes.personality,
            limits: process_attributes.limits,
            mappings: self.mappings.ordinary,
            special_mappings: self.mappings.special,
            dispositions: inner.dispositions,
            pending: inner.found.pending,
            descriptors: Vec::new(),
            threads: inner.threads,
            timers: inner.found.timers,
            permitted_features: inner.permitted_features,
            switches: inner.switches,
            process_tree: ProcessTree::default(),
        }
    }
}

/// The executable of a process as it was when a copy of it was made.
fn replaced(pid: i32, path: &[u8], kept: &Kept) -> Option<FileReference> {
    let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    // Another file may have been given the inode of one that was copied and is gone. That a name was removed changes the time of
    // change, not that of modification.
    let was = (file.len(), crate::files::identity(&file).modified_nanoseconds);
    files::copied(path, file.ino(), kept).filter(|copy| (copy.length, copy.identity.modified_nanoseconds) == was)
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
