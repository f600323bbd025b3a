//! Ring 2: makes a stopped task execute system calls of our choice, so that it survives our death at any point.
//!
//! Before its registers are touched, a signal frame with all of its own state lies in its [`Foothold`]; the injected
//! `syscall` instruction is followed by rt_sigreturn. Wherever the tracer dies, the task runs into that return and is
//! itself again. Measured before this existed: SIGKILL of a tracer between two injected stops killed the program.

use crate::arch::{HealingFrame, Registers};
use crate::{Foothold, ProcessMemory, Stop, Task, TaskError};
use standfast_core::Address;

/// Everything blocked: no signal may run a handler on the borrowed stack.
const ALL_SIGNALS: u64 = u64::MAX;

/// Injects into the tasks of one process, by way of its foothold.
#[derive(Debug)]
pub struct Injector<'a> {
    memory: &'a ProcessMemory,
    foothold: &'a Foothold,
}

/// A task's own state, as it stood when it was stopped.
#[derive(Debug, Clone, Copy)]
pub struct OwnState<'a> {
    /// General registers.
    pub registers: &'a Registers,
    /// XSAVE area.
    pub extended: &'a [u8],
    /// Blocked signals.
    pub mask: u64,
    /// The call behind a `restart_syscall`, where known.
    pub first_call: Option<i64>,
}

impl<'a> Injector<'a> {
    /// An injector for the process that `foothold` was made in.
    pub fn new(memory: &'a ProcessMemory, foothold: &'a Foothold) -> Self {
        Self { memory, foothold }
    }

    /// Where injected calls may leave what they return: [`Foothold::OUTPUT_BYTES`] bytes.
    pub fn output(&self) -> Address {
        self.foothold.output()
    }

    /// Reads what an injected call left there.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn read_output(&self, into: &mut [u8]) -> std::io::Result<()> {
        self.memory.read(self.output(), into)
    }

    /// Takes over a task until the puppet is released. One at a time: all share the foothold.
    ///
    /// # Errors
    /// When the task is gone or its foothold cannot be written.
    pub fn take<'t>(&self, task: &'t Task, own: OwnState<'t>) -> Result<Puppet<'t>, TaskError> {
        let frame = HealingFrame::below(self.foothold.top(), own.registers, own.extended, own.mask, own.first_call);
        self.memory
            .write(Address::new(frame.start), &frame.bytes)
            .map_err(|error| TaskError::of(task.tid(), "writing the healing frame", error))?;
        let mut base = *own.registers;
        base.set_stack(frame.start);
        let puppet = Puppet { task, own, base, blob: self.foothold.blob(), released: false };
        // From here on the task heals if we die: registers first, the mask only then.
        task.set_registers(&puppet.base.calling(puppet.blob, libc::SYS_getpid, [0; 6]))?;
        task.set_signal_mask(ALL_SIGNALS)?;
        Ok(puppet)
    }
}

/// A task that does as it is told, until released.
#[derive(Debug)]
pub struct Puppet<'t> {
    task: &'t Task,
    own: OwnState<'t>,
    base: Registers,
    blob: u64,
    released: bool,
}

impl Puppet<'_> {
    /// Makes one system call; the kernel's result, negative errors included.
    ///
    /// # Errors
    /// When the task ends.
    pub fn call(&self, number: i64, arguments: [u64; 6]) -> Result<i64, TaskError> {
        call_at(self.task, &self.base, self.blob, number, arguments).map(|answer| answer.result)
    }

    /// Gives the task its own state back.
    ///
    /// # Errors
    /// When it is gone.
    pub fn release(mut self) -> Result<(), TaskError> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), TaskError> {
        self.released = true;
        self.task.set_signal_mask(self.own.mask)?;
        self.task.set_registers(self.own.registers)
    }
}

impl Drop for Puppet<'_> {
    fn drop(&mut self) {
        if !self.released {
            // An error here means that the task is gone; there is nothing left to give back.
            let _ = self.give_back();
        }
    }
}

/// What an injected call gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The kernel's result, negative errors included.
    pub result: i64,
    /// The task that the call has made, as this process sees it; attached, and about to stop.
    pub new_task: Option<i32>,
}

/// Makes `task` execute one system call with the `syscall` instruction at `instruction`. Does not heal by itself: for
/// [`Puppet`], and for processes under construction, which die with us.
fn call_at(
    task: &Task,
    base: &Registers,
    instruction: u64,
    number: i64,
    arguments: [u64; 6],
) -> Result<Answer, TaskError> {
    task.set_registers(&base.calling(instruction, number, arguments))?;
    run_to_syscall_stop(task)?;
    let new_task = run_to_syscall_stop(task)?;
    Ok(Answer { result: task.registers()?.result(), new_task })
}

/// Late answers to an interrupt come in between and are passed over; the event of a new task is kept. SIGSTOP cannot be
/// blocked: it is passed on, and the kernel carries out the stop when the task is let go.
fn run_to_syscall_stop(task: &Task) -> Result<Option<i32>, TaskError> {
    let mut new_task = None;
    let mut signal = 0;
    loop {
        task.resume_to_syscall(signal)?;
        signal = match task.wait()? {
            Stop::Syscall => return Ok(new_task),
            Stop::Asked => 0,
            Stop::Event(_) => {
                new_task = Some(task.event_message()? as i32);
                0
            }
            Stop::Signal(signal) => signal,
        };
        assert!(matches!(signal, 0 | libc::SIGSTOP), "signal {signal} came through though all are blocked");
    }
}

impl Task {
    /// Makes one system call in a process under construction, at a `syscall` instruction of its vdso. The task must have
    /// all signals blocked; it does not heal, it dies with its tracer.
    ///
    /// # Errors
    /// When it ends.
    pub fn call(
        &self,
        base: &Registers,
        instruction: u64,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<Answer, TaskError> {
        call_at(self, base, instruction, number, arguments)
    }
}
