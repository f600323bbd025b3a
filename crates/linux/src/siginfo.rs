//! A pending signal as the kernel keeps it.

/// A `siginfo_t`: 128 bytes, the first word of which is the signal's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalInformation(pub [u8; 128]);

/// Where the code stands: why the signal was sent.
const CODE: usize = 8;
/// Where the id of a timer stands, in a signal that a timer sent.
const TIMER: usize = 16;

impl SignalInformation {
    /// The signal's number.
    pub fn signal(&self) -> i32 {
        self.word(0)
    }

    /// The timer that sent it, if one made with timer_create(2) did.
    pub fn timer(&self) -> Option<i32> {
        (self.word(CODE) == libc::SI_TIMER).then(|| self.word(TIMER))
    }

    fn word(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }
}
