//! Tests of `snapshots.rs`.

use super::*;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn situation(to_read: u64, held: u64, dirty_per_second: f64, spare_bytes: u64) -> Situation {
    let room = Room { spare_bytes, promised_bytes: None };
    let experience = Experience::default();
    let trials = Trials::default();
    let rewriting = dirty_per_second / held as f64;
    Situation { to_read, held, processes: 1, rewriting, is_tracked: false, room, experience, trials }
}

/// Each line is one situation: bytes to read, bytes held, bytes written per second, available memory.
#[test]
fn auto_chooses_the_cheapest_snapshot_that_fits_into_memory() {
    let table = [
        ("a small program", MIB, MIB, 0.0, 8 * GIB, Method::Copy, Why::Cheapest),
        ("little of much has changed", 10 * MIB, GIB, 1e7, 8 * GIB, Method::Copy, Why::Cheapest),
        ("a tenth of much, each second", 100 * MIB, GIB, 1e8, 8 * GIB, Method::Copy, Why::Cheapest),
        ("all of much", GIB, GIB, 1e8, 8 * GIB, Method::Fork, Why::Cheapest),
        ("more than is copied, little of all", 300 * MIB, 64 * GIB, 1e8, GIB, Method::Sequential, Why::Memory),
        ("no memory for a copy", 10 * MIB, GIB, 1e7, 40 * MIB, Method::Sequential, Why::Memory),
        ("written as fast as can be", GIB, GIB, 5e9, GIB, Method::Sequential, Why::Memory),
    ];
    for (what, to_read, held, dirty, spare, method, why) in table {
        let choice = choose(Snapshot::Auto, &situation(to_read, held, dirty, spare));
        assert_eq!((choice.method, choice.why), (method, why), "{what}");
    }
}

#[test]
fn auto_precopies_large_tracked_memory_that_is_rarely_written() {
    let table = [
        ("a tenth of much", 100 * MIB, GIB, 1e8, 8 * GIB, Method::Precopy),
        ("little", 2 * MIB, GIB, 2e6, 8 * GIB, Method::Copy),
        ("as it is read it is written", 100 * MIB, GIB, 2e9, 8 * GIB, Method::Copy),
        ("there is no memory to hold it", 100 * MIB, GIB, 1e8, 700 * MIB, Method::Fork),
    ];
    for (what, to_read, held, dirty, spare, method) in table {
        let now = Situation { is_tracked: true, ..situation(to_read, held, dirty, spare) };
        assert_eq!(choose(Snapshot::Auto, &now).method, method, "{what}");
    }
}

#[test]
fn many_small_processes_are_copied_and_not_cloned() {
    let of =
        |processes| choose(Snapshot::Auto, &Situation { processes, ..situation(100 * MIB, 100 * MIB, 0.0, 8 * GIB) });
    assert_eq!((of(1).method, of(200).method), (Method::Fork, Method::Copy));
}

#[test]
fn no_clone_is_made_beyond_the_commit_limit() {
    let strict = |promised| {
        let mut now = situation(GIB, GIB, 1e8, 8 * GIB);
        now.room.promised_bytes = Some(promised);
        choose(Snapshot::Auto, &now).method
    };
    assert_eq!((strict(2 * GIB), strict(GIB / 2)), (Method::Fork, Method::Sequential));
}

#[test]
fn a_requested_method_is_used_whatever_it_costs() {
    let now = situation(GIB, GIB, 0.0, 8 * GIB);
    for (asked, method) in
        [(Snapshot::Sequential, Method::Sequential), (Snapshot::Copy, Method::Copy), (Snapshot::Fork, Method::Fork)]
    {
        assert_eq!((choose(asked, &now).method, choose(asked, &now).why), (method, Why::Asked));
    }
    let copied = Writing::Held { bytes_max: 4 * GIB, bytes_expected: GIB };
    assert_eq!(choose(Snapshot::Copy, &now).writing(), copied);
    assert_eq!(choose(Snapshot::Sequential, &now).writing(), Writing::AtOnce);
}

#[test]
fn room_is_made_for_more_than_a_low_estimate() {
    let room = |asked, now: Situation| match choose(asked, &now).writing() {
        Writing::Held { bytes_expected, .. } => bytes_expected,
        Writing::AtOnce => 0,
    };
    let large = || situation(MIB, GIB, 0.0, 8 * GIB);
    for asked in [Snapshot::Copy, Snapshot::Fork, Snapshot::Precopy] {
        assert_eq!(room(asked, large()), ROOM_BYTES_MAX, "{asked:?}");
        assert_eq!(room(asked, situation(0, 16 * MIB, 0.0, 8 * GIB)), MIB, "{asked:?} of a small program");
    }
    assert_eq!(room(Snapshot::Auto, situation(MIB, GIB, 0.0, 8 * MIB)), MIB, "no more than may be held");
}

