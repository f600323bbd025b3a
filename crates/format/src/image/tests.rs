//! Whole images in memory: an assembled image reads back, a change anywhere is found, and no bytes make a decoder
//! panic.

use super::header::STATE_BYTES_MAX;
use super::*;
use crate::manifest::{GenerationNumber, JobId};
use crate::records::ProcessState;
use crate::{Contents, Run};
use proptest::prelude::*;
use standfast_core::codec::{Decompressor, Encoding};
use standfast_core::{Address, Checksum, MASK_WORDS, Mask, PAGE_BYTES, PageRange, Root};

fn identity() -> ImageIdentity {
    ImageIdentity { job: JobId::from_bytes([7; 16]), generation: GenerationNumber::new(3).unwrap(), parent: None }
}

fn state() -> JobState {
    JobState { processes: vec![ProcessState::default(), ProcessState::default()], ..JobState::default() }
}

fn run(owner: u32, first_page: u64, pages: u64, contents: Contents) -> Run {
    Run { owner, range: PageRange::new(Address::new(first_page * PAGE_BYTES as u64), pages), contents }
}

fn stored(owner: u32, first_page: u64, pages: u64) -> Run {
    run(owner, first_page, pages, Contents::Stored)
}

fn contained(blocks: Vec<NewBlock>, zeros: &[Run]) -> Contained {
    Contained { blocks, zeros: zeros.to_vec(), ..Contained::default() }
}

fn inherited(owner: u32, first_page: u64, pages: u64, was: u32) -> Inherited {
    Inherited { owner, range: stored(owner, first_page, pages).range, was }
}

/// Builds an image file with these blocks, filled with bytes that differ from page to page.
fn file_of(blocks: &[&[Run]], zeros: &[Run]) -> Vec<u8> {
    file_with(identity(), blocks, zeros, &[])
}

fn file_with(identity: ImageIdentity, blocks: &[&[Run]], zeros: &[Run], inherited: &[Inherited]) -> Vec<u8> {
    let mut file = vec![0; HEADER_BYTES];
    let mut new_blocks = Vec::new();
    for runs in blocks {
        let pages: u64 = runs.iter().map(|run| run.range.pages()).sum();
        let offset = file.len();
        file.extend((0..pages).flat_map(|page| vec![(offset / PAGE_BYTES) as u8 + page as u8 + 1; PAGE_BYTES]));
        new_blocks.push(NewBlock::new(offset as u64, Encoding::Raw, &file[offset..], runs.to_vec()));
    }
    // Writers finish in any order.
    new_blocks.reverse();
    let contained = Contained { inherited: inherited.to_vec(), ..contained(new_blocks, zeros) };
    let assembled = assemble(identity, contained, &state()).unwrap();
    assert_eq!(assembled.header.tail(), (file.len() as u64, assembled.tail.len() as u64));
    file.extend_from_slice(&assembled.tail);
    file[..HEADER_BYTES].copy_from_slice(assembled.header_page());
    file
}

fn small_file() -> Vec<u8> {
    file_of(&[&[stored(0, 5, 1)]], &[run(1, 9, 2, Contents::Zero)])
}

fn with_parent() -> ImageIdentity {
    let parent = Parent { generation: GenerationNumber::new(2).unwrap(), origin: Root::of(&[b"two"]) };
    ImageIdentity { parent: Some(parent), ..identity() }
}

fn incremental_file() -> Vec<u8> {
    let inherited = [inherited(0, 1, 4, 0), inherited(0, 6, 1 << 33, 0), inherited(1, 5, 4, 0)];
    file_with(with_parent(), &[&[stored(0, 5, 1)]], &[run(1, 9, 2, Contents::Zero)], &inherited)
}

/// Verifies every byte of a file, as a restart does.
fn verify_all(file: &[u8]) -> Result<Image, ImageError> {
    let header = UnverifiedHeader::new(file)?.verify(file.len() as u64)?;
    let image = Image::verify(header.clone(), &file[header.tail().0 as usize..])?;
    for block in image.index.blocks() {
        block.verify(&file[block.offset() as usize..][..block.bytes()])?;
    }
    Ok(image)
}

