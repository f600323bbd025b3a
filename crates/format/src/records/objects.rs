//! Records of memory objects: memory that several mappings, descriptors or processes may share, and that therefore
//! belongs to none of them. Its contents travel as pages, once, however many refer to it.
//!
//! ```text
//! Run::owner     0 .. processes.len()     pages of a process, by address
//!                processes.len() ..       pages of a memory object, by offset
//! ```

use super::{Bytes, FileReference, JobState, SystemVName};
use minicbor::{Decode, Encode};

/// Memory with contents of its own.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct MemoryObject {
    /// What it is.
    #[n(0)]
    pub kind: ObjectKind,
    /// Its length in bytes; what a mapping reaches beyond cannot be touched. Pages that stand in no run are zeros.
    #[n(1)]
    pub length: u64,
    /// Size of its pages in bytes where they are huge pages from the system's pool; 0 where they are ordinary.
    #[n(2)]
    pub huge_page_bytes: u64,
    /// Last modification in nanoseconds since 1970, of a file without a name that descriptors lead to.
    #[n(3)]
    pub modified_nanoseconds: Option<i64>,
}

/// The kinds of memory object.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Shared anonymous memory: `mmap(MAP_SHARED | MAP_ANONYMOUS)`.
    #[n(0)]
    SharedMemory,
    /// A file in memory, made by `memfd_create(2)`.
    #[n(1)]
    MemoryFile {
        /// The name that it was given.
        #[n(0)]
        name: Bytes,
        /// Its seals (`F_GET_SEALS`).
        #[n(1)]
        seals: u32,
        /// Its permissions.
        #[n(2)]
        mode: u32,
    },
    /// A file on a disk whose last name has been deleted, or that never had one (O_TMPFILE).
    #[n(2)]
    DeletedFile {
        /// Where it was: it is made again in the same directory, if that is there.
        #[n(0)]
        path: Bytes,
        /// Its permissions.
        #[n(1)]
        mode: u32,
    },
    /// A file that the program may write and that is saved with the image. Its pages are those that are mapped shared, or
    /// all of them; a restart writes them back into the file, or into one made again.
    #[n(3)]
    MappedFile {
        /// The file. Its digest is absent: the pages say what it held.
        #[n(0)]
        file: FileReference,
        /// Its permissions.
        #[n(1)]
        mode: u32,
        /// The lock of the whole file (`flock(2)`) that the mapping keeps alive, if there is one: whether it is exclusive.
        #[n(2)]
        lock: Option<bool>,
        /// A process outside the job that had it open for writing, in words.
        #[n(3)]
        other_writer: Option<Bytes>,
        /// What of it is saved.
        #[n(4)]
        saved: SavedPart,
    },
    /// A segment of System V shared memory.
    #[n(4)]
    Segment {
        /// How it is known.
        #[n(0)]
        name: SystemVName,
        /// Whether it has been marked for removal, so that it goes when nobody has it attached any more.
        #[n(1)]
        removed: bool,
        /// Whether it is kept in memory (SHM_LOCK).
        #[n(2)]
        locked: bool,
    },
}

/// What is saved of a file that the program may write.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum SavedPart {
    /// What is mapped shared.
    #[n(0)]
    Mapped,
    /// All of it, mapped or not.
    #[n(1)]
    Whole,
    /// All of it, to be used if the file is gone or no longer holds that; what it has grown by is another matter.
    #[n(2)]
    WholeIfNeeded,
}

impl ObjectKind {
    /// The file that a mapping writes to.
    pub fn file(&self) -> Option<&FileReference> {
        match self {
            Self::MappedFile { file, .. } => Some(file),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn file_mut(&mut self) -> Option<&mut FileReference> {
        match self {
            Self::MappedFile { file, .. } => Some(file),
            _ => None,
        }
    }
}

/// To whom pages belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The process at this position in [`JobState::processes`].
    Process(usize),
    /// The object at this position in [`JobState::objects`].
    Object(usize),
}

impl JobState {
    /// The owner with this number, as runs have it; `None` where there is none.
    pub fn owner(&self, number: u32) -> Option<Owner> {
        let number = number as usize;
        match number.checked_sub(self.processes.len()) {
            None => Some(Owner::Process(number)),
            Some(object) if object < self.objects.len() => Some(Owner::Object(object)),
            Some(_) => None,
        }
    }

    /// The number that runs give to an object.
    pub fn number_of_object(&self, object: usize) -> u32 {
        (self.processes.len() + object) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::ProcessState;

    #[test]
    fn owners_are_processes_first_and_then_objects() {
        let object =
            MemoryObject { kind: ObjectKind::SharedMemory, length: 0, huge_page_bytes: 0, modified_nanoseconds: None };
        let state =
            JobState { processes: vec![ProcessState::default(); 2], objects: vec![object; 3], ..JobState::default() };
        assert_eq!(
            [1, 2, 4, 5].map(|number| state.owner(number)),
            [Some(Owner::Process(1)), Some(Owner::Object(0)), Some(Owner::Object(2)), None]
        );
        assert_eq!(state.owner(state.number_of_object(1)), Some(Owner::Object(1)));
    }
}
