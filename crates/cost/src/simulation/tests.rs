//! Simulated jobs against the equations, and the automatic interval against fixed ones.

use super::*;
use crate::{CheckpointCost, Curve, FailureRate, LevelSchedule, Poisson, TwoLevels, best_interval};

const HOUR: f64 = 3600.0;

fn cost(overhead: f64, latency: f64, recovery: f64) -> CheckpointCost {
    CheckpointCost::new(overhead, latency, recovery).expect("a cost")
}

fn job(base_seconds: f64, costs: CostCurves, model: FailureModel) -> SimulatedJob {
    SimulatedJob {
        base_seconds,
        phases: vec![CostPhase { until_seconds: f64::INFINITY, costs }],
        flushes: None,
        failures: NodeFailures { model, nodes: 1 },
        repair_seconds: 0.0,
    }
}

fn poisson(mean_time: f64) -> FailureModel {
    FailureModel::Poisson { rate: FailureRate::of_mean_time(mean_time).expect("a time") }
}

/// The simulation and the equations agree, and a Weibull distribution of shape 1 is the exponential one.
#[test]
fn the_simulation_agrees_with_the_equations() {
    for (cost, repair_seconds) in [(cost(20.0, 20.0, 60.0), 0.0), (cost(5.0, 200.0, 30.0), 100.0)] {
        let rate = FailureRate::of_mean_time(2.0 * HOUR).expect("a time");
        let model = Poisson { rate, cost, repair_seconds };
        for interval in [120.0, 500.0, 1500.0] {
            let expected = model.with_checkpoints_seconds(200.0 * HOUR, interval + cost.hidden_seconds());
            let weibull = FailureModel::Weibull { shape: 1.0, mean_time_seconds: 2.0 * HOUR };
            for failures in [poisson(2.0 * HOUR), weibull] {
                let mut job = job(200.0 * HOUR, CostCurves::constant(cost), failures);
                job.repair_seconds = repair_seconds;
                let times = simulate(&job, 200, 3, || FixedInterval(interval)).expect("a job");
                let error = (times.mean_seconds - expected).abs();
                // The end of the job is no whole interval: an interval in 200 hours.
                let allowed = 4.0 * times.standard_error_seconds + 0.5 * interval + cost.overhead_seconds();
                assert!(error < allowed, "{times:?}, expected {expected}");
                assert!(times.standard_error_seconds < 0.01 * expected);
            }
        }
    }
}

#[test]
fn without_checkpoints_it_agrees_as_well() {
    let rate = FailureRate::of_mean_time(HOUR).expect("a time");
    let model = Poisson { rate, cost: cost(1.0, 1.0, 0.0), repair_seconds: 60.0 };
    let mut job = job(2.0 * HOUR, CostCurves::constant(model.cost), poisson(HOUR));
    job.repair_seconds = 60.0;
    let times = simulate(&job, 20_000, 5, || FixedInterval(f64::INFINITY)).expect("a job");
    let expected = model.without_checkpoints_seconds(2.0 * HOUR);
    assert!((times.mean_seconds - expected).abs() < 4.0 * times.standard_error_seconds, "{times:?} {expected}");
    assert_eq!(times.checkpoints, 0.0);
}

#[test]
fn two_levels_agree_with_their_first_order() {
    let levels = TwoLevels {
        rate: FailureRate::of_mean_time(10.0 * HOUR).expect("a time"),
        mix: FailureMix::new(0.8).expect("a share"),
        local: cost(0.5, 0.5, 2.0),
        global: cost(5.5, 30.5, 40.0),
        repair_seconds: 0.0,
    };
    let best = levels.best_schedule();
    let schedule = LevelSchedule { global_every: best.global_every.round(), ..best };
    let mut job = job(1000.0 * HOUR, CostCurves::constant(levels.local), poisson(10.0 * HOUR));
    job.flushes = Some(FlushPlan {
        every: schedule.global_every as u32,
        overhead_seconds: 5.0,
        latency_seconds: 30.0,
        recovery_seconds: 40.0,
        mix: levels.mix,
    });
    let times = simulate(&job, 50, 9, || FixedInterval(schedule.interval_seconds)).expect("a job");
    let ratio = times.mean_seconds / job.base_seconds - 1.0;
    assert!(
        (ratio / levels.overhead_ratio(schedule) - 1.0).abs() < 0.15,
        "{ratio} {}",
        levels.overhead_ratio(schedule)
    );
}

