//! Two levels: frequent checkpoints that survive some failures, and rare ones that survive all ("Hybrid checkpointing",
//! section III).

use crate::checkpoint_cost::CheckpointCost;
use crate::error::CostError;
use crate::failure_rate::FailureRate;
use serde::{Deserialize, Serialize};

/// Most local checkpoints for each global one that are considered.
const LOCALS_MAX: f64 = 1e6;

/// Which failures a local checkpoint survives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FailureMix {
    local_share: f64,
}

impl FailureMix {
    /// Makes a mix in which this share of all failures, from 0 to 1, leaves local checkpoints usable.
    ///
    /// # Errors
    /// The share is below 0 or above 1.
    pub fn new(local_share: f64) -> Result<Self, CostError> {
        if (0.0..=1.0).contains(&local_share) {
            Ok(Self { local_share })
        } else {
            Err(CostError { what: "the share of failures", value: local_share, must: "from 0 to 1" })
        }
    }

    /// Returns the share of failures that a local checkpoint survives.
    pub fn local_share(self) -> f64 {
        self.local_share
    }

    /// Returns how many checkpoints are best for each global one, from 1: `sqrt((O_G / O_L) (rate_L / rate_G))`, where `O_L`
    /// is what a local checkpoint costs the program, and `O_G` what a global one adds, in seconds.
    pub fn best_global_every(self, local_seconds: f64, added_seconds: f64) -> f64 {
        let every = (added_seconds / local_seconds * (self.local_share / (1.0 - self.local_share))).sqrt();
        // Not a number if both levels cost nothing, or if a share is zero that is divided by zero.
        if every.is_nan() { 1.0 } else { every.clamp(1.0, LOCALS_MAX) }
    }
}

impl Default for FailureMix {
    /// Soft errors of the hardware and errors of software, of 23,739 failures at Los Alamos from 1996 to 2005: 38.7 and 22.6 %
    /// (Table II). The paper's own 83 % is a projection of its reference \[3\].
    fn default() -> Self {
        Self { local_share: 0.613 }
    }
}

/// A job with checkpoints on two levels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TwoLevels {
    /// All failures.
    pub rate: FailureRate,
    /// Which of them a local checkpoint survives.
    pub mix: FailureMix,
    /// A checkpoint that stays on its machine.
    pub local: CheckpointCost,
    /// A checkpoint that survives the machine. Its overhead is that of the local one, and what bringing it away adds.
    pub global: CheckpointCost,
    /// Time from a failure that loses the machine until a recovery can begin, in seconds.
    pub repair_seconds: f64,
}

/// When the checkpoints of two levels are taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LevelSchedule {
    /// Work between two checkpoints, in seconds; infinite without failures.
    pub interval_seconds: f64,
    /// Each checkpoint of this number is global; 1 or more.
    pub global_every: f64,
}

impl LevelSchedule {
    /// Returns the share of checkpoints that stay local.
    pub fn local_share(self) -> f64 {
        1.0 - 1.0 / self.global_every
    }
}

impl TwoLevels {
    /// Returns the best schedule, by the first order of the expected overhead: the interval `sqrt(2 O_L / rate_L)`, and global
    /// checkpoints by [`FailureMix::best_global_every`].
    ///
    /// Where that would be less than one, every checkpoint is global, and the interval is that of one level.
    pub fn best_schedule(&self) -> LevelSchedule {
        let (local_rate, _) = self.rates();
        let (local, added) = (self.local.overhead_seconds(), self.added_seconds());
        if self.rate.is_never() {
            return LevelSchedule { interval_seconds: f64::INFINITY, global_every: LOCALS_MAX };
        }
        let global_every = self.mix.best_global_every(local, added);
        let interval_seconds = if global_every > 1.0 {
            (2.0 * local / local_rate.get()).sqrt()
        } else {
            (2.0 * (local + added) / self.rate.get()).sqrt()
        };
        LevelSchedule { interval_seconds, global_every }
    }

