//! One test for each victim in `tests/victims/features`, found by reading the folder: `cargo test --test features NAME`.
#![allow(missing_docs, reason = "a test binary")]

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use standfast_tests::features::Feature;
use standfast_tests::trials::{Verdict, judge};
use std::process::ExitCode;

/// A victim mostly waits for others, so that a processor can serve two.
const TRIALS_PER_PROCESSOR: usize = 2;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(processors * TRIALS_PER_PROCESSOR);
    let features = Feature::all().expect("the folder of victims can be read");
    let trials = features.into_iter().map(|(name, feature)| Trial::ignorable_test(name, move || try_one(feature)));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn try_one(feature: anyhow::Result<Feature>) -> Result<Completion, Failed> {
    let described = |problem: anyhow::Error| Failed::from(format!("{problem:#}"));
    match judge(&feature.map_err(described)?).map_err(described)? {
        Verdict::Kept => Ok(Completion::Completed),
        Verdict::Skipped(reason) => Ok(Completion::ignored_with(reason)),
    }
}
