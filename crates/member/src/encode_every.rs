//! Which epochs are encoded: a setting, and the choice where that is left to the group. The others are local.

use standfast_core::estimate::{Estimate, Weight};
use standfast_cost::FailureMix;
use standfast_group::EpochLevel;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// With which the choice begins, so that local epochs are measured as well.
const AT_FIRST: u64 = 4;

/// Which epochs are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeEvery {
    /// Every Nth; 0 and 1 encode all.
    Nth(u64),
    /// As many as is best for the time that local and encoded epochs take here (H1).
    Auto,
}

impl EncodeEvery {
    /// Returns the number with which a life begins.
    pub(crate) fn at_first(self) -> u64 {
        match self {
            Self::Nth(number) => number.max(1),
            Self::Auto => AT_FIRST,
        }
    }
}

impl Default for EncodeEvery {
    fn default() -> Self {
        Self::Nth(1)
    }
}

impl FromStr for EncodeEvery {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text
                .parse()
                .map(Self::Nth)
                .map_err(|_| format!("'{text}' is not a number of checkpoints\nhint: write 1 or more, or 'auto'")),
        }
    }
}

impl fmt::Display for EncodeEvery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nth(number) => number.max(&1).fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// Chooses how many epochs come to one that is encoded: the more, the longer an encoded epoch takes than a local one. The
/// process that decides which epochs are local measures for all: it waits for the others in each epoch.
#[derive(Debug, Default)]
pub(crate) struct EncodeRatio {
    /// Seconds.
    local: Estimate,
    encoded: Estimate,
    /// Whether the first epoch is past, which stores all pages.
    has_begun: bool,
}

impl EncodeRatio {
    /// Returns `None` if the user says the number.
    pub(crate) fn of(asked: EncodeEvery) -> Option<Self> {
        (asked == EncodeEvery::Auto).then(Self::default)
    }

    /// Learns how long an epoch took.
    pub(crate) fn note(&mut self, level: EpochLevel, took: Duration) {
        let is_usual = std::mem::replace(&mut self.has_begun, true);
        match level {
            EpochLevel::Local(_) => self.local.add(took.as_secs_f64(), Weight::RARE),
            EpochLevel::Encoded if is_usual => self.encoded.add(took.as_secs_f64(), Weight::RARE),
            EpochLevel::Encoded => {}
        }
    }

    /// Returns the number; `None` until both are known.
    pub(crate) fn every(&self) -> Option<u64> {
        let (local, encoded) = (self.local.value()?, self.encoded.value()?);
        Some(FailureMix::default().best_global_every(local, (encoded - local).max(0.0)).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_epochs_that_take_longer_are_rarer() {
        let every = |local, encoded| {
            let mut ratio = EncodeRatio::of(EncodeEvery::Auto).expect("it is left to the group");
            ratio.note(EpochLevel::Encoded, Duration::from_secs(1000));
            ratio.note(EpochLevel::Local(None), Duration::from_millis(local));
            assert_eq!(ratio.every(), None);
            ratio.note(EpochLevel::Encoded, Duration::from_millis(encoded));
            ratio.every()
        };
        // sqrt(50 * 0.613 / 0.387) = 8.9
        assert_eq!(every(20, 1020), Some(9));
        assert_eq!(every(20, 20), Some(1));
        assert_eq!(every(20, 10), Some(1));
        assert!(EncodeRatio::of(EncodeEvery::default()).is_none());
    }

    #[test]
    fn the_setting_is_a_number_or_auto() {
        for text in ["1", "7", "auto"] {
            assert_eq!(text.parse::<EncodeEvery>().expect("a setting").to_string(), text);
        }
        assert_eq!("0".parse::<EncodeEvery>().expect("a setting").at_first(), 1);
        assert!("often".parse::<EncodeEvery>().is_err());
    }
}
