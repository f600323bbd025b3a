//! One shelf by itself: what lies in its files between a survey and the seal, and how many tables it has.

use super::*;
use standfast_core::PAGE_BYTES;
use standfast_group::{Group, SlotMap};

const JOB: JobId = JobId::from_bytes([3; 16]);

fn piece(number: u64) -> PieceId {
    PieceId { epoch: EpochId { job: JOB, life: Life(1), number, random: number }, seat: Seat(0) }
}

fn shelf(directory: &Path) -> FileShelf {
    let members = vec![Seat(0), Seat(1), Seat(2)];
    let group = Group { members, keepers: Vec::new(), scheme: standfast_core::erasure::Scheme::Parity };
    FileShelf::open(directory, JOB, Seat(0), &PlanRecord::new(&[group])).unwrap()
}

/// Rows of a check, which no description has to say anything about.
fn written(shelf: &mut FileShelf, number: u64, base: Option<u64>, rows: std::ops::Range<u32>, byte: u8) {
    let page = [byte; PAGE_BYTES];
    shelf.open(piece(number), base.map(piece));
    let place = |row| Place::Check { check: 0, row };
    rows.for_each(|row| shelf.write(piece(number), place(row), &page, Fingerprint::of(&page)));
    let (map, sums) = (SlotMap::default(), Sums::default());
    shelf.describe(piece(number), vec![Description { seat: Seat(1), map, sums, slots: 0 }]);
}

/// With one piece, sealed.
fn begun(rows: std::ops::Range<u32>) -> (tempfile::TempDir, FileShelf) {
    let folder = tempfile::tempdir().unwrap();
    let mut shelf = shelf(&folder.path().join("seat-0"));
    written(&mut shelf, 1, None, rows, 7);
    seal(&mut shelf, 1, false);
    (folder, shelf)
}

fn seal(shelf: &mut FileShelf, number: u64, recovery: bool) {
    shelf.seal(Work { epoch: piece(number).epoch, recovery, level: Level::Encoded }).unwrap();
}

#[test]
fn what_a_recovery_makes_anew_stays_until_that_is_sealed() {
    let (folder, mut first) = begun(0..1500);
    written(&mut first, 1, None, 0..1500, 8);
    drop(first);
    let mut second = shelf(&folder.path().join("seat-0"));
    assert!(second.is_good(piece(1)), "it was never replaced");
    written(&mut second, 1, None, 0..1500, 9);
    seal(&mut second, 1, true);
    let frames = second.frames.count();
    written(&mut second, 2, Some(1), 0..1500, 10);
    assert_eq!(second.frames.count(), frames, "there are frames to be used again");
}

#[test]
fn what_was_to_be_replaced_is_given_back_when_nothing_is_kept() {
    let (_folder, mut shelf) = begun(0..1500);
    written(&mut shelf, 1, None, 0..1, 8);
    shelf.keep(None, Some(Seat(0)), Life(2)).unwrap();
    assert_eq!(shelf.frames.count(), 0);
    written(&mut shelf, 2, None, 0..1500, 9);
    seal(&mut shelf, 2, false);
    written(&mut shelf, 3, Some(2), 0..1500, 10);
    assert!(shelf.is_good(piece(2)), "no frame is given out twice");
}

#[test]
fn damage_shows_when_a_piece_is_verified_and_each_frame_is_looked_at_once() {
    use std::os::unix::fs::FileExt as _;
    let (folder, mut shelf) = begun(0..3);
    assert_eq!(shelf.survey().holdings.len(), 1);
    assert_eq!(shelf.verify(piece(1)), Ok(()));
    let pages = File::options().write(true).open(folder.path().join("seat-0/pages")).unwrap();
    pages.write_all_at(&[8], 0).unwrap();
    assert_eq!(shelf.verify(piece(1)), Ok(()), "it has been looked at");
    assert_eq!(shelf.survey().holdings.len(), 1);
    assert_eq!(shelf.verify(piece(1)).map_err(|damaged| damaged.piece), Err(piece(1)));
    assert!(!shelf.is_good(piece(1)));
}

#[test]
fn tables_take_little_however_much_of_a_piece_changes() {
    for changed in [1, 10, 60, 100] {
        let (folder, mut first) = begun(0..100);
        for number in 2..=70 {
            written(&mut first, number, Some(number - 1), 0..changed, number as u8);
            seal(&mut first, number, false);
            first.mark(piece(number).epoch).unwrap();
            first.keep(Some(piece(number).epoch), Some(Seat(0)), Life(1)).unwrap();
            let Piece { tables, listed, .. } = &first.pieces[&piece(number)];
            assert!(tables.len() < TABLES_MAX && *listed < LISTED_MAX * 100, "{changed} at {number}");
        }
        drop(first);
        let second = shelf(&folder.path().join("seat-0"));
        let known = |row, number| {
            let known_by = second.known(piece(70), Place::Check { check: 0, row });
            assert!(known_by == Fingerprint::of(&[number; PAGE_BYTES]), "{changed}: row {row}");
        };
        (0..100).for_each(|row| known(row, if row < changed { 70 } else { 7 }));
        assert!(second.is_good(piece(70)));
    }
}
