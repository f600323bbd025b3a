//! The collection: everything that a frozen job holds, as records, or a list by name of what could not be restored.
//!
//! The collection reads `/proc` first, and blockers found there end it before anything is injected. Nothing is written
//! anywhere until the whole collection is complete.

mod confirmation;
mod files;
mod findings;
mod guarded;
mod isolation_mismatch;
mod last_id;
mod memory;
mod passing;
mod process_snapshot;
mod restrictions;
mod running;
mod surroundings;
mod threads;

use crate::attributes::Attributes;
use crate::capture_options::{Asking, CaptureOptions, Tracking};
use crate::freeze::Frozen;
use crate::objects::{ObjectContents, Relations, ShownProcess, note_other_names, pid_namespace, probes};
use crate::outputs::Output;
use findings::{Findings, StopTerms};
use standfast_linux::Pid;

use crate::foreseen::foreseen;
use crate::pages::Pages;
use crate::track::{Scan, Track, Tracks};
use crate::{Blocker, EngineError, ProcessIdentity, pool};
pub use confirmation::Unconfirmed;
pub(crate) use files::{code_files, list_ahead, prefetch};
use process_snapshot::{ProcessSnapshot, SupervisorBaseline};
pub use running::examine;
pub(crate) use running::{Outsiders, examine_folders, examine_with};
use standfast_format::records::{JobState, SemaphoreSet};
use standfast_linux::proc::{self, Map};
use std::borrow::Cow;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use threads::{Also, Doubts};

/// A job's records, and where to read its memory.
#[derive(Debug)]
pub(crate) struct Collection {
    pub(crate) state: JobState,
    /// The identity of each process.
    pub(crate) identities: Vec<ProcessIdentity>,
    /// The populated pages of each process.
    pub(crate) pages: Vec<Pages>,
    /// The populated pages of each memory object, and where to read them.
    pub(crate) objects: Vec<ObjectContents>,
    /// Files that the job has open for writing. What it wrote must be as durable as the checkpoint that relies on it.
    pub(crate) outputs: Vec<Output>,
    /// What was found out about its memory before the stop.
    pub(crate) unconfirmed: Unconfirmed,
}

/// Which look at the job a collection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The only one for its checkpoint.
    Only,
    /// That before a precopy. The job runs on afterwards, so the other parts of a distributed job are left alone.
    First,
    /// That after a precopy.
    Second,
}

impl Collection {
    /// Takes the collection.
    pub(crate) fn take(frozen: &Frozen, options: CaptureOptions, look: Look) -> Result<Self, EngineError> {
        let supervisor_baseline = SupervisorBaseline::scan()?;
        let subjects = Subject::all_known(frozen, options.asking)?;
        let unconfirmed = Subject::unconfirmed(&subjects, frozen);
        let stop = Stop::of(frozen, options, &supervisor_baseline, &subjects);
        guarded::scan(&subjects, &mut frozen.shared.memory.tracks(), &mut frozen.shared.files.written())?;
        let taken = passing::take_descriptors(frozen, &subjects, &supervisor_baseline)?;
        let terms = StopTerms { taken: &taken, meets_partners: look != Look::First };
        let mut found = Findings::of_stopped(frozen, &subjects, options, &supervisor_baseline, terms)?;
        drop(taken);
        let listed = frozen.shared.files.listing.list(&frozen.shared.files.folders());
        let mut folders = found.objects.save_folders(&frozen.shared.files.folders(), &supervisor_baseline.status)?;
        if frozen.shared.files.folders().saves_written {
            folders.extend(found.save_written(frozen, listed.as_deref().unwrap_or_default()));
        }
        found.objects.save_files(&found.descriptors.open_files, options.saved_files);
        let relations = Relations::of(frozen, &stop.shown())?;
        let system_v = found.system_v(&stop.pids)?;
        let ipc_namespace = found.objects.system_v.namespace();
        let mut tracks = frozen.shared.memory.tracks();
        let doubtful = stop.doubtful(&mut found)?;
        let answers = stop.ask(&mut found, &mut tracks, &doubtful, &system_v.semaphores)?;
        found.objects.measure(&frozen.processes);
        // For processes that are tracked from now on.
        guarded::scan(&subjects, &mut tracks, &mut frozen.shared.files.written())?;
        let pages = stop.scan(&mut found, &mut tracks, &answers, look == Look::Second)?;
        let with_ports = std::mem::take(&mut found.descriptors.with_ports);
        let mut outputs = std::mem::take(&mut found.descriptors.outputs);
        outputs.extend(found.objects.outputs());
        let (records, objects) = std::mem::take(&mut found.objects).into_parts()?;
        let mut state = found.into_state(&stop, answers, records, relations, system_v)?;
        refuse(&mut foreseen(&state))?;
        state.folders = folders;
        state.listed = frozen.shared.files.listing.record(listed);
        state.forks = proc::forks().unwrap_or_default();
        state.ipc_namespace = ipc_namespace;
        state.pid_namespace = pid_namespace(stop.pids[0]);
        note_other_names(&mut state);
        state.surroundings = Some(surroundings::of(&state, &stop.pids));
        files::note_contents(&mut state, &frozen.shared.files);
        frozen.shared.files.listing.note_unsaved(&state);
        // Nothing prevents the checkpoint any more. If this option cannot be set, a restart may have to wait.
        with_ports.iter().for_each(|socket| drop(frozen.shared.contact.reused_ports.set(socket.as_fd())));
        Ok(Self { state, identities: stop.identities, pages, objects, outputs, unconfirmed })
    }

