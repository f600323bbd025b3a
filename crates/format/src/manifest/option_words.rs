//! Options that are one of a few words. Each is defined once: its values, their words for users, and their numbers in
//! manifests.

use minicbor::{Decode, Encode};

/// A text that is not a value of the option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' {wrong}\nhint: {remedy}")]
pub struct OptionError {
    text: String,
    wrong: String,
    remedy: String,
}

impl OptionError {
    /// Makes an error of the text, of what it fails to be, and of what to write instead.
    pub fn new(text: &str, wrong: &str, remedy: &str) -> Self {
        Self { text: text.to_owned(), wrong: wrong.to_owned(), remedy: remedy.to_owned() }
    }

    /// Makes an error of a text that is none of `words`, and of what it fails to be.
    pub fn no_word(text: &str, wrong: &str, words: &[&str]) -> Self {
        let (last, others) = words.split_last().expect("an option has words");
        Self::new(text, wrong, &format!("write '{}' or '{last}'", others.join("', '")))
    }
}

/// Defines an option that is one of a few words, each with its names in the papers.
#[macro_export]
macro_rules! words {
    (
        $(#[$meaning:meta])*
        $name:ident, $wrong:literal, $($(#[$about:meta])* $value:ident = $word:literal $(| $other:literal)*),+ $(,)?
    ) => {
        $(#[$meaning])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $name {
            $($(#[$about])* $value),+
        }

        impl std::str::FromStr for $name {
            type Err = $crate::manifest::OptionError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word $(| $other)* => Ok(Self::$value),)+
                    _ => Err(Self::Err::no_word(text, $wrong, &[$($word),+])),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$value => $word),+ })
            }
        }
    };
}

words! {
    /// How a restarted job gets its process and thread ids.
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    Ids, "is not a policy for process ids",
    /// The old ones, in namespaces of the job's own where that is allowed.
    #[n(0)]
    #[default]
    Auto = "auto",
    /// New ones, no namespaces.
    #[n(1)]
    New = "new",
}

words! {
    /// How much of the main thread's stack is saved (L10).
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    Stack, "is not a part of the stack",
    /// The part above the stack pointer and its red zone. Signal handlers may overwrite the rest at any time.
    #[n(0)]
    #[default]
    Live = "live",
    /// All of it, for programs that keep coroutines below the stack pointer of their main thread.
    #[n(1)]
    Whole = "whole",
}

words! {
    /// What a restart does about files that have changed since the checkpoint.
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    Files, "is not a policy for files",
    /// Data that only the program can have written since is cut off and kept beside the image. Any other change refuses
    /// the restart.
    #[n(0)]
    #[default]
    Auto = "auto",
    /// All data appended since is cut off and kept. A change of what was there before refuses the restart.
    #[n(1)]
    Rollback = "rollback",
    /// Files stay as they are.
    #[n(2)]
    Keep = "keep",
    /// Any difference refuses the restart.
    #[n(3)]
    Refuse = "refuse",
}

words! {
    /// How a checkpoint treats connections whose other end is outside the job.
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    ExternalSockets, "is not a policy for external connections",
    /// They block the checkpoint.
    #[n(0)]
    #[default]
    Refuse = "refuse",
    /// A restart brings them back as connections that the other end has reset.
    #[n(1)]
    Reset = "reset",
}

words! {
    /// Whether a checkpoint saves only what has changed since the previous one (L6).
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    Incremental, "is not a mode of incremental checkpoints",
    /// Each checkpoint saves everything.
    #[n(0)]
    Off = "off",
    /// Each checkpoint that can is incremental.
    #[n(1)]
    On = "on",
    /// Each checkpoint is incremental, except for processes that have changed for the most part.
    #[n(2)]
    #[default]
    Auto = "auto",
}

words! {
    /// How memory is captured while the program is frozen. Some names are also those of the papers of 1995 and 1996.
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    Snapshot, "is not a snapshot method",
    /// Memory is written as it is read. The program continues after all of it has been handed to the file system (L5).
    #[n(0)]
    Sequential = "sequential",
    /// Memory is copied, up to half of the free memory, and written after the program continues.
    #[n(1)]
    Copy = "copy" | "main-memory",
    /// Memory is read from clones of the processes and written after the program continues (L8).
    #[n(3)]
    Fork = "fork" | "copy-on-write",
    /// Memory is read while the program runs. Pages that the program writes meanwhile are read again while it is frozen
    /// (L8).
    #[n(4)]
    Precopy = "precopy",
    /// The method that costs the program least time, judging by earlier checkpoints and the available memory.
    #[n(2)]
    #[default]
    Auto = "auto",
}

words! {
    /// Dirty-page detection (M3, H10).
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    Track, "is not a way to detect dirty pages",
    /// By the kernel's page tables if possible, else by checksums.
    #[n(0)]
    #[default]
    Auto = "auto",
    /// By the kernel's page tables. Memory that they cannot track counts as changed.
    #[n(1)]
    Pagemap = "pagemap",
    /// By checksums of all memory.
    #[n(2)]
    Hash = "hash",
    /// No detection: every checkpoint is full.
    #[n(3)]
    Off = "off",
}

words! {
    /// Whether changed pages are saved as differences (C4).
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    DeltaMode, "is not a mode of page differences",
    /// Pages are saved as they are.
    #[n(0)]
    #[default]
    None = "none",
    /// Pages are saved as differences from the previous checkpoint if that is shorter.
    #[n(1)]
    Previous = "previous",
    /// Like `previous`, if measurements show that it takes less time than writing the pages.
    #[n(2)]
    Auto = "auto",
}

words! {
    /// Whether pages are compressed (L9).
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    Compress, "is not a compression method",
    /// Pages are not compressed.
    #[n(0)]
    #[default]
    None = "none",
    /// LZ4, for pages that it makes shorter.
    #[n(1)]
    Lz4 = "lz4",
    /// Zstandard, for pages that it makes shorter.
    #[n(2)]
    Zstd = "zstd",
    /// The compression that saves most time, if any does. Measurements of the disk and the pages decide (C1).
    #[n(3)]
    Auto = "auto",
}

words! {
    /// Where flushes of checkpoints in memory run.
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    Flush, "is not a flush mode",
    /// Beside the program.
    #[n(1)]
    Background = "background",
    /// While the program is stopped.
    #[n(2)]
    Foreground = "foreground",
    /// Where measurements show that they cost the program less time.
    #[n(0)]
    #[default]
    Auto = "auto",
}

words! {
    /// Whether checkpoints stay when the program has ended with status 0.
    #[derive(Encode, Decode)]
    #[cbor(index_only)]
    KeepFinished, "is not an answer",
    /// They stay, so that the job can be repeated from one of them, or inspected.
    #[n(0)]
    #[default]
    Yes = "yes" | "on",
    /// They are removed.
    #[n(1)]
    No = "no" | "off",
}
