//! Changes that a program makes to its mappings between a scan and the stop, and between two checkpoints.

// The tests of the command from outside depend on no other crate, and no other crate depends on them.
#[path = "../../../tests/src/skip.rs"]
#[allow(dead_code, unreachable_pub, reason = "they have more reasons to skip something")]
mod skip;
mod support;

use skip::{Lacking, skip};
use standfast_core::{PAGE_BYTES, PageSet};
use standfast_engine::{
    Asking, Assistance, CaptureOptions, Freezer, InheritedSignals, Job, Launch, LaunchTerminal, Tracking,
};
use standfast_format::records::{Advice, Backing, JobState, MappingAttributes};
use standfast_format::{BatchRange, BoxError, ImageSink, PageBatch};
use standfast_linux::{PageScan, Pid, abi};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use support::compile;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
/// All checkpoints are committed under one number, since nothing stores them.
const GENERATION: u64 = 1;
const HUGE_PAGE: u64 = 2 << 20;

/// Pages of the one process by address.
type Memory = BTreeMap<u64, Vec<u8>>;

/// An image that builds upon the previous one.
#[derive(Default)]
struct Image {
    parent: Memory,
    memory: Memory,
}

impl ImageSink for Image {
    fn lend(&mut self) -> Result<PageBatch, BoxError> {
        Ok(PageBatch { bytes: vec![0; 64 * PAGE_BYTES], ..PageBatch::default() })
    }

    fn submit(&mut self, batch: PageBatch) -> Result<(), BoxError> {
        let of_process = batch.ranges.iter();
        let pages = of_process.flat_map(|BatchRange { range, .. }| {
            (0..range.pages()).map(|page| range.start().get() + page * PAGE_BYTES as u64)
        });
        self.memory.extend(pages.zip(batch.bytes.chunks(PAGE_BYTES).map(<[u8]>::to_vec)));
        Ok(())
    }

    fn inherit(&mut self, _: u32, _: u32, pages: &PageSet) -> Result<(), BoxError> {
        for range in pages.ranges() {
            let addresses = (0..range.pages()).map(|page| range.start().get() + page * PAGE_BYTES as u64);
            self.memory.extend(addresses.map(|address| (address, self.parent[&address].clone())));
        }
        Ok(())
    }

    fn finish(&mut self, _: &JobState) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A program that follows orders, and ends when this value is dropped.
struct Program {
    job: Job,
    directory: TempDir,
    _program: TempDir,
    orders: usize,
    /// The address at which it maps memory.
    place: u64,
}

impl Program {
    fn new() -> Self {
        let (compiled, program) = compile("remapped.c");
        let directory = tempfile::tempdir().expect("a temporary directory can be had");
        let job = Job::launch(&Launch {
            program: program.into(),
            arguments: vec![directory.path().into()],
            signals: InheritedSignals::capture(),
            terminal: LaunchTerminal::shared(),
            directory: None,
            assistance: Assistance::default(),
        });
        let job = job.expect("the program starts");
        let mut program = Self { job, directory, _program: compiled, orders: 0, place: 0 };
        program.place = u64::from_str_radix(&program.answer(), 16).expect("an address");
        program
    }

