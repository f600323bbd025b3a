//! The disk fails or loses power at every single operation of a checkpoint. Earlier good generations stay good, and a
//! checkpoint that was reported as committed exists.

use super::disk::{Disk, Fault, Survival};
use super::{AFTER_REBOOT, LIVE, begin, checkpoint, fill, newest, open_on, page, some_pages, state};
use crate::{Selector, StoreError};
use standfast_format::manifest::Outcome;
use standfast_format::{BoxError, ImageSink};
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::time::Duration;

/// How far a scenario got.
#[derive(Debug, Default)]
struct Progress {
    begun: bool,
    committed: bool,
    error: Option<BoxError>,
}

/// Goes from an empty directory to the first checkpoint.
fn first_checkpoint(disk: &Disk) -> Progress {
    let mut progress = Progress::default();
    let mut attempt = || -> Result<(), BoxError> {
        let directory = open_on(disk.storage_backend(), 1);
        let lease = directory.take_lease(LIVE)?;
        begin(&directory, &lease)?;
        progress.begun = true;
        checkpoint(&directory, &lease, &some_pages(1), "one")?;
        progress.committed = true;
        Ok(lease.release()?)
    };
    progress.error = attempt().err();
    progress
}

/// Goes from the first checkpoint to the second, which replaces it.
fn second_checkpoint(disk: &Disk) -> Progress {
    let mut progress = Progress { begun: true, ..Progress::default() };
    let mut attempt = || -> Result<(), BoxError> {
        let directory = open_on(disk.storage_backend(), 1);
        let lease = directory.take_lease(LIVE)?;
        let mut prepared = directory.prepare(&lease)?;
        fill(&mut prepared, &some_pages(2), &state("two"))?;
        prepared.seal()?.commit(Duration::from_millis(1))?;
        progress.committed = true;
        directory.retain(&lease, NonZeroU32::MIN)?;
        directory.set_outcome(&lease, Outcome::Stopped)?;
        Ok(lease.release()?)
    };
    progress.error = attempt().err();
    progress
}

/// Creates a disk with one checkpoint. Also returns how many operations another one takes.
fn prepared_disk() -> (Disk, u64) {
    let disk = Disk::new();
    assert!(first_checkpoint(&disk).error.is_none());
    let rehearsal = disk.copy_with(Fault::None);
    let progress = second_checkpoint(&rehearsal);
    assert!(progress.error.is_none(), "{progress:?}");
    (disk, rehearsal.operations())
}

/// Returns the three clear cases, and twenty of the many in between.
fn survivals() -> impl Iterator<Item = Survival> {
    [Survival::Nothing, Survival::Everything, Survival::Names].into_iter().chain((0..20).map(Survival::Chance))
}

/// Asserts that after a reboot there is a good generation and the job can continue.
fn assert_recovers(disk: &Disk, must_be_second: bool, context: &str) {
    let directory = open_on(disk.storage_backend(), 2);
    let (name, pages) = newest(&directory).unwrap_or_else(|error| panic!("{context}: {error}"));
    match name.as_str() {
        "one" => assert_eq!((pages, must_be_second), (some_pages(1), false), "{context}"),
        "two" => assert_eq!(pages, some_pages(2), "{context}"),
        other => panic!("{context}: there is no {other}"),
    }
    let lease = directory.take_lease(AFTER_REBOOT).unwrap_or_else(|error| panic!("{context}: {error}"));
    let leftovers: Vec<_> = disk.names().into_iter().filter(|name| name.ends_with(".tmp")).collect();
    assert_eq!(leftovers, [""; 0], "{context}: leftovers are cleared away");
    let third = checkpoint(&directory, &lease, &some_pages(3), "three");
    third.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(newest(&directory).map_err(|error| error.to_string()), Ok(("three".into(), some_pages(3))), "{context}");
}

