//! Any bytes as an encoded block: the first says how, the second of how many pages it is to be.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::codec::{Decompressor, Encoding};
use standfast_core::{Address, PAGE_BYTES, PageRange};
use standfast_format::image::{Contained, Image, ImageIdentity, NewBlock, assemble};
use standfast_format::manifest::{GenerationNumber, JobId};
use standfast_format::records::{JobState, ProcessState};
use standfast_format::{Contents, Run};

fuzz_target!(|input: &[u8]| {
    let Some(([number, pages], stored)) = input.split_first_chunk() else { return };
    let encoding = [Encoding::Lz4, Encoding::Zstd, Encoding::Differences, Encoding::Sparse][usize::from(*number) % 4];
    let pages = u64::from(*pages % 64) + 1;
    if stored.is_empty() || stored.len() >= pages as usize * PAGE_BYTES {
        return;
    }
    let range = PageRange::new(Address::new(0x1000), pages);
    let runs = vec![Run { owner: 0, range, contents: Contents::Stored }];
    let blocks = vec![NewBlock::new(4096, encoding, stored, runs)];
    let identity = ImageIdentity { job: JobId::from_bytes([7; 16]), generation: GenerationNumber::FIRST, parent: None };
    let state = JobState { processes: vec![ProcessState::default()], ..JobState::default() };
    let assembled =
        assemble(identity, Contained { blocks, ..Contained::default() }, &state).expect("it is well formed");
    let image = Image::verify(assembled.header, &assembled.tail).expect("it was just made");
    let block = &image.index.blocks()[0];
    let mut bytes = vec![0x5a; block.page_bytes()];
    if encoding != Encoding::Differences {
        let _ = block.unpack(stored, &mut bytes, &mut Decompressor::new());
    } else if let Ok(differences) = block.differences(stored) {
        for (at, page) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
            let _ = block.apply(stored, &differences, at, page);
        }
    }
});
