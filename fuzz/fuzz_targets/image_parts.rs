//! Any bytes as the tables and the state of an image, under a header whose checksums fit them: what random bytes cannot
//! get past is not in the way here. The first five bytes say how the rest is divided and how many pages there are.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::Checksum;
use standfast_format::image::{HEADER_BYTES, Image, UnverifiedHeader};

const PAGE: u64 = 4096;

fuzz_target!(|input: &[u8]| {
    let Some(([blocks, runs, inherited, pages, kind], tail)) = input.split_first_chunk() else { return };
    let blocks = (usize::from(*blocks) * 40).min(tail.len());
    let runs = (usize::from(*runs) * 16).min(tail.len() - blocks);
    let inherited = (usize::from(*inherited) * 24).min(tail.len() - blocks - runs);
    let page = header(tail, [blocks, runs, inherited], u64::from(*pages), *kind);
    let tail_offset = PAGE * (1 + u64::from(*pages));
    let Ok(header) = UnverifiedHeader::new(&page).and_then(|header| header.verify(tail_offset + tail.len() as u64))
    else {
        return;
    };
    assert_eq!(header.tail(), (tail_offset, tail.len() as u64));
    if let Ok(image) = Image::verify(header, tail) {
        let stored: u64 = image.index.blocks().iter().map(|block| block.page_bytes() as u64 / PAGE).sum();
        assert_eq!(stored, u64::from(*pages));
        assert!(image.index.runs().is_sorted_by_key(|run| (run.owner, run.range.start())));
    }
});

/// A header page as docs/format.md describes it.
fn header(tail: &[u8], [blocks, runs, inherited]: [usize; 3], pages: u64, kind: u8) -> Vec<u8> {
    let data_end = PAGE * (1 + pages);
    let mut page = b"SFIMAGE\n".to_vec();
    for field in [1, PAGE as u32, 1 + u32::from(kind / 128), 0] {
        page.extend(field.to_le_bytes());
    }
    page.extend([2u64, u64::from(kind / 128)].map(u64::to_le_bytes).concat());
    page.extend([0; 16]);
    page.extend([pages, data_end + tail.len() as u64, PAGE, PAGE * pages].map(u64::to_le_bytes).concat());
    let ends = [0, blocks, blocks + runs, blocks + runs + inherited, tail.len()];
    for part in ends.windows(2) {
        page.extend((data_end + part[0] as u64).to_le_bytes());
        page.extend(((part[1] - part[0]) as u64).to_le_bytes());
        page.extend(Checksum::of(&tail[part[0]..part[1]]).to_bytes());
    }
    page.resize(HEADER_BYTES - 16, 0);
    page.extend(Checksum::of(&page).to_bytes());
    page
}
