//! Processes as a whole: waits, process descriptors, comparisons, limits.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names.

use super::check;
use super::descriptors::{HeldDescriptor, ready_events};
use crate::{Pid, Tid};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt;
use rustix::pipe::SpliceFlags;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, waitid};
use std::cmp::Ordering;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

/// Of children that clone(2) has made without a signal at their end, too.
const OF_ANY_KIND: WaitIdOptions = WaitIdOptions::from_bits_retain(libc::__WALL as u32);
/// Not of the children of other threads.
const OF_THIS_THREAD: WaitIdOptions = WaitIdOptions::from_bits_retain(libc::__WNOTHREAD as u32);

/// waitpid(2) with `__WALL`: returns the raw status, or `None` with WNOHANG if there is no news.
pub fn wait(tid: Tid, flags: i32) -> io::Result<Option<i32>> {
    let (id, options) = (tid.as_argument()?, WaitOptions::from_bits_retain((flags | libc::__WALL) as u32));
    let news = retry_on_intr(|| rustix::process::waitpid(Some(id), options))?;
    Ok(news.map(|(_, status)| status.as_raw()))
}

/// waitpid(2) with `__WALL` for any child or tracee of this process: consumes the news and returns the id. Only if
/// nothing else waits for any of them.
pub fn wait_for_any() -> io::Result<Tid> {
    let options = WaitOptions::from_bits_retain(libc::__WALL as u32);
    let news = retry_on_intr(|| rustix::process::wait(options))?;
    let (id, _) = news.expect("this wait does not end without news");
    Ok(Tid::new(id.as_raw_nonzero().get()))
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
    peek(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::STOPPED | OF_THIS_THREAD).map(drop)
}

/// Reports whether a child or tracee has ended, without consuming the news.
pub fn has_ended(tid: Tid) -> bool {
    // The kernel reports stops of tracees even if they are not requested.
    let what = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let news = tid.as_argument().and_then(|id| peek(WaitId::Pid(id), what));
    matches!(news, Ok(Some(news)) if news.exited() || news.killed() || news.dumped())
}

/// Reports whether job control has stopped a child of this thread since the last call. Not while another thread traces
/// it: this would consume that thread's news.
pub fn has_stopped(pid: Pid) -> bool {
    let what = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | OF_THIS_THREAD;
    let news = pid.as_argument().and_then(|id| Ok(waitid(WaitId::Pid(id), what)?));
    matches!(news, Ok(Some(news)) if news.stopped())
}

/// Returns news without consuming it.
fn peek(whose: WaitId<'_>, what: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
    Ok(waitid(whose, what | WaitIdOptions::NOWAIT | OF_ANY_KIND)?)
}

/// pidfd_open(2).
pub fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(pid.as_argument()?, PidfdFlags::empty())?)
}

/// pidfd_getfd(2): makes a descriptor of ours for an open file of another process.
pub fn pidfd_getfd(process: BorrowedFd<'_>, fd: i32) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_getfd(process, fd, PidfdGetfdFlags::empty())?)
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

/// Reports whether this process may compare others with kcmp(2), which seccomp profiles of containers forbid. Checked
/// only once.
pub fn may_compare() -> bool {
    static SEEN: OnceLock<bool> = OnceLock::new();
    let own = Pid::own().main_thread();
    *SEEN.get_or_init(|| compare(own, own, Common::Memory).is_ok())
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
    // Any id turns it on.
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Writes `words` to standard error and ends this process by _exit(2): runs no handler and waits for no lock.
pub fn end_at_once(status: i32, words: &[u8]) -> ! {
    // Nothing can be done about an error.
    let _ = rustix::io::write(io::stderr(), words);
    // SAFETY: a plain number.
    unsafe { libc::_exit(status) }
}

/// `PR_GET_SECUREBITS` of this process.
pub fn secure_bits() -> io::Result<i64> {
    Ok(rustix::thread::capabilities_secure_bits()?.bits().into())
}

/// tee(2) from one pipe to another without waiting: returns how many bytes were copied.
pub fn tee(from: BorrowedFd<'_>, to: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    match rustix::pipe::tee(from, to, bytes, SpliceFlags::NONBLOCK) {
        Err(Errno::WOULDBLOCK) => Ok(0),
        other => Ok(other?),
    }
}

/// `F_GETPIPE_SZ`.
pub fn pipe_capacity(pipe: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(rustix::pipe::fcntl_getpipe_size(pipe)? as u32)
}

/// `F_SETPIPE_SZ`.
pub fn set_pipe_capacity(pipe: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    rustix::pipe::fcntl_setpipe_size(pipe, bytes as usize)?;
    Ok(())
}

/// Reads a clock of this process, in nanoseconds.
pub fn clock_nanoseconds(clock: i32) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live; the clocks that callers name exist on every Linux.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(answer, 0, "clock {clock} exists");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the processor time that this thread has used.
pub fn thread_time() -> Duration {
    Duration::from_nanos(clock_nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Returns the effective user id of this process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Reports whether the other end of a pipe is closed everywhere (poll(2) reports HUP or ERR).
pub fn pipe_is_peer_closed(end: BorrowedFd<'_>) -> bool {
    ready_events(end, 0).is_ok_and(|events| events & (libc::POLLHUP | libc::POLLERR) != 0)
}

/// Returns family and type of a socket: `SO_DOMAIN`, `SO_TYPE`.
pub fn socket_kind(socket: BorrowedFd<'_>) -> io::Result<(i32, i32)> {
    let family = sockopt::socket_domain(socket)?.as_raw();
    Ok((family.into(), sockopt::socket_type(socket)?.as_raw() as i32))
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
