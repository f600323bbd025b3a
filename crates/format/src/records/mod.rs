//! The records of an image: everything that it holds about a job except the contents of its memory.
//!
//! Records are plain data of explicit width, encoded as CBOR arrays with numbered places (`docs/format.md`). A number
//! is never reused for anything else. A new field gets a new number and is optional, so that older images stay
//! readable. The engine obtains the values and the store keeps them; this module knows neither.

mod attributes;
mod descriptors;
mod files;
mod folders;
mod ipc;
mod listing;
mod memory;
mod objects;
mod process_tree;
mod signals;
mod sockets;
mod surroundings;
mod terminals;
mod threads;
mod timers;

pub use attributes::{Accounting, Advice, GuardedPages, MappingAttributes, MemoryLock, NumaPolicy, ProcessSwitches};
pub use descriptors::{
    Descriptor, EpollInterest, FileLock, LockKind, OpenFile, OpenFileKind, PipeContents, ProcSubject, SignalTarget,
    StandardStream, TimerDescriptor, Watch,
};
pub use files::{Coverage, FileDigest, FileIdentity, FileReference, OtherNames};
pub use folders::{FolderEntry, FolderItem, SavedFolder};
pub use ipc::{MessageQueue, PosixQueue, PriorityMessage, Semaphore, SemaphoreSet, SystemVName, TypedMessage, Undo};
pub use listing::{ListedDirectory, ListedFile};
pub use memory::{Backing, Limit, Mapping, MemoryLayout, Protection, SpecialMapping};
pub use objects::{MemoryObject, ObjectKind, Owner, SavedPart};
pub use process_tree::{ProcessTree, Unreported};
pub use signals::{Disposition, PendingSignal};
pub use sockets::{ClosedEnd, Credentials, Socket, SocketMessage, SocketOption, SocketState};
pub use surroundings::Surrounding;
pub use terminals::{OutputStop, PseudoTerminal, TerminalControl, TerminalSettings, WindowSize};
pub use threads::{
    AlternateStack, CapabilitySets, RestartableSequence, RobustList, Scheduling, ThreadRestrictions, ThreadState, Wait,
};
pub use timers::{IntervalTimer, PosixTimer, TimerClock, TimerNotice, Timers};

use minicbor::{Decode, Encode};
use standfast_core::Checksum;

/// Everything about a job except the contents of its memory: a tree of processes and the resources that they share.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Default)]
pub struct JobState {
    /// The machine on which the checkpoint was taken.
    #[n(0)]
    pub machine: Machine,
    /// When the checkpoint was taken, on the clocks of that machine.
    #[n(1)]
    pub clocks: Clocks,
    /// The processes, parents before their children; the first is the job's main process. Never empty in an image.
    #[n(2)]
    pub processes: Vec<ProcessState>,
    /// Open file descriptions, to which descriptors refer by position. A description that several descriptors share is
    /// here once.
    #[n(3)]
    pub open_files: Vec<OpenFile>,
    /// Pipes with both ends within the job; open files refer to them by position.
    #[n(4)]
    pub pipes: Vec<PipeContents>,
    /// Memory that belongs to no single process; mappings and open files refer to it by position.
    #[n(5)]
    pub objects: Vec<MemoryObject>,
    /// Sockets; open files and other sockets refer to them by position.
    #[n(6)]
    pub sockets: Vec<Socket>,
    /// Pseudo-terminals with both sides within the job; open files refer to them by position.
    #[n(7)]
    pub terminals: Vec<PseudoTerminal>,
    /// Sets of System V semaphores.
    #[n(8)]
    pub semaphores: Vec<SemaphoreSet>,
    /// System V message queues.
    #[n(9)]
    pub message_queues: Vec<MessageQueue>,
    /// POSIX message queues; open files refer to them by position.
    #[n(10)]
    pub posix_queues: Vec<PosixQueue>,
    /// Inode number of the job's IPC namespace.
    #[n(11)]
    pub ipc_namespace: u64,
    /// Inode number of its pid namespace.
    #[n(12)]
    pub pid_namespace: u64,
    /// Directories that are saved with all their contents.
    #[n(13)]
    pub folders: Vec<SavedFolder>,
    /// Number of processes and threads created since the machine was started; 0 if unknown.
    #[n(14)]
    pub forks: u64,
    /// Paths that the job relies on in the file system; absent in older images.
    #[n(15)]
    pub surroundings: Option<Vec<Surrounding>>,
    /// Directories in which the job works, with their contents; absent if they were not listed.
    #[n(16)]
    pub listed: Option<Vec<ListedDirectory>>,
    /// Ends of connections to other parts of a distributed job that have been closed here, but not there; absent in older
    /// images.
    #[n(17)]
    pub closed_ends: Option<Vec<ClosedEnd>>,
    /// The last id that the kernel gave to a process or thread in the job's pid namespace; absent in older images, or if
    /// the job cannot read it.
    #[n(18)]
    pub last_id: Option<i32>,
}

