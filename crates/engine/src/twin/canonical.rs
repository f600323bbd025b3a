//! Records in the form in which they are compared. What depends on the machine, the moment or the order of discovery,
//! and not on the job, is the same in all of them.

use super::remaining_times::let_time_pass;
use super::unsaid::forget_unsaid;
use crate::objects::{O_LARGEFILE, O_NOFOLLOW, SHARED_MEMORY_NAME};
use standfast_core::PAGE_BYTES;
use standfast_format::records::{
    Accounting, Backing, Bytes, Clocks, FileReference, GuardedPages, IntervalTimer, JobState, Machine, Mapping,
    MemoryObject, ObjectKind, OpenFile, OpenFileKind, PendingSignal, ProcessState, SavedPart, SemaphoreSet, Socket,
    SocketState,
};
use standfast_linux::sys::process::call_numbers_have_room;
use standfast_linux::{SignalInformation, abi};
use std::collections::{BTreeSet, HashMap, HashSet};

/// What the kernel adds to the path of a directory that has been removed.
const REMOVED: &[u8] = b" (deleted)";
/// Where the flags stand among the registers, and those that a 64-bit program can have. An emulator (QEMU 7.2) was seen to set
/// others on one of its processors, and no program can set or clear them.
const FLAGS_PLACE: usize = 18;
const FLAGS_OF_PROGRAMS: u64 = 0x27_7fd7;

/// Brings the records of two collections of a job into canonical form.
pub(super) fn make_canonical(saved: &mut JobState, found: &mut JobState) {
    translate_ids(saved, found);
    forget_unsaid(saved, found);
    for (saved, found) in saved.processes.iter_mut().zip(&mut found.processes) {
        forget_unknown_accounting(saved, found);
        forget_expired(saved, found);
        forget_unmarked_waits(saved);
        let_time_pass(saved, found);
    }
    for (saved, found) in saved.sockets.iter_mut().zip(&mut found.sockets) {
        forget_held_back(saved, found);
        // The plan itself reports a file that cannot be made again.
        saved.file_mode = saved.file_mode.filter(|_| found.file_mode.is_some());
    }
    for (saved, found) in saved.semaphores.iter().zip(&mut found.semaphores) {
        forget_ended_users(saved, found);
    }
    canonical(saved);
    canonical(found);
    for (saved, found) in saved.processes.iter_mut().zip(&mut found.processes) {
        cut_alike(&mut saved.mappings, &mut found.mappings);
    }
}

fn canonical(state: &mut JobState) {
    clear_checkpoint_facts(state);
    forget_saved_files(state);
    forget_unmeasured_lengths(state);
    state.files_mut().for_each(forget_plan);
    state.objects.iter_mut().for_each(canonical_object);
    state.open_files.iter_mut().for_each(canonical_open_file);
    state.sockets.iter_mut().for_each(canonical_socket);
    for process in &mut state.processes {
        process.pending.retain(|signal| !is_of_timer(signal));
        for thread in &mut process.threads {
            thread.pending.retain(|signal| !is_of_timer(signal));
            thread.registers.get_mut(FLAGS_PLACE).into_iter().for_each(|flags| *flags &= FLAGS_OF_PROGRAMS);
        }
        process.mappings = joined(std::mem::take(&mut process.mappings));
        // A removed directory has no name that means anything.
        if process.working_directory.0.ends_with(REMOVED) {
            process.working_directory = REMOVED.into();
        }
    }
    let names = state.semaphores.iter_mut().map(|set| &mut set.name);
    for name in names.chain(state.message_queues.iter_mut().map(|queue| &mut queue.name)) {
        name.of_job = true;
    }
}

/// Reports whether a timer has sent a signal. Timers expire while a job is rebuilt as well.
fn is_of_timer(signal: &PendingSignal) -> bool {
    let information = signal.information.0.as_slice().try_into().map(SignalInformation);
    information.is_ok_and(|information| information.is_of_timer())
}

/// Leaves out what the plan of a restart has compared with the file itself. Files are cut back later.
fn forget_plan(file: &mut FileReference) {
    *file = FileReference { path: std::mem::take(&mut file.path), ..FileReference::default() };
}

