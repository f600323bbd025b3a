//! Records of descriptors and of the open file descriptions behind them.

use super::{Bytes, FileReference};
use minicbor::{Decode, Encode};

/// One descriptor of a process.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    #[n(0)]
    pub number: i32,
    /// Whether exec closes it.
    #[n(1)]
    pub close_on_exec: bool,
    /// Position in [`super::JobState::open_files`]. Descriptors that share an open file description share it again.
    #[n(2)]
    pub open_file: u32,
}

/// One open file description.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub struct OpenFile {
    /// Status flags and access mode, as in `open(2)`, without O_CLOEXEC and the creation flags.
    #[n(0)]
    pub flags: u32,
    /// What it is.
    #[n(1)]
    pub kind: OpenFileKind,
    /// Who is told by a signal when it is ready (O_ASYNC), or has urgent data.
    #[n(2)]
    pub signal_target: Option<SignalTarget>,
    /// Locks on the file, taken through this open file description.
    #[n(3)]
    pub locks: Vec<FileLock>,
    /// The signal of `F_SETSIG` where nobody is told.
    #[n(4)]
    pub signal: Option<i32>,
}

/// Who gets a signal from an open file: `F_SETOWN_EX` and `F_SETSIG`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalTarget {
    /// Position in [`super::JobState::processes`].
    #[n(0)]
    pub process: u32,
    /// Whether only the main thread of that process is meant, instead of any thread.
    #[n(1)]
    pub main_thread: bool,
    /// Which signal; 0 is SIGIO without further information.
    #[n(2)]
    pub signal: i32,
    /// Whether the process group that this process leads is meant; absent for no.
    #[n(3)]
    pub group: Option<bool>,
}

/// A lock on a file.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// Whose it is.
    #[n(0)]
    pub kind: LockKind,
    /// Whether it keeps everybody else out, instead of writers only.
    #[n(1)]
    pub exclusive: bool,
    /// First byte.
    #[n(2)]
    pub start: u64,
    /// Number of bytes; 0 means: to the end, however far that may come to be.
    #[n(3)]
    pub length: u64,
}

/// Whose a lock is.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// The open file description's, on the whole file: `flock(2)`.
    #[n(0)]
    Whole,
    /// A process's: `F_SETLK`.
    #[n(1)]
    Process {
        /// Position in [`super::JobState::processes`].
        #[n(0)]
        process: u32,
    },
    /// The open file description's, on a range: `F_OFD_SETLK`.
    #[n(2)]
    OpenFile,
}

impl OpenFile {
    /// Whether it can be had only once the process that it stands for, or tells of, is there.
    pub fn needs_process(&self) -> bool {
        matches!(
            self.kind,
            OpenFileKind::Process { .. }
                | OpenFileKind::Thread { .. }
                | OpenFileKind::KernelFile { subject: Some(_), .. }
        )
    }

    /// Whether the program may write to it.
    pub fn is_writable(&self) -> bool {
        /// O_ACCMODE, and O_RDONLY within: the same on every Linux.
        const ACCESS: u32 = 3;
        self.flags & ACCESS != 0
    }
}

