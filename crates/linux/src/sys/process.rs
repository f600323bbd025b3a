//! Processes as a whole: waits, process descriptors, comparisons, limits.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names.

use super::check;
use super::descriptors::HeldDescriptor;
use crate::{Pid, Tid};
use std::cmp::Ordering;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

/// waitpid(2) with `__WALL`: returns the raw status, or `None` with WNOHANG if there is no news.
pub fn wait(tid: Tid, flags: i32) -> io::Result<Option<i32>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live i32.
        let got = unsafe { libc::waitpid(tid.get(), &raw mut status, flags | libc::__WALL) };
        match check(got.into()) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(status)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// waitpid(2) with `__WALL` for any child or tracee of this process: consumes the news and returns the id. Only if
/// nothing else waits for any of them.
pub fn wait_for_any() -> io::Result<Tid> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live i32.
        match check(unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) }.into()) {
            Ok(tid) => return Ok(Tid::new(tid as i32)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Blocks SIGCHLD in this thread, or unblocks it; a signal that came meanwhile is then delivered, once. Threads that
/// this one makes meanwhile never get it. Returns whether it was blocked before.
pub fn hold_child_signal(hold: bool) -> bool {
    // SAFETY: signal sets are bit masks for which all zeros is a value; both are live.
    unsafe {
        let (mut child, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigaddset(&raw mut child, libc::SIGCHLD);
        let how = if hold { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
        libc::pthread_sigmask(how, &raw const child, &raw mut before);
        libc::sigismember(&raw const before, libc::SIGCHLD) == 1
    }
}

/// Waits for news of any child or tracee of this *thread* with waitid(2), without consuming it: it is there again the
/// next time.
pub fn wait_for_news() -> io::Result<()> {
    peek(libc::P_ALL, 0, libc::WEXITED | libc::WSTOPPED | libc::__WNOTHREAD).map(drop)
}

/// Reports whether a child or tracee has ended, without consuming the news.
pub fn has_ended(tid: Tid) -> bool {
    // The kernel reports stops of tracees even if they are not requested.
    let news = peek(libc::P_PID, tid.get() as libc::id_t, libc::WEXITED | libc::WNOHANG);
    news.is_ok_and(|code| matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED))
}

/// Reports whether job control has stopped a child of this thread since the last call. Not while another thread traces
/// it: this would consume that thread's news.
pub fn has_stopped(pid: Pid) -> bool {
    // SAFETY: a siginfo_t is plain data for which all zeros is a value.
    let mut news: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let what = libc::WSTOPPED | libc::WNOHANG | libc::__WNOTHREAD;
    // SAFETY: `news` is live.
    let told = check(unsafe { libc::waitid(libc::P_PID, pid.get() as libc::id_t, &raw mut news, what) }.into());
    told.is_ok() && news.si_code == libc::CLD_STOPPED
}

/// Returns the kind of news (`CLD_`), or 0 if there is none.
fn peek(whose: libc::idtype_t, id: libc::id_t, flags: i32) -> io::Result<i32> {
    // SAFETY: a siginfo_t is plain data for which all zeros is a value.
    let mut news: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `news` is live.
    check(unsafe { libc::waitid(whose, id, &raw mut news, flags | libc::WNOWAIT | libc::__WALL) }.into())?;
    Ok(news.si_code)
}

/// pidfd_open(2).
pub fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the result is a new descriptor that nothing else owns.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.get(), 0) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// pidfd_getfd(2): makes a descriptor of ours for an open file of another process.
pub fn pidfd_getfd(process: BorrowedFd<'_>, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the result is a new descriptor that nothing else owns.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// kill(2).
pub fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::kill(pid.get(), signal) }.into()).map(drop)
}

/// kcmp(2) with `KCMP_FILE`: reports whether two descriptors share an open file description.
pub fn same_open_file(one: HeldDescriptor, other: HeldDescriptor) -> io::Result<bool> {
    const KCMP_FILE: i32 = 0;
    // SAFETY: plain numbers.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, one.pid.get(), other.pid.get(), KCMP_FILE, one.number, other.number) };
    check(order).map(|order| order == 0)
}

/// Parts that two processes may share, besides open files; kcmp(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Common {
    /// The address space.
    Memory = 1,
    /// The table of descriptors.
    Descriptors = 2,
    /// Working directory and umask.
    Directory = 3,
    /// Signal dispositions.
    Dispositions = 4,
}

/// kcmp(2): reports whether two tasks share a part.
pub fn share(one: Tid, other: Tid, what: Common) -> io::Result<bool> {
    compare(one, other, what).map(Ordering::is_eq)
}

