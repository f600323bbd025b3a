//! Where a process keeps its pieces: one sealed, and beside it the next one as what differs from it.
//!
//! The trait has two halves. While an epoch is encoded or rebuilt, [`Process`](crate::Process) reads and writes pages
//! through it; these calls touch memory and return at once. Sealing, marking and keeping are the driver's, in answer to
//! the actions of that name, because they may take as long as a disk does.
//!
//! [`MemoryShelf`] keeps everything in the memory of its process: all that recovery in place asks for, and what the
//! simulator runs on. A shelf that must outlive its process puts the same pieces where they do.

use crate::decide::Holding;
use crate::description::{Description, Sums};
use crate::identity::{EpochId, Life, Seat};
use crate::protocol::Survey;
use minicbor::{Decode, Encode};
use standfast_core::delta::Page;
use standfast_core::{PAGE_BYTES, is_zero};
use std::collections::BTreeMap;

/// Which piece.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PieceId {
    /// Of which epoch.
    #[n(0)]
    pub epoch: EpochId,
    /// Of which seat.
    #[n(1)]
    pub seat: Seat,
}

/// Where a page stands in a piece.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// A member's own page.
    Slot(u32),
    /// A page of a check that the seat holds.
    Check {
        /// Which check of the code.
        check: u32,
        /// Row within its class.
        row: u32,
    },
}

/// A place for pieces.
pub trait Shelf {
    /// Whether there is such a piece, sealed or open.
    fn has(&self, piece: PieceId) -> bool;

    /// A page of a piece; zeros where none was written.
    fn read(&self, piece: PieceId, place: Place, page: &mut Page);

    /// A page of the base of a piece; zeros where it has none.
    fn read_base(&self, piece: PieceId, place: Place, page: &mut Page);

    /// Begins a piece. Pages that are not written are those of `base`. A piece of that name that is there is replaced.
    fn open(&mut self, piece: PieceId, base: Option<PieceId>);

    /// Writes a page of a piece.
    fn write(&mut self, piece: PieceId, place: Place, page: &Page);

    /// Lays the descriptions of the group's members beside a piece.
    fn describe(&mut self, piece: PieceId, descriptions: Vec<Description>);

    /// The descriptions beside a piece, in the order of seats.
    fn descriptions(&self, piece: PieceId) -> &[Description];
}

/// Why a piece cannot be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// There is no such piece, or nothing says what it is.
    #[error("there is no piece of {0:?}")]
    Missing(PieceId),
    /// It is not what it was when it was sealed: this process counts as lost, and a new muster recovers its piece.
    #[error("the piece of {piece:?} is damaged, at slot {slot} or behind it")]
    Damaged {
        /// Which piece.
        piece: PieceId,
        /// First slot of the stretch that differs.
        slot: u32,
    },
}

/// The member's pages of a sealed piece, slot by slot, and their description: what a rollback loads. All pages have been
/// handed over when damage is found at the end, so nothing may be believed before this returns.
///
/// # Errors
/// [`LoadError`]
pub fn load(shelf: &dyn Shelf, piece: PieceId, mut take: impl FnMut(u32, &Page)) -> Result<Description, LoadError> {
    let description = shelf.descriptions(piece).iter().find(|description| description.seat == piece.seat);
    let description = description.ok_or(LoadError::Missing(piece))?.clone();
    let mut sums = Sums::default();
    let mut page = [0; PAGE_BYTES];
    for slot in description.map.used().iter() {
        shelf.read(piece, Place::Slot(slot), &mut page);
        sums.add(slot, &page);
        take(slot, &page);
    }
    match sums.first_difference(&description.sums) {
        None => Ok(description),
        Some(slot) => Err(LoadError::Damaged { piece, slot }),
    }
}

#[derive(Clone, Debug, Default)]
struct Piece {
    base: Option<PieceId>,
    pages: BTreeMap<Place, Box<Page>>,
    descriptions: Vec<Description>,
    /// Of the rows of each check, taken when it was sealed.
    checks: BTreeMap<u32, Sums>,
    sealed: bool,
    marked: bool,
}

/// A shelf in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryShelf {
    pieces: BTreeMap<PieceId, Piece>,
    life: Life,
    /// Whether anything was sealed since the job last began.
    ever_sealed: bool,
}

impl MemoryShelf {
    /// What is there and verifies: [`Action::Survey`](crate::Action::Survey).
    pub fn survey(&self) -> Survey {
        let good = self.pieces.iter().filter(|(id, piece)| piece.sealed && self.verifies(**id));
        let holding =
            |(id, piece): (&PieceId, &Piece)| Holding { epoch: id.epoch, seat: id.seat, marked: piece.marked };
        let unsealed = self.life != Life::default() && !self.ever_sealed;
        Survey { life: self.life, holdings: good.map(holding).collect(), unsealed }
    }

