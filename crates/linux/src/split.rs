//! Ring 2: a process that becomes two, each of which goes on with the same program. Not for starting another program.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names; fork(2) is called by a
//! process with a single thread only, so that no lock is held in the child by a thread that it has not got.

use crate::sys::check;
use std::io;
use std::os::fd::RawFd;

/// Which of the two this is.
#[derive(Debug)]
pub enum Half {
    /// The one that was there.
    Parent {
        /// The other one.
        child: i32,
        /// All signals are held back until this is dropped: time to install handlers.
        held: HeldSignals,
    },
    /// The new one. Its signals are as they were.
    Child,
}

/// All signals of this thread held back; dropped, they are as before.
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
        child => Ok(Half::Parent { child: child as i32, held }),
    }
}

/// Leads a process group of its own from now on: what keys and others send to the group it was in does not reach it.
///
/// # Errors
/// When it leads a session.
pub fn step_aside() -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::setpgid(0, 0) }.into()).map(drop)
}

/// Whatever this thread, and those that it makes, write to the terminal in the background, does not stop this process.
pub fn hold_output_signal() {
    // SAFETY: the set is live, and all zeros is a value for it.
    unsafe {
        let mut output: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut output, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const output, std::ptr::null_mut());
    }
}

/// Leads a session of its own without a terminal from now on.
///
/// # Errors
/// When it leads a process group.
pub fn lead_session() -> io::Result<()> {
    // SAFETY: takes no arguments.
    check(unsafe { libc::setsid() }.into()).map(drop)
}

/// Closes every descriptor but these.
pub fn close_all_but(kept: &[RawFd]) {
    let mut kept: Vec<u32> = kept.iter().map(|number| *number as u32).collect();
    kept.sort_unstable();
    let mut from = 0;
    for number in kept.into_iter().chain([u32::MAX]) {
        if from < number {
            // SAFETY: plain numbers. Whoever believes to own what is closed here is never heard of again.
            unsafe { libc::syscall(libc::SYS_close_range, from, number - 1, 0) };
        }
        from = number.saturating_add(1);
    }
}
