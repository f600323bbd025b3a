//! What a collection has used from a look at the attributes of mappings.

use standfast_linux::proc::MapAttributes;

/// Attributes of a mapping on which the results of a program can depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counting {
    /// A child does not get it (`MADV_DONTFORK`).
    keeps_from_children: bool,
    /// A child gets it empty (`MADV_WIPEONFORK`).
    is_wiped_for_children: bool,
    /// It is left out of core dumps (`MADV_DONTDUMP`).
    is_not_dumped: bool,
    /// The kernel may drop its pages (`MAP_DROPPABLE`).
    is_droppable: bool,
    /// It may not be changed any more (`mseal(2)`).
    is_sealed: bool,
    /// It grows downwards (`MAP_GROWSDOWN`).
    grows_down: bool,
    /// It is shared, and may not be made writable.
    may_not_be_written: bool,
    protection_key: u32,
}

/// What a collection has used from a look at one mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Inode of the file beneath it; 0 if there is none.
    pub(crate) inode: u64,
    pub(crate) counting: Counting,
    /// Whether the look had found the mapping.
    pub(crate) was_known: bool,
}

impl Counting {
    pub(crate) fn of(mapping: &MapAttributes) -> Self {
        Self {
            keeps_from_children: mapping.has(b"dc"),
            is_wiped_for_children: mapping.has(b"wf"),
            is_not_dumped: mapping.has(b"dd"),
            is_droppable: mapping.has(b"dp"),
            is_sealed: mapping.has(b"sl"),
            grows_down: mapping.has(b"gd"),
            may_not_be_written: mapping.has(b"ms") && !mapping.has(b"mw"),
            protection_key: mapping.protection_key,
        }
    }

    /// Returns the attributes of a mapping that no look has found.
    pub(crate) fn of_unknown(may_not_be_written: bool) -> Self {
        Self { may_not_be_written, ..Self::default() }
    }

    /// Reports whether these are attributes that programs give to short-lived memory. Attributes that libraries always
    /// use do not count.
    pub(crate) fn is_said_often(&self) -> bool {
        self.keeps_from_children || self.is_wiped_for_children || self.protection_key != 0
    }
}
