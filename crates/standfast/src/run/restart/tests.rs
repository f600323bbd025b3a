//! Tests of `restart.rs`.

use super::*;
use std::io;

#[test]
fn a_job_is_discarded_only_if_all_its_checkpoints_are_damaged() {
    let none_good = |reasons: Vec<StoreError>| {
        let skip = |reason| standfast_store::Skipped { number: GenerationNumber::FIRST, reason: Box::new(reason) };
        StoreError::NoneGood { directory: PathBuf::new(), skipped: reasons.into_iter().map(skip).collect() }
    };
    let damaged = || StoreError::WrongImage(PathBuf::new());
    let unreadable = |kind: io::ErrorKind| StoreError::StorageBackend {
        action: "read",
        path: PathBuf::new(),
        source: kind.into(),
        hint: "",
    };
    let untrusted = StoreError::Untrusted { path: PathBuf::new(), fault: String::new(), hint: String::new() };
    assert!(is_hopeless(&StoreError::NoCheckpoint(PathBuf::new())));
    assert!(is_hopeless(&none_good(vec![damaged(), unreadable(io::ErrorKind::NotFound)])));
    let link = |source| StoreError::Link { number: GenerationNumber::FIRST, source: Box::new(source) };
    assert!(is_hopeless(&none_good(vec![link(damaged())])));
    assert!(!is_hopeless(&none_good(vec![link(unreadable(io::ErrorKind::TimedOut))])));
    assert!(!is_hopeless(&none_good(vec![damaged(), unreadable(io::ErrorKind::TimedOut)])));
    assert!(!is_hopeless(&none_good(vec![damaged(), untrusted])));
    assert!(!is_hopeless(&StoreError::Busy));
}
