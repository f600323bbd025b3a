//! Ring 2: splits a process in two, both of which continue with the same program. Not for starting another program.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names. Only a process with a
//! single thread calls fork(2), so that no lock in the child is held by a thread that does not exist there.

use crate::Pid;
use crate::sys::check;
use std::io;
use std::os::fd::RawFd;

/// The half in which the caller finds itself.
#[derive(Debug)]
pub enum Half {
    /// The original process.
    Parent {
        /// The new process.
        child: Pid,
        /// Blocks all signals until dropped: time to install handlers.
        held: HeldSignals,
    },
    /// The new process. Its signals are as they were.
    Child,
}

/// Blocks all signals of this thread; when dropped, restores the old mask.
#[derive(Debug)]
pub struct HeldSignals {
    before: libc::sigset_t,
}

impl HeldSignals {
    fn hold() -> Self {
        // SAFETY: signal sets are bit masks for which all zeros is a value; both are live.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self { before }
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: `before` is live.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Splits this process in two.
///
/// # Errors
/// When it has other threads, or the kernel allows no further process.
pub fn split() -> io::Result<Half> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process that splits must have a single thread"));
    }
    let held = HeldSignals::hold();
    // SAFETY: as said above.
    match check(unsafe { libc::fork() }.into())? {
        0 => Ok(Half::Child),
        child => Ok(Half::Parent { child: Pid::new(child as i32), held }),
    }
}

/// Makes this process the leader of a process group of its own. Signals sent to its old group, by keys or otherwise, no
/// longer reach it.
///
/// # Errors
/// When it leads a session.
pub fn step_aside() -> io::Result<()> {
    Ok(rustix::process::setpgid(None, None)?)
}

/// Blocks SIGTTOU in this thread and the threads that it makes, so that background output to the terminal does not stop
/// this process.
pub fn hold_output_signal() {
    // SAFETY: the set is live, and all zeros is a value for it.
    unsafe {
        let mut output: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut output, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const output, std::ptr::null_mut());
    }
}

/// Makes this process the leader of a session of its own without a terminal.
///
/// # Errors
/// When it leads a process group.
pub fn lead_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Closes every descriptor except these.
pub fn close_all_but(kept: &[RawFd]) {
    let mut kept: Vec<u32> = kept.iter().map(|number| *number as u32).collect();
    kept.sort_unstable();
    let mut from = 0;
    for number in kept.into_iter().chain([u32::MAX]) {
        if from < number {
            // SAFETY: plain numbers. Owners of the descriptors closed here never use them again.
            unsafe { libc::syscall(libc::SYS_close_range, from, number - 1, 0) };
        }
        from = number.saturating_add(1);
    }
}
