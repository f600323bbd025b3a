//! Records of objects that processes share through the kernel: System V semaphores and message queues, and POSIX
//! message queues. System V segments are memory objects and recorded as such.

use super::Bytes;
use minicbor::{Decode, Encode};

/// The identity and owner of a System V object.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SystemVName {
    /// Its id, which programs hold.
    #[n(0)]
    pub id: i32,
    /// Its key, by which programs find it; 0 for private objects and segments marked for removal.
    #[n(1)]
    pub key: i32,
    /// Permissions.
    #[n(2)]
    pub mode: u32,
    /// Its owner.
    #[n(3)]
    pub user: u32,
    /// Its group.
    #[n(4)]
    pub group: u32,
    /// Whether a process of the job that was alive at the checkpoint had created or used it. If so, what a killed life
    /// leaves of it may be removed.
    #[n(5)]
    pub of_job: bool,
}

/// A set of System V semaphores.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct SemaphoreSet {
    /// Its identity and owner.
    #[n(0)]
    pub name: SystemVName,
    /// The semaphores, by number.
    #[n(1)]
    pub semaphores: Vec<Semaphore>,
    /// Adjustments to semaphores at the end of processes (SEM_UNDO).
    #[n(2)]
    pub undo: Vec<Undo>,
    /// Whether it has ever been used (`sem_otime`). Absent if unknown.
    #[n(3)]
    pub used: Option<bool>,
}

/// One semaphore.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Semaphore {
    /// Its value.
    #[n(0)]
    pub value: u16,
    /// Position in [`super::JobState::processes`] of the process that last changed it; absent if that process has
    /// ended.
    #[n(1)]
    pub user: Option<u32>,
}

/// The adjustment of a semaphore at the end of a process.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Undo {
    /// Position in [`super::JobState::processes`].
    #[n(0)]
    pub process: u32,
    /// Number of the semaphore in its set.
    #[n(1)]
    pub semaphore: u32,
    /// The value to add.
    #[n(2)]
    pub adjustment: i32,
}

/// A System V message queue.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct MessageQueue {
    /// Its identity and owner.
    #[n(0)]
    pub name: SystemVName,
    /// Its capacity in bytes.
    #[n(1)]
    pub bytes_max: u64,
    /// Its messages, in order.
    #[n(2)]
    pub messages: Vec<TypedMessage>,
}

/// A message in a System V queue.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct TypedMessage {
    /// Its type, a positive number.
    #[n(0)]
    pub kind: i64,
    /// Its text.
    #[n(1)]
    pub text: Bytes,
}

/// A POSIX message queue; open files refer to it by position.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct PosixQueue {
    /// Its name, without the leading slash.
    #[n(0)]
    pub name: Bytes,
    /// Whether its name was removed (`mq_unlink(3)`).
    #[n(1)]
    pub unlinked: bool,
    /// Permissions.
    #[n(2)]
    pub mode: u32,
    /// Its capacity in messages.
    #[n(3)]
    pub messages_max: u64,
    /// Maximum length of a message in bytes.
    #[n(4)]
    pub bytes_max: u64,
    /// Its messages in the order of reception: by priority, then by age.
    #[n(5)]
    pub messages: Vec<PriorityMessage>,
    /// Its inode, by which a queue left by a killed life is recognised.
    #[n(6)]
    pub inode: u64,
}

/// A message in a POSIX queue.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct PriorityMessage {
    /// Its priority.
    #[n(0)]
    pub priority: u32,
    /// Its text.
    #[n(1)]
    pub text: Bytes,
}
