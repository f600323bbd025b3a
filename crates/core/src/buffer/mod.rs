//! The budgeted buffers of compressed differences (C3, C6, C7). They decide which before-images a buffer of fixed size
//! holds while a program runs, and what a checkpoint saves. This is a state machine over first writes and checkpoints.
//! A watcher of the program (using page protection, say) supplies the events and the pages, and protects pages as
//! instructed.
//!
//! ```text
//!                     first write                    reclaim                    secondary fault
//! protected page ----------------> buffered ----------------------> compressed ----------------> buffered, never again
//!                 \ no room                 \ would be no shorter             \ no room
//!                  '--> saved whole          '--> saved whole                  '--> evicted: saved whole
//! ```
//!
//! *Standard* stops buffering at the first page that has no room. *Online* then reclaims room: it compresses a buffered
//! page against the program's current content and protects the page again. It moves the compressed form into the
//! smallest hole that fits. Forms of many lengths that come and go leave holes too small for a page (fragmentation), so
//! free room may be unusable. Comparing [`Held::bytes`] with the size in [`Buffer::new`] shows how much. [`cost`]
//! computes what it all costs.
//!
//! Nothing here reads the program or measures time. No checkpoint uses these buffers yet: they are for experiments that
//! repeat the measurements of the papers on diskless checkpointing.

pub mod cost;
mod room;
#[cfg(test)]
mod tests;

use crate::PAGE_BYTES;
use crate::delta::{Change, Delta, Encoder, Form, Page};
use room::Room;
use std::collections::{BTreeMap, VecDeque};

/// What to do when the buffer is full (C6; the paper rejects its first choice, forcing a checkpoint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Later pages are saved whole: *standard compressed differences*.
    Standard,
    /// Buffered pages are compressed to make room: *online compressed differences*.
    Online,
}

/// Access to the current content of the program's pages.
pub trait ProgramPages {
    /// Returns the contents of a page, by number.
    fn page(&self, number: u64) -> &Page;
}

/// Instructions for the watcher before the program continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protect {
    /// Pages to protect again: report their next write with [`Buffer::fault`]. The page being written is not among
    /// them; its protection must be removed.
    pub again: Vec<u64>,
}

/// The form of a page in a checkpoint (C7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved<'b> {
    /// The page as it is.
    Whole,
    /// A block of differences of this one page, against its content at the previous checkpoint ([`Delta`]).
    Compressed(&'b [u8]),
}

/// Bytes of changed pages, by their fate: the five parts of equation 6. All five count whole pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// S_comp: pages that are compressed in the buffer.
    pub compressed: u64,
    /// S_uncomp1: pages that are buffered and were never compressed.
    pub buffered_once: u64,
    /// S_uncomp2: pages that are buffered and were compressed once.
    pub buffered_twice: u64,
    /// S_dirty1: pages that were never buffered.
    pub unbuffered: u64,
    /// S_dirty2: pages that were evicted from the buffer.
    pub evicted: u64,
    /// Bytes in use in the buffer.
    pub bytes: u64,
}

impl Held {
    /// Returns S_ch: all changed pages.
    pub fn changed(&self) -> u64 {
        self.effective() + self.unbuffered + self.evicted
    }

    /// Returns S_ebuffer: all pages that the checkpoint contains compressed.
    pub fn effective(&self) -> u64 {
        self.compressed + self.buffered_once + self.buffered_twice
    }
}

/// The state of a changed page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its before-image is at this offset.
    Buffered { at: usize, twice: bool },
    /// Its compressed difference is at this offset.
    Compressed { at: usize, bytes: usize },
    /// It is saved whole; `evicted` tells whether it was in the buffer.
    Whole { evicted: bool },
}

/// A buffer of fixed size for before-images and differences.
#[derive(Debug)]
pub struct Buffer {
    when_full: WhenFull,
    bytes: Vec<u8>,
    room: Room,
    pages: BTreeMap<u64, Standing>,
    /// Buffered pages that may be compressed, the oldest first.
    candidates: VecDeque<u64>,
    encoder: Encoder,
}

impl Buffer {
    /// Creates an empty buffer of S_buffer bytes, all allocated at once. Checkpoints of the program must not include
    /// it.
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

    /// Handles the imminent write to a protected page, protected since the last checkpoint or again since then.
    /// `memory` still has its content before the write.
    ///
    /// # Panics
    /// If the page is not protected.
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

    /// Handles the imminent write to a page that the previous checkpoint did not have, so that it has no before-image.
    pub fn fresh(&mut self, page: u64) {
        self.pages.entry(page).or_insert(Standing::Whole { evicted: false });
    }

    /// Takes a checkpoint: calls `save` for every changed page, ascending, and starts over. All pages must then be
    /// protected.
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

    /// Returns what is held now.
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

    /// Handles a first write.
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

    /// Compresses a buffered page, or evicts it if that would not make it shorter.
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

    /// Handles a secondary fault: the before-image is restored and stays, if there is room for it.
    fn rebuild(&mut self, page: u64, at: usize, bytes: usize, memory: &impl ProgramPages) -> Standing {
        let mut before = *memory.page(page);
        let delta = Delta::parse(&self.bytes[at..at + bytes], 1).expect("it is as it was made");
        debug_assert!(delta.forms().all(|form| form != Form::Whole), "those are thrown out");
        // Applying the difference to the current content gives the before-image.
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
