//! Encodings of the pages of a block in the data area: raw, compressed, or as differences from the parent.
//! [`standfast_core::codec::choice`] decides which of them pays off.
//!
//! ```text
//! raw              the pages
//! lz4, zstd        XXH3 of the pages (16), the pages compressed
//! differences      for each page the first 8 bytes of its XXH3, then what has changed in them (C4, C5)
//! sparse           XXH3 of the pages (16), then differences from pages of zeros, as in a block of these
//! ```
//!
//! The block's own checksum covers the stored bytes; the checksums in front cover the decoded pages. They reveal a
//! difference applied to the wrong page, and faults of a codec. Blocks of differences have one for each page, since
//! pages of a parent are decoded one by one as the base of other differences. For a patch, it is the checksum of the
//! words that count, one after the other.

use super::{BLOCK_PAGES_MAX, Block, ImageError, ImagePart};
use standfast_core::codec::{Compressor, Decompressor, Encoding, longest_kept};
use standfast_core::delta::{Delta, Encoder, Form, Page, apply_part, changes};
use standfast_core::{Checksum, MASK_BYTES, Mask, PAGE_BYTES};
use std::ops::Range;

/// Maximum stored length of a block: the length of its pages.
pub(super) const STORED_BYTES_MAX: u32 = BLOCK_PAGES_MAX * PAGE_BYTES as u32;

/// Bytes of checksum in front of a compressed block.
const SUM_BYTES: usize = 16;

/// Bytes of checksum for each page in front of a block of differences.
const PAGE_SUM_BYTES: usize = 8;

/// Encodes blocks, one after the other, reusing its buffers.
#[derive(Debug, Default)]
pub struct BlockEncoder {
    compressor: Compressor,
    differences: Encoder,
    bytes: Vec<u8>,
}

impl BlockEncoder {
    /// Encodes the pages, if that makes them much shorter. For [`Encoding::Differences`], `before` holds their contents
    /// in the parent.
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

    /// Encodes pages with only some words that count as [`Encoding::Differences`], if that makes them much shorter. The
    /// other words are those of the parent.
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

/// Returns the checksum of the words that count in a patched page.
fn sum_of_words(page: &Page, mask: Mask) -> [u8; PAGE_SUM_BYTES] {
    let mut words = [0; PAGE_BYTES];
    let bytes = mask.gather(page, &mut words);
    sum(&words[..bytes])
}

fn sum(bytes: &[u8]) -> [u8; PAGE_SUM_BYTES] {
    *Checksum::of(bytes).to_bytes().first_chunk().expect("half of a checksum")
}

impl Block {
    /// Decodes the pages of a self-contained block, that is, any but differences. Its stored bytes have been verified.
    ///
    /// # Errors
    /// [`ImageError::Senseless`] if the result differs from the pages that were written; the contents of `pages` are
    /// then meaningless.
    ///
    /// # Panics
    /// If the length of `pages` is not [`Block::page_bytes`].
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

    /// Parses a block of differences. Its stored bytes have been verified.
    ///
    /// # Errors
    /// [`ImageError::Senseless`] if they are not differences of that many pages.
    pub fn differences(&self, stored: &[u8]) -> Result<PageDifferences, ImageError> {
        let pages = self.page_bytes() / PAGE_BYTES;
        let Some((_, delta)) = stored.split_at_checked(pages * PAGE_SUM_BYTES) else {
            return Err(self.senseless("it is too short"));
        };
        let delta = Delta::parse(delta, pages).map_err(|error| self.senseless(&error.to_string()))?;
        Ok(PageDifferences(delta.parts().collect()))
    }

    /// Turns the parent's content of page number `at` of the block into its content in this image.
    ///
    /// # Errors
    /// [`ImageError::Senseless`] if the result differs from what was saved; the content of `page` is then meaningless.
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

/// The form of each page in a block of differences, and its place there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageDifferences(Vec<(Form, Range<usize>)>);

impl PageDifferences {
    /// Reports whether the page at this position needs no before-image.
    pub fn is_whole(&self, at: usize) -> bool {
        self.0[at].0 == Form::Whole
    }
}
