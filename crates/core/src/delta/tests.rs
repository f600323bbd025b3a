//! Blocks of differences against a reference implementation that follows the paper's text, on all kernels of this
//! machine.

use super::*;
use crate::{MASK_WORDS, words};
use proptest::prelude::*;

/// Returns the form of one page as the paper describes it (C4, C5), word by word.
fn naive(before: &Page, now: &Page) -> (Form, Vec<u8>) {
    let words = |page: &Page| page.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let (before, after): (Vec<u64>, Vec<u64>) = (words(before), words(now));
    let differences: Vec<u64> = iter::zip(before, after).map(|(before, now)| before ^ now).collect();
    let mut bytes: Vec<u8> =
        differences.chunks(8).map(|group| (0..8).map(|bit| u8::from(group[bit] != 0) << bit).sum()).collect();
    bytes.extend(differences.iter().filter(|word| **word != 0).flat_map(|word| word.to_le_bytes()));
    match bytes.len() {
        64 => (Form::Same, Vec::new()),
        length if length < PAGE_BYTES => (Form::Words, bytes),
        _ => (Form::Whole, now.to_vec()),
    }
}

fn naive_block(before: &[Page], now: &[Page]) -> Vec<u8> {
    let parts: Vec<(Form, Vec<u8>)> = iter::zip(before, now).map(|(before, now)| naive(before, now)).collect();
    let payload = parts.iter().flat_map(|(_, bytes)| bytes.clone());
    payload.chain(parts.iter().map(|(form, _)| form.number())).collect()
}

fn noise(seed: u64) -> Page {
    let mut state = seed | 1;
    std::array::from_fn(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
}

/// Generates a page and a changed copy: changed nowhere, in a few places, in the first few words, or everywhere.
fn page_and_change() -> impl Strategy<Value = (Page, Page)> {
    let places = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(0..PAGE_BYTES, 1..30),
        prop::collection::vec(0..PAGE_BYTES, 30..1500),
        (495..=WORDS).prop_map(|words| (0..words).map(|word| word * WORD_BYTES + word % 8).collect()),
    ];
    (any::<u64>(), places, 1u8..).prop_map(|(seed, places, bits)| {
        let before = noise(seed);
        let mut now = before;
        places.iter().for_each(|place| now[*place] = before[*place] ^ bits);
        (before, now)
    })
}

fn pages(most: usize) -> impl Strategy<Value = (Vec<Page>, Vec<Page>)> {
    prop::collection::vec(page_and_change(), 0..most).prop_map(|pages| pages.into_iter().unzip())
}

fn encode(kernel: Kernel, before: &[Page], now: &[Page]) -> (Vec<u8>, Tally) {
    let mut encoder = Encoder::with_kernel(kernel);
    let encoded = encoder.encode(changes(before.as_flattened(), now.as_flattened()));
    (encoded.bytes.to_vec(), encoded.tally)
}

/// Returns one page with this many changed words.
fn with_changed(words: usize) -> Vec<u8> {
    let mut now = [0; PAGE_BYTES];
    (0..words).for_each(|word| now[word * 8 + word % 8] = 1);
    encode(Kernel::default(), &[[0; PAGE_BYTES]], &[now]).0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_kernel_matches_the_naive_twin_and_round_trips((before, now) in pages(12)) {
        let expected = naive_block(&before, &now);
        for kernel in Kernel::available() {
            let (bytes, tally) = encode(kernel, &before, &now);
            prop_assert_eq!(&bytes, &expected, "{}", kernel.name());
            let delta = Delta::parse(&bytes, now.len()).unwrap();
            prop_assert_eq!(delta.tally(), tally);
            let mut back = before.clone();
            delta.apply(&mut back);
            prop_assert!(back == now);
        }
    }

    #[test]
    fn a_patch_writes_the_masked_words_and_keeps_the_others(
        all in prop::collection::vec((page_and_change(), prop::collection::vec((0..MASK_WORDS, 0..80usize), 0..30)), 1..5),
    ) {
        let masked: Vec<(Page, Page, Mask)> = all.into_iter().map(|((before, now), ranges)| {
            let mut mask = Mask::NONE;
            ranges.iter().for_each(|(word, words)| mask.add(*word..(word + words).min(MASK_WORDS)));
            (before, now, mask)
        }).collect();
        let mut encoder = Encoder::new();
        let encoded = encoder.patch(masked.iter().map(|(_, now, mask)| (now, *mask)));
        let delta = Delta::parse(encoded.bytes, masked.len()).unwrap();
        prop_assert_eq!(delta.tally(), encoded.tally);
        let mut pages: Vec<Page> = masked.iter().map(|(before, ..)| *before).collect();
        delta.apply(&mut pages);
        for ((page, form), (before, now, mask)) in pages.iter().zip(delta.forms()).zip(&masked) {
            let mut wanted = *before;
            let bits = mask.to_bytes();
            for at in 0..PAGE_BYTES {
                if form == Form::Whole || bits[at / 32] >> (at / 4 % 8) & 1 == 1 {
                    wanted[at] = now[at];
                }
            }
            prop_assert!(*page == wanted);
            prop_assert_eq!(form == Form::Whole, mask.words() > PATCH_WORDS_MAX);
        }
    }

    #[test]
    fn a_delta_that_parses_encodes_to_the_same_bytes((before, now) in pages(6), at: prop::sample::Index, bits in 1u8.., cut: Option<prop::sample::Index>) {
        let mut bytes = naive_block(&before, &now);
        prop_assume!(!bytes.is_empty());
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(delta) = Delta::parse(&bytes, now.len()) {
            let mut changed = before.clone();
            delta.apply(&mut changed);
            let again = naive_block(&before, &changed);
            let forms: Vec<Form> = delta.forms().collect();
            // A page stored whole or in part may be closer to its before-image than the writer could have known.
            prop_assert!(again == bytes || forms.iter().any(|form| matches!(form, Form::Whole | Form::Patch)));
            prop_assert_eq!(delta.tally().bytes(), bytes.len());
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_make_parse_or_apply_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), any::<u8>()], 0..9000), pages in 0usize..9) {
        if let Ok(delta) = Delta::parse(&bytes, pages) {
            let mut memory = vec![[0; PAGE_BYTES]; pages];
            delta.apply(&mut memory);
        }
    }

    #[test]
    fn a_changed_page_is_encoded_as_its_packed_difference((before, now) in page_and_change()) {
        let difference: Page = std::array::from_fn(|at| before[at] ^ now[at]);
        let mut packed = Vec::new();
        if words::pack(&difference, &mut packed) && before != now {
            packed.push(Form::Words.number());
            prop_assert_eq!(encode(Kernel::default(), &[before], &[now]).0, packed);
        }
    }
}

