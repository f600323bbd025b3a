//! A pool of buffers, because fresh memory costs more than the work done in it. A process and its transport share the
//! pool: the next sum is made in a buffer that was sent, and the next message is received in a buffer that was used up.

use std::sync::{Arc, Mutex, PoisonError};

/// Extra capacity of a page buffer, so that it need not move to become a message: foot, body with the syndromes of seven
/// sums, and what a driver adds.
const ROOM_BYTES: usize = 4096;
/// Unit to which sizes are rounded up: a sum and the message that carries it fit the same buffers.
const GRANULE_BYTES: usize = 16 << 10;
/// Smallest capacity worth keeping.
const KEPT_BYTES_MIN: usize = GRANULE_BYTES;
/// Most bytes that the pool keeps: the buffers of a window on their way in and out.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Unused buffers. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// The buffers; the most recently used ones are at the end.
    buffers: Vec<Vec<u8>>,
    /// Sum of their capacities.
    bytes: usize,
}

impl Buffers {
    /// Returns a buffer of `length` bytes with arbitrary content, which the caller overwrites.
    pub fn take(&self, length: usize) -> Vec<u8> {
        let mut bytes = self.with_room(length);
        bytes.resize(length, 0);
        if cfg!(debug_assertions) {
            bytes.fill(0xa5);
        }
        bytes
    }

    /// Returns an empty buffer with room for `length` bytes.
    pub(crate) fn empty(&self, length: usize) -> Vec<u8> {
        let mut bytes = self.with_room(length);
        bytes.clear();
        bytes
    }

    /// Takes back a buffer that is no longer needed.
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
        // Of equally good buffers, prefer the most recently used: it may still be in the processor's cache.
        let fits = || kept.buffers.iter().enumerate().rev().filter(|(_, it)| it.capacity() >= wanted);
        // A buffer that is long enough already need not be filled. Take the shortest of these, and leave the longer ones
        // to those who need them. Mostly all have the same length.
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
    fn a_message_buffer_is_reused_for_the_next_sum() {
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
    fn short_and_excess_buffers_are_freed() {
        let buffers = Buffers::default();
        buffers.put(Vec::with_capacity(KEPT_BYTES_MIN - 1));
        assert!(buffers.0.lock().unwrap().buffers.is_empty());
        (0..20).for_each(|_| buffers.put(Vec::with_capacity(1 << 20)));
        let kept = buffers.0.lock().unwrap();
        let together = kept.buffers.iter().map(Vec::capacity).sum::<usize>();
        assert!(together == kept.bytes && together <= KEPT_BYTES_MAX && kept.buffers.len() > 3);
    }
}
