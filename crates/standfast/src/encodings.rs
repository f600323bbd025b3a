//! The options about how pages are kept in an image: as differences against those of the checkpoint before, compressed, or
//! as they are.

use crate::options::OptionError;
use serde::Serialize;
use standfast_core::codec::Encoding;
use standfast_core::codec::choice::Allowed;
use standfast_format::manifest;
use standfast_store::Encodings;
use std::fmt;
use std::str::FromStr;

/// Whether pages that have changed are kept as what has changed in them (C4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Delta {
    /// No.
    #[default]
    None,
    /// Against the checkpoint before, wherever that is shorter.
    Previous,
    /// The same where it takes less time than to write the pages, as was measured.
    Auto,
}

/// Whether pages are compressed (L9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compress {
    /// No.
    #[default]
    None,
    /// By LZ4, wherever that makes them shorter.
    Lz4,
    /// By Zstandard, wherever that makes them shorter.
    Zstd,
    /// By that which saves most time, if any does: as the disk and the pages prove to be (C1).
    Auto,
}

/// As the store says it.
pub(crate) fn encodings(delta: Delta, compress: Compress) -> Encodings {
    let (mut always, mut where_it_pays) = (Vec::new(), Vec::new());
    match delta {
        Delta::None => {}
        Delta::Previous => always.push(Encoding::Differences),
        Delta::Auto => where_it_pays.push(Encoding::Differences),
    }
    match compress {
        Compress::None => {}
        Compress::Lz4 => always.push(Encoding::Lz4),
        Compress::Zstd => always.push(Encoding::Zstd),
        Compress::Auto => where_it_pays.extend([Encoding::Lz4, Encoding::Zstd]),
    }
    Encodings { always: Allowed::of(&always), where_it_pays: Allowed::of(&where_it_pays) }
}

impl Delta {
    pub(crate) fn to_record(self) -> manifest::Delta {
        match self {
            Self::None => manifest::Delta::None,
            Self::Previous => manifest::Delta::Previous,
            Self::Auto => manifest::Delta::Auto,
        }
    }

    pub(crate) fn from_record(record: manifest::Delta) -> Self {
        match record {
            manifest::Delta::None => Self::None,
            manifest::Delta::Previous => Self::Previous,
            manifest::Delta::Auto => Self::Auto,
        }
    }
}

impl Compress {
    pub(crate) fn to_record(self) -> manifest::Compress {
        match self {
            Self::None => manifest::Compress::None,
            Self::Lz4 => manifest::Compress::Lz4,
            Self::Zstd => manifest::Compress::Zstd,
            Self::Auto => manifest::Compress::Auto,
        }
    }

    pub(crate) fn from_record(record: manifest::Compress) -> Self {
        match record {
            manifest::Compress::None => Self::None,
            manifest::Compress::Lz4 => Self::Lz4,
            manifest::Compress::Zstd => Self::Zstd,
            manifest::Compress::Auto => Self::Auto,
        }
    }
}

impl FromStr for Delta {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "none" => Ok(Self::None),
            "previous" => Ok(Self::Previous),
            "auto" => Ok(Self::Auto),
            _ => Err(OptionError::Delta { text: text.to_owned() }),
        }
    }
}

impl FromStr for Compress {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd),
            "auto" => Ok(Self::Auto),
            _ => Err(OptionError::Compress { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Previous => "previous",
            Self::Auto => "auto",
        })
    }
}

impl fmt::Display for Compress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Auto => "auto",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again_and_nonsense_is_refused_with_what_to_write() {
        for it in [Delta::None, Delta::Previous, Delta::Auto] {
            assert_eq!(it.to_string().parse(), Ok(it));
            assert_eq!(Delta::from_record(it.to_record()), it);
        }
        for it in [Compress::None, Compress::Lz4, Compress::Zstd, Compress::Auto] {
            assert_eq!(it.to_string().parse(), Ok(it));
            assert_eq!(Compress::from_record(it.to_record()), it);
        }
        assert!("on".parse::<Delta>().expect_err("no word of it").to_string().contains("'previous'"));
        assert!("gzip".parse::<Compress>().expect_err("no word of it").to_string().contains("'zstd'"));
    }

    #[test]
    fn what_was_asked_for_is_done_always_and_auto_where_it_pays() {
        let asked = encodings(Delta::Previous, Compress::Auto);
        assert_eq!(asked.always, Allowed::of(&[Encoding::Differences]));
        assert_eq!(asked.where_it_pays, Allowed::of(&[Encoding::Lz4, Encoding::Zstd]));
        assert_eq!(encodings(Delta::None, Compress::None), Encodings::default());
    }
}
