//! Ring 2: makes a stopped task execute system calls of our choice, so that the task survives our death at any point.
//!
//! Before its registers are touched, a signal frame with all of its own state is placed in its [`ParasiteArea`]; the
//! last of the injected calls is rt_sigreturn. Wherever the tracer dies, the task runs into that return and has its own
//! state again. Without this, SIGKILL of a tracer between two injected stops killed the program (measured).
//!
//! Calls are batched: the task takes one after the other from its stack and then sends itself a [`CompletionSignal`],
//! so that twenty calls cost two switches between processes. If there is no completion signal, the task stops at each
//! call.

use crate::arch::{CallRecord, Registers, SigreturnFrame};
use crate::{ParasiteArea, Pid, ProcessMemory, Stop, Task, TaskError, Tid};
use standfast_core::Address;
use std::io;

const WORD: u64 = size_of::<u64>() as u64;
/// All signals blocked, since no signal may run a handler on the borrowed stack.
const ALL_SIGNALS: u64 = u64::MAX;

/// A signal with which a task reports to its tracer that its calls are complete. It has no effect if the tracer is
/// gone: it is one that the kernel drops for a task without a tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletionSignal(i32);

impl CompletionSignal {
    /// Returns a completion signal for a process that catches the signals `caught`, and blocks `blocked` in any of its
    /// threads. The kernel would keep a signal of either set, as one of the program's own.
    pub fn for_process(caught: u64, blocked: u64) -> Option<Self> {
        let is_dropped = |signal: &i32| (caught | blocked) & Self::bit(*signal) == 0;
        [libc::SIGURG, libc::SIGWINCH].into_iter().find(is_dropped).map(Self)
    }

    fn bit(signal: i32) -> u64 {
        1 << (signal - 1)
    }
}

/// A system call to be injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Injects calls into the tasks of one process, through its parasite area.
#[derive(Debug)]
pub struct Injector<'a> {
    memory: &'a ProcessMemory,
    parasite_area: &'a ParasiteArea,
    completion_signal: Option<CompletionSignal>,
}

/// A task's own state at its stop.
#[derive(Debug, Clone, Copy)]
pub struct OwnState<'a> {
    /// General registers.
    pub registers: &'a Registers,
    /// XSAVE area.
    pub extended: &'a [u8],
    /// Blocked signals.
    pub mask: u64,
    /// The call that a `restart_syscall` continues, if known.
    pub first_call: Option<i64>,
    /// Its process and thread id, as the task itself sees them.
    pub ids: (Pid, Tid),
}

impl<'a> Injector<'a> {
    /// Makes an injector for the process whose `parasite_area` this is.
    pub fn new(
        memory: &'a ProcessMemory,
        parasite_area: &'a ParasiteArea,
        completion_signal: Option<CompletionSignal>,
    ) -> Self {
        Self { memory, parasite_area, completion_signal }
    }

    /// Returns the address of the buffer for output of injected calls: [`ParasiteArea::OUTPUT_BYTES`] bytes.
    pub fn output(&self) -> Address {
        self.parasite_area.output()
    }

    /// Reads the output that an injected call left in the buffer.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn read_output(&self, into: &mut [u8]) -> io::Result<()> {
        self.memory.read(self.output(), into)
    }

    /// Writes input of an injected call to the buffer.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn write_output(&self, bytes: &[u8]) -> std::io::Result<()> {
        assert!(bytes.len() <= ParasiteArea::OUTPUT_BYTES, "so much has no room there");
        self.memory.write(self.output(), bytes)
    }

    /// Takes over a task until the remote task is released. Only one at a time, since all share the parasite area.
    ///
    /// # Errors
    /// When the task is gone or its parasite area cannot be written.
    pub fn take<'t>(&'t self, task: &'t Task, own: OwnState<'t>) -> Result<RemoteTask<'t>, TaskError> {
        let frame =
            SigreturnFrame::below(self.parasite_area.top(), own.registers, own.extended, own.mask, own.first_call);
        self.memory
            .write(Address::new(frame.start), &frame.bytes)
            .map_err(|error| TaskError::of(task.tid(), "writing the sigreturn frame", error))?;
        let remote_task = RemoteTask { injector: self, task, own, healing: frame.start, released: false };
        // From here on the task heals if we die. The registers come first, and the mask only after them.
        remote_task.go_on_from(frame.start)?;
        task.set_signal_mask(
            self.completion_signal
                .map_or(ALL_SIGNALS, |completion_signal| ALL_SIGNALS & !CompletionSignal::bit(completion_signal.0)),
        )?;
        Ok(remote_task)
    }
}

/// A task that executes our calls until it is released.
#[derive(Debug)]
pub struct RemoteTask<'t> {
    injector: &'t Injector<'t>,
    task: &'t Task,
    own: OwnState<'t>,
    /// Address of the record of the return on the stack.
    healing: u64,
    released: bool,
}

