//! Overhead of the ways to save memory: equations (1) to (6) of "Compressed Differences" (section 4), and what follows from
//! them (sections 2.2 and 5).
//!
//! The equations describe a program that waits while its memory is written. They also give the processor and disk time of
//! checkpoints in the background.

use crate::error::{CostError, positive};
use serde::Serialize;

/// How fast a machine works, in bytes in a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DeviceRates {
    disk: f64,
    protect: f64,
    fault: f64,
    compress: f64,
}

impl DeviceRates {
    /// Makes the rates of writing to the disk, of protecting pages from writing, of handling page faults, and of copying
    /// and compressing.
    ///
    /// # Errors
    /// One of them is not positive or not finite.
    pub fn new(disk: f64, protect: f64, fault: f64, compress: f64) -> Result<Self, CostError> {
        Ok(Self {
            disk: positive("the rate of the disk", disk)?,
            protect: positive("the rate of protecting pages", protect)?,
            fault: positive("the rate of page faults", fault)?,
            compress: positive("the rate of compression", compress)?,
        })
    }

    /// Returns the factor by which memory must be larger than what has changed for an incremental checkpoint to cost less
    /// than a full one (where equation 3 is zero). `None` if it never does, since finding changes takes longer than writing.
    pub fn incremental_pays_from(self) -> Option<f64> {
        let saved = 1.0 / self.disk - 1.0 / self.protect;
        (saved > 0.0).then(|| (1.0 / self.disk + 1.0 / self.fault) / saved)
    }
}

/// What there is to save at a checkpoint, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CheckpointSizes {
    /// All memory.
    pub address_space: f64,
    /// Pages that have changed since the last checkpoint.
    pub changed: f64,
}

/// What became of changed pages under online compression: they are compressed when the buffer is full, not at the
/// checkpoint. All in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OnlineSizes {
    /// Compressed before the checkpoint, and not changed again.
    pub compressed: f64,
    /// Still uncompressed in the buffer, for the first time.
    pub uncompressed_once: f64,
    /// Compressed, changed again, and uncompressed in the buffer.
    pub uncompressed_twice: f64,
    /// Never in the buffer.
    pub never_buffered: f64,
    /// Compressed, changed again, and not in the buffer.
    pub dropped: f64,
}

impl OnlineSizes {
    /// Returns the effective size of the buffer: all that is compressed in the checkpoint.
    pub fn effective_buffer(self) -> f64 {
        self.compressed + self.uncompressed_once + self.uncompressed_twice
    }

    fn changed(self) -> f64 {
        self.effective_buffer() + self.never_buffered + self.dropped
    }
}

impl CheckpointSizes {
    /// Returns the overhead of a full checkpoint in seconds: equation (1).
    pub fn sequential_seconds(self, rates: DeviceRates) -> f64 {
        self.address_space / rates.disk
    }

    /// Returns the overhead of an incremental checkpoint in seconds: equation (2).
    pub fn incremental_seconds(self, rates: DeviceRates) -> f64 {
        self.changed / rates.disk + self.tracking_seconds(rates)
    }

    /// Returns what an incremental checkpoint saves, in seconds: equation (3).
    pub fn incremental_gain_seconds(self, rates: DeviceRates) -> f64 {
        self.sequential_seconds(rates) - self.incremental_seconds(rates)
    }

    /// Returns the overhead of compressed differences in seconds: equation (4). `buffer` is the memory for old pages; where
    /// less has changed, only that much of it is used. `factor` is the share that compression removes.
    pub fn differences_seconds(self, rates: DeviceRates, buffer: f64, factor: f64) -> f64 {
        let buffer = buffer.min(self.changed);
        (self.changed - buffer) / rates.disk
            + buffer * (1.0 - factor) / rates.disk
            + buffer / rates.compress
            + self.tracking_seconds(rates)
    }

    /// Returns what compressed differences save of an incremental checkpoint, in seconds: equation (5).
    pub fn differences_gain_seconds(self, rates: DeviceRates, buffer: f64, factor: f64) -> f64 {
        buffer.min(self.changed) * (factor / rates.disk - 1.0 / rates.compress)
    }

