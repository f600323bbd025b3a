//! Partial sums as bytes: which pages, and each of them raw or in word form.
//!
//! A difference is mostly zero as long as few shares are in it, and then word form pays; each hop makes it denser. A hop
//! tries word form, and sends a part raw as soon as word form needs more than three quarters of the bytes.

use super::accumulator::ones;
use crate::buffers::Buffers;
use standfast_core::delta::Page;
use standfast_core::{PAGE_BYTES, words};

/// Most of its size that a page may take in word form on average; otherwise the part goes raw.
pub(crate) const WORTH: (usize, usize) = (3, 4);
/// Number of pages that are tried before judging.
const TRIED: usize = 4;

const RAW: u8 = 0;
const WORDS: u8 = 1;

/// Why bytes are not the expected pages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pages of a part make no sense: {0}")]
pub struct PartError(String);

/// Copies the pages of some of the stripes that the sums have, sum by sum, in raw form.
pub(super) fn raw(sums: &[&[u8]], had: u64, stripes: u64, buffers: &Buffers) -> Vec<u8> {
    let mut bytes = buffers.empty(sums.len() * stripes.count_ones() as usize * PAGE_BYTES);
    pages(sums, had, stripes).for_each(|page| bytes.extend_from_slice(page));
    bytes
}

/// Encodes the same pages in word form; `None` if that does not pay.
pub(super) fn packed(sums: &[&[u8]], had: u64, stripes: u64) -> Option<Vec<u8>> {
    let pays = |bytes: usize, pages: usize| bytes * WORTH.1 <= pages * PAGE_BYTES * WORTH.0;
    let first = || pages(sums, had, stripes).take(TRIED);
    if !pays(first().map(|page| words::packed_bytes(page).unwrap_or(PAGE_BYTES)).sum(), first().count()) {
        return None;
    }
    // Do not use a pooled buffer: these are far longer.
    let mut bytes = Vec::with_capacity(TRIED * PAGE_BYTES);
    for (count, page) in (1..).zip(pages(sums, had, stripes)) {
        let start = bytes.len();
        bytes.push(WORDS);
        if !words::pack(page, &mut bytes) {
            bytes.truncate(start);
            bytes.push(RAW);
            bytes.extend_from_slice(page);
        }
        if count > TRIED && !pays(bytes.len(), count) {
            return None;
        }
    }
    pays(bytes.len(), sums.len() * stripes.count_ones() as usize).then_some(bytes)
}

/// Calls the closure with sum, stripe within the piece, and page.
pub(super) fn unpack(
    bytes: &[u8],
    sums: usize,
    stripes: u64,
    in_words: bool,
    mut take: impl FnMut(usize, usize, &Page),
) -> Result<(), PartError> {
    let mut rest = bytes;
    let mut page = [0; PAGE_BYTES];
    let cut_off = || PartError("it is cut off".into());
    for sum in 0..sums {
        for stripe in ones(stripes) {
            let form = if in_words {
                let (form, after) = rest.split_first().ok_or_else(cut_off)?;
                rest = after;
                *form
            } else {
                RAW
            };
            match form {
                RAW => {
                    let (raw, after) = rest.split_first_chunk::<PAGE_BYTES>().ok_or_else(cut_off)?;
                    take(sum, stripe, raw);
                    rest = after;
                }
                WORDS => {
                    let length = words::unpack(rest, &mut page).map_err(|error| PartError(error.to_string()))?;
                    take(sum, stripe, &page);
                    rest = &rest[length..];
                }
                other => return Err(PartError(format!("unknown form {other}"))),
            }
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(PartError("more follows after its end".into())) }
}

fn pages<'s>(sums: &'s [&'s [u8]], had: u64, stripes: u64) -> impl Iterator<Item = &'s Page> {
    sums.iter().flat_map(move |sum| {
        let pages = ones(had).zip(sum.as_chunks::<PAGE_BYTES>().0);
        pages.filter(move |(stripe, _)| stripes >> stripe & 1 == 1).map(|(_, page)| page)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_round_trip_through_packing(stripes: u64, changed in 0_usize..600, compress: bool, seed: u64) {
            let mut sum = vec![0; 64 * PAGE_BYTES];
            for stripe in 0..64 {
                for word in 0..changed.min(512) {
                    sum[stripe * PAGE_BYTES + word * 8 + (seed as usize % 8)] = 1 + (word as u8 & 0x7f);
                }
            }
            let sums = [&sum[..], &sum[..]];
            let in_words = if compress { packed(&sums, u64::MAX, stripes) } else { None };
            let words = in_words.is_some();
            let bytes = in_words.unwrap_or_else(|| raw(&sums, u64::MAX, stripes, &Buffers::default()));
            let mut found = vec![vec![0; 64 * PAGE_BYTES]; 2];
            unpack(&bytes, 2, stripes, words, |sum, stripe, page| {
                found[sum][stripe * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(page);
            }).unwrap();
            for (stripe, found) in (0..64).flat_map(|stripe| found.iter().map(move |sum| (stripe, sum))) {
                let range = stripe * PAGE_BYTES..(stripe + 1) * PAGE_BYTES;
                let wanted = if stripes >> stripe & 1 == 1 { &sum[range.clone()] } else { &[0; PAGE_BYTES][..] };
                prop_assert_eq!(&found[range], wanted);
            }
            let raw = stripes.count_ones() as usize * 2 * PAGE_BYTES;
            prop_assert!(bytes.len() <= raw);
            if compress && raw > 0 && changed < 300 {
                prop_assert!(words && bytes.len() < raw * 3 / 4);
            }
            prop_assert!(unpack(&[&bytes[..], &[0]].concat(), 2, stripes, words, |_, _, _| ()).is_err());
            if let Some((_, cut)) = bytes.split_last() {
                prop_assert!(unpack(cut, 2, stripes, words, |_, _, _| ()).is_err());
            }
        }
    }
}