impl RemoteTask<'_> {
    /// Makes one system call, and returns the kernel's result, negative errors included.
    ///
    /// # Errors
    /// When the task ends.
    pub fn call(&self, number: i64, arguments: [u64; 6]) -> Result<i64, TaskError> {
        Ok(self.calls(&[Call { number, arguments }])?[0])
    }

    /// Makes these system calls in order, and returns the kernel's results, negative errors included.
    ///
    /// # Errors
    /// When the task ends.
    pub fn calls(&self, calls: &[Call]) -> Result<Vec<i64>, TaskError> {
        let mut results = Vec::with_capacity(calls.len());
        for some in calls.chunks(ParasiteArea::CALLS_MAX - 1) {
            results.extend(self.some_calls(some, &[])?);
        }
        Ok(results)
    }

    /// Makes a call that opens a descriptor, which will have the number `expected`, has `take` copy it, and closes it.
    /// If we die in between, the task closes it. Returns the kernel's error if the descriptor cannot be made.
    ///
    /// # Errors
    /// When the task ends.
    pub fn borrow_descriptor<T>(
        &self,
        call: Call,
        expected: i32,
        take: impl FnOnce(i32) -> T,
    ) -> Result<io::Result<T>, TaskError> {
        let close = |number: i32| Call { number: libc::SYS_close, arguments: [number as u64, 0, 0, 0, 0, 0] };
        let made = self.some_calls(&[call], &[close(expected)])?[0] as i32;
        if made < 0 {
            return Ok(Err(io::Error::from_raw_os_error(-made)));
        }
        let taken = take(made);
        // The task continues as it would without us: at no moment would our death leave the descriptor open.
        if made == expected {
            self.run_left_call()?
        } else {
            drop(self.calls(&[close(made)])?)
        }
        Ok(Ok(taken))
    }

    /// Lets the task make the one call that was left to it.
    fn run_left_call(&self) -> Result<(), TaskError> {
        let (mut stops, mut signal) = (0, 0);
        while stops < 2 {
            self.task.resume_to_syscall(signal)?;
            signal = match self.task.wait()? {
                Stop::Syscall => {
                    stops += 1;
                    0
                }
                Stop::Signal(signal)
                    if self
                        .injector
                        .completion_signal
                        .is_some_and(|completion_signal| completion_signal.0 == signal) =>
                {
                    0
                }
                Stop::Signal(signal) => passed_on(signal),
                Stop::Asked | Stop::Event(_) => 0,
            };
        }
        Ok(())
    }

    /// Makes at most as many calls as there is room for. The task would continue with `left` if it were released.
    fn some_calls(&self, some: &[Call], left: &[Call]) -> Result<Vec<i64>, TaskError> {
        let gone = |error| TaskError::of(self.task.tid(), "injecting system calls", error);
        let record = |it: &Call| CallRecord::new(it.number, it.arguments).bytes();
        let mut records: Vec<u8> = some.iter().flat_map(record).collect();
        let bytes = records.len();
        records.extend(
            self.injector
                .completion_signal
                .into_iter()
                .flat_map(|completion_signal| self.ringing(completion_signal).bytes()),
        );
        records.extend(left.iter().flat_map(record));
        let start = Address::new(self.healing - records.len() as u64);
        self.injector.memory.write(start, &records).map_err(gone)?;
        self.go_on_from(start.get())?;
        // If the task stops at the last call, the result of that call is not in its record yet.
        let last = match self.injector.completion_signal {
            Some(completion_signal) => {
                let after = self.healing - (left.len() * CallRecord::BYTES) as u64;
                self.run_to_completion_signal(completion_signal, after).map(|()| None)?
            }
            None => {
                (0..2 * some.len()).try_for_each(|_| run_to_syscall_stop(self.task).map(drop))?;
                Some(self.task.registers()?.result())
            }
        };
        self.injector.memory.read(start, &mut records[..bytes]).map_err(gone)?;
        let in_records = bytes / CallRecord::BYTES - usize::from(last.is_some());
        let mut results: Vec<i64> =
            records.chunks_exact(CallRecord::BYTES).take(in_records).map(CallRecord::result).collect();
        results.extend(last);
        Ok(results)
    }

    /// Makes a child of this process with clone(2) and these flags. Returns the child's id as we see it, or the
    /// kernel's error. The kernel attaches the child to us. If the child is released before we have claimed it, it
    /// reaches a call that ends it. If we die, the task itself waits for the child if it `is_awaited`.
    pub(crate) fn bear(&self, flags: u64, is_awaited: bool) -> Result<io::Result<Pid>, TaskError> {
        /// No process or group has this id, so waiting for it fails at once.
        const NOBODY: u64 = i32::MIN as u32 as u64;
        let bytes = CallRecord::BYTES as u64;
        let waiting = self.healing - bytes;
        let cloning = if is_awaited { waiting - bytes } else { waiting };
        let ending = cloning - bytes;
        // The kernel stores the child's id in the record of the wait.
        let arguments = if is_awaited {
            [flags | libc::CLONE_PARENT_SETTID as u64, ending, waiting + WORD, 0, 0, 0]
        } else {
            [flags, ending, 0, 0, 0, 0]
        };
        let calls = [
            CallRecord::new(libc::SYS_exit_group, [0; 6]),
            CallRecord::new(libc::SYS_clone, arguments),
            CallRecord::new(libc::SYS_wait4, [NOBODY, 0, libc::__WALL as u64, 0, 0, 0]),
        ];
        let records: Vec<u8> = calls.into_iter().flat_map(CallRecord::bytes).collect();
        let gone = |error| TaskError::of(self.task.tid(), "injecting a clone", error);
        self.injector.memory.write(Address::new(ending), &records[..(self.healing - ending) as usize]).map_err(gone)?;
        self.go_on_from(cloning)?;
        run_to_syscall_stop(self.task)?;
        let child = run_to_syscall_stop(self.task)?;
        let result = self.task.registers()?.result();
        Ok(child.map(Tid::as_process).ok_or_else(|| io::Error::from_raw_os_error(-result as i32)))
    }

    /// Has the task wait for the child that it has just made, which has ended.
    pub(crate) fn await_child(&self) -> Result<(), TaskError> {
        (0..2).try_for_each(|_| run_to_syscall_stop(self.task).map(drop))
    }

    /// Returns the address of a `syscall` instruction.
    pub(crate) fn syscall_instruction(&self) -> u64 {
        self.injector.parasite_area.syscall_instruction()
    }

    /// Returns the address of a buffer for input of calls.
    pub(crate) fn scratch(&self) -> Address {
        self.injector.output()
    }

    /// Restores, in a copy of the process's memory, the bytes that the parasite area covers.
    pub(crate) fn uncover(&self, copy: &ProcessMemory) -> io::Result<()> {
        self.injector.parasite_area.uncover(copy)
    }

    fn ringing(&self, completion_signal: CompletionSignal) -> CallRecord {
        let (process, thread) = self.own.ids;
        CallRecord::new(
            libc::SYS_tgkill,
            [process.get() as u64, thread.get() as u64, completion_signal.0 as u64, 0, 0, 0],
        )
    }

    /// Makes the task take its calls from `record` on when it next runs.
    fn go_on_from(&self, record: u64) -> Result<(), TaskError> {
        self.task.set_registers(&self.own.registers.going_on(self.injector.parasite_area.blob(), record))
    }

    /// Runs the task until it has sent the signal, and its stack pointer is at `after`, just after the record of that
    /// call. The same signal from other senders is dropped, as it would be without us.
    fn run_to_completion_signal(&self, completion_signal: CompletionSignal, after: u64) -> Result<(), TaskError> {
        let mut signal = 0;
        loop {
            self.task.resume(signal)?;
            signal = match self.task.wait()? {
                Stop::Signal(signal) if signal == completion_signal.0 => {
                    if self.task.registers()?.stack() == after {
                        return Ok(());
                    }
                    0
                }
                Stop::Signal(signal) => passed_on(signal),
                Stop::Asked | Stop::Syscall | Stop::Event(_) => 0,
            };
        }
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

impl Drop for RemoteTask<'_> {
    fn drop(&mut self) {
        if !self.released {
            // An error here means that the task is gone, and nothing is left to give back.
            let _ = self.give_back();
        }
    }
}

