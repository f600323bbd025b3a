//! Records of an address space: its mappings and the kernel's idea of its layout. Its contents are saved separately, as
//! pages.

use super::{Bytes, FileReference, MappingAttributes};
use minicbor::{Decode, Encode};

/// One mapping of ordinary memory.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub struct Mapping {
    /// First address, page aligned.
    #[n(0)]
    pub start: u64,
    /// First address after it, page aligned.
    #[n(1)]
    pub end: u64,
    /// Access.
    #[n(2)]
    pub protection: Protection,
    /// The backing of pages that the program has not written.
    #[n(3)]
    pub backing: Backing,
    /// Whether it grows downwards when memory below it is touched, like the stacks that the kernel creates.
    #[n(4)]
    pub grows_down: bool,
    /// Its other attributes.
    #[n(5)]
    pub attributes: MappingAttributes,
    /// For a shared mapping: whether the program may make it writable, whatever its current access. Absent if unknown.
    #[n(6)]
    pub may_write: Option<bool>,
}

/// Access to a mapping.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Protection {
    /// May be read.
    #[n(0)]
    pub read: bool,
    /// May be written.
    #[n(1)]
    pub write: bool,
    /// May be executed.
    #[n(2)]
    pub execute: bool,
}

/// The backing of a mapping.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub enum Backing {
    /// Zeros, private to the process.
    #[n(0)]
    Anonymous,
    /// A file, copied on write. Pages that were never written are read from the file again.
    #[n(1)]
    PrivateFile {
        /// The file.
        #[n(0)]
        file: FileReference,
        /// Offset in bytes of the mapping in the file.
        #[n(1)]
        offset: u64,
    },
    /// A shared file that was not seen to be written through a mapping.
    #[n(2)]
    SharedFileReadOnly {
        /// The file.
        #[n(0)]
        file: FileReference,
        /// Offset in bytes of the mapping in the file.
        #[n(1)]
        offset: u64,
    },
    /// A memory object: all processes that map it see each other's writes.
    #[n(3)]
    SharedObject {
        /// Position in [`super::JobState::objects`].
        #[n(0)]
        object: u32,
        /// Offset in bytes of the mapping in the object.
        #[n(1)]
        offset: u64,
    },
    /// A memory object, copied on write. Pages that were never written come from the object.
    #[n(4)]
    PrivateObject {
        /// Position in [`super::JobState::objects`].
        #[n(0)]
        object: u32,
        /// Offset in bytes of the mapping in the object.
        #[n(1)]
        offset: u64,
    },
}

impl Backing {
    /// Returns the file that a restart must find again.
    pub fn file(&self) -> Option<&FileReference> {
        match self {
            Self::PrivateFile { file, .. } | Self::SharedFileReadOnly { file, .. } => Some(file),
            Self::Anonymous | Self::SharedObject { .. } | Self::PrivateObject { .. } => None,
        }
    }

    /// Returns the file that a restart must find again, mutably.
    pub fn file_mut(&mut self) -> Option<&mut FileReference> {
        match self {
            Self::PrivateFile { file, .. } | Self::SharedFileReadOnly { file, .. } => Some(file),
            Self::Anonymous | Self::SharedObject { .. } | Self::PrivateObject { .. } => None,
        }
    }
}

/// A mapping that the kernel creates in every process, such as `[vdso]` or `[vvar]`. A restart moves it but never fills
/// it.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub struct SpecialMapping {
    /// First address.
    #[n(0)]
    pub start: u64,
    /// First address after it.
    #[n(1)]
    pub end: u64,
    /// Its name in `/proc/PID/maps`, with the brackets.
    #[n(2)]
    pub name: Bytes,
}

/// The addresses that `prctl(PR_SET_MM_MAP)` takes, and the auxiliary vector.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct MemoryLayout {
    /// Start of the code.
    #[n(0)]
    pub code_start: u64,
    /// End of the code.
    #[n(1)]
    pub code_end: u64,
    /// Start of the data.
    #[n(2)]
    pub data_start: u64,
    /// End of the data.
    #[n(3)]
    pub data_end: u64,
    /// Start of the heap, whose end brk(2) moves.
    #[n(4)]
    pub heap_start: u64,
    /// End of that heap.
    #[n(5)]
    pub heap_end: u64,
    /// Bottom of the stack, from which it grows.
    #[n(6)]
    pub stack_start: u64,
    /// Start of the argument strings.
    #[n(7)]
    pub arguments_start: u64,
    /// End of the argument strings.
    #[n(8)]
    pub arguments_end: u64,
    /// Start of the environment strings.
    #[n(9)]
    pub environment_start: u64,
    /// End of the environment strings.
    #[n(10)]
    pub environment_end: u64,
    /// The auxiliary vector, as the kernel shows it.
    #[n(11)]
    pub auxiliary_vector: Bytes,
}

/// One resource limit; `u64::MAX` is unlimited.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit in force.
    #[n(0)]
    pub soft: u64,
    /// The ceiling to which the program may raise it.
    #[n(1)]
    pub hard: u64,
}
