//! Makes a thread of a process under construction under its old id, gives it what the kernel keeps for it, and last its
//! registers.

use super::switches::{OF_OTHER_THREADS, RESTRICTIONS, SETTINGS};
use crate::EngineError;
use crate::construction::{Construction, building};
use crate::error::kernel;
use standfast_core::Address;
use standfast_format::records::ThreadState;
use standfast_linux::abi;
use standfast_linux::{Registers, Stop, Task, Tid};

/// Flags that make a task a thread of its maker.
const THREAD: i32 = abi::CLONE_VM
    | abi::CLONE_FS
    | abi::CLONE_FILES
    | abi::CLONE_SIGHAND
    | abi::CLONE_THREAD
    | abi::CLONE_SYSVSEM
    | abi::CLONE_SETTLS;
const CLONE_CHILD_CLEARTID: u64 = abi::CLONE_CHILD_CLEARTID as u64;
const PR_SET_NAME: u64 = abi::PR_SET_NAME as u64;
const SS_ONSTACK: u32 = abi::SS_ONSTACK as u32;
const SS_DISABLE: u32 = abi::SS_DISABLE as u32;

impl Construction {
    /// Makes a thread, and returns its id as the program sees it.
    pub(crate) fn make_thread(&mut self, thread: &ThreadState) -> Result<u64, EngineError> {
        if let Some(init) = &self.init {
            init.choose_next_id(thread.tid).map_err(|source| kernel("choosing a thread id", source))?;
        }
        let clear = if thread.clear_child_tid == 0 { 0 } else { CLONE_CHILD_CLEARTID };
        let pointer = Registers(registers(thread)).thread_pointer();
        let arguments = [THREAD as u64 | clear, self.scratch, 0, thread.clear_child_tid, pointer, 0];
        let answer = self.ask(self.main(), &self.base, "making a thread", abi::SYS_clone, arguments)?;
        let inner_id = answer.result as u64;
        if self.init.is_some() && inner_id != thread.tid as u64 {
            let reason = std::io::Error::other(format!("got {inner_id} instead of {}", thread.tid));
            return Err(kernel("choosing a thread id", reason));
        }
        let missing = || kernel("making a thread", std::io::Error::other("the kernel did not attach it"));
        let task = Task::attached_by_clone(self.pid(), answer.new_task.ok_or_else(missing)?);
        match task.wait().map_err(building)? {
            Stop::Asked => {}
            stop => return Err(kernel("making a thread", std::io::Error::other(format!("unexpected stop {stop:?}")))),
        }
        self.tasks.push(task);
        Ok(inner_id)
    }

    /// Corrects a cached thread id. A C library keeps the id in the word that the kernel clears at the thread's end.
    pub(crate) fn correct_cached_id(&self, thread: &ThreadState, inner_id: Tid) -> Result<(), EngineError> {
        if thread.clear_child_tid == 0 || inner_id.get() == thread.tid {
            return Ok(());
        }
        let writing = |source| kernel("putting a thread id right", source);
        let at = Address::new(thread.clear_child_tid);
        let mut word = [0u8; 4];
        self.memory.read(at, &mut word).map_err(writing)?;
        if i32::from_le_bytes(word) == thread.tid {
            self.memory.write(at, &inner_id.get().to_le_bytes()).map_err(writing)?;
        }
        Ok(())
    }

    /// Sets what the kernel keeps for the thread at `place`.
    pub(crate) fn set_kernel_state(&mut self, place: usize, thread: &ThreadState) -> Result<(), EngineError> {
        let task = &self.tasks[place];
        let base = task.registers().map_err(building)?;
        let call = |action: &str, number: i64, arguments: [u64; 6]| {
            self.call_in(task, &base, action, number, arguments).map(drop)
        };
        let robust = &thread.robust_list;
        if robust.head != 0 {
            call("setting a robust list", abi::SYS_set_robust_list, [robust.head, robust.length, 0, 0, 0, 0])?;
        }
        if let Some(sequence) = &thread.restartable_sequence {
            self.register_sequence(task, &base, sequence)?;
        }
        let stack = &thread.alternate_stack;
        // Without a stack, another flag may be set.
        if stack.flags != SS_DISABLE {
            let words = [stack.start, (stack.flags & !SS_ONSTACK).into(), stack.length];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            call("setting an alternate stack", abi::SYS_sigaltstack, [self.argument(&bytes)?, 0, 0, 0, 0, 0])?;
        }
        call("naming a thread", abi::SYS_prctl, [PR_SET_NAME, self.path_argument(&thread.name.0)?, 0, 0, 0, 0])?;
        self.set_recorded(place, SETTINGS, thread)
    }

    /// Applies the restrictions that the thread at `place` has put on itself.
    pub(crate) fn restrict(&mut self, place: usize, thread: &ThreadState) -> Result<(), EngineError> {
        self.set_recorded(place, RESTRICTIONS, &thread.restrictions)?;
        self.set_recorded(place, OF_OTHER_THREADS, &thread.restrictions)
    }

    /// Gives the thread at `place` its own registers and mask. It makes no calls for us any more.
    pub(crate) fn set_registers(&mut self, place: usize, thread: &ThreadState) -> Result<(), EngineError> {
        let (process, task) = (self.pid(), &self.tasks[place]);
        // A processor with more registers keeps them after those that were saved; zeros there mean unused.
        let mut extended = task.extended_registers().map_err(building)?;
        let saved = &thread.extended_registers.0;
        extended.fill(0);
        extended.resize(extended.len().max(saved.len()), 0);
        extended[..saved.len()].copy_from_slice(saved);
        task.set_extended_registers(&extended).map_err(building)?;
        let mut registers = Registers(registers(thread));
        if let Some(wait) = &thread.wait {
            self.waits.resume(process, task.tid(), &mut registers, wait);
        }
        task.set_registers(&registers).map_err(building)?;
        task.set_signal_mask(thread.signal_mask).map_err(building)
    }
}

fn registers(thread: &ThreadState) -> [u64; 27] {
    thread.registers.as_slice().try_into().expect("the plan has checked the number of registers")
}
