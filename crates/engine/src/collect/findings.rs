//! What has been found in a frozen job, process by process, until it becomes records.

use super::process_snapshot::{ProcessAttributes, ProcessSnapshot, SupervisorBaseline};
use super::{Stop, Subject, files, isolation_mismatch, memory, named, refuse, restrictions, threads};
use crate::births::settle_births;
use crate::capture_options::CaptureOptions;
use crate::error::kernel;
use crate::files::{FileId, References};
use crate::freeze::Frozen;
use crate::inheritance::Inheritance;
use crate::listing::{Listed, NotSaved};
use crate::machine::{clocks, machine};
use crate::objects::{
    Descriptors, MemoryObjects, Motion, Relations, SystemV, SystemVContents, Terms, judge_working_directory,
    memory_layout, with_keys_in_use, written_at_ends,
};
use crate::shared::Kept;
use crate::taken_descriptors::TakenDescriptors;
use crate::tree::Member;
use crate::{Blocker, EngineError, RefusalCode, pool};
use standfast_format::records::{
    FileReference, JobState, MemoryObject, ProcessState, ProcessSwitches, ProcessTree, SavedFolder, Undo,
};
use standfast_linux::Pid;
use std::os::unix::fs::MetadataExt;

/// What `/proc` reports about a job.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) blockers: Vec<Blocker>,
    pub(super) descriptors: Descriptors,
    pub(super) objects: MemoryObjects,
    pub(super) processes: Vec<OfProcess>,
}

/// What `/proc` reports about one process.
#[derive(Debug)]
pub(super) struct OfProcess {
    pub(super) mappings: memory::Mappings,
    pub(super) executable: FileReference,
}

/// How a stopped job is looked at.
#[derive(Clone, Copy)]
pub(super) struct StopTerms<'a> {
    pub(super) taken: &'a TakenDescriptors,
    /// Whether the other parts of a distributed job, if it is a part, are frozen as well and look at the same time.
    pub(super) meets_partners: bool,
}