/// The kinds of open file that can be brought back.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub enum OpenFileKind {
    /// A regular file, found again by path.
    #[n(0)]
    Regular {
        /// The file, with its length at the checkpoint: one that the program may write is cut back to it.
        #[n(0)]
        file: FileReference,
        /// Offset in bytes.
        #[n(1)]
        offset: u64,
        /// A process outside the job that had the file open for writing as well, in words.
        #[n(2)]
        other_writer: Option<Bytes>,
    },
    /// A device node, opened again by path: `/dev/null` and its like.
    #[n(1)]
    Device {
        /// Path.
        #[n(0)]
        path: Bytes,
        /// Device number, as `st_rdev` has it.
        #[n(1)]
        number: u64,
    },
    /// One end of a pipe within the job.
    #[n(2)]
    Pipe {
        /// Position in [`super::JobState::pipes`].
        #[n(0)]
        pipe: u32,
    },
    /// An eventfd.
    #[n(3)]
    EventCounter {
        /// Its count.
        #[n(0)]
        count: u64,
        /// Whether a read takes one instead of all.
        #[n(1)]
        semaphore: bool,
    },
    /// An epoll instance.
    #[n(4)]
    Epoll {
        /// What it watches.
        #[n(0)]
        interests: Vec<EpollInterest>,
    },
    /// A standard stream of the run that is not a file: a terminal or a pipe to somewhere else. The restart's own takes
    /// its place.
    #[n(5)]
    Stream {
        /// Which one.
        #[n(0)]
        stream: StandardStream,
        /// What it was, for messages: `/dev/pts/3`, `pipe:[4711]`.
        #[n(1)]
        was: Bytes,
    },
    /// A pipe or socket to somewhere else that the run was started with beside its standard streams. The restart's own
    /// descriptor of that number takes its place; if it has none, the other side is gone: end of file, broken pipe.
    #[n(6)]
    Inherited {
        /// The number under which the run was given it.
        #[n(0)]
        number: i32,
        /// What it was, for messages.
        #[n(1)]
        was: Bytes,
    },
    /// A timerfd.
    #[n(7)]
    Timer {
        /// What it is set to.
        #[n(0)]
        timer: TimerDescriptor,
    },
    /// A signalfd.
    #[n(8)]
    Signals {
        /// What it listens to; bit n - 1 is signal n.
        #[n(0)]
        mask: u64,
    },
    /// An inotify instance without unread events.
    #[n(9)]
    Watches {
        /// What it watches.
        #[n(0)]
        watches: Vec<Watch>,
    },
    /// A pidfd of a process of the job.
    #[n(10)]
    Process {
        /// Position in [`super::JobState::processes`].
        #[n(0)]
        process: u32,
    },
    /// An open directory, found again by path.
    #[n(11)]
    Directory {
        /// Path.
        #[n(0)]
        path: Bytes,
        /// How far it has been listed, in the file system's own terms; 0 is the beginning.
        #[n(1)]
        position: u64,
        /// Device that holds it.
        #[n(2)]
        device: u64,
        /// Its inode.
        #[n(3)]
        inode: u64,
    },
    /// A place in the file system (O_PATH): not the file, but where it lies.
    #[n(12)]
    Place {
        /// Path.
        #[n(0)]
        path: Bytes,
        /// Type and permissions of what lies there, as `st_mode` has them.
        #[n(1)]
        mode: u32,
        /// Device that holds it.
        #[n(2)]
        device: u64,
        /// Its inode.
        #[n(3)]
        inode: u64,
    },
    /// A file that no path leads to, whose contents are in the image: a memfd, a deleted file.
    #[n(13)]
    Object {
        /// Position in [`super::JobState::objects`].
        #[n(0)]
        object: u32,
        /// Offset in bytes.
        #[n(1)]
        offset: u64,
    },
    /// A socket.
    #[n(14)]
    Socket {
        /// Position in [`super::JobState::sockets`]. Each stands there for one open file only.
        #[n(0)]
        socket: u32,
    },
    /// The master of a pseudo-terminal.
    #[n(15)]
    Master {
        /// Position in [`super::JobState::terminals`]. Each has one master only.
        #[n(0)]
        terminal: u32,
    },
    /// The slave of a pseudo-terminal.
    #[n(16)]
    Slave {
        /// Position in [`super::JobState::terminals`].
        #[n(0)]
        terminal: u32,
    },
    /// The slave of a pseudo-terminal that has been hung up: it says so, whatever is asked of it.
    #[n(17)]
    HungUp,
    /// A message queue of POSIX.
    #[n(18)]
    MessageQueue {
        /// Position in [`super::JobState::posix_queues`].
        #[n(0)]
        queue: u32,
    },
    /// A file of a file system that the kernel makes up as it is read (`/proc`, `/sys`, control groups): opened again under
    /// its name as the job sees it, it tells of the new life.
    #[n(19)]
    KernelFile {
        /// The process of the job that it tells of, for what lies in `/proc/PID`.
        #[n(0)]
        subject: Option<ProcSubject>,
        /// Path; below the directory of its subject where it has one.
        #[n(1)]
        path: Bytes,
        /// Offset in bytes.
        #[n(2)]
        offset: u64,
    },
    /// A pidfd of a single thread of the job (`PIDFD_THREAD`).
    #[n(20)]
    Thread {
        /// Position in [`super::JobState::processes`].
        #[n(0)]
        process: u32,
        /// The thread's id, as [`super::ThreadState::tid`] has it.
        #[n(1)]
        thread: i32,
    },
}

