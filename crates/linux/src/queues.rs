//! Semaphores and message queues of System V: they live in the kernel, belong to nobody, and stay when a program ends. The
//! kernel tells who was the last to use one.
//!
//! # Safety
//! The block passes plain numbers.

use crate::proc::kernel_objects;
use std::io;

/// A set of semaphores, or a message queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelQueue {
    /// Which of the two it is.
    pub kind: QueueKind,
    /// Its id.
    pub id: i32,
    /// The processes that were the last to use any part of it, as we see them. They may have ended, and their numbers may be
    /// those of others by now.
    pub users: Vec<i32>,
    /// When it was last used or changed, in seconds since 1970.
    pub used_seconds: i64,
}

/// Which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// `semget(2)`.
    Semaphores,
    /// `msgget(2)`.
    Messages,
}

impl KernelQueue {
    /// All in this IPC namespace that this process may look at.
    ///
    /// # Errors
    /// When the kernel does not tell which there are.
    pub fn all() -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for fields in kernel_objects("sem")? {
            let [_, id, _, semaphores, _, _, _, _, operated, changed] = fields[..] else { continue };
            let used_seconds = operated.max(changed);
            let users = (0..semaphores as i32).filter_map(|number| last_user(id as i32, number)).collect();
            found.push(Self { kind: QueueKind::Semaphores, id: id as i32, users, used_seconds });
        }
        for fields in kernel_objects("msg")? {
            let [_, id, _, _, _, sender, receiver, _, _, _, _, sent, received, changed] = fields[..] else { continue };
            let users = vec![sender as i32, receiver as i32];
            let used_seconds = sent.max(received).max(changed);
            found.push(Self { kind: QueueKind::Messages, id: id as i32, users, used_seconds });
        }
        Ok(found)
    }
}

/// `GETPID`: who was the last to change a semaphore.
fn last_user(id: i32, number: i32) -> Option<i32> {
    // SAFETY: plain numbers.
    let pid = unsafe { libc::semctl(id, number, libc::GETPID) };
    (pid > 0).then_some(pid)
}