/// Recomputes all checksums of the frame, as far as the part offsets in the header allow. A changed file then passes
/// them and reaches the later checks.
fn reseal(file: &mut [u8]) {
    const SECTIONS_OFFSET: usize = 88;
    for section in 0..4 {
        let at = SECTIONS_OFFSET + 32 * section;
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
        let (offset, bytes) = (word(at), word(at + 8));
        if let Some(content) = offset.checked_add(bytes).and_then(|end| file.get(offset..end)) {
            let checksum = Checksum::of(content).to_bytes();
            file[at + 16..at + 32].copy_from_slice(&checksum);
        }
    }
    let checksum = Checksum::of(&file[..HEADER_BYTES - 16]).to_bytes();
    file[HEADER_BYTES - 16..HEADER_BYTES].copy_from_slice(&checksum);
}

#[test]
fn an_image_reads_back_as_it_was_assembled() {
    let file = file_of(&[&[stored(0, 5, 3), stored(1, 1, 61)], &[stored(0, 8, 2)]], &[run(0, 20, 1, Contents::Zero)]);
    let image = verify_all(&file).unwrap();
    assert_eq!(image.header.identity(), identity());
    assert_eq!((image.header.stored_pages(), image.header.file_bytes()), (66, file.len() as u64));
    assert_eq!(image.state, state());
    assert_eq!(image.index.runs_of(0..1), [stored(0, 5, 3), stored(1, 1, 61)]);
    assert_eq!(image.index.runs_of(0..2), [stored(0, 5, 3), stored(1, 1, 61), stored(0, 8, 2)]);
    let sorted = [stored(0, 5, 5), run(0, 20, 1, Contents::Zero), stored(1, 1, 61)];
    assert_eq!(image.index.runs(), sorted, "ascending, neighbours joined");
}

#[test]
fn an_incremental_image_lists_its_inherited_pages() {
    let image = verify_all(&incremental_file()).unwrap();
    assert_eq!(image.header.identity(), with_parent());
    assert_eq!(image.index.inherited(), [inherited(0, 1, 4, 0), inherited(0, 6, 1 << 33, 0), inherited(1, 5, 4, 0)]);
    assert_eq!(image.index.runs(), [stored(0, 5, 1), run(1, 9, 2, Contents::Zero)]);
}

#[test]
fn invalid_inheritance_is_neither_written_nor_read() {
    let cases = [
        (with_parent(), vec![inherited(0, 5, 1, 0)], "image's own"),
        (with_parent(), vec![inherited(1, 1, 20, 0)], "image's own"),
        (with_parent(), vec![inherited(1, 1, 1, 0), inherited(0, 1, 1, 0)], "out of order"),
        (with_parent(), vec![inherited(0, 1, 2, 0), inherited(0, 2, 1, 1)], "out of order"),
        (with_parent(), vec![inherited(2, 1, 1, 0)], "owner"),
        (with_parent(), vec![], "in spite of"),
        (identity(), vec![inherited(0, 1, 1, 0)], "without a parent"),
        (
            ImageIdentity { generation: GenerationNumber::new(2).unwrap(), ..with_parent() },
            vec![inherited(0, 1, 1, 0)],
            "older",
        ),
    ];
    for (identity, inherited, why) in cases {
        let blocks = vec![NewBlock::new(4096, Encoding::Raw, &[0; 4096], vec![stored(0, 5, 1)])];
        let contained = Contained { inherited, ..contained(blocks, &[run(1, 9, 2, Contents::Zero)]) };
        let error = assemble(identity, contained, &state()).unwrap_err();
        assert!(error.to_string().contains(why), "{why}: {error}");
    }
    let mut file = incremental_file();
    let table = verify_all(&file).unwrap().header.tail().0 as usize + 40 + 2 * 16;
    file[table..table + 8].copy_from_slice(&(5u64 * 4096).to_le_bytes());
    reseal(&mut file);
    assert!(matches!(verify_all(&file), Err(ImageError::Senseless(ImagePart::InheritedTable, _))));
}

