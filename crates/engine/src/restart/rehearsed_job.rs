//! What a rehearsal builds: a job's record without what the job, or anybody else, would notice if it were made a second
//! time while the job is running.
//!
//! ```text
//! files open for writing      opened for reading only: others may want to execute them, or hold leases
//! locks, names                left out
//! pipes and terminals from outside, devices      a counter (eventfd) takes their place
//! sockets                     the same, unless they can be made in a network namespace of their own
//! files that are mapped and written      memory takes their place
//! memory locks, priorities    left out: the job is to have these
//! ```

use super::rehearsed_sockets::hide_paths;
use crate::objects::own_scheduling;
use standfast_format::records::{
    Accounting, Backing, JobState, Mapping, MemoryLock, MemoryObject, ObjectKind, OpenFile, OpenFileKind, ProcessState,
};
use standfast_linux::Tid;
use standfast_linux::abi;
use standfast_linux::sys::schedule;
use std::collections::BTreeSet;

const O_ACCMODE: u32 = abi::O_ACCMODE as u32;
const O_RDWR: u32 = abi::O_RDWR as u32;
const O_NONBLOCK: u32 = abi::O_NONBLOCK as u32;
/// The flags that matter for memory.
const MEMORY_FLAGS: u32 = O_ACCMODE | O_NONBLOCK | abi::O_APPEND as u32;
/// Major number of /dev/null, /dev/zero and their like, which nobody notices.
const MEMORY_DEVICES: u32 = 1;

/// A record that can be built while the job is running.
#[derive(Debug)]
pub(super) struct RehearsedJob {
    pub(super) state: JobState,
    /// What it lacks, in words for people.
    pub(super) left_out: BTreeSet<&'static str>,
}

impl RehearsedJob {
    /// Returns it with its sockets, for a network namespace of its own, or without.
    pub(super) fn of(job: &JobState, has_sockets: bool) -> Self {
        let mut this = Self { state: job.clone(), left_out: BTreeSet::new() };
        this.forget_surroundings();
        match has_sockets {
            true => hide_paths(&mut this.state.sockets),
            false => this.state.sockets.clear(),
        }
        for place in 0..this.state.open_files.len() {
            let (plain, left_out) = unnoticed(&this.state.open_files[place], has_sockets);
            this.state.open_files[place] = plain;
            this.left_out.extend(left_out);
        }
        this.replace_objects();
        for process in &mut this.state.processes {
            this.left_out.extend(unlocked(process));
            give_way(process);
        }
        this
    }

    /// Leaves out what lies in the file system.
    fn forget_surroundings(&mut self) {
        let JobState { folders, surroundings, listed, pipes, .. } = &mut self.state;
        if !folders.is_empty() {
            self.left_out.insert("saved folders");
        }
        (*folders, *listed) = (Vec::new(), None);
        // Removed working directories stay: a directory that is gone cannot be entered.
        *surroundings = surroundings.take().map(|all| all.into_iter().filter(|it| it.removed).collect());
        for pipe in pipes.iter_mut().filter(|pipe| pipe.path.is_some()) {
            (pipe.path, pipe.mode, pipe.awaits_writer) = (None, None, None);
            self.left_out.insert("named pipes");
        }
    }

    /// Puts memory in the place of files that the job maps and writes.
    fn replace_objects(&mut self) {
        let job = &mut self.state;
        let is_open = |place: usize| {
            job.open_files
                .iter()
                .any(|open| matches!(open.kind, OpenFileKind::Object { object, .. } if object as usize == place))
        };
        let mapped: BTreeSet<u32> = job.processes.iter().flat_map(|it| &it.mappings).filter_map(object_of).collect();
        let opened: Vec<bool> = (0..job.objects.len()).map(is_open).collect();
        let mut replaced = Vec::new();
        for (place, object) in job.objects.iter_mut().enumerate() {
            let mode = match object.kind {
                // It is saved with the job, and is put back only if it has changed.
                ObjectKind::MappedFile { .. } if !mapped.contains(&(place as u32)) => continue,
                ObjectKind::MappedFile { mode, .. } | ObjectKind::DeletedFile { mode, .. } => mode,
                ObjectKind::SharedMemory | ObjectKind::MemoryFile { .. } | ObjectKind::Segment { .. } => continue,
            };
            let kind = match opened[place] {
                true => ObjectKind::MemoryFile { name: b"rehearsed"[..].into(), seals: 0, mode },
                false => ObjectKind::SharedMemory,
            };
            *object = MemoryObject { kind, modified_nanoseconds: None, ..object.clone() };
            replaced.push(place as u32);
            self.left_out.insert("mapped files that it writes");
        }
        for open in &mut job.open_files {
            if matches!(open.kind, OpenFileKind::Object { object, .. } if replaced.contains(&object)) {
                open.flags &= MEMORY_FLAGS;
            }
        }
        for mapping in job.processes.iter_mut().flat_map(|process| &mut process.mappings) {
            if object_of(mapping).is_some_and(|object| replaced.contains(&object)) {
                mapping.attributes.accounting = Accounting::Unknown;
            }
            if matches!(mapping.backing, Backing::SharedFileReadOnly { .. }) {
                mapping.may_write = Some(false);
            }
        }
    }
}

fn object_of(mapping: &Mapping) -> Option<u32> {
    match mapping.backing {
        Backing::SharedObject { object, .. } | Backing::PrivateObject { object, .. } => Some(object),
        _ => None,
    }
}