/// kcmp(2): compares a part of two tasks, in an order that stays the same while the kernel runs; equal if they share
/// it.
pub fn compare(one: Tid, other: Tid, what: Common) -> io::Result<Ordering> {
    // SAFETY: plain numbers.
    let order = check(unsafe { libc::syscall(libc::SYS_kcmp, one.get(), other.get(), what as i32, 0, 0) })?;
    match order {
        0 => Ok(Ordering::Equal),
        1 => Ok(Ordering::Less),
        2 => Ok(Ordering::Greater),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// prlimit(2): returns soft and hard limit of a resource, in the kernel's numbering.
pub fn limit(pid: Pid, resource: u32) -> io::Result<(u64, u64)> {
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `old` is live; no new limit is given.
    check(unsafe { libc::prlimit(pid.get(), resource, std::ptr::null(), &raw mut old) }.into())?;
    Ok((old.rlim_cur, old.rlim_max))
}

/// prlimit(2): sets soft and hard limit of a resource.
pub fn set_limit(pid: Pid, resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let new = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `new` is live; the old limit is not requested.
    check(unsafe { libc::prlimit(pid.get(), resource, &raw const new, std::ptr::null_mut()) }.into()).map(drop)
}

/// get_robust_list(2) of any task: returns head and length.
pub fn robust_list(tid: Tid) -> io::Result<(u64, u64)> {
    let (mut head, mut length) = (0u64, 0u64);
    // SAFETY: two live words.
    check(unsafe { libc::syscall(libc::SYS_get_robust_list, tid.get(), &raw mut head, &raw mut length) })?;
    Ok((head, length))
}

/// `PR_SET_CHILD_SUBREAPER`: makes us, instead of init, the parent of descendants that lose their parent.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }.into()).map(drop)
}

/// Writes `words` to standard error and ends this process by _exit(2): runs no handler and waits for no lock.
pub fn end_at_once(status: i32, words: &[u8]) -> ! {
    // SAFETY: the bytes are live for the call, and the other call does not return.
    unsafe {
        libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
        libc::_exit(status)
    }
}

/// `PR_GET_SECUREBITS` of this process.
pub fn secure_bits() -> io::Result<i64> {
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_GET_SECUREBITS, 0, 0, 0, 0) }.into())
}

/// tee(2) from one pipe to another without waiting: returns how many bytes were copied.
pub fn tee(from: BorrowedFd<'_>, to: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    // SAFETY: plain numbers.
    let got = unsafe { libc::tee(from.as_raw_fd(), to.as_raw_fd(), bytes, libc::SPLICE_F_NONBLOCK) };
    match check(got as i64) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other.map(|bytes| bytes as usize),
    }
}

/// `F_GETPIPE_SZ`.
pub fn pipe_capacity(pipe: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ) }.into()).map(|bytes| bytes as u32)
}

/// `F_SETPIPE_SZ`.
pub fn set_pipe_capacity(pipe: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes as i32) }.into()).map(drop)
}

/// Reads a clock of this process, in nanoseconds.
pub fn clock_nanoseconds(clock: i32) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live; the clocks that callers name exist on every Linux.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(answer, 0, "clock {clock} exists");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the effective user id of this process.
pub fn effective_user() -> u32 {
    // SAFETY: cannot fail and touches no memory.
    unsafe { libc::geteuid() }
}

/// Reports whether the other end of a pipe is closed everywhere (poll(2) reports HUP or ERR).
pub fn pipe_is_peer_closed(end: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: end.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one live pollfd.
    let found = unsafe { libc::poll(&raw mut poll, 1, 0) };
    found == 1 && poll.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Returns family and type of a socket: `SO_DOMAIN`, `SO_TYPE`.
pub fn socket_kind(socket: BorrowedFd<'_>) -> io::Result<(i32, i32)> {
    let option = |name| {
        let (mut value, mut length) = (0i32, size_of::<i32>() as libc::socklen_t);
        let (into, bytes) = ((&raw mut value).cast(), &raw mut length);
        // SAFETY: both live, and the length is that of the value.
        let answer = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, into, bytes) };
        check(answer.into())?;
        Ok::<_, io::Error>(value)
    };
    Ok((option(libc::SO_DOMAIN)?, option(libc::SO_TYPE)?))
}

/// Reports whether the kernel ignores the upper half of the register that holds the number of a system call, as it does
/// since Linux 5.14. Checked only once.
pub fn call_numbers_have_room() -> bool {
    static SEEN: OnceLock<bool> = OnceLock::new();
    *SEEN.get_or_init(|| {
        // SAFETY: getpid takes no arguments; a kernel that does not know this number returns ENOSYS.
        let answer = unsafe { libc::syscall(1 << 40 | libc::SYS_getpid) };
        answer == i64::from(std::process::id())
    })
}