    /// Returns the expected overhead ratio of a schedule in the first order: what checkpoints cost, the work that failures lose
    /// (half an interval on average, and what was not usable yet), and recoveries. Failures that come during a recovery, or
    /// twice in an interval, are not in it; [`crate::simulate`] has them. Infinite without checkpoints.
    pub fn overhead_ratio(&self, schedule: LevelSchedule) -> f64 {
        let (local_rate, global_rate) = self.rates();
        let LevelSchedule { interval_seconds: interval, global_every: every } = schedule;
        if interval.is_infinite() {
            return if self.rate.is_never() { 0.0 } else { f64::INFINITY };
        }
        let checkpoints = (self.local.overhead_seconds() + self.added_seconds() / every) / interval;
        let lost_locally = interval / 2.0 + self.local.latency_seconds() + self.local.recovery_seconds();
        let lost_globally = interval * every / 2.0
            + self.global.latency_seconds()
            + self.global.recovery_seconds()
            + self.repair_seconds;
        checkpoints + local_rate.get() * lost_locally + global_rate.get() * lost_globally
    }

    /// Returns the rates of failures that a local checkpoint survives, and of the others.
    fn rates(&self) -> (FailureRate, FailureRate) {
        (self.rate.share(self.mix.local_share), self.rate.share(1.0 - self.mix.local_share))
    }

    /// Returns what a global checkpoint costs the program more than a local one.
    fn added_seconds(&self) -> f64 {
        (self.global.overhead_seconds() - self.local.overhead_seconds()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(local: f64, global: f64, share: f64) -> TwoLevels {
        TwoLevels {
            rate: FailureRate::of_mean_time(86_400.0).expect("a day"),
            mix: FailureMix::new(share).expect("a share"),
            local: CheckpointCost::new(local, local, 1.0).expect("a cost"),
            global: CheckpointCost::new(local + global, local + global, 10.0).expect("a cost"),
            repair_seconds: 0.0,
        }
    }

    /// The paper's 83 and 17 % with a global checkpoint that costs 50 times a local one: more than 90 % can be local.
    #[test]
    fn the_share_of_local_checkpoints_of_the_paper() {
        let schedule = levels(1.0, 50.0, 0.83).best_schedule();
        assert_eq!(format!("{:.1}", schedule.global_every), "15.6");
        assert_eq!(format!("{:.1}", schedule.local_share() * 100.0), "93.6");
    }

    #[test]
    fn the_best_schedule_is_better_than_its_neighbours() {
        for (local, global, share) in [(1.0, 50.0, 0.83), (0.1, 60.0, 0.613), (2.0, 3.0, 0.95)] {
            let levels = levels(local, global, share);
            let best = levels.best_schedule();
            for (interval, every) in [(0.9, 1.0), (1.1, 1.0), (1.0, 0.9), (1.0, 1.1)] {
                let other = LevelSchedule {
                    interval_seconds: best.interval_seconds * interval,
                    global_every: best.global_every * every,
                };
                assert!(levels.overhead_ratio(best) <= levels.overhead_ratio(other) + 1e-12);
            }
        }
    }

    #[test]
    fn every_checkpoint_is_global_where_local_ones_do_not_help() {
        let schedule = levels(1.0, 50.0, 0.0).best_schedule();
        assert_eq!(schedule.global_every, 1.0);
        assert_eq!(schedule.local_share(), 0.0);
        assert!((schedule.interval_seconds - (2.0 * 51.0 * 86_400.0_f64).sqrt()).abs() < 1e-6);
        assert_eq!(levels(0.0, 0.0, 0.5).best_schedule().global_every, 1.0);
        assert_eq!(levels(1.0, 50.0, 1.0).best_schedule().global_every, LOCALS_MAX);
        assert!(FailureMix::new(1.1).is_err() && FailureMix::new(f64::NAN).is_err());
    }
}
