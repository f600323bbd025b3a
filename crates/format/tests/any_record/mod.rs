//! Strategies that make records of any kind.

mod sockets;

use proptest::prelude::*;
use sockets::{closed_end, socket};
use standfast_core::Checksum;
use standfast_format::records::*;

pub(crate) fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

prop_compose! {
    pub(crate) fn identity()(
        device: u64,
        inode: u64,
        modified_nanoseconds: i64,
        changed_nanoseconds: i64,
    ) -> FileIdentity {
        FileIdentity { device, inode, modified_nanoseconds, changed_nanoseconds }
    }
}

pub(crate) fn digest() -> impl Strategy<Value = FileDigest> {
    let coverage = prop_oneof![Just(Coverage::Whole), Just(Coverage::Sampled)];
    (coverage, any::<u64>())
        .prop_map(|(coverage, seed)| FileDigest { coverage, checksum: Checksum::of(&seed.to_le_bytes()) })
}

prop_compose! {
    pub(crate) fn other_names()(count: u64, found in prop::collection::vec(bytes(), 0..3)) -> OtherNames {
        OtherNames { count, found }
    }
}

prop_compose! {
    pub(crate) fn file()(
        path in bytes(),
        length: u64,
        identity in identity(),
        digest in prop::option::of(digest()),
        build_id in prop::option::of(bytes()),
        other_names in prop::option::of(other_names()),
    ) -> FileReference {
        FileReference { path, length, identity, digest, build_id, other_names }
    }
}

pub(crate) fn backing() -> impl Strategy<Value = Backing> {
    prop_oneof![
        Just(Backing::Anonymous),
        (file(), any::<u64>()).prop_map(|(file, offset)| Backing::PrivateFile { file, offset }),
        (file(), any::<u64>()).prop_map(|(file, offset)| Backing::SharedFileReadOnly { file, offset }),
        any::<(u32, u64)>().prop_map(|(object, offset)| Backing::SharedObject { object, offset }),
        any::<(u32, u64)>().prop_map(|(object, offset)| Backing::PrivateObject { object, offset }),
    ]
}

pub(crate) fn advice() -> impl Strategy<Value = Advice> {
    use Advice::*;
    prop::sample::select(vec![DontFork, WipeOnFork, DontDump, HugePages, NoHugePages, Mergeable, Sequential, Random])
}

pub(crate) fn accounting() -> impl Strategy<Value = Accounting> {
    use Accounting::*;
    prop::sample::select(vec![Unknown, Counted, Exempt, Uncounted])
}

pub(crate) fn memory_lock() -> impl Strategy<Value = MemoryLock> {
    prop::sample::select(vec![MemoryLock::Unlocked, MemoryLock::Locked, MemoryLock::OnFault])
}

prop_compose! {
    pub(crate) fn attributes()(
        advice in prop::collection::vec(advice(), 0..4),
        lock in memory_lock(),
        protection_key: u32,
        huge_page_bytes: u64,
        [droppable, sealed]: [bool; 2],
        name in prop::option::of(bytes()),
        guards in prop::collection::vec(any::<(u64, u64)>(), 0..3),
        accounting in accounting(),
        numa in prop::option::of((any::<u32>(), prop::collection::vec(any::<u64>(), 0..3))),
    ) -> MappingAttributes {
        let guards = guards.into_iter().map(|(start, pages)| GuardedPages { start, pages }).collect();
        let numa = numa.map(|(mode, nodes)| NumaPolicy { mode, nodes });
        MappingAttributes {
            advice, lock, protection_key, huge_page_bytes, droppable, sealed, name, guards, accounting, numa,
        }
    }
}

prop_compose! {
    pub(crate) fn switches()(
        [protection_keys, parent_death_signal]: [u32; 2],
        lock_future in memory_lock(),
        [subreaper, no_huge_pages, merge_memory]: [bool; 3],
        deny_write_execute: u64,
        oom_score_adjustment: Option<i32>,
        [core_dump_filter, undumpable, memory_barriers, audit_login, huge_pages_flags]: [Option<u32>; 5],
    ) -> ProcessSwitches {
        ProcessSwitches {
            protection_keys, lock_future, subreaper, no_huge_pages, merge_memory, deny_write_execute,
            oom_score_adjustment, core_dump_filter, parent_death_signal, undumpable, memory_barriers, audit_login,
            huge_pages_flags,
        }
    }
}

