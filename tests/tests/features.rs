//! One test for each victim in `tests/victims/features`, found by reading the folder: `cargo test --test features NAME`.
//! With `-- --include-ignored`, slices of the victims also run with another way to take memory, with a checkpoint every
//! few milliseconds, and among hundreds of short-lived processes of the same job. With `STANDFAST_SNAPSHOT=fork`,
//! `STANDFAST_EVERY=10` (milliseconds), or `STANDFAST_CROWD=1`, all victims run in that way only. The same holds for
//! whatever options `STANDFAST_OPTIONS="--compress auto"` names. `STANDFAST_SHARE=3` leaves out two thirds of the victims
//! that run without privileges as well as with them. Victims with the key `rest:` are ignored unless one of these is set.
#![allow(missing_docs, reason = "a test binary")]

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use standfast_tests::features::Feature;
use standfast_tests::skip::note;
use standfast_tests::trials::{Verdict, judge};
use std::process::ExitCode;

/// A victim mostly waits for others, so a processor can serve two.
const TRIALS_PER_PROCESSOR: usize = 2;

/// Variables each of which makes all victims run in another way only.
const IN_OTHER_WAYS: [&str; 4] = ["STANDFAST_OPTIONS", "STANDFAST_SNAPSHOT", "STANDFAST_EVERY", "STANDFAST_CROWD"];

/// Ways to take memory other than the usual one.
const SNAPSHOTS: [&str; 2] = ["fork", "precopy"];
/// One victim in this many runs with one of these ways, in addition to the victims about memory. Another one runs among
/// other processes, and with frequent checkpoints.
const SLICE: usize = 40;
/// Milliseconds between the frequent checkpoints.
const EVERY: u64 = 10;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(processors * TRIALS_PER_PROCESSOR);
    let mut features = Feature::all().expect("the folder of victims can be read");
    if let Some(share) = asked("STANDFAST_SHARE") {
        let share = share.parse().expect("STANDFAST_SHARE is a number: one of so many");
        let needs_root =
            |(_, feature): &Named| feature.as_ref().is_ok_and(|it| it.header.needs.iter().any(|it| it == "root"));
        let mut place = 0..;
        features
            .retain(|named| place.next().is_some_and(|place: usize| place.is_multiple_of(share)) || needs_root(named));
    }
    let trial = |(name, feature): Named| Trial::ignorable_test(name.clone(), move || try_one(&name, feature));
    let ways = IN_OTHER_WAYS.map(asked);
    let mut in_other_ways: Vec<Named> = Vec::new();
    let chosen: Vec<Named> = match ways {
        [Some(options), ..] => protected_with(&options, features).collect(),
        [_, Some(snapshot), ..] => taken_by(&snapshot, features).collect(),
        [_, _, Some(every), _] => {
            let every = every.parse().expect("STANDFAST_EVERY is a number of milliseconds");
            taken_every(every, features).collect()
        }
        [_, _, _, Some(_)] => crowded(features).collect(),
        _ => {
            let slices = slice().expect("as above").zip(SNAPSHOTS.iter().cycle());
            in_other_ways.extend(slices.flat_map(|(feature, snapshot)| taken_by(snapshot, [feature])));
            let others = || Feature::all().expect("as above").into_iter().skip(SLICE / 2).step_by(SLICE);
            in_other_ways.extend(crowded(others()).chain(taken_every(EVERY, others())));
            features
        }
    };
    // The ways that a variable chooses are no part of `make test`.
    let is_quick = asked("STANDFAST_SHARE").is_none() && !IN_OTHER_WAYS.iter().any(|name| asked(name).is_some());
    let is_rest = |feature: &anyhow::Result<Feature>| feature.as_ref().is_ok_and(|it| it.header.rest.is_some());
    let chosen = chosen.into_iter().map(|named| {
        let is_ignored = is_quick && is_rest(&named.1);
        trial(named).with_ignored_flag(is_ignored)
    });
    let in_other_ways = in_other_ways.into_iter().map(trial).map(|trial| trial.with_ignored_flag(true));
    let trials = chosen.chain(in_other_ways).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn asked(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

/// Selects the victims that can run among other processes, and makes them do so.
fn crowded(features: impl IntoIterator<Item = Named>) -> impl Iterator<Item = Named> {
    let crowded = features.into_iter().map(|(name, feature)| (name, feature.map(Feature::crowded)));
    let can_be = crowded.filter(|(_, feature)| feature.as_ref().map_or(true, |feature| feature.crowded));
    can_be.map(|(name, feature)| (format!("{name}-among-others"), feature))
}

type Named = (String, anyhow::Result<Feature>);

/// Returns the victims that run with another way to take memory, in turns.
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

fn protected_with(options: &str, features: impl IntoIterator<Item = Named>) -> impl Iterator<Item = Named> {
    let protected = move |(name, feature): Named| {
        let words: Vec<_> = options.split_whitespace().collect();
        let ending = words.join("").replace("--", "-");
        (format!("{name}-with{ending}"), feature.map(|feature| feature.protected_with(&words)))
    };
    features.into_iter().map(protected)
}

fn taken_every(milliseconds: u64, features: impl IntoIterator<Item = Named>) -> impl Iterator<Item = Named> {
    let taken_every = move |(name, feature): Named| {
        let every = |feature: Feature| feature.taken_every(milliseconds);
        (format!("{name}-every-{milliseconds}-ms"), feature.map(every))
    };
    features.into_iter().map(taken_every)
}

fn try_one(name: &str, feature: anyhow::Result<Feature>) -> Result<Completion, Failed> {
    let described = |problem: anyhow::Error| Failed::from(format!("{problem:#}"));
    match judge(&feature.map_err(described)?).map_err(described)? {
        Verdict::Kept => Ok(Completion::Completed),
        Verdict::Skipped(lacking) => match note(name, &lacking) {
            Some(failure) => Err(failure.into()),
            None => Ok(Completion::ignored_with(lacking.to_string())),
        },
    }
}
