//! The free parts of a buffer. Allocations use the smallest hole that fits, so that short pieces leave the large holes
//! to pages.

use std::collections::BTreeMap;

/// The holes of a buffer, no two of which adjoin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Lengths of the holes by offset.
    holes: BTreeMap<usize, usize>,
    bytes: usize,
}

impl Room {
    /// Creates a buffer that is one hole.
    pub(super) fn new(bytes: usize) -> Self {
        let holes = BTreeMap::from_iter((bytes > 0).then_some((0, bytes)));
        Self { holes, bytes }
    }

    /// Returns the number of allocated bytes.
    pub(super) fn used(&self) -> usize {
        self.bytes - self.holes.values().sum::<usize>()
    }

    /// Allocates this many adjoining bytes, if possible, and returns their offset.
    pub(super) fn take(&mut self, bytes: usize) -> Option<usize> {
        let fitting = self.holes.iter().filter(|(_, length)| **length >= bytes);
        let (at, length) = fitting.min_by_key(|(_, length)| **length).map(|(at, length)| (*at, *length))?;
        self.holes.remove(&at);
        if length > bytes {
            self.holes.insert(at + bytes, length - bytes);
        }
        Some(at)
    }

    /// Frees allocated bytes.
    pub(super) fn give_back(&mut self, at: usize, bytes: usize) {
        let (mut start, mut end) = (at, at + bytes);
        if let Some((before, length)) = self.holes.range(..at).next_back().map(|(at, length)| (*at, *length)) {
            assert!(before + length <= start, "what is given back was taken");
            if before + length == start {
                self.holes.remove(&before);
                start = before;
            }
        }
        if let Some(length) = self.holes.remove(&end) {
            end += length;
        }
        self.holes.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_takes_the_best_fit_and_free_neighbours_merge() {
        let mut room = Room::new(100);
        let all: Vec<_> = [10, 20, 10, 60].map(|bytes| room.take(bytes).unwrap()).to_vec();
        assert_eq!((all, room.used(), room.take(1)), (vec![0, 10, 30, 40], 100, None));
        room.give_back(40, 60);
        room.give_back(10, 20);
        assert_eq!(room.take(15), Some(10), "the smaller of two");
        room.give_back(0, 10);
        assert_eq!(room.take(30), Some(40), "two holes of ten are not one");
        room.give_back(10, 15);
        room.give_back(30, 10);
        room.give_back(40, 30);
        assert_eq!(room, Room::new(100));
        assert_eq!(Room::new(0).take(1), None);
    }
}
