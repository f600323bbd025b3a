//! Ring 2: a copy of a process's memory as it is at a stop, which we read while the process continues. fork(2) copies
//! the page tables and shares the pages until one of the two processes writes to them.
//!
//! The copy is a process of its own, which never executes a line of the program. It belongs to us before it first runs,
//! and it dies with us. If we die before that, it reaches a call that ends it. The program cannot see it: the clone is
//! no child of the program, has a session of its own, and holds no descriptors.
//!
//! ```text
//! sibling:  process --clone(PARENT)--> clone               the process's parent, which is ours, gets it
//! orphan:   process --clone(VM)--> middle --clone--> clone  the middle one ends and is waited for by the process;
//!                                                           the clone comes to whoever takes orphans
//! ```
//!
//! The middle process shares the memory of the original process, so that page tables are copied only once.

use crate::spawn::{made_here, made_here_is_gone};
use crate::sys::process;
use crate::{Pid, ProcessMemory, Registers, RemoteTask, Stop, Task, TaskError};
use std::io;

/// Flags of clone(2): what the clone shares with the process beyond what fork(2) shares.
const SHARES_FILES: u64 = libc::CLONE_FILES as u64;
const SIBLING: u64 = libc::CLONE_PARENT as u64 | SHARES_FILES;
const MIDDLE: u64 = libc::CLONE_VM as u64 | SHARES_FILES;
/// Trace options of the clone: it dies with us.
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
/// Trace options of the middle process: it dies with us too, and the kernel attaches its child to us.
const OPTIONS_OF_MIDDLE: i32 = OPTIONS | libc::PTRACE_O_TRACECLONE;
/// `CLOSE_RANGE_UNSHARE`: the process keeps its descriptors; the clone gets a table of its own, which is empty.
const UNSHARE: u64 = 1 << 1;
/// Name of the clone, so that a search for the program by name does not find it twice.
const NAME: &[u8; 16] = b"standfast-clone\0";
/// OOM score of the clone: the kernel kills it first when memory is short.
const EXPENDABLE: &str = "1000";

/// The process that becomes the clone's parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneParent {
    /// The parent of the process, which must be this process, or one that this process has made.
    Sibling,
    /// The process that adopts the orphans of the process. It must not belong to the job.
    Orphan,
}

/// The memory of a process as it was when this was made. Dropping this ends the clone.
#[derive(Debug)]
pub struct MemoryClone {
    task: Task,
    memory: ProcessMemory,
}

impl RemoteTask<'_> {
    /// Makes a clone of the process, whose other tasks must be stopped. Returns the inner error, from the kernel or
    /// another cause, if no clone can be made; nothing is left of it then.
    ///
    /// # Errors
    /// When the task ends.
    pub fn clone_memory(&self, parent: CloneParent) -> Result<io::Result<MemoryClone>, TaskError> {
        match parent {
            CloneParent::Sibling => Ok(self.bear(SIBLING, false)?.and_then(|pid| self.settle(pid, OPTIONS))),
            CloneParent::Orphan => {
                let middle = match self.bear(MIDDLE, true)? {
                    Ok(middle) => middle,
                    Err(error) => return Ok(Err(error)),
                };
                let born = self.bear_orphan(middle);
                self.await_child()?;
                Ok(born.and_then(|pid| self.settle(pid, OPTIONS)))
            }
        }
    }

    /// Makes the clone from a child of the process that shares its memory, and ends that child.
    fn bear_orphan(&self, middle: Pid) -> io::Result<Pid> {
        let task = Mortal::attached(middle);
        let registers = task.claim(OPTIONS_OF_MIDDLE)?;
        let arguments = [SHARES_FILES, 0, 0, 0, 0, 0];
        let answer = task.0.call(&registers, self.syscall_instruction(), libc::SYS_clone, arguments);
        let answer = answer.map_err(io::Error::other)?;
        match answer.new_task {
            Some(main) => {
                let pid = main.as_process();
                made_here(pid);
                Ok(pid)
            }
            None => Err(io::Error::from_raw_os_error(-answer.result as i32)),
        }
    }

    /// Detaches a new clone from everything it inherited: descriptors, session and name.
    fn settle(&self, pid: Pid, options: i32) -> io::Result<MemoryClone> {
        made_here(pid);
        let task = Mortal::attached(pid);
        let registers = task.claim(options)?;
        let call = |number, arguments| {
            let answer = task.0.call(&registers, self.syscall_instruction(), number, arguments);
            match answer.map_err(io::Error::other)?.result {
                failed @ ..0 => Err(io::Error::from_raw_os_error(-failed as i32)),
                _ => Ok(()),
            }
        };
        call(libc::SYS_close_range, [0, u32::MAX.into(), UNSHARE, 0, 0, 0])?;
        call(libc::SYS_setsid, [0; 6])?;
        let mut memory = ProcessMemory::open(pid)?;
        memory.leave_shared();
        let name = self.scratch();
        memory.write(name, NAME)?;
        call(libc::SYS_prctl, [libc::PR_SET_NAME as u64, name.get(), 0, 0, 0, 0])?;
        // If the kernel refuses, it may choose either of the two processes.
        let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), EXPENDABLE);
        self.uncover(&memory)?;
        Ok(MemoryClone { task: task.keep(), memory })
    }
}

impl MemoryClone {
    /// Returns the memory of the clone.
    pub fn memory(&self) -> &ProcessMemory {
        &self.memory
    }

    /// Returns the clone's process id as this process sees it.
    pub fn pid(&self) -> Pid {
        self.task.process()
    }

    /// Reports whether the clone still exists, and so existed all the time. Memory that vanishes can be read as if it
    /// had never been written.
    pub fn is_whole(&self) -> bool {
        self.task.registers().is_ok()
    }

    /// Kills the clone; the kernel frees its memory in the background.
    pub fn end(&self) {
        // An error means that it has already ended.
        let _ = process::kill(self.task.process(), libc::SIGKILL);
    }
}

impl Drop for MemoryClone {
    fn drop(&mut self) {
        end(&self.task);
    }
}

/// A child of the program that is killed when this is dropped, unless it is kept.
struct Mortal(Task);

impl Mortal {
    /// Wraps a child that the kernel has attached to us.
    fn attached(pid: Pid) -> Self {
        let mut task = Task::attached_by_clone(pid, pid.main_thread());
        task.is_alone();
        Self(task)
    }

    /// Waits until the child is stopped, and makes sure that it dies with us. Returns its registers.
    fn claim(&self, options: i32) -> io::Result<Registers> {
        let claim = || {
            while self.0.wait()? != Stop::Asked {
                self.0.resume(0)?;
            }
            self.0.set_options(options)?;
            self.0.registers()
        };
        claim().map_err(|error: TaskError| io::Error::other(error))
    }

    fn keep(self) -> Task {
        let (process, tid) = (self.0.process(), self.0.tid());
        std::mem::forget(self);
        let mut task = Task::attached_by_clone(process, tid);
        task.is_alone();
        task
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        end(&self.0);
    }
}

/// Kills a task that belongs to us, and waits until it is gone.
fn end(task: &Task) {
    let _ = process::kill(task.process(), libc::SIGKILL);
    // Ignore stops before its death.
    while task.wait().is_ok() {
        let _ = task.resume(0);
    }
    made_here_is_gone(task.process());
}