/// Result of an injected call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The kernel's result, negative errors included.
    pub result: i64,
    /// The task that the call has made, as this process sees it. It is attached, and about to stop.
    pub new_task: Option<Tid>,
}

/// Runs the task to its next system call stop. Ignores late answers to an interrupt; returns the new task of an event.
fn run_to_syscall_stop(task: &Task) -> Result<Option<Tid>, TaskError> {
    let mut new_task = None;
    let mut signal = 0;
    loop {
        task.resume_to_syscall(signal)?;
        signal = match task.wait()? {
            Stop::Syscall => return Ok(new_task),
            Stop::Asked => 0,
            Stop::Event(_) => {
                new_task = Some(Tid::new(task.event_message()? as i32));
                0
            }
            Stop::Signal(signal) => passed_on(signal),
        };
    }
}

/// Returns the signal to pass on. SIGSTOP cannot be blocked: it is passed on, and the kernel carries out the stop when
/// the task is released.
fn passed_on(signal: i32) -> i32 {
    assert!(signal == libc::SIGSTOP, "signal {signal} came through though all are blocked");
    signal
}

impl Task {
    /// Makes one system call in a process under construction, at a `syscall` instruction of its vdso. The task must
    /// have all signals blocked. It does not heal: it dies with its tracer.
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
        self.set_registers(&base.calling(instruction, number, arguments))?;
        run_to_syscall_stop(self)?;
        let new_task = run_to_syscall_stop(self)?;
        Ok(Answer { result: self.registers()?.result(), new_task })
    }
}
