//! Any bytes as a whole image file: header first, then what it names. Checksums are left as they come.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_format::image::{Image, UnverifiedHeader};

fuzz_target!(|file: &[u8]| {
    let Ok(header) = UnverifiedHeader::new(file).and_then(|header| header.verify(file.len() as u64)) else { return };
    let (offset, bytes) = header.tail();
    let tail = &file[offset as usize..][..bytes as usize];
    if let Ok(image) = Image::verify(header, tail) {
        for block in image.index.blocks() {
            let _ = block.verify(&file[block.offset() as usize..][..block.bytes()]);
        }
    }
});
