//! Compares incremental checkpoints, page by page, with full ones taken at the same stop.

mod support;

use fastrand::Rng;
use standfast_core::{PAGE_BYTES, PageSet};
use standfast_engine::{
    Assistance, CaptureOptions, EngineError, Freezer, InheritedSignals, Job, Launch, LaunchTerminal, Precopied,
    Reading, Tracking,
};
use standfast_format::records::{JobState, MemoryObject, ObjectKind, ProcessState};
use standfast_format::{BatchRange, BoxError, ImageSink, PageBatch};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use support::{compile, own_pages};

const CHECKPOINTS: usize = 100;
/// Checkpoints of a program with much more memory.
const CHECKPOINTS_OF_MUCH: usize = 30;
/// Checkpoints for each way to read memory while the program runs.
const CHECKPOINTS_READ_LATER: usize = 30;
/// More bytes than most programs have to read ahead.
const AHEAD_BYTES_MAX: u64 = 8 << 20;
/// All checkpoints are committed under one number, since nothing stores them.
const GENERATION: u64 = 1;

/// Pages by owner and address. An inherited page is the same one as in the parent.
type Memory = BTreeMap<(u32, u64), Arc<[u8]>>;

/// A sink for an image that may build upon an earlier memory. It holds what a restart would find.
#[derive(Default)]
struct Flat {
    parent: Memory,
    memory: Memory,
    stored: usize,
}

impl ImageSink for Flat {
    fn lend(&mut self) -> Result<PageBatch, BoxError> {
        Ok(PageBatch { bytes: vec![0; 64 * PAGE_BYTES], ..PageBatch::default() })
    }

    fn ready(&self) -> usize {
        5
    }

    fn submit(&mut self, batch: PageBatch) -> Result<(), BoxError> {
        let pages = batch.ranges.iter().flat_map(|BatchRange { owner, range, .. }| {
            (0..range.pages()).map(|page| (*owner, range.start().get() + page * PAGE_BYTES as u64))
        });
        for (key, bytes) in pages.zip(batch.bytes.chunks(PAGE_BYTES)) {
            assert!(self.memory.insert(key, bytes.into()).is_none(), "page {key:x?} comes twice");
            self.stored += 1;
        }
        Ok(())
    }

