//! The simulated cluster over hundreds of seeds, with a thousand processes, and with faults planted on purpose.

use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::transfer::Costs;
use standfast_group::{LogicalRank, Plan, Reckoning, RecoveryMode};
use standfast_sim::cluster::run;
use standfast_sim::program::Habits;
use standfast_sim::scenario::{Plant, Scenario, Wishes};
use std::sync::Arc;

#[test]
fn hundreds_of_seeds_recover_every_byte_or_refuse_by_name() {
    let (mut recoveries, mut local, mut refused, mut abandoned) = (0, 0, 0, 0);
    for seed in 0..300 {
        let outcome = run(&Scenario::new(seed, Wishes::default()));
        let outcome =
            outcome.unwrap_or_else(|failure| panic!("cargo xtask simulate --seeds {seed}..{}: {failure}", seed + 1));
        recoveries += outcome.recoveries;
        local += outcome.local_recoveries;
        refused += u32::from(outcome.refused);
        abandoned += outcome.abandoned;
    }
    // The seeds must lead to the cases that they are meant for.
    let met = format!("{recoveries}, {local}, {refused}, {abandoned}");
    assert!(recoveries > 100 && local > 5 && refused > 10 && abandoned > 10, "{met}");
}

#[test]
fn a_thousand_processes_recover() {
    let wishes = Wishes { ranks: Some(1000), kills: Some(2) };
    let mut scenario = Scenario::new(5, wishes);
    (scenario.epochs, scenario.storage_fails_permille, scenario.habits.pages_max) = (2, 0, 4);
    let outcome = run(&scenario).unwrap();
    assert!(outcome.committed >= 2 && outcome.recoveries > 0 && !outcome.refused, "{}", outcome.recoveries);
}

