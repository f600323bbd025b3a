//! Images and manifests of every released format must open for ever: the files in `golden` were written once and do not
//! change. While a version is current, today's writer makes the same bytes. Before a release the files can be written
//! again: `cargo test -p standfast-format --test golden -- --ignored`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic, in its own functions too")]

mod golden_records;

use golden_records::*;
use standfast_core::codec::Encoding;
use standfast_core::{Address, Checksum, PAGE_BYTES, PageRange, Root};
use standfast_format::image::{
    Base, Block, BlockEncoder, Contained, Image, ImageIdentity, Inherited, NewBlock, Parent, UnverifiedHeader, assemble,
};
use standfast_format::manifest::{
    Compress, DeltaMode, ExternalSockets, FileEnd, Files, Flush, Generation, GenerationNumber, Ids, Incremental,
    JobDescription, JobId, LevelId, Manifest, MemoryPlace, Outcome, RecordedInterval, RunOptions, Snapshot, Track,
    seal, unseal,
};
use standfast_format::records::*;
use standfast_format::{Contents, Run};

const IMAGE_1: &[u8] = include_bytes!("golden/image-1.image");
const MANIFEST_1: &[u8] = include_bytes!("golden/manifest-1.manifest");

/// Returns a state in which everything occurs.
#[allow(clippy::too_many_lines, reason = "a field of each kind")]
fn state() -> JobState {
    let process = ProcessState {
        pid: 4242,
        executable: file("/bin/prog"),
        arguments: vec![b"prog"[..].into(), vec![0xff, 0xfe].into()],
        working_directory: b"/srv/ada"[..].into(),
        umask: 0o022,
        personality: 0x0004_0000,
        limits: vec![Limit { soft: 8 << 20, hard: u64::MAX }],
        layout: MemoryLayout { code_start: 0x40_0000, heap_end: 0x60_0000, ..MemoryLayout::default() },
        mappings: mappings(),
        special_mappings: vec![SpecialMapping { start: 0x1000, end: 0x3000, name: b"[vdso]"[..].into() }],
        dispositions: vec![Disposition {
            signal: 2,
            handler: 0x40_1000,
            flags: 0x0400_0004,
            restorer: 0x40_2000,
            mask: 6,
        }],
        pending: vec![PendingSignal { signal: 64, information: vec![1; 128].into() }],
        descriptors: vec![Descriptor { number: 3, close_on_exec: true, open_file: 5 }],
        threads: vec![ThreadState { tid: 4242, restartable_sequence: None, ..thread() }, thread()],
        timers: timers(),
        permitted_features: 1 << 18,
        switches: ProcessSwitches {
            protection_keys: 0b1001,
            lock_future: MemoryLock::Locked,
            subreaper: true,
            deny_write_execute: 1,
            oom_score_adjustment: Some(-17),
            core_dump_filter: Some(0x33),
            parent_death_signal: 9,
            ..ProcessSwitches::default()
        },
        process_tree: ProcessTree { process_group: 4242, stopped_by: Some(20), ..ProcessTree::default() },
    };
    let zombie = ProcessState {
        pid: 4243,
        process_tree: ProcessTree {
            parent: Some(0),
            process_group: 4242,
            session: 4000,
            wait_status: Some(0x0300),
            stopped_by: None,
            shares_descriptors: true,
            exit_signal: 17,
            birth: 2,
            unreported: Some(Unreported::Stopped),
            without_terminal: true,
        },
        ..ProcessState::default()
    };
    JobState {
        machine: Machine {
            architecture: "x86_64".into(),
            kernel_release: "6.18.0".into(),
            host: "ada".into(),
            boot_id: "0b9c7f1e".into(),
            vdso: Checksum::of(b"vdso"),
            xsave_features: 0x2e7,
            processor_features: vec!["avx2".into(), "bmi2".into()],
            state_areas: vec![StateArea { feature: 2, offset: 576, bytes: 256 }],
            vdso_code: vec![0x7f; 32].into(),
        },
        clocks: Clocks {
            realtime_nanoseconds: 1_700_000_000_000_000_000,
            monotonic_nanoseconds: 5,
            boottime_nanoseconds: 7,
        },
        processes: vec![process, zombie],
        open_files: open_files(),
        pipes: vec![PipeContents {
            capacity: 65536,
            contents: b"in flight"[..].into(),
            packets: vec![2, 7],
            path: Some(b"/tmp/fifo"[..].into()),
            ..PipeContents::default()
        }],
        objects: objects(),
        sockets: sockets(),
        terminals: vec![terminal()],
        semaphores: vec![SemaphoreSet {
            name: system_v_name(),
            semaphores: vec![Semaphore { value: 32767, user: Some(0) }, Semaphore { value: 0, user: None }],
            undo: vec![Undo { process: 0, semaphore: 1, adjustment: -32768 }],
            used: None,
        }],
        message_queues: vec![MessageQueue {
            name: system_v_name(),
            bytes_max: 16384,
            messages: vec![TypedMessage { kind: 1 << 40, text: b"typed"[..].into() }],
        }],
        posix_queues: vec![PosixQueue {
            name: b"queue"[..].into(),
            unlinked: true,
            mode: 0o600,
            messages_max: 10,
            bytes_max: 8192,
            messages: vec![PriorityMessage { priority: 7, text: b"urgent"[..].into() }],
            inode: 8,
        }],
        ipc_namespace: 9,
        pid_namespace: 10,
        folders: folders(),
        forks: 11,
        surroundings: None,
        listed: None,
        closed_ends: None,
        last_id: None,
    }
}

