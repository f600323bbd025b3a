//! Records of signals: the program's disposition for each, and the pending ones.

use super::Bytes;
use minicbor::{Decode, Encode};

/// The program's disposition for one signal, if it is not the default.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// Signal number, 1 to 64.
    #[n(0)]
    pub signal: u8,
    /// Address of the handler; 0 is default, 1 is ignore.
    #[n(1)]
    pub handler: u64,
    /// SA_ flags.
    #[n(2)]
    pub flags: u64,
    /// Address of the code that returns from the handler.
    #[n(3)]
    pub restorer: u64,
    /// Signals blocked while the handler runs; bit n - 1 is signal n.
    #[n(4)]
    pub mask: u64,
}

/// A signal that was sent but not yet delivered.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct PendingSignal {
    /// Signal number.
    #[n(0)]
    pub signal: u8,
    /// The kernel's `siginfo_t`, 128 bytes in the layout of the image's architecture.
    #[n(1)]
    pub information: Bytes,
}