    /// Returns the overhead of online compressed differences in seconds: equation (6). What has changed is the sum of
    /// `online`.
    pub fn online_differences_seconds(self, rates: DeviceRates, online: OnlineSizes, factor: f64) -> f64 {
        let OnlineSizes { compressed, uncompressed_twice: twice, never_buffered, dropped, .. } = online;
        let buffer = online.effective_buffer();
        ((1.0 - factor) * buffer + never_buffered + dropped) / rates.disk
            + (buffer + 2.0 * twice + dropped) / rates.compress
            + (self.address_space + compressed + twice + dropped) / rates.protect
            + (online.changed() + twice + dropped) / rates.fault
    }

    fn tracking_seconds(self, rates: DeviceRates) -> f64 {
        self.address_space / rates.protect + self.changed / rates.fault
    }
}

/// Reports whether compression pays (section 2.2): whether the share that it removes is above the ratio of the disk's rate to
/// its own.
pub fn compression_pays(factor: f64, disk_rate: f64, compression_rate: f64) -> bool {
    factor * compression_rate > disk_rate
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine of section 5, in megabytes.
    fn machine() -> DeviceRates {
        DeviceRates::new(0.1797, 6892.0, 8.679, 1.138).expect("rates")
    }

    /// The thresholds of section 5: 1.02 and 0.16.
    #[test]
    fn the_thresholds_of_the_paper() {
        let from = machine().incremental_pays_from().expect("the disk is slow");
        assert_eq!(format!("{from:.2}"), "1.02");
        assert!(compression_pays(0.16, 0.1797, 1.138) && !compression_pays(0.15, 0.1797, 1.138));
        let slow_tracking = DeviceRates::new(10.0, 5.0, 100.0, 1.0).expect("rates");
        assert_eq!(slow_tracking.incremental_pays_from(), None);
    }

    #[test]
    fn gains_are_the_differences_of_the_overheads() {
        let rates = machine();
        for (address_space, changed, buffer, factor) in
            [(10.0, 2.0, 1.0, 0.9), (10.0, 10.0, 4.0, 0.04), (3.0, 1.0, 9.0, 0.5)]
        {
            let sizes = CheckpointSizes { address_space, changed };
            let incremental = sizes.sequential_seconds(rates) - sizes.incremental_seconds(rates);
            assert_eq!(sizes.incremental_gain_seconds(rates), incremental);
            let differences = sizes.incremental_seconds(rates) - sizes.differences_seconds(rates, buffer, factor);
            assert!((sizes.differences_gain_seconds(rates, buffer, factor) - differences).abs() < 1e-9);
            let from = rates.incremental_pays_from().expect("the disk is slow");
            assert_eq!(address_space / changed > from, incremental > 0.0);
        }
    }

    /// If nothing was changed twice, online compression costs what compression at the checkpoint does, and the protection of
    /// what was compressed.
    #[test]
    fn online_compression_of_what_is_written_once_is_compression() {
        let rates = machine();
        let sizes = CheckpointSizes { address_space: 10.0, changed: 5.0 };
        let online = OnlineSizes {
            compressed: 1.0,
            uncompressed_once: 2.0,
            uncompressed_twice: 0.0,
            never_buffered: 2.0,
            dropped: 0.0,
        };
        let once = sizes.differences_seconds(rates, 3.0, 0.7);
        let difference = sizes.online_differences_seconds(rates, online, 0.7) - once;
        assert!((difference - 1.0 / 6892.0).abs() < 1e-9);
        let twice = OnlineSizes { uncompressed_once: 0.0, uncompressed_twice: 2.0, ..online };
        assert!(
            sizes.online_differences_seconds(rates, twice, 0.7) > sizes.online_differences_seconds(rates, online, 0.7)
        );
    }

    #[test]
    fn impossible_rates_are_refused() {
        assert!(DeviceRates::new(0.0, 1.0, 1.0, 1.0).is_err());
        assert!(DeviceRates::new(1.0, 1.0, f64::NAN, 1.0).is_err());
    }
}
