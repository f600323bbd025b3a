//! The store on a real directory: it reads back what was written, generations come and go, and other users are refused.

use super::{LIVE, Pages, begin, checkpoint, fill, lend_empty, newest, page, pages_of, some_pages, state};
use crate::{JobDirectory, Lease, Selector, StoreError};
use standfast_core::{Address, PAGE_BYTES, PageRange};
use standfast_format::manifest::{GenerationNumber, Outcome};
use standfast_format::{BackingPage, BatchRange, Contents, ImageSink, ImageSource, Run};
use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;
use tempfile::TempDir;

fn number(number: u64) -> GenerationNumber {
    GenerationNumber::new(number).unwrap()
}

struct Job {
    place: TempDir,
    directory: JobDirectory,
    lease: Lease,
}

fn job() -> Job {
    let place = tempfile::tempdir().unwrap();
    let directory = JobDirectory::create(&place.path().join("job")).unwrap();
    let lease = directory.take_lease(LIVE).unwrap();
    begin(&directory, &lease).unwrap();
    Job { place, directory, lease }
}

fn names(job: &Job) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(job.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn pages_and_state_come_back_as_they_went_in() {
    let job = job();
    // These exceed one batch, in pieces some of which adjoin.
    let pages: Pages =
        (0..1000u64).map(|at| ((0, (at + at / 3) * 4096), page(at as u8))).filter(|(_, page)| page[0] != 0).collect();
    let generation = checkpoint(&job.directory, &job.lease, &pages, "one").unwrap();
    assert_eq!((generation.number.get(), generation.stored_pages), (1, pages.len() as u64));
    let reopened = JobDirectory::open(job.directory.path()).unwrap();
    assert_eq!(newest(&reopened).unwrap(), ("one".into(), pages));
    let image = reopened.image(generation.number).unwrap();
    assert_eq!(image.verify().unwrap().bytes, generation.file_bytes);
    assert_eq!(image.state(), &state("one"));
}

#[test]
fn zero_pages_are_stored_only_if_a_file_backs_them() {
    let job = job();
    let mut prepared = job.directory.prepare(&job.lease).unwrap();
    let mut batch = lend_empty(&mut prepared).unwrap();
    let range = |at: u64| PageRange::new(Address::new(at * 4096), 3);
    batch.ranges = [(10, BackingPage::Zeros), (20, BackingPage::File)]
        .map(|(at, backing_page)| BatchRange { owner: 0, range: range(at), backing_page })
        .to_vec();
    let zero = vec![0; PAGE_BYTES];
    batch.bytes.extend([page(1), zero.clone(), page(2), zero.clone(), page(3), zero].concat());
    prepared.submit(batch).unwrap();
    prepared.finish(&state("zeros")).unwrap();
    let generation = prepared.seal().unwrap().commit(Duration::ZERO).unwrap();
    let image = job.directory.image(generation.number).unwrap();
    let run = |at: u64, contents| Run { owner: 0, range: PageRange::new(Address::new(at * 4096), 1), contents };
    let (stored, zero) = (Contents::Stored, Contents::Zero);
    assert_eq!(image.runs(), [run(10, stored), run(12, stored), run(20, zero), run(21, stored), run(22, zero)]);
    let expected: Pages = [(10, 1), (12, 2), (21, 3)].map(|(at, fill)| ((0, at * 4096), page(fill))).into();
    assert_eq!(pages_of(&image).unwrap(), expected);
}

#[test]
fn an_image_without_pages_is_valid() {
    let job = job();
    checkpoint(&job.directory, &job.lease, &Pages::new(), "empty").unwrap();
    assert_eq!(newest(&job.directory).unwrap(), ("empty".into(), Pages::new()));
}

#[test]
fn an_aborted_generation_leaves_no_trace_and_its_number_is_used_again() {
    let job = job();
    checkpoint(&job.directory, &job.lease, &some_pages(1), "one").unwrap();
    let before = names(&job);
    job.directory.prepare(&job.lease).unwrap().abort();
    let mut filled = job.directory.prepare(&job.lease).unwrap();
    fill(&mut filled, &some_pages(2), &state("two")).unwrap();
    drop(filled);
    let mut sealed = job.directory.prepare(&job.lease).unwrap();
    fill(&mut sealed, &some_pages(2), &state("two")).unwrap();
    sealed.seal().unwrap().abort();
    assert_eq!(names(&job), before);
    let again = checkpoint(&job.directory, &job.lease, &some_pages(2), "two").unwrap();
    assert_eq!(again.number.get(), 2);
}

#[test]
fn only_one_generation_can_be_prepared_at_a_time() {
    let job = job();
    let first = job.directory.prepare(&job.lease).unwrap();
    assert!(matches!(job.directory.prepare(&job.lease), Err(StoreError::Busy)));
    drop(first);
    assert!(job.directory.prepare(&job.lease).is_ok());
}

#[test]
fn retention_keeps_the_newest_and_restarts_supersede_later_ones() {
    let job = job();
    for at in 1..=4 {
        checkpoint(&job.directory, &job.lease, &some_pages(at), &format!("{at}")).unwrap();
    }
    let removed = job.directory.retain(&job.lease, NonZeroU32::new(3).unwrap()).unwrap();
    assert_eq!(removed, [number(1)]);
    assert!(!names(&job).contains(&"generation-00000001.image".into()));
    job.directory.mark_superseded_after(&job.lease, number(2)).unwrap();
    assert_eq!(newest(&job.directory).unwrap().0, "2");
    assert_eq!(
        job.directory.choose(Selector::Exactly(number(4))).unwrap().number,
        number(4),
        "by number it is still there"
    );
    checkpoint(&job.directory, &job.lease, &some_pages(5), "5").unwrap();
    assert_eq!(newest(&job.directory).unwrap().0, "5");
    assert_eq!(job.directory.choose(Selector::Before(number(5))).unwrap().number, number(2), "not those given up");
    let error = job.directory.choose(Selector::Before(number(2))).unwrap_err();
    assert!(matches!(error, StoreError::NoneGood { .. }), "{error}");
    assert!(matches!(job.directory.image(number(9)), Err(StoreError::NoSuchGeneration { .. })));
}

#[test]
fn a_new_job_in_the_same_directory_removes_the_old_generations() {
    let job = job();
    checkpoint(&job.directory, &job.lease, &some_pages(1), "old").unwrap();
    let old = job.directory.manifest().unwrap().job;
    begin(&job.directory, &job.lease).unwrap();
    assert_ne!(job.directory.manifest().unwrap().job, old);
    assert!(matches!(job.directory.choose(Selector::Newest), Err(StoreError::NoCheckpoint(_))));
    assert!(!names(&job).iter().any(|name| name.starts_with("generation")));
}

#[test]
fn a_copied_directory_restarts_like_the_original() {
    let job = job();
    checkpoint(&job.directory, &job.lease, &some_pages(1), "one").unwrap();
    let copy = job.place.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).unwrap();
    for name in names(&job) {
        fs::copy(job.directory.path().join(&name), copy.join(&name)).unwrap();
    }
    assert_eq!(newest(&JobDirectory::open(&copy).unwrap()).unwrap(), ("one".into(), some_pages(1)));
}

