//! Any bytes as what a program directs: a header, and a table of regions with a log behind it. What comes of a table is
//! ascending and apart, and no page is taken out that is not promised whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::directions::{HEADER_BYTES, Header, Regions};
use standfast_core::{Address, PageRange, PageSet};

fuzz_target!(|input: &[u8]| {
    if let Some(bytes) = input.first_chunk::<HEADER_BYTES>() {
        let _ = Header::parse(bytes);
    }
    let Some((split, table)) = input.split_first() else { return };
    let (base, log) = table.split_at(table.len() * usize::from(*split) / 256);
    let Ok(regions) = Regions::decode_table(base, [log]) else { return };
    assert!(regions.all().is_sorted_by(|one, next| one.end <= next.start));
    let pages = PageSet::of([PageRange::new(Address::new(0), 1 << 35)]);
    for blank in regions.blanks(Some((u64::from(*split), &pages))).all() {
        assert!(!blank.out.is_empty() && blank.dead.is_within(blank.out), "{blank:?}");
    }
    let excluded = regions.excluded(Some(u64::from(*split)));
    for range in excluded.dead.ranges().iter().chain(excluded.held.ranges()) {
        let (mut at, end) = (range.start().get(), range.end().get());
        for region in regions.all() {
            if region.start <= at {
                at = at.max(region.end);
            }
        }
        assert!(at >= end, "{range:?} is not promised whole");
    }
});
