//! The option that says how often the job fails.

use super::option_kinds::{Kept, OptionError};
use serde::{Serialize, Serializer};
use standfast_cost::FailureRate;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest mean time: a hundred years. Who means that nothing fails says `never`.
const MEAN_TIME_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Shortest mean time. Jobs that fail more often do not get anywhere.
const MEAN_TIME_MIN: Duration = Duration::from_secs(1);

/// Mean time between failures of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MeanTime {
    /// It is learnt from the failures of the job.
    #[default]
    Auto,
    /// It is known.
    Known(Duration),
    /// Nothing fails.
    Never,
}

impl MeanTime {
    /// Returns the rate of failures, if the user says it.
    pub(crate) fn rate(self) -> Option<FailureRate> {
        match self {
            Self::Auto => None,
            Self::Known(time) => FailureRate::of_mean_time(time.as_secs_f64()).ok(),
            Self::Never => Some(FailureRate::NEVER),
        }
    }
}

impl Kept for MeanTime {
    /// In seconds; 0 for `auto`, the largest number for `never`.
    type Record = u64;

    fn to_record(self) -> Option<u64> {
        Some(match self {
            Self::Auto => 0,
            Self::Known(time) => time.as_secs(),
            Self::Never => u64::MAX,
        })
    }

    fn from_record(record: u64) -> Option<Self> {
        match record {
            0 => Some(Self::Auto),
            u64::MAX => Some(Self::Never),
            seconds => known(Duration::from_secs(seconds)),
        }
    }
}

fn known(time: Duration) -> Option<MeanTime> {
    (MEAN_TIME_MIN..=MEAN_TIME_MAX).contains(&time).then_some(MeanTime::Known(time))
}

impl FromStr for MeanTime {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let remedy = "write a time from 1s to 100years with its unit (12h, 30days), 'never', or 'auto'";
        let wrong = || OptionError::new(text, "is not a mean time between failures", remedy);
        match text {
            "auto" => Ok(Self::Auto),
            "never" => Ok(Self::Never),
            _ => {
                let time = humantime::parse_duration(text).map_err(|_| wrong())?;
                // Fractions of a second are not kept.
                known(Duration::from_secs(time.as_secs())).ok_or_else(wrong)
            }
        }
    }
}

impl fmt::Display for MeanTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Never => f.write_str("never"),
            Self::Known(time) => humantime::format_duration(*time).fmt(f),
        }
    }
}

impl Serialize for MeanTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(time) => serializer.serialize_f64(time.as_secs_f64()),
            Self::Auto | Self::Never => serializer.collect_str(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_time_is_a_time_or_a_word() {
        for text in ["auto", "never", "1s", "12h", "30days"] {
            let mean_time: MeanTime = text.parse().unwrap();
            assert_eq!(mean_time.to_string(), text);
            assert_eq!(mean_time.to_record().and_then(MeanTime::from_record), Some(mean_time));
        }
        for text in ["", "0s", "12", "-1h", "200years", "500ms", "inf", "NaN"] {
            assert!(text.parse::<MeanTime>().is_err(), "{text}");
        }
        assert_eq!(MeanTime::from_record(u64::MAX - 1), None);
    }

    #[test]
    fn what_is_told_is_a_rate() {
        let rate = "1000s".parse::<MeanTime>().unwrap().rate().unwrap();
        assert!((rate.get() - 0.001).abs() < 1e-12);
        assert_eq!(MeanTime::Never.rate(), Some(FailureRate::NEVER));
        assert_eq!(MeanTime::Auto.rate(), None);
    }
}
