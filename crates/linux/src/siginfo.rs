//! A pending signal as the kernel keeps it.

/// A `siginfo_t`: 128 bytes, whose first word is the signal's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalInformation(pub [u8; 128]);

/// Offset of the code, the reason why the signal was sent.
const CODE: usize = 8;
/// Offset of the id of a timer, in a signal that a timer sent.
const TIMER: usize = 16;

impl SignalInformation {
    /// Returns the signal's number.
    pub fn signal(&self) -> i32 {
        self.word(0)
    }

    /// Returns the timer that sent the signal, if it was one made with timer_create(2).
    pub fn timer(&self) -> Option<i32> {
        (self.word(CODE) == libc::SI_TIMER).then(|| self.word(TIMER))
    }

    /// Reports whether a timer of any kind sent the signal.
    pub fn is_of_timer(&self) -> bool {
        let is_of_interval = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF].contains(&self.signal());
        self.timer().is_some() || self.word(CODE) == libc::SI_KERNEL && is_of_interval
    }

    fn word(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }
}
