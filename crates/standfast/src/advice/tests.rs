//! Advice about jobs that are described.

use super::*;
use crate::settings::MeanTime;
use std::time::Duration;

fn described(mtbf: &str) -> JobDescriptionForAdvice {
    JobDescriptionForAdvice {
        size: Some("10G".parse().unwrap()),
        changes: Some("50M/s".parse().unwrap()),
        disk: Some("500M/s".parse().unwrap()),
        mtbf: mtbf.parse().unwrap(),
        base: Some(Duration::from_secs(3 * 86_400)),
        ..JobDescriptionForAdvice::default()
    }
}

fn advice(described: JobDescriptionForAdvice) -> AdviceReport {
    advise(&AdviceRequest { directory: None, described }).expect("a machine")
}

#[test]
fn the_best_interval_is_better_than_all_alternatives() {
    for mtbf in ["1h", "12h", "30days"] {
        let report = advice(described(mtbf));
        let best = report.alternatives[0].overhead_ratio.expect("it ends");
        assert!(
            report.alternatives.iter().all(|it| it.overhead_ratio.is_none_or(|ratio| ratio >= best * 0.999)),
            "{mtbf}"
        );
        assert!(report.is_worth && report.pays_from_seconds.is_some());
        assert!(report.curve.len() > 10);
        let lowest = report.curve.iter().map(|point| point.value).fold(f64::MAX, f64::min);
        assert!(best <= lowest * 1.001, "{mtbf}: {best} {lowest}");
    }
}

#[test]
fn a_short_job_that_seldom_fails_needs_no_checkpoints() {
    let short = JobDescriptionForAdvice { base: Some(Duration::from_secs(60)), ..described("30days") };
    let report = advice(short);
    assert!(!report.is_worth);
    assert!(report.pays_from_seconds.expect("longer ones do") > 60.0);
    let never = advice(JobDescriptionForAdvice { mtbf: MeanTime::Never, ..described("1h") });
    assert!(!never.is_worth);
    assert_eq!((never.mean_time_seconds, never.pays_from_seconds), (None, None));
}

#[test]
fn more_nodes_fail_more_often() {
    let nodes = |nodes| JobDescriptionForAdvice { nodes: std::num::NonZeroU32::new(nodes), ..described("30days") };
    let (one, many) = (advice(nodes(1)), advice(nodes(1000)));
    assert!(one.alternatives[0].standard_error_seconds.is_none(), "the equations cover it");
    assert!(many.alternatives[0].standard_error_seconds.is_some(), "it is simulated");
    assert!((one.mean_time_seconds.unwrap() / many.mean_time_seconds.unwrap() - 1000.0).abs() < 1e-6);
    assert!(many.interval_seconds < one.interval_seconds / 10.0);
    let without = many.alternatives.last().expect("no checkpoints");
    assert!(without.overhead_ratio.is_none_or(|ratio| ratio > 1e6), "a job of 1000 nodes hardly ever ends without");
}

/// Where nodes do not fail at a constant rate, the job is simulated. With a shape of 1 the simulation agrees with the equation.
#[test]
fn other_distributions_are_simulated() {
    let shape = |shape| JobDescriptionForAdvice { weibull: shape, ..described("3h") };
    let ratio = |shape_given| advice(shape(shape_given)).alternatives[0].overhead_ratio.expect("it ends");
    assert!((ratio(Some(1.0)) / ratio(None) - 1.0).abs() < 0.1);
    assert!(advise(&AdviceRequest { directory: None, described: shape(Some(-1.0)) }).is_err());
}

/// Failures that come in pairs are those of a job that fails half as often, since the second of each pair costs little.
#[test]
fn recorded_failures_are_simulated_as_they_came() {
    let advised = |gaps: [u32; 2]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let times = (0..400).scan(0, |at, turn| {
            *at += gaps[turn % 2];
            Some(format!("{at}\n"))
        });
        std::fs::write(&file, times.collect::<String>()).unwrap();
        advice(JobDescriptionForAdvice { failures: Some(file.path().to_owned()), ..described("1h") })
    };
    let (evenly, in_pairs) = (advised([7200, 7200]), advised([14_390, 10]));
    for report in [&evenly, &in_pairs] {
        assert!((report.mean_time_seconds.unwrap() / 7200.0 - 1.0).abs() < 0.01);
        assert!(report.alternatives[0].standard_error_seconds.is_some());
    }
    let ratio = |report: &AdviceReport| report.alternatives[0].overhead_ratio.unwrap();
    assert!(ratio(&in_pairs) < ratio(&evenly) * 0.97, "{} {}", ratio(&in_pairs), ratio(&evenly));
}

#[test]
fn without_a_job_or_a_size_there_is_nothing_to_say() {
    let error = advise(&AdviceRequest::default()).expect_err("nothing is known").to_string();
    assert!(error.contains("hint:"), "{error}");
    let nowhere = AdviceRequest { directory: Some("/nonexistent".into()), ..AdviceRequest::default() };
    assert!(advise(&nowhere).is_err());
}

#[test]
fn costs_grow_until_all_memory_has_changed() {
    let inputs = Inputs::gather(&described("1h"), &JobHistory::default(), false).expect("a machine");
    let latency = |seconds| inputs.costs.at(seconds).latency_seconds();
    assert!(latency(10.0) < latency(100.0));
    assert_eq!(latency(300.0), latency(3000.0), "10 GiB have changed after 205 s");
}

#[test]
fn the_disk_bounds_the_interval() {
    // 10 GiB at 500 MiB/s take 20.5 s, and 50 MiB/s are a tenth of the disk.
    let constant = JobDescriptionForAdvice { changes: None, ..described("1h") };
    let disk = advice(constant).disk.expect("the size is known");
    assert!((disk.shortest_interval_seconds.unwrap() - 20.48).abs() < 0.01);
    let disk = advice(described("1h")).disk.expect("the size is known");
    assert!(
        (disk.bytes_per_second - f64::from(50 << 20)).abs() < 1.0 && (disk.busy_share.unwrap() - 0.1).abs() < 1e-6,
        "{disk:?}"
    );
    let slow = JobDescriptionForAdvice { disk: Some("10M/s".parse().unwrap()), ..described("1h") };
    let disk = advice(slow).disk.expect("the size is known");
    assert!((disk.shortest_interval_seconds.unwrap() - 1024.0).abs() < 1.0, "until all memory has changed: {disk:?}");
}

#[test]
fn memory_is_flushed_less_often_the_more_failures_it_survives() {
    let every = |percent| {
        let local = JobDescriptionForAdvice { local_percent: Some(percent), ..described("12h") };
        advice(local).levels.map_or(1, |levels| levels.flush_every)
    };
    assert!(every(99.0) > every(90.0) && every(90.0) > 1);
    assert_eq!(every(0.0), 1, "then each checkpoint goes to the disk");
    let more = JobDescriptionForAdvice { local_percent: Some(500.0), ..described("12h") };
    let error = advise(&AdviceRequest { directory: None, described: more }).expect_err("more than all").to_string();
    assert!(error.contains("cannot be 500"), "{error}");
}
