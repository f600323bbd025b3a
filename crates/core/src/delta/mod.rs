//! Compressed differences (C4, C5): what changed in pages, word by word, against what they held before.
//!
//! A difference is the page XOR its before-image, stored as a bitmap of the nonzero words and these words. The page
//! itself is stored if that is shorter, and nothing if nothing changed. Pages come in blocks, so that one pass fills
//! one reusable buffer. The format is neither a container nor a checksum: an image surrounds it with both.
//!
//! ```text
//! 0                                             length - n    length
//! +-----------+-----------+-----+---------------+-------------+
//! | of page 0 | of page 1 | ... | of page n - 1 | n forms     |    form: one byte a page
//! +-----------+-----------+-----+---------------+-------------+
//!
//!   0 same     nothing: the page is its before-image
//!   1 words    64 bytes of bitmap, then 8 bytes for each of 1 to 503 words: 64 + 8 c  (C4 with p = 4096, w = 8)
//!   2 whole    the 4096 bytes of the page, from 504 changed words on
//!   3 patch    128 bytes of bitmap, then words of 4 bytes, at most 991, that replace the old ones
//! ```
//!
//! A patch is for pages in which only some words count, as declared by the program: the others stay as they were and
//! are not read. Changes do not matter for it, so making one needs no before-image.
//!
//! A word has 8 bytes and not 4. Doubles, pointers and longs, of which large states consist, change as 8 bytes. For
//! them, 4-byte words take 64 bytes more per page for the bitmap and save nothing: 168 instead of 104 for 5 doubles.
//! They win only if more than 16 of them change in a page, each alone in its 8 bytes, and never save more than half.
//! They also double the number of lanes that the loop has to sort.
//!
//! ```
//! use standfast_core::delta::{Change, Delta, Encoder};
//!
//! let before = [7; 4096];
//! let mut now = before;
//! now[80] = 8;
//! let mut encoder = Encoder::new();
//! let encoded = encoder.encode([Change { before: &before, now: &now }]);
//! assert_eq!(encoded.bytes.len(), 64 + 8 + 1);
//!
//! let mut page = before;
//! Delta::parse(encoded.bytes, 1).unwrap().apply([&mut page]);
//! assert_eq!(page, now);
//! ```

mod kernel;
#[cfg(target_arch = "x86_64")]
mod simd;
#[cfg(not(target_arch = "x86_64"))]
#[path = "simd_elsewhere.rs"]
mod simd;
#[cfg(test)]
mod tests;

pub use kernel::Kernel;

pub use crate::page::Page;
use crate::{MASK_BYTES, MASK_WORD_BYTES, Mask, PAGE_BYTES};
use kernel::SLOT_BYTES;
use std::iter;
use std::ops::Range;

/// Bytes in a word.
pub const WORD_BYTES: usize = 8;
/// Words in a page.
pub const WORDS: usize = PAGE_BYTES / WORD_BYTES;
/// Length of the bitmap of changed words.
pub const BITMAP_BYTES: usize = WORDS / 8;
/// Largest number of changed words for which words are shorter than the page itself: 503 of 512.
pub const CHANGED_WORDS_MAX: usize = (PAGE_BYTES - BITMAP_BYTES - 1) / WORD_BYTES;
/// Largest number of words for which a patch is shorter than the page itself: 991 of 1024.
pub const PATCH_WORDS_MAX: usize = (PAGE_BYTES - MASK_BYTES - 1) / MASK_WORD_BYTES;

/// The current and the earlier content of a page.
#[derive(Clone, Copy, Debug)]
pub struct Change<'p> {
    /// The earlier content.
    pub before: &'p Page,
    /// The current content.
    pub now: &'p Page,
}

/// The form of a page in a block of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Unchanged: nothing is stored.
    Same,
    /// The changed words.
    Words,
    /// The page itself.
    Whole,
    /// The words that count.
    Patch,
}

impl Form {
    fn number(self) -> u8 {
        match self {
            Self::Same => 0,
            Self::Words => 1,
            Self::Whole => 2,
            Self::Patch => 3,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        [Self::Same, Self::Words, Self::Whole, Self::Patch].into_iter().find(|form| form.number() == number)
    }
}

/// The composition of a block of differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of unchanged pages.
    pub same: usize,
    /// Number of pages stored as changed words.
    pub words: usize,
    /// Number of pages stored whole.
    pub whole: usize,
    /// Number of changed words of the pages in `words`.
    pub changed_words: usize,
    /// Number of pages stored as patches.
    pub patches: usize,
    /// Number of words of the pages in `patches`.
    pub patched_words: usize,
}

impl Tally {
    /// Returns the length of the block in bytes.
    pub fn bytes(&self) -> usize {
        let forms = self.same + self.words + self.whole + self.patches;
        let words = self.words * BITMAP_BYTES + self.changed_words * WORD_BYTES;
        words + self.patches * MASK_BYTES + self.patched_words * MASK_WORD_BYTES + self.whole * PAGE_BYTES + forms
    }