#[test]
fn a_job_that_never_ends_is_given_up() {
    let job = job(10.0 * HOUR, CostCurves::constant(cost(60.0, 60.0, 600.0)), poisson(10.0));
    let times = simulate(&job, 2, 1, || FixedInterval(HOUR)).expect("a job");
    assert_eq!((times.mean_seconds, times.unfinished), (f64::INFINITY, 2));
}

#[test]
fn equal_seeds_give_equal_times() {
    let job = job(10.0 * HOUR, CostCurves::constant(cost(1.0, 1.0, 1.0)), poisson(HOUR));
    let times = |seed| simulate(&job, 10, seed, || FixedInterval(600.0)).expect("a job");
    assert_eq!(times(4), times(4));
    assert_ne!(times(4).mean_seconds, times(5).mean_seconds);
}

#[test]
fn impossible_jobs_are_refused() {
    let good = job(HOUR, CostCurves::constant(cost(1.0, 1.0, 1.0)), poisson(HOUR));
    let refused = |job: SimulatedJob| simulate(&job, 1, 1, || FixedInterval(1.0)).is_err();
    assert!(refused(SimulatedJob { base_seconds: 0.0, ..good.clone() }));
    assert!(refused(SimulatedJob { phases: Vec::new(), ..good.clone() }));
    assert!(refused(SimulatedJob { repair_seconds: f64::NAN, ..good.clone() }));
    assert!(!refused(good));
}

/// A job that changes its phase twice, as those that were recorded: it fills its memory, then writes all of it again and
/// again, then little of it.
fn changing_job(model: FailureModel) -> SimulatedJob {
    let phase = |until_seconds, overhead, exponent| CostPhase {
        until_seconds,
        costs: CostCurves {
            overhead: Curve::through(60.0, overhead, exponent),
            latency: Curve::through(60.0, 4.0 * overhead, exponent),
            recovery_seconds: 10.0,
        },
    };
    let mut job = job(30.0 * HOUR, CostCurves::constant(cost(1.0, 1.0, 1.0)), model);
    job.phases = vec![phase(5.0 * HOUR, 0.4, 0.9), phase(20.0 * HOUR, 2.0, 0.1), phase(f64::INFINITY, 0.05, 0.4)];
    job
}

/// The automatic interval is near the best fixed one, which nobody knows in advance, and never worse than ten minutes.
#[test]
fn the_automatic_interval_is_near_the_best() {
    for (mean_time, told) in [(HOUR, true), (HOUR, false), (24.0 * HOUR, true), (24.0 * HOUR, false)] {
        let job = changing_job(poisson(mean_time));
        let rate = told.then(|| FailureRate::of_mean_time(mean_time).expect("a time"));
        let fixed = |interval| simulate(&job, 40, 11, || FixedInterval(interval)).expect("a job").mean_seconds;
        let automatic = simulate(&job, 40, 11, || AutomaticInterval::new(rate)).expect("a job").mean_seconds;
        let best =
            [30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1800.0, 3600.0].map(fixed).into_iter().fold(f64::MAX, f64::min);
        assert!(automatic <= 1.05 * best, "{automatic} {best}, mean time {mean_time}, told {told}");
        assert!(automatic <= 1.01 * fixed(600.0), "{automatic}, ten minutes {}", fixed(600.0));
    }
}

#[test]
fn without_failures_the_automatic_interval_costs_little() {
    let job = changing_job(FailureModel::Poisson { rate: FailureRate::NEVER });
    let automatic = simulate(&job, 1, 1, || AutomaticInterval::new(None)).expect("a job").mean_seconds;
    assert!(automatic <= 1.01 * job.base_seconds, "{automatic} of {}", job.base_seconds);
}

/// The chosen interval is also the best where it is simulated.
#[test]
fn the_best_interval_is_the_best_of_the_simulated() {
    let curves = CostCurves {
        overhead: Curve::through(300.0, 3.0, 0.5),
        latency: Curve::through(300.0, 9.0, 0.5),
        recovery_seconds: 20.0,
    };
    let rate = FailureRate::of_mean_time(4.0 * HOUR).expect("a time");
    let best = best_interval(rate, curves, 0.0, 1.0..=HOUR).interval_seconds;
    let job = job(400.0 * HOUR, curves, poisson(4.0 * HOUR));
    let mean = |interval| simulate(&job, 400, 2, || FixedInterval(interval)).expect("a job").mean_seconds;
    assert!(mean(best) < mean(best / 3.0) && mean(best) < mean(best * 3.0));
}
