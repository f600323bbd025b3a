//! Records of what processes leave with the kernel for each other: System V semaphores and message queues, message queues
//! of POSIX. The segments of System V are memory objects, and stand among these.

use super::Bytes;
use minicbor::{Decode, Encode};

/// How a System V object is known, and whose it is.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SystemVName {
    /// Its id, which programs keep.
    #[n(0)]
    pub id: i32,
    /// Its key, by which it is found; 0 for private ones and segments marked for removal.
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
    /// Whether a process of the job that lived at the checkpoint had made or used it: what a killed life leaves behind of it
    /// may be removed.
    #[n(5)]
    pub of_job: bool,
}

/// A set of System V semaphores.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct SemaphoreSet {
    /// How it is known.
    #[n(0)]
    pub name: SystemVName,
    /// The semaphores, by number.
    #[n(1)]
    pub semaphores: Vec<Semaphore>,
    /// What is to be added to semaphores when a process ends (SEM_UNDO).
    #[n(2)]
    pub undo: Vec<Undo>,
}

/// One semaphore.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Semaphore {
    /// Its value.
    #[n(0)]
    pub value: u16,
    /// The process that was the last to change it: position in [`super::JobState::processes`]; absent where it has ended.
    #[n(1)]
    pub user: Option<u32>,
}

/// What the end of a process does to a semaphore.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Undo {
    /// Position in [`super::JobState::processes`].
    #[n(0)]
    pub process: u32,
    /// Number of the semaphore in its set.
    #[n(1)]
    pub semaphore: u32,
    /// What will be added.
    #[n(2)]
    pub adjustment: i32,
}

/// A System V message queue.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct MessageQueue {
    /// How it is known.
    #[n(0)]
    pub name: SystemVName,
    /// How many bytes it takes.
    #[n(1)]
    pub bytes_max: u64,
    /// What is in it, in order.
    #[n(2)]
    pub messages: Vec<TypedMessage>,
}

/// A message in such a queue.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct TypedMessage {
    /// Its type, a positive number.
    #[n(0)]
    pub kind: i64,
    /// Its text.
    #[n(1)]
    pub text: Bytes,
}

/// A message queue of POSIX; open files refer to it by position.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct PosixQueue {
    /// Its name, without the slash at the beginning.
    #[n(0)]
    pub name: Bytes,
    /// Whether the name has been taken from it (`mq_unlink(3)`).
    #[n(1)]
    pub unlinked: bool,
    /// Permissions.
    #[n(2)]
    pub mode: u32,
    /// How many messages it takes.
    #[n(3)]
    pub messages_max: u64,
    /// How many bytes a message may have.
    #[n(4)]
    pub bytes_max: u64,
    /// What is in it, as it would be received: by priority, then in order.
    #[n(5)]
    pub messages: Vec<PriorityMessage>,
    /// Its inode, by which it is known again where a killed life has left it.
    #[n(6)]
    pub inode: u64,
}

/// A message in such a queue.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct PriorityMessage {
    /// Its priority.
    #[n(0)]
    pub priority: u32,
    /// Its text.
    #[n(1)]
    pub text: Bytes,
}