    fn count(&mut self, form: Form, changed: usize) {
        match form {
            Form::Same => self.same += 1,
            Form::Words => {
                self.words += 1;
                self.changed_words += changed;
            }
            Form::Whole => self.whole += 1,
            Form::Patch => {
                self.patches += 1;
                self.patched_words += changed;
            }
        }
    }
}

/// A block of differences made by [`Encoder`].
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'e> {
    /// The block.
    pub bytes: &'e [u8],
    /// The composition of the block.
    pub tally: Tally,
}

/// Makes blocks of differences, one after the other, reusing its memory.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    kernel: Kernel,
    bytes: Vec<u8>,
    forms: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder with the fastest kernel of this processor. Allocates nothing until it is used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an encoder with this kernel.
    pub fn with_kernel(kernel: Kernel) -> Self {
        Self { kernel, ..Self::default() }
    }

    /// Encodes the block of these pages. Allocates only if no earlier block was as long.
    pub fn encode<'p>(&mut self, changes: impl IntoIterator<Item = Change<'p>>) -> Encoded<'_> {
        self.forms.clear();
        let mut tally = Tally::default();
        let mut length = 0;
        for change in changes {
            let slot = slot(&mut self.bytes, length);
            let changed = self.kernel.difference(change, slot);
            let (form, bytes) = match changed {
                0 => (Form::Same, 0),
                1..=CHANGED_WORDS_MAX => (Form::Words, BITMAP_BYTES + changed * WORD_BYTES),
                _ => (Form::Whole, PAGE_BYTES),
            };
            if form == Form::Whole {
                slot[..PAGE_BYTES].copy_from_slice(change.now);
            }
            self.forms.push(form.number());
            tally.count(form, changed);
            length += bytes;
        }
        self.end(length, tally)
    }

    /// Encodes a block of pages in which only some words count, whatever they held before.
    pub fn patch<'p>(&mut self, pages: impl IntoIterator<Item = (&'p Page, Mask)>) -> Encoded<'_> {
        self.forms.clear();
        let mut tally = Tally::default();
        let mut length = 0;
        for (page, mask) in pages {
            let slot = slot(&mut self.bytes, length);
            let words = mask.words();
            let (form, bytes) = match words {
                // A patch of no words differs from an unchanged page, since nobody has compared the page.
                0..=PATCH_WORDS_MAX => {
                    slot[..MASK_BYTES].copy_from_slice(&mask.to_bytes());
                    (Form::Patch, MASK_BYTES + mask.gather(page, &mut slot[MASK_BYTES..]))
                }
                _ => {
                    slot[..PAGE_BYTES].copy_from_slice(page);
                    (Form::Whole, PAGE_BYTES)
                }
            };
            self.forms.push(form.number());
            tally.count(form, words);
            length += bytes;
        }
        self.end(length, tally)
    }

    fn end(&mut self, length: usize, tally: Tally) -> Encoded<'_> {
        let end = length + self.forms.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[length..end].copy_from_slice(&self.forms);
        assert_eq!(end, tally.bytes(), "the tally accounts for every byte");
        Encoded { bytes: &self.bytes[..end], tally }
    }
}

/// Returns room for one page at `start`, growing `bytes` if necessary. Its contents are meaningless.
fn slot(bytes: &mut Vec<u8>, start: usize) -> &mut [u8; SLOT_BYTES] {
    if bytes.len() < start + SLOT_BYTES {
        bytes.resize((start + SLOT_BYTES).max(bytes.len() * 2), 0);
    }
    bytes[start..].first_chunk_mut().expect("the bytes were made long enough")
}

/// The reason why some bytes are not a block of differences.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// The block ends before all of its pages.
    #[error("a block of differences is cut off at page {page}")]
    CutOff {
        /// The missing page, counted in the block.
        page: usize,
    },
    /// Some bytes belong to no page.
    #[error("a block of differences has {bytes} bytes too many")]
    TooLong {
        /// Their number.
        bytes: usize,
    },
    /// The form of a page does not exist.
    #[error("page {page} of a block of differences has the unknown form {form}")]
    UnknownForm {
        /// The page, counted in the block.
        page: usize,
        /// The unknown number.
        form: u8,
    },
    /// A page has no changed word, a changed word that is zero, or so many that the page itself is shorter: no writer
    /// produces that.
    #[error("page {page} of a block of differences is not the one that its pages give")]
    Senseless {
        /// The page, counted in the block.
        page: usize,
    },
}

/// A block of differences that was checked as a whole, so that applying it cannot fail half-way.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'b> {
    payload: &'b [u8],
    forms: &'b [u8],
    tally: Tally,
}

