//! Records of pseudo-terminals with both sides within the job, or whose master the terminal holder keeps for it: their
//! settings, users and data in flight.

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
    /// Whether the slave is still locked against opening (`unlockpt(3)`).
    #[n(3)]
    pub locked: bool,
    /// Whether each read of the master first returns a status byte about the slave (`TIOCPKT`).
    #[n(4)]
    pub packets: bool,
    /// Whether the slave cannot be opened again (`TIOCEXCL`).
    #[n(5)]
    pub exclusive: bool,
    /// Whether nobody has the slave open any more, which the master can see.
    #[n(6)]
    pub deserted: bool,
    /// The cause that holds output back, if any.
    #[n(7)]
    pub output_stop: Option<OutputStop>,
    /// The session whose controlling terminal it is.
    #[n(8)]
    pub controls: Option<TerminalControl>,
    /// Typed input not yet read, split as single reads would return it. Without line mode, it is all in one piece.
    #[n(9)]
    pub input: Vec<Bytes>,
    /// Typed input of a line that is not yet complete.
    #[n(10)]
    pub unfinished: Bytes,
    /// Output written to the slave and not yet read from the master.
    #[n(11)]
    pub output: Bytes,
    /// Whether its master is held outside the job, by a process that relays between it and a user.
    #[n(12)]
    pub held: bool,
    /// Permissions of the slave's node, which decide whether others may write to it (`mesg n`). Absent if unknown.
    #[n(13)]
    pub mode: Option<u32>,
    /// Whether `TIOCEXCL` was called on its master, which only `TIOCGEXCL` shows. Absent if not.
    #[n(14)]
    pub master_exclusive: Option<bool>,
    /// Echo of typed input that waits until held back output goes on, before it is processed as output. Absent if none.
    #[n(15)]
    pub echo: Option<Bytes>,
}

/// Settings of a terminal: `termios(3)`, with the kernel's bit numbers.
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
    /// Input speed in bits per second.
    #[n(6)]
    pub input_speed: u32,
    /// Output speed in bits per second.
    #[n(7)]
    pub output_speed: u32,
}

/// Size of a terminal's window: `struct winsize`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WindowSize {
    /// Rows of characters.
    #[n(0)]
    pub rows: u16,
    /// Characters per row.
    #[n(1)]
    pub columns: u16,
    /// Width in pixels.
    #[n(2)]
    pub width: u16,
    /// Height in pixels.
    #[n(3)]
    pub height: u16,
}

/// The cause that holds the output of a terminal back.
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

/// The processes that a terminal controls.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalControl {
    /// Id of the session, as the program sees it.
    #[n(0)]
    pub session: i32,
    /// Id of the foreground process group, as the program sees it; 0 if the group has no members left.
    #[n(1)]
    pub foreground: i32,
}