prop_compose! {
    pub(crate) fn mapping()(
        start: u64,
        end: u64,
        [read, write, execute, grows_down]: [bool; 4],
        backing in backing(),
        attributes in attributes(),
        may_write: Option<bool>,
    ) -> Mapping {
        let protection = Protection { read, write, execute };
        Mapping { start, end, protection, backing, grows_down, attributes, may_write }
    }
}

prop_compose! {
    pub(crate) fn pending()(signal: u8, information in bytes()) -> PendingSignal {
        PendingSignal { signal, information }
    }
}

prop_compose! {
    pub(crate) fn scheduling()(policy: u32, flags: u64, nice: i32, [runtime, deadline, period]: [u64; 3]) -> Scheduling {
        Scheduling { policy, flags, nice, runtime, deadline, period, ..Scheduling::default() }
    }
}

prop_compose! {
    pub(crate) fn thread()(
        tid: i32,
        registers in prop::collection::vec(any::<u64>(), 0..30),
        extended_registers in bytes(),
        words: [u64; 6],
        flags: u32,
        pending in prop::collection::vec(pending(), 0..3),
        sequence in any::<Option<(u64, u32, u32)>>(),
        name in bytes(),
        affinity in any::<Option<Vec<u8>>>(),
        scheduling in scheduling(),
        wait in any::<Option<(i64, u64)>>(),
        personality: Option<u32>,
    ) -> ThreadState {
        let [signal_mask, start, stack_length, clear_child_tid, head, list_length] = words;
        ThreadState {
            tid,
            registers,
            extended_registers,
            signal_mask,
            pending,
            alternate_stack: AlternateStack { start, flags, length: stack_length },
            clear_child_tid,
            robust_list: RobustList { head, length: list_length },
            restartable_sequence: sequence.map(|(area, length, signature)| RestartableSequence { area, length, signature }),
            name,
            affinity: affinity.map(Bytes::from),
            scheduling,
            wait: wait.map(|(call, remaining_nanoseconds)| Wait { call, remaining_nanoseconds }),
            personality,
            ..ThreadState::default()
        }
    }
}

prop_compose! {
    pub(crate) fn timer()(
        (id, signal, has_expired) in any::<(i32, u8, bool)>(),
        [value, remaining_nanoseconds, interval_nanoseconds]: [u64; 3],
        clock in prop_oneof![
            any::<i32>().prop_map(|clock| TimerClock::System { clock }),
            any::<u8>().prop_map(|kind| TimerClock::Process { kind }),
            any::<(u32, u8)>().prop_map(|(thread, kind)| TimerClock::Thread { thread, kind }),
        ],
        notice in prop_oneof![
            Just(TimerNotice::Nobody),
            Just(TimerNotice::Process),
            any::<u32>().prop_map(|thread| TimerNotice::Thread { thread }),
        ],
    ) -> PosixTimer {
        PosixTimer { id, clock, notice, signal, value, remaining_nanoseconds, interval_nanoseconds, has_expired }
    }
}