impl Findings {
    /// Collects the findings of a frozen job; fails if there is a blocker.
    pub(super) fn of_stopped(
        frozen: &Frozen,
        subjects: &[Subject<'_>],
        options: CaptureOptions,
        supervisor_baseline: &SupervisorBaseline,
        stop_terms: StopTerms<'_>,
    ) -> Result<Self, EngineError> {
        let (kept, terminal) = (frozen.shared.files.kept().clone(), frozen.shared.contact.terminal());
        let partners = frozen.shared.contact.partners();
        let written = frozen.shared.files.written().clone();
        let terms = Terms {
            motion: Motion::Stopped,
            external_sockets: options.external_sockets,
            partners: partners.as_deref(),
            meets_partners: stop_terms.meets_partners,
            frozen: Some(frozen),
            kept: &kept,
            terminal: terminal.as_deref(),
            reused_ports: Some(&frozen.shared.contact.reused_ports),
            written: &written,
            taken: Some(stop_terms.taken),
        };
        let mut found =
            Self::of(subjects, &frozen.zombies, terms, &frozen.shared.contact.inheritance, supervisor_baseline)?;
        *frozen.shared.files.written() = std::mem::take(&mut found.objects.written);
        let process_snapshots: Vec<&ProcessSnapshot> =
            subjects.iter().map(|subject| &subject.process_snapshot).collect();
        found.blockers.append(&mut isolation_mismatch::find(&frozen.members(), &process_snapshots));
        refuse(&mut found.blockers)?;
        Ok(found)
    }

    pub(super) fn of(
        subjects: &[Subject<'_>],
        zombies: &[Member],
        terms: Terms<'_>,
        inheritance: &Inheritance,
        supervisor_baseline: &SupervisorBaseline,
    ) -> Result<Self, EngineError> {
        let pids: Vec<Pid> = subjects.iter().map(|subject| subject.pid).collect();
        let zombies: Vec<Pid> = zombies.iter().map(|zombie| zombie.pid).collect();
        let scanning = |source| crate::forbidden::forbidden(pids[0], source);
        let mut found = Self {
            blockers: Vec::new(),
            descriptors: Descriptors::default(),
            objects: MemoryObjects::with(SystemV::of(pids[0]).map_err(scanning)?, terms.written.clone()),
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
            let of_process = OfProcess::of(place, subject, terms.kept, &mut files, &mut found.objects, &mut blockers);
            let scanning = |source| crate::forbidden::forbidden(subject.pid, source);
            found.processes.push(of_process.map_err(scanning)?);
            blockers.extend(judge_working_directory(subject.pid).map_err(scanning)?);
            found.blockers.append(&mut named(blockers, subject.pid, subjects.len()));
        }
        found.blockers.append(&mut found.objects.judge_system_v(&pids, inheritance));
        Ok(found)
    }

    /// Saves the files that the job was seen to write.
    pub(super) fn save_written(&mut self, frozen: &Frozen, listed: &[Listed]) -> Vec<SavedFolder> {
        let open_files = &self.descriptors.open_files;
        let at_ends = written_at_ends(open_files);
        self.objects.save_written_at_ends(open_files, &at_ends);
        let held = open_files.iter().filter_map(|open| open.kind.file());
        let held = held.map(FileId::of_reference).collect();
        let listing = &frozen.shared.files.listing;
        let (folders, unread) = self.objects.save_written(&listing.written(listed, &at_ends, &held));
        listing.report_not_saved(&unread, NotSaved::Unreadable);
        folders
    }

    /// Returns the job's System V objects, other than segments that are attached.
    pub(super) fn system_v(&mut self, pids: &[Pid]) -> Result<SystemVContents, EngineError> {
        self.objects.add_unattached_segments()?;
        self.objects.system_v.contents(pids)
    }

    /// Returns the records of what the job itself is.
    pub(super) fn into_state(
        self,
        stop: &Stop<'_>,
        answers: Vec<threads::Inner>,
        objects: Vec<MemoryObject>,
        mut relations: Relations,
        mut system_v: SystemVContents,
    ) -> Result<JobState, EngineError> {
        for (place, inner) in answers.iter().enumerate() {
            for (set, undo) in &inner.undo {
                system_v.semaphores[*set].undo.push(Undo { process: place as u32, ..*undo });
            }
        }
        let machine = machine(answers.iter().fold(0, |all, inner| all | inner.xsave_features));
        let clocks = clocks(stop.pids[0]);
        let last_id = answers.first().and_then(|inner| inner.last_id);
        let mut descriptors = self.descriptors.descriptors.into_iter();
        let mut processes: Vec<ProcessState> = Vec::new();
        let unreported: Vec<_> = answers.iter().flat_map(|inner| inner.unreported.clone()).collect();
        let process_attributes = pool::each(&stop.pids, |pid| ProcessAttributes::of(*pid));
        let attributes = stop.process_snapshots.iter().zip(process_attributes);
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
            if let Some(process) = processes.iter_mut().find(|process| process.pid == child.get()) {
                process.process_tree.unreported = Some(news);
            }
        }
        processes.append(&mut relations.zombies);
        let mut state = JobState {
            machine,
            clocks,
            processes,
            open_files: self.descriptors.open_files,
            pipes: self.descriptors.pipes,
            sockets: self.descriptors.sockets,
            closed_ends: Some(self.descriptors.closed_ends).filter(|ends| !ends.is_empty()),
            objects,
            terminals: self.descriptors.terminals,
            posix_queues: self.descriptors.posix_queues,
            semaphores: system_v.semaphores,
            message_queues: system_v.queues,
            last_id,
            ..JobState::default()
        };
        settle_births(&mut state);
        Ok(state)
    }
}

impl OfProcess {
    pub(super) fn of(
        place: usize,
        subject: &Subject<'_>,
        kept: &Kept,
        files: &mut References,
        objects: &mut MemoryObjects,
        blockers: &mut Vec<Blocker>,
    ) -> std::io::Result<Self> {
        let mappings = memory::Mappings::of(subject, place, kept, files, objects, blockers)?;
        let path = &subject.process_snapshot.executable;
        let executable = files.reference(path).or_else(|why| replaced(subject.pid, path, kept).ok_or(why));
        let executable = executable.unwrap_or_else(|why| {
            blockers.push(
                Blocker::new(RefusalCode::Executable, format!("executable {}", String::from_utf8_lossy(path)), why)
                    .with_hint("start the program again from the installed file"),
            );
            FileReference::default()
        });
        Ok(Self { mappings, executable })
    }

    /// Returns everything except descriptors and process tree.
    pub(super) fn into_state(
        self,
        inner: threads::Inner,
        process_snapshot: &ProcessSnapshot,
        process_attributes: ProcessAttributes,
    ) -> ProcessState {
        let keys = with_keys_in_use(
            inner.switches.protection_keys,
            self.mappings.ordinary.iter().map(|mapping| mapping.attributes.protection_key),
        );
        let mut threads = inner.threads;
        for thread in &mut threads {
            thread.personality = thread.personality.filter(|own| *own != process_attributes.personality);
        }
        ProcessState {
            pid: process_snapshot.status.process_ids.last().map_or(0, |pid| pid.get()),
            executable: self.executable,
            layout: memory_layout(&process_snapshot.stat, inner.heap_end, process_attributes.auxiliary_vector),
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
            threads,
            timers: inner.found.timers,
            permitted_features: inner.permitted_features,
            switches: ProcessSwitches { protection_keys: keys, ..inner.switches },
            process_tree: ProcessTree::default(),
        }
    }
}

/// Returns the executable of a process as it was when its copy was made.
pub(super) fn replaced(pid: Pid, path: &[u8], kept: &Kept) -> Option<FileReference> {
    let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    // Another file may have got the inode of a copied file that is gone. Removing a name updates the time of change, but
    // not the time of modification.
    let was = (file.len(), crate::files::identity(&file).modified_nanoseconds);
    files::copied(path, file.ino(), kept).filter(|copy| (copy.length, copy.identity.modified_nanoseconds) == was)
}
