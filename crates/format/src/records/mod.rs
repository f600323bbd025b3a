//! What an image says about a job, apart from the contents of its memory.
//!
//! These are the *records*: plain data, explicit in width, encoded as CBOR arrays with numbered places (`docs/format.md`).
//! A number once used is never used for anything else; a new field gets a new number and is optional, so that older
//! images stay readable. Nothing here knows where a value came from (the engine's business) or how it is kept.

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
pub use sockets::{Credentials, Socket, SocketMessage, SocketOption, SocketState};
pub use surroundings::Surrounding;
pub use terminals::{OutputStop, PseudoTerminal, TerminalControl, TerminalSettings, WindowSize};
pub use threads::{AlternateStack, RestartableSequence, RobustList, Scheduling, ThreadRestrictions, ThreadState, Wait};
pub use timers::{IntervalTimer, PosixTimer, TimerClock, TimerNotice, Timers};

use minicbor::{Decode, Encode};
use standfast_core::Checksum;

/// Everything about a job but the contents of its memory: a tree of processes and what they share.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Default)]
pub struct JobState {
    /// The machine on which the checkpoint was taken.
    #[n(0)]
    pub machine: Machine,
    /// When it was taken, on the clocks of that machine.
    #[n(1)]
    pub clocks: Clocks,
    /// The processes, parents before their children; the first is the job's main process. Never empty in an image.
    #[n(2)]
    pub processes: Vec<ProcessState>,
    /// Open file descriptions, to which descriptors refer by position: what several descriptors share stands here once.
    #[n(3)]
    pub open_files: Vec<OpenFile>,
    /// Pipes whose two ends both lie within the job; open files refer to them by position.
    #[n(4)]
    pub pipes: Vec<PipeContents>,
    /// Memory that belongs to no process alone; mappings and open files refer to it by position.
    #[n(5)]
    pub objects: Vec<MemoryObject>,
    /// Sockets; open files, and sockets among themselves, refer to them by position.
    #[n(6)]
    pub sockets: Vec<Socket>,
    /// Pseudo-terminals whose two sides lie within the job; open files refer to them by position.
    #[n(7)]
    pub terminals: Vec<PseudoTerminal>,
    /// Sets of System V semaphores.
    #[n(8)]
    pub semaphores: Vec<SemaphoreSet>,
    /// System V message queues.
    #[n(9)]
    pub message_queues: Vec<MessageQueue>,
    /// Message queues of POSIX; open files refer to them by position.
    #[n(10)]
    pub posix_queues: Vec<PosixQueue>,
    /// The IPC namespace in which the job was: its inode number.
    #[n(11)]
    pub ipc_namespace: u64,
    /// The pid namespace in which it was, likewise.
    #[n(12)]
    pub pid_namespace: u64,
    /// Directories that are saved with all that is in them.
    #[n(13)]
    pub folders: Vec<SavedFolder>,
    /// How many processes and threads had been made since the machine was started; 0 where that is not known.
    #[n(14)]
    pub forks: u64,
    /// What it counts on in the file system by name; absent in older images.
    #[n(15)]
    pub surroundings: Option<Vec<Surrounding>>,
    /// Directories in which the job works, with what was in them; absent where they were not listed.
    #[n(16)]
    pub listed: Option<Vec<ListedDirectory>>,
}

/// What a restart must find again in order to continue this job.
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
    /// Identity of the boot, `/proc/sys/kernel/random/boot_id`.
    #[n(3)]
    pub boot_id: String,
    /// Checksum of the kernel's vdso code: threads may be stopped inside it and hold its addresses.
    #[n(4)]
    #[cbor(with = "checksum")]
    pub vdso: Checksum,
    /// XSAVE features that are enabled (XCR0): the new machine must offer all of them.
    #[n(5)]
    pub xsave_features: u64,
    /// What the processor offers to programs, by the names of `/proc/cpuinfo`.
    #[n(6)]
    pub processor_features: Vec<String>,
    /// Where the state of the XSAVE features lies in an XSAVE area.
    #[n(7)]
    pub state_areas: Vec<StateArea>,
    /// The code of the kernel's vdso, for a restart under another kernel.
    #[n(8)]
    pub vdso_code: Bytes,
}

/// Where the state of one XSAVE feature lies.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateArea {
    /// Number of the feature.
    #[n(0)]
    pub feature: u32,
    /// Where, in bytes from the start of the XSAVE area.
    #[n(1)]
    pub offset: u32,
    /// How long, in bytes.
    #[n(2)]
    pub bytes: u32,
}

/// The clocks at the moment of the checkpoint, in nanoseconds.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Default)]
pub struct Clocks {
    /// CLOCK_REALTIME: since 1970.
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
    /// Where the kernel believes code, data, heap, stack, arguments and environment to be.
    #[n(7)]
    pub layout: MemoryLayout,
    /// Mappings, ascending by address.
    #[n(8)]
    pub mappings: Vec<Mapping>,
    /// The kernel's own mappings: vdso, vvar and their like.
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
    /// Timers of the kernel.
    #[n(14)]
    pub timers: Timers,
    /// Processor state that the program had to ask for before using it (`ARCH_REQ_XCOMP_PERM`: AMX), as XSAVE features.
    #[n(15)]
    pub permitted_features: u64,
    /// Switches that it has set for itself.
    #[n(16)]
    pub switches: ProcessSwitches,
    /// Its place in the tree of the job.
    #[n(17)]
    pub process_tree: ProcessTree,
}

/// Bytes that are not promised to be text: paths, arguments, names.
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
