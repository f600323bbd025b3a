//! A pending signal as the kernel keeps it.

/// A `siginfo_t`: 128 bytes, the first word of which is the signal's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalInformation(pub [u8; 128]);

impl SignalInformation {
    /// The signal's number.
    pub fn signal(&self) -> i32 {
        i32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }
}
