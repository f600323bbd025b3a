//! What carries messages between the processes of a job: the application's own message passing, or threads in a test.

use standfast_group::Buffers;

/// Messages of bytes between numbered processes. Nothing here waits, except [`Transport::idle`], for a moment.
///
/// Messages from one process to another arrive whole, once and in the order in which they were sent.
pub trait Transport {
    /// The number of this process, from 0.
    fn rank(&self) -> u32;

    /// How many there are.
    fn ranks(&self) -> u32;

    /// Sends, now or as soon as it can be done.
    ///
    /// # Errors
    /// Where the transport has failed: nothing more can be expected of it.
    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<(), TransportError>;

    /// A message that has come, and from whom.
    ///
    /// # Errors
    /// As above.
    fn receive(&mut self) -> Result<Option<(u32, Vec<u8>)>, TransportError>;

    /// Where buffers for messages come from and go to: what has been sent is used again for what is sent or received next.
    fn buffers(&self) -> Buffers {
        Buffers::default()
    }

    /// No message is asked for until the next call of [`Transport::receive`]: the program goes on, or ends.
    ///
    /// # Errors
    /// As above.
    fn pause(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    /// There is nothing to do until something comes: rest a moment, so that others on this processor get on.
    fn idle(&mut self, patience: Patience);
}

/// How long a moment may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// An answer is waited for, and all wait for the slowest: short.
    Answer,
    /// Much is on its way, and whoever waits is in the way of those who work: longer.
    Bulk,
}

/// The transport has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("messages can no longer be sent or received: {0}")]
pub struct TransportError(pub String);