/// Of whom a file in `/proc/PID` tells.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcSubject {
    /// Position in [`super::JobState::processes`].
    #[n(0)]
    pub process: u32,
    /// For a file in `/proc/PID/task/TID`: the thread, as [`super::ThreadState::tid`] has it.
    #[n(1)]
    pub thread: Option<i32>,
}

/// What a timerfd is set to.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TimerDescriptor {
    /// Its clock, as in `clock_gettime(2)`.
    #[n(0)]
    pub clock: i32,
    /// TFD_TIMER_ flags that it was set with.
    #[n(1)]
    pub flags: u32,
    /// Nanoseconds until it expires next; 0 when it does not run.
    #[n(2)]
    pub remaining_nanoseconds: u64,
    /// The moment of that on the timer's clock as the job saw it, in nanoseconds: what counts when it was set to a moment
    /// (TFD_TIMER_ABSTIME) and not to a span.
    #[n(3)]
    pub deadline_nanoseconds: u64,
    /// Nanoseconds from each expiration to the next; 0 for a single one.
    #[n(4)]
    pub interval_nanoseconds: u64,
    /// Expirations that have not been read.
    #[n(5)]
    pub ticks: u64,
}

/// One entry of an inotify instance.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its number within the instance.
    #[n(0)]
    pub descriptor: i32,
    /// Path of what it watches.
    #[n(1)]
    pub path: Bytes,
    /// IN_ events and flags.
    #[n(2)]
    pub mask: u32,
    /// Device of what it watches.
    #[n(3)]
    pub device: u64,
    /// Inode of what it watches.
    #[n(4)]
    pub inode: u64,
}

impl OpenFileKind {
    /// The file that has to be found again.
    pub fn file(&self) -> Option<&FileReference> {
        if let Self::Regular { file, .. } = self { Some(file) } else { None }
    }

    /// The same, to be changed.
    pub fn file_mut(&mut self) -> Option<&mut FileReference> {
        if let Self::Regular { file, .. } = self { Some(file) } else { None }
    }
}

/// The three streams that every program is born with.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cbor(index_only)]
pub enum StandardStream {
    /// Descriptor 0.
    #[n(0)]
    Input,
    /// Descriptor 1.
    #[n(1)]
    Output,
    /// Descriptor 2.
    #[n(2)]
    Error,
}

/// One entry of an epoll instance.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollInterest {
    /// The number under which it was added. The descriptor may have been closed since, or mean something else.
    #[n(0)]
    pub descriptor: i32,
    /// EPOLL events, with their EPOLLET, EPOLLONESHOT and other input flags.
    #[n(1)]
    pub events: u32,
    /// The program's own word.
    #[n(2)]
    pub data: u64,
    /// What is watched: position in [`super::JobState::open_files`].
    #[n(3)]
    pub open_file: u32,
}

/// A pipe within the job.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct PipeContents {
    /// How many bytes it can hold.
    #[n(0)]
    pub capacity: u32,
    /// What has been written and not yet read.
    #[n(1)]
    pub contents: Bytes,
    /// Lengths of the packets that the contents consist of, in a pipe in packet mode (O_DIRECT); else empty.
    #[n(2)]
    pub packets: Vec<u32>,
    /// The path of a named pipe (FIFO); absent where it has no name, or none any more.
    #[n(3)]
    pub path: Option<Bytes>,
    /// Permissions of one without a name, where the program has changed them.
    #[n(4)]
    pub mode: Option<u32>,
}
