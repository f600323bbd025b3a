//! Helpers that the engine's tests share.

use standfast_core::PAGE_BYTES;
use standfast_format::records::JobState;
use standfast_format::{BatchRange, BoxError, Contents, ImageSink, ImageSource, PageBatch, Run};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// An image held in memory.
#[derive(Default)]
#[allow(dead_code, reason = "not every test holds one")]
pub(crate) struct HeldImage {
    pub(crate) runs: Vec<Run>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) state: JobState,
}

impl ImageSink for HeldImage {
    fn lend(&mut self) -> Result<PageBatch, BoxError> {
        Ok(PageBatch { bytes: vec![0; 64 * PAGE_BYTES], ..PageBatch::default() })
    }

    fn submit(&mut self, batch: PageBatch) -> Result<(), BoxError> {
        let run = |BatchRange { owner, range, .. }| Run { owner, range, contents: Contents::Stored };
        self.runs.extend(batch.ranges.into_iter().map(run));
        self.bytes.extend(batch.bytes);
        Ok(())
    }

    fn finish(&mut self, state: &JobState) -> Result<(), BoxError> {
        self.state = state.clone();
        Ok(())
    }
}

impl ImageSource for HeldImage {
    fn state(&self) -> &JobState {
        &self.state
    }

    fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn deliver(&self, place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError> {
        place(&self.runs, &self.bytes)
    }
}

/// Compiles a test program, in a directory that is removed when the test ends, however it ends.
pub(crate) fn compile(source: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory can be had");
    let program = directory.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let done = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().expect("cc runs");
    assert!(done.success());
    (directory, program)
}

/// Mappings that the kernel lets nobody else write, and the stack, of which only a part counts.
const APART: [&str; 4] = ["[vvar]", "[vvar_vclock]", "[vdso]", "[stack]"];
/// Bits of an entry of `/proc/PID/pagemap` that describe a page (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT_OR_SWAPPED: u64 = 0b11 << 62;
const OF_A_FILE: u64 = 1 << 61;

/// Returns the addresses of all pages that a process holds for itself: those of anonymous memory, and its own copies of
/// file pages. Reads the entries of the page tables one by one.
#[allow(dead_code, reason = "not every test asks for them")]
pub(crate) fn own_pages(pid: i32) -> Vec<u64> {
    const PAGE: u64 = 4096;
    // The process may have just ended.
    let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return Vec::new() };
    let Ok(pagemap) = File::open(format!("/proc/{pid}/pagemap")) else { return Vec::new() };
    let mut pages = Vec::new();
    for line in maps.lines().filter(|line| !APART.iter().any(|name| line.ends_with(name))) {
        let (range, rest) = line.split_once(' ').expect("a range and a rest");
        let (start, end) = range.split_once('-').expect("a start and an end");
        let number = |text| u64::from_str_radix(text, 16).expect("a hexadecimal number");
        let (first, end) = (number(start) / PAGE, number(end) / PAGE);
        if !rest[..4].ends_with('p') {
            continue;
        }
        let mut entries = vec![0; (end - first) as usize * 8];
        if pagemap.read_exact_at(&mut entries, first * 8).is_ok() {
            let (entries, _) = entries.as_chunks::<8>();
            let is_own = |entry: &[u8; 8]| {
                let entry = u64::from_ne_bytes(*entry);
                entry & PRESENT_OR_SWAPPED != 0 && entry & OF_A_FILE == 0
            };
            pages.extend((first..).zip(entries).filter(|(_, entry)| is_own(entry)).map(|(page, _)| page * PAGE));
        }
    }
    pages
}
