//! What happens to a program's huge pages under checkpoints: write protection does not split them, but a write does. When
//! the program has left them alone for a while, they are huge again.

mod support;

use standfast_core::{PAGE_BYTES, PageSet};
use standfast_engine::{Assistance, CaptureOptions, Freezer, InheritedSignals, Job, Launch, LaunchTerminal, Tracking};
use standfast_format::records::JobState;
use standfast_format::{BatchRange, BoxError, ImageSink, PageBatch};
use standfast_linux::abi;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use support::compile;

/// KiB in eight huge pages.
const ALL: u64 = 8 * 2048;
const PATIENCE: Duration = Duration::from_secs(60);
/// Checkpoints by which the effect of what was learnt is visible.
const SCANS_MAX: usize = 20;
/// All checkpoints are committed under one number, since nothing stores them.
const GENERATION: u64 = 1;

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
        let pages = batch.ranges.iter().flat_map(|BatchRange { range, .. }| {
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

/// Takes a checkpoint upon `memory`, and replaces `memory` with what the checkpoint holds. Returns how many huge pages
/// are split, and how many first writes were noticed.
fn checkpoint(freezer: &Freezer, memory: &mut Memory) -> (u64, u64) {
    std::thread::scope(|scope| {
        let work = || {
            let mut image = Image { parent: std::mem::take(memory), ..Image::default() };
            let builds_upon_last = !image.parent.is_empty();
            let options = CaptureOptions { tracking: Tracking::Auto, builds_upon_last, ..CaptureOptions::default() };
            let mut frozen = freezer.freeze(PATIENCE).expect("it can be frozen");
            let captured = frozen.capture(&mut image, options).expect("it can be captured");
            captured.committed(GENERATION);
            frozen.thaw().expect("it lives");
            *memory = image.memory;
            (captured.huge_pages_split, captured.first_writes)
        };
        scope.spawn(work).join().expect("no panic")
    })
}

/// A program that ends when this value is dropped.
struct Program(Job);

impl Drop for Program {
    fn drop(&mut self) {
        // If the program has already ended, nothing is left to do.
        let _ = self.0.signal(abi::SIGKILL);
        let _ = self.0.reap();
    }
}

/// Returns how many KiB of the program are on huge pages.
fn huge(pid: i32) -> u64 {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it lives");
    let line = smaps.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).expect("the kernel has huge pages");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Reports whether the program has done everything that it does unasked. It blocks SIGUSR1 from before it has huge pages
/// until it waits for it.
fn waits(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("it has a mask");
    u64::from_str_radix(blocked.trim(), 16).expect("a mask") >> (abi::SIGUSR1 - 1) & 1 == 0
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn split_huge_pages_that_stay_idle_become_huge_again() {
    let (_directory, program) = compile("huge.c");
    let (arguments, signals) = (Vec::new(), InheritedSignals::capture());
    let launch = Launch {
        program: program.into(),
        arguments,
        signals,
        terminal: LaunchTerminal::shared(),
        directory: None,
        assistance: Assistance::default(),
    };
    let job = Program(Job::launch(&launch).expect("the program starts"));
    let (pid, freezer, mut memory) = (job.0.main_process().pid.get(), job.0.freezer(), Memory::new());
    until("eight huge pages", || huge(pid) == ALL && waits(pid));
    assert_eq!(freezer.expected_bytes(), None, "there is nothing to build upon");
    for scan in 0..6 {
        assert_eq!(checkpoint(&freezer, &mut memory).0, 0, "look {scan}");
    }
    assert_eq!(huge(pid), ALL, "tracking alone splits nothing");
    job.0.signal(abi::SIGUSR1).expect("it lives");
    until("the split by a write", || huge(pid) == 0);
    let expected = freezer.expected_bytes().expect("there is something to build upon");
    assert!(expected < ALL << 10, "{expected} bytes, though little has been written");
    let (split, first_writes) = checkpoint(&freezer, &mut memory);
    assert_eq!(split, 8);
    assert!((8..64).contains(&first_writes), "{first_writes}, though there is one in each, and few elsewhere");
    let scans = (0..SCANS_MAX).take_while(|_| huge(pid) < ALL).map(|_| checkpoint(&freezer, &mut memory).0);
    assert_eq!(scans.last(), Some(0), "{} KiB are huge again", huge(pid));
    let held = File::open(format!("/proc/{pid}/mem")).expect("it lives");
    // The units are what the program writes to; nothing else is in their pages, and each word there holds its own place.
    // Two words that differ by eight also occur elsewhere, for example as two addresses of short strings.
    let is_unit = |bytes: &[u8]| {
        let place = u64::from_le_bytes(first(bytes));
        place < ALL << 10 && bytes[8..16] == (place + 8).to_le_bytes()
    };
    let units = memory.iter().filter(|(_, bytes)| is_unit(bytes));
    let mut compared = 0;
    for (address, saved) in units {
        let mut bytes = vec![0; PAGE_BYTES];
        held.read_exact_at(&mut bytes, *address).expect("it is there");
        assert!(bytes == *saved, "page {address:#x} is an old one");
        compared += 1;
    }
    assert_eq!(compared * 4, ALL, "all of it has been saved");
}

fn first(bytes: &[u8]) -> [u8; 8] {
    bytes[..8].try_into().expect("eight bytes")
}