pub(crate) fn open_file_kind() -> impl Strategy<Value = OpenFileKind> {
    let interest = any::<(i32, u32, u64, u32)>().prop_map(|(descriptor, events, data, open_file)| EpollInterest {
        descriptor,
        events,
        data,
        open_file,
    });
    let stream = prop_oneof![Just(StandardStream::Input), Just(StandardStream::Output), Just(StandardStream::Error)];
    prop_oneof![
        (file(), any::<u64>(), prop::option::of(bytes()))
            .prop_map(|(file, offset, other_writer)| { OpenFileKind::Regular { file, offset, other_writer } }),
        (bytes(), any::<u64>()).prop_map(|(path, number)| OpenFileKind::Device { path, number }),
        any::<u32>().prop_map(|pipe| OpenFileKind::Pipe { pipe }),
        any::<(u64, bool)>().prop_map(|(count, semaphore)| OpenFileKind::EventCounter { count, semaphore }),
        prop::collection::vec(interest, 0..3).prop_map(|interests| OpenFileKind::Epoll { interests }),
        any::<(i32, u32, [u64; 4])>().prop_map(
            |(clock, flags, [remaining_nanoseconds, deadline_nanoseconds, interval_nanoseconds, ticks])| {
                let timer = TimerDescriptor {
                    clock,
                    flags,
                    remaining_nanoseconds,
                    deadline_nanoseconds,
                    interval_nanoseconds,
                    ticks,
                };
                OpenFileKind::Timer { timer }
            }
        ),
        any::<u64>().prop_map(|mask| OpenFileKind::Signals { mask }),
        (bytes(), any::<(i32, u32, u64, u64)>()).prop_map(|(path, (descriptor, mask, device, inode))| {
            OpenFileKind::Watches { watches: vec![Watch { descriptor, path, mask, device, inode }] }
        }),
        any::<u32>().prop_map(|process| OpenFileKind::Process { process }),
        any::<(u32, i32)>().prop_map(|(process, thread)| OpenFileKind::Thread { process, thread }),
        (bytes(), any::<[u64; 3]>()).prop_map(|(path, [position, device, inode])| OpenFileKind::Directory {
            path,
            position,
            device,
            inode
        }),
        (bytes(), any::<u32>(), any::<[u64; 2]>()).prop_map(|(path, mode, [device, inode])| OpenFileKind::Place {
            path,
            mode,
            device,
            inode
        }),
        any::<(u32, u64)>().prop_map(|(object, offset)| OpenFileKind::Object { object, offset }),
        any::<u32>().prop_map(|socket| OpenFileKind::Socket { socket }),
        any::<u32>().prop_map(|terminal| OpenFileKind::Master { terminal }),
        any::<u32>().prop_map(|terminal| OpenFileKind::Slave { terminal }),
        any::<u32>().prop_map(|queue| OpenFileKind::MessageQueue { queue }),
        (prop::option::of(any::<(u32, Option<i32>)>()), bytes(), any::<u64>()).prop_map(|(subject, path, offset)| {
            let subject = subject.map(|(process, thread)| ProcSubject { process, thread });
            OpenFileKind::KernelFile { subject, path, offset }
        }),
        any::<Option<u32>>().prop_map(|mode| OpenFileKind::HungUp { mode }),
        (stream, bytes()).prop_map(|(stream, was)| OpenFileKind::Stream { stream, was }),
        (any::<i32>(), bytes()).prop_map(|(number, was)| OpenFileKind::Inherited { number, was }),
    ]
}

prop_compose! {
    pub(crate) fn process()(
        pid: i32,
        executable in file(),
        arguments in prop::collection::vec(bytes(), 0..3),
        limits in prop::collection::vec(any::<(u64, u64)>(), 0..3),
        mappings in prop::collection::vec(mapping(), 0..3),
        dispositions in prop::collection::vec(any::<(u8, [u64; 4])>(), 0..3),
        descriptors in prop::collection::vec(any::<(i32, bool, u32)>(), 0..3),
        threads in prop::collection::vec(thread(), 0..3),
        interval in prop::collection::vec(any::<(u8, u64, u64)>(), 0..3),
        posix in prop::collection::vec(timer(), 0..3),
        switches in switches(),
    ) -> ProcessState {
        let running = |(kind, remaining_microseconds, interval_microseconds)| {
            IntervalTimer { kind, remaining_microseconds, interval_microseconds }
        };
        let disposition =
            |(signal, [handler, flags, restorer, mask]): (u8, [u64; 4])| Disposition { signal, handler, flags, restorer, mask };
let descriptor = |(number, close_on_exec, open_file)| Descriptor { number, close_on_exec, open_file };
        ProcessState {
            pid,
            executable,
            arguments,
            limits: limits.into_iter().map(|(soft, hard)| Limit { soft, hard }).collect(),
            mappings,
            dispositions: dispositions.into_iter().map(disposition).collect(),
            descriptors: descriptors.into_iter().map(descriptor).collect(),
            threads,
            timers: Timers { interval: interval.into_iter().map(running).collect(), posix },
            switches,
            ..ProcessState::default()
        }
    }
}