/// Leaves out whether mappings count as committed, if one of both collections did not ask, or asked too early.
fn forget_unknown_accounting(saved: &mut ProcessState, found: &mut ProcessState) {
    let is_unknown = |mapping: &Mapping| mapping.attributes.accounting == Accounting::Unknown;
    let mut mappings = saved.mappings.iter().chain(&found.mappings);
    if mappings.any(is_unknown) || saved.mappings.iter().any(has_become_writable) {
        let both = saved.mappings.iter_mut().chain(&mut found.mappings);
        both.for_each(|mapping| mapping.attributes.accounting = Accounting::Unknown);
    }
}

/// Leaves out a timer that rings once, and has done so while the job was rebuilt: its signal waits.
fn forget_expired(saved: &mut ProcessState, found: &ProcessState) {
    const REAL_TIME: u8 = 0;
    let has_rung = found.pending.iter().any(|signal| i32::from(signal.signal) == abi::SIGALRM && is_of_timer(signal));
    let still_runs = found.timers.interval.iter().any(|timer| timer.kind == REAL_TIME);
    let rings_once = |timer: &IntervalTimer| timer.kind == REAL_TIME && timer.interval_microseconds == 0;
    saved.timers.interval.retain(|timer| still_runs || !has_rung || !rings_once(timer));
}

/// Cuts what a connection between parts has received to what is in its receive queue by now: the other end still has the rest.
fn forget_held_back(saved: &mut Socket, found: &Socket) {
    let SocketState::Distant { held_back, .. } = &mut saved.state else { return };
    if held_back.take().is_none() {
        return;
    }
    let here = found.received.first().map_or(0, |message| message.contents.0.len());
    saved.received.iter_mut().for_each(|message| message.contents.0.truncate(here));
    saved.received.retain(|message| !message.contents.0.is_empty());
}

/// Leaves out the limits of waits on a kernel that has no room to mark them: there they begin again.
fn forget_unmarked_waits(saved: &mut ProcessState) {
    if !call_numbers_have_room() {
        saved.threads.iter_mut().for_each(|thread| thread.wait = None);
    }
}

/// Leaves out who has used a semaphore last, if that process had ended. One that gives something back at its end has used
/// the semaphore while the job was rebuilt.
fn forget_ended_users(saved: &SemaphoreSet, found: &mut SemaphoreSet) {
    for (saved, found) in saved.semaphores.iter().zip(&mut found.semaphores) {
        found.user = found.user.filter(|_| saved.user.is_some());
    }
}

/// Reports whether a mapping was made writable after the kernel was asked about its attributes, which is before the
/// stop: private memory that may be written counts.
fn has_become_writable(mapping: &Mapping) -> bool {
    let is_shared = matches!(mapping.backing, Backing::SharedObject { .. } | Backing::SharedFileReadOnly { .. });
    !is_shared && mapping.protection.write && mapping.attributes.accounting == Accounting::Uncounted
}

fn canonical_object(object: &mut MemoryObject) {
    match &mut object.kind {
        ObjectKind::MappedFile { file, saved, other_writer, .. } => {
            forget_plan(file);
            // Another program, which may have ended since the checkpoint.
            *other_writer = None;
            *saved = SavedPart::Mapped;
        }
        // Without a descriptor, a file in memory is shared memory.
        ObjectKind::MemoryFile { name, .. } if name.0 == SHARED_MEMORY_NAME => object.kind = ObjectKind::SharedMemory,
        ObjectKind::Segment { name, .. } => name.of_job = true,
        _ => {}
    }
}

