//! Random programs observe the same, whatever happens to them under Standfast. `cargo run --release -p standfast-tests
//! --bin differential` runs more of them, and one again.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Result, ensure};
use standfast_tests::differential::{Batch, Settings};

/// A fixed range, so that a failure is due to a change and not to chance. `make soak` takes others.
const SEEDS: std::ops::Range<u64> = 1..201;
/// The maximum share of programs with a refusal, and of unstable ones, in percent. Others would test less.
const REFUSED_MAX: u64 = 12;
const UNSTABLE_MAX: usize = 1;

#[test]
#[ignore = "2 min; random programs of all kinds"]
fn random_programs_observe_the_same_with_and_without_kills() -> Result<()> {
    let failures = std::env::temp_dir().join("differential-failures");
    let settings = Settings { seeds: SEEDS, failures, shrinks: false };
    let batch = Batch::run(&settings, |_| ())?;
    ensure!(batch.different.is_empty(), "{:#?}\n{}", batch.different, batch.summary());
    ensure!(batch.with_refusal * 100 <= batch.programs * REFUSED_MAX, "too many refusals: {}", batch.summary());
    ensure!(batch.unstable.len() * 100 <= batch.programs as usize * UNSTABLE_MAX, "unstable: {}", batch.summary());
    Ok(())
}