#[test]
fn directory_and_files_are_closed_to_others() {
    let job = job();
    checkpoint(&job.directory, &job.lease, &some_pages(1), "one").unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(job.directory.path()), 0o700);
    for name in names(&job) {
        assert_eq!(mode(&job.directory.path().join(&name)), 0o600, "{name}");
    }
}

#[test]
fn a_directory_that_others_may_write_and_a_linked_image_are_refused_by_name() {
    let job = job();
    checkpoint(&job.directory, &job.lease, &some_pages(1), "one").unwrap();
    let path = job.directory.path();
    let image = path.join("generation-00000001.image");
    fs::rename(&image, path.join("elsewhere")).unwrap();
    symlink(path.join("elsewhere"), &image).unwrap();
    let error = newest(&job.directory).unwrap_err().to_string();
    assert!(error.contains("generation-00000001.image") && error.contains("symbolic link"), "{error}");
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    let error = JobDirectory::open(path).unwrap_err().to_string();
    assert!(error.contains("job") && error.contains("chmod go-w"), "{error}");
}

#[test]
fn missing_directories_jobs_and_checkpoints_are_named() {
    let place = tempfile::tempdir().unwrap();
    assert!(matches!(JobDirectory::open(&place.path().join("none")), Err(StoreError::NoDirectory(_))));
    let empty = JobDirectory::open(place.path()).unwrap();
    assert!(matches!(empty.manifest(), Err(StoreError::NoJob(_))));
    assert!(matches!(empty.choose(Selector::Newest), Err(StoreError::NoJob(_))));
    let job = job();
    assert!(matches!(job.directory.choose(Selector::Newest), Err(StoreError::NoCheckpoint(_))));
}

#[test]
fn the_outcome_is_recorded_in_the_manifest() {
    let job = job();
    job.directory.set_outcome(&job.lease, Outcome::Exited { status: 3 }).unwrap();
    let seen = JobDirectory::open(job.directory.path()).unwrap().manifest().unwrap();
    assert_eq!(seen.outcome, Outcome::Exited { status: 3 });
}
