//! The budgeted buffers of compressed differences (C3, C6, C7): which before-images are held in a buffer of fixed size while
//! a program runs, and what a checkpoint saves. A state machine over first writes and checkpoints: whoever watches the
//! program (with page protection, say) brings the events and the pages, and protects what it is told to.
//!
//! ```text
//!                     first write                    reclaim                    secondary fault
//! protected page ----------------> buffered ----------------------> compressed ----------------> buffered, never again
//!                 \ no room                 \ would be no shorter             \ no room
//!                  '--> saved whole          '--> saved whole                  '--> evicted: saved whole
//! ```
//!
//! *Standard* stops at the first page that has no room. *Online* reclaims room then: a buffered page is compressed against
//! what the program has made of it so far, protected again, and its compressed form moved into the smallest hole that takes
//! it. Forms of many lengths that come and go leave holes in which no page fits (fragmentation), so room can be there
//! and of no use; [`Held::bytes`] against [`Buffer::new`]'s size shows how much. What it all costs: [`cost`].
//!
//! Nothing here reads the program or takes time.

pub mod cost;
mod room;
#[cfg(test)]
mod tests;

use crate::PAGE_BYTES;
use crate::delta::{Change, Delta, Encoder, Form, Page};
use room::Room;
use std::collections::{BTreeMap, VecDeque};

/// What is done when the buffer is full (C6; its first choice, to force a checkpoint, the paper rejects).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Later pages are saved whole: *standard compressed differences*.
    Standard,
    /// Buffered pages are compressed to make room: *online compressed differences*.
    Online,
}

/// What the program has in its pages now.
pub trait ProgramPages {
    /// The contents of a page, by number.
    fn page(&self, number: u64) -> &Page;
}

/// What the watcher is to do before the program goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protect {
    /// Pages that are to be protected again: their next write is told with [`Buffer::fault`]. The page that was written is
    /// not among them, it is to be let go.
    pub again: Vec<u64>,
}

/// How a page goes into a checkpoint (C7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved<'b> {
    /// As it is.
    Whole,
    /// As a block of differences of this one page, against what it held at the checkpoint before ([`Delta`]).
    Compressed(&'b [u8]),
}

/// Bytes of changed pages, by what has become of them: the five parts of equation 6. Whole pages, but for `compressed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// S_comp: pages that are compressed in the buffer.
    pub compressed: u64,
    /// S_uncomp1: pages that are buffered and never were compressed.
    pub buffered_once: u64,
    /// S_uncomp2: pages that are buffered and were compressed once.
    pub buffered_twice: u64,
    /// S_dirty1: pages that never were buffered.
    pub unbuffered: u64,
    /// S_dirty2: pages that were thrown out of the buffer.
    pub evicted: u64,
    /// What the buffer is filled with.
    pub bytes: u64,
}

impl Held {
    /// S_ch: all changed pages.
    pub fn changed(&self) -> u64 {
        self.effective() + self.unbuffered + self.evicted
    }

    /// S_ebuffer: all pages that go compressed into the checkpoint.
    pub fn effective(&self) -> u64 {
        self.compressed + self.buffered_once + self.buffered_twice
    }
}

/// Where a changed page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its before-image lies at this offset.
    Buffered { at: usize, twice: bool },
    /// Its compressed difference lies there.
    Compressed { at: usize, bytes: usize },
    /// It is saved whole; whether it has been in the buffer.
    Whole { evicted: bool },
}

/// Before-images and differences in a buffer that never grows.
#[derive(Debug)]
pub struct Buffer {
    when_full: WhenFull,
    bytes: Vec<u8>,
    room: Room,
    pages: BTreeMap<u64, Standing>,
    /// Buffered pages that may be compressed, those that have been there longest first.
    candidates: VecDeque<u64>,
    encoder: Encoder,
}

impl Buffer {
    /// An empty buffer of S_buffer bytes, all of them taken at once. The program must not have it in a checkpoint.
    pub fn new(bytes: usize, when_full: WhenFull) -> Self {
        Self {
            when_full,
            bytes: vec![0; bytes],
            room: Room::new(bytes),
            pages: BTreeMap::new(),
            candidates: VecDeque::new(),
            encoder: Encoder::new(),
        }
    }

    /// A page is about to be written that is protected: since the last checkpoint, or since it was to be again. `memory` has
    /// it as it is before that.
    ///
    /// # Panics
    /// On a page that is not protected.
    pub fn fault(&mut self, page: u64, memory: &impl ProgramPages) -> Protect {
        let mut protect = Protect::default();
        let standing = match self.pages.get(&page).copied() {
            None => self.take_in(page, memory, &mut protect),
            Some(Standing::Compressed { at, bytes }) => self.rebuild(page, at, bytes, memory),
            Some(standing) => panic!("page {page} is not protected: {standing:?}"),
        };
        self.pages.insert(page, standing);
        protect
    }

