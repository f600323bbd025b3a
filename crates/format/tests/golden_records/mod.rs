//! The records of which the golden image consists, each field with a value of its own.

use standfast_core::Checksum;
use standfast_format::records::*;

pub(crate) fn file(path: &str) -> FileReference {
    let identity = FileIdentity { device: 0xfe00, inode: 1234, modified_nanoseconds: -5, changed_nanoseconds: 1 << 60 };
    let digest = Some(FileDigest { coverage: Coverage::Sampled, checksum: Checksum::of(b"samples") });
    FileReference {
        path: path.as_bytes().into(),
        length: 100_000,
        identity,
        digest,
        build_id: Some(b"\xb1d"[..].into()),
        other_names: None,
    }
}

pub(crate) fn attributes() -> MappingAttributes {
    MappingAttributes {
        accounting: Accounting::Counted,
        numa: Some(NumaPolicy { mode: 3, nodes: vec![3] }),
        advice: vec![Advice::WipeOnFork, Advice::Random],
        lock: MemoryLock::OnFault,
        protection_key: 3,
        huge_page_bytes: 2 << 20,
        droppable: true,
        sealed: true,
        name: Some(b"arena"[..].into()),
        guards: vec![GuardedPages { start: 0x60_1000, pages: 1 }],
    }
}

pub(crate) fn mappings() -> Vec<Mapping> {
    let protection = |write, execute| Protection { read: true, write, execute };
    let mapping = |start, protection, backing| Mapping {
        start,
        end: start + 0x3000,
        protection,
        backing,
        grows_down: start == 0x7ffc_0000_0000,
        attributes: if start == 0x60_0000 { attributes() } else { MappingAttributes::default() },
        may_write: None,
    };
    vec![
        mapping(0x40_0000, protection(false, true), Backing::PrivateFile { file: file("/bin/prog"), offset: 0x1000 }),
        mapping(0x50_0000, protection(false, false), Backing::SharedFileReadOnly { file: file("/data"), offset: 0 }),
        mapping(0x60_0000, protection(true, false), Backing::SharedObject { object: 0, offset: 0x1000 }),
        mapping(0x70_0000, protection(true, false), Backing::PrivateObject { object: 1, offset: 0 }),
        mapping(0x7ffc_0000_0000, protection(true, false), Backing::Anonymous),
    ]
}

pub(crate) fn thread() -> ThreadState {
    ThreadState {
        numa: Some(NumaPolicy { mode: 1, nodes: vec![1] }),
        personality: None,
        tid: 4243,
        registers: (0..27).map(|at| 1 << (at * 2)).collect(),
        extended_registers: vec![0xab; 100].into(),
        signal_mask: 1 << 63,
        pending: vec![PendingSignal { signal: 10, information: vec![10; 128].into() }],
        alternate_stack: AlternateStack { start: 0x7000, flags: 2, length: 8192 },
        clear_child_tid: 0x7010,
        robust_list: RobustList { head: 0x7020, length: 24 },
        restartable_sequence: Some(RestartableSequence { area: 0x7040, length: 32, signature: 0x5305_3053 }),
        name: b"worker"[..].into(),
        scheduling: Scheduling { policy: 3, flags: 1, nice: -5, priority: 2, runtime: 3, ..Scheduling::default() },
        affinity: Some(vec![0b101].into()),
        io_priority: 3 << 13 | 7,
        timer_slack_nanoseconds: 50_000,
        restrictions: ThreadRestrictions { no_new_privileges: true, store_bypass: 4, ..Default::default() },
        wait: Some(Wait { call: 35, remaining_nanoseconds: 1_500_000_000 }),
    }
}

pub(crate) fn timers() -> Timers {
    let timer = |id, clock, notice| PosixTimer {
        id,
        clock,
        notice,
        signal: 34,
        value: u64::MAX,
        remaining_nanoseconds: 5,
        interval_nanoseconds: 7,
        has_expired: true,
    };
    Timers {
        interval: vec![IntervalTimer { kind: 2, remaining_microseconds: 1, interval_microseconds: 2 }],
        posix: vec![
            timer(0, TimerClock::System { clock: 1 }, TimerNotice::Nobody),
            timer(3, TimerClock::Process { kind: 2 }, TimerNotice::Process),
            timer(7, TimerClock::Thread { thread: 1, kind: 0 }, TimerNotice::Thread { thread: 1 }),
        ],
    }
}