prop_compose! {
    pub(crate) fn terminal()(
        [characters, line, unfinished, output] in [bytes(), bytes(), bytes(), bytes()],
        [number, flags, input_speed, output_speed] in any::<[u32; 4]>(),
        [rows, columns, width, height] in any::<[u16; 4]>(),
        [locked, packets, exclusive, deserted, held] in any::<[bool; 5]>(),
        stop: Option<bool>,
        control: Option<(i32, i32)>,
        mode: Option<u32>,
        master_exclusive: Option<bool>,
        echo in prop::option::of(bytes()),
    ) -> PseudoTerminal {
        PseudoTerminal {
            number,
            settings: TerminalSettings {
                input: flags,
                output: !flags,
                control: flags / 2,
                local: flags / 3,
                line: flags as u8,
                characters,
                input_speed,
                output_speed,
            },
            size: WindowSize { rows, columns, width, height },
            locked,
            packets,
            exclusive,
            deserted,
            held,
            output_stop: stop.map(|key| if key { OutputStop::Key } else { OutputStop::Call }),
            controls: control.map(|(session, foreground)| TerminalControl { session, foreground }),
            input: vec![line],
            unfinished,
            output,
            mode,
            master_exclusive,
            echo,
        }
    }
}

pub(crate) fn saved_part() -> impl Strategy<Value = SavedPart> {
    prop_oneof![Just(SavedPart::Mapped), Just(SavedPart::Whole), Just(SavedPart::WholeIfNeeded)]
}

pub(crate) fn object() -> impl Strategy<Value = MemoryObject> {
    let file = (bytes(), any::<u32>(), any::<u32>());
    let kind = prop_oneof![
        Just(ObjectKind::SharedMemory),
        file.prop_map(|(name, seals, mode)| ObjectKind::MemoryFile { name, seals, mode }),
        (crate::file(), any::<u32>(), any::<Option<bool>>(), prop::option::of(bytes()), saved_part()).prop_map(
            |(file, mode, lock, other_writer, saved)| ObjectKind::MappedFile { file, mode, lock, other_writer, saved }
        ),
        (system_v_name(), any::<(bool, bool)>()).prop_map(|(name, (removed, locked))| ObjectKind::Segment {
            name,
            removed,
            locked
        }),
    ];
    (kind, any::<(u64, u64, Option<i64>)>()).prop_map(|(kind, (length, huge_page_bytes, modified_nanoseconds))| {
        MemoryObject { kind, length, huge_page_bytes, modified_nanoseconds }
    })
}

prop_compose! {
    pub(crate) fn system_v_name()(id: i32, key: i32, mode: u32, user: u32, group: u32, of_job: bool) -> SystemVName {
        SystemVName { id, key, mode, user, group, of_job }
    }
}

pub(crate) fn semaphore_set() -> impl Strategy<Value = SemaphoreSet> {
    let semaphore = any::<(u16, Option<u32>)>().prop_map(|(value, user)| Semaphore { value, user });
    let undo = any::<(u32, u32, i32)>();
    let undo = undo.prop_map(|(process, semaphore, adjustment)| Undo { process, semaphore, adjustment });
    let lists = (prop::collection::vec(semaphore, 0..4), prop::collection::vec(undo, 0..3));
    let parts = (system_v_name(), lists, any::<Option<bool>>());
    parts.prop_map(|(name, (semaphores, undo), used)| SemaphoreSet { name, semaphores, undo, used })
}

pub(crate) fn message_queue() -> impl Strategy<Value = MessageQueue> {
    let message = (any::<i64>(), bytes()).prop_map(|(kind, text)| TypedMessage { kind, text });
    let parts = (system_v_name(), any::<u64>(), prop::collection::vec(message, 0..4));
    parts.prop_map(|(name, bytes_max, messages)| MessageQueue { name, bytes_max, messages })
}

prop_compose! {
    pub(crate) fn posix_queue()(
        name in bytes(),
        unlinked: bool,
        mode: u32,
        (messages_max, bytes_max, inode) in any::<(u64, u64, u64)>(),
        messages in prop::collection::vec((any::<u32>(), bytes()), 0..4),
    ) -> PosixQueue {
        let messages = messages.into_iter().map(|(priority, text)| PriorityMessage { priority, text }).collect();
        PosixQueue { name, unlinked, mode, messages_max, bytes_max, messages, inode }
    }
}