fn canonical_open_file(open: &mut OpenFile) {
    // Another program, which may have ended since the checkpoint.
    if let OpenFileKind::Regular { other_writer, .. } = &mut open.kind {
        *other_writer = None;
    }
    // A file without a name is opened by way of `/proc/self/fd`, where these flags cannot be had or avoided.
    if matches!(open.kind, OpenFileKind::Object { .. } | OpenFileKind::MessageQueue { .. }) {
        open.flags &= !(O_LARGEFILE | O_NOFOLLOW);
    }
    match &mut open.kind {
        // The kernel lists them in the order of its own addresses.
        OpenFileKind::Epoll { interests } => interests.sort_by_key(|it| (it.descriptor, it.open_file)),
        // A directory that was made again is another file. So is the name of a socket that was bound again, or of a
        // named pipe.
        OpenFileKind::Directory { inode, .. } => *inode = 0,
        OpenFileKind::Place { mode, inode, .. } if [abi::S_IFSOCK, abi::S_IFIFO].contains(&(*mode & abi::S_IFMT)) => {
            *inode = 0;
        }
        // What is written there goes to the end.
        OpenFileKind::Regular { offset, .. } if open.flags & abi::O_APPEND as u32 != 0 => *offset = 0,
        _ => {}
    }
}

fn canonical_socket(socket: &mut Socket) {
    // The restore itself reports buffers that may not be as large again. The processor is that of the last packet.
    const LEFT_OUT: [i32; 3] = [abi::SO_SNDBUF, abi::SO_RCVBUF, abi::SO_INCOMING_CPU];
    socket.options.retain(|option| option.level != abi::SOL_SOCKET || !LEFT_OUT.contains(&option.name));
    let stands_alone = socket.kind == abi::SOCK_DGRAM
        || matches!(socket.state, SocketState::Unconnected | SocketState::Listening { .. });
    if !stands_alone {
        // The name of a connection is a label, which needs no file.
        socket.file_mode = None;
    }
    if !stands_alone || matches!(socket.state, SocketState::Towards { .. }) {
        // Binding a socket to an address sets it, which is avoided if that is possible. It means nothing to a
        // connection.
        socket.options.retain(|option| (option.level, option.name) != (abi::IPPROTO_IPV6, abi::IPV6_V6ONLY));
    }
    // Options of the program can hide which end was accepted.
    socket.opened_with = None;
    if socket.family == abi::AF_UNIX && socket.state == SocketState::Reset {
        // A connection that was reset looks like one whose peer has left data unread.
        socket.state = SocketState::PeerClosed { peer: Bytes::default() };
        socket.error = Some(abi::ECONNRESET);
    }
    if let SocketState::PeerClosed { peer } = &mut socket.state
        && socket.family == abi::AF_UNIX
    {
        // The restore itself reports names that belong to others by now.
        *peer = Bytes::default();
    }
}

/// Gives a job with new ids its old ones, place by place.
fn translate_ids(saved: &JobState, found: &mut JobState) {
    let mut ids = HashMap::new();
    for (one, other) in saved.processes.iter().zip(&found.processes) {
        ids.insert(other.pid, one.pid);
        ids.extend(one.threads.iter().zip(&other.threads).map(|(one, other)| (other.tid, one.tid)));
    }
    let translate = |id: &mut i32| *id = ids.get(id).copied().unwrap_or(*id);
    for process in &mut found.processes {
        translate(&mut process.pid);
        process.threads.iter_mut().for_each(|thread| translate(&mut thread.tid));
        translate(&mut process.process_tree.process_group);
        translate(&mut process.process_tree.session);
    }
    for open in &mut found.open_files {
        match &mut open.kind {
            OpenFileKind::Thread { thread, .. } => translate(thread),
            OpenFileKind::KernelFile { subject: Some(subject), .. } => subject.thread.iter_mut().for_each(translate),
            _ => {}
        }
    }
}

/// Leaves out what describes the checkpoint and not the job.
fn clear_checkpoint_facts(state: &mut JobState) {
    (state.machine, state.clocks) = (Machine::default(), Clocks::default());
    (state.forks, state.last_id) = (0, None);
    (state.ipc_namespace, state.pid_namespace) = (0, 0);
    state.folders.clear();
    (state.listed, state.surroundings, state.closed_ends) = (None, None, None);
}

