//! Frames whose content was found to be what was written, from a survey until the end of its recovery: each is checked
//! once.

use std::cell::Cell;

/// One bit for each frame, set when the frame is verified. Empty outside a recovery.
#[derive(Debug, Default)]
pub(super) struct Verified(Vec<Cell<u64>>);

impl Verified {
    /// Creates an empty set for this many frames.
    pub(super) fn none_of(frames: u32) -> Self {
        Self(vec![Cell::new(0); frames.div_ceil(u64::BITS) as usize])
    }

    pub(super) fn note(&self, frame: u32) {
        self.change(frame, |bits, bit| bits | bit);
    }

    pub(super) fn forget(&self, frame: u32) {
        self.change(frame, |bits, bit| bits & !bit);
    }

    pub(super) fn has(&self, frame: u32) -> bool {
        self.0.get((frame / u64::BITS) as usize).is_some_and(|bits| bits.get() >> (frame % u64::BITS) & 1 == 1)
    }

    fn change(&self, frame: u32, with: impl Fn(u64, u64) -> u64) {
        if let Some(bits) = self.0.get((frame / u64::BITS) as usize) {
            bits.set(with(bits.get(), 1 << (frame % u64::BITS)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_counts_as_verified_until_it_is_forgotten() {
        let verified = Verified::none_of(65);
        [0, 63, 64].into_iter().for_each(|frame| verified.note(frame));
        verified.forget(63);
        assert_eq!([0, 1, 63, 64].map(|frame| verified.has(frame)), [true, false, false, true]);
        verified.note(128);
        assert!(!verified.has(128), "who was not there at the survey is looked at each time");
        let none = Verified::default();
        none.note(0);
        assert!(!none.has(0));
    }
}
