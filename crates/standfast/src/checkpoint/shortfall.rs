//! What a committed checkpoint lacks of what was asked for. The checkpoint is good nevertheless.

use std::collections::BTreeMap;

/// Something that a checkpoint was to have, or to be taken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shortfall {
    /// It is not in memory but on the disk.
    NotInMemory,
    /// The kernel does not allow write tracking.
    Untracked,
    /// A process could not be cloned.
    Uncloned,
    /// The program's directives about its memory were ignored.
    DirectivesIgnored,
}

/// The shortfalls of a checkpoint, each with its reason.
pub(crate) type Shortfalls = BTreeMap<Shortfall, String>;
