//! The option that says how many threads write a checkpoint.

use super::option_kinds::{Kept, OptionError};
use serde::Serialize;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Threads that compress and write a checkpoint; `None` for as many as the store thinks best, the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Writers(Option<NonZeroU32>);

impl Writers {
    /// The largest number. More threads than a machine has processors only cost memory.
    const MAX: u32 = 256;

    /// Returns the number, if it was chosen.
    pub fn chosen(self) -> Option<NonZeroU32> {
        self.0
    }
}

impl FromStr for Writers {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let number = || text.parse().ok().and_then(Self::from_record);
        let writers = if text == "auto" { Some(Self::default()) } else { number() };
        writers.ok_or_else(|| OptionError::new(text, "is not a number of threads", "write 1 to 256, or 'auto'"))
    }
}

impl fmt::Display for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("auto"),
        }
    }
}

impl Kept for Writers {
    type Record = u32;

    fn to_record(self) -> Option<u32> {
        self.0.map(NonZeroU32::get)
    }

    fn from_record(number: u32) -> Option<Self> {
        NonZeroU32::new(number).filter(|number| number.get() <= Self::MAX).map(|number| Self(Some(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_writers_is_chosen_or_left_to_the_store() {
        let chosen: Writers = "12".parse().expect("a number");
        assert_eq!(
            (chosen.to_string(), chosen.to_record().and_then(Writers::from_record)),
            ("12".to_owned(), Some(chosen))
        );
        let left: Writers = "auto".parse().expect("a word");
        assert_eq!((left, left.chosen(), left.to_record()), (Writers::default(), None, None));
        for wrong in ["", "0", "-1", "257", "all"] {
            assert!(wrong.parse::<Writers>().is_err(), "{wrong}");
        }
    }
}