#[test]
fn a_page_has_the_papers_size_and_breaks_even_at_504_words() {
    for words in [1, 5, 100, 503] {
        assert_eq!(with_changed(words).len(), 64 + 8 * words + 1);
    }
    assert_eq!(with_changed(504).len(), PAGE_BYTES + 1);
    assert_eq!(with_changed(0).len(), 1);
}

#[test]
fn scattered_words_cost_at_most_a_fifth_of_overhead() {
    let before: Vec<Page> = (0..64).map(noise).collect();
    for one_in in [512, 100, 20, 3, 1] {
        let mut now = before.clone();
        let words = now.as_flattened_mut().as_chunks_mut::<8>().0.iter_mut().step_by(one_in);
        let changed = words.map(|word| word[3] ^= 1).count();
        let (bytes, _) = encode(Kernel::default(), &before, &now);
        let bound = (8 * changed + 64 * 64) * 12 / 10;
        assert!(bytes.len() <= bound, "one in {one_in}: {} of {bound}", bytes.len());
    }
}

#[test]
fn delta_errors_name_the_page_and_the_fault() {
    let good = with_changed(3);
    let error = |bytes: &[u8], pages| Delta::parse(bytes, pages).unwrap_err();
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let last = good.len() - 1;
    assert_eq!(error(&[], 1), DeltaError::CutOff { page: 0 });
    assert_eq!(error(&[&good[..last - 1], &[1]].concat(), 1), DeltaError::CutOff { page: 0 });
    assert_eq!(error(&with(last, 2), 1), DeltaError::CutOff { page: 0 });
    assert_eq!(error(&with(last, 4), 1), DeltaError::UnknownForm { page: 0, form: 4 });
    assert_eq!(error(&with(last, 0), 1), DeltaError::TooLong { bytes: last });
    assert_eq!(error(&with(0, 0b11), 1), DeltaError::TooLong { bytes: 8 });
    assert_eq!(error(&with(0, 0b1111), 1), DeltaError::CutOff { page: 0 });
    assert_eq!(error(&with(0, 0), 1), DeltaError::Senseless { page: 0 });
    assert_eq!(error(&with(64, 0), 1), DeltaError::Senseless { page: 0 });
    let mut crowded = vec![0xff; 64 + 504 * 8];
    crowded[63] = 0;
    crowded.push(1);
    assert_eq!(error(&crowded, 1), DeltaError::Senseless { page: 0 });
}

#[test]
fn an_encoder_reuses_its_memory_for_shorter_blocks() {
    let before: Vec<Page> = (0..8).map(noise).collect();
    let now: Vec<Page> = (8..16).map(noise).collect();
    let mut few = before.clone();
    few.as_flattened_mut().iter_mut().step_by(700).for_each(|byte| *byte ^= 1);
    for kernel in Kernel::available() {
        let mut encoder = Encoder::with_kernel(kernel);
        encoder.encode(changes(before.as_flattened(), now.as_flattened()));
        let (place, capacity) = (encoder.bytes.as_ptr(), encoder.bytes.capacity());
        for length in 0..=8 {
            for after in [&now[..length], &few[..length], &before[..length]] {
                let encoded = encoder.encode(changes(before[..length].as_flattened(), after.as_flattened()));
                assert_eq!(encoded.bytes, naive_block(&before[..length], after));
            }
        }
        assert_eq!((encoder.bytes.as_ptr(), encoder.bytes.capacity()), (place, capacity));
    }
}

#[test]
fn parts_can_be_applied_page_by_page() {
    let before: Vec<Page> = (0..6).map(noise).collect();
    let mut now = before.clone();
    now[1] = noise(77);
    now[3].iter_mut().step_by(900).for_each(|byte| *byte ^= 1);
    now[5][4095] ^= 1;
    let mut encoder = Encoder::new();
    let encoded = encoder.encode(changes(before.as_flattened(), now.as_flattened()));
    let delta = Delta::parse(encoded.bytes, now.len()).unwrap();
    let parts: Vec<_> = delta.parts().collect();
    assert_eq!(parts.len(), now.len());
    for (at, (form, range)) in parts.into_iter().enumerate() {
        let mut page = before[at];
        assert_eq!(apply_part(form, &encoded.bytes[range.clone()], &mut page), range.len());
        assert_eq!(page, now[at], "{at}");
    }
}