    /// A page that the checkpoint before did not have is about to be written: it has no before-image.
    pub fn fresh(&mut self, page: u64) {
        self.pages.entry(page).or_insert(Standing::Whole { evicted: false });
    }

    /// Takes a checkpoint: tells of every changed page, ascending, how it is to be saved, and begins again. All pages are to
    /// be protected then.
    pub fn checkpoint(&mut self, memory: &impl ProgramPages, mut save: impl FnMut(u64, Saved<'_>)) -> Held {
        let held = self.held();
        for (page, standing) in std::mem::take(&mut self.pages) {
            match standing {
                Standing::Whole { .. } => save(page, Saved::Whole),
                Standing::Compressed { at, bytes } => save(page, Saved::Compressed(&self.bytes[at..at + bytes])),
                Standing::Buffered { at, .. } => {
                    let before = page_at(&self.bytes, at);
                    let encoded = self.encoder.encode([Change { before, now: memory.page(page) }]);
                    let is_whole = encoded.tally.whole > 0;
                    save(page, if is_whole { Saved::Whole } else { Saved::Compressed(encoded.bytes) });
                }
            }
        }
        self.room = Room::new(self.bytes.len());
        self.candidates.clear();
        held
    }

    /// What is held now.
    pub fn held(&self) -> Held {
        const PAGE: u64 = PAGE_BYTES as u64;
        let mut held = Held { bytes: self.room.used() as u64, ..Held::default() };
        for standing in self.pages.values() {
            match standing {
                Standing::Compressed { .. } => held.compressed += PAGE,
                Standing::Buffered { twice: false, .. } => held.buffered_once += PAGE,
                Standing::Buffered { twice: true, .. } => held.buffered_twice += PAGE,
                Standing::Whole { evicted: false } => held.unbuffered += PAGE,
                Standing::Whole { evicted: true } => held.evicted += PAGE,
            }
        }
        held
    }

    /// A first write.
    fn take_in(&mut self, page: u64, memory: &impl ProgramPages, protect: &mut Protect) -> Standing {
        let mut place = self.room.take(PAGE_BYTES);
        while place.is_none()
            && self.when_full == WhenFull::Online
            && let Some(candidate) = self.candidates.pop_front()
        {
            self.reclaim(candidate, memory, protect);
            place = self.room.take(PAGE_BYTES);
        }
        let Some(at) = place else { return Standing::Whole { evicted: false } };
        self.bytes[at..at + PAGE_BYTES].copy_from_slice(memory.page(page));
        self.candidates.push_back(page);
        Standing::Buffered { at, twice: false }
    }

    /// Compresses a buffered page, or throws it out where that would make it no shorter.
    fn reclaim(&mut self, page: u64, memory: &impl ProgramPages, protect: &mut Protect) {
        let Some(Standing::Buffered { at, .. }) = self.pages.get(&page).copied() else {
            unreachable!("candidates are buffered");
        };
        let before = page_at(&self.bytes, at);
        let encoded = self.encoder.encode([Change { before, now: memory.page(page) }]);
        self.room.give_back(at, PAGE_BYTES);
        let standing = if encoded.tally.whole > 0 {
            Standing::Whole { evicted: true }
        } else {
            let bytes = encoded.bytes.len();
            let at = self.room.take(bytes).expect("what the page took is more than that");
            self.bytes[at..at + bytes].copy_from_slice(encoded.bytes);
            protect.again.push(page);
            Standing::Compressed { at, bytes }
        };
        self.pages.insert(page, standing);
    }

    /// A secondary fault: the before-image comes back and stays, if there is room for it.
    fn rebuild(&mut self, page: u64, at: usize, bytes: usize, memory: &impl ProgramPages) -> Standing {
        let mut before = *memory.page(page);
        let delta = Delta::parse(&self.bytes[at..at + bytes], 1).expect("it is as it was made");
        debug_assert!(delta.forms().all(|form| form != Form::Whole), "those are thrown out");
        // What has changed, added once more, is what it was before.
        delta.apply([&mut before]);
        self.room.give_back(at, bytes);
        match self.room.take(PAGE_BYTES) {
            Some(at) => {
                self.bytes[at..at + PAGE_BYTES].copy_from_slice(&before);
                Standing::Buffered { at, twice: true }
            }
            None => Standing::Whole { evicted: true },
        }
    }
}

fn page_at(bytes: &[u8], at: usize) -> &Page {
    bytes[at..].first_chunk().expect("a whole page was put there")
}