/// What a restart needs to find again in order to continue this job.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Default)]
pub struct Machine {
    /// Architecture, as Rust names it: `x86_64`.
    #[n(0)]
    pub architecture: String,
    /// Kernel release (`uname -r`), for messages.
    #[n(1)]
    pub kernel_release: String,
    /// Host name, for messages.
    #[n(2)]
    pub host: String,
    /// Boot id, `/proc/sys/kernel/random/boot_id`.
    #[n(3)]
    pub boot_id: String,
    /// Checksum of the kernel's vdso code: stopped threads may be inside it or hold its addresses.
    #[n(4)]
    #[cbor(with = "checksum")]
    pub vdso: Checksum,
    /// Enabled XSAVE features (XCR0): the new machine must offer all of them.
    #[n(5)]
    pub xsave_features: u64,
    /// Features that the processor offers to programs, as named in `/proc/cpuinfo`.
    #[n(6)]
    pub processor_features: Vec<String>,
    /// Places of the features' state in an XSAVE area.
    #[n(7)]
    pub state_areas: Vec<StateArea>,
    /// Code of the kernel's vdso, for a restart under another kernel.
    #[n(8)]
    pub vdso_code: Bytes,
}

/// The place of the state of one XSAVE feature.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateArea {
    /// Number of the feature.
    #[n(0)]
    pub feature: u32,
    /// Offset in bytes from the start of the XSAVE area.
    #[n(1)]
    pub offset: u32,
    /// Length in bytes.
    #[n(2)]
    pub bytes: u32,
}

/// The clocks at the moment of the checkpoint, in nanoseconds.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Default)]
pub struct Clocks {
    /// CLOCK_REALTIME, since 1970.
    #[n(0)]
    pub realtime_nanoseconds: u64,
    /// CLOCK_MONOTONIC, as the job saw it.
    #[n(1)]
    pub monotonic_nanoseconds: u64,
    /// CLOCK_BOOTTIME, as the job saw it.
    #[n(2)]
    pub boottime_nanoseconds: u64,
}

/// One process of the job.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Default)]
pub struct ProcessState {
    /// Its process id as it saw it itself (in its innermost namespace).
    #[n(0)]
    pub pid: i32,
    /// The file that it executes.
    #[n(1)]
    pub executable: FileReference,
    /// Its arguments, for people; the program itself finds them in its memory.
    #[n(2)]
    pub arguments: Vec<Bytes>,
    /// Working directory.
    #[n(3)]
    pub working_directory: Bytes,
    /// File mode creation mask.
    #[n(4)]
    pub umask: u32,
    /// Execution domain (`personality(2)`).
    #[n(5)]
    pub personality: u32,
    /// Resource limits, in the kernel's order.
    #[n(6)]
    pub limits: Vec<Limit>,
    /// The kernel's idea of the addresses of code, data, heap, stack, arguments and environment.
    #[n(7)]
    pub layout: MemoryLayout,
    /// Mappings, ascending by address.
    #[n(8)]
    pub mappings: Vec<Mapping>,
    /// The kernel's own mappings, such as vdso and vvar.
    #[n(9)]
    pub special_mappings: Vec<SpecialMapping>,
    /// Signal dispositions that differ from the default.
    #[n(10)]
    pub dispositions: Vec<Disposition>,
    /// Signals pending for the process as a whole.
    #[n(11)]
    pub pending: Vec<PendingSignal>,
    /// Descriptors, ascending by number.
    #[n(12)]
    pub descriptors: Vec<Descriptor>,
    /// Threads; the first is the main thread.
    #[n(13)]
    pub threads: Vec<ThreadState>,
    /// Kernel timers.
    #[n(14)]
    pub timers: Timers,
    /// Processor state for which the program had to request permission (`ARCH_REQ_XCOMP_PERM`: AMX), as XSAVE features.
    #[n(15)]
    pub permitted_features: u64,
    /// Switches that the process has set for itself.
    #[n(16)]
    pub switches: ProcessSwitches,
    /// Its place in the tree of the job.
    #[n(17)]
    pub process_tree: ProcessTree,
}

/// Bytes that need not be text: paths, arguments, names.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[cbor(transparent)]
pub struct Bytes(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub Vec<u8>,
);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// CBOR form of a [`Checksum`]: a byte string of 16.
mod checksum {
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};
    use standfast_core::Checksum;

    pub(super) fn encode<C, W: Write>(
        value: &Checksum,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        encoder.bytes(&value.to_bytes())?.ok()
    }

    pub(super) fn decode<C>(decoder: &mut Decoder<'_>, _: &mut C) -> Result<Checksum, DecodeError> {
        let bytes = decoder.bytes()?;
        let bytes = bytes.try_into().map_err(|_| DecodeError::message("a checksum has 16 bytes"))?;
        Ok(Checksum::from_bytes(bytes))
    }
}