/// Leaves out files that were saved as a whole, although nothing maps them.
fn forget_saved_files(state: &mut JobState) {
    let backings = state.processes.iter().flat_map(|process| &process.mappings).map(|mapping| &mapping.backing);
    let mapped: HashSet<u32> = backings.filter_map(object_of).collect();
    let is_only_saved = |place: u32, kind: &ObjectKind| {
        matches!(kind, ObjectKind::MappedFile { saved, .. } if *saved != SavedPart::Mapped) && !mapped.contains(&place)
    };
    let mut new_places = Vec::new();
    let mut kept = Vec::new();
    for (place, object) in (0..).zip(std::mem::take(&mut state.objects)) {
        new_places.push(kept.len() as u32);
        if !is_only_saved(place, &object.kind) {
            kept.push(object);
        }
    }
    state.objects = kept;
    for mapping in state.processes.iter_mut().flat_map(|process| &mut process.mappings) {
        if let Backing::SharedObject { object, .. } | Backing::PrivateObject { object, .. } = &mut mapping.backing {
            *object = new_places[*object as usize];
        }
    }
    for open in &mut state.open_files {
        if let OpenFileKind::Object { object, .. } = &mut open.kind {
            *object = new_places[*object as usize];
        }
    }
}

/// Leaves out how long an object is that no descriptor leads to. Only a collection with privileges reports it without
/// touching pages of the program. Leaves out how long a mapped file is: it may be shorter or longer now, and gets its
/// contents and its length back after the comparison.
fn forget_unmeasured_lengths(state: &mut JobState) {
    let opened = state.open_files.iter().filter_map(|open| match &open.kind {
        OpenFileKind::Object { object, .. } => Some(*object),
        _ => None,
    });
    let opened: HashSet<u32> = opened.collect();
    for (place, object) in (0..).zip(&mut state.objects) {
        let is_measured = match object.kind {
            ObjectKind::MappedFile { .. } => false,
            ObjectKind::Segment { .. } => true,
            _ => opened.contains(&place),
        };
        if !is_measured {
            object.length = 0;
        }
    }
}

fn object_of(backing: &Backing) -> Option<u32> {
    match backing {
        Backing::SharedObject { object, .. } | Backing::PrivateObject { object, .. } => Some(*object),
        _ => None,
    }
}

/// Joins neighbours that are alike, as the kernel may or may not do.
fn joined(mappings: Vec<Mapping>) -> Vec<Mapping> {
    let mut joined: Vec<Mapping> = Vec::new();
    for mapping in mappings {
        match joined.last_mut() {
            Some(last) if continues(last, &mapping) => last.end = mapping.end,
            _ => joined.push(mapping),
        }
    }
    joined
}

/// Reports whether `next` could be the end of `last`.
fn continues(last: &Mapping, next: &Mapping) -> bool {
    let backing = backing_at(last, last.end);
    last.end == next.start && Mapping { start: next.start, end: next.end, backing, ..last.clone() } == *next
}

/// Returns the backing of a mapping from this address on.
fn backing_at(mapping: &Mapping, start: u64) -> Backing {
    let mut backing = mapping.backing.clone();
    match &mut backing {
        Backing::Anonymous => {}
        Backing::PrivateFile { offset, .. }
        | Backing::SharedFileReadOnly { offset, .. }
        | Backing::SharedObject { offset, .. }
        | Backing::PrivateObject { offset, .. } => *offset += start - mapping.start,
    }
    backing
}

/// Cuts the mappings of both collections at the same places. Otherwise an attribute of a part of a mapping, which may
/// differ, would make all later mappings differ.
fn cut_alike(saved: &mut Vec<Mapping>, found: &mut Vec<Mapping>) {
    if saved == found {
        return;
    }
    let edges: BTreeSet<u64> = saved.iter().chain(&*found).flat_map(|mapping| [mapping.start, mapping.end]).collect();
    for mappings in [saved, found] {
        *mappings = mappings.iter().flat_map(|mapping| pieces(mapping, &edges)).collect();
    }
}

/// Returns the pieces of a mapping between these addresses.
fn pieces(mapping: &Mapping, edges: &BTreeSet<u64>) -> Vec<Mapping> {
    let edges: Vec<u64> = edges.range(mapping.start..=mapping.end).copied().collect();
    let piece = |edges: &[u64]| {
        let (start, end) = (edges[0], edges[1]);
        let mut piece = Mapping { start, end, backing: backing_at(mapping, start), ..mapping.clone() };
        piece.attributes.guards = mapping.attributes.guards.iter().filter_map(|it| part_of(it, start, end)).collect();
        piece
    };
    edges.windows(2).map(piece).collect()
}

