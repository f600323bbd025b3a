//! Open files: their pending data, readiness and flags.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names.

use super::check;
use crate::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `FIONREAD`: returns how many bytes can be read.
pub fn unread_bytes(file: BorrowedFd<'_>) -> io::Result<usize> {
    Ok(rustix::io::ioctl_fionread(file)? as usize)
}

/// poll(2) without waiting: returns those of the `asked` events that are ready; errors and hang-ups always count.
pub fn ready_events(file: BorrowedFd<'_>, asked: i16) -> io::Result<i16> {
    let mut polled = [PollFd::from_borrowed_fd(file, PollFlags::from_bits_retain(asked as u16))];
    poll(&mut polled, Some(&Timespec::default()))?;
    Ok(polled[0].revents().bits() as i16)
}

/// `F_GETFL` and `F_SETFL`: makes calls on an open file either block or fail instead. Returns whether they blocked
/// before.
pub fn set_waiting(file: BorrowedFd<'_>, waits: bool) -> io::Result<bool> {
    let flags = fcntl_getfl(file)?;
    let waited = !flags.contains(OFlags::NONBLOCK);
    if waits != waited {
        fcntl_setfl(file, flags ^ OFlags::NONBLOCK)?;
    }
    Ok(waited)
}

/// timerfd_gettime(2): returns the nanoseconds until it next expires. It also makes the kernel count the expirations of
/// an interval timer that have passed, as a read would.
pub fn timer_remaining(timer: BorrowedFd<'_>) -> io::Result<u64> {
    let left = rustix::time::timerfd_gettime(timer)?.it_value;
    Ok(left.tv_sec as u64 * 1_000_000_000 + left.tv_nsec as u64)
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