#[test]
fn every_flipped_bit_is_detected() {
    for mut file in [small_file(), incremental_file()] {
        assert!(verify_all(&file).is_ok());
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(verify_all(&file).is_err(), "bit {} of byte {}", bit % 8, bit / 8);
            file[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_wrong_length_is_detected() {
    let file = incremental_file();
    for length in 0..file.len() {
        assert!(verify_all(&file[..length]).is_err(), "cut to {length} bytes");
    }
    let longer = [&file[..], &[0; 64]].concat();
    for length in file.len() + 1..longer.len() {
        assert!(verify_all(&longer[..length]).is_err(), "{length} bytes instead of {}", file.len());
    }
}

#[test]
fn an_image_of_a_later_version_asks_for_a_newer_standfast() {
    let mut file = small_file();
    file[8] = IMAGE_VERSION as u8 + 1;
    assert_eq!(verify_all(&file), Err(ImageError::Version(IMAGE_VERSION + 1)));
    assert_eq!(verify_all(&[0; 2 * HEADER_BYTES]), Err(ImageError::Foreign), "no header was written");
}

#[test]
fn a_duplicate_page_is_neither_written_nor_read() {
    let block = |offset, runs: &[Run]| {
        let pages: u64 = runs.iter().map(|run| run.range.pages()).sum();
        NewBlock::new(offset, Encoding::Raw, &vec![0; pages as usize * PAGE_BYTES], runs.to_vec())
    };
    let twice = vec![block(4096, &[stored(0, 5, 2)]), block(4096 * 3, &[stored(0, 6, 1)])];
    assert!(matches!(
        assemble(identity(), contained(twice, &[]), &state()),
        Err(ImageError::Senseless(ImagePart::RunTable, _))
    ));
    let zero_over_stored = [run(0, 5, 1, Contents::Zero)];
    assert!(
        assemble(identity(), contained(vec![block(4096, &[stored(0, 5, 1)])], &zero_over_stored), &state()).is_err()
    );

    let mut file = small_file();
    let (tail, _) = verify_all(&file).unwrap().header.tail();
    // The run of zeros replaces the stored run: process 0, page 5.
    let (stored_run, zero_run) = (tail as usize + 40, tail as usize + 56);
    file.copy_within(stored_run..stored_run + 12, zero_run);
    reseal(&mut file);
    assert!(matches!(verify_all(&file), Err(ImageError::Senseless(ImagePart::RunTable, why)) if why.contains("twice")));
}

#[test]
fn pages_of_an_unknown_process_are_neither_written_nor_read() {
    let block = NewBlock::new(4096, Encoding::Raw, &[0; 4096], vec![stored(2, 5, 1)]);
    assert!(assemble(identity(), contained(vec![block], &[]), &state()).is_err());
    assert!(assemble(identity(), Contained::default(), &JobState::default()).is_err(), "a job has a process");
    let mut file = small_file();
    let (tail, _) = verify_all(&file).unwrap().header.tail();
    file[tail as usize + 56 + 8] = 2;
    reseal(&mut file);
    assert!(matches!(verify_all(&file), Err(ImageError::Senseless(ImagePart::RunTable, _))));
}

#[test]
fn an_unknown_encoding_is_refused_with_the_reason() {
    let mut file = small_file();
    let (tail, _) = verify_all(&file).unwrap().header.tail();
    file[tail as usize + 16] = Encoding::ALL.len() as u8;
    reseal(&mut file);
    assert!(
        matches!(verify_all(&file), Err(ImageError::Senseless(ImagePart::BlockTable, why)) if why.contains("encoding"))
    );
}

#[test]
fn a_state_too_long_to_read_is_not_written() {
    let mut state = state();
    state.processes[0].working_directory = vec![b'x'; STATE_BYTES_MAX as usize + 1].into();
    let result = assemble(identity(), Contained::default(), &state);
    assert!(matches!(result, Err(ImageError::TooLong { part: ImagePart::State, .. })));
}

#[test]
fn runs_longer_than_a_table_entry_can_say_are_cut_and_joined_again() {
    let long = run(0, 1, (1 << 32) + 5, Contents::Zero);
    let file = file_of(&[], &[long]);
    assert_eq!(verify_all(&file).unwrap().index.runs(), [long]);
}

#[test]
fn tables_of_a_gigabyte_are_small_even_if_pages_are_scattered() {
    const PAGES: u64 = 1 << 18;
    let blocks = |stride: u64| {
        let block = |first: u64| {
            let page = |at: u64| stored(0, (first + at) * stride, 1);
            let runs = if stride == 1 { vec![stored(0, first, 64)] } else { (0..64).map(page).collect() };
            let (checksum, stored_bytes) = (Checksum::of(&first.to_le_bytes()), 64 * PAGE_BYTES as u32);
            NewBlock { offset: 4096 * (1 + first), encoding: Encoding::Raw, stored_bytes, checksum, runs }
        };
        (0..PAGES).step_by(64).map(block).collect::<Vec<_>>()
    };
    let piece = assemble(identity(), contained(blocks(1), &[]), &state()).unwrap();
    let scattered = assemble(identity(), contained(blocks(2), &[]), &state()).unwrap();
    assert!(piece.tail.len() < 256 << 10, "{}", piece.tail.len());
    assert!(scattered.tail.len() < 5 << 20, "{}", scattered.tail.len());
    assert_eq!(Image::verify(piece.header, &piece.tail).unwrap().index.runs(), [stored(0, 0, PAGES)]);
    assert_eq!(Image::verify(scattered.header, &scattered.tail).unwrap().index.runs().len(), PAGES as usize);
}

prop_compose! {
    /// Generates changes after the data area and in the used part of the header, where decoders read.
    fn changes()(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) -> Vec<(prop::sample::Index, u8)> {
        changes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn changed_bytes_with_valid_checksums_are_refused_or_consistent(changes in changes(), resealed: bool) {
        let inherited = [inherited(0, 10, 8, 1), inherited(0, 30, 2, 1)];
        let good = file_with(with_parent(), &[&[stored(0, 5, 3), stored(1, 1, 2)], &[stored(0, 8, 2)]], &[run(0, 20, 1, Contents::Zero)], &inherited);
        let mut file = good.clone();
        let tail = verify_all(&good).unwrap().header.tail().0 as usize;
        let places: Vec<usize> = (0..248).chain(tail..file.len()).collect();
        for (place, value) in changes {
            file[places[place.index(places.len())]] = value;
        }
        if resealed {
            reseal(&mut file);
        }
        match verify_all(&file) {
            Ok(image) => {
                let pages: u64 = image.index.blocks().iter().map(|block| block.bytes() as u64 / PAGE_BYTES as u64).sum();
                prop_assert_eq!(pages, image.header.stored_pages());
                prop_assert!(image.index.runs().windows(2).all(|pair| (pair[0].owner, pair[0].range.end()) <= (pair[1].owner, pair[1].range.start())));
                prop_assert!(resealed || file == good);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn no_bytes_make_the_decoders_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), table in 0usize..4) {
        let mut file = incremental_file();
        let header = verify_all(&file).unwrap().header;
        let ends = [0, 40, 72, 144, header.tail().1 as usize].map(|end| header.tail().0 as usize + end);
        // One part is replaced by arbitrary bytes, and the header adjusted.
        let part = ends[table]..ends[table + 1];
        let grown = bytes.len() as u64;
        file.splice(part.clone(), bytes);
        let put = |file: &mut Vec<u8>, at: usize, value: u64| file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(&mut file, 88 + 32 * table + 8, grown);
        for (later, start) in ends.iter().enumerate().take(4).skip(table + 1) {
            put(&mut file, 88 + 32 * later, *start as u64 + grown - part.len() as u64);
        }
        let length = file.len() as u64;
        put(&mut file, 64, length);
        reseal(&mut file);
        let _ = verify_all(&file);
    }
}

/// Generates pages: some repeat themselves, some are noise and some nearly equal `before`.
fn pages_like(before: &[u8], kinds: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut pages = before.to_vec();
    for (page, kind) in pages.as_chunks_mut::<PAGE_BYTES>().0.iter_mut().zip(kinds) {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        match kind {
            0 => {}
            1 => page[next() % PAGE_BYTES] ^= 1,
            2 => page.fill(*kind),
            _ => page.iter_mut().for_each(|byte| *byte = next() as u8),
        }
    }
    pages
}

proptest! {
    #[test]
    fn every_encoding_round_trips_and_is_used_only_if_smaller(
        kinds in prop::collection::vec(0u8..4, 1..=64),
        seed: u64,
    ) {
        let before = pages_like(&vec![0; kinds.len() * PAGE_BYTES], &vec![3; kinds.len()], seed);
        let pages = pages_like(&before, &kinds, seed ^ 77);
        let mut encoder = BlockEncoder::default();
        for encoding in Encoding::ALL {
            let Some(stored) = encoder.encode(encoding, &before, &pages).map(<[u8]>::to_vec) else { continue };
            prop_assert!(stored.len() < pages.len());
            let block = block_of(encoding, &stored, kinds.len() as u64);
            prop_assert_eq!(decoded(&block, &stored, &before), Ok(pages.clone()), "{}", encoding);
            // A difference applied to the wrong page is noticed.
            if encoding == Encoding::Differences && kinds.iter().any(|kind| *kind < 2) {
                let other: Vec<u8> = before.iter().map(|byte| byte ^ 0x40).collect();
                prop_assert!(decoded(&block, &stored, &other).is_err());
            }
        }
        prop_assert_eq!(encoder.encode(Encoding::Raw, &before, &pages), None);
    }

    #[test]
    fn patches_restore_masked_words_and_keep_the_parents_others(
        starts in prop::collection::vec(0usize..MASK_WORDS, 1..=64),
        words in 0usize..900,
        seed: u64,
    ) {
        let before = pages_like(&vec![0; starts.len() * PAGE_BYTES], &vec![3; starts.len()], seed);
        let pages = pages_like(&before, &vec![3; starts.len()], seed ^ 77);
        let masks: Vec<Mask> = starts.iter().map(|start| {
            let mut mask = Mask::NONE;
            mask.add(*start..(start + words).min(MASK_WORDS));
            mask
        }).collect();
        let mut encoder = BlockEncoder::default();
        let Some(stored) = encoder.patch(&pages, &masks).map(<[u8]>::to_vec) else { return Ok(()) };
        let block = block_of(Encoding::Differences, &stored, starts.len() as u64);
        let mut wanted = before.clone();
        for ((page, now), mask) in wanted.as_chunks_mut().0.iter_mut().zip(pages.as_chunks().0).zip(&masks) {
            let mut words = [0; PAGE_BYTES];
            let bytes = mask.gather(now, &mut words);
            mask.scatter(&words[..bytes], page);
        }
        prop_assert!(decoded(&block, &stored, &before) == Ok(wanted));
        let mut damaged = stored.clone();
        damaged[stored.len() - starts.len() - 1] ^= 1;
        prop_assert!(words == 0 || decoded(&block, &damaged, &before).is_err());
    }

    #[test]
    fn arbitrary_block_bytes_do_not_make_decoding_panic(
        number in 0..Encoding::ALL.len() as u32, pages in 1u64..5, stored in prop::collection::vec(any::<u8>(), 1..300), seed: u64,
    ) {
        let encoding = Encoding::from_number(number).unwrap();
        let block = block_of(encoding, &stored, pages);
        let before = pages_like(&vec![0; pages as usize * PAGE_BYTES], &[3; 5], seed);
        let _ = decoded(&block, &stored, &before);
    }
}

/// Builds the entry of a block with matching checksums, as decoded from the tables.
fn block_of(encoding: Encoding, stored_bytes: &[u8], pages: u64) -> Block {
    if encoding == Encoding::Raw {
        return block_of(Encoding::Lz4, stored_bytes, pages);
    }
    let block = NewBlock::new(4096, encoding, stored_bytes, vec![stored(0, 5, pages)]);
    let assembled = assemble(identity(), contained(vec![block], &[]), &state()).unwrap();
    Image::verify(assembled.header, &assembled.tail).unwrap().index.blocks()[0].clone()
}

fn decoded(block: &Block, stored: &[u8], before: &[u8]) -> Result<Vec<u8>, ImageError> {
    let mut pages = before.to_vec();
    if block.encoding() == Encoding::Differences {
        let differences = block.differences(stored)?;
        for (at, page) in pages.as_chunks_mut::<PAGE_BYTES>().0.iter_mut().enumerate() {
            block.apply(stored, &differences, at, page)?;
        }
    } else {
        block.unpack(stored, &mut pages, &mut Decompressor::new())?;
    }
    Ok(pages)
}

#[test]
fn an_image_records_the_base_process_of_its_differences() {
    let bases = vec![Base { owner: 0, was: 1 }, Base { owner: 1, was: 0 }];
    let made = Contained { bases: bases.clone(), inherited: vec![inherited(0, 1, 4, 0)], ..Contained::default() };
    let assembled = assemble(with_parent(), made, &state()).unwrap();
    let image = Image::verify(assembled.header, &assembled.tail).unwrap();
    assert_eq!((image.index.base_of(0), image.index.base_of(1), image.index.base_of(2)), (Some(1), Some(0), None));
    assert_eq!(image.index.inherited(), [inherited(0, 1, 4, 0)]);
    let twice = Contained { bases: [&bases[..1], &bases[..1]].concat(), ..Contained::default() };
    assert!(assemble(with_parent(), twice, &state()).is_err());
    let unknown = Contained { bases: vec![Base { owner: 2, was: 0 }], ..Contained::default() };
    assert!(assemble(with_parent(), unknown, &state()).is_err());
}
