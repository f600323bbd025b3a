//! Types for the kernel's process ids and thread ids, so that one cannot be passed for the other.

use rustix::io::Errno;
use std::fmt::{self, Display, Formatter};
use std::io;

/// The id of a process, as this process sees it unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid(i32);

impl Pid {
    /// Wraps the number of a process.
    pub const fn new(number: i32) -> Self {
        Self(number)
    }

    /// Returns the bare number.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// Returns the id as an argument of a system call.
    ///
    /// # Errors
    /// EINVAL if the number is no id: zero and negative ones would name groups or all processes.
    pub(crate) fn as_argument(self) -> io::Result<rustix::process::Pid> {
        argument(self.0)
    }

    /// Returns the id of this process.
    pub fn own() -> Self {
        Self(std::process::id() as i32)
    }

    /// Returns the id of the main thread, which has the number of its process.
    pub const fn main_thread(self) -> Tid {
        Tid(self.0)
    }
}

impl Display for Pid {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The id of a thread, as this process sees it unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tid(i32);

impl Tid {
    /// Wraps the number of a thread.
    pub const fn new(number: i32) -> Self {
        Self(number)
    }

    /// Returns the bare number.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// Returns the id of the process as which `/proc/TID` shows this thread. For a main thread, that is its process.
    pub const fn as_process(self) -> Pid {
        Pid(self.0)
    }

    /// Returns the id as an argument of a system call.
    ///
    /// # Errors
    /// As for [`Pid::as_argument`].
    pub(crate) fn as_argument(self) -> io::Result<rustix::process::Pid> {
        argument(self.0)
    }

    /// Returns the id of this thread, by which `/proc` names tracers.
    pub fn own() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero().get())
    }
}

impl Display for Tid {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

fn argument(number: i32) -> io::Result<rustix::process::Pid> {
    let id = Some(number).filter(|number| *number > 0).and_then(rustix::process::Pid::from_raw);
    Ok(id.ok_or(Errno::INVAL)?)
}
