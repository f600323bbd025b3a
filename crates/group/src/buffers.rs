//! Buffers that are used again: fresh memory costs more than what is done with it. A process and its transport share them:
//! what has been sent is what the next sum is made in, and what has been used up is what the next message is received in.

use std::sync::{Arc, Mutex, PoisonError};

/// What a buffer of pages is made larger by, so that it need not move to become a message: foot, body with the syndromes of
/// seven sums, and what a driver adds.
const ROOM_BYTES: usize = 4096;
/// Sizes are rounded up to this: a sum and the message with it fit the same buffers.
const GRANULE_BYTES: usize = 16 << 10;
/// Smaller ones are not worth keeping.
const KEPT_BYTES_MIN: usize = GRANULE_BYTES;
/// All that are kept together: those of a window on their way in and out.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Buffers that nobody needs at the moment. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// Those that were used last are behind.
    buffers: Vec<Vec<u8>>,
    /// What they take together.
    bytes: usize,
}

impl Buffers {
    /// So many bytes that are about to be overwritten: they may hold anything.
    pub fn take(&self, length: usize) -> Vec<u8> {
        let mut bytes = self.with_room(length);
        bytes.resize(length, 0);
        if cfg!(debug_assertions) {
            bytes.fill(0xa5);
        }
        bytes
    }

    /// None yet, with room for so many.
    pub(crate) fn empty(&self, length: usize) -> Vec<u8> {
        let mut bytes = self.with_room(length);
        bytes.clear();
        bytes
    }

    /// One that nobody needs any more.
    pub fn put(&self, bytes: Vec<u8>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.capacity() >= KEPT_BYTES_MIN && kept.bytes + bytes.capacity() <= KEPT_BYTES_MAX {
            kept.bytes += bytes.capacity();
            kept.buffers.push(bytes);
        }
    }

    fn with_room(&self, length: usize) -> Vec<u8> {
        let wanted = length + ROOM_BYTES;
        if wanted < KEPT_BYTES_MIN {
            return Vec::with_capacity(wanted);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Of equals the one that was used last: it may still be in the processor's cache.
        let fits = || kept.buffers.iter().enumerate().rev().filter(|(_, it)| it.capacity() >= wanted);
        // What is longer already need not be filled; of these the shortest, so that what is short does not take what others
        // need. Mostly all have one length.
        let filled = || fits().filter(|(_, it)| it.len() + ROOM_BYTES >= wanted);
        let tight = filled().find(|(_, it)| it.len() <= wanted);
        let found = tight.or_else(|| filled().min_by_key(|(_, it)| it.len())).or_else(|| fits().next());
        let Some(at) = found.map(|(at, _)| at) else {
            return Vec::with_capacity(wanted.next_multiple_of(GRANULE_BYTES));
        };
        let found = kept.buffers.remove(at);
        kept.bytes -= found.capacity();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_been_a_message_is_used_for_the_next_sum() {
        let (buffers, sum) = (Buffers::default(), 256 << 10);
        let mut message = buffers.clone().take(sum + 300);
        message.fill(7);
        let place = message.as_ptr();
        buffers.put(message);
        let next = buffers.take(sum);
        assert_eq!((next.as_ptr(), next.len()), (place, sum));
        let other = buffers.take(sum);
        assert_ne!(other.as_ptr(), place, "it is in use");
        buffers.put(next);
        let message = buffers.take(sum + 300);
        assert_eq!(message.as_ptr(), place);
    }

    #[test]
    fn short_ones_and_more_than_a_window_needs_are_given_back() {
        let buffers = Buffers::default();
        buffers.put(Vec::with_capacity(KEPT_BYTES_MIN - 1));
        assert!(buffers.0.lock().unwrap().buffers.is_empty());
        (0..20).for_each(|_| buffers.put(Vec::with_capacity(1 << 20)));
        let kept = buffers.0.lock().unwrap();
        let together = kept.buffers.iter().map(Vec::capacity).sum::<usize>();
        assert!(together == kept.bytes && together <= KEPT_BYTES_MAX && kept.buffers.len() > 3);
    }
}
