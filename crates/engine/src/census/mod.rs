//! The census: everything that a frozen job holds, as records, or by name what of it could not be brought back.
//!
//! What `/proc` tells is asked first, and the obstacles found there end the census before anything is injected. Nothing
//! is written anywhere until the whole census stands.

mod apart;
mod asker;
mod attributes;
mod confirmation;
mod descriptors;
mod files;
mod guarded;
mod kinship;
mod memory;
mod objects;
mod other_names;
mod portrait;
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

use crate::freeze::{Frozen, kernel};
use crate::job::{Inheritance, Kept};
use crate::listing::{Listed, NotSaved};
use crate::restart::foreseen;
use crate::track::{Look, Pages, Track, Tracking, Tracks};
use crate::tree::Member;
use crate::{CaptureOptions, EngineError, Obstacle, ProcessIdentity, abreast};
pub use attributes::Asking;
use attributes::Attributes;
pub(crate) use attributes::Looks;
pub use confirmation::Unconfirmed;
pub use descriptors::ExternalSockets;
pub(crate) use descriptors::received;
use descriptors::{Descriptors, Motion, Terms};
pub use files::Output;
use files::{References, opened, reference};
pub(crate) use files::{code_files, list_ahead, look_ahead};
pub(crate) use memory::HUGE_PAGES;
use objects::Objects;
pub(crate) use objects::{ObjectContents, ObjectKey, data_of};
use portrait::{Ourselves, Particulars, Portrait};
pub use running::examine;
pub(crate) use running::{examine_folders, examine_with};
use standfast_core::Address;
use standfast_core::Checksum;
use standfast_format::records::{
    Clocks, FileReference, JobState, Kinship, Machine, MemoryObject, ProcessState, SavedFolder, SemaphoreSet,
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
pub(crate) use system_v::{KnownObjects, is_left_behind, known_here, made_since, was_here};
use threads::Also;

/// A job's records and where its memory is to be read.
#[derive(Debug)]
pub(crate) struct Census {
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

impl Census {
    /// One that `is_second` follows another for the same checkpoint.
    pub(crate) fn take(frozen: &Frozen, options: CaptureOptions, is_second: bool) -> Result<Self, EngineError> {
        let ourselves = Ourselves::look()?;
        let subjects = Subject::all_known(frozen, options.asking)?;
        let unconfirmed = Subject::unconfirmed(&subjects, frozen);
        let portraits: Vec<&Portrait> = subjects.iter().map(|subject| &subject.portrait).collect();
        guarded::look(&subjects, &mut frozen.shared.tracks(), &mut frozen.shared.written())?;
        let mut found = Findings::of_stopped(frozen, &subjects, options, &ourselves)?;
        let listed = frozen.shared.listing.list(&frozen.shared.folders());
        let mut folders = found.objects.save_folders(&frozen.shared.folders(), &ourselves.status)?;
        if frozen.shared.folders().saves_written {
            folders.extend(found.save_written(frozen, listed.as_deref().unwrap_or_default()));
        }
        found.objects.save_files(&found.descriptors.open_files, options.saved_files);
        let relations = kinship::Relations::of(frozen, &portraits)?;
        found.objects.add_unattached_segments()?;
        let pids: Vec<i32> = frozen.processes.iter().map(|process| process.pid).collect();
        let mut system_v = found.objects.system_v.contents(&pids)?;
        let ipc_namespace = found.objects.system_v.namespace();
        let mut tracks = frozen.shared.tracks();
        let observes = tracks.resolve(options.tracking) == Tracking::Pagemap;
        let identities: Vec<_> =
            frozen.processes.iter().zip(&portraits).map(|(it, portrait)| portrait.identity(it.pid)).collect();
        let stop = Stop { frozen, options, ourselves: &ourselves, portraits: &portraits, identities, observes };
        let answers = stop.ask(&mut found, &mut tracks, &system_v.semaphores)?;
        // Of processes that have been put under observation just now.
        guarded::look(&subjects, &mut tracks, &mut frozen.shared.written())?;
        let pages = stop.look(&mut found, &mut tracks, &answers, is_second)?;
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
        let mut state = found.into_state(frozen, &portraits, answers, records, relations)?;
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
    ourselves: &'a Ourselves,
    portraits: &'a [&'a Portrait],
    identities: Vec<ProcessIdentity>,
    /// Whether the kernel notes for us what is written.
    observes: bool,
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
        refuse(&mut found.objects.obstacles())?;
        let parents: HashSet<i32> = frozen.members().iter().filter_map(|member| member.parent).collect();
        let mut answers: Vec<_> = frozen.processes.iter().map(|_| threads::Inner::default()).collect();
        for place in by_processor(self.portraits) {
            let (process, identity) = (&frozen.processes[place], self.identities[place]);
            let loosens = self.observes && self.options.tracking == Tracking::Auto;
            let idle = tracks.of(identity).filter(|_| loosens).map(Track::loosen_idle).unwrap_or_default();
            let also = Also {
                ourselves: self.ourselves,
                doubts: &doubtful[place],
                idle: &idle,
                observe: self.observes && tracks.of(identity).is_none_or(|track| track.is_lost()),
                has_children: parents.contains(&process.pid),
                undo: probes[place],
            };
            let inner = &mut answers[place];
            *inner = threads::Inner::ask(process, self.portraits[place], &frozen.shared, also)?;
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
            let obstacles = std::mem::take(&mut inner.obstacles);
            found.obstacles.append(&mut named(obstacles, process.pid, frozen.processes.len()));
        }
        let switches = frozen.processes.iter().zip(&answers).map(|(it, inner)| (it.pid, it.parent, &inner.switches));
        found.obstacles.append(&mut apart::signalled_by_thread(switches)?);
        refuse(&mut found.obstacles)?;
        Ok(answers)
    }

    /// For each process: which pages hold something, and which of them have changed.
    fn look(
        &self,
        found: &mut Findings,
        tracks: &mut Tracks,
        answers: &[threads::Inner],
        is_second: bool,
    ) -> Result<Vec<Pages>, EngineError> {
        let look = Look {
            owner: 0,
            faults: 0,
            unchanged_percent_min: self.options.unchanged_percent_min,
            compares: self.options.tracking == Tracking::Auto,
            is_second,
        };
        let asked = self.frozen.processes.iter().zip(answers).zip(found.processes.iter_mut());
        let spaces = asked.zip(tracks.of_each(&self.identities)).enumerate().map(|(place, (asked, track))| {
            let ((process, inner), of_process) = asked;
            let look = Look { owner: place as u32, faults: self.portraits[place].stat.faults, ..look };
            Mutex::new(memory::Space {
                pid: process.pid,
                mappings: &mut of_process.mappings,
                live_stack: inner.live_stack(process, self.options.stack),
                track: track.filter(|_| self.observes).map(|track| (track, look)),
            })
        });
        let populated = |space: &Mutex<memory::Space<'_>>| space.lock().unwrap_or_else(PoisonError::into_inner).look();
        abreast::each(&spaces.collect::<Vec<_>>(), populated).into_iter().collect()
    }
}

/// The places of processes in an order in which those come together that ran on the same processor: to ask them we go
/// there ourselves.
fn by_processor(portraits: &[&Portrait]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..portraits.len()).collect();
    places.sort_by_key(|place| portraits[*place].stat.cpu);
    places
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
    let doubts = threads::Doubts::default();
    let also = Also {
        ourselves: &Ourselves::look()?,
        doubts: &doubts,
        idle: &[],
        observe: false,
        has_children: true,
        undo: None,
    };
    frozen.processes.iter().try_for_each(|process| {
        let portrait = Portrait::of(process.pid).map_err(|source| crate::freeze::forbidden(process.pid, source))?;
        threads::Inner::ask(process, &portrait, &frozen.shared, also).map(drop)
    })
}