#[test]
fn an_unused_method_is_tried_when_enough_time_has_passed() {
    let mut now = situation(100 * MIB, GIB, 1e8, 8 * GIB);
    assert_eq!(choose(Snapshot::Auto, &now).method, Method::Copy);
    now.trials = Trials { since: [0, TRIAL_EVERY, TRIAL_EVERY + 1, 0], idle: 60.0 };
    let tried = choose(Snapshot::Auto, &now);
    assert_eq!((tried.method, tried.why), (Method::Fork, Why::Trial));
    now.trials.idle = 1.0;
    assert_eq!(choose(Snapshot::Auto, &now).method, Method::Copy, "it would cost more than the time that has passed");
    now.trials = Trials { since: [0, TRIAL_EVERY - 1, 0, 0], idle: 1e9 };
    assert_eq!(choose(Snapshot::Auto, &now).method, Method::Copy, "it is known");
    now.trials = Trials { since: [0, TRIAL_EVERY, 0, 0], idle: 1e9 };
    assert_eq!(choose(Snapshot::Auto, &now).method, Method::Sequential);
    assert_eq!(choose(Snapshot::Copy, &now).method, Method::Copy, "what was asked for is done");
    let small = Situation { trials: now.trials, ..situation(MIB, MIB, 0.0, 8 * GIB) };
    assert_eq!(choose(Snapshot::Auto, &small).method, Method::Copy, "nothing could be learnt of so little");
}

#[test]
fn auto_learns_that_clones_are_expensive() {
    let mut now = situation(GIB, GIB, 1e8, 8 * GIB);
    assert_eq!(choose(Snapshot::Auto, &now).method, Method::Fork);
    let (checking, pause) = (Duration::from_millis(2), Duration::from_millis(3000));
    let dear = Measured { method: Method::Fork, processes: 1, checking, pause, read: GIB, held: GIB };
    now.experience.learn(dear);
    assert_eq!(choose(Snapshot::Auto, &now).method, Method::Sequential);
    assert!(now.pause(Method::Fork) > 1.0);
}

#[test]
fn precopy_is_not_chosen_for_pages_that_are_rewritten_at_once() {
    assert_eq!(rewriting(0, GIB, 1.0), 0.0);
    assert!((rewriting(GIB / 10, GIB, 1.0) - 0.105).abs() < 0.001, "a tenth a second, some of it twice");
    let all =
        Situation { rewriting: rewriting(100 * MIB, 100 * MIB, 1.0), ..situation(100 * MIB, 100 * MIB, 0.0, 8 * GIB) };
    assert_eq!(all.written_in(PRECOPY_READ), (100 * MIB) as f64);
    let choice = choose(Snapshot::Auto, &Situation { is_tracked: true, ..all });
    assert_eq!(choice.method, Method::Copy);
}

#[test]
fn auto_learns_the_cost_of_precopy() {
    let mut now = Situation { is_tracked: true, ..situation(100 * MIB, GIB, 1e8, 8 * GIB) };
    assert_eq!(choose(Snapshot::Auto, &now).method, Method::Precopy);
    let (checking, pause) = (Duration::from_millis(2), Duration::from_millis(60));
    let dear = Measured { method: Method::Precopy, processes: 1, checking, pause, read: 100 * MIB, held: GIB };
    assert!(now.experience.learn(dear));
    assert_eq!(choose(Snapshot::Auto, &now).method, Method::Copy);
}

#[test]
fn a_full_checkpoint_after_many_changes_counts_all_as_rewritten() {
    let mut past = Past::default();
    let full = |seconds: u64| CheckpointReport {
        pages_read: 1000,
        pages_scanned: 1000,
        taken_nanoseconds: seconds * 1_000_000_000,
        ..CheckpointReport::default()
    };
    past.note(&full(1), true);
    assert_eq!(past.last.map(|last| last.rewriting), Some(0.0), "of the first nothing is known");
    past.note(&full(2), false);
    assert_eq!(past.last.map(|last| last.rewriting), Some(0.0), "it saves everything anyway");
    past.note(&full(3), true);
    assert_eq!(past.last.map(|last| last.rewriting), Some(REWRITING_MAX));
}
