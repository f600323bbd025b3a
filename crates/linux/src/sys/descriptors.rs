//! Open files: their pending data, readiness and flags.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names.

use super::check;
use crate::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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

/// `F_SETFL`: has an open file send signals when it is ready (O_ASYNC), or not. The kernel chooses a receiver if it has none.
pub fn set_signalling(file: BorrowedFd<'_>, sends: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::from_bits_retain(libc::O_ASYNC.cast_unsigned()), sends);
    Ok(fcntl_setfl(file, flags)?)
}

/// timerfd_gettime(2): returns the nanoseconds until it next expires. It also makes the kernel count the expirations of
/// an interval timer that have passed, as a read would.
pub fn timer_remaining(timer: BorrowedFd<'_>) -> io::Result<u64> {
    let left = rustix::time::timerfd_gettime(timer)?.it_value;
    Ok(left.tv_sec as u64 * 1_000_000_000 + left.tv_nsec as u64)
}

/// `F_DUPFD_CLOEXEC`: returns a copy of a descriptor of this process.
pub fn duplicate(number: i32) -> io::Result<OwnedFd> {
    // Through libc, since rustix borrows a descriptor, and this number may be that of none.
    // SAFETY: plain numbers; nothing else owns the new descriptor.
    unsafe {
        let made = check(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0).into())?;
        Ok(OwnedFd::from_raw_fd(made as i32))
    }
}

/// Reports whether two descriptors of this process share an open file description, where kcmp(2) is forbidden: changes
/// a flag by way of one of them, looks at it by way of the other, and changes it back. The flag means nothing for the
/// kind of file: O_NONBLOCK for regular files and directories, O_APPEND for all others.
pub fn share_flags(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> io::Result<bool> {
    let before = fcntl_getfl(one)?;
    // A place in the file system has no state that could be shared, and its flags cannot be changed.
    if fcntl_getfl(other)? != before || before.contains(OFlags::PATH) {
        return Ok(false);
    }
    let kind = FileType::from_raw_mode(fstat(one)?.st_mode);
    let is_stored = matches!(kind, FileType::RegularFile | FileType::Directory);
    fcntl_setfl(one, before ^ if is_stored { OFlags::NONBLOCK } else { OFlags::APPEND })?;
    let seen = fcntl_getfl(other);
    fcntl_setfl(one, before)?;
    Ok(seen? != before)
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

/// `F_SETOWN`: has an open file send its signals to nobody.
pub fn clear_signal_target(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETOWN, 0) }.into()).map(drop)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_of_one_open_file_share_its_flags() {
        let path = std::env::current_exe().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let open: [OwnedFd; 5] = [
            File::open(&path).unwrap().into(),
            File::open("/").unwrap().into(),
            File::open("/dev/null").unwrap().into(),
            reader.into(),
            writer.into(),
        ];
        for file in &open {
            let before = fcntl_getfl(file).unwrap();
            let copy = duplicate(file.as_raw_fd()).unwrap();
            assert!(share_flags(file.as_fd(), copy.as_fd()).unwrap());
            let others = open.iter().filter(|other| other.as_raw_fd() != file.as_raw_fd());
            assert!(others.into_iter().all(|other| !share_flags(file.as_fd(), other.as_fd()).unwrap()));
            assert_eq!(fcntl_getfl(file).unwrap(), before);
        }
        assert!(!share_flags(open[0].as_fd(), File::open(&path).unwrap().as_fd()).unwrap(), "opened twice");
    }
}
