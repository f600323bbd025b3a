//! How a checkpoint is captured: what is saved, how changes are found, and when memory is read.

pub use standfast_format::manifest::ExternalSockets;

/// How to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureOptions {
    /// How much of the main thread's stack is saved.
    pub stack: StackPart,
    /// How this and later checkpoints find out what has changed.
    pub tracking: Tracking,
    /// Whether the sink's image builds upon that of the last checkpoint for which [`crate::Captured::committed`] was
    /// called. Unchanged pages are then noted and not saved. Needs tracking that is not [`Tracking::Off`].
    pub builds_upon_last: bool,
    /// If a smaller share of the pages of a process than this, in percent, is unchanged, all of it is saved. That costs
    /// little more, and later images then build upon less.
    pub unchanged_percent_min: u8,
    /// Which files are saved completely.
    pub saved_files: SavedFiles,
    /// What happens to connections whose other end is outside the job.
    pub external_sockets: ExternalSockets,
    /// When memory is read.
    pub reading: Reading,
    /// When the kernel is asked about the attributes of memory.
    pub asking: Asking,
}

/// How much of the main thread's stack is saved (L10, M2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StackPart {
    /// The part above the lowest stack pointer and its red zone. What is below comes back as zeros.
    #[default]
    Live,
    /// All of it, for programs that keep coroutines below the stack pointer of their main thread.
    Whole,
}

/// When the memory of processes is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// While the job is frozen.
    #[default]
    Stopped,
    /// When it runs again, by [`crate::Captured::read_on`], from a clone of each process: fork(2) copies its page
    /// tables. What a clone does not hold, and all of a process that cannot be cloned, is read while the job is frozen.
    Cloned,
}

/// Which of the files that the program may write are saved completely. Mapped parts of other files are saved in any
/// case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SavedFiles {
    /// None.
    #[default]
    None,
    /// Small ones, in case they are missing or changed at the restart.
    IfNeeded,
    /// Files of at most this many bytes; a restart restores their contents.
    UpTo(u64),
}

/// Dirty-page detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tracking {
    /// Not at all: every checkpoint saves everything.
    #[default]
    Off,
    /// Like [`Tracking::Pagemap`] if the kernel supports it, otherwise like [`Tracking::Hash`].
    Auto,
    /// The memory of processes is tracked; shared memory is read and compared. What cannot be tracked counts as changed.
    /// Before Linux 6.7 soft-dirty bits are used, if the kernel keeps them.
    Pagemap,
    /// Everything is read and compared with checksums of its earlier contents.
    Hash,
}

/// When the kernel is asked about the attributes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asking {
    /// While the job runs, before the stop. What the capture has used must be confirmed with
    /// [`crate::Unconfirmed::confirm`] when the job runs again.
    #[default]
    Running,
    /// While the job is frozen: exact, and takes 5 to 12 ms for each GB.
    Stopped,
}
