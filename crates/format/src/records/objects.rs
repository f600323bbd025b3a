//! Records of memory objects: memory that several mappings, descriptors or processes may share, so that none of them
//! owns it. Its contents are saved once, as pages, however many refer to it.
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
    /// Its kind.
    #[n(0)]
    pub kind: ObjectKind,
    /// Its length in bytes; the part of a mapping beyond it cannot be accessed. Pages that are in no run are zeros.
    #[n(1)]
    pub length: u64,
    /// Size of its pages in bytes, if they are huge pages from the system's pool; 0 for ordinary pages.
    #[n(2)]
    pub huge_page_bytes: u64,
    /// Time of the last modification in nanoseconds since 1970, for a nameless file to which descriptors refer.
    #[n(3)]
    pub modified_nanoseconds: Option<i64>,
}

/// The kinds of memory object.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Shared anonymous memory: `mmap(MAP_SHARED | MAP_ANONYMOUS)`.
    #[n(0)]
    SharedMemory,
    /// A file in memory, created by `memfd_create(2)`.
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
    /// A file on a disk whose last name was deleted, or that never had one (O_TMPFILE).
    #[n(2)]
    DeletedFile {
        /// Its former path: it is recreated in the same directory, if that exists.
        #[n(0)]
        path: Bytes,
        /// Its permissions.
        #[n(1)]
        mode: u32,
    },
    /// A file that the program may write and that is saved with the image. Its pages are those that are mapped shared,
    /// or all. A restart writes them back into the file or into a recreated one.
    #[n(3)]
    MappedFile {
        /// The file. It has no digest, since the pages record its content.
        #[n(0)]
        file: FileReference,
        /// Its permissions.
        #[n(1)]
        mode: u32,
        /// The lock on the whole file (`flock(2)`) that the mapping keeps alive, if any: whether it is exclusive.
        #[n(2)]
        lock: Option<bool>,
        /// Description of a process outside the job that had it open for writing.
        #[n(3)]
        other_writer: Option<Bytes>,
        /// The saved part.
        #[n(4)]
        saved: SavedPart,
    },
    /// A segment of System V shared memory.
    #[n(4)]
    Segment {
        /// Its identity and owner.
        #[n(0)]
        name: SystemVName,
        /// Whether it has been marked for removal, so that it disappears when nobody has it attached any more.
        #[n(1)]
        removed: bool,
        /// Whether it is locked in memory (SHM_LOCK).
        #[n(2)]
        locked: bool,
    },
}

/// The saved part of a file that the program may write.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum SavedPart {
    /// The part that is mapped shared.
    #[n(0)]
    Mapped,
    /// All of it, mapped or not.
    #[n(1)]
    Whole,
    /// All of it, for use if the file is missing or no longer holds that content. Growth of the file is handled
    /// separately.
    #[n(2)]
    WholeIfNeeded,
}

impl ObjectKind {
    /// Returns the file to which a mapping writes.
    pub fn file(&self) -> Option<&FileReference> {
        match self {
            Self::MappedFile { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Returns the file to which a mapping writes, mutably.
    pub fn file_mut(&mut self) -> Option<&mut FileReference> {
        match self {
            Self::MappedFile { file, .. } => Some(file),
            _ => None,
        }
    }
}

/// The owner of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The process at this position in [`JobState::processes`].
    Process(usize),
    /// The object at this position in [`JobState::objects`].
    Object(usize),
}

impl JobState {
    /// Returns the owner with this number, as used in runs; `None` if there is none.
    pub fn owner(&self, number: u32) -> Option<Owner> {
        let number = number as usize;
        match number.checked_sub(self.processes.len()) {
            None => Some(Owner::Process(number)),
            Some(object) if object < self.objects.len() => Some(Owner::Object(object)),
            Some(_) => None,
        }
    }

    /// Returns the number of an object, as used in runs.
    pub fn number_of_object(&self, object: usize) -> u32 {
        (self.processes.len() + object) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::ProcessState;

    #[test]
    fn owner_numbers_list_processes_before_objects() {
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
