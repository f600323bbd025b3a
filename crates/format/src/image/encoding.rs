//! How the pages of a block stand in the data area: as they are, compressed, or as what has changed in them since the
//! parent. Which of these pays is decided elsewhere ([`standfast_core::codec::choice`]).
//!
//! ```text
//! raw              the pages
//! lz4, zstd        XXH3 of the pages (16), the pages compressed
//! differences      for each page the first 8 bytes of its XXH3, then what has changed in them (C4, C5)
//! sparse           XXH3 of the pages (16), then what a block of differences has, all of it upon pages of zeros
//! ```
//!
//! The block's own checksum covers what stands in the file, the ones in front what comes out of it: a difference that is put
//! upon another page than it was made for is noticed, and so is a fault of a codec. They stand for each page where pages are
//! brought back one by one: those of a parent, upon which other differences are to be put. Of a patch, it is the checksum of
//! the words that count, one after the other.

use super::{BLOCK_PAGES_MAX, Block, ImageError, ImagePart};
use standfast_core::codec::{Compressor, Decompressor, Encoding, longest_kept};
use standfast_core::delta::{Delta, Encoder, Form, Page, apply_part, changes};
use standfast_core::{Checksum, MASK_BYTES, Mask, PAGE_BYTES};
use std::ops::Range;

/// Most bytes that a block may have in the file: those of its pages.
pub(super) const STORED_BYTES_MAX: u32 = BLOCK_PAGES_MAX * PAGE_BYTES as u32;

/// Bytes in front of a compressed block.
const SUM_BYTES: usize = 16;

/// Bytes in front of a block of differences, for each page.
const PAGE_SUM_BYTES: usize = 8;

/// Encodes blocks, one after the other in the same memory.
#[derive(Debug, Default)]
pub struct BlockEncoder {
    compressor: Compressor,
    differences: Encoder,
    bytes: Vec<u8>,
}

impl BlockEncoder {
    /// The pages in this encoding, if that makes them much shorter; `before` holds what they held in the parent, where that
    /// encoding is [`Encoding::Differences`].
    pub fn encode(&mut self, encoding: Encoding, before: &[u8], pages: &[u8]) -> Option<&[u8]> {
        let Self { compressor, differences, bytes } = self;
        bytes.clear();
        match encoding {
            Encoding::Raw => return None,
            Encoding::Lz4 | Encoding::Zstd => {
                let packed = compressor.compress(encoding.codec()?, pages);
                if Some(packed.codec) != encoding.codec() {
                    return None;
                }
                bytes.extend_from_slice(&Checksum::of(pages).to_bytes());
                bytes.extend_from_slice(packed.bytes);
            }
            Encoding::Differences => {
                bytes.extend(pages.as_chunks::<PAGE_BYTES>().0.iter().flat_map(|page| sum(page)));
                bytes.extend_from_slice(differences.encode(changes(before, pages)).bytes);
            }
            Encoding::Sparse => {
                bytes.extend_from_slice(&Checksum::of(pages).to_bytes());
                let masked = pages.as_chunks().0.iter().map(|page| (page, Mask::of_nonzero(page)));
                bytes.extend_from_slice(differences.patch(masked).bytes);
            }
        }
        (bytes.len() <= longest_kept(pages.len())).then_some(&bytes[..])
    }

    /// The pages as [`Encoding::Differences`] of which only some words count, if that is much shorter. The others are those
    /// of the parent.
    pub fn patch(&mut self, pages: &[u8], masks: &[Mask]) -> Option<&[u8]> {
        let Self { differences, bytes, .. } = self;
        bytes.clear();
        let patches = differences.patch(pages.as_chunks().0.iter().zip(masks.iter().copied()));
        let delta = Delta::parse(patches.bytes, masks.len()).expect("it was just made");
        for (form, range) in delta.parts() {
            let part = &patches.bytes[range];
            bytes.extend(sum(if form == Form::Patch { &part[MASK_BYTES..] } else { part }));
        }
        bytes.extend_from_slice(patches.bytes);
        (bytes.len() <= longest_kept(pages.len())).then_some(&bytes[..])
    }
}

/// The checksum of what counts in a page that a patch was put upon.
fn sum_of_words(page: &Page, mask: Mask) -> [u8; PAGE_SUM_BYTES] {
    let mut words = [0; PAGE_BYTES];
    let bytes = mask.gather(page, &mut words);
    sum(&words[..bytes])
}