/// Returns the part of guarded pages that lies between two addresses. A run of them may reach from one mapping into the
/// next, once the kernel has joined both.
fn part_of(guarded: &GuardedPages, start: u64, end: u64) -> Option<GuardedPages> {
    let first = guarded.start.max(start);
    let last = (guarded.start + guarded.pages * PAGE_BYTES as u64).min(end);
    (first < last).then(|| GuardedPages { start: first, pages: (last - first) / PAGE_BYTES as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{Accounting, MappingAttributes, Protection, ThreadState};

    fn mapping(start: u64, end: u64, accounting: Accounting) -> Mapping {
        Mapping {
            start,
            end,
            protection: Protection::default(),
            backing: Backing::SharedObject { object: 1, offset: start + 0x1000 },
            grows_down: false,
            attributes: MappingAttributes { accounting, ..MappingAttributes::default() },
            may_write: None,
        }
    }

    #[test]
    fn flags_that_no_program_can_have_do_not_count() {
        let with_flags = |flags: u64| {
            let mut registers = vec![0; 27];
            registers[FLAGS_PLACE] = flags;
            let threads = vec![ThreadState { registers, ..ThreadState::default() }];
            JobState { processes: vec![ProcessState { threads, ..ProcessState::default() }], ..JobState::default() }
        };
        let (mut plain, mut strange, mut other) = (with_flags(0x206), with_flags(0xf618_8226), with_flags(0x207));
        [&mut plain, &mut strange, &mut other].into_iter().for_each(canonical);
        assert_eq!(plain, strange);
        assert_ne!(plain, other);
    }

    #[test]
    fn a_timer_that_has_rung_since_is_left_out_only_with_its_signal() {
        let timer = |kind, interval| IntervalTimer { kind, remaining_microseconds: 5, interval_microseconds: interval };
        let mut information = [0; 128];
        (information[0], information[8]) = (abi::SIGALRM as u8, 0x80);
        let rung = PendingSignal { signal: abi::SIGALRM as u8, information: information.to_vec().into() };
        let left = |timers: &[IntervalTimer], pending: &[PendingSignal]| {
            let mut saved = ProcessState::default();
            saved.timers.interval = timers.to_vec();
            forget_expired(&mut saved, &ProcessState { pending: pending.to_vec(), ..ProcessState::default() });
            saved.timers.interval.len()
        };
        assert_eq!(left(&[timer(0, 0)], std::slice::from_ref(&rung)), 0);
        assert_eq!(left(&[timer(0, 0)], &[]), 1, "it was lost");
        assert_eq!(left(&[timer(0, 9), timer(1, 0)], &[rung]), 2, "one that repeats, and one of processor time");
    }

    #[test]
    fn guarded_pages_across_two_mappings_are_cut_where_these_meet() {
        let guarded = |mut mapping: Mapping, start, pages| {
            mapping.attributes.guards = vec![GuardedPages { start, pages }];
            mapping
        };
        let of = |start, end| mapping(start, end, Accounting::Counted);
        let mut saved = vec![guarded(of(0x1000, 0x4000), 0x2000, 2), guarded(of(0x4000, 0x8000), 0x4000, 1)];
        let mut found = vec![guarded(of(0x1000, 0x8000), 0x2000, 3)];
        let expected = saved.clone();
        cut_alike(&mut saved, &mut found);
        assert_eq!((&saved, &found), (&expected, &expected));
    }

    #[test]
    fn an_attribute_of_a_part_is_the_only_difference() {
        use Accounting::{Counted, Unknown};
        let after = mapping(0x9000, 0xa000, Counted);
        let mut saved = vec![mapping(0x1000, 0x3000, Unknown), mapping(0x3000, 0x8000, Counted), after.clone()];
        let mut found = vec![mapping(0x1000, 0x8000, Counted), after.clone()];
        cut_alike(&mut saved, &mut found);
        assert_eq!(saved.len(), 3);
        assert_eq!(found, [mapping(0x1000, 0x3000, Counted), mapping(0x3000, 0x8000, Counted), after]);
        assert_eq!(saved[1..], found[1..]);
    }
}
