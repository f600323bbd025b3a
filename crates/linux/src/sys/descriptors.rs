//! Open files: their pending data, readiness and flags.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names.

use super::check;
use crate::Pid;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `FIONREAD`: returns how many bytes can be read.
pub fn unread_bytes(file: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes = 0i32;
    // SAFETY: `bytes` is live.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::FIONREAD, &raw mut bytes) }.into())?;
    Ok(bytes as usize)
}

/// poll(2) without waiting: returns those of the `asked` events that are ready; errors and hang-ups always count.
pub fn ready_events(file: BorrowedFd<'_>, asked: i16) -> io::Result<i16> {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: asked, revents: 0 };
    // SAFETY: one live pollfd.
    check(unsafe { libc::poll(&raw mut poll, 1, 0) }.into())?;
    Ok(poll.revents)
}

/// `F_GETFL` and `F_SETFL`: makes calls on an open file either block or fail instead. Returns whether they blocked
/// before.
pub fn set_waiting(file: BorrowedFd<'_>, waits: bool) -> io::Result<bool> {
    // SAFETY: plain numbers.
    unsafe {
        let flags = check(libc::fcntl(file.as_raw_fd(), libc::F_GETFL).into())? as i32;
        let wanted = if waits { flags & !libc::O_NONBLOCK } else { flags | libc::O_NONBLOCK };
        if wanted != flags {
            check(libc::fcntl(file.as_raw_fd(), libc::F_SETFL, wanted).into())?;
        }
        Ok(flags & libc::O_NONBLOCK == 0)
    }
}

/// timerfd_gettime(2): returns the nanoseconds until it next expires. It also makes the kernel count the expirations of
/// an interval timer that have passed, as a read would.
pub fn timer_remaining(timer: BorrowedFd<'_>) -> io::Result<u64> {
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut now = libc::itimerspec { it_interval: zero, it_value: zero };
    // SAFETY: `now` is live.
    check(unsafe { libc::timerfd_gettime(timer.as_raw_fd(), &raw mut now) }.into())?;
    Ok(now.it_value.tv_sec as u64 * 1_000_000_000 + now.it_value.tv_nsec as u64)
}

/// `F_GETOWN_EX`: returns the recipient of signals from an open file, as kind (`F_OWNER_TID` and the like) and id; 0 if
/// there is none.
pub fn signal_target(file: BorrowedFd<'_>) -> io::Result<(i32, i32)> {
    const F_GETOWN_EX: i32 = 16;
    let mut owner = [0i32; 2];
    // SAFETY: struct f_owner_ex is two words, and `owner` is live.
    check(unsafe { libc::fcntl(file.as_raw_fd(), F_GETOWN_EX, owner.as_mut_ptr()) }.into())?;
    Ok((owner[0], owner[1]))
}

/// `F_GETSIG`: returns the signal that is sent.
pub fn signal_number(file: BorrowedFd<'_>) -> io::Result<i32> {
    const F_GETSIG: i32 = 11;
    // SAFETY: plain numbers.
    check(unsafe { libc::fcntl(file.as_raw_fd(), F_GETSIG) }.into()).map(|signal| signal as i32)
}

/// A descriptor of some process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldDescriptor {
    /// The process that holds it.
    pub pid: Pid,
    /// Its number there.
    pub number: i32,
}

/// One entry of an epoll instance, as kcmp(2) identifies it.
#[derive(Debug, Clone, Copy)]
pub struct EpollEntry {
    /// The instance.
    pub instance: HeldDescriptor,
    /// The number under which the entry was added.
    pub added_as: i32,
    /// Index among the entries of that number.
    pub place: u32,
}

/// kcmp(2) with `KCMP_EPOLL_TFD`: reports whether an entry of an epoll instance watches this descriptor's open file.
pub fn is_watched(descriptor: HeldDescriptor, entry: EpollEntry) -> io::Result<bool> {
    const KCMP_EPOLL_TFD: i32 = 7;
    // struct kcmp_epoll_slot: instance, number, place.
    let slot = [entry.instance.number as u32, entry.added_as as u32, entry.place];
    let order = unsafe {
        // SAFETY: `slot` is live and has the three words that the call reads.
        let (number, slot) = (descriptor.number as libc::c_long, slot.as_ptr());
        libc::syscall(libc::SYS_kcmp, descriptor.pid.get(), entry.instance.pid.get(), KCMP_EPOLL_TFD, number, slot)
    };
    check(order).map(|order| order == 0)
}
