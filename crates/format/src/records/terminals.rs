//! Records of pseudo-terminals whose two sides lie within the job, or whose master is held for it: settings, who uses it, and what is in flight.

use super::Bytes;
use minicbor::{Decode, Encode};

/// One pseudo-terminal.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct PseudoTerminal {
    /// Its number: the slave is `/dev/pts/NUMBER`.
    #[n(0)]
    pub number: u32,
    /// Settings of the slave.
    #[n(1)]
    pub settings: TerminalSettings,
    /// Size of the window.
    #[n(2)]
    pub size: WindowSize,
    /// Whether the slave may not be opened yet (`unlockpt(3)`).
    #[n(3)]
    pub locked: bool,
    /// Whether each read of the master tells what has been done to the slave first (`TIOCPKT`).
    #[n(4)]
    pub packets: bool,
    /// Whether the slave may not be opened once more (`TIOCEXCL`).
    #[n(5)]
    pub exclusive: bool,
    /// Whether nobody has the slave open any more: the master is told so.
    #[n(6)]
    pub deserted: bool,
    /// What holds output back.
    #[n(7)]
    pub output_stop: Option<OutputStop>,
    /// The session whose controlling terminal it is.
    #[n(8)]
    pub controls: Option<TerminalControl>,
    /// What has been typed and not yet read, as a single read would take it each; without lines, all of it in one piece.
    #[n(9)]
    pub input: Vec<Bytes>,
    /// What has been typed of a line that has not been ended.
    #[n(10)]
    pub unfinished: Bytes,
    /// What has been written to the slave and not yet read from the master.
    #[n(11)]
    pub output: Bytes,
    /// Whether its master is held outside the job, by somebody who relays between it and a user.
    #[n(12)]
    pub held: bool,
}

/// Settings of a terminal: `termios(3)`, as the kernel numbers the bits.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct TerminalSettings {
    /// `c_iflag`.
    #[n(0)]
    pub input: u32,
    /// `c_oflag`.
    #[n(1)]
    pub output: u32,
    /// `c_cflag`.
    #[n(2)]
    pub control: u32,
    /// `c_lflag`.
    #[n(3)]
    pub local: u32,
    /// `c_line`.
    #[n(4)]
    pub line: u8,
    /// `c_cc`: 19 characters.
    #[n(5)]
    pub characters: Bytes,
    /// Speed of input in bits a second.
    #[n(6)]
    pub input_speed: u32,
    /// Speed of output in bits a second.
    #[n(7)]
    pub output_speed: u32,
}

/// Size of a terminal's window: `struct winsize`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WindowSize {
    /// Rows of characters.
    #[n(0)]
    pub rows: u16,
    /// Characters in a row.
    #[n(1)]
    pub columns: u16,
    /// Width in pixels.
    #[n(2)]
    pub width: u16,
    /// Height in pixels.
    #[n(3)]
    pub height: u16,
}

/// What holds the output of a terminal back.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum OutputStop {
    /// A program: `tcflow(3)`.
    #[n(0)]
    Call,
    /// A key: Ctrl-S.
    #[n(1)]
    Key,
}

/// Who is controlled by a terminal.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalControl {
    /// The session, by the id that the program sees.
    #[n(0)]
    pub session: i32,
    /// The process group in the foreground, likewise; 0 for one of which nobody is left.
    #[n(1)]
    pub foreground: i32,
}