fn run(first_page: u64, pages: u64, contents: Contents) -> Run {
    // A page number below the program is an offset in its second object.
    let owner = if first_page < 0x400 { 2 } else { 0 };
    Run { owner, range: PageRange::new(Address::new(first_page * PAGE_BYTES as u64), pages), contents }
}

fn inherited() -> Inherited {
    Inherited { owner: 0, range: run(0x403, 1 << 33, Contents::Stored).range, was: 1 }
}

/// Returns the pages of the image's two blocks, and what those of the second block held in the parent.
fn pages() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = (0..4 * PAGE_BYTES).map(|at| (at / 16) as u8).collect();
    let (first, second) = data.split_at(2 * PAGE_BYTES);
    let mut before = second.to_vec();
    [9, 80, 81, 4000].into_iter().for_each(|at: usize| before[at] ^= 0x55);
    (first.to_vec(), second.to_vec(), before)
}

fn image() -> Vec<u8> {
    let (first, second, before) = pages();
    let mut encoder = BlockEncoder::default();
    let differences = encoder.encode(Encoding::Differences, &before, &second).unwrap();
    let data = [&first, differences].concat();
    let in_first = vec![run(0x400, 1, Contents::Stored), run(0x402, 1, Contents::Stored)];
    let in_second = vec![run(0x7ffc_00001, 1, Contents::Stored), run(0x1ff, 1, Contents::Stored)];
    let blocks = vec![
        NewBlock::new(4096, Encoding::Raw, &first, in_first),
        NewBlock::new(12288, Encoding::Differences, differences, in_second),
    ];
    let parent = Parent { generation: GenerationNumber::new(5).unwrap(), origin: Root::of(&[b"origin"]) };
    let identity = ImageIdentity {
        job: JobId::from_bytes([1; 16]),
        generation: GenerationNumber::new(7).unwrap(),
        parent: Some(parent),
    };
    let zeros = vec![run(0x401, 1, Contents::Zero)];
    let contained = Contained { blocks, zeros, inherited: vec![inherited()], bases: vec![Base { owner: 0, was: 1 }] };
    let assembled = assemble(identity, contained, &state()).unwrap();
    [assembled.header_page(), &data, &assembled.tail].concat()
}

