//! Ring 1: one function per system call. No policy here.

pub mod descriptors;
pub mod file;

pub mod memory;
pub mod process;
pub mod ptrace;
pub mod schedule;
pub mod socket;
pub mod terminal;
pub mod tree;
pub mod userfault;

use std::io;

/// Turns the C convention into a [`Result`].
pub(crate) fn check(result: libc::c_long) -> io::Result<i64> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
