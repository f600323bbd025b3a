//! Records of descriptors and their open file descriptions.

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
    /// Position in [`super::JobState::open_files`]. Descriptors that shared an open file description share it again.
    #[n(2)]
    pub open_file: u32,
}

/// One open file description.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub struct OpenFile {
    /// Status flags and access mode, as in `open(2)`, without O_CLOEXEC and the creation flags.
    #[n(0)]
    pub flags: u32,
    /// Its kind.
    #[n(1)]
    pub kind: OpenFileKind,
    /// The receiver of a signal when it is ready (O_ASYNC) or has urgent data.
    #[n(2)]
    pub signal_target: Option<SignalTarget>,
    /// Locks on the file, taken through this open file description.
    #[n(3)]
    pub locks: Vec<FileLock>,
    /// The signal of `F_SETSIG`, if no receiver is set.
    #[n(4)]
    pub signal: Option<i32>,
}

/// The receiver of a signal from an open file: `F_SETOWN_EX` and `F_SETSIG`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalTarget {
    /// Position in [`super::JobState::processes`].
    #[n(0)]
    pub process: u32,
    /// Whether the signal goes only to the main thread of that process, rather than to any thread.
    #[n(1)]
    pub main_thread: bool,
    /// The signal; 0 is SIGIO without further information.
    #[n(2)]
    pub signal: i32,
    /// Whether the signal goes to the process group that this process leads; absent for no.
    #[n(3)]
    pub group: Option<bool>,
}

/// A lock on a file.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// Its owner and scope.
    #[n(0)]
    pub kind: LockKind,
    /// Whether it excludes everybody else, rather than only writers.
    #[n(1)]
    pub exclusive: bool,
    /// First byte.
    #[n(2)]
    pub start: u64,
    /// Number of bytes; 0 extends to the end of the file, wherever that moves.
    #[n(3)]
    pub length: u64,
}

/// The owner and scope of a lock.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Owned by the open file description, on the whole file: `flock(2)`.
    #[n(0)]
    Whole,
    /// Owned by a process: `F_SETLK`.
    #[n(1)]
    Process {
        /// Position in [`super::JobState::processes`].
        #[n(0)]
        process: u32,
    },
    /// Owned by the open file description, on a range: `F_OFD_SETLK`.
    #[n(2)]
    OpenFile,
}

impl OpenFile {
    /// Reports whether it can be opened only after the process to which it refers exists.
    pub fn needs_process(&self) -> bool {
        matches!(
            self.kind,
            OpenFileKind::Process { .. }
                | OpenFileKind::Thread { .. }
                | OpenFileKind::KernelFile { subject: Some(_), .. }
        )
    }

    /// Reports whether the program may write to it.
    pub fn is_writable(&self) -> bool {
        /// O_ACCMODE, with O_RDONLY as 0: the same on every Linux.
        const ACCESS: u32 = 3;
        self.flags & ACCESS != 0
    }
}

/// The kinds of open file that can be restored.
#[derive(Encode, Decode, Clone, Debug, PartialEq)]
pub enum OpenFileKind {
    /// A regular file, found again by path.
    #[n(0)]
    Regular {
        /// The file, with its length at the checkpoint. A restart truncates it to that length if the program may write
        /// it.
        #[n(0)]
        file: FileReference,
        /// Offset in bytes.
        #[n(1)]
        offset: u64,
        /// Description of a process outside the job that also had the file open for writing.
        #[n(2)]
        other_writer: Option<Bytes>,
    },
    /// A device node, opened again by path, such as `/dev/null`.
    #[n(1)]
    Device {
        /// Path.
        #[n(0)]
        path: Bytes,
        /// Device number, as in `st_rdev`.
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
        /// Its entries.
        #[n(0)]
        interests: Vec<EpollInterest>,
    },
    /// A standard stream of the run that is not a file: a terminal or a pipe to a process outside. The restart's own
    /// stream replaces it.
    #[n(5)]
    Stream {
        /// The stream.
        #[n(0)]
        stream: StandardStream,
        /// Its former target, for messages: `/dev/pts/3`, `pipe:[4711]`.
        #[n(1)]
        was: Bytes,
    },
    /// A pipe or socket to a process outside that the run was given besides its standard streams. The restart's own
    /// descriptor of that number replaces it. If there is none, the other side is gone: end of file, broken pipe.
    #[n(6)]
    Inherited {
        /// The descriptor number under which the run received it.
        #[n(0)]
        number: i32,
        /// Its former target, for messages.
        #[n(1)]
        was: Bytes,
    },
    /// A timerfd.
    #[n(7)]
    Timer {
        /// Its setting.
        #[n(0)]
        timer: TimerDescriptor,
    },
    /// A signalfd.
    #[n(8)]
    Signals {
        /// Signals that it receives; bit n - 1 is signal n.
        #[n(0)]
        mask: u64,
    },
    /// An inotify instance without unread events.
    #[n(9)]
    Watches {
        /// Its entries.
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
        /// Position of the listing, in the file system's own terms; 0 is the beginning.
        #[n(1)]
        position: u64,
        /// Device that holds it.
        #[n(2)]
        device: u64,
        /// Inode number.
        #[n(3)]
        inode: u64,
    },
    /// A location in the file system (O_PATH): not the file, but where it is.
    #[n(12)]
    Place {
        /// Path.
        #[n(0)]
        path: Bytes,
        /// Type and permissions of what is there, as in `st_mode`.
        #[n(1)]
        mode: u32,
        /// Device that holds it.
        #[n(2)]
        device: u64,
        /// Inode number.
        #[n(3)]
        inode: u64,
    },
    /// A file that no path reaches, whose contents are in the image: a memfd, a deleted file.
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
        /// Position in [`super::JobState::sockets`]. Only one open file refers to each socket.
        #[n(0)]
        socket: u32,
    },
    /// The master of a pseudo-terminal.
    #[n(15)]
    Master {
        /// Position in [`super::JobState::terminals`]. Each terminal has only one master.
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
    /// The slave of a pseudo-terminal that was hung up: every operation on it reports that.
    #[n(17)]
    HungUp {
        /// Permissions of its node, which has lost its name. Absent in images of old versions.
        #[n(0)]
        mode: Option<u32>,
    },
    /// A POSIX message queue.
    #[n(18)]
    MessageQueue {
        /// Position in [`super::JobState::posix_queues`].
        #[n(0)]
        queue: u32,
    },
    /// A file whose content the kernel generates as it is read (`/proc`, `/sys`, control groups). A restart opens it
    /// again by its name as the job sees it, and it then describes the new life.
    #[n(19)]
    KernelFile {
        /// The process of the job that it describes, for files in `/proc/PID`.
        #[n(0)]
        subject: Option<ProcSubject>,
        /// Path; relative to the directory of its subject, if it has one.
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
        /// Thread id, as in [`super::ThreadState::tid`].
        #[n(1)]
        thread: i32,
    },
}