    fn answer(&self) -> String {
        let (answer, deadline) =
            (self.directory.path().join(format!("done-{}", self.orders)), Instant::now() + PATIENCE);
        loop {
            if let Ok(answer) = fs::read_to_string(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "no answer");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has the program do something. Reports whether the kernel can do that.
    fn obeys(&mut self, order: &str) -> bool {
        self.orders += 1;
        let (written, path) = (self.directory.path().join("order"), format!("order-{}", self.orders));
        fs::write(&written, order).expect("it can be written");
        fs::rename(written, self.directory.path().join(path)).expect("it can be renamed");
        self.answer() == "done"
    }

    /// Returns a freezer that has scanned the program once.
    fn freezer(&self) -> Freezer {
        let freezer = self.job.freezer();
        freezer.prefetch();
        freezer
    }

    /// Returns what an image holds at the program's place.
    fn filling(&self, memory: &Memory, offset: u64) -> u8 {
        memory.get(&(self.place + offset)).map_or(0, |page| page[17])
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // If the program has already ended, nothing is left to do.
        let _ = self.job.signal(abi::SIGKILL);
        let _ = self.job.reap();
    }
}

/// What a checkpoint holds of a place.
struct HeldImage {
    attributes: MappingAttributes,
    backing: Option<Backing>,
    may_write: Option<bool>,
}

/// Takes a checkpoint upon `memory`, and replaces `memory` with what the checkpoint holds. Calls `meanwhile` between the
/// thaw and the confirmation, which alone commits the checkpoint.
fn checkpoint(
    freezer: &Freezer,
    (memory, place): (&mut Memory, u64),
    asking: Asking,
    meanwhile: impl FnOnce() + Send,
) -> (HeldImage, bool) {
    std::thread::scope(|scope| {
        let work = || {
            let mut image = Image { parent: memory.clone(), ..Image::default() };
            let builds_upon_last = !image.parent.is_empty();
            let options =
                CaptureOptions { tracking: Tracking::Auto, builds_upon_last, asking, ..CaptureOptions::default() };
            let mut frozen = freezer.freeze(PATIENCE).expect("it can be frozen");
            let mut captured = frozen.capture(&mut image, options).expect("it can be captured");
            frozen.thaw().expect("it lives");
            meanwhile();
            let is_confirmed = captured.take_unconfirmed().expect("nobody has taken it").confirm();
            if is_confirmed {
                captured.committed(GENERATION);
                *memory = image.memory;
            }
            let mapping = captured.state.processes[0].mappings.iter().find(|it| (it.start..it.end).contains(&place));
            let held = HeldImage {
                attributes: mapping.map(|mapping| mapping.attributes.clone()).unwrap_or_default(),
                backing: mapping.map(|mapping| mapping.backing.clone()),
                may_write: mapping.and_then(|mapping| mapping.may_write),
            };
            (held, is_confirmed)
        };
        scope.spawn(work).join().expect("no panic")
    })
}

#[test]
fn discarded_huge_pages_of_the_pool_are_zero() {
    let mut program = Program::new();
    if !program.obeys("pool") {
        return skip(
            "discarded huge pages hold zeros",
            &Lacking::system("the pool of huge pages is empty (vm.nr_hugepages)"),
        );
    }
    let (freezer, place, mut memory) = (program.freezer(), program.place, Memory::new());
    for _ in 0..2 {
        assert!(checkpoint(&freezer, (&mut memory, place), Asking::Running, || ()).1);
        assert_eq!(program.filling(&memory, 0), b'p');
    }
    assert!(program.obeys("discard"));
    assert!(checkpoint(&freezer, (&mut memory, place), Asking::Running, || ()).1);
    assert_eq!([0, HUGE_PAGE].map(|offset| program.filling(&memory, offset)), [0, b'p']);
}

#[test]
fn pages_in_place_of_saved_ones_are_saved() {
    for (order, filling) in [("moved", b'm'), ("zeros", 0), ("merged", b'm')] {
        let mut program = Program::new();
        let (freezer, place, mut memory) = (program.freezer(), program.place, Memory::new());
        assert!(program.obeys("filled"));
        for _ in 0..3 {
            assert!(checkpoint(&freezer, (&mut memory, place), Asking::Running, || ()).1);
            assert_eq!(program.filling(&memory, 0), b'f');
        }
        if !program.obeys(order) {
            skip("pages in place of saved ones are saved", &Lacking::system("KSM does not run"));
            continue;
        }
        for _ in 0..2 {
            assert!(checkpoint(&freezer, (&mut memory, place), Asking::Running, || ()).1);
            assert_eq!(program.filling(&memory, 0), filling, "{order}");
        }
    }
}

#[test]
fn memory_changed_since_the_scan_is_not_committed_until_rescanned() {
    let mut program = Program::new();
    if !program.obeys("droppable") {
        return skip(
            "memory that a look has not seen is right the next time",
            &Lacking::system("no droppable mappings (Linux 6.11)"),
        );
    }
    let (freezer, place, mut memory) = (program.freezer(), program.place, Memory::new());
    for (before, stopped) in [
        ("droppable", "ordinary"),
        ("ordinary", "droppable"),
        ("wiped", "ordinary"),
        ("ordinary", "wiped"),
        ("kept", "wiped"),
        ("ordinary", "kept"),
    ] {
        assert!(program.obeys(before));
        // The scan that confirms the first checkpoint is the one that the second relies on.
        checkpoint(&freezer, (&mut memory, place), Asking::Running, || ());
        assert!(checkpoint(&freezer, (&mut memory, place), Asking::Running, || ()).1, "{before} is {before}");
        assert!(program.obeys(stopped));
        let (_, is_confirmed) = checkpoint(&freezer, (&mut memory, place), Asking::Running, || ());
        assert!(!is_confirmed, "{before} was seen, and {stopped} was there");
        let (held, is_confirmed) = checkpoint(&freezer, (&mut memory, place), Asking::Running, || ());
        assert!(is_confirmed && held.backing == Some(Backing::Anonymous), "that was seen");
        assert_is(&held, stopped);
        let filling = if stopped == "droppable" { 0 } else { stopped.as_bytes()[0] };
        assert_eq!(program.filling(&memory, 0), filling, "{stopped} is saved");
    }
}

#[test]
fn memory_gone_at_the_confirmation_fails_it_only_if_it_had_advice() {
    let mut program = Program::new();
    let (freezer, place, mut memory) = (program.freezer(), program.place, Memory::new());
    for (stopped, is_believed) in [("ordinary", true), ("wiped", false)] {
        assert!(program.obeys(stopped));
        checkpoint(&freezer, (&mut memory, place), Asking::Running, || ());
        let gone = || assert!(program.obeys("none"));
        assert_eq!(checkpoint(&freezer, (&mut memory, place), Asking::Running, gone).1, is_believed, "{stopped}");
    }
}

#[test]
fn attributes_read_while_the_job_is_stopped_need_no_confirmation() {
    let mut program = Program::new();
    let (freezer, place, mut memory) = (program.freezer(), program.place, Memory::new());
    assert!(program.obeys("ordinary"));
    checkpoint(&freezer, (&mut memory, place), Asking::Running, || ());
    assert!(program.obeys("wiped"));
    let changed = || assert!(program.obeys("kept"));
    let (held, is_confirmed) = checkpoint(&freezer, (&mut memory, place), Asking::Stopped, changed);
    assert!(is_confirmed);
    assert_is(&held, "wiped");
}

#[test]
fn a_file_is_saved_once_a_write_through_its_mapping_is_seen() {
    if !PageScan::open(Pid::own()).is_ok_and(|scan| scan.is_by_ioctl()) {
        return skip(
            "a file is saved once a write through its mapping is seen",
            &Lacking::system("no scan of page tables (PAGEMAP_SCAN, Linux 6.7)"),
        );
    }
    let mut program = Program::new();
    let (freezer, place, mut memory) = (program.freezer(), program.place, Memory::new());
    for (order, is_saved) in
        [("guarded", false), ("read", false), ("other", false), ("slip", true), ("read", true), ("guarded", true)]
    {
        assert!(program.obeys(order));
        let (held, _) = checkpoint(&freezer, (&mut memory, place), Asking::Stopped, || ());
        assert_eq!(held.may_write, Some(true), "{order}");
        assert_eq!(matches!(held.backing, Some(Backing::SharedObject { .. })), is_saved, "{order}");
    }
}

fn assert_is(held: &HeldImage, what: &str) {
    let advice: &[Advice] = match what {
        "wiped" => &[Advice::WipeOnFork],
        "kept" => &[Advice::DontFork],
        _ => &[],
    };
    let said = |advice: &Advice| matches!(advice, Advice::WipeOnFork | Advice::DontFork);
    let found: Vec<_> = held.attributes.advice.iter().copied().filter(said).collect();
    assert_eq!(held.attributes.droppable, what == "droppable");
    assert!(held.attributes.droppable || found == advice, "{what}: {found:?}");
}