fn sum(bytes: &[u8]) -> [u8; PAGE_SUM_BYTES] {
    *Checksum::of(bytes).to_bytes().first_chunk().expect("half of a checksum")
}

impl Block {
    /// The pages of a block whose stored bytes have been verified and that stands alone: all but differences.
    ///
    /// # Errors
    /// [`ImageError::Senseless`] when these are not the pages that were written: what `pages` then holds means nothing.
    ///
    /// # Panics
    /// When `pages` has not [`Block::page_bytes`].
    pub fn unpack(&self, stored: &[u8], pages: &mut [u8], decompressor: &mut Decompressor) -> Result<(), ImageError> {
        assert_eq!(pages.len(), self.page_bytes(), "room for all pages and no more");
        if self.encoding() == Encoding::Sparse {
            return self.unpack_sparse(stored, pages);
        }
        let Some(codec) = self.encoding().codec() else {
            let is_raw = self.encoding() == Encoding::Raw && stored.len() == pages.len();
            if !is_raw {
                return Err(self.senseless("it does not hold whole pages"));
            }
            pages.copy_from_slice(stored);
            return Ok(());
        };
        let Some((sum, packed)) = stored.split_first_chunk::<SUM_BYTES>() else {
            return Err(self.senseless("it is too short"));
        };
        decompressor.decompress(codec, packed, pages).map_err(|error| self.senseless(&error.to_string()))?;
        if Checksum::of(pages).to_bytes() == *sum { Ok(()) } else { Err(self.not_what_was_saved()) }
    }

    fn unpack_sparse(&self, stored: &[u8], pages: &mut [u8]) -> Result<(), ImageError> {
        let Some((sum, delta)) = stored.split_first_chunk::<SUM_BYTES>() else {
            return Err(self.senseless("it is too short"));
        };
        let delta =
            Delta::parse(delta, pages.len() / PAGE_BYTES).map_err(|error| self.senseless(&error.to_string()))?;
        pages.fill(0);
        delta.apply(pages.as_chunks_mut().0);
        if Checksum::of(pages).to_bytes() == *sum { Ok(()) } else { Err(self.not_what_was_saved()) }
    }

    /// What the pages of a block of differences are made of. Its stored bytes have been verified.
    ///
    /// # Errors
    /// [`ImageError::Senseless`] when they are no differences of so many pages.
    pub fn differences(&self, stored: &[u8]) -> Result<PageDifferences, ImageError> {
        let pages = self.page_bytes() / PAGE_BYTES;
        let Some((_, delta)) = stored.split_at_checked(pages * PAGE_SUM_BYTES) else {
            return Err(self.senseless("it is too short"));
        };
        let delta = Delta::parse(delta, pages).map_err(|error| self.senseless(&error.to_string()))?;
        Ok(PageDifferences(delta.parts().collect()))
    }

    /// Turns what a page held in the parent into what it held in this image: the `at`th of the block.
    ///
    /// # Errors
    /// [`ImageError::Senseless`] when it is not what was saved: what `page` then holds means nothing.
    pub fn apply(
        &self,
        stored: &[u8],
        differences: &PageDifferences,
        at: usize,
        page: &mut Page,
    ) -> Result<(), ImageError> {
        let (sums, delta) = stored.split_at(differences.0.len() * PAGE_SUM_BYTES);
        let (form, range) = &differences.0[at];
        let part = &delta[range.clone()];
        apply_part(*form, part, page);
        let found = if *form == Form::Patch { sum_of_words(page, mask_of(part)) } else { sum(page) };
        if found == sums.as_chunks().0[at] { Ok(()) } else { Err(self.not_what_was_saved()) }
    }

    fn not_what_was_saved(&self) -> ImageError {
        self.senseless("what comes out of it is not what went into it")
    }

    fn senseless(&self, why: &str) -> ImageError {
        ImageError::Senseless(ImagePart::Block(self.offset()), why.into())
    }
}

fn mask_of(patch: &[u8]) -> Mask {
    Mask::from_bytes(patch.first_chunk().expect("a patch begins with its bitmap"))
}

/// Where in a block of differences each of its pages is, and in which form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageDifferences(Vec<(Form, Range<usize>)>);

impl PageDifferences {
    /// Whether the page at this place needs no before-image.
    pub fn is_whole(&self, at: usize) -> bool {
        self.0[at].0 == Form::Whole
    }
}