    fn inherit(&mut self, owner: u32, was: u32, pages: &PageSet) -> Result<(), BoxError> {
        for range in pages.ranges() {
            for page in 0..range.pages() {
                let address = range.start().get() + page * PAGE_BYTES as u64;
                let held = self.parent.get(&(was, address)).ok_or_else(|| format!("{address:x} was never saved"))?;
                assert!(self.memory.insert((owner, address), held.clone()).is_none(), "page {address:x} comes twice");
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &JobState) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Takes one checkpoint upon `parent`, and captures all of the memory at the same stop. The other capture shows which
/// pages exist, and so do the page tables, which are read for each page. The pages of processes are read directly. An
/// error is a refusal.
fn both(freezer: &Freezer, how: How, parent: Option<Memory>, commit: bool) -> Result<Both, EngineError> {
    let How { tracking, reading, reads_ahead } = how;
    std::thread::scope(|scope| {
        let work = || {
            let mut frozen = match freezer.freeze(Duration::from_secs(5)) {
                Ok(frozen) => frozen,
                // A child that is just ending, or a thread that does not stop in time: no checkpoint, and no harm done.
                Err(refusal @ (EngineError::Refused(_) | EngineError::Unstoppable { .. })) => return Err(refusal),
                Err(error) => panic!("{error}"),
            };
            // A refused checkpoint that was to save everything has left nothing to build upon.
            let parent = parent.filter(|_| freezer.last_committed() == Some(GENERATION));
            let builds_upon_last = parent.is_some();
            let mut flat = Flat { parent: parent.unwrap_or_default(), ..Flat::default() };
            let options = CaptureOptions { tracking, builds_upon_last, reading, ..CaptureOptions::default() };
            let mut early = Precopied::default();
            if reads_ahead {
                match frozen.begin_precopy(options) {
                    Ok(precopied) => early = precopied,
                    Err(refusal @ EngineError::Refused(_)) => return Err(refusal),
                    Err(error) => panic!("{error}"),
                }
                let _ = frozen.thaw();
                early.read(&mut flat, AHEAD_BYTES_MAX).expect("the sink takes all");
                frozen = freezer.freeze(Duration::from_secs(5))?;
            }
            let mut full = Flat::default();
            let again = CaptureOptions { builds_upon_last: true, ..CaptureOptions::default() };
            let first = match frozen.capture(&mut full, again) {
                Err(refusal @ EngineError::Refused(_)) => return Err(refusal),
                taken => taken.expect("it can be captured").state,
            };
            let mut captured = match frozen.capture_after_precopy(early, &mut flat, options) {
                Ok(captured) => captured,
                Err(EngineError::Refused(blockers)) if blockers.iter().all(|it| it.what.starts_with("System V")) => {
                    return Err(EngineError::Refused(blockers));
                }
                Err(error) => panic!("what could be captured once can be again: {error}"),
            };
            read_directly(&captured.state, &mut full.memory);
            // A process of the job that was killed meanwhile does no harm here.
            let _ = frozen.thaw();
            captured.read_on(&mut flat).expect("nobody kills a clone");
            if commit {
                captured.committed(GENERATION);
            }
            let strangers = [&first, &captured.state].map(strangers).concat();
            let seen = [&first, &captured.state].map(outline);
            let first_object = captured.state.number_of_object(0);
            Ok(Both { flat, truth: full.memory, first_object, noted: noted(&captured.state), strangers, seen })
        };
        scope.spawn(work).join().expect("no panic")
    })
}

/// Corrects the pages of processes by reading them from their memory, and adds pages that only their page tables show.
fn read_directly(state: &JobState, truth: &mut Memory) {
    // Zombies have no memory.
    let open = |process: &ProcessState| File::open(format!("/proc/{}/mem", process.pid)).ok();
    let memories: Vec<_> = state.processes.iter().map(open).collect();
    let read = |(owner, address): (u32, u64), bytes: &mut [u8]| {
        let memory = memories.get(owner as usize).and_then(Option::as_ref);
        memory.is_some_and(|memory| memory.read_exact_at(bytes, address).is_ok())
    };
    let mut bytes = [0; PAGE_BYTES];
    for (key, held) in truth.iter_mut() {
        if read(*key, &mut bytes) && held[..] != bytes {
            *held = bytes.as_slice().into();
        }
    }
    for (owner, process) in (0..).zip(&state.processes) {
        for key in own_pages(process.pid).into_iter().map(|address| (owner, address)) {
            if !truth.contains_key(&key) && read(key, &mut bytes) && bytes.iter().any(|byte| *byte != 0) {
                truth.insert(key, bytes.as_slice().into());
            }
        }
    }
}

/// An incremental checkpoint, and the true memory.
struct Both {
    flat: Flat,
    truth: Memory,
    /// The number of the first owner that is not a process.
    first_object: u32,
    noted: Vec<Noted>,
    strangers: Vec<u32>,
    /// What either capture has found, for the diagnosis of a failure.
    seen: [String; 2],
}

/// Lists the processes and objects by their numbers as owners.
fn outline(state: &JobState) -> String {
    let process = |it: &ProcessState| (it.pid, it.process_tree.wait_status);
    let object = |(place, it): (usize, &MemoryObject)| (state.number_of_object(place), it.length, it.kind.clone());
    let processes: Vec<_> = state.processes.iter().map(process).collect();
    let objects: Vec<_> = state.objects.iter().enumerate().map(object).collect();
    format!("processes {processes:?}, objects {objects:?}")
}

/// Returns the System V segments that may belong to another program, and may come and go while ours is frozen. None of
/// the programs here has a segment that is not marked for removal.
fn strangers(state: &JobState) -> Vec<u32> {
    let is_strange = |object: &MemoryObject| matches!(object.kind, ObjectKind::Segment { removed: false, .. });
    let objects = state.objects.iter().enumerate();
    objects.filter(|(_, object)| is_strange(object)).map(|(place, _)| state.number_of_object(place)).collect()
}

/// The way in which checkpoints are taken.
#[derive(Debug, Clone, Copy)]
struct How {
    tracking: Tracking,
    reading: Reading,
    reads_ahead: bool,
}

fn stopped(tracking: Tracking) -> How {
    How { tracking, reading: Reading::Stopped, reads_ahead: false }
}

fn cloned(tracking: Tracking) -> How {
    How { reading: Reading::Cloned, ..stopped(tracking) }
}

fn ahead(tracking: Tracking) -> How {
    How { reads_ahead: true, ..stopped(tracking) }
}

/// Owner, address and length of an area that the kernel writes when a thread moves from one processor to another. A
/// capture may cause such a move, and a clone has an area of its own.
type Noted = (u32, u64, u32);

fn noted(state: &JobState) -> Vec<Noted> {
    let of_process = |(owner, process): (u32, &ProcessState)| {
        let areas = process.threads.iter().filter_map(|thread| thread.restartable_sequence.as_ref());
        areas.map(|it| (owner, it.area, it.length)).collect::<Vec<_>>()
    };
    (0..).zip(&state.processes).flat_map(of_process).collect()
}

/// Reports whether two pages hold the same, except for what the kernel notes in them.
fn same(key: &(u32, u64), one: &[u8], other: &[u8], noted: &[Noted]) -> bool {
    assert_eq!(one.len(), other.len());
    let is_noted = |byte: u64| {
        noted
            .iter()
            .any(|(owner, start, length)| *owner == key.0 && (*start..start + u64::from(*length)).contains(&byte))
    };
    one == other || (key.1..).zip(one.iter().zip(other)).all(|(at, (one, other))| one == other || is_noted(at))
}

/// Reports whether an image may omit a page, or have it where another one does not. A page of an object that was read and
/// never written is one of zeros: a checkpoint reads the last page of an object to find out where it ends. The kernel
/// drops it when it reclaims memory, even between two captures at the same stop; a restart puts zeros there.
fn may_be_missing(owner: u32, page: &[u8], first_object: u32) -> bool {
    owner >= first_object && page.iter().all(|byte| *byte == 0)
}

fn compare(both: &Both, place: usize, seed: u64) {
    let Both { flat: Flat { memory: found, .. }, truth: wanted, first_object, noted, strangers, seen } = both;
    let [first, second] = seen;
    for (key, bytes) in wanted.iter().filter(|(key, _)| !strangers.contains(&key.0)) {
        let (owner, address) = key;
        let what = format!("STANDFAST_SEED={seed}, checkpoint {place}: page {address:#x} of owner {owner}");
        let Some(held) = found.get(key) else {
            let harmless = may_be_missing(*owner, bytes, *first_object);
            assert!(harmless, "{what} is missing\nfirst: {first}\nsecond: {second}");
            continue;
        };
        assert!(same(key, held, bytes, noted), "{what} is an old one");
    }
    let is_surplus = |(owner, address): &(u32, u64), page: &[u8]| {
        !wanted.contains_key(&(*owner, *address))
            && !strangers.contains(owner)
            && !may_be_missing(*owner, page, *first_object)
    };
    let surplus = found.iter().find(|(key, page)| is_surplus(key, page)).map(|(key, _)| key);
    assert!(
        surplus.is_none(),
        "STANDFAST_SEED={seed}, checkpoint {place}: {surplus:x?} is not there any more\nfirst: {first}\nsecond: {second}"
    );
}

#[test]
fn tracked_checkpoints_equal_full_ones() {
    checkpoints_hold_the_truth("churn.c", stopped(Tracking::Pagemap), CHECKPOINTS);
}

/// What is learnt of stretches that are always written, and of huge pages, affects the checkpoints and not only the
/// programs.
#[test]
fn adaptive_checkpoints_equal_full_ones() {
    checkpoints_hold_the_truth("../../../tests/victims/stretches.c", stopped(Tracking::Auto), CHECKPOINTS_OF_MUCH);
}

/// Pages that cannot be tracked are compared; the others are tracked.
#[test]
fn checkpoints_with_mixed_tracking_equal_full_ones() {
    checkpoints_hold_the_truth("churn.c", stopped(Tracking::Auto), CHECKPOINTS / 3);
}

#[test]
fn hashed_checkpoints_equal_full_ones() {
    checkpoints_hold_the_truth("churn.c", stopped(Tracking::Hash), CHECKPOINTS);
}

#[test]
fn clones_hold_the_memory_of_the_stop() {
    for tracking in [Tracking::Pagemap, Tracking::Hash] {
        checkpoints_hold_the_truth("churn.c", cloned(tracking), CHECKPOINTS_READ_LATER);
    }
}

/// Pages in the image of the last stop may be read from a clone after the program has continued to write them.
#[test]
fn clones_of_large_programs_hold_the_memory_of_the_stop() {
    let source = "../../../tests/victims/stretches.c";
    checkpoints_hold_the_truth(source, cloned(Tracking::Auto), CHECKPOINTS_OF_MUCH);
}

#[test]
fn precopied_checkpoints_equal_full_ones() {
    checkpoints_hold_the_truth("churn.c", ahead(Tracking::Pagemap), CHECKPOINTS_READ_LATER);
    checkpoints_hold_the_truth("../../../tests/victims/stretches.c", ahead(Tracking::Auto), CHECKPOINTS_OF_MUCH);
}

/// Tries one seed, or as many as `STANDFAST_SEEDS` says (`make soak`).
fn checkpoints_hold_the_truth(source: &str, how: How, checkpoints: usize) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    for _ in 0..number("STANDFAST_SEEDS").unwrap_or(1) {
        let seed = number("STANDFAST_SEED").unwrap_or_else(|| fastrand::u64(..));
        hold_the_truth(source, how, checkpoints, seed);
    }
}

/// A program that ends when this value is dropped, even if a checkpoint did not hold what it should.
struct Program(Job);

impl Drop for Program {
    fn drop(&mut self) {
        // If the program has already ended, nothing is left to do.
        let _ = self.0.signal(9);
        let _ = self.0.reap();
    }
}

fn hold_the_truth(source: &str, how: How, checkpoints: usize, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let (directory, program) = compile(source);
    let command = "exec \"$0\" \"$1\" \"$2\" </dev/null >/dev/null 2>&1";
    let file = directory.path().join("file");
    let arguments = vec!["-c".into(), command.into(), program.into(), (seed >> 1).to_string().into(), file.into()];
    let (signals, terminal) = (InheritedSignals::capture(), LaunchTerminal::shared());
    let job = Job::launch(&Launch {
        program: "/bin/sh".into(),
        arguments,
        signals,
        terminal,
        directory: None,
        assistance: Assistance::default(),
    });
    let program = Program(job.expect("the program starts"));
    let freezer = program.0.freezer();
    let mut parent = None;
    let (mut taken, mut saved_less) = (0, 0);
    let mut refusals = Vec::new();
    for place in 0..checkpoints {
        std::thread::sleep(Duration::from_micros(random.u64(..4000)));
        // Now and then a checkpoint fails after the capture, and now and then one builds upon nothing.
        let (commit, afresh) = (random.u32(..8) > 0, random.u32(..16) == 0);
        let upon = if afresh { None } else { parent.clone() };
        let both = match both(&freezer, how, upon, commit) {
            Ok(both) => both,
            Err(refusal) => {
                refusals.push(refusal.to_string());
                continue;
            }
        };
        compare(&both, place, seed);
        taken += 1;
        saved_less += usize::from(both.flat.stored < both.truth.len());
        if commit {
            parent = Some(both.flat.memory);
        } else if afresh {
            parent = None;
        }
    }
    program.0.signal(9).expect("it lives");
    assert!(taken > checkpoints / 2, "only {taken} checkpoints were taken: {refusals:#?}");
    assert!(saved_less > taken / 2, "only {saved_less} of {taken} saved less than everything");
}
