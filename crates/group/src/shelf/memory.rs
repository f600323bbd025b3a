//! A shelf in the memory of its process. One that must outlive its process puts the same pieces where they do.

use super::{Damaged, PieceId, Place, Shelf};
use crate::decide::Holding;
use crate::description::{Description, Fingerprint, Sums};
use crate::identity::{EpochId, Level, Life, Seat};
use crate::protocol::{Survey, Work};
use standfast_core::delta::Page;
use standfast_core::{PAGE_BYTES, is_zero};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
struct Piece {
    base: Option<PieceId>,
    is_local: bool,
    pages: BTreeMap<Place, Stored>,
    descriptions: Vec<Description>,
    sealed: bool,
    marked: bool,
}

/// A page and what it was known by when it was written.
#[derive(Clone, Debug)]
struct Stored {
    page: Box<Page>,
    known_by: Fingerprint,
}

impl Stored {
    fn is_intact(&self) -> bool {
        Fingerprint::of(&self.page) == self.known_by
    }
}

/// A shelf in memory: all that recovery in place asks for, and what the simulator runs on. Beside each page it keeps 16
/// bytes to know it again.
#[derive(Clone, Debug, Default)]
pub struct MemoryShelf {
    pieces: BTreeMap<PieceId, Piece>,
    life: Life,
    /// Whether an epoch may have been promised since the job last began.
    promised: bool,
}

impl MemoryShelf {
    /// What is there: [`Action::Survey`](crate::Action::Survey). What is still open was being encoded or rebuilt by something
    /// that has been given up, and goes.
    pub fn survey(&mut self) -> Survey {
        self.pieces.retain(|_, piece| piece.sealed);
        let good = self.pieces.iter().filter(|(id, _)| self.is_whole(**id));
        let holding = |(id, piece): (&PieceId, &Piece)| {
            let base = piece.base.map(|base| base.epoch);
            let level = if piece.is_local { Level::Local(base) } else { Level::Encoded };
            Holding { epoch: id.epoch, seat: id.seat, marked: piece.marked, level }
        };
        let unpromised = self.life != Life::default() && !self.promised;
        Survey { life: self.life, holdings: good.map(holding).collect(), unpromised }
    }

    /// Makes the open piece of an epoch count.
    pub fn seal(&mut self, work: Work) {
        for (_, piece) in self.pieces.iter_mut().filter(|(id, piece)| id.epoch == work.epoch && !piece.sealed) {
            piece.sealed = true;
            // Nobody goes on from a recovery before all have marked it.
            self.promised |= !work.recovery;
        }
    }

    /// Notes that everybody has sealed an epoch.
    pub fn mark(&mut self, epoch: EpochId) {
        self.promised = true;
        self.pieces.iter_mut().filter(|(id, _)| id.epoch == epoch).for_each(|(_, piece)| piece.marked = true);
    }

    /// Deletes all but one piece, which takes up what it has from its base. A local one keeps its base beside it.
    pub fn keep(&mut self, epoch: Option<EpochId>, seat: Option<Seat>, life: Life) {
        self.life = life;
        self.promised = epoch.is_some();
        let kept = epoch.zip(seat).map(|(epoch, seat)| PieceId { epoch, seat });
        if let Some((id, base)) = kept.and_then(|id| Some((id, self.pieces.get(&id).filter(|it| it.is_local)?.base))) {
            return self.pieces.retain(|other, _| *other == id || Some(*other) == base);
        }
        let kept = kept.and_then(|id| self.pieces.remove(&id).map(|piece| (id, piece)));
        let mut others = std::mem::take(&mut self.pieces);
        let Some((id, mut piece)) = kept else { return };
        if let Some(mut base) = piece.base.take().and_then(|base| others.remove(&base)) {
            assert!(base.base.is_none(), "a piece stands at most one above the one that is kept");
            base.pages.append(&mut piece.pages);
            piece.pages = base.pages;
        }
        piece.pages.retain(|_, stored| !is_zero(&stored.page[..]));
        self.pieces.insert(id, piece);
    }

    /// Pages that it holds, of the members' own and of checks.
    pub fn pages(&self) -> (usize, usize) {
        let places = || self.pieces.values().flat_map(|piece| piece.pages.keys());
        let own = places().filter(|place| matches!(place, Place::Slot(_))).count();
        (own, places().count() - own)
    }