fn manifest() -> Manifest {
    let description = JobDescription {
        program: b"./prog"[..].into(),
        arguments: vec![b"-v"[..].into()],
        working_directory: b"/srv/ada"[..].into(),
        started_nanoseconds: 1_700_000_000_000_000_000,
        folders: vec![b"/srv/ada/data"[..].into()],
        saves_written: None,
    };
    let options = RunOptions {
        interval: Some(RecordedInterval::Every { milliseconds: 1500 }),
        keep: Some(2),
        ids: Some(Ids::New),
        stack: None,
        files: Some(Files::Keep),
        max_files: Some(16),
        incremental: Some(Incremental::On),
        snapshot: Some(Snapshot::Copy),
        track: Some(Track::Hash),
        save_files: Some(1 << 20),
        external_sockets: Some(ExternalSockets::Reset),
        min_interval: Some(RecordedInterval::Off),
        flush_every: Some(8),
        durable_every: Some(600_000),
        grace: Some(30_000),
        delta: Some(DeltaMode::Previous),
        flush: Some(Flush::Foreground),
        compress: Some(Compress::Zstd),
        ..RunOptions::default()
    };
    let mut manifest = Manifest::new(JobId::from_bytes([1; 16]), description, options);
    manifest.generations = vec![Generation {
        number: GenerationNumber::new(7).unwrap(),
        parent: None,
        root: Root::of(&[b"root"]),
        file_bytes: 20480,
        stored_pages: 4,
        taken_nanoseconds: 1_700_000_000_000_000_001,
        pause_nanoseconds: 2_000_000,
        superseded: true,
        origin: Root::of(&[b"origin"]),
        revision: 3,
        inherited_pages: 5,
        epoch: None,
    }];
    manifest.next = GenerationNumber::new(9).unwrap();
    manifest.outcome = Outcome::Killed { signal: 9 };
    manifest.ends = vec![FileEnd { device: 0xfe00, inode: 1234, length: 1 << 40, modified_nanoseconds: -5 }];
    let level = Some(LevelId::from_bytes([7; 16]));
    manifest.memory = Some(MemoryPlace { place: b"/dev/shm"[..].into(), level, home: 1234 });
    manifest
}

#[test]
fn the_image_of_version_1_opens_with_its_contents() {
    let header = UnverifiedHeader::new(IMAGE_1).unwrap().verify(IMAGE_1.len() as u64).unwrap();
    assert_eq!(header.identity().generation.get(), 7);
    assert_eq!(header.identity().parent.unwrap().origin, Root::of(&[b"origin"]));
    let image = Image::verify(header.clone(), &IMAGE_1[header.tail().0 as usize..]).unwrap();
    assert_eq!(image.state, state());
    let runs = [
        (0x400, Contents::Stored),
        (0x401, Contents::Zero),
        (0x402, Contents::Stored),
        (0x7ffc_00001, Contents::Stored),
        (0x1ff, Contents::Stored),
    ];
    assert_eq!(image.index.runs(), runs.map(|(page, contents)| run(page, 1, contents)));
    assert_eq!(image.index.inherited(), [inherited()]);
    assert_eq!((image.index.base_of(0), image.index.base_of(2)), (Some(1), None));
    let stored = |block: &Block| {
        let stored = &IMAGE_1[block.offset() as usize..][..block.bytes()];
        block.verify(stored).unwrap();
        stored
    };
    let (first, second, mut now) = pages();
    let [raw, differences] = image.index.blocks() else { panic!("two blocks") };
    assert_eq!(stored(raw), first);
    let parts = differences.differences(stored(differences)).unwrap();
    for (at, page) in now.as_chunks_mut().0.iter_mut().enumerate() {
        differences.apply(stored(differences), &parts, at, page).unwrap();
    }
    assert_eq!(now, second);
    assert_eq!(header.stored_pages(), 4);
}

#[test]
fn the_current_writer_reproduces_the_image_of_version_1() {
    assert!(image() == IMAGE_1, "the bytes of an image have changed: that takes a new version");
}

#[test]
fn the_manifest_of_version_1_opens_and_is_reproduced() {
    assert_eq!(unseal(MANIFEST_1), Ok(manifest()));
    assert!(seal(&manifest()).unwrap() == MANIFEST_1, "the bytes of a manifest have changed: that takes a new version");
}

#[test]
#[ignore = "writes the files again: only for a version that has not been released"]
fn write_golden_files() {
    std::fs::write("tests/golden/image-1.image", image()).unwrap();
    std::fs::write("tests/golden/manifest-1.manifest", seal(&manifest()).unwrap()).unwrap();
}