/// Programs of many windows: every step checks each process's sums against their bound.
#[test]
fn data_in_flight_of_large_programs_stays_within_a_window() {
    let (mut recoveries, mut peak) = (0, 0);
    for seed in 0..10 {
        let mut scenario = Scenario::new(seed, Wishes { ranks: Some(6), kills: Some(2) });
        (scenario.epochs, scenario.storage_fails_permille, scenario.habits.pages_max) = (2, 0, 700);
        let outcome = run(&scenario).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        recoveries += outcome.recoveries;
        peak = peak.max(outcome.held_peak);
    }
    assert!(recoveries > 4 && peak > 4 << 20, "{recoveries}, {peak}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let scenario = Scenario::new(11, Wishes { kills: Some(3), ..Wishes::default() });
    assert_eq!(run(&scenario), run(&scenario));
}

/// Checks that some seed fails, and for a reason that fits.
fn is_found(plant: Plant, reasons: &[&str]) {
    let wishes = Wishes { kills: Some(3), ..Wishes::default() };
    let mut failures = (0..1000).filter_map(|seed| run(&Scenario::new(seed, wishes).with(plant)).err());
    assert!(failures.any(|failure| reasons.iter().any(|reason| failure.0.contains(reason))), "{plant:?} was not found");
}

#[test]
fn an_epoch_committed_too_early_is_found() {
    is_found(Plant::CommittedTooEarly, &["was promised", "refused", "is not what it was"]);
}

#[test]
fn a_shard_deleted_too_early_is_found() {
    is_found(Plant::DeletedTooEarly, &["refused"]);
}

#[test]
fn a_wrong_coefficient_is_found_by_hashes_after_rebuilding() {
    is_found(Plant::WrongCoefficient, &["after rebuilding"]);
}

#[test]
fn an_id_that_is_ignored_is_found() {
    is_found(Plant::IdIgnored, &["is not what it was", "after rebuilding", "no shard", "lacks the shards"]);
}

#[test]
fn a_removed_page_left_in_the_sums_is_found() {
    is_found(Plant::RemovedNotSubtracted, &["the payload does not count it as changed"]);
}

/// Pages of each of a program's three regions.
const PAGES: u32 = 40;

/// Returns a run without failures in which this many pages of each region change each time.
fn memory(plan: &Plan, changed: u32, encode_every: u64) -> Scenario {
    let habits = Habits { pages_max: PAGES, steady: Some(changed), forgets_removed: false };
    let costs = vec![Costs { latency_nanoseconds: 1_000, page_nanoseconds: 1_000 }];
    let base = Scenario::new(1, Wishes::default());
    let quiet = Scenario {
        plan: Arc::new(plan.clone()),
        spares: 0,
        epochs: 4,
        kills: 0,
        encode_every,
        beyond_percent: 0,
        ..base
    };
    Scenario { storage_fails_permille: 0, habits, costs, compress: false, ..quiet }
}

#[test]
fn memory_use_matches_the_estimate() {
    let job = JobId::from_bytes([1; 16]);
    let plans = [
        Plan::rotating(job, RecoveryMode::InPlace, Scheme::Parity, 5).unwrap(),
        Plan::rotating(job, RecoveryMode::Relaunch, Scheme::Parity, 5).unwrap(),
        Plan::rotating(job, RecoveryMode::Relaunch, Scheme::ReedSolomon { checks: 2 }, 6).unwrap(),
        Plan::dedicated(job, RecoveryMode::InPlace, Scheme::Parity, 4, 1).unwrap(),
        Plan::dedicated(job, RecoveryMode::Relaunch, Scheme::Parity, 4, 1).unwrap(),
    ];
    for (plan, changed) in plans.iter().flat_map(|plan| [PAGES, PAGES / 4].map(|changed| (plan, changed))) {
        let scenario = memory(plan, changed, 1);
        let outcome = run(&scenario).unwrap();
        // In addition to the regions there is one page with the program's number, which always changes.
        let (pages, changed) = (u64::from(3 * PAGES + 1), u64::from(3 * changed + 1));
        assert_eq!(outcome.program[&LogicalRank(0)] as u64, pages);
        for (logical_rank, (own, checks)) in &outcome.steady {
            let (group, position) = plan.place(*logical_rank);
            let reckoning = Reckoning::new(plan.layout(group), plan.recovery_mode(), position, pages, changed);
            let (steady, peak) =
                ((own + checks) as u64, (outcome.peaks[logical_rank].0 + outcome.peaks[logical_rank].1) as u64);
            let what = format!("{logical_rank:?} of {plan:?}: {steady} and {peak}, {reckoning:?}");
            // Only stripes that are not full at the end of a stripe group make a difference.
            assert!(steady <= reckoning.steady && steady + 4 > reckoning.steady, "{what}");
            assert!(peak <= reckoning.peak, "{what}");
            if changed == pages {
                assert!(peak + 8 > reckoning.peak, "{what}");
            }
            // I: in place, the live memory is the new shard; with relaunch, changed pages are kept beside the old one.
            let beside = if plan.recovery_mode() == RecoveryMode::Relaunch { changed } else { 0 };
            let own = if plan.is_member(*logical_rank) { pages + beside } else { 0 };
            assert_eq!(outcome.peaks[logical_rank].0 as u64, own, "{what}");
        }
    }
}

/// A local epoch adds its memory to that of the encoded one; while the next is made, it adds as much again.
#[test]
fn memory_use_with_local_epochs_matches_the_estimate() {
    let job = JobId::from_bytes([1; 16]);
    let plan = Plan::rotating(job, RecoveryMode::Relaunch, Scheme::Parity, 5).unwrap();
    let (pages, changed) = (u64::from(3 * PAGES + 1), u64::from(3 * PAGES / 4 + 1));
    // Four epochs: the last is local, or encoded after two local ones.
    for (encode_every, ends_local) in [(9, true), (3, false)] {
        let outcome = run(&memory(&plan, PAGES / 4, encode_every)).unwrap();
        assert_eq!((outcome.committed, outcome.local), (4, if ends_local { 3 } else { 2 }));
        for (logical_rank, (own, checks)) in &outcome.steady {
            let encoded =
                Reckoning::new(plan.layout(0), RecoveryMode::Relaunch, logical_rank.0 as usize, pages, changed);
            let reckoning = encoded.with_local(changed);
            let expected = if ends_local { reckoning.steady } else { encoded.steady };
            let (steady, peak) =
                ((own + checks) as u64, (outcome.peaks[logical_rank].0 + outcome.peaks[logical_rank].1) as u64);
            let what = format!("{logical_rank:?} every {encode_every}: {steady} and {peak}, {reckoning:?}");
            assert!(steady <= expected && steady + 4 > expected, "{what}");
            assert!(peak <= reckoning.peak && peak >= encoded.steady + 2 * changed - 4, "{what}");
        }
    }
}
