//! Records of an address space: its mappings and the kernel's idea of its layout. Contents travel separately, as pages.

use super::{Bytes, FileReference, MappingAttributes};
use minicbor::{Decode, Encode};

/// One mapping of ordinary memory.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub struct Mapping {
    /// First address, page aligned.
    #[n(0)]
    pub start: u64,
    /// First address behind it, page aligned.
    #[n(1)]
    pub end: u64,
    /// Access.
    #[n(2)]
    pub protection: Protection,
    /// What lies beneath the pages that the program has not written.
    #[n(3)]
    pub backing: Backing,
    /// Whether it grows downwards on a touch below it: stacks made by the kernel.
    #[n(4)]
    pub grows_down: bool,
    /// What has been said about it.
    #[n(5)]
    pub attributes: MappingAttributes,
    /// Of a shared one: whether the program may make it writable, whatever its access is now. Absent where nobody knew.
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

/// What lies beneath a mapping.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub enum Backing {
    /// Zeros, private to the process.
    #[n(0)]
    Anonymous,
    /// A file, copied on write. Pages never written come from the file again.
    #[n(1)]
    PrivateFile {
        /// The file.
        #[n(0)]
        file: FileReference,
        /// Where in the file the mapping starts, in bytes.
        #[n(1)]
        offset: u64,
    },
    /// A file, shared, that nobody was seen to write through a mapping.
    #[n(2)]
    SharedFileReadOnly {
        /// The file.
        #[n(0)]
        file: FileReference,
        /// Where in the file the mapping starts, in bytes.
        #[n(1)]
        offset: u64,
    },
    /// A memory object: all who map it see each other's writes.
    #[n(3)]
    SharedObject {
        /// Position in [`super::JobState::objects`].
        #[n(0)]
        object: u32,
        /// Where in the object the mapping starts, in bytes.
        #[n(1)]
        offset: u64,
    },
    /// A memory object, copied on write. Pages never written come from the object.
    #[n(4)]
    PrivateObject {
        /// Position in [`super::JobState::objects`].
        #[n(0)]
        object: u32,
        /// Where in the object the mapping starts, in bytes.
        #[n(1)]
        offset: u64,
    },
}

impl Backing {
    /// The file that has to be found again.
    pub fn file(&self) -> Option<&FileReference> {
        match self {
            Self::PrivateFile { file, .. } | Self::SharedFileReadOnly { file, .. } => Some(file),
            Self::Anonymous | Self::SharedObject { .. } | Self::PrivateObject { .. } => None,
        }
    }

    /// The same, to be changed.
    pub fn file_mut(&mut self) -> Option<&mut FileReference> {
        match self {
            Self::PrivateFile { file, .. } | Self::SharedFileReadOnly { file, .. } => Some(file),
            Self::Anonymous | Self::SharedObject { .. } | Self::PrivateObject { .. } => None,
        }
    }
}

/// A mapping that the kernel makes in every process: `[vdso]`, `[vvar]` and their like. Moved at restart, never filled.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub struct SpecialMapping {
    /// First address.
    #[n(0)]
    pub start: u64,
    /// First address behind it.
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
    /// Start of the heap that brk(2) moves the end of.
    #[n(4)]
    pub heap_start: u64,
    /// End of that heap.
    #[n(5)]
    pub heap_end: u64,
    /// Bottom of the stack, where it starts growing.
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
    /// How far the program may raise it.
    #[n(1)]
    pub hard: u64,
}