    /// Returns only the records of what the job itself is, without reading any page. Its files and its surroundings are
    /// left out.
    pub(crate) fn records(frozen: &Frozen, options: CaptureOptions) -> Result<JobState, EngineError> {
        let supervisor_baseline = SupervisorBaseline::scan()?;
        let subjects = Subject::all_known(frozen, options.asking)?;
        let stop = Stop::of(frozen, options, &supervisor_baseline, &subjects);
        let taken = passing::take_descriptors(frozen, &subjects, &supervisor_baseline)?;
        let terms = StopTerms { taken: &taken, meets_partners: true };
        let mut found = Findings::of_stopped(frozen, &subjects, options, &supervisor_baseline, terms)?;
        drop(taken);
        let relations = Relations::of(frozen, &stop.shown())?;
        let system_v = found.system_v(&stop.pids)?;
        let places = 0..stop.pids.len();
        let doubtful: Vec<_> = places.map(|place| Doubts::of_descriptors(&found.descriptors, place)).collect();
        let answers = stop.ask(&mut found, &mut frozen.shared.memory.tracks(), &doubtful, &system_v.semaphores)?;
        stop.note_guards(&mut found)?;
        let records = std::mem::take(&mut found.objects).into_records();
        found.into_state(&stop, answers, records, relations, system_v)
    }
}

/// A frozen job, and how to collect it.
struct Stop<'a> {
    frozen: &'a Frozen,
    options: CaptureOptions,
    supervisor_baseline: &'a SupervisorBaseline,
    pids: Vec<Pid>,
    process_snapshots: Vec<&'a ProcessSnapshot>,
    identities: Vec<ProcessIdentity>,
    /// Whether the kernel tracks writes for us.
    by_pagemap: bool,
}

impl<'a> Stop<'a> {
    fn of(
        frozen: &'a Frozen,
        options: CaptureOptions,
        supervisor_baseline: &'a SupervisorBaseline,
        subjects: &'a [Subject<'_>],
    ) -> Self {
        Self {
            frozen,
            options,
            supervisor_baseline,
            pids: subjects.iter().map(|subject| subject.pid).collect(),
            process_snapshots: subjects.iter().map(|subject| &subject.process_snapshot).collect(),
            identities: subjects.iter().map(Subject::identity).collect(),
            by_pagemap: frozen.shared.memory.tracks().resolve(options.tracking) == Tracking::Pagemap,
        }
    }

    fn shown(&self) -> Vec<ShownProcess<'_>> {
        self.process_snapshots.iter().map(|it| it.shown()).collect()
    }

    /// Returns for each process what cannot be determined from outside.
    fn doubtful(&self, found: &mut Findings) -> Result<Vec<Doubts>, EngineError> {
        let mut doubtful = Vec::new();
        for (place, process) in self.frozen.processes.iter().enumerate() {
            let pages = found.objects.doubtful(place, process)?;
            doubtful.push(Doubts { pages, ..Doubts::of_descriptors(&found.descriptors, place) });
        }
        refuse(&mut found.objects.blockers())?;
        Ok(doubtful)
    }

    /// Asks each process for what the kernel tells only the process itself.
    fn ask(
        &self,
        found: &mut Findings,
        tracks: &mut Tracks,
        doubtful: &[Doubts],
        semaphores: &[SemaphoreSet],
    ) -> Result<Vec<threads::Inner>, EngineError> {
        let frozen = self.frozen;
        let probes = match found.objects.system_v.has_semaphores() {
            true => probes(frozen, semaphores)?,
            false => vec![None; frozen.processes.len()],
        };
        let parents: HashSet<Pid> = frozen.members().iter().filter_map(|member| member.parent).collect();
        let mut answers: Vec<_> = frozen.processes.iter().map(|_| threads::Inner::default()).collect();
        for place in by_processor(&self.process_snapshots) {
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
                last_id: place == 0,
            };
            let inner = &mut answers[place];
            *inner = threads::Inner::ask(process, self.process_snapshots[place], &frozen.shared.tracing.main, also)?;
            for (unit, worked) in idle.into_iter().zip(&inner.collapsed) {
                tracks.of(identity).into_iter().for_each(|track| track.note_collapsed(unit, *worked));
            }
            found.objects.keep_resident(place, &std::mem::take(&mut inner.resident));
            found.descriptors.keep_inherited(place, &inner.inherited);
            inner.semaphores.drain(..).for_each(|counter| found.descriptors.keep_semaphore(counter));
            if let Some(userfault) = inner.userfault.take() {
                tracks.begin(identity, userfault);
            }
        }
        for (process, inner) in frozen.processes.iter().zip(&mut answers) {
            let blockers = std::mem::take(&mut inner.blockers);
            found.blockers.append(&mut named(blockers, process.pid, frozen.processes.len()));
        }
        let to_be_signalled = frozen.processes.iter().zip(&answers).filter(|(_, inner)| inner.is_signalled_by_parent());
        let to_be_signalled = to_be_signalled.map(|(process, _)| (process.pid, process.parent));
        found.blockers.append(&mut isolation_mismatch::signalled_by_thread(to_be_signalled)?);
        refuse(&mut found.blockers)?;
        Ok(answers)
    }

    /// Notes which pages must not be touched.
    fn note_guards(&self, found: &mut Findings) -> Result<(), EngineError> {
        let spaces = self.pids.iter().zip(&mut found.processes);
        let spaces: Vec<_> = spaces.map(|(pid, it)| (*pid, Mutex::new(&mut it.mappings))).collect();
        let noted = pool::each(&spaces, |(pid, mappings)| {
            mappings.lock().unwrap_or_else(PoisonError::into_inner).note_guards_of(*pid)
        });
        noted.into_iter().collect()
    }

    /// Returns for each process which pages are populated, and which of them have changed.
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

