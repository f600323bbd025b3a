//! Compressed blocks decompress to the original, and anything else is rejected within its bounds.

use super::*;
use proptest::prelude::*;

/// Generates blocks like those in memory: zeros, noise, small numbers, repetitive text, and mixtures of these.
fn block() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (0usize..9000).prop_map(|length| vec![0; length]),
        prop::collection::vec(any::<u8>(), 0..5000),
        prop::collection::vec(0u32..900, 0..3000)
            .prop_map(|numbers| numbers.iter().flat_map(|n| n.to_le_bytes()).collect()),
        (prop::collection::vec(any::<u8>(), 1..40), 1usize..400).prop_map(|(word, times)| word.repeat(times)),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn packed(codec: Codec, block: &[u8]) -> (Codec, Vec<u8>) {
    let mut compressor = Compressor::new();
    let packed = compressor.compress(codec, block);
    (packed.codec, packed.bytes.to_vec())
}

fn unpacked(codec: Codec, bytes: &[u8], length: usize) -> Result<Vec<u8>, CodecError> {
    let mut block = vec![0xaa; length];
    Decompressor::new().decompress(codec, bytes, &mut block).map(|()| block)
}

const TEXT: &[u8] = b"the same, the same, the same, the same, the same, the same, the same, the same, the same";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn every_block_comes_back_from_every_codec(blocks in prop::collection::vec(block(), 1..4), asked in prop::sample::select(&Codec::ALL)) {
        let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
        for block in blocks {
            let packed = compressor.compress(asked, &block);
            let zero = block.iter().all(|byte| *byte == 0);
            prop_assert_eq!(packed.codec == Codec::Zero, zero);
            prop_assert!(packed.codec == asked || packed.codec == Codec::Raw || zero);
            prop_assert!(packed.bytes.len() < block.len() || packed.codec == Codec::Raw || block.is_empty());
            let mut back = vec![0xaa; block.len()];
            prop_assert_eq!(decompressor.decompress(packed.codec, packed.bytes, &mut back), Ok(()));
            prop_assert_eq!(back, block);
        }
    }

    #[test]
    fn a_block_is_refused_under_any_other_length_or_codec(block in block(), asked in prop::sample::select(&Codec::ALL), other in 0usize..40_000) {
        let (codec, bytes) = packed(asked, &block);
        if other != block.len() && codec != Codec::Zero {
            prop_assert!(unpacked(codec, &bytes, other).is_err());
        }
        if codec == Codec::Lz4 {
            prop_assert!(unpacked(Codec::Zstd, &bytes, block.len()).is_err());
        }
    }

    #[test]
    fn damaged_blocks_are_refused_or_decode_to_full_length(block in block(), asked in prop::sample::select(&Codec::ALL), at: prop::sample::Index, bits in 1u8.., cut: Option<prop::sample::Index>) {
        let (codec, mut bytes) = packed(asked, &block);
        prop_assume!(!bytes.is_empty());
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(back) = unpacked(codec, &bytes, block.len()) {
            prop_assert_eq!(back.len(), block.len());
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_make_the_decompressor_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), codec in prop::sample::select(&Codec::ALL), length in 0usize..10_000) {
        let _ = unpacked(codec, &bytes, length);
    }
}

#[test]
fn trailing_bytes_and_extra_zstd_frames_are_refused() {
    let (codec, frame) = packed(Codec::Zstd, TEXT);
    assert_eq!(codec, Codec::Zstd);
    let refused = |bytes: &[u8], length| unpacked(Codec::Zstd, bytes, length).unwrap_err();
    let contents = |expected| CodecError::Contents { codec, expected };
    assert_eq!(refused(&[&frame[..], &[0]].concat(), TEXT.len()), contents(TEXT.len()));
    assert_eq!(refused(&[&frame[..], &frame].concat(), 2 * TEXT.len()), contents(2 * TEXT.len()));
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9];
    assert_eq!(refused(&[&skipped[..], &frame].concat(), TEXT.len()), contents(TEXT.len()));
    assert_eq!(refused(&frame[..frame.len() - 1], TEXT.len()), CodecError::Damaged { codec });
}

#[test]
fn content_larger_than_the_block_is_refused() {
    let (codec, frame) = packed(Codec::Zstd, &vec![7; BLOCK_BYTES_MAX]);
    assert_eq!(codec, Codec::Zstd);
    let error = unpacked(Codec::Zstd, &frame, 4096).unwrap_err();
    assert_eq!(error, CodecError::Contents { codec, expected: 4096 });
    let too_long = unpacked(Codec::Zero, &[], BLOCK_BYTES_MAX + 1).unwrap_err();
    assert_eq!(too_long, CodecError::TooLong { bytes: BLOCK_BYTES_MAX + 1 });
}

#[test]
fn lz4_data_of_another_length_than_the_block_is_refused() {
    let (codec, bytes) = packed(Codec::Lz4, TEXT);
    assert_eq!(codec, Codec::Lz4);
    let expected = TEXT.len() - 1;
    assert_eq!(unpacked(Codec::Lz4, &bytes, expected).unwrap_err(), CodecError::Contents { codec, expected });
    let expected = TEXT.len() + 1;
    assert_eq!(unpacked(Codec::Lz4, &bytes, expected).unwrap_err(), CodecError::Contents { codec, expected });
}

#[test]
fn a_block_that_shrinks_by_less_than_a_sixteenth_is_stored_raw() {
    let mut state = 1_u64;
    let mut block: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(64 << 10)
    .collect();
    block[..2048].fill(1);
    for codec in [Codec::Lz4, Codec::Zstd] {
        assert_eq!(packed(codec, &block).0, Codec::Raw);
    }
    block[..8192].fill(1);
    for codec in [Codec::Lz4, Codec::Zstd] {
        assert_eq!(packed(codec, &block).0, codec);
    }
}

#[test]
fn codec_numbers_on_disk_are_fixed() {
    assert_eq!(Codec::ALL.map(Codec::number), [0, 1, 2, 3]);
    assert_eq!(Codec::ALL.map(|codec| Codec::from_number(codec.number())), Codec::ALL.map(Some));
    assert_eq!(Codec::from_number(4), None);
}
