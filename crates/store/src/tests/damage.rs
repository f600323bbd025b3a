//! Damaged and untrustworthy files: every flipped bit, every length but the right one, every wrong owner or mode.

use super::disk::{Disk, Fault};
use super::{LIVE, begin, checkpoint, open_on, page, pages_of, some_pages};
use crate::{JobDirectory, Selector, StoreError};
use standfast_format::BoxError;

const IMAGE: &str = "generation-00000001.image";

fn disk_with_one_checkpoint() -> Disk {
    let disk = Disk::new();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    begin(&directory, &lease).unwrap();
    let pages = [((0, 0x5000), page(7))].into();
    checkpoint(&directory, &lease, &pages, "one").unwrap();
    lease.release().unwrap();
    disk
}

/// Reads everything that a restart reads.
fn read(directory: &JobDirectory) -> Result<(), BoxError> {
    pages_of(&directory.choose(Selector::Newest)?.image).map(drop)
}

#[test]
fn every_flipped_bit_of_an_image_is_detected() {
    let disk = disk_with_one_checkpoint();
    let directory = open_on(disk.storage_backend(), 1);
    let good = disk.content(IMAGE);
    assert!(read(&directory).is_ok());
    for bit in 0..good.len() * 8 {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        disk.set_content(IMAGE, flipped);
        assert!(read(&directory).is_err(), "bit {} of byte {}", bit % 8, bit / 8);
    }
}

#[test]
fn every_wrong_length_of_an_image_is_detected() {
    let disk = disk_with_one_checkpoint();
    let directory = open_on(disk.storage_backend(), 1);
    let good = disk.content(IMAGE);
    for length in 0..good.len() {
        disk.set_content(IMAGE, good[..length].to_vec());
        assert!(read(&directory).is_err(), "cut to {length} bytes");
    }
    for extra in [1, 16, 4096] {
        disk.set_content(IMAGE, [&good[..], &vec![0; extra]].concat());
        assert!(read(&directory).is_err(), "{extra} bytes longer");
    }
}

#[test]
fn every_flipped_bit_and_wrong_length_of_a_manifest_is_detected() {
    let disk = disk_with_one_checkpoint();
    let good = disk.content("manifest");
    let readable = |content: Vec<u8>| {
        disk.set_content("manifest", content);
        open_on(disk.storage_backend(), 1).manifest().is_ok()
    };
    assert!(readable(good.clone()));
    for bit in 0..good.len() * 8 {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(!readable(flipped), "bit {} of byte {}", bit % 8, bit / 8);
    }
    for length in 0..good.len() {
        assert!(!readable(good[..length].to_vec()), "cut to {length} bytes");
    }
    assert!(!readable([&good[..], &[0]].concat()), "one byte longer");
}

#[test]
fn a_damaged_generation_is_skipped_with_its_reason() {
    let disk = disk_with_one_checkpoint();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    checkpoint(&directory, &lease, &some_pages(2), "two").unwrap();
    let second = "generation-00000002.image";
    let mut content = disk.content(second);
    *content.last_mut().unwrap() ^= 1;
    disk.set_content(second, content);
    let choice = directory.choose(Selector::Newest).unwrap();
    assert_eq!(choice.number.get(), 1);
    let [skipped] = &choice.skipped[..] else { panic!("{:?}", choice.skipped) };
    assert_eq!(skipped.number.get(), 2);
    assert!(skipped.reason.to_string().contains("state is damaged"), "{}", skipped.reason);
    assert!(directory.image(skipped.number).is_err(), "asked for by number it is refused");
    let kept = directory.retain(&lease, std::num::NonZeroU32::MIN).unwrap();
    assert_eq!(kept, [], "the only good one stays although it is not the newest");
}

#[test]
fn an_image_of_another_job_is_refused() {
    let (ours, other) = (disk_with_one_checkpoint(), disk_with_one_checkpoint());
    ours.set_content(IMAGE, other.content(IMAGE));
    let error =
        open_on(ours.storage_backend(), 1).image(standfast_format::manifest::GenerationNumber::FIRST).unwrap_err();
    assert!(matches!(error, StoreError::WrongImage(_)), "{error}");
}

#[test]
fn files_that_others_may_write_are_refused_by_name() {
    for name in [IMAGE, "manifest"] {
        let disk = disk_with_one_checkpoint();
        disk.set_mode(name, 0o620);
        let error = read(&open_on(disk.storage_backend(), 1)).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("others may write it"), "{error}");
        disk.set_mode(name, 0o640);
        assert!(read(&open_on(disk.copy_with(Fault::None).storage_backend(), 1)).is_ok(), "reading does no harm");
    }
}