    /// Its pieces.
    pub fn pieces(&self) -> impl Iterator<Item = PieceId> + '_ {
        self.pieces.keys().copied()
    }

    /// Flips a bit of a stored page, as a bad disk would; says whether there was a page to damage.
    pub fn damage(&mut self, choice: usize) -> bool {
        let mut pages: Vec<_> = self.pieces.values_mut().flat_map(|piece| piece.pages.values_mut()).collect();
        if pages.is_empty() {
            return false;
        }
        let index = choice % pages.len();
        pages[index].page[choice % PAGE_BYTES] ^= 1 << (choice % 8);
        true
    }

    /// Whether the member's own pages are by their fingerprints what its description says. A piece that nothing describes
    /// cannot be used.
    fn is_whole(&self, id: PieceId) -> bool {
        let mut own = Sums::default();
        for (place, stored) in self.all_pages(id) {
            if let Place::Slot(slot) = place {
                own.add(slot, stored.known_by);
            }
        }
        let descriptions = &self.pieces[&id].descriptions;
        let described = descriptions.iter().find(|description| description.seat == id.seat);
        let right = described.is_none_or(|described| own.first_difference(&described.sums).is_none());
        right && !descriptions.is_empty()
    }

    fn all_pages(&self, id: PieceId) -> BTreeMap<Place, &Stored> {
        let Some(piece) = self.pieces.get(&id) else { return BTreeMap::new() };
        let mut pages = piece.base.map(|base| self.all_pages(base)).unwrap_or_default();
        pages.extend(piece.pages.iter().map(|(place, stored)| (*place, stored)));
        pages
    }
}

impl Shelf for MemoryShelf {
    fn has(&self, piece: PieceId) -> bool {
        self.pieces.contains_key(&piece)
    }