/// A process to be looked at.
struct Subject<'a> {
    pid: i32,
    maps: Cow<'a, [Map]>,
    attributes: Attributes,
    portrait: Portrait,
}

impl<'a> Subject<'a> {
    /// Those that stand still, with what has been found out about them before.
    fn all_known(frozen: &'a Frozen, when: Asking) -> Result<Vec<Self>, EngineError> {
        let pids: Vec<i32> = frozen.processes.iter().map(|process| process.pid).collect();
        let portraits = abreast::each(&pids, |pid| Portrait::of(*pid));
        let known = frozen.processes.iter().zip(portraits).map(|(process, portrait)| {
            let (pid, maps) = (process.pid, &process.maps);
            let portrait = portrait.map_err(|source| crate::freeze::forbidden(pid, source))?;
            let (process, locked_kib) = (portrait.identity(pid), portrait.status.locked_kib);
            let attributes = frozen.shared.looks.known(process, locked_kib, maps, when)?;
            Ok(Self { pid, maps: Cow::Borrowed(maps), attributes, portrait })
        });
        known.collect()
    }

    /// What of that has to be confirmed when they run again.
    fn unconfirmed(subjects: &[Self], frozen: &Frozen) -> Unconfirmed {
        let used = |subject: &Self| {
            let used = subject.attributes.unconfirmed(subject.pid, &subject.maps)?;
            Some((subject.portrait.identity(subject.pid), used))
        };
        Unconfirmed::new(&frozen.shared, subjects.iter().filter_map(used).collect())
    }

