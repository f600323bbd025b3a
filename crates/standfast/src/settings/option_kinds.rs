//! Kinds of option values: a number of things, a time. Each kind defines once how such a value is read, shown, and kept
//! in a manifest. Options that are one of a few words are defined with the manifest. This module does not know which
//! options there are.

mod bytes;

pub(crate) use bytes::{parse_bytes, write_bytes};
pub(crate) use standfast_format::manifest::OptionError;
use std::time::Duration;

/// Longest time that a time option accepts: a day. A disk that is used less often than that
/// is of no use as a level.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// An option that the manifest of a job keeps.
pub(crate) trait Kept: Sized {
    /// The type that a manifest holds.
    type Record;

    /// Returns `None` for the value of a manifest that does not name the option.
    fn to_record(self) -> Option<Self::Record>;

    /// Returns `None` for a value that no command line would have accepted.
    fn from_record(record: Self::Record) -> Option<Self>;
}

/// Has options kept by the manifest with the types and the values that users choose.
macro_rules! kept_as_chosen {
    ($($name:ident),+ $(,)?) => {
        $(impl $crate::settings::option_kinds::Kept for $name {
            type Record = Self;

            fn to_record(self) -> Option<Self> {
                Some(self)
            }

            fn from_record(record: Self) -> Option<Self> {
                Some(record)
            }
        })+
    };
}
pub(crate) use kept_as_chosen;

/// Defines an option that is a number of things, at least one.
macro_rules! number {
    ($(#[$meaning:meta])* $name:ident, $wrong:literal, $(#[$why:meta])* $usual:literal) => {
        $(#[$meaning])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
        pub struct $name(std::num::NonZeroU32);

        impl $name {
            /// Returns `None` for zero.
            pub fn new(number: u32) -> Option<Self> {
                std::num::NonZeroU32::new(number).map(Self)
            }

            /// Returns the number.
            pub fn get(self) -> std::num::NonZeroU32 {
                self.0
            }
        }

        impl Default for $name {
            $(#[$why])*
            fn default() -> Self {
                Self::new($usual).expect("the usual number is not zero")
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::settings::option_kinds::OptionError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self).map_err(|_| Self::Err::new(text, $wrong, "write 1 or more"))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $crate::settings::option_kinds::Kept for $name {
            type Record = u32;

            fn to_record(self) -> Option<u32> {
                Some(self.0.get())
            }

            fn from_record(record: u32) -> Option<Self> {
                Self::new(record)
            }
        }
    };
}
pub(crate) use number;

/// Defines an option that is a time of at most a day. It is kept in milliseconds and shown in seconds.
macro_rules! time {
    ($(#[$meaning:meta])* $name:ident, $wrong:literal, $(#[$why:meta])* $seconds:literal) => {
        $(#[$meaning])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(std::time::Duration);

        impl $name {
            /// Returns the time.
            pub fn get(self) -> std::time::Duration {
                self.0
            }
        }

        impl Default for $name {
            $(#[$why])*
            fn default() -> Self {
                Self(std::time::Duration::from_secs($seconds))
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::settings::option_kinds::OptionError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let remedy = "write a time of at most a day with its unit (90s, 10m)";
                let time = $crate::settings::option_kinds::day_at_most(humantime::parse_duration(text).ok());
                time.map(Self).ok_or_else(|| Self::Err::new(text, $wrong, remedy))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                humantime::format_duration(self.0).fmt(f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(self.0.as_secs_f64())
            }
        }

        impl $crate::settings::option_kinds::Kept for $name {
            type Record = u64;

            fn to_record(self) -> Option<u64> {
                Some($crate::settings::option_kinds::milliseconds(self.0))
            }

            fn from_record(record: u64) -> Option<Self> {
                $crate::settings::option_kinds::day_at_most(Some(std::time::Duration::from_millis(record))).map(Self)
            }
        }
    };
}
pub(crate) use time;

/// Returns the time, or `None` if it is longer than an option may be.
pub(crate) fn day_at_most(time: Option<Duration>) -> Option<Duration> {
    time.filter(|time| *time <= TIME_MAX)
}

/// Converts a time to the milliseconds that a manifest keeps.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("an option's time is a year at most")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compress, Grace, Keep, Snapshot};

    #[test]
    fn option_values_round_trip_through_text() {
        for word in ["sequential", "copy", "fork", "precopy", "auto"] {
            assert_eq!(word.parse::<Snapshot>().expect(word).to_string(), word);
        }
        assert_eq!("main-memory".parse(), Ok(Snapshot::Copy), "a name of the papers");
        assert_eq!("7".parse(), Ok(Keep::new(7).expect("not zero")));
        assert_eq!(Keep::default().to_string().parse(), Ok(Keep::default()));
        assert_eq!("90s".parse::<Grace>().expect("a time").get(), Duration::from_secs(90));
        assert_eq!("0s".parse::<Grace>().expect("a time").to_string(), "0s");
        assert_eq!(Grace::default().to_string().parse(), Ok(Grace::default()));
    }

    #[test]
    fn a_wrong_value_is_refused_with_the_valid_ones() {
        let refused = "gzip".parse::<Compress>().expect_err("no word of it").to_string();
        assert_eq!(refused, "'gzip' is not a compression method\nhint: write 'none', 'lz4', 'zstd' or 'auto'");
        for text in ["0", "-1", "many", ""] {
            assert!(text.parse::<Keep>().expect_err(text).to_string().contains("1 or more"));
        }
        for text in ["2 days", "30", "-1s", ""] {
            assert!(text.parse::<Grace>().expect_err(text).to_string().contains("with its unit"));
        }
    }

    #[test]
    fn out_of_range_values_in_a_manifest_are_rejected() {
        assert_eq!(Keep::from_record(0), None);
        assert_eq!(Grace::from_record(u64::MAX), None);
        assert_eq!(Grace::default().to_record().and_then(Grace::from_record), Some(Grace::default()));
    }
}