pub(crate) fn open_files() -> Vec<OpenFile> {
    let interest = EpollInterest { descriptor: 4, events: 1 << 31 | 1, data: u64::MAX, open_file: 5 };
    let kinds = vec![
        OpenFileKind::Regular { file: file("/tmp/log"), offset: 77, other_writer: Some(b"process 9 (tee)"[..].into()) },
        OpenFileKind::Device { path: b"/dev/null"[..].into(), number: 259 },
        OpenFileKind::Pipe { pipe: 0 },
        OpenFileKind::EventCounter { count: 3, semaphore: true },
        OpenFileKind::Epoll { interests: vec![interest] },
        OpenFileKind::Stream { stream: StandardStream::Error, was: b"/dev/pts/3"[..].into() },
        OpenFileKind::Inherited { number: 9, was: b"pipe:[4711]"[..].into() },
        OpenFileKind::Timer {
            timer: TimerDescriptor { clock: 1, interval_nanoseconds: 5, ..TimerDescriptor::default() },
        },
        OpenFileKind::Signals { mask: 1 << 33 },
        OpenFileKind::Watches {
            watches: vec![Watch { descriptor: 1, path: b"/tmp"[..].into(), mask: 0xfff, device: 3, inode: 4 }],
        },
        OpenFileKind::Process { process: 0 },
        OpenFileKind::Directory { path: b"/tmp"[..].into(), position: 1 << 40, device: 3, inode: 4 },
        OpenFileKind::Place { path: b"/tmp/link"[..].into(), mode: 0o120_777, device: 3, inode: 5 },
        OpenFileKind::Object { object: 1, offset: 4097 },
        OpenFileKind::Socket { socket: 0 },
        OpenFileKind::Master { terminal: 0 },
        OpenFileKind::Slave { terminal: 0 },
        OpenFileKind::HungUp { mode: None },
        OpenFileKind::MessageQueue { queue: 0 },
        OpenFileKind::KernelFile { subject: None, path: b"/proc/meminfo"[..].into(), offset: 9 },
        OpenFileKind::KernelFile {
            subject: Some(ProcSubject { process: 0, thread: Some(4243) }),
            path: b"stat"[..].into(),
            offset: 0,
        },
    ];
    let target = SignalTarget { process: 0, main_thread: true, signal: 34, group: None };
    let lock = |kind| FileLock { kind, exclusive: true, start: 5, length: 0 };
    let locks = vec![lock(LockKind::Whole), lock(LockKind::Process { process: 0 }), lock(LockKind::OpenFile)];
    let open = |kind| OpenFile { flags: 0o2002, kind, signal_target: Some(target), locks: locks.clone(), signal: None };
    kinds.into_iter().map(open).collect()
}

pub(crate) fn system_v_name() -> SystemVName {
    SystemVName { id: 32769, key: -2, mode: 0o640, user: 1000, group: 100, of_job: true }
}

pub(crate) fn terminal() -> PseudoTerminal {
    PseudoTerminal {
        number: 3,
        settings: TerminalSettings {
            input: 0o2400,
            output: 5,
            control: 0o277,
            local: 0o105_073,
            line: 0,
            characters: vec![3; 19].into(),
            input_speed: 38400,
            output_speed: 38401,
        },
        size: WindowSize { rows: 24, columns: 80, width: 640, height: 480 },
        locked: true,
        packets: true,
        exclusive: true,
        deserted: true,
        held: true,
        output_stop: Some(OutputStop::Key),
        controls: Some(TerminalControl { session: 42, foreground: 43 }),
        input: vec![b"line\n"[..].into()],
        unfinished: b"par"[..].into(),
        output: b"shown"[..].into(),
        mode: None,
        master_exclusive: None,
        echo: None,
    }
}

pub(crate) fn sockets() -> Vec<Socket> {
    let states = vec![
        SocketState::Unconnected,
        SocketState::Listening { backlog: 5 },
        SocketState::Paired { peer: 3 },
        SocketState::PeerClosed { peer: b"\x01\0/tmp/gone"[..].into() },
        SocketState::Waiting { listener: 1, place: 2 },
        SocketState::Towards { address: b"\x01\0/dev/log"[..].into(), peer: None },
        SocketState::Reset,
        SocketState::Ended,
    ];
    let message = SocketMessage {
        contents: b"hello"[..].into(),
        sender: Some(1),
        open_files: vec![0],
        credentials: Some(Credentials { process: 0 }),
        from: None,
    };
    let socket = |state| Socket {
        family: 1,
        kind: 5,
        protocol: 0,
        name: b"\x01\0/tmp/here"[..].into(),
        file_mode: Some(0o140_755),
        state,
        options: vec![SocketOption { level: 1, name: 7, value: vec![0, 1, 0, 0].into() }],
        shut_down: 2,
        received: vec![message.clone()],
        error: None,
        opened_with: None,
    };
    states.into_iter().map(socket).collect()
}

pub(crate) fn objects() -> Vec<MemoryObject> {
    let file = ObjectKind::MemoryFile { name: b"heap"[..].into(), seals: 1, mode: 0o777 };
    let mapped = ObjectKind::MappedFile {
        file: crate::file("/srv/state"),
        mode: 0o640,
        lock: Some(true),
        other_writer: Some(b"process 9 (tee)"[..].into()),
        saved: SavedPart::Whole,
    };
    let deleted = ObjectKind::DeletedFile { path: b"/tmp/gone"[..].into(), mode: 0o600 };
    vec![
        MemoryObject { kind: ObjectKind::SharedMemory, length: 0x8000, huge_page_bytes: 0, modified_nanoseconds: None },
        MemoryObject { kind: file, length: 0x20_0000, huge_page_bytes: 0x20_0000, modified_nanoseconds: None },
        MemoryObject { kind: mapped, length: 0x1234, huge_page_bytes: 0, modified_nanoseconds: None },
        MemoryObject {
            kind: ObjectKind::Segment { name: system_v_name(), removed: true, locked: true },
            length: 0x5000,
            huge_page_bytes: 0,
            modified_nanoseconds: None,
        },
        MemoryObject { kind: deleted, length: 4099, huge_page_bytes: 0, modified_nanoseconds: None },
    ]
}

pub(crate) fn folders() -> Vec<SavedFolder> {
    let entry = |name: &[u8], item| FolderEntry { name: name.into(), mode: 0o750, user: 1000, group: 100, item };
    let entries = vec![
        entry(b"", FolderItem::Directory),
        entry(b"state", FolderItem::File { object: 2 }),
        entry(b"latest", FolderItem::Link { target: b"state"[..].into() }),
    ];
    vec![SavedFolder { path: b"/srv"[..].into(), entries, is_part: None }]
}