    /// One that runs.
    fn at(pid: i32) -> std::io::Result<Self> {
        let (maps, attributes) = (Cow::Owned(Map::of(pid)?), Attributes::at(pid)?);
        Ok(Self { pid, maps, attributes, portrait: Portrait::of(pid)? })
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
}

impl Findings {
    /// Of a job that stands still; refused where something is in the way.
    fn of_stopped(
        frozen: &Frozen,
        subjects: &[Subject<'_>],
        options: CaptureOptions,
        ourselves: &Ourselves,
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
        let mut found = Self::of(subjects, &frozen.zombies, terms, &frozen.shared.inheritance, ourselves)?;
        *frozen.shared.written() = std::mem::take(&mut found.objects.written);
        let portraits: Vec<&Portrait> = subjects.iter().map(|subject| &subject.portrait).collect();
        found.obstacles.append(&mut apart::find(&frozen.members(), &portraits));
        refuse(&mut found.obstacles)?;
        Ok(found)
    }

    fn of(
        subjects: &[Subject<'_>],
        zombies: &[Member],
        terms: Terms<'_>,
        inheritance: &Inheritance,
        ourselves: &Ourselves,
    ) -> Result<Self, EngineError> {
        let pids: Vec<i32> = subjects.iter().map(|subject| subject.pid).collect();
        let zombies: Vec<i32> = zombies.iter().map(|zombie| zombie.pid).collect();
        let looking = |source| crate::freeze::forbidden(pids[0], source);
        let mut found = Self {
            obstacles: Vec::new(),
            descriptors: Descriptors::default(),
            objects: Objects::with(SystemV::of(pids[0]).map_err(looking)?, terms.written.clone()),
            processes: Vec::new(),
        };
        found.objects.note_written(subjects.iter().flat_map(|subject| subject.maps.iter()));
        let (objects, obstacles) = (&mut found.objects, &mut found.obstacles);
        let descriptors = Descriptors::of(&pids, &zombies, terms, inheritance, objects, obstacles).map_err(looking)?;
        let Some(descriptors) = descriptors else { return Ok(found) };
        found.descriptors = descriptors;
        let mut files = References::default();
        for (place, subject) in subjects.iter().enumerate() {
            let mut obstacles = restrictions::of_thread(&subject.portrait.status, &ourselves.status);
            obstacles.extend(restrictions::of_process(&subject.portrait.status));
            let of_process =
                OfProcess::of(place, subject, (terms.kept, &mut files), &mut found.objects, &mut obstacles);
            let looking = |source| crate::freeze::forbidden(subject.pid, source);
            found.processes.push(of_process.map_err(looking)?);
            obstacles.extend(surroundings::judge_working_directory(subject.pid).map_err(looking)?);
            found.obstacles.append(&mut named(obstacles, subject.pid, subjects.len()));
        }
        found.obstacles.append(&mut found.objects.judge_system_v(&pids, inheritance));
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
        portraits: &[&Portrait],
        answers: Vec<threads::Inner>,
        objects: Vec<MemoryObject>,
        mut relations: kinship::Relations,
    ) -> Result<JobState, EngineError> {
        let machine = machine(answers.iter().fold(0, |all, inner| all | inner.xsave_features));
        let clocks = clocks(frozen.processes[0].pid);
        let mut descriptors = self.descriptors.descriptors.into_iter();
        let mut processes: Vec<ProcessState> = Vec::new();
        let untold: Vec<_> = answers.iter().flat_map(|inner| inner.untold.clone()).collect();
        let pids: Vec<i32> = frozen.processes.iter().map(|process| process.pid).collect();
        let particulars = abreast::each(&pids, |pid| Particulars::of(*pid));
        let told = portraits.iter().zip(particulars);
        for ((of_process, inner), (portrait, particulars)) in self.processes.into_iter().zip(answers).zip(told) {
            let particulars = particulars.map_err(|source| kernel("taking the census", source))?;
            let mut state = of_process.into_state(inner, portrait, particulars);
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
        obstacles: &mut Vec<Obstacle>,
    ) -> std::io::Result<Self> {
        let mappings = memory::Mappings::of((subject, place), (kept, files), objects, obstacles)?;
        let path = &subject.portrait.executable;
        let executable = files.reference(path).or_else(|why| replaced(subject.pid, path, kept).ok_or(why));
        let executable = executable.unwrap_or_else(|why| {
            obstacles.push(Obstacle {
                what: format!("executable {}", String::from_utf8_lossy(path)),
                why,
                remedy: "start the program again from the installed file".to_owned(),
                passing: false,
            });
            FileReference::default()
        });
        Ok(Self { mappings, executable })
    }

    /// All but descriptors and kinship.
    fn into_state(self, inner: threads::Inner, portrait: &Portrait, particulars: Particulars) -> ProcessState {
        ProcessState {
            pid: portrait.status.process_ids.last().copied().unwrap_or_default(),
            executable: self.executable,
            layout: particulars.layout(&portrait.stat, inner.heap_end),
            arguments: particulars.arguments,
            working_directory: particulars.working_directory,
            umask: portrait.status.umask,
            personality: particulars.personality,
            limits: particulars.limits,
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