impl<'b> Delta<'b> {
    /// Parses a block of `pages` pages. Allocates nothing.
    ///
    /// # Errors
    /// If the bytes are not exactly what [`Encoder`] makes of some pages.
    pub fn parse(bytes: &'b [u8], pages: usize) -> Result<Self, DeltaError> {
        let Some(payload_bytes) = bytes.len().checked_sub(pages) else { return Err(DeltaError::CutOff { page: 0 }) };
        let (payload, forms) = bytes.split_at(payload_bytes);
        let mut tally = Tally::default();
        let mut rest = payload;
        for (page, number) in forms.iter().enumerate() {
            let form = Form::from_number(*number).ok_or(DeltaError::UnknownForm { page, form: *number })?;
            let (part, changed) = first_part(rest, form, page)?;
            tally.count(form, changed);
            rest = &rest[part..];
        }
        if !rest.is_empty() {
            return Err(DeltaError::TooLong { bytes: rest.len() });
        }
        Ok(Self { payload, forms, tally })
    }

    /// Returns the composition of the block.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the forms of its pages.
    pub fn forms(&self) -> impl Iterator<Item = Form> {
        self.forms.iter().map(|number| Form::from_number(*number).expect("parsing has seen every form"))
    }

    /// Returns the form of each page and the place of its part in the block.
    pub fn parts(&self) -> impl Iterator<Item = (Form, Range<usize>)> {
        let mut start = 0;
        self.forms().map(move |form| {
            let (bytes, _) = first_part(&self.payload[start..], form, 0).expect("parsing has seen every part");
            start += bytes;
            (form, start - bytes..start)
        })
    }

    /// Turns before-images into the pages themselves. Panics if their number differs from that of the block.
    pub fn apply<'p>(&self, pages: impl IntoIterator<Item = &'p mut Page>) {
        let mut pages = pages.into_iter();
        let mut rest = self.payload;
        for form in self.forms() {
            let page = pages.next().expect("as many pages as the block has");
            rest = &rest[apply_part(form, rest, page)..];
        }
        assert!(pages.next().is_none(), "as many pages as the block has");
    }
}

/// Turns one before-image into the page itself. `part` is a part from [`Delta::parts`], or begins with one. Returns the
/// length of the part. Panics if `part` is too short.
pub fn apply_part(form: Form, part: &[u8], page: &mut Page) -> usize {
    match form {
        Form::Same => 0,
        Form::Words => {
            let (bitmap, words) = part.split_first_chunk().expect("a part begins with its bitmap");
            BITMAP_BYTES + WORD_BYTES * kernel::apply(bitmap, words.as_chunks().0, page)
        }
        Form::Whole => {
            page.copy_from_slice(&part[..PAGE_BYTES]);
            PAGE_BYTES
        }
        Form::Patch => {
            let (bitmap, words) = part.split_first_chunk().expect("a part begins with its bitmap");
            let mask = Mask::from_bytes(bitmap);
            mask.scatter(words, page);
            MASK_BYTES + mask.words() * MASK_WORD_BYTES
        }
    }
}

/// Returns the length of the first part, for a page of this form, and the number of changed words in it.
fn first_part(bytes: &[u8], form: Form, page: usize) -> Result<(usize, usize), DeltaError> {
    let cut_off = DeltaError::CutOff { page };
    match form {
        Form::Same => Ok((0, 0)),
        Form::Whole if bytes.len() < PAGE_BYTES => Err(cut_off),
        Form::Whole => Ok((PAGE_BYTES, WORDS)),
        Form::Words => {
            let (bitmap, words) = bytes.split_first_chunk::<BITMAP_BYTES>().ok_or(cut_off.clone())?;
            let changed = bitmap.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
            if changed == 0 || changed > CHANGED_WORDS_MAX {
                return Err(DeltaError::Senseless { page });
            }
            let words = words.as_chunks::<WORD_BYTES>().0.get(..changed).ok_or(cut_off)?;
            if words.iter().any(|word| u64::from_le_bytes(*word) == 0) {
                return Err(DeltaError::Senseless { page });
            }
            Ok((BITMAP_BYTES + changed * WORD_BYTES, changed))
        }
        Form::Patch => {
            let (bitmap, words) = bytes.split_first_chunk().ok_or(cut_off.clone())?;
            let count = Mask::from_bytes(bitmap).words();
            if count > PATCH_WORDS_MAX {
                return Err(DeltaError::Senseless { page });
            }
            let part = count * MASK_WORD_BYTES;
            if words.len() < part { Err(cut_off) } else { Ok((MASK_BYTES + part, count)) }
        }
    }
}

/// Returns the changes of adjoining pages. Panics if the lengths differ or are not whole pages.
pub fn changes<'p>(before: &'p [u8], now: &'p [u8]) -> impl Iterator<Item = Change<'p>> {
    let ((before, no_part), (now, none)) = (before.as_chunks(), now.as_chunks());
    assert!(no_part.is_empty() && none.is_empty() && before.len() == now.len(), "the same number of whole pages");
    iter::zip(before, now).map(|(before, now)| Change { before, now })
}
