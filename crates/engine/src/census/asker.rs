//! Asks one task's kernel side what only the task itself can ask, by injected system calls.

use crate::EngineError;
use crate::freeze::{FrozenTask, kernel};
use standfast_linux::sys::process;
use standfast_linux::{Injector, OwnState, Puppet, TaskError, WriteProtection};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Asks one task's kernel side.
pub(super) struct Asker<'a> {
    pub(super) injector: &'a Injector<'a>,
    pub(super) puppet: Puppet<'a>,
    /// What an error of the task means. It may carry the program's exit status, which nobody else gets any more.
    ended: &'a dyn Fn(TaskError) -> EngineError,
}

impl<'a> Asker<'a> {
    pub(super) fn new(
        injector: &'a Injector<'a>,
        task: &'a FrozenTask,
        extended: &'a [u8],
        ended: &'a dyn Fn(TaskError) -> EngineError,
    ) -> Result<Self, EngineError> {
        let own = OwnState { registers: &task.registers, extended, mask: task.mask, first_call: task.interrupted.call };
        Ok(Self { injector, puppet: injector.take(&task.task, own).map_err(ended)?, ended })
    }

    pub(super) fn call(&self, number: i64, arguments: [u64; 6]) -> Result<i64, EngineError> {
        self.puppet.call(number, arguments).map_err(self.ended)
    }

    /// Takes a userfaultfd of the program's address space over from it; nothing of it stays there.
    pub(super) fn make_userfault(&self, pid: i32) -> Result<io::Result<OwnedFd>, EngineError> {
        let made = self.call(libc::SYS_userfaultfd, [WriteProtection::CREATION_FLAGS, 0, 0, 0, 0, 0])?;
        if made < 0 {
            return Ok(Err(io::Error::from_raw_os_error(-made as i32)));
        }
        let taken = process::pidfd_open(pid).and_then(|process| process::pidfd_getfd(process.as_fd(), made as i32));
        self.call(libc::SYS_close, [made as u64, 0, 0, 0, 0, 0])?;
        Ok(taken)
    }

    /// Makes a call that fills `N` words, and reads them. `arguments` are the first four, given the words' address.
    pub(super) fn ask<const N: usize>(
        &self,
        number: i64,
        arguments: impl Fn(u64) -> [u64; 4],
    ) -> Result<[u64; N], EngineError> {
        let output = self.injector.output().get();
        let [a, b, c, d] = arguments(output);
        let answer = self.call(number, [a, b, c, d, 0, 0])?;
        if answer < 0 {
            let error = std::io::Error::from_raw_os_error(-answer as i32);
            return Err(kernel(&format!("asking the program's kernel state (call {number})"), error));
        }
        let mut bytes = [[0u8; 8]; N];
        self.injector.read_output(bytes.as_flattened_mut()).map_err(|_| EngineError::Ended)?;
        Ok(bytes.map(u64::from_le_bytes))
    }
}
