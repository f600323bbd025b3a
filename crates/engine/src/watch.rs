//! `--check-exclusions`: checks byte by byte whether excluded read-only memory holds what it held at the previous
//! checkpoint. The program's library catches writes to whole pages of it at once. This check finds all other writes, and
//! those that evade the library, but not who made them. All of that memory is copied at each checkpoint.

use crate::program::ProgramIdentity;
use crate::tables::Directions;
use standfast_core::directions::{RECORDS_BYTES, Region, Usage, excluded_by};
use standfast_core::{Address, PAGE_BYTES, PageRange, PageSet};
use standfast_linux::proc::Map;
use standfast_linux::{Pid, ProcessMemory};

/// Maximum number of regions that are reported at a checkpoint.
const BROKEN_MAX: usize = 8;

/// A broken promise: read-only memory has changed since the previous checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPromise {
    /// The process that broke it.
    pub pid: Pid,
    /// First address of the region, and the first address after it.
    pub region: (Address, Address),
    /// The address of the first changed byte in it.
    pub changed: Address,
    /// The origins of the calls that have excluded it, innermost first; empty if they are unknown.
    pub excluded_by: Vec<String>,
}

/// A process whose promises are checked.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    pub(crate) program: ProgramIdentity,
    pub(crate) pid: Pid,
    pub(crate) memory: &'a ProcessMemory,
    pub(crate) maps: &'a [Map],
}

/// What was read-only at the last checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Watch(Vec<Copy>);

#[derive(Debug)]
struct Copy {
    program: ProgramIdentity,
    /// Number of checkpoints of the program before this copy.
    epoch: u64,
    /// Ascending and disjoint.
    regions: Vec<Region>,
    /// All pages that the regions touch, and what these held.
    pages: PageSet,
    bytes: Vec<u8>,
}

impl Watch {
    /// Forgets all other programs.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(ProgramIdentity) -> bool) {
        self.0.retain(|copy| is_kept(copy.program));
    }

    /// Compares what a process has promised not to write with its earlier contents, and remembers it. What cannot be
    /// read is not compared.
    pub(crate) fn scan(&mut self, of: &Watched<'_>, directions: Option<&Directions>) -> Vec<BrokenPromise> {
        let before = self.0.iter().position(|copy| copy.program.is(&of.program)).map(|place| self.0.swap_remove(place));
        let Some((directions, records)) = directions.and_then(|it| Some((it, it.records?))) else { return Vec::new() };
        let Some(now) = Copy::of(of.program, of.memory, of.maps, directions) else { return Vec::new() };
        // If that checkpoint failed, promises made after it cannot be distinguished from earlier ones.
        let changed =
            before.filter(|before| before.epoch < now.epoch).map_or(Vec::new(), |before| now.changed(&before));
        self.0.push(now);
        let ring = if changed.is_empty() { None } else { read_ring(of.memory, records.0) };
        let tell = |(region, changed): (Region, u64)| {
            let calls = ring.as_ref().and_then(|ring| excluded_by(ring, records.1, Address::new(changed)));
            BrokenPromise {
                pid: of.pid,
                region: (Address::new(region.start), Address::new(region.end)),
                changed: Address::new(changed),
                excluded_by: calls.unwrap_or_default().into_iter().map(|call| in_words(call, of.maps)).collect(),
            }
        };
        changed.into_iter().take(BROKEN_MAX).map(tell).collect()
    }
}

fn read_ring(memory: &ProcessMemory, start: Address) -> Option<Box<[u8; RECORDS_BYTES]>> {
    let mut ring = vec![0; RECORDS_BYTES];
    memory.read(start, &mut ring).ok()?;
    ring.into_boxed_slice().try_into().ok()
}

/// Reports whether a region is mapped. Several mappings may show it, since guarded pages in it are a mapping of their
/// own.
fn is_mapped(region: &Region, maps: &[Map]) -> bool {
    let mut at = region.start;
    let around = &maps[maps.partition_point(|map| map.end <= at)..];
    for map in around.iter().take_while(|map| map.start < region.end) {
        if map.contains(at) {
            at = map.end;
        }
    }
    at >= region.end
}

/// Formats an address for tools that know the file: `path(+offset)`.
fn in_words(call: Address, maps: &[Map]) -> String {
    let map = maps.iter().find(|map| map.contains(call.get()) && map.inode != 0);
    match map {
        Some(map) => {
            let offset = call.get() - map.start + map.offset;
            format!("{}(+{offset:#x})", String::from_utf8_lossy(&map.path))
        }
        None => call.to_string(),
    }
}