/// The process or thread that a file in `/proc/PID` describes.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcSubject {
    /// Position in [`super::JobState::processes`].
    #[n(0)]
    pub process: u32,
    /// For a file in `/proc/PID/task/TID`: the thread id, as in [`super::ThreadState::tid`].
    #[n(1)]
    pub thread: Option<i32>,
}

/// The setting of a timerfd.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TimerDescriptor {
    /// Its clock, as in `clock_gettime(2)`.
    #[n(0)]
    pub clock: i32,
    /// TFD_TIMER_ flags that it was set with.
    #[n(1)]
    pub flags: u32,
    /// Nanoseconds until its next expiration; 0 if it is not running.
    #[n(2)]
    pub remaining_nanoseconds: u64,
    /// The moment of its next expiration on its clock as the job saw it, in nanoseconds. This counts if the timer was
    /// set to a moment (TFD_TIMER_ABSTIME) and not to a duration.
    #[n(3)]
    pub deadline_nanoseconds: u64,
    /// Nanoseconds between expirations; 0 for a single expiration.
    #[n(4)]
    pub interval_nanoseconds: u64,
    /// Number of expirations that have not been read.
    #[n(5)]
    pub ticks: u64,
}

/// One entry of an inotify instance.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its number within the instance.
    #[n(0)]
    pub descriptor: i32,
    /// Path that it watches.
    #[n(1)]
    pub path: Bytes,
    /// IN_ events and flags.
    #[n(2)]
    pub mask: u32,
    /// Device of the watched file.
    #[n(3)]
    pub device: u64,
    /// Inode number of the watched file.
    #[n(4)]
    pub inode: u64,
}

impl OpenFileKind {
    /// Returns the file that a restart must find again.
    pub fn file(&self) -> Option<&FileReference> {
        if let Self::Regular { file, .. } = self { Some(file) } else { None }
    }

    /// Returns the file that a restart must find again, mutably.
    pub fn file_mut(&mut self) -> Option<&mut FileReference> {
        if let Self::Regular { file, .. } = self { Some(file) } else { None }
    }
}

/// The three standard streams of a program.
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
    /// The descriptor number under which it was added. That descriptor may since have been closed or reused.
    #[n(0)]
    pub descriptor: i32,
    /// EPOLL events, with EPOLLET, EPOLLONESHOT and other input flags.
    #[n(1)]
    pub events: u32,
    /// The program's own data word.
    #[n(2)]
    pub data: u64,
    /// The watched open file: position in [`super::JobState::open_files`].
    #[n(3)]
    pub open_file: u32,
}

/// A pipe within the job.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct PipeContents {
    /// Its capacity in bytes.
    #[n(0)]
    pub capacity: u32,
    /// Data that was written but not yet read.
    #[n(1)]
    pub contents: Bytes,
    /// Lengths of the packets in the contents, for a pipe in packet mode (O_DIRECT); otherwise empty.
    #[n(2)]
    pub packets: Vec<u32>,
    /// The path of a named pipe (FIFO); absent if it has no name, or no longer has one.
    #[n(3)]
    pub path: Option<Bytes>,
    /// Permissions of a nameless pipe, if the program has changed them.
    #[n(4)]
    pub mode: Option<u32>,
    /// Places in `packets`, ascending, that are no packets but bytes written before packet mode was set; absent if there
    /// are none.
    #[n(5)]
    pub between_packets: Option<Vec<u32>>,
    /// `Some(true)` for a named pipe that nobody has opened for writing since its readers opened it: they are not told
    /// that its writers are gone (POLLHUP).
    #[n(6)]
    pub awaits_writer: Option<bool>,
}
