//! The objects of a job: everything of the kernel's that its processes hold. All that is known of one kind is in one
//! place.
//!
//! Each kind of open file has a file or a folder with four functions, and one line in [`KINDS`]:
//!
//! ```text
//! collect    from a frozen process: the record, or the reason why it cannot be restored
//! check      at a restart: whether the record can be restored here; looks, and touches nothing
//! restore    opens it again in the new process
//! describe   what it is, for a person
//! ```
//!
//! [`walk`] finds out what there is and who shares it. [`opening`] makes it again and gives each process its
//! descriptors. Both hold the tables of what several open files lead to (pipes, sockets, terminals, queues); these
//! kinds fill them. Memory is in `memory/`, what belongs to an IPC namespace in `system_v/`, and timers of processes in
//! `posix_timers/`.
//!
//! Other state has one module for each kind as well, with what collects and what restores it:
//!
//! ```text
//! capabilities          that threads have given up
//! memory_layout         where heap, stack and arguments are
//! numa_policy           the nodes from which threads and mappings take memory
//! other_names           files with several names
//! process_switches      what a process has told the kernel about itself: a table
//! process_tree          parents, groups, sessions, zombies, stopped processes
//! processor_state       that a program must ask for: AMX
//! protection_keys       of memory
//! resource_limits       of processes
//! restartable_sequence  that a thread has registered
//! scheduling            policy, priorities and processors of threads
//! signal_dispositions   what each signal does
//! thread                what the kernel keeps for a thread, with a table of its switches; its registers
//! working_directory     of a process
//! ```

mod capabilities;
mod check;
mod device;
mod directory;
mod epoll;
mod event_counter;
mod external;
mod inotify;
mod io_uring;
mod kernel_file;
mod locks;
mod memory;
mod memory_layout;
mod message_queue;
mod nameless;
mod numa_policy;
mod of_processes;
mod openable;
mod opening;
mod other_names;
mod pipe;
mod pipe_contents;
mod posix_timers;
mod process_handle;
mod process_switches;
mod process_tree;
mod processor_state;
mod protection_keys;
mod refused;
mod regular;
mod resource_limits;
mod restartable_sequence;
mod scheduling;
mod shown;
mod signal_dispositions;
mod signal_owner;
mod signals;
mod socket;
mod switch;
mod system_v;
mod terminal;
mod thread;
mod thread_handle;
mod timer;
mod walk;
mod working_directory;

use crate::EngineError;
pub(crate) use capabilities::changed_capabilities;
use check::nothing;
pub(crate) use check::{Blockers, Check};
pub(crate) use event_counter::SilentCounter;
pub(crate) use locks::refuse_locked_by_others;
pub(crate) use memory::{
    MemoryObjects, ObjectContents, SHARED_MEMORY_NAME, data_of, is_inside, is_on_huge_pages, on_huge_pages,
    written_at_ends,
};
pub(crate) use memory_layout::memory_layout;
use message_queue::unlink_leftovers;
pub(crate) use of_processes::open_files_of_processes;
pub use opening::AddressWait;
pub(crate) use opening::{FilePlan, OnWait, OpenFilesPlan, OutsideWorld, Parked};
use opening::{Opening, Recorded};
pub(crate) use other_names::{NamesPlan, judge_names, note_other_names};
pub(crate) use posix_timers::FoundTimers;
pub(crate) use process_switches::{AskedProcessSwitches, ProcessSwitchesBaseline};
pub(crate) use process_tree::{
    Relations, Remains, ShownProcess, is_sound_tree, outline_of_tree, stop_the_stopped, unreported,
};
pub(crate) use processor_state::AskedFeatures;
pub(crate) use protection_keys::{execute_only_key, is_execute_only, with_keys_in_use};
pub(crate) use regular::RegularPlan;
pub(crate) use resource_limits::resource_limits;
pub(crate) use restartable_sequence::registered_sequence;
pub(crate) use scheduling::{SchedulingBaseline, own_scheduling};
pub(crate) use signal_dispositions::AskedDispositions;
pub(crate) use socket::{Connecting, Renamed, SocketName, distant_sender, refuse_lone_part};
use standfast_format::records::{Bytes, OpenFile, OpenFileKind};
use standfast_linux::abi;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
pub(crate) use system_v::{
    FoundUndo, MadeSystemV, Probe, SystemV, SystemVContents, has_ipc, pid_namespace, probes, refuse_shared_ipc,
    remove_leftovers, remove_made_since,
};
pub(crate) use terminal::{bring_to_foreground, makes_terminals};
pub(crate) use thread::AskedThread;
pub(crate) use walk::{Descriptors, Motion, Terms};
use walk::{Known, Unsupported, Walk};
pub(crate) use working_directory::{is_removed_directory, judge_working_directory};

