//! The word form of a page (C4, C5): a bitmap of its nonzero words, and these words.
//!
//! It is meant for differences, which are mostly zero: a page with one changed word takes 72 bytes instead of 4096. The
//! sum of two such pages has this form again (D7: unpack, add, pack again at each hop). It is not a codec for pages of
//! data.
//!
//! ```text
//! 0          64         64 + 8 c
//! +----------+-------------+     bit w of the bitmap: word w is not zero
//! | bitmap   | c words     |
//! +----------+-------------+
//! ```

use crate::PAGE_BYTES;

const WORD_BYTES: usize = 8;
const WORDS: usize = PAGE_BYTES / WORD_BYTES;
const BITMAP_BYTES: usize = WORDS / 8;

/// Largest number of words for which this form is shorter than the page itself: 503 of 512.
pub const WORDS_MAX: usize = (PAGE_BYTES - BITMAP_BYTES - 1) / WORD_BYTES;

/// The reason why some bytes are not a page in word form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// The bytes end too early.
    #[error("a page in word form is cut off")]
    CutOff,
    /// The page would be shorter in raw form, or one of the words is zero: no writer produces that.
    #[error("a page in word form is not the one that its page gives")]
    Senseless,
}

/// Returns the length of the page in word form; `None` if that would not be shorter.
pub fn packed_bytes(page: &[u8; PAGE_BYTES]) -> Option<usize> {
    let (words, _) = page.as_chunks::<WORD_BYTES>();
    let count = words.iter().filter(|word| **word != [0; WORD_BYTES]).count();
    (count <= WORDS_MAX).then_some(BITMAP_BYTES + count * WORD_BYTES)
}

/// Appends the page in word form. Returns `false` and appends nothing if that would not be shorter.
pub fn pack(page: &[u8; PAGE_BYTES], into: &mut Vec<u8>) -> bool {
    let Some(length) = packed_bytes(page) else { return false };
    let start = into.len();
    into.reserve(length);
    into.resize(start + BITMAP_BYTES, 0);
    let (words, _) = page.as_chunks::<WORD_BYTES>();
    for (index, word) in words.iter().enumerate().filter(|(_, word)| **word != [0; WORD_BYTES]) {
        into[start + index / 8] |= 1 << (index % 8);
        into.extend_from_slice(word);
    }
    true
}

/// Decodes a page, and returns how many bytes it took.
///
/// # Errors
/// If the bytes are not exactly what [`pack`] appends for some page.
pub fn unpack(bytes: &[u8], page: &mut [u8; PAGE_BYTES]) -> Result<usize, WordsError> {
    let Some((bitmap, rest)) = bytes.split_first_chunk::<BITMAP_BYTES>() else { return Err(WordsError::CutOff) };
    let count = bitmap.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
    if count > WORDS_MAX {
        return Err(WordsError::Senseless);
    }
    let Some(packed) = rest.get(..count * WORD_BYTES) else { return Err(WordsError::CutOff) };
    page.fill(0);
    let (words, _) = page.as_chunks_mut::<WORD_BYTES>();
    let marked = (0..WORDS).filter(|index| bitmap[index / 8] >> (index % 8) & 1 == 1);
    let (packed, _) = packed.as_chunks::<WORD_BYTES>();
    for (index, word) in marked.zip(packed) {
        if *word == [0; WORD_BYTES] {
            return Err(WordsError::Senseless);
        }
        words[index] = *word;
    }
    Ok(BITMAP_BYTES + count * WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the form as the paper describes it, word by word.
    fn pack_naive(page: &[u8; PAGE_BYTES]) -> Option<Vec<u8>> {
        let changed: Vec<usize> =
            (0..WORDS).filter(|word| page[word * 8..word * 8 + 8].iter().any(|byte| *byte != 0)).collect();
        let mut bytes: Vec<u8> = (0..BITMAP_BYTES)
            .map(|at| (0..8).map(|bit| u8::from(changed.contains(&(at * 8 + bit))) << bit).sum())
            .collect();
        changed.iter().for_each(|word| bytes.extend(&page[word * 8..word * 8 + 8]));
        (bytes.len() < PAGE_BYTES).then_some(bytes)
    }

    fn page_with(words: usize) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        (0..words).for_each(|word| page[word * 8 + word % 8] = 1);
        page
    }

    proptest! {
        #[test]
        fn pack_agrees_with_its_naive_twin_and_unpack_undoes_it(places in prop::collection::vec((0..PAGE_BYTES, 1u8..), 0..600)) {
            let mut page = [0; PAGE_BYTES];
            places.iter().for_each(|(place, value)| page[*place] = *value);
            let mut bytes = vec![7];
            let packed = pack(&page, &mut bytes);
            prop_assert_eq!(packed.then(|| bytes[1..].to_vec()), pack_naive(&page));
            prop_assert_eq!(packed.then_some(bytes.len() - 1), packed_bytes(&page));
            if packed {
                let mut back = [9; PAGE_BYTES];
                prop_assert_eq!(unpack(&bytes[1..], &mut back), Ok(bytes.len() - 1));
                prop_assert_eq!(back, page);
            } else {
                prop_assert_eq!(bytes, [7]);
            }
        }

        #[test]
        fn bytes_that_unpack_pack_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
            let mut page = [0; PAGE_BYTES];
            if let Ok(length) = unpack(&bytes, &mut page) {
                let mut again = Vec::new();
                prop_assert!(pack(&page, &mut again));
                prop_assert_eq!(again.as_slice(), &bytes[..length]);
            }
        }
    }

    #[test]
    fn packing_is_used_below_504_changed_words() {
        let mut bytes = Vec::new();
        assert!(pack(&page_with(503), &mut bytes));
        assert_eq!(bytes.len(), 64 + 503 * 8);
        assert!(!pack(&page_with(504), &mut bytes));
    }
}