impl Copy {
    /// Copies the read-only memory of a program; returns `None` if it cannot be read.
    fn of(program: ProgramIdentity, memory: &ProcessMemory, maps: &[Map], directions: &Directions) -> Option<Self> {
        const PAGE: u64 = PAGE_BYTES as u64;
        let regions = directions.table.regions().clone().changed_by(&directions.changes);
        let is_read_only = |region: &&Region| matches!(region.usage, Usage::ReadOnly { .. }) && is_mapped(region, maps);
        let regions: Vec<_> = regions.all().iter().filter(is_read_only).copied().collect();
        let around = |region: &Region| (region.start - region.start % PAGE, region.end.next_multiple_of(PAGE));
        let range = |(start, end)| PageRange::between(Address::new(start), Address::new(end));
        let pages = PageSet::of(regions.iter().map(around).map(range));
        let mut bytes = vec![0; usize::try_from(pages.pages()).ok()? * PAGE_BYTES];
        memory.read_pages(pages.ranges(), &mut bytes).ok()?;
        Some(Self { program, epoch: directions.epoch, regions, pages, bytes })
    }

    /// Returns the regions with changed bytes whose promise was the same before, each with the address of the first such
    /// byte.
    fn changed(&self, before: &Self) -> Vec<(Region, u64)> {
        let mut changed: Vec<(Region, u64)> = Vec::new();
        let (mut here, mut there) = (self.reader(), before.reader());
        let mut older = before.regions.iter().peekable();
        for region in &self.regions {
            while older.next_if(|old| old.end <= region.start).is_some() {}
            // One of the older regions may overlap several of these.
            for old in older.clone().take_while(|old| old.start < region.end).filter(|old| old.usage == region.usage) {
                let (start, end) = (region.start.max(old.start), region.end.min(old.end));
                let (now, then) = (here(start, end), there(start, end));
                let byte = now.iter().zip(then).position(|(now, then)| now != then);
                if let Some(byte) = byte.filter(|_| changed.last().is_none_or(|(last, _)| last != region)) {
                    changed.push((*region, start + byte as u64));
                }
            }
        }
        changed
    }

    /// Finds bytes of ascending ranges, each of which is in one region.
    fn reader<'a>(&'a self) -> impl FnMut(u64, u64) -> &'a [u8] {
        let (mut ranges, mut skipped) = (self.pages.ranges(), 0);
        move |start, end| {
            while let [first, rest @ ..] = ranges
                && first.end().get() <= start
            {
                skipped += first.bytes() as usize;
                ranges = rest;
            }
            let at = skipped + (start - ranges[0].start().get()) as usize;
            &self.bytes[at..at + (end - start) as usize]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(regions: &[(u64, u64, u32)], changed: &[u64]) -> Copy {
        let region = |(start, end, stamp): &(u64, u64, u32)| Region {
            start: *start,
            end: *end,
            usage: Usage::ReadOnly { stamp: *stamp },
        };
        let pages = PageSet::of([PageRange::new(Address::new(0x1000), 2), PageRange::new(Address::new(0x5000), 2)]);
        let mut bytes = vec![7; 4 * PAGE_BYTES];
        for address in changed {
            let place = if *address < 0x5000 { address - 0x1000 } else { address - 0x3000 };
            bytes[place as usize] = 8;
        }
        Copy {
            program: ProgramIdentity::with_start(b"first"),
            epoch: 0,
            regions: regions.iter().map(region).collect(),
            pages,
            bytes,
        }
    }

    #[test]
    fn a_changed_byte_under_an_unchanged_promise_is_found() {
        let before = copy(&[(0x1008, 0x1020, 0), (0x1800, 0x3000, 0), (0x5000, 0x6800, 3)], &[]);
        let now = [(0x1010, 0x1030, 0), (0x2000, 0x2100, 0), (0x2100, 0x2200, 4), (0x5ff8, 0x6004, 3)];
        let found =
            |changed: &[u64]| -> Vec<u64> { copy(&now, changed).changed(&before).iter().map(|it| it.1).collect() };
        assert_eq!(found(&[0x1018, 0x1019, 0x2044, 0x6003]), [0x1018, 0x2044, 0x6003], "one a region");
        assert_eq!(
            found(&[0x100f, 0x1020, 0x2110, 0x6004]),
            [],
            "not promised, promised since, promised again, behind"
        );
    }
}
