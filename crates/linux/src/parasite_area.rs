//! Ring 2: the place in a program from which system calls can be injected, found without changing the program.
//!
//! A parasite area is dead memory below a stack pointer, which holds a signal frame and the output of injected calls,
//! and 16 bytes of code in the zero padding at the end of the vdso. Both are restored afterwards: between checkpoints
//! the program contains nothing of ours. If we die before that, garbage stays where the program's own signal handlers
//! leave theirs, and the next parasite area finds and removes the 16 bytes.

use crate::arch::{CallRecord, Registers, SYSCALL_OFFSET, SigreturnFrame, healing_blob};
use crate::proc::Map;
use crate::{ProcessMemory, Task, TaskError, Tid};
use standfast_core::{Address, is_zero};
use std::io;

/// A place in a program from which calls are injected.
#[derive(Debug)]
pub struct ParasiteArea {
    top: u64,
    blob: u64,
    covered: Covered,
}

/// Memory that the parasite area borrows, with its old content.
#[derive(Debug)]
struct Covered {
    start: Address,
    bytes: Vec<u8>,
}

/// The reason why a program has no parasite area at this moment.
#[derive(Debug, thiserror::Error)]
pub enum ParasiteAreaError {
    /// No stack has enough room.
    #[error("no thread has {bytes} bytes of free stack")]
    NoStack {
        /// Number of bytes needed.
        bytes: u64,
    },
    /// There is no zero padding at the end of the vdso.
    #[error("the kernel's vdso has no padding to put 16 bytes of code into")]
    NoPadding,
    /// A task is still returning from an injection whose tracer died. It will finish in a moment.
    #[error("task {tid} is still returning from an interrupted checkpoint")]
    Healing {
        /// The task.
        tid: Tid,
    },
    /// The kernel refused a request.
    #[error("looking for a parasite area: {0}")]
    Kernel(#[from] io::Error),
    /// The same for a task.
    #[error(transparent)]
    Task(#[from] TaskError),
}

const BLOB_BYTES: u64 = 16;

impl ParasiteArea {
    /// Maximum number of calls injected at a time, including the one that reports their end.
    pub(crate) const CALLS_MAX: usize = 32;
    /// Maximum output of injected calls at a time.
    pub const OUTPUT_BYTES: usize = 1024;

    /// Finds a parasite area in a process whose tasks are all stopped. `extended_bytes` is the length of their XSAVE
    /// areas.
    ///
    /// # Errors
    /// When there is none at this moment.
    pub fn find(
        memory: &ProcessMemory,
        maps: &[Map],
        tasks: &[(&Task, Registers)],
        extended_bytes: usize,
    ) -> Result<Self, ParasiteAreaError> {
        let blob = padding_of_vdso(memory, maps)?;
        for (task, registers) in tasks {
            if (blob..blob + BLOB_BYTES).contains(&registers.instruction()) {
                return Err(ParasiteAreaError::Healing { tid: task.tid() });
            }
        }
        let below_frame = Self::CALLS_MAX * CallRecord::BYTES + Self::OUTPUT_BYTES;
        let bytes = SigreturnFrame::bytes_max(extended_bytes) + below_frame as u64;
        let registers = tasks.iter().map(|(_, registers)| registers);
        let (top, covered) = candidates(maps, registers, bytes)
            .find_map(|place| place.borrow(memory, bytes))
            .ok_or(ParasiteAreaError::NoStack { bytes })?;
        let parasite_area = Self { top, blob, covered };
        let (task, _) = tasks.first().expect("a process has a task");
        parasite_area.write_blob(task, healing_blob())?;
        Ok(parasite_area)
    }

    /// Restores the borrowed memory. Every remote task must have been released.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn give_back(self, memory: &ProcessMemory, task: &Task) -> Result<(), ParasiteAreaError> {
        memory.write(self.covered.start, &self.covered.bytes)?;
        self.write_blob(task, [0, 0])?;
        Ok(())
    }

    /// Restores the program's own memory in a copy of the process, which will never run.
    ///
    /// # Errors
    /// When the copy is gone.
    pub(crate) fn uncover(&self, copy: &ProcessMemory) -> io::Result<()> {
        copy.write(self.covered.start, &self.covered.bytes)
    }

    /// Returns the address of the `syscall` instruction in the code.
    pub(crate) fn syscall_instruction(&self) -> u64 {
        self.blob + SYSCALL_OFFSET
    }

    fn write_blob(&self, task: &Task, words: [u64; 2]) -> Result<(), TaskError> {
        task.poke(self.blob, words[0])?;
        task.poke(self.blob + 8, words[1])
    }

    /// Returns the address of the buffer for output of injected calls.
    pub fn output(&self) -> Address {
        self.covered.start
    }

    /// Returns the highest address of the borrowed stack.
    pub(crate) fn top(&self) -> u64 {
        self.top
    }

    /// Returns the address of the code.
    pub(crate) fn blob(&self) -> u64 {
        self.blob
    }
}

/// A possible place: dead memory ends at `top`.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    top: u64,
    /// Whether the bytes must be zero, since no stack pointer proves them dead.
    untouched: bool,
}

