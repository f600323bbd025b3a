//! A sealed manifest reads back, and a change anywhere is found.

use super::*;
use proptest::prelude::*;
use standfast_core::Checksum;

fn number(number: u64) -> GenerationNumber {
    GenerationNumber::new(number).unwrap()
}

fn generation(at: u64) -> Generation {
    Generation {
        number: number(at),
        parent: None,
        root: Root::of(&[&at.to_le_bytes()]),
        file_bytes: 4096 * at,
        stored_pages: at,
        taken_nanoseconds: 1_700_000_000_000_000_000,
        pause_nanoseconds: 5_000_000,
        superseded: at == 2,
        origin: Root::of(&[&at.to_le_bytes()]),
        revision: 0,
        inherited_pages: 0,
        epoch: None,
    }
}

fn manifest() -> Manifest {
    let description = JobDescription {
        program: b"./heat"[..].into(),
        arguments: vec![b"--size"[..].into(), vec![0xff].into()],
        working_directory: b"/srv/ada"[..].into(),
        started_nanoseconds: 1,
        folders: vec![b"/srv/ada/data"[..].into()],
        saves_written: Some(true),
    };
    let options = RunOptions {
        interval: Some(RecordedInterval::Every { milliseconds: 600_000 }),
        keep: Some(2),
        ids: Some(Ids::Auto),
        stack: Some(Stack::Live),
        files: Some(Files::Rollback),
        max_files: Some(16),
        incremental: Some(Incremental::Auto),
        snapshot: Some(Snapshot::Auto),
        track: Some(Track::Auto),
        save_files: Some(64 << 20),
        external_sockets: Some(ExternalSockets::Reset),
        min_interval: Some(RecordedInterval::Every { milliseconds: 2500 }),
        flush_every: Some(8),
        durable_every: Some(600_000),
        grace: Some(30_000),
        delta: Some(DeltaMode::Auto),
        compress: Some(Compress::Auto),
        flush: Some(Flush::Background),
        keep_finished: Some(KeepFinished::No),
        reserve: Some(10 << 30),
        rehearse: Some(RehearsedCheckpoints::Every { checkpoints: 10 }),
        stopped_status: Some(85),
        deadline: Some(30_000),
        writers: Some(3),
        mtbf: Some(2_592_000),
        notice: Some(Notices { stop: 1 << 14, checkpoint: 1 << 9, pass: 0, ignore: 1 << 63 }),
    };
    let mut manifest = Manifest::new(JobId::from_bytes([9; 16]), description, options);
    manifest.generations = vec![generation(2), generation(5)];
    manifest.next = number(6);
    manifest.outcome = Outcome::Exited { status: 3 };
    manifest
}

/// Recomputes the checksum, so that a change passes it.
fn reseal(bytes: &mut [u8]) {
    let end = bytes.len() - 16;
    let checksum = Checksum::of(&bytes[..end]).to_bytes();
    bytes[end..].copy_from_slice(&checksum);
}

#[test]
fn a_manifest_reads_back_as_it_was_sealed() {
    let interval_off = RunOptions { interval: Some(RecordedInterval::Off), ..RunOptions::default() };
    let automatic = RunOptions { interval: Some(RecordedInterval::Auto), ..RunOptions::default() };
    for outcome in [Outcome::Running, Outcome::Killed { signal: 9 }, Outcome::Stopped, Outcome::Exited { status: 0 }] {
        for options in [manifest().options, RunOptions::default(), interval_off, automatic] {
            let manifest = Manifest { outcome, options, ..manifest() };
            assert_eq!(unseal(&seal(&manifest).unwrap()), Ok(manifest));
        }
    }
}

#[test]
fn every_flipped_bit_and_wrong_length_is_detected() {
    let good = seal(&manifest()).unwrap();
    let mut flipped = good.clone();
    for bit in 0..good.len() * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(unseal(&flipped).is_err(), "bit {} of byte {}", bit % 8, bit / 8);
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
    for length in 0..good.len() {
        assert!(unseal(&good[..length]).is_err(), "cut to {length} bytes");
    }
    assert!(unseal(&[&good[..], &[0]].concat()).is_err(), "one byte longer");
}

#[test]
fn generations_out_of_order_are_neither_written_nor_read() {
    let disordered = [
        Manifest { generations: vec![generation(5), generation(2)], ..manifest() },
        Manifest { generations: vec![generation(5), generation(5)], ..manifest() },
        Manifest { next: number(5), ..manifest() },
        Manifest { generations: vec![Generation { parent: Some(number(5)), ..generation(5) }], ..manifest() },
        Manifest { generations: vec![Generation { parent: Some(number(4)), ..generation(5) }], ..manifest() },
    ];
    for manifest in disordered {
        assert!(matches!(seal(&manifest), Err(ManifestError::Senseless(_))));
    }
}

#[test]
fn a_later_version_asks_for_a_newer_standfast() {
    let mut bytes = seal(&manifest()).unwrap();
    bytes[8] = MANIFEST_VERSION as u8 + 1;
    reseal(&mut bytes);
    assert_eq!(unseal(&bytes), Err(ManifestError::Version(MANIFEST_VERSION + 1)));
}

#[test]
fn arguments_too_long_to_be_read_are_not_written() {
    let mut manifest = manifest();
    manifest.description.arguments = vec![vec![b'x'; MANIFEST_BYTES_MAX].into()];
    assert!(matches!(seal(&manifest), Err(ManifestError::TooLong(_))));
}

#[test]
fn a_field_that_a_later_standfast_adds_does_not_stop_this_one() {
    // The manifest's array gets places at its end: after the 7 filled ones, two empty ones and one that holds 42.
    let body = minicbor::to_vec(manifest()).unwrap();
    assert_eq!(body[0], 0x87);
    let mut longer = [&[0x8a], &body[1..], &[0xf6, 0xf6, 0x18, 42]].concat();
    longer.splice(..0, (longer.len() as u32).to_le_bytes());
    longer.splice(..0, MANIFEST_VERSION.to_le_bytes());
    longer.splice(..0, *b"SFMANIF\n");
    longer.extend([0; 16]);
    reseal(&mut longer);
    assert_eq!(unseal(&longer), Ok(manifest()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_change_makes_the_decoder_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = seal(&manifest()).unwrap();
        for (place, value) in changes {
            let place = 16 + place.index(bytes.len() - 32);
            bytes[place] = value;
        }
        reseal(&mut bytes);
        if let Ok(manifest) = unseal(&bytes) {
            prop_assert!(seal(&manifest).is_ok(), "what is read can be written");
        }
    }
}