    /// Makes the open pieces of an epoch count.
    pub fn seal(&mut self, epoch: EpochId) {
        let open = self.pieces.iter().filter(|(id, piece)| id.epoch == epoch && !piece.sealed);
        for id in open.map(|(id, _)| *id).collect::<Vec<_>>() {
            let checks = self.check_sums(id);
            let piece = self.pieces.get_mut(&id).expect("it was found just now");
            (piece.checks, piece.sealed) = (checks, true);
            self.ever_sealed = true;
        }
    }

    /// Notes that everybody has sealed an epoch.
    pub fn mark(&mut self, epoch: EpochId) {
        self.pieces.iter_mut().filter(|(id, _)| id.epoch == epoch).for_each(|(_, piece)| piece.marked = true);
    }

    /// Deletes all but one piece, which takes up what it has from its base.
    pub fn keep(&mut self, epoch: Option<EpochId>, seat: Option<Seat>, life: Life) {
        self.life = life;
        self.ever_sealed = epoch.is_some();
        let kept = epoch.zip(seat).map(|(epoch, seat)| PieceId { epoch, seat });
        let kept = kept.and_then(|id| self.pieces.remove(&id).map(|piece| (id, piece)));
        let mut others = std::mem::take(&mut self.pieces);
        let Some((id, mut piece)) = kept else { return };
        if let Some(mut base) = piece.base.take().and_then(|base| others.remove(&base)) {
            assert!(base.base.is_none(), "a piece stands at most one above the one that is kept");
            base.pages.append(&mut piece.pages);
            piece.pages = base.pages;
        }
        piece.pages.retain(|_, page| !is_zero(&page[..]));
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
        pages[index][choice % PAGE_BYTES] ^= 1 << (choice % 8);
        true
    }

    /// Whether every page is what it was when the piece was sealed.
    fn verifies(&self, id: PieceId) -> bool {
        let piece = &self.pieces[&id];
        let mut own = Sums::default();
        for (place, page) in self.all_pages(id) {
            if let Place::Slot(slot) = place {
                own.add(slot, page);
            }
        }
        let described = piece.descriptions.iter().find(|description| description.seat == id.seat);
        let right = described.is_none_or(|described| own.first_difference(&described.sums).is_none());
        let checks = self.check_sums(id);
        let none = Sums::default();
        let all = checks.keys().chain(piece.checks.keys());
        let same = |check: &u32| {
            let (found, noted) = (checks.get(check), piece.checks.get(check));
            found.unwrap_or(&none).first_difference(noted.unwrap_or(&none)).is_none()
        };
        right && all.into_iter().all(same)
    }

    fn check_sums(&self, id: PieceId) -> BTreeMap<u32, Sums> {
        let mut sums: BTreeMap<u32, Sums> = BTreeMap::new();
        for (place, page) in self.all_pages(id) {
            if let Place::Check { check, row } = place {
                sums.entry(check).or_default().add(row, page);
            }
        }
        sums
    }

    fn all_pages(&self, id: PieceId) -> BTreeMap<Place, &Page> {
        let piece = &self.pieces[&id];
        let mut pages = piece.base.map(|base| self.all_pages(base)).unwrap_or_default();
        pages.extend(piece.pages.iter().map(|(place, page)| (*place, &**page)));
        pages
    }
}

impl Shelf for MemoryShelf {
    fn has(&self, piece: PieceId) -> bool {
        self.pieces.contains_key(&piece)
    }

    fn read(&self, piece: PieceId, place: Place, page: &mut Page) {
        let mut next = Some(piece);
        while let Some(piece) = next.and_then(|id| self.pieces.get(&id)) {
            if let Some(found) = piece.pages.get(&place) {
                page.copy_from_slice(&found[..]);
                return;
            }
            next = piece.base;
        }
        page.fill(0);
    }

    fn read_base(&self, piece: PieceId, place: Place, page: &mut Page) {
        match self.pieces.get(&piece).and_then(|piece| piece.base) {
            Some(base) => self.read(base, place, page),
            None => page.fill(0),
        }
    }

    fn open(&mut self, piece: PieceId, base: Option<PieceId>) {
        self.pieces.insert(piece, Piece { base, ..Piece::default() });
    }

    fn write(&mut self, piece: PieceId, place: Place, page: &Page) {
        let piece = self.pieces.get_mut(&piece).expect("a piece is opened before it is written");
        if piece.base.is_none() && is_zero(page) {
            piece.pages.remove(&place);
        } else {
            piece.pages.insert(place, Box::new(*page));
        }
    }

    fn describe(&mut self, piece: PieceId, descriptions: Vec<Description>) {
        self.pieces.get_mut(&piece).expect("a piece is opened before it is described").descriptions = descriptions;
    }

    fn descriptions(&self, piece: PieceId) -> &[Description] {
        self.pieces.get(&piece).map_or(&[], |piece| &piece.descriptions)
    }
}