prop_compose! {
    pub(crate) fn folder()(
        path in bytes(),
        entries in prop::collection::vec((bytes(), any::<(u32, u32, u32)>(), folder_item()), 0..4),
        is_part in any::<Option<bool>>(),
    ) -> SavedFolder {
        let entries = entries.into_iter().map(|(name, (mode, user, group), item)| FolderEntry { name, mode, user, group, item });
        SavedFolder { path, entries: entries.collect(), is_part }
    }
}

pub(crate) fn folder_item() -> impl Strategy<Value = FolderItem> {
    prop_oneof![
        Just(FolderItem::Directory),
        any::<u32>().prop_map(|object| FolderItem::File { object }),
        bytes().prop_map(|target| FolderItem::Link { target }),
    ]
}

prop_compose! {
    pub(crate) fn surrounding()(
        path in bytes(),
        (mode, user, group) in any::<(u32, u32, u32)>(),
        device: u64,
        (empty, removed) in any::<(bool, bool)>(),
    ) -> Surrounding {
        Surrounding { path, mode, user, group, device, empty, removed }
    }
}

prop_compose! {
    pub(crate) fn listed_file()(
        name in bytes(),
        (length, inode, born_nanoseconds, is_written) in any::<(u64, u64, Option<i64>, bool)>(),
    ) -> ListedFile {
        let identity = FileIdentity { inode, ..FileIdentity::default() };
        ListedFile { name, length, identity, born_nanoseconds, digest: None, is_written }
    }
}

prop_compose! {
    pub(crate) fn listed_directory()(
        path in bytes(),
        (device, inode, is_shared) in any::<(u64, u64, bool)>(),
        files in prop::collection::vec(listed_file(), 0..3),
        others in prop::collection::vec(bytes(), 0..3),
    ) -> ListedDirectory {
        ListedDirectory { path, device, inode, is_shared, files, others }
    }
}

prop_compose! {
    pub(crate) fn state()(
        processes in prop::collection::vec(process(), 0..3),
        kinds in prop::collection::vec((any::<u32>(), open_file_kind()), 0..4),
        pipes in prop::collection::vec((any::<u32>(), bytes()), 0..3),
        objects in prop::collection::vec(object(), 0..3),
        sockets in prop::collection::vec(socket(), 0..3),
        terminals in prop::collection::vec(terminal(), 0..3),
        semaphores in prop::collection::vec(semaphore_set(), 0..3),
        (message_queues, posix_queues, folders) in
            (prop::collection::vec(message_queue(), 0..3), prop::collection::vec(posix_queue(), 0..3), prop::collection::vec(folder(), 0..3)),
        (realtime_nanoseconds, ipc_namespace, pid_namespace, forks) in any::<(u64, u64, u64, u64)>(),
        surroundings in prop::option::of(prop::collection::vec(surrounding(), 0..3)),
        listed in prop::option::of(prop::collection::vec(listed_directory(), 0..3)),
        closed_ends in prop::option::of(prop::collection::vec(closed_end(), 0..3)),
        last_id in any::<Option<i32>>(),
        host: String,
    ) -> JobState {
        JobState {
            machine: Machine { host, ..Machine::default() },
            clocks: Clocks { realtime_nanoseconds, ..Clocks::default() },
            processes,
            open_files: kinds.into_iter().map(|(flags, kind)| OpenFile { flags, kind, signal_target: None, locks: Vec::new(), signal: None }).collect(),
            pipes: pipes.into_iter().map(|(capacity, contents)| PipeContents { capacity, contents, packets: vec![capacity], path: None, mode: Some(capacity), between_packets: Some(vec![0]), awaits_writer: Some(true) }).collect(),
            objects,
            sockets,
            terminals,
            semaphores,
            message_queues,
            posix_queues,
            ipc_namespace,
            pid_namespace,
            folders,
            forks,
            surroundings,
            listed,
            closed_ends,
            last_id,
        }
    }
}
