//! Ring 2: message queues of POSIX. The kernel has no way to peek into one, so its messages are taken out and put back.
//!
//! A process of its own does that. It continues if we are killed meanwhile, and needs nothing that a killed thread of
//! ours might have held.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live values to the call that it names, with their lengths.

use crate::namespace_helper::in_helper_process_to_the_end;
use crate::sys::check;
use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The limits with which a message queue is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Maximum number of messages.
    pub messages_max: u64,
    /// Maximum number of bytes of a message.
    pub bytes_max: u64,
}

/// A message: priority and text.
pub type QueuedMessage = (u32, Vec<u8>);

/// A message queue that this process has opened.
#[derive(Debug)]
pub struct OpenPosixQueue {
    queue: OwnedFd,
}

/// A message while it is out of the queue.
#[derive(Clone, Copy)]
struct Taken {
    priority: u32,
    bytes: usize,
}

impl OpenPosixQueue {
    /// Opens the queue of a descriptor once more, for ourselves.
    ///
    /// # Errors
    /// When this user may not read and write it.
    pub fn behind(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let file = std::fs::File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Self { queue: file.into() })
    }

    /// Reports whether a process has asked to be notified of the next message (`mq_notify(3)`).
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn notifies(&self) -> io::Result<bool> {
        let mut text = String::new();
        std::fs::File::from(self.queue.try_clone()?).read_to_string(&mut text)?;
        let owner = text.split_whitespace().find_map(|word| word.strip_prefix("NOTIFY_PID:"));
        Ok(owner.is_some_and(|owner| owner != "0"))
    }

    fn attributes(&self) -> io::Result<libc::mq_attr> {
        // SAFETY: plain data for which all zeros is a value.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        // SAFETY: `attributes` is live.
        check(unsafe { libc::mq_getattr(self.queue.as_raw_fd(), &raw mut attributes) }.into())?;
        Ok(attributes)
    }

    /// Returns the limits with which the queue was made.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn limits(&self) -> io::Result<QueueLimits> {
        let attributes = self.attributes()?;
        Ok(QueueLimits { messages_max: attributes.mq_maxmsg as u64, bytes_max: attributes.mq_msgsize as u64 })
    }

    /// Returns the messages in the queue, in the order of receipt, and leaves them in it. Call this only while every
    /// user of the queue is stopped, and no process is to be notified of messages.
    ///
    /// # Errors
    /// When a message cannot be taken out or put back.
    pub fn messages(&self) -> io::Result<Vec<QueuedMessage>> {
        let attributes = self.attributes()?;
        let (messages, bytes) = (attributes.mq_curmsgs as usize, attributes.mq_msgsize as usize);
        if messages == 0 {
            return Ok(Vec::new());
        }
        let mut texts = vec![0u8; messages * bytes];
        let mut taken = vec![Taken { priority: 0, bytes: 0 }; messages];
        let number = self.queue.as_raw_fd();
        in_helper_process_to_the_end(|| {
            for (text, taken) in texts.chunks_exact_mut(bytes).zip(&mut taken) {
                *taken = receive(number, text)?;
            }
            for (text, taken) in texts.chunks_exact(bytes).zip(&taken) {
                send(number, taken.priority, &text[..taken.bytes])?;
            }
            Ok(())
        })?;
        let found = texts.chunks_exact(bytes).zip(&taken);
        Ok(found.map(|(text, taken)| (taken.priority, text[..taken.bytes].to_vec())).collect())
    }

    /// Sends a message to the queue.
    ///
    /// # Errors
    /// When there is no room.
    pub fn send(&self, priority: u32, text: &[u8]) -> io::Result<()> {
        send(self.queue.as_raw_fd(), priority, text)
    }

    /// Returns the descriptor of the queue.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    /// Opens the queue of this name (without the slash) in our IPC namespace.
    ///
    /// # Errors
    /// When there is none, or it may not be opened.
    pub fn named(name: &CStr) -> io::Result<Self> {
        use std::os::fd::FromRawFd;
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: the name is live; nothing else owns the new descriptor.
        unsafe {
            let made = check(libc::syscall(libc::SYS_mq_open, name.as_ptr(), flags, 0, 0))?;
            Ok(Self { queue: OwnedFd::from_raw_fd(made as i32) })
        }
    }

    /// Removes the name (without the slash) of a queue.
    ///
    /// # Errors
    /// When there is none, or it is another user's.
    pub fn unlink(name: &CStr) -> io::Result<()> {
        // SAFETY: the name is live.
        check(unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) }).map(drop)
    }
}

fn receive(queue: i32, into: &mut [u8]) -> io::Result<Taken> {
    let mut priority = 0;
    // SAFETY: both are live, and `into` has the length passed.
    let got = unsafe { libc::mq_receive(queue, into.as_mut_ptr().cast(), into.len(), &raw mut priority) };
    check(got as i64).map(|bytes| Taken { priority, bytes: bytes as usize })
}

fn send(queue: i32, priority: u32, text: &[u8]) -> io::Result<()> {
    // SAFETY: `text` is live, and has the length passed.
    check(unsafe { libc::mq_send(queue, text.as_ptr().cast(), text.len(), priority) }.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;

    /// Makes a queue without a name.
    fn queue() -> OpenPosixQueue {
        let name = std::ffi::CString::new(format!("standfast-test-{}", std::process::id())).unwrap();
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NONBLOCK;
        // SAFETY: all zeros is a value; name and attributes are live, and nothing else owns the descriptor.
        let made = unsafe {
            let mut attributes: libc::mq_attr = std::mem::zeroed();
            (attributes.mq_maxmsg, attributes.mq_msgsize) = (5, 100);
            OwnedFd::from_raw_fd(
                libc::syscall(libc::SYS_mq_open, name.as_ptr(), flags, 0o600, &raw mut attributes) as i32
            )
        };
        assert!(OpenPosixQueue::named(&name).is_ok());
        OpenPosixQueue::unlink(&name).unwrap();
        OpenPosixQueue::behind(made.as_fd()).unwrap()
    }

    #[test]
    fn scanning_messages_keeps_their_order() {
        let queue = queue();
        assert_eq!(queue.messages().unwrap(), []);
        for (priority, text) in [(1, &b"low"[..]), (7, b"first"), (7, b""), (1, b"last"), (7, &[1; 100])] {
            queue.send(priority, text).unwrap();
        }
        let expected =
            [(7, b"first".to_vec()), (7, vec![]), (7, vec![1; 100]), (1, b"low".to_vec()), (1, b"last".to_vec())];
        assert_eq!(queue.messages().unwrap(), expected);
        assert_eq!(queue.messages().unwrap(), expected);
        assert_eq!(queue.limits().unwrap(), QueueLimits { messages_max: 5, bytes_max: 100 });
        assert!(!queue.notifies().unwrap());
    }
}