/// Returns an open file as it is opened unnoticed, and what is left out of it.
fn unnoticed(open: &OpenFile, has_sockets: bool) -> (OpenFile, Option<&'static str>) {
    let plain = OpenFile { locks: Vec::new(), ..open.clone() };
    let locks = (!open.locks.is_empty()).then_some("locks on files");
    let stand_in = || OpenFile {
        flags: O_RDWR | open.flags & O_NONBLOCK,
        kind: OpenFileKind::EventCounter { count: 0, semaphore: false },
        signal_target: None,
        locks: Vec::new(),
        signal: None,
    };
    let is_written = open.flags & O_ACCMODE != 0;
    match &open.kind {
        OpenFileKind::Regular { .. } => (OpenFile { flags: open.flags & !O_ACCMODE, ..plain }, locks),
        OpenFileKind::Device { number, .. } if abi::major(*number) != MEMORY_DEVICES => (stand_in(), Some("devices")),
        OpenFileKind::KernelFile { .. } if is_written => (stand_in(), Some("files of the kernel that it writes")),
        OpenFileKind::Socket { .. } if !has_sockets => (stand_in(), Some("sockets")),
        OpenFileKind::Stream { .. } | OpenFileKind::Inherited { .. } => (stand_in(), Some("streams from outside")),
        _ => (plain, locks),
    }
}

/// Lets the memory of a process be moved to the disk, and returns whether that leaves something out.
fn unlocked(process: &mut ProcessState) -> Option<&'static str> {
    let locked = process.mappings.iter_mut().filter(|mapping| mapping.attributes.lock != MemoryLock::Unlocked);
    let count = locked.map(|mapping| mapping.attributes.lock = MemoryLock::Unlocked).count();
    (count > 0).then_some("locked memory")
}

/// Leaves a process the priorities that it gets from us. A rehearsal must not take what the job is to have, and could
/// not give itself more again.
fn give_way(process: &mut ProcessState) {
    process.switches.oom_score_adjustment = None;
    let Ok(scheduling) = own_scheduling() else { return };
    let io_priority = schedule::io_priority(Tid::own()).unwrap_or_default();
    for thread in &mut process.threads {
        (thread.scheduling, thread.io_priority) = (scheduling, io_priority);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{FileLock, FileReference, LockKind, Socket, StandardStream};

    const O_DSYNC: u32 = 0o10000;

    fn open(flags: u32, kind: OpenFileKind) -> OpenFile {
        OpenFile { flags, kind, signal_target: None, locks: Vec::new(), signal: None }
    }

    #[test]
    fn nothing_is_opened_that_others_would_notice() {
        let file = OpenFileKind::Regular { file: FileReference::default(), offset: 7, other_writer: None };
        let lock = FileLock { kind: LockKind::Whole, exclusive: true, start: 0, length: 0 };
        let job = JobState {
            open_files: vec![
                OpenFile { locks: vec![lock], ..open(O_RDWR | O_NONBLOCK, file.clone()) },
                open(O_RDWR, OpenFileKind::Socket { socket: 0 }),
                open(0, OpenFileKind::Stream { stream: StandardStream::Input, was: b"/dev/pts/3"[..].into() }),
                open(O_RDWR, OpenFileKind::Device { path: b"/dev/null"[..].into(), number: 0x103 }),
                open(O_RDWR, OpenFileKind::Device { path: b"/dev/kvm"[..].into(), number: 0xae8 }),
            ],
            sockets: vec![Socket::default()],
            ..JobState::default()
        };
        let RehearsedJob { state, left_out } = RehearsedJob::of(&job, false);
        let counter = OpenFileKind::EventCounter { count: 0, semaphore: false };
        assert_eq!(state.open_files[0], open(O_NONBLOCK, file));
        assert_eq!(state.open_files[3], job.open_files[3]);
        for place in [1, 2, 4] {
            assert_eq!(state.open_files[place].kind, counter);
        }
        assert!(state.sockets.is_empty());
        let with_sockets = RehearsedJob::of(&job, true);
        assert_eq!(with_sockets.state.sockets.len(), 1);
        assert_eq!(with_sockets.state.open_files[1], job.open_files[1]);
        assert!(!with_sockets.left_out.contains("sockets"));
        assert_eq!(left_out, BTreeSet::from(["devices", "locks on files", "sockets", "streams from outside"]));
    }

    #[test]
    fn memory_takes_the_place_of_written_files() {
        let mapped = ObjectKind::DeletedFile { path: b"/x"[..].into(), mode: 0o640 };
        let object = |kind| MemoryObject { kind, length: 4096, huge_page_bytes: 0, modified_nanoseconds: Some(1) };
        let job = JobState {
            objects: vec![object(mapped.clone()), object(mapped), object(ObjectKind::SharedMemory)],
            open_files: vec![open(O_RDWR | O_DSYNC, OpenFileKind::Object { object: 1, offset: 0 })],
            ..JobState::default()
        };
        let RehearsedJob { state, left_out } = RehearsedJob::of(&job, false);
        assert_eq!(state.objects[0].kind, ObjectKind::SharedMemory);
        assert!(matches!(state.objects[1].kind, ObjectKind::MemoryFile { mode: 0o640, .. }));
        assert_eq!(state.objects[2], job.objects[2]);
        assert_eq!(state.open_files[0].flags, O_RDWR, "memory is not written to a disk");
        assert_eq!(left_out.len(), 1);
    }
}
