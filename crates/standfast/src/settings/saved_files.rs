//! Options that say which files belong to a checkpoint with their contents.

use super::option_kinds::{Kept, OptionError, parse_bytes, write_bytes};
use serde::Serialize;
use standfast_engine::SavedFiles;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Which of the files that the program may write are saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveFiles {
    /// Small ones, in case they are gone or overwritten by the time of a restart, as temporary files often are.
    #[default]
    Auto,
    /// None, except for what is mapped.
    Off,
    /// Files of at most this many bytes.
    UpTo(u64),
}

impl SaveFiles {
    pub(crate) fn policy(self) -> SavedFiles {
        match self {
            Self::Auto => SavedFiles::IfNeeded,
            Self::Off => SavedFiles::None,
            Self::UpTo(bytes) => SavedFiles::UpTo(bytes),
        }
    }
}

impl Kept for SaveFiles {
    type Record = u64;

    fn to_record(self) -> Option<u64> {
        match self {
            Self::Auto => None,
            Self::Off => Some(0),
            Self::UpTo(bytes) => Some(bytes),
        }
    }

    fn from_record(bytes: u64) -> Option<Self> {
        Some(if bytes == 0 { Self::Off } else { Self::UpTo(bytes) })
    }
}

impl FromStr for SaveFiles {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "auto" => return Ok(Self::Auto),
            "off" => return Ok(Self::Off),
            _ => {}
        }
        let remedy = "write a number with its unit (64M, 2G), 'auto' or 'off'";
        let wrong = || OptionError::new(text, "is not a size of files to save", remedy);
        let bytes = parse_bytes(text);
        bytes.filter(|bytes| *bytes > 0).map(Self::UpTo).ok_or_else(wrong)
    }
}

impl fmt::Display for SaveFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::UpTo(bytes) => write_bytes(f, *bytes),
        }
    }
}

/// What is saved beside the job's memory, and put back by a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaveFolder {
    /// The files that the job is seen to write, wherever they are.
    Written,
    /// A directory with all its contents.
    Directory(PathBuf),
}

impl SaveFolder {
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Written => None,
            Self::Directory(path) => Some(path),
        }
    }
}

impl From<OsString> for SaveFolder {
    fn from(text: OsString) -> Self {
        if text == "auto" { Self::Written } else { Self::Directory(text.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_printed_with_units() {
        let read = |text: &str| text.parse::<SaveFiles>();
        assert_eq!(read("auto"), Ok(SaveFiles::Auto));
        assert_eq!(read("off"), Ok(SaveFiles::Off));
        assert_eq!(read("4096"), Ok(SaveFiles::UpTo(4096)));
        assert_eq!(read("64M"), Ok(SaveFiles::UpTo(64 << 20)));
        assert_eq!(read("2GiB"), Ok(SaveFiles::UpTo(2 << 30)));
        for wrong in ["", "0", "M", "-1", "1.5G", "3 pages", "99999999999T"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for text in ["auto", "off", "1", "4K", "64M", "1G"] {
            assert_eq!(text.parse::<SaveFiles>().unwrap().to_string(), text);
        }
    }
}
