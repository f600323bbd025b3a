//! Any bytes as a block in any codec. The first three bytes say which, and how long the block is to be.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::codec::{Codec, Decompressor};

fuzz_target!(|input: &[u8]| {
    let Some(([codec, low, high], bytes)) = input.split_first_chunk() else { return };
    let codec = Codec::ALL[usize::from(*codec) % Codec::ALL.len()];
    let mut block = vec![0; usize::from(u16::from_le_bytes([*low, *high]))];
    let _ = Decompressor::new().decompress(codec, bytes, &mut block);
});
