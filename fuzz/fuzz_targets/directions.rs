//! Any bytes as what a program directs: a header, and a table of regions with a log behind it. What comes of a table is
//! ascending and apart, no page is taken out that is not promised whole, and it is the same whether the log was known at once
//! or came later.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::directions::{Changes, DirectivesHeader, DirectivesTable, HEADER_BYTES, Regions};
use standfast_core::{Address, PageRange, PageSet};
use std::sync::Arc;

fuzz_target!(|input: &[u8]| {
    if let Some(bytes) = input.first_chunk::<HEADER_BYTES>() {
        let _ = DirectivesHeader::parse(bytes);
    }
    let Some((split, table)) = input.split_first() else { return };
    let (base, log) = table.split_at(table.len() * usize::from(*split) / 256);
    let Ok(regions) = Regions::decode_table(base, [log]) else { return };
    assert!(regions.all().is_sorted_by(|one, next| one.end <= next.start));
    let held = Some(u64::from(*split));
    let below = Regions::decode_table(base, []).expect("it was decoded with the log behind it");
    let said = Changes::decode([log]).expect("it was decoded behind the base");
    let known_at_once = DirectivesTable::new(0, 0, regions.clone()).outline(held).clone();
    assert_eq!(DirectivesTable::new(0, 0, below).outline_with(held, &said), known_at_once);
    let pages = PageSet::of([PageRange::new(Address::new(0), 1 << 35)]);
    for masked_page in Arc::new(regions.masked_pages(held)).where_held(&pages).all() {
        assert!(!masked_page.out.is_empty() && masked_page.dead.is_within(masked_page.out), "{masked_page:?}");
    }
    let excluded = regions.excluded(held);
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
