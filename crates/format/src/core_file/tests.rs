//! Tests of core files: what a debugger finds in one, page by page, against a naive reading of the records.

use super::{CoreFilePlan, MappedFileNow, NoCoreFile};
use crate::records::{
    Advice, Backing, Bytes, FileReference, JobState, Mapping, MappingAttributes, MemoryLayout, MemoryObject,
    ObjectKind, PendingSignal, ProcessState, ProcessTree, Protection, SpecialMapping, ThreadState,
};
use crate::{Contents, Run};
use proptest::prelude::*;
use standfast_core::{Address, PAGE_BYTES, PageRange};

const PAGE: u64 = PAGE_BYTES as u64;
const OBJECT_PAGES: u64 = 5;
const HEADER: &[u8] = b"\x7fELF and more";

/// A core file as a debugger sees it.
struct Debugger {
    file: Vec<u8>,
    /// Address, bytes in memory, offset in the file, bytes in the file, flags.
    segments: Vec<[u64; 5]>,
    notes: Vec<(String, u32, Vec<u8>)>,
}

impl Debugger {
    fn open(file: Vec<u8>) -> Self {
        let number =
            |at: usize, bytes: usize| file[at..at + bytes].iter().rev().fold(0, |all, it| all << 8 | u64::from(*it));
        let (table, mut count) = (number(32, 8), number(56, 2));
        assert_eq!((&file[..7], number(16, 2), number(18, 2)), (&b"\x7fELF\x02\x01\x01"[..], 4, 62));
        if count == 0xffff {
            count = number(number(40, 8) as usize + 44, 4);
        }
        let (mut segments, mut notes) = (Vec::new(), Vec::new());
        for header in (0..count).map(|header| (table + header * 56) as usize) {
            let field = |place: usize| number(header + 8 * place, 8);
            let (offset, address, file_bytes, bytes) = (field(1), field(2), field(4), field(5));
            assert!(offset + file_bytes <= file.len() as u64);
            if number(header, 4) == 1 {
                assert!(
                    offset.is_multiple_of(PAGE) && address.is_multiple_of(PAGE) && [0, bytes].contains(&file_bytes)
                );
                segments.push([address, bytes, offset, file_bytes, number(header + 4, 4)]);
                continue;
            }
            assert_eq!(number(header, 4), 4);
            let (mut at, end) = (offset as usize, (offset + file_bytes) as usize);
            while at < end {
                let [name, contents, kind] = [0, 4, 8].map(|field| number(at + field, 4) as usize);
                let text = String::from_utf8(file[at + 12..at + 12 + name - 1].to_vec()).unwrap();
                let from = at + 12 + name.next_multiple_of(4);
                notes.push((text, kind as u32, file[from..from + contents].to_vec()));
                at = from + contents.next_multiple_of(4);
            }
        }
        assert!(segments.windows(2).all(|pair| pair[0][0] + pair[0][1] <= pair[1][0]), "ascending and apart");
        Self { file, segments, notes }
    }

    /// Returns the segment of a page.
    fn segment(&self, address: u64) -> Option<&[u64; 5]> {
        self.segments.iter().find(|it| (it[0]..it[0] + it[1]).contains(&address))
    }

    /// Returns the bytes of a page; `None` if the file has none.
    fn page(&self, address: u64) -> Option<&[u8]> {
        let [start, _, offset, file_bytes, _] = self.segment(address)?;
        let from = (offset + address - start) as usize;
        (*file_bytes > 0).then(|| &self.file[from..from + PAGE_BYTES])
    }

    fn contents(&self, kind: u32) -> Vec<&[u8]> {
        self.notes.iter().filter(|note| note.1 == kind).map(|note| &note.2[..]).collect()
    }
}

/// The page of an owner at an address or offset, unlike that of any other.
fn page_of(owner: u32, at: u64) -> Vec<u8> {
    [u64::from(owner) + 1, at].map(u64::to_le_bytes).concat().repeat(PAGE_BYTES / 16)
}

