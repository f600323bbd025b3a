//! How a checkpoint is captured: what is saved, how changes are found, and when memory is read.

/// How to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureOptions {
    /// How much of the main thread's stack is saved.
    pub stack: StackPart,
    /// How this and later checkpoints find out what has changed.
    pub tracking: Tracking,
    /// Whether the sink's image builds upon that of the last checkpoint for which [`crate::Captured::committed`] was called:
    /// pages that are as they were then are noted and not saved. Needs tracking that is not [`Tracking::Off`].
    pub builds_upon_last: bool,
    /// A process of which less than this share of the pages is as it was, in percent, is saved whole: that costs little
    /// more, and what comes later builds upon less.
    pub unchanged_percent_min: u8,
    /// Which files are saved whole.
    pub saved_files: SavedFiles,
    /// What becomes of connections whose other end is outside the job.
    pub external_sockets: ExternalSockets,
    /// When memory is read.
    pub reading: Reading,
    /// When the kernel is asked what has been said about memory.
    pub asking: Asking,
}

/// How much of the main thread's stack is saved (L10, M2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StackPart {
    /// What lies above the lowest stack pointer on it and that one's red zone. What lies below comes back as zeros.
    #[default]
    Live,
    /// All of it: for programs that keep coroutines below the stack pointer of their main thread.
    Whole,
}

/// When the memory of processes is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// While the job stands still.
    #[default]
    Stopped,
    /// When it runs on, by [`crate::Captured::read_on`], from a clone of each process: fork(2) copies its page tables. What a
    /// clone does not hold, and all of a process that cannot be cloned, is read while the job stands still.
    Cloned,
}

/// Which files are saved whole, of those that the program may write. What of others is mapped is saved in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SavedFiles {
    /// None.
    #[default]
    None,
    /// Small ones, for the case that they are gone by the restart, or no longer hold what they held.
    IfNeeded,
    /// Those that hold so many bytes at most; a restart puts back what they held.
    UpTo(u64),
}

/// Dirty-page detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tracking {
    /// Not at all: every checkpoint saves everything.
    #[default]
    Off,
    /// As [`Tracking::Pagemap`] where the kernel can do that, as [`Tracking::Hash`] elsewhere.
    Auto,
    /// The memory of processes is tracked; shared memory is read and compared. What cannot be tracked
    /// has changed. Where the kernel cannot track but keeps soft-dirty bits, these tell.
    Pagemap,
    /// Everything is read and compared with checksums of what it held.
    Hash,
}

/// When the kernel is asked what has been said about memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asking {
    /// While the job runs, before it is stopped. What the capture has used is to be confirmed with
    /// [`crate::Unconfirmed::confirm`] when the job runs again.
    #[default]
    Ahead,
    /// While the job stands still: exact, and 5 to 12 ms for each GB.
    Stopped,
}

/// What becomes of connections whose other end is outside the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalSockets {
    /// They are blockers.
    #[default]
    Refuse,
    /// They come back as connections that the other end has reset.
    Reset,
}