/// Returns the places of the processes, grouped by the processor on which they ran, since we move to that processor to
/// ask them.
fn by_processor(process_snapshots: &[&ProcessSnapshot]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..process_snapshots.len()).collect();
    places.sort_by_key(|place| process_snapshots[*place].stat.cpu);
    places
}

/// Ends the collection if there is a blocker.
fn refuse(blockers: &mut Vec<Blocker>) -> Result<(), EngineError> {
    if blockers.is_empty() { Ok(()) } else { Err(EngineError::Refused(std::mem::take(blockers))) }
}

/// Names the process in its blockers if the job has more than one.
fn named(mut blockers: Vec<Blocker>, pid: Pid, processes: usize) -> Vec<Blocker> {
    if processes > 1 && !blockers.is_empty() {
        let name = proc::read(pid, "comm").unwrap_or_default();
        let name = String::from_utf8_lossy(&name);
        blockers.iter_mut().for_each(|it| it.what = format!("{} of process {pid} ({})", it.what, name.trim()));
    }
    blockers
}

/// Asks every process of a job for what the kernel tells only the process itself, and forgets the answers.
pub(crate) fn ask_from_within(frozen: &Frozen) -> Result<(), EngineError> {
    let doubts = Doubts::default();
    let also = Also {
        supervisor_baseline: &SupervisorBaseline::scan()?,
        doubts: &doubts,
        idle: &[],
        track: false,
        has_children: true,
        undo: None,
        last_id: false,
    };
    frozen.processes.iter().try_for_each(|process| {
        let process_snapshot =
            ProcessSnapshot::of(process.pid).map_err(|source| crate::forbidden::forbidden(process.pid, source))?;
        threads::Inner::ask(process, &process_snapshot, &frozen.shared.tracing.main, also).map(drop)
    })
}

/// A process to inspect.
struct Subject<'a> {
    pid: Pid,
    maps: Cow<'a, [Map]>,
    attributes: Attributes,
    process_snapshot: ProcessSnapshot,
}

impl<'a> Subject<'a> {
    /// Returns the frozen processes, with what was found out about them before.
    fn all_known(frozen: &'a Frozen, when: Asking) -> Result<Vec<Self>, EngineError> {
        let pids: Vec<Pid> = frozen.processes.iter().map(|process| process.pid).collect();
        let process_snapshots = pool::each(&pids, |pid| ProcessSnapshot::of(*pid));
        let known = frozen.processes.iter().zip(process_snapshots).map(|(process, process_snapshot)| {
            let (pid, maps) = (process.pid, &process.maps);
            let process_snapshot = process_snapshot.map_err(|source| crate::forbidden::forbidden(pid, source))?;
            let (process, locked_kib) = (process_snapshot.identity(pid), process_snapshot.status.locked_kib);
            let attributes = frozen.shared.memory.scans.known(process, locked_kib, maps, when)?;
            Ok(Self { pid, maps: Cow::Borrowed(maps), attributes, process_snapshot })
        });
        known.collect()
    }

    /// Returns which of that must be confirmed when they run again.
    fn unconfirmed(subjects: &[Self], frozen: &Frozen) -> Unconfirmed {
        let used = |subject: &Self| {
            let used = subject.attributes.unconfirmed(subject.pid, &subject.maps)?;
            Some((subject.process_snapshot.identity(subject.pid), used))
        };
        Unconfirmed::new(&frozen.shared.memory, subjects.iter().filter_map(used).collect())
    }

    fn identity(&self) -> ProcessIdentity {
        self.process_snapshot.identity(self.pid)
    }

    /// Returns a running process.
    fn at(pid: Pid) -> std::io::Result<Self> {
        let (maps, attributes) = (Cow::Owned(Map::of(pid)?), Attributes::at(pid)?);
        Ok(Self { pid, maps, attributes, process_snapshot: ProcessSnapshot::of(pid)? })
    }
}