/// Writes the core file of the first process.
fn written(job: &JobState, runs: &[Run]) -> Result<Debugger, NoCoreFile> {
    let header = |file: &FileReference| {
        let mut page = HEADER.to_vec();
        page.resize(PAGE_BYTES, 7);
        MappedFileNow { path: Some(file.path.clone()), first_page: (file.length > 0).then_some(page) }
    };
    let plan = CoreFilePlan::of(job, 0, runs, &header)?;
    let mut file = vec![0; plan.bytes() as usize];
    let mut put = |offset: u64, bytes: &[u8]| {
        file[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        Ok::<(), ()>(())
    };
    plan.constants().try_for_each(|(offset, bytes)| put(offset, bytes)).unwrap();
    for run in runs.iter().filter(|run| run.contents == Contents::Stored) {
        let bytes: Vec<u8> =
            (0..run.range.pages()).flat_map(|page| page_of(run.owner, run.range.start().get() + page * PAGE)).collect();
        plan.place(&[*run], &bytes, &mut put).unwrap();
    }
    Ok(Debugger::open(file))
}

/// What a page of the first process was, read from the records without any plan; `None` if nobody knows.
fn naive(job: &JobState, runs: &[Run], mapping: &Mapping, address: u64) -> Option<Vec<u8>> {
    let find = |owner: u32, at: u64| {
        runs.iter().find(|run| run.owner == owner && run.range.contains(Address::new(at))).map(|run| run.contents)
    };
    let zeros = || vec![0; PAGE_BYTES];
    if mapping.attributes.advice.contains(&Advice::DontDump) {
        return None;
    }
    match (find(0, address), &mapping.backing) {
        (Some(Contents::Stored), _) => Some(page_of(0, address)),
        (Some(Contents::Zero), _) => Some(zeros()),
        (None, Backing::Anonymous) => mapping.protection.read.then(zeros),
        (None, Backing::PrivateFile { file, offset } | Backing::SharedFileReadOnly { file, offset }) => {
            let is_header = *offset == 0 && address == mapping.start && file.length > 0 && mapping.protection.read;
            is_header.then(|| [HEADER, &[7; PAGE_BYTES][HEADER.len()..]].concat())
        }
        (None, Backing::SharedObject { object, offset } | Backing::PrivateObject { object, offset }) => {
            let at = offset + (address - mapping.start);
            let owner = job.number_of_object(*object as usize);
            let is_inside = at < job.objects[*object as usize].length.next_multiple_of(PAGE);
            match find(owner, at) {
                Some(Contents::Stored) => is_inside.then(|| page_of(owner, at)),
                _ => is_inside.then(zeros),
            }
        }
    }
}

fn mapping(first: u64, pages: u64, backing: Backing) -> Mapping {
    Mapping {
        start: first * PAGE,
        end: (first + pages) * PAGE,
        protection: Protection { read: true, write: true, execute: false },
        backing,
        grows_down: false,
        attributes: MappingAttributes::default(),
        may_write: None,
    }
}

fn run(owner: u32, first: u64, pages: u64, contents: Contents) -> Run {
    Run { owner, range: PageRange::new(Address::new(first * PAGE), pages), contents }
}

fn job(mappings: Vec<Mapping>) -> JobState {
    let thread = ThreadState { tid: 7, registers: vec![0; 27], ..ThreadState::default() };
    let process = ProcessState { pid: 7, threads: vec![thread], mappings, ..ProcessState::default() };
    let object = MemoryObject {
        kind: ObjectKind::SharedMemory,
        length: OBJECT_PAGES * PAGE - 1,
        huge_page_bytes: 0,
        modified_nanoseconds: None,
    };
    let mut job = JobState { processes: vec![process], objects: vec![object; 2], ..JobState::default() };
    job.machine.architecture = "x86_64".to_owned();
    job
}

fn any_backing() -> impl Strategy<Value = Backing> {
    let file = (0..2u64).prop_map(|length| FileReference { length, ..FileReference::default() });
    let offset = (0..OBJECT_PAGES + 2).prop_map(|page| page * PAGE);
    (0..5, file, 0..2u32, offset).prop_map(|(kind, file, object, offset)| match kind {
        0 => Backing::Anonymous,
        1 => Backing::PrivateFile { file, offset },
        2 => Backing::SharedFileReadOnly { file, offset },
        3 => Backing::SharedObject { object, offset },
        _ => Backing::PrivateObject { object, offset },
    })
}

/// A mapping after a gap, and for each page whether the program has its own: bytes, or zeros.
fn any_mapping() -> impl Strategy<Value = (Mapping, Vec<Option<Contents>>)> {
    let pages = prop::collection::vec(
        prop_oneof![3 => Just(None), 2 => Just(Some(Contents::Stored)), 1 => Just(Some(Contents::Zero))],
        0..12,
    );
    (any_backing(), pages, prop::bool::weighted(0.8), prop::bool::weighted(0.1)).prop_map(
        |(backing, pages, read, is_excluded)| {
            let mut made = mapping(0, pages.len() as u64, backing);
            made.protection.read = read;
            made.attributes.advice.extend(is_excluded.then_some(Advice::DontDump));
            (made, pages)
        },
    )
}

proptest! {
    #[test]
    fn a_debugger_reads_each_page_as_a_naive_reader_does(
        mappings in prop::collection::vec((0..3u64, any_mapping()), 0..6),
        objects in prop::collection::vec((0..2u32, 0..OBJECT_PAGES), 0..6),
    ) {
        let (mut made, mut runs, mut at) = (Vec::new(), Vec::new(), 16);
        for (gap, (mut mapping, pages)) in mappings {
            at += gap;
            (mapping.start, mapping.end) = (at * PAGE, (at + pages.len() as u64) * PAGE);
            let own = (at..).zip(&pages).filter_map(|(page, contents)| Some(run(0, page, 1, (*contents)?)));
            runs.extend(own);
            at += pages.len() as u64;
            made.push(mapping);
        }
        runs.extend(objects.into_iter().map(|(object, page)| run(1 + object, page, 1, Contents::Stored)));
        runs.sort_unstable();
        runs.dedup();
        let job = job(made);
        let debugger = written(&job, &runs).unwrap();
        for mapping in &job.processes[0].mappings {
            for address in (mapping.start..mapping.end).step_by(PAGE_BYTES) {
                let expected = naive(&job, &runs, mapping, address);
                prop_assert_eq!(debugger.page(address), expected.as_deref(), "{:#x} of {:?}", address, mapping);
                // A debugger reads what has a segment without bytes from the file, or as zeros.
                let may_be_empty = mapping.backing.file().is_some();
                prop_assert!(expected.is_some() || may_be_empty || debugger.segment(address).is_none());
            }
        }
    }

    #[test]
    fn senseless_mappings_are_refused_and_nothing_panics(
        numbers in prop::collection::vec(any::<(u64, u64, u64)>(), 1..4),
        backing in any_backing(),
        page: u64,
    ) {
        let mappings = numbers.iter().map(|(start, end, offset)| {
            let backing = match backing.clone() {
                Backing::SharedObject { object, .. } => Backing::SharedObject { object, offset: *offset },
                Backing::PrivateObject { object, .. } => Backing::PrivateObject { object: object + 1, offset: *offset },
                other => other,
            };
            Mapping { start: *start, end: *end, ..mapping(0, 1, backing) }
        });
        let _ = CoreFilePlan::of(&job(mappings.collect()), 0, &[run(0, page >> 13, 1, Contents::Stored)], &|_| MappedFileNow::default());
    }
}

#[test]
fn a_page_of_two_mappings_goes_to_both() {
    let shown = |first| mapping(first, 2, Backing::SharedObject { object: 0, offset: 2 * PAGE });
    let debugger = written(&job(vec![shown(10), shown(20)]), &[run(1, 3, 1, Contents::Stored)]).unwrap();
    assert_eq!([11, 21].map(|page| debugger.page(page * PAGE)), [Some(&page_of(1, 3 * PAGE)[..]); 2]);
}

#[test]
fn the_file_is_not_as_long_as_the_zeros_that_it_describes() {
    let terabytes = 16 << 28;
    let job = job(vec![mapping(1, terabytes, Backing::Anonymous)]);
    let runs = [run(0, 5, 1, Contents::Stored), run(0, terabytes, 1, Contents::Stored)];
    let plan = CoreFilePlan::of(&job, 0, &runs, &|_| MappedFileNow::default()).unwrap();
    assert!(plan.bytes() < 2 << 30, "{}", plan.bytes());
}

#[test]
fn the_stack_below_the_lowest_stack_pointer_is_unknown() {
    let mut job = job(vec![Mapping { grows_down: true, ..mapping(10, 10, Backing::Anonymous) }]);
    let process = &mut job.processes[0];
    process.layout = MemoryLayout { stack_start: 20 * PAGE - 64, ..MemoryLayout::default() };
    process.threads[0].registers[19] = 15 * PAGE + 100;
    let debugger = written(&job, &[run(0, 15, 2, Contents::Stored)]).unwrap();
    let known: Vec<u64> = (10..20).filter(|page| debugger.page(page * PAGE).is_some()).collect();
    // The red zone begins in page 14.
    assert_eq!(known, [14, 15, 16, 17, 18, 19]);
}

#[test]
fn more_segments_than_the_header_can_count_are_counted_elsewhere() {
    for count in [65533, 65534, 65535, 66000] {
        let mappings = (0..count).map(|number| mapping(2 * number + 1, 1, Backing::Anonymous)).collect();
        let plan = CoreFilePlan::of(&job(mappings), 0, &[], &|_| MappedFileNow::default()).unwrap();
        let mut file = vec![0; plan.bytes() as usize];
        plan.constants().for_each(|(offset, bytes)| file[offset as usize..][..bytes.len()].copy_from_slice(bytes));
        assert_eq!(Debugger::open(file).segments.len() as u64, count);
    }
}

#[test]
fn notes_hold_the_registers_and_ids_of_each_thread() {
    let mut job = job(vec![mapping(
        8,
        4,
        Backing::PrivateFile {
            file: FileReference { path: b"/lib/some.so"[..].into(), length: 1, ..FileReference::default() },
            offset: 3 * PAGE,
        },
    )]);
    let process = &mut job.processes[0];
    process.arguments = vec![b"./prog"[..].into(), b"-x"[..].into()];
    process.layout.auxiliary_vector = Bytes::from([11u64, 1000, 13, 100, 0, 0].map(u64::to_le_bytes).concat());
    process.process_tree = ProcessTree { process_group: 5, session: 4, ..ProcessTree::default() };
    process.special_mappings = vec![SpecialMapping { start: 2 * PAGE, end: 3 * PAGE, name: b"[vdso]"[..].into() }];
    let main = &mut process.threads[0];
    main.name = b"prog"[..].into();
    main.registers[16] = 0x1234;
    main.signal_mask = 6;
    main.pending = vec![PendingSignal { signal: 10, information: Bytes::default() }];
    main.extended_registers = Bytes::from((0..=255).cycle().take(832).collect::<Vec<u8>>());
    process.threads.push(ThreadState { tid: 8, registers: vec![1; 27], ..ThreadState::default() });
    job.machine.vdso_code = page_of(9, 9).into();
    let debugger = written(&job, &[]).unwrap();

    let kinds: Vec<_> = debugger.notes.iter().map(|note| (&note.0[..], note.1)).collect();
    let own =
        [("CORE", 1), ("CORE", 3), ("CORE", 6), ("CORE", 0x4649_4c45), ("CORE", 2), ("LINUX", 0x202), ("CORE", 1)];
    assert_eq!(kinds, own, "the second thread has no floating-point registers");
    let [main, other] = debugger.contents(1)[..] else { panic!("two threads") };
    let number = |note: &[u8], at: usize| u64::from_le_bytes(*note[at..].first_chunk().unwrap());
    assert_eq!((main.len(), number(main, 112 + 16 * 8), number(other, 112 + 16 * 8)), (336, 0x1234, 1));
    assert_eq!((number(main, 16), number(main, 24)), (1 << 9, 6), "pending and blocked signals");
    assert_eq!([number(main, 32), number(main, 40)], [7, 5 | 4 << 32], "ids");
    assert_eq!((number(other, 32), main[328], other[328]), (8, 1, 0));
    let process = debugger.contents(3)[0];
    assert_eq!((process.len(), &process[..2]), (136, &b"\0R"[..]));
    assert_eq!([number(process, 16), number(process, 24)], [1000 | 100 << 32, 7]);
    assert_eq!((&process[40..45], &process[56..66]), (&b"prog\0"[..], &b"./prog -x\0"[..]));
    let files = debugger.contents(0x4649_4c45)[0];
    assert_eq!([0, 8, 16, 24, 32].map(|at| number(files, at)), [1, PAGE, 8 * PAGE, 12 * PAGE, 3]);
    assert_eq!(&files[40..], b"/lib/some.so\0");
    assert_eq!((debugger.contents(2)[0].len(), debugger.contents(0x202)[0].len()), (512, 832));
    assert_eq!(debugger.page(2 * PAGE), Some(&page_of(9, 9)[..]), "the vdso");
    assert_eq!(debugger.segments.iter().map(|it| it[4]).collect::<Vec<_>>(), [5, 6]);
}

#[test]
fn a_file_that_has_changed_is_not_named_and_its_copy_is() {
    let file = |path: &[u8]| FileReference { path: path.into(), ..FileReference::default() };
    let backing = |path: &[u8]| Backing::PrivateFile { file: file(path), offset: PAGE };
    let job = job(vec![mapping(1, 2, backing(b"gone")), mapping(5, 2, backing(b"kept"))]);
    let now = |file: &FileReference| MappedFileNow {
        path: (file.path.0 == b"kept").then(|| b"its copy"[..].into()),
        first_page: None,
    };
    let plan = CoreFilePlan::of(&job, 0, &[], &now).unwrap();
    let mut bytes = vec![0; plan.bytes() as usize];
    plan.constants().for_each(|(offset, some)| bytes[offset as usize..][..some.len()].copy_from_slice(some));
    let debugger = Debugger::open(bytes);
    assert_eq!([1, 5].map(|page| debugger.segment(page * PAGE).is_some()), [false, true]);
    assert!(debugger.contents(0x4649_4c45)[0].ends_with(b"\0\0\0its copy\0"));
}

#[test]
fn a_process_of_another_architecture_is_refused() {
    let refused =
        |job: &JobState, runs: &[Run]| CoreFilePlan::of(job, 0, runs, &|_| MappedFileNow::default()).unwrap_err();
    let fine = job(vec![mapping(1, 1, Backing::Anonymous)]);
    let mut other = fine.clone();
    other.machine.architecture = "aarch64".to_owned();
    assert_eq!(refused(&other, &[]), NoCoreFile::Architecture("aarch64".to_owned()));
    let mut ended = fine.clone();
    ended.processes[0].threads.clear();
    assert_eq!(refused(&ended, &[]), NoCoreFile::Ended);
    assert!(matches!(refused(&fine, &[run(0, 1, 2, Contents::Stored)]), NoCoreFile::Senseless(_)));
}
