//! The carrier of messages between the processes of a job: the application's own message passing, or threads in a test.

use standfast_group::Buffers;

/// Messages of bytes between numbered processes. No function waits, except [`Transport::idle`], for a moment.
///
/// Messages from one process to another arrive complete, once, and in the order in which they were sent.
pub trait Transport {
    /// Returns the number of this process, from 0.
    fn rank(&self) -> u32;

    /// Returns the number of processes.
    fn ranks(&self) -> u32;

    /// Sends a message, now or as soon as possible.
    ///
    /// # Errors
    /// If the transport has failed; it cannot be used any more.
    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<(), TransportError>;

    /// Returns a message that has arrived, and its sender.
    ///
    /// # Errors
    /// As above.
    fn receive(&mut self) -> Result<Option<(u32, Vec<u8>)>, TransportError>;

    /// Returns the pool of message buffers: a buffer that was sent is used again for sending or receiving.
    fn buffers(&self) -> Buffers {
        Buffers::default()
    }

    /// Stops requesting messages until the next call of [`Transport::receive`]: the program continues, or ends.
    ///
    /// # Errors
    /// As above.
    fn pause(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    /// Rests a moment, when there is nothing to do until a message arrives, so that others on this processor can run.
    fn idle(&mut self, patience: Patience);
}

/// How long a rest may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// All processes wait for an answer from the slowest: short.
    Answer,
    /// Much data is on its way, and a waiting process hinders those that work: longer.
    Bulk,
}

/// The transport has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("messages can no longer be sent or received: {0}")]
pub struct TransportError(pub String);
