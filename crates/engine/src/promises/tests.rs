//! What happens to pages that programs have directives about.

use super::*;
use standfast_core::Address;
use standfast_core::directions::{DirectivesTable, Regions};

fn run(first: u64, pages: u64) -> PageRange {
    PageRange::new(Address::new(first * 4096), pages)
}

fn directions(epoch: u64, regions: &[(u64, u64, u64, u64)]) -> Directions {
    let entry = |(start, length, kind, stamp): &(u64, u64, u64, u64)| {
        [(start | (stamp << 48) | (kind << 62)).to_le_bytes(), length.to_le_bytes()].concat()
    };
    let table: Vec<u8> = regions.iter().flat_map(entry).collect();
    let table = DirectivesTable::new(1, regions.len(), Regions::decode([&table[..]]).unwrap());
    Directions { epoch, table, ..Directions::default() }
}

const PROGRAM: ProgramIdentity = ProgramIdentity::with_start(b"first");
const OWNER: u32 = 0;

fn changed(ranges: &[PageRange]) -> Pages {
    Pages { changed: ranges.iter().map(|range| (*range, BackingPage::Zeros)).collect(), ..Pages::default() }
}

fn ranges(pages: &Pages) -> Vec<PageRange> {
    pages.changed.iter().map(|(range, _)| *range).collect()
}

#[test]
fn dead_pages_are_not_saved_and_are_reported_stale() {
    let mut promises = Promises::default();
    // Pages 2 and 3, and part of page 4.
    let mut dead = directions(0, &[(0x2000, 0x2800, 1, 0)]);
    let mut pages = changed(&[run(0, 10)]);
    let stale = promises.keep(PROGRAM, OWNER, Some(&mut dead), &mut pages).stale;
    assert_eq!(ranges(&pages), [run(0, 2), run(4, 6)]);
    assert_eq!(stale.ranges(), [run(2, 2)]);
}

#[test]
fn read_only_pages_are_saved_once_and_then_inherited() {
    let mut promises = Promises::default();
    let read_only = |epoch| directions(epoch, &[(0x2000, 0x2000, 2, 0)]);
    let scan = |promises: &mut Promises, epoch| {
        let mut pages = changed(&[run(0, 10)]);
        promises.begin();
        promises.keep(PROGRAM, OWNER, Some(&mut read_only(epoch)), &mut pages);
        (ranges(&pages), pages.unchanged.ranges().to_vec())
    };
    assert_eq!(scan(&mut promises, 0), (vec![run(0, 10)], vec![]), "in the next checkpoint after the call");
    assert_eq!(scan(&mut promises, 1).0, [run(0, 10)], "that one was not committed");
    promises.committed();
    assert!(promises.are_needed());
    assert_eq!(scan(&mut promises, 2), (vec![run(0, 2), run(4, 6)], vec![run(2, 2)]));
    promises.committed();
    assert_eq!(scan(&mut promises, 3).1, [run(2, 2)], "it still holds them");
    promises.forget();
    assert_eq!(scan(&mut promises, 4).0, [run(0, 10)], "there is nothing to inherit from");
}

#[test]
fn promises_do_not_carry_over_to_the_next_program() {
    let mut promises = Promises::default();
    let next = ProgramIdentity::with_start(b"later");
    let read_only = || directions(1, &[(0x2000, 0x2000, 2, 0)]);
    promises.keep(PROGRAM, OWNER, Some(&mut read_only()), &mut changed(&[run(0, 10)]));
    promises.committed();
    promises.begin();
    assert_eq!((promises.held(PROGRAM), promises.held(next)), (Some(1), None));
    let mut pages = changed(&[run(0, 10)]);
    let honoured = promises.keep(next, OWNER, Some(&mut read_only()), &mut pages);
    assert_eq!((ranges(&pages), pages.unchanged.pages()), (vec![run(0, 10)], 0), "all of it is the next one's");
    assert_eq!((honoured.stale.pages(), honoured.was), (0, Some(0)));
    promises.committed();
    promises.begin();
    let mut pages = changed(&[run(0, 10)]);
    promises.keep(next, OWNER, Some(&mut read_only()), &mut pages);
    assert_eq!(pages.unchanged.ranges(), [run(2, 2)], "its own promise counts from then on");
}

