//! Where a process keeps its pieces: one sealed, and beside it the next one as what differs from it, and maybe a local one
//! as well.
//!
//! The trait has two halves. While an epoch is encoded or rebuilt, [`Process`](crate::Process) reads and writes pages
//! through it; these calls touch memory and return at once. Sealing, marking and keeping are the driver's, in answer to
//! the actions of that name, because they may take as long as a disk does.
//!
//! A page that is read is the page that was written, or the shelf says that it is [`Damaged`]. A new epoch is made from
//! differences to the old one: were a damaged page read as if it were right, the damage would go on into the checks of
//! the new epoch, and nobody could tell any more.

mod memory;

pub use memory::MemoryShelf;

use crate::description::{Description, Fingerprint, Sums};
use crate::identity::{EpochId, Seat};
use crate::slots::SlotSet;
use minicbor::{Decode, Encode};
use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;
use std::fmt;

/// A page is announced ([`Shelf::expect`], [`Payload::expect`](crate::Payload::expect)) so many pages before it is asked for:
/// it comes from memory while those are worked on.
pub const AHEAD: usize = 2;

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

impl fmt::Display for PieceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seat {} in epoch {}", self.seat.0, self.epoch)
    }
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "slot {slot}"),
            Self::Check { check, row } => write!(f, "row {row} of check {check}"),
        }
    }
}

/// A place for pieces.
pub trait Shelf {
    /// Whether there is such a piece, sealed or open.
    fn has(&self, piece: PieceId) -> bool;

    /// A page of a piece, and what it is known by; zeros where none was written.
    ///
    /// # Errors
    /// [`Damaged`] where it is not what was written; `page` may hold anything then.
    fn read(&self, piece: PieceId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged>;

    /// What a page of a piece is known by, without looking at it.
    fn known(&self, piece: PieceId, place: Place) -> Fingerprint;

    /// Looks at every page of a piece that has not been looked at since the survey.
    ///
    /// # Errors
    /// [`Damaged`]: the first that is not what was written.
    fn verify(&self, piece: PieceId) -> Result<(), Damaged>;

    /// A page of the base of a piece; zeros where it has none.
    ///
    /// # Errors
    /// [`Damaged`]
    fn read_base(&self, piece: PieceId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged>;

    /// A hint: this page is about to be read.
    fn expect(&self, _piece: PieceId, _place: Place) {}

    /// Begins a piece. Pages that are not written are those of `base`. A piece of that name that is there is
    /// replaced, and what it is the base of goes with it.
    fn open(&mut self, piece: PieceId, base: Option<PieceId>);

    /// Begins a piece of a local epoch, in the same way.
    fn open_local(&mut self, piece: PieceId, base: Option<PieceId>);

    /// Writes a page of a piece, which is known by this.
    fn write(&mut self, piece: PieceId, place: Place, page: &Page, known_by: Fingerprint);

    /// Lays the descriptions of the group's members beside a piece.
    fn describe(&mut self, piece: PieceId, descriptions: Vec<Description>);

    /// The descriptions beside a piece, in the order of seats.
    fn descriptions(&self, piece: PieceId) -> &[Description];
}

/// A page that is not what was written. Whoever has it counts as having lost its piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the piece of {piece} is damaged at {place}")]
pub struct Damaged {
    /// Which piece.
    pub piece: PieceId,
    /// Where.
    pub place: Place,
}

/// Why a piece cannot be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// There is no such piece, or nothing says what it is.
    #[error("there is no piece of {0}")]
    Missing(PieceId),
    /// A page is not what was written: this process counts as lost, and a new muster recovers its piece.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// Its pages are what was written, and not what their owner had sealed.
    #[error("the piece of {piece} is not what was sealed, at slot {slot} or behind it")]
    Different {
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
    let mut page = [0; PAGE_BYTES];
    let used = shelf.descriptions(piece).iter().find(|it| it.seat == piece.seat).map(|it| it.map.used());
    let mut ahead = used.iter().flat_map(SlotSet::iter).skip(AHEAD);
    let description = compared(shelf, piece, |slot| {
        ahead.next().into_iter().for_each(|slot| shelf.expect(piece, Place::Slot(slot)));
        let known_by = shelf.read(piece, Place::Slot(slot), &mut page)?;
        take(slot, &page);
        Ok(known_by)
    })?;
    Ok(description.clone())
}

/// Whether the pages that were written are those that their owner had sealed, by what they are known by: no page is looked
/// at, since each is verified when it is read.
///
/// # Errors
/// [`LoadError`]
pub(crate) fn compare(shelf: &dyn Shelf, piece: PieceId) -> Result<(), LoadError> {
    compared(shelf, piece, |slot| Ok(shelf.known(piece, Place::Slot(slot)))).map(drop)
}

/// The member's description, if the pages in use are what it says.
fn compared(
    shelf: &dyn Shelf,
    piece: PieceId,
    mut known_by: impl FnMut(u32) -> Result<Fingerprint, Damaged>,
) -> Result<&Description, LoadError> {
    let description = shelf.descriptions(piece).iter().find(|description| description.seat == piece.seat);
    let description = description.ok_or(LoadError::Missing(piece))?;
    let mut sums = Sums::default();
    for slot in description.map.used().iter() {
        sums.add(slot, known_by(slot)?);
    }
    match sums.first_difference(&description.sums) {
        None => Ok(description),
        Some(slot) => Err(LoadError::Different { piece, slot }),
    }
}