impl Candidate {
    fn borrow(self, memory: &ProcessMemory, bytes: u64) -> Option<(u64, Covered)> {
        let start = Address::new(self.top.checked_sub(bytes)?);
        let mut held = vec![0u8; bytes as usize];
        if memory.read(start, &mut held).is_err() {
            // The kernel's stack grows when memory below it is written; the new part reads as zero.
            held.fill(0);
            let grown = memory.write(start, &held[..8]).is_ok() && memory.read(start, &mut held).is_ok();
            return grown.then_some((self.top, Covered { start, bytes: held }));
        }
        let usable = !self.untouched || is_zero(&held);
        usable.then_some((self.top, Covered { start, bytes: held }))
    }
}

/// Returns possible places in order of safety. The first is below the stack pointer on the kernel's stack. The second
/// is below the stack pointer on the stack of a thread made by a C library, whose thread-local variables are in the
/// same mapping. The last is the untouched far end of the kernel's stack, for programs that run on stacks of their own
/// (Go).
fn candidates<'a>(
    maps: &'a [Map],
    registers: impl Iterator<Item = &'a Registers> + Clone + 'a,
    bytes: u64,
) -> impl Iterator<Item = Candidate> + 'a {
    let kernel_stack = maps.iter().find(|map| map.is_stack());
    let on_kernel_stack = registers
        .clone()
        .filter(move |task| kernel_stack.is_some_and(|stack| stack.contains(task.stack())))
        .map(Registers::stack_dead_below)
        .min();
    let on_thread_stack = registers.filter_map(move |task| {
        let map = maps.iter().find(|map| map.contains(task.stack()))?;
        let made_by_c_library = map.contains(task.thread_pointer()) && task.thread_pointer() > task.stack();
        let top = task.stack_dead_below();
        (made_by_c_library && map.protection.write && top.checked_sub(bytes)? >= map.start).then_some(top)
    });
    let far_end = kernel_stack.filter(|_| on_kernel_stack.is_none()).map(|stack| stack.start + bytes);
    let proved = on_kernel_stack.into_iter().chain(on_thread_stack).map(|top| Candidate { top, untouched: false });
    proved.chain(far_end.map(|top| Candidate { top, untouched: true }))
}

/// Returns the address of the last 16 bytes of the vdso, which must be zero, or hold (half of) our code from an earlier
/// tracer that died.
fn padding_of_vdso(memory: &ProcessMemory, maps: &[Map]) -> Result<u64, ParasiteAreaError> {
    let vdso = maps.iter().find(|map| map.path == b"[vdso]").ok_or(ParasiteAreaError::NoPadding)?;
    let place = vdso.end - BLOB_BYTES;
    let mut there = [0u8; BLOB_BYTES as usize];
    memory.read(Address::new(place), &mut there)?;
    let free = there.chunks(8).zip(healing_blob()).all(|(half, ours)| is_zero(half) || half == ours.to_le_bytes());
    if free { Ok(place) } else { Err(ParasiteAreaError::NoPadding) }
}
