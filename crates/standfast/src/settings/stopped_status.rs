//! The option for the exit status after the job was stopped on request.

use super::option_kinds::{Kept, OptionError};
use crate::ending::STOPPED_EXIT_STATUS;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Exit status of the command after the job was stopped after a checkpoint. Batch systems have their own: HTCondor takes
/// 85 for "checkpointed", Grid Engine 99 for "queue it again".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StoppedStatus(u8);

impl StoppedStatus {
    /// Returns the status.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for StoppedStatus {
    fn default() -> Self {
        Self(STOPPED_EXIT_STATUS)
    }
}

impl FromStr for StoppedStatus {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        text.parse()
            .map(Self)
            .map_err(|_| OptionError::new(text, "is not an exit status", "write a number from 0 to 255"))
    }
}

impl fmt::Display for StoppedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Kept for StoppedStatus {
    type Record = u8;

    fn to_record(self) -> Option<u8> {
        Some(self.0)
    }

    fn from_record(record: u8) -> Option<Self> {
        Some(Self(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_status_is_a_number_up_to_255() {
        for text in ["0", "75", "99", "255"] {
            let status: StoppedStatus = text.parse().unwrap();
            assert_eq!(status.to_string(), text);
            assert_eq!(status.to_record().and_then(StoppedStatus::from_record), Some(status));
        }
        for text in ["", "-1", "256", "many"] {
            assert!(text.parse::<StoppedStatus>().is_err(), "{text}");
        }
    }
}
