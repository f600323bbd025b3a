//! One test for each victim in `tests/victims/features`, found by reading the folder: `cargo test --test features NAME`.
//! A slice of them is tried with another way to take memory as well; with `STANDFAST_SNAPSHOT` all are, with that one alone.
//! Another slice is tried among hundreds of short-lived processes of the same job; with `STANDFAST_CROWD` all are, and only so.
#![allow(missing_docs, reason = "a test binary")]

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use standfast_tests::features::Feature;
use standfast_tests::trials::{Verdict, judge};
use std::process::ExitCode;

/// A victim mostly waits for others, so that a processor can serve two.
const TRIALS_PER_PROCESSOR: usize = 2;

/// Ways to take memory that are not the usual one.
const SNAPSHOTS: [&str; 2] = ["fork", "precopy"];
/// One victim in so many is tried with one of them, beside those that are about memory.
const SLICE: usize = 40;
/// The first of those that are tried among others.
const CROWDED_FROM: usize = 20;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(processors * TRIALS_PER_PROCESSOR);
    let features = Feature::all().expect("the folder of victims can be read");
    let trial = |name: String, feature| Trial::ignorable_test(name, move || try_one(feature));
    let chosen: Vec<Named> = match std::env::var("STANDFAST_SNAPSHOT") {
        Ok(snapshot) => taken_by(&snapshot, features).collect(),
        Err(_) if std::env::var_os("STANDFAST_CROWD").is_some() => crowded(features).collect(),
        Err(_) => {
            let slices = slice().expect("as above").zip(SNAPSHOTS.iter().cycle());
            let slices: Vec<_> = slices.flat_map(|(feature, snapshot)| taken_by(snapshot, [feature])).collect();
            let others = Feature::all().expect("as above").into_iter().skip(CROWDED_FROM).step_by(SLICE);
            features.into_iter().chain(slices).chain(crowded(others)).collect()
        }
    };
    let trials = chosen.into_iter().map(|(name, feature)| trial(name, feature)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Those that can be, among others.
fn crowded(features: impl IntoIterator<Item = Named>) -> impl Iterator<Item = Named> {
    let crowded = features.into_iter().map(|(name, feature)| (name, feature.map(Feature::crowded)));
    let can_be = crowded.filter(|(_, feature)| feature.as_ref().map_or(true, |feature| feature.crowded));
    can_be.map(|(name, feature)| (format!("{name}-among-others"), feature))
}

type Named = (String, anyhow::Result<Feature>);

/// The victims that are tried with another way to take memory, in turns.
fn slice() -> anyhow::Result<impl Iterator<Item = Named>> {
    let is_about_memory = |name: &str| name.starts_with("memory-") || name.starts_with("shared-memory");
    let features = Feature::all()?.into_iter().enumerate();
    Ok(features.filter(move |(place, (name, _))| place % SLICE == 0 || is_about_memory(name)).map(|(_, it)| it))
}

fn taken_by(snapshot: &str, features: impl IntoIterator<Item = Named>) -> impl Iterator<Item = Named> {
    let taken_by = move |(name, feature): Named| {
        (format!("{name}-by-{snapshot}"), feature.map(|feature| feature.taken_by(snapshot)))
    };
    features.into_iter().map(taken_by)
}

fn try_one(feature: anyhow::Result<Feature>) -> Result<Completion, Failed> {
    let described = |problem: anyhow::Error| Failed::from(format!("{problem:#}"));
    match judge(&feature.map_err(described)?).map_err(described)? {
        Verdict::Kept => Ok(Completion::Completed),
        Verdict::Skipped(reason) => Ok(Completion::ignored_with(reason)),
    }
}