#[test]
fn pages_with_a_newer_read_only_promise_are_saved_again() {
    let mut promises = Promises::default();
    promises.keep(PROGRAM, OWNER, Some(&mut directions(3, &[(0x2000, 0x1000, 2, 3)])), &mut changed(&[run(0, 10)]));
    promises.committed();
    promises.begin();
    let mut pages = changed(&[run(0, 10)]);
    promises.keep(PROGRAM, OWNER, Some(&mut directions(4, &[(0x2000, 0x1000, 2, 4)])), &mut pages);
    assert_eq!(ranges(&pages), [run(0, 10)]);
}

#[test]
fn a_page_is_inherited_only_if_it_is_in_both_checkpoints() {
    let mut promises = Promises::default();
    let mut read_only = directions(0, &[(0x2000, 0x3000, 2, 0)]);
    promises.keep(PROGRAM, OWNER, Some(&mut read_only), &mut changed(&[run(2, 1), run(4, 1)]));
    promises.committed();
    promises.begin();
    let mut pages = changed(&[run(2, 1), run(3, 1)]);
    promises.keep(PROGRAM, OWNER, Some(&mut read_only), &mut pages);
    assert_eq!((ranges(&pages), pages.unchanged.ranges().to_vec()), (vec![run(3, 1)], vec![run(2, 1)]));
}

#[test]
fn pages_saved_only_in_part_count_as_changed_when_more_is_needed() {
    let mut promises = Promises::default();
    let scan = |promises: &mut Promises, regions: Option<&[(u64, u64, u64, u64)]>| {
        let mut pages = Pages { unchanged: PageSet::of([run(0, 10)]), ..Pages::default() };
        promises.begin();
        let mut directions = regions.map(|regions| directions(0, regions));
        let honoured = promises.keep(PROGRAM, OWNER, directions.as_mut(), &mut pages);
        (ranges(&pages), honoured.masked_pages.map_or(0, |masked_pages| masked_pages.all().len()))
    };
    // Part of page 2, all of pages 3 and 4.
    let said = &[(0x2800, 0x400, 1, 0), (0x3000, 0x2000, 1, 0)];
    scan(&mut promises, Some(said));
    promises.committed();
    assert_eq!(scan(&mut promises, Some(said)), (vec![], 1), "as much as then");
    assert_eq!(scan(&mut promises, Some(&[(0x2400, 0x1c00, 1, 0)])), (vec![run(4, 1)], 1), "more of page 2");
    assert_eq!(scan(&mut promises, Some(&[(0x2804, 0x3fc, 1, 0), (0x3000, 0x2000, 1, 0)])), (vec![run(2, 1)], 1));
    assert_eq!(scan(&mut promises, None), (vec![run(2, 3)], 0), "the program says nothing any more");
    promises.committed();
    assert_eq!(scan(&mut promises, None), (vec![], 0), "it has been saved");
}

#[test]
fn words_are_held_only_of_pages_in_the_last_checkpoint() {
    let mut promises = Promises::default();
    let mut read_only = directions(0, &[(0x2000, 0x800, 2, 0), (0x3000, 0x800, 2, 0)]);
    promises.keep(PROGRAM, OWNER, Some(&mut read_only), &mut changed(&[run(2, 1)]));
    promises.committed();
    promises.begin();
    let mut pages = changed(&[run(2, 2)]);
    let honoured = promises.keep(PROGRAM, OWNER, Some(&mut read_only), &mut pages);
    assert_eq!(ranges(&pages), [run(2, 2)], "the rest of them counts");
    let masked_pages = honoured.masked_pages.unwrap();
    assert_eq!(masked_pages.pages().ranges(), [run(2, 1)]);
    assert!(masked_pages.all()[0].is_held() && masked_pages.all()[0].dead.is_empty());
    assert_eq!((masked_pages.all()[0].out.words(), honoured.was), (512, Some(0)));
}
