//! A System V segment that no process of the job has attached. A small one is copied and detached at once. Programs
//! count the attachments of a segment, and must not find ours. PostgreSQL does so before it takes a segment for one
//! that a killed server has left.

use super::is_on_huge_pages;
use standfast_core::{Address, PAGE_BYTES, PageRange, merge_ranges};
use standfast_linux::proc;
use standfast_linux::system_v::{AttachedSegment, SystemVObject};
use std::io;

/// The largest segment that is copied.
const COPIED_BYTES_MAX: u64 = 1 << 20;

/// The contents of an unattached segment.
#[derive(Debug)]
pub(crate) struct Unattached {
    /// The pages that hold something, ascending.
    pub(super) ranges: Vec<PageRange>,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    Copy(Vec<u8>),
    /// Not read: huge pages from the system's pool are refused.
    HugePages,
    /// Attached by us, until the checkpoint has been taken.
    Attached(AttachedSegment),
}

impl Unattached {
    /// Reads a segment in the caller's IPC namespace.
    pub(crate) fn scan(object: &SystemVObject) -> io::Result<Self> {
        let segment = AttachedSegment::attach(object.id, object.size, false)?;
        if is_on_huge_pages(segment.device()?) {
            return Ok(Self { ranges: Vec::new(), contents: Contents::HugePages });
        }
        let ranges = present(&segment)?;
        if object.size > COPIED_BYTES_MAX {
            return Ok(Self { ranges, contents: Contents::Attached(segment) });
        }
        let mut copy = vec![0; object.size.next_multiple_of(PAGE_BYTES as u64) as usize];
        for range in &ranges {
            let start = range.start().get() as usize;
            segment.read(start as u64, &mut copy[start..start + range.bytes() as usize]);
        }
        Ok(Self { ranges, contents: Contents::Copy(copy) })
    }

    /// Reports whether it is on huge pages from the system's pool.
    pub(super) fn is_on_huge_pages(&self) -> bool {
        matches!(self.contents, Contents::HugePages)
    }

    /// Fills `into` with the contents at `offset`. Bytes beyond the end are zeros.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        match &self.contents {
            Contents::Attached(segment) => segment.read(offset, into),
            Contents::HugePages => into.fill(0),
            Contents::Copy(copy) => {
                let from = copy.get(offset as usize..).unwrap_or_default();
                let length = from.len().min(into.len());
                into[..length].copy_from_slice(&from[..length]);
                into[length..].fill(0);
            }
        }
    }
}

/// Returns the pages of a segment that hold something. The kernel does not report pages in swap.
fn present(segment: &AttachedSegment) -> io::Result<Vec<PageRange>> {
    let (pages, everywhere) = (segment.resident()?, proc::swap_is_used()?);
    let page = |number: usize| PageRange::new(Address::new((number * PAGE_BYTES) as u64), 1);
    let there = pages.iter().enumerate().filter(|(_, there)| **there || everywhere);
    let mut ranges: Vec<_> = there.map(|(number, _)| page(number)).collect();
    merge_ranges(&mut ranges);
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_linux::system_v::{NewObject, SystemVKind};

    #[test]
    fn a_small_segment_is_detached_after_the_scan_a_large_one_is_not() {
        for (bytes, is_held) in [(2 * PAGE_BYTES as u64 + 10, false), (COPIED_BYTES_MAX + 1, true)] {
            let new = NewObject { kind: SystemVKind::Segment, id: None, key: 0, size: bytes };
            let made = new.make().unwrap();
            let found = || SystemVObject::all().unwrap().into_iter().find(|it| (it.kind, it.id) == (new.kind, made.id));
            AttachedSegment::attach(made.id, bytes, true).unwrap().write(2 * PAGE_BYTES as u64 + 3, b"here");
            let looked = Unattached::scan(&found().unwrap());
            let attached = found().unwrap().attached;
            made.remove().unwrap();
            let looked = looked.unwrap();
            let mut read = [1; 9];
            looked.read(2 * PAGE_BYTES as u64 + 2, &mut read);
            assert_eq!((attached, &read), (u64::from(is_held), b"\0here\0\0\0\0"));
            assert_eq!(looked.ranges.first().map(|range| range.start().get()), Some(2 * PAGE_BYTES as u64));
        }
    }
}