#[test]
fn loss_of_power_at_any_operation_leaves_a_good_generation() {
    let (disk, operations) = prepared_disk();
    assert!(operations > 15, "the scenario does something: {operations}");
    for at in 0..=operations {
        let crashed = disk.copy_with(Fault::PowerLoss(at));
        let progress = second_checkpoint(&crashed);
        assert_eq!(progress.error.is_none(), at == operations, "operation {at}: {progress:?}");
        for survival in survivals() {
            let context = format!("power lost at operation {at}, {survival:?} survived");
            assert_recovers(&crashed.after_power_loss(survival), progress.committed, &context);
        }
    }
}

#[test]
fn loss_of_power_before_the_first_checkpoint_leaves_a_clear_none() {
    let rehearsal = Disk::new();
    assert!(first_checkpoint(&rehearsal).error.is_none());
    for at in 0..rehearsal.operations() {
        let crashed = Disk::new().copy_with(Fault::PowerLoss(at));
        let progress = first_checkpoint(&crashed);
        for survival in survivals() {
            let found = crashed.after_power_loss(survival);
            let directory = open_on(found.storage_backend(), 2);
            match directory.choose(Selector::Newest) {
                Ok(_) => assert_recovers_first(&found),
                Err(StoreError::NoJob(_)) => assert!(!progress.begun, "{at} {survival:?}"),
                Err(StoreError::NoCheckpoint(_)) => assert!(!progress.committed, "{at} {survival:?}"),
                Err(error) => panic!("power lost at operation {at}, {survival:?} survived: {error}"),
            }
        }
    }
}

fn assert_recovers_first(disk: &Disk) {
    assert_recovers(disk, false, "first checkpoint");
}

#[test]
fn one_failing_operation_keeps_the_previous_generation() {
    let (disk, operations) = prepared_disk();
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        for at in 0..operations {
            let failing = disk.copy_with(Fault::Once(at, kind));
            let progress = second_checkpoint(&failing);
            let context = format!("{kind} at operation {at}");
            if let Some(error) = &progress.error {
                assert_names_file_and_hint(&**error, kind);
            }
            assert_recovers(&failing.copy_with(Fault::None), progress.committed, &context);
        }
    }
}

#[test]
fn a_disk_that_stays_full_keeps_the_previous_generation() {
    let (disk, operations) = prepared_disk();
    for at in 0..operations {
        let full = disk.copy_with(Fault::From(at, ErrorKind::StorageFull));
        let progress = second_checkpoint(&full);
        let error = progress.error.as_deref().unwrap_or_else(|| panic!("operation {at} fails"));
        assert_names_file_and_hint(error, ErrorKind::StorageFull);
        assert_recovers(&full.copy_with(Fault::None), progress.committed, &format!("full from operation {at} on"));
    }
}

fn assert_names_file_and_hint(error: &(dyn std::error::Error + Send + Sync + 'static), kind: ErrorKind) {
    let message = error.to_string();
    assert!(message.contains("/disk/"), "{message}");
    match error.downcast_ref::<StoreError>() {
        Some(StoreError::NoSpace(_)) => assert!(kind == ErrorKind::StorageFull && message.contains("free some")),
        Some(StoreError::StorageBackend { hint, .. }) => assert!(!hint.is_empty() && message.contains(hint)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_disk_that_fills_up_while_pages_stream_in_stops_the_reader_with_one_clear_error() {
    let (disk, _) = prepared_disk();
    // The lease (4 operations) and the image file (1) still fit, and some of the pages.
    let full = disk.copy_with(Fault::From(9, ErrorKind::StorageFull));
    let directory = open_on(full.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    let mut prepared = directory.prepare(&lease).unwrap();
    let many = (1..20_000u64).map(|at| ((0, at * 4096), page(at as u8 | 1))).collect();
    let error = fill(&mut prepared, &many, &state("large")).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(StoreError::NoSpace(_))), "{error}");
    let again = prepared.lend().map(drop).unwrap_err();
    assert!(matches!(again.downcast_ref(), Some(StoreError::Abandoned)), "{again}");
    prepared.abort();
    assert_recovers(&full.copy_with(Fault::None), false, "full while streaming");
}