    fn read(&self, id: PieceId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged> {
        let Some(piece) = self.pieces.get(&id) else {
            page.fill(0);
            return Ok(Fingerprint::ZEROS);
        };
        let Some(stored) = piece.pages.get(&place) else { return self.read_base(id, place, page) };
        page.copy_from_slice(&stored.page[..]);
        if stored.is_intact() { Ok(stored.known_by) } else { Err(Damaged { piece: id, place }) }
    }

    fn known(&self, id: PieceId, place: Place) -> Fingerprint {
        let Some(piece) = self.pieces.get(&id) else { return Fingerprint::ZEROS };
        match (piece.pages.get(&place), piece.base) {
            (Some(stored), _) => stored.known_by,
            (None, Some(base)) => self.known(base, place),
            (None, None) => Fingerprint::ZEROS,
        }
    }

    fn verify(&self, id: PieceId) -> Result<(), Damaged> {
        let damaged = self.all_pages(id).into_iter().find(|(_, stored)| !stored.is_intact());
        damaged.map_or(Ok(()), |(place, _)| Err(Damaged { piece: id, place }))
    }

    fn read_base(&self, piece: PieceId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged> {
        match self.pieces.get(&piece).and_then(|piece| piece.base) {
            Some(base) => self.read(base, place, page),
            None => {
                page.fill(0);
                Ok(Fingerprint::ZEROS)
            }
        }
    }

    fn open(&mut self, piece: PieceId, base: Option<PieceId>) {
        // What stood above a piece that is replaced would stand above something else.
        self.pieces.retain(|_, other| other.base != Some(piece));
        self.pieces.insert(piece, Piece { base, ..Piece::default() });
    }

    fn open_local(&mut self, piece: PieceId, base: Option<PieceId>) {
        self.open(piece, base);
        self.pieces.get_mut(&piece).expect("it has just been opened").is_local = true;
    }

    fn write(&mut self, piece: PieceId, place: Place, page: &Page, known_by: Fingerprint) {
        let piece = self.pieces.get_mut(&piece).expect("a piece is opened before it is written");
        if piece.base.is_none() && known_by == Fingerprint::ZEROS {
            piece.pages.remove(&place);
        } else {
            piece.pages.insert(place, Stored { page: Box::new(*page), known_by });
        }
    }

    fn describe(&mut self, piece: PieceId, descriptions: Vec<Description>) {
        self.pieces.get_mut(&piece).expect("a piece is opened before it is described").descriptions = descriptions;
    }

    fn descriptions(&self, piece: PieceId) -> &[Description] {
        self.pieces.get(&piece).map_or(&[], |piece| &piece.descriptions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::SlotMap;
    use standfast_format::manifest::JobId;

    fn piece(number: u64) -> PieceId {
        let epoch = EpochId { job: JobId::from_bytes([1; 16]), life: Life(1), number, random: number };
        PieceId { epoch, seat: Seat(0) }
    }

    fn new(number: u64) -> Work {
        Work { epoch: piece(number).epoch, recovery: false, level: Level::Encoded }
    }

    /// With one page of a check, and nothing of its own.
    fn add(shelf: &mut MemoryShelf, id: PieceId, base: Option<PieceId>, byte: u8) {
        shelf.open(id, base);
        let page = [byte; PAGE_BYTES];
        shelf.write(id, Place::Check { check: 0, row: u32::from(byte) }, &page, Fingerprint::of(&page));
        let (map, sums) = (SlotMap::default(), Sums::default());
        shelf.describe(id, vec![Description { seat: Seat(1), map, sums, slots: 0 }]);
    }

    fn numbers(shelf: &mut MemoryShelf) -> Vec<u64> {
        shelf.survey().holdings.iter().map(|holding| holding.epoch.number).collect()
    }

    #[test]
    fn only_what_was_sealed_and_described_is_there_after_a_survey_and_damage_shows_when_it_is_verified() {
        let mut shelf = MemoryShelf::default();
        add(&mut shelf, piece(1), None, 1);
        shelf.seal(new(1));
        add(&mut shelf, piece(2), Some(piece(1)), 2);
        assert_eq!(numbers(&mut shelf), [1]);
        shelf.seal(new(2));
        assert!(!shelf.has(piece(2)), "a seal that comes late finds nothing");
        shelf.open(piece(3), Some(piece(1)));
        shelf.seal(new(3));
        assert_eq!(numbers(&mut shelf), [1], "nothing says what the third is");
        assert_eq!(shelf.verify(piece(1)), Ok(()));
        shelf.damage(0);
        assert_eq!(numbers(&mut shelf), [1]);
        assert_eq!(shelf.verify(piece(1)).map_err(|damaged| damaged.piece), Err(piece(1)));
    }

    #[test]
    fn who_was_there_at_the_beginning_knows_that_nothing_was_promised_until_it_marks() {
        let mut shelf = MemoryShelf::default();
        assert!(!shelf.survey().unpromised, "it was not there");
        shelf.keep(None, Some(Seat(0)), Life(1));
        add(&mut shelf, piece(1), None, 1);
        shelf.seal(Work { recovery: true, ..new(1) });
        assert!(shelf.survey().unpromised);
        shelf.mark(piece(1).epoch);
        assert!(!shelf.survey().unpromised);
        shelf.keep(None, Some(Seat(0)), Life(2));
        add(&mut shelf, piece(2), None, 1);
        shelf.seal(new(2));
        assert!(!shelf.survey().unpromised, "others may have marked it and gone on");
    }

    #[test]
    fn a_local_piece_keeps_what_it_stands_upon_until_the_next_encoded_one() {
        let mut shelf = MemoryShelf::default();
        add(&mut shelf, piece(1), None, 1);
        shelf.seal(new(1));
        for number in [2, 3] {
            shelf.open_local(piece(number), Some(piece(1)));
            let (map, sums) = (SlotMap::default(), Sums::default());
            shelf.describe(piece(number), vec![Description { seat: Seat(1), map, sums, slots: 0 }]);
            shelf.seal(new(number));
            shelf.keep(Some(piece(number).epoch), Some(Seat(0)), Life(1));
            assert_eq!(numbers(&mut shelf), [1, number]);
        }
        let level = Level::Local(Some(piece(1).epoch));
        assert_eq!(shelf.survey().holdings[1].level, level);
        add(&mut shelf, piece(4), Some(piece(1)), 4);
        shelf.seal(new(4));
        shelf.keep(Some(piece(4).epoch), Some(Seat(0)), Life(1));
        assert_eq!(numbers(&mut shelf), [4]);
        assert_eq!(shelf.pages(), (0, 2));
    }

    #[test]
    fn what_stood_above_a_piece_goes_when_it_is_replaced() {
        let mut shelf = MemoryShelf::default();
        add(&mut shelf, piece(1), None, 1);
        add(&mut shelf, piece(2), Some(piece(1)), 2);
        [1, 2].into_iter().for_each(|number| shelf.seal(new(number)));
        assert_eq!(numbers(&mut shelf), [1, 2]);
        add(&mut shelf, piece(1), None, 9);
        assert!(numbers(&mut shelf).is_empty());
    }
}
