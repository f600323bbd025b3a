//! Pseudo-terminals: queries and settings by ioctl(2).
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names.

use super::check;
use rustix::pty::OpenptFlags;
use rustix::termios::{Action, Winsize, tcflow, tcgetwinsize, tcsetwinsize};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const TIOCGPTN: u64 = 0x8004_5430;
const TIOCSPTLCK: u64 = 0x4004_5431;
const TIOCGDEV: u64 = 0x8004_5432;
const TIOCGPKT: u64 = 0x8004_5438;
const TIOCGPTLCK: u64 = 0x8004_5439;
const TIOCGEXCL: u64 = 0x8004_5440;
const TCGETS2: u64 = 0x802c_542a;
const TCSETS2: u64 = 0x402c_542b;

/// `struct termios2` of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Termios {
    /// `c_iflag`.
    pub input: u32,
    /// `c_oflag`.
    pub output: u32,
    /// `c_cflag`.
    pub control: u32,
    /// `c_lflag`.
    pub local: u32,
    /// `c_line`.
    pub line: u8,
    /// `c_cc`.
    pub characters: [u8; 19],
    /// Bits per second.
    pub input_speed: u32,
    /// Bits per second.
    pub output_speed: u32,
}

/// Makes an ioctl that returns a number through a pointer.
fn ask(terminal: BorrowedFd<'_>, request: u64) -> io::Result<i32> {
    let mut number = 0i32;
    // SAFETY: `number` is live, and all requests made here write one word.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), request, &raw mut number) }.into())?;
    Ok(number)
}

/// Makes an ioctl that takes the address of a number.
fn set(terminal: BorrowedFd<'_>, request: u64, number: i32) -> io::Result<()> {
    // SAFETY: `number` is live, and all requests made here read one word.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), request, &raw const number) }.into()).map(drop)
}

/// `TIOCGPTN`: returns the number of a master's slave.
pub fn number(master: BorrowedFd<'_>) -> io::Result<u32> {
    ask(master, TIOCGPTN).map(|number| number as u32)
}

/// `TIOCGDEV`: returns the device number of the terminal of a descriptor, with `/dev/tty` resolved, as the kernel packs
/// it.
pub fn device(terminal: BorrowedFd<'_>) -> io::Result<u32> {
    ask(terminal, TIOCGDEV).map(|number| number as u32)
}

/// `TIOCGPTLCK`: reports whether the slave is locked and cannot be opened.
pub fn is_locked(master: BorrowedFd<'_>) -> io::Result<bool> {
    ask(master, TIOCGPTLCK).map(|locked| locked != 0)
}

/// `TIOCSPTLCK`.
pub fn set_locked(master: BorrowedFd<'_>, locked: bool) -> io::Result<()> {
    set(master, TIOCSPTLCK, locked.into())
}

/// `TIOCGPKT`: reports whether reads of the master also report changes made to the slave.
pub fn tells_packets(master: BorrowedFd<'_>) -> io::Result<bool> {
    ask(master, TIOCGPKT).map(|packets| packets != 0)
}

/// `TIOCPKT`.
pub fn set_packets(master: BorrowedFd<'_>, packets: bool) -> io::Result<()> {
    set(master, libc::TIOCPKT, packets.into())
}

/// `TIOCGEXCL`: reports whether this side may not be opened again.
pub fn is_exclusive(side: BorrowedFd<'_>) -> io::Result<bool> {
    ask(side, TIOCGEXCL).map(|exclusive| exclusive != 0)
}

/// `TIOCEXCL`.
pub fn set_exclusive(side: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::termios::ioctl_tiocexcl(side)?)
}

/// `TIOCGETD`: returns the line discipline; 0 is the ordinary one.
pub fn line_discipline(terminal: BorrowedFd<'_>) -> io::Result<i32> {
    ask(terminal, libc::TIOCGETD)
}

/// `TIOCGSID`: returns the session that a master's slave controls, as we see it, or `None` if it controls none.
pub fn session(master: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    none_if_not_one(ask(master, libc::TIOCGSID))
}

/// `TIOCGPGRP`: returns the foreground process group of a master's slave, as we see it.
pub fn foreground(master: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    none_if_not_one(ask(master, libc::TIOCGPGRP)).map(|group| group.filter(|group| *group > 0))
}

fn none_if_not_one(answer: io::Result<i32>) -> io::Result<Option<i32>> {
    match answer {
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => Ok(None),
        other => other.map(Some),
    }
}

/// `TCGETS2`; for a master, returns the settings of its slave.
pub fn settings(terminal: BorrowedFd<'_>) -> io::Result<Termios> {
    let mut settings = Termios::default();
    // SAFETY: `settings` is live and has the kernel's layout.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), TCGETS2, &raw mut settings) }.into())?;
    Ok(settings)
}

/// `TCSETS2`: takes effect at once, and keeps the content of the queues.
pub fn set_settings(terminal: BorrowedFd<'_>, settings: &Termios) -> io::Result<()> {
    // SAFETY: `settings` is live and has the kernel's layout.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), TCSETS2, std::ptr::from_ref(settings)) }.into()).map(drop)
}

/// `TIOCGWINSZ`: returns rows, columns, width and height in pixels.
pub fn window(terminal: BorrowedFd<'_>) -> io::Result<[u16; 4]> {
    let Winsize { ws_row, ws_col, ws_xpixel, ws_ypixel } = tcgetwinsize(terminal)?;
    Ok([ws_row, ws_col, ws_xpixel, ws_ypixel])
}

/// `TIOCSWINSZ`: the foreground gets a signal if the size changes.
pub fn set_window(terminal: BorrowedFd<'_>, size: [u16; 4]) -> io::Result<()> {
    let [ws_row, ws_col, ws_xpixel, ws_ypixel] = size;
    Ok(tcsetwinsize(terminal, Winsize { ws_row, ws_col, ws_xpixel, ws_ypixel })?)
}

/// tcflow(3) with `TCOOFF`: suspends output.
pub fn suspend_output(terminal: BorrowedFd<'_>) -> io::Result<()> {
    Ok(tcflow(terminal, Action::OOff)?)
}

/// tcflow(3) with `TCOON`: resumes output.
pub fn resume_output(terminal: BorrowedFd<'_>) -> io::Result<()> {
    Ok(tcflow(terminal, Action::OOn)?)
}

/// `TIOCGPTPEER`: opens the slave of a master for reading and writing, wherever its file system is mounted. The slave
/// is closed on exec and does not become our controlling terminal.
pub fn open_slave(master: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let plain = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let flags = plain | OpenptFlags::from_bits_retain(libc::O_NONBLOCK as u32);
    Ok(rustix::pty::ioctl_tiocgptpeer(master, flags)?)
}