/// Everything that is known of one kind of open file.
struct Kind {
    /// Returns the record of an open file of a frozen process, given its place among those shown; `None` for other
    /// kinds.
    collect: fn(&mut Walk<'_>, usize) -> Option<Known>,
    /// Reports what blocks the restart of a recorded open file; nothing for other kinds.
    check: fn(&mut Check<'_, '_>, &OpenFile),
    /// Opens a recorded file again in the new process: in the main process while it is alone. A file that needs other
    /// processes is opened once all exist ([`of_processes`]). `None` for other kinds.
    restore: fn(&Opening<'_>, &Recorded<'_>) -> Option<Result<u64, EngineError>>,
    /// Describes a recorded open file for a person; `None` for other kinds.
    describe: fn(&OpenFileKind) -> Option<String>,
}

/// All kinds, in the order in which an open file is offered to them.
const KINDS: &[Kind] = &[
    kernel_file::KIND,
    directory::PLACE,
    message_queue::KIND,
    nameless::KIND,
    regular::KIND,
    external::KIND,
    directory::KIND,
    pipe::KIND,
    socket::KIND,
    terminal::KIND,
    device::KIND,
    event_counter::KIND,
    epoll::KIND,
    timer::KIND,
    signals::KIND,
    inotify::KIND,
    thread_handle::KIND,
    process_handle::KIND,
];

/// Describes a recorded open file for a person.
pub fn describe_open_file(kind: &OpenFileKind) -> String {
    KINDS.iter().find_map(|known| (known.describe)(kind)).unwrap_or_default()
}

const O_ACCMODE: u32 = abi::O_ACCMODE as u32;
const O_WRONLY: u32 = abi::O_WRONLY as u32;
const O_CREAT: u32 = abi::O_CREAT as u32;
const O_EXCL: u32 = abi::O_EXCL as u32;
const O_NOCTTY: u32 = abi::O_NOCTTY as u32;
/// Files opened by a path have this flag. Not all others do, and programs see it (`F_GETFL`).
pub(crate) const O_LARGEFILE: u32 = 0o100000;
pub(crate) const O_NOFOLLOW: u32 = abi::O_NOFOLLOW as u32;
const O_TRUNC: u32 = abi::O_TRUNC as u32;
const O_ASYNC: u32 = abi::O_ASYNC as u32;
const O_DIRECT: u32 = abi::O_DIRECT as u32;
const O_PATH: u32 = abi::O_PATH as u32;
const O_CLOEXEC: u32 = abi::O_CLOEXEC as u32;
/// The bits of O_TMPFILE without O_DIRECTORY, which is part of it.
const O_TMPFILE: u32 = (abi::O_TMPFILE & !abi::O_DIRECTORY) as u32;
const O_DIRECTORY: u32 = abi::O_DIRECTORY as u32;
const CREATION_FLAGS: u32 = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC | O_TMPFILE;

const F_SETFL: u64 = abi::F_SETFL as u64;
const F_DUPFD: u64 = abi::F_DUPFD as u64;
const O_RDONLY: u32 = abi::O_RDONLY as u32;
const O_RDWR: u32 = abi::O_RDWR as u32;
const O_NONBLOCK: u32 = abi::O_NONBLOCK as u32;

fn as_path(path: &Bytes) -> &Path {
    Path::new(OsStr::from_bytes(&path.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{FileReference, StandardStream, TimerDescriptor};

    /// Returns one example of each kind.
    fn examples() -> Vec<OpenFileKind> {
        let path = || Bytes::from(&b"/x"[..]);
        vec![
            OpenFileKind::Regular { file: FileReference::default(), offset: 0, other_writer: None },
            OpenFileKind::Device { path: path(), number: 0 },
            OpenFileKind::Pipe { pipe: 0 },
            OpenFileKind::EventCounter { count: 0, semaphore: false },
            OpenFileKind::Epoll { interests: Vec::new() },
            OpenFileKind::Stream { stream: StandardStream::Input, was: path() },
            OpenFileKind::Timer { timer: TimerDescriptor::default() },
            OpenFileKind::Signals { mask: 0 },
            OpenFileKind::Watches { watches: Vec::new() },
            OpenFileKind::Process { process: 0 },
            OpenFileKind::Directory { path: path(), position: 0, device: 0, inode: 0 },
            OpenFileKind::Place { path: path(), mode: 0, device: 0, inode: 0 },
            OpenFileKind::Object { object: 0, offset: 0 },
            OpenFileKind::Socket { socket: 0 },
            OpenFileKind::Master { terminal: 0 },
            OpenFileKind::Slave { terminal: 0 },
            OpenFileKind::HungUp { mode: None },
            OpenFileKind::Inherited { number: 3, was: path() },
            OpenFileKind::MessageQueue { queue: 0 },
            OpenFileKind::KernelFile { subject: None, path: path(), offset: 0 },
            OpenFileKind::Thread { process: 0, thread: 1 },
        ]
    }

    /// Lists all kinds, so that a new kind fails to compile here first.
    fn is_among_the_examples(kind: &OpenFileKind) -> bool {
        use OpenFileKind::*;
        match kind {
            Regular { .. } | Device { .. } | Pipe { .. } | EventCounter { .. } | Epoll { .. } | Stream { .. } => true,
            Timer { .. } | Signals { .. } | Watches { .. } | Process { .. } | Directory { .. } | Place { .. } => true,
            Object { .. } | Socket { .. } | Master { .. } | Slave { .. } | HungUp { .. } | Inherited { .. } => true,
            MessageQueue { .. } | KernelFile { .. } | Thread { .. } => true,
        }
    }

    #[test]
    fn each_recorded_kind_is_described() {
        for kind in examples() {
            assert!(is_among_the_examples(&kind) && !describe_open_file(&kind).is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn an_image_with_dangling_references_is_refused() {
        let job = standfast_format::records::JobState::default();
        let is_refused = |kind: OpenFileKind| {
            let (mut blockers, mut remaking) = (Blockers::default(), crate::remake::Remaking::new(&job));
            let file = OpenFile { flags: 0, kind, signal_target: None, locks: Vec::new(), signal: None };
            Check { job: &job, blockers: &mut blockers, remaking: &mut remaking }.open_file(&file);
            blockers.into_all().iter().any(|blocker| blocker.why.contains("does not hold"))
        };
        for kind in examples() {
            use OpenFileKind::*;
            let refers = matches!(
                kind,
                Pipe { .. }
                    | Process { .. }
                    | Object { .. }
                    | Socket { .. }
                    | Master { .. }
                    | Slave { .. }
                    | MessageQueue { .. }
                    | Thread { .. }
            );
            assert_eq!(is_refused(kind.clone()), refers, "{kind:?}");
        }
    }
}
