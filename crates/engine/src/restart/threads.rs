//! Threads of a process under construction: created under their old ids, given what the kernel keeps for each, and last
//! their registers. Then every thread is as it was, and nothing of ours is in the process any more.

use super::plan::Plan;
use crate::EngineError;
use crate::construction::{Construction, building};
use crate::error::kernel;
use standfast_core::Address;
use standfast_format::records::{ThreadRestrictions, ThreadState};
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
const PR_SET_TIMERSLACK: u64 = abi::PR_SET_TIMERSLACK as u64;
const PR_SET_NO_NEW_PRIVS: u64 = abi::PR_SET_NO_NEW_PRIVS as u64;
const PR_SET_SPECULATION_CTRL: u64 = 53;
const PR_SPEC_STORE_BYPASS: u64 = 0;
const PR_SPEC_INDIRECT_BRANCH: u64 = 1;
const PR_SET_TSC: u64 = abi::PR_SET_TSC as u64;
const PR_TSC_SIGSEGV: u64 = abi::PR_TSC_SIGSEGV as u64;
const PR_MCE_KILL: u64 = abi::PR_MCE_KILL as u64;
const PR_MCE_KILL_SET: u64 = abi::PR_MCE_KILL_SET as u64;
const PR_SET_PDEATHSIG: u64 = abi::PR_SET_PDEATHSIG as u64;
const PR_SET_KEEPCAPS: u64 = 8;
const PR_SET_IO_FLUSHER: u64 = 57;
/// `arch_prctl(2)`.
const ARCH_SET_CPUID: u64 = 0x1012;
const SS_ONSTACK: u32 = abi::SS_ONSTACK as u32;
const SS_DISABLE: u32 = abi::SS_DISABLE as u32;

impl Construction {
    pub(super) fn make_threads(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        // Returns the main thread's id as the program sees it, which is also the process's.
        let clear = plan.process.threads[0].clear_child_tid;
        let own_pid = self.call("setting up the main thread", abi::SYS_set_tid_address, [clear, 0, 0, 0, 0, 0])?;
        self.ask_for_features(plan.process.permitted_features)?;
        for (place, thread) in plan.process.threads.iter().enumerate() {
            let own_tid = if place == 0 { own_pid } else { self.make_thread(thread)? };
            let inner_id = Tid::new(own_tid as i32);
            self.inner_ids.push(inner_id);
            self.correct_cached_id(thread, inner_id)?;
            self.dress(&self.tasks[place], thread)?;
            self.make_room_for_state(&self.tasks[place], thread)?;
            self.choose_nodes(place, thread)?;
        }
        // Only now: a new thread has the restrictions of the main thread.
        let mut each = self.tasks.iter().zip(&plan.process.threads);
        each.try_for_each(|(task, thread)| self.restrict(task, &thread.restrictions))
    }

    /// Returns its id as the program sees it.
    fn make_thread(&mut self, thread: &ThreadState) -> Result<u64, EngineError> {
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
    fn correct_cached_id(&self, thread: &ThreadState, inner_id: Tid) -> Result<(), EngineError> {
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

    /// Sets what the kernel keeps for a thread.
    fn dress(&self, task: &Task, thread: &ThreadState) -> Result<(), EngineError> {
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
        let slack = thread.timer_slack_nanoseconds;
        if slack != 0 {
            call("setting timer slack", abi::SYS_prctl, [PR_SET_TIMERSLACK, slack, 0, 0, 0, 0])?;
        }
        if let Some(personality) = thread.personality {
            call("setting a thread's execution domain", abi::SYS_personality, [personality.into(), 0, 0, 0, 0, 0])?;
        }
        call("naming a thread", abi::SYS_prctl, [PR_SET_NAME, self.path_argument(&thread.name.0)?, 0, 0, 0, 0])?;
        Ok(())
    }

    /// Applies the restrictions that a thread has put on itself.
    fn restrict(&self, task: &Task, wishes: &ThreadRestrictions) -> Result<(), EngineError> {
        let base = task.registers().map_err(building)?;
        let call = |action: &str, number: i64, arguments: [u64; 3]| {
            let [a, b, c] = arguments;
            self.call_in(task, &base, action, number, [a, b, c, 0, 0, 0]).map(drop)
        };
        if wishes.no_new_privileges {
            call("giving up new privileges", abi::SYS_prctl, [PR_SET_NO_NEW_PRIVS, 1, 0])?;
        }
        let speculation =
            [(PR_SPEC_STORE_BYPASS, wishes.store_bypass), (PR_SPEC_INDIRECT_BRANCH, wishes.indirect_branch)];
        for (kind, wish) in speculation.into_iter().filter(|(_, wish)| *wish != 0) {
            // A processor that needs no mitigation refuses, which is just as good.
            let _ = call("restricting speculation", abi::SYS_prctl, [PR_SET_SPECULATION_CTRL, kind, wish.into()]);
        }
        if wishes.no_time_stamp_counter {
            call("forbidding the time stamp counter", abi::SYS_prctl, [PR_SET_TSC, PR_TSC_SIGSEGV, 0])?;
        }
        if wishes.no_cpuid {
            call("forbidding cpuid", abi::SYS_arch_prctl, [ARCH_SET_CPUID, 0, 0])?;
        }
        if let Some(when) = wishes.memory_failure {
            let arguments = [PR_MCE_KILL, PR_MCE_KILL_SET, when.into()];
            call("choosing what a memory failure does", abi::SYS_prctl, arguments)?;
        }
        if wishes.io_flusher == Some(true) {
            call("marking a thread as flusher (PR_SET_IO_FLUSHER)", abi::SYS_prctl, [PR_SET_IO_FLUSHER, 1, 0])?;
        }
        if wishes.keep_capabilities == Some(true) {
            call("keeping capabilities (PR_SET_KEEPCAPS)", abi::SYS_prctl, [PR_SET_KEEPCAPS, 1, 0])?;
        }
        if let Some(signal) = wishes.parent_death_signal {
            let arguments = [PR_SET_PDEATHSIG, signal.into(), 0];
            call("asking for a signal at the end of the parent", abi::SYS_prctl, arguments)?;
        }
        Ok(())
    }

    /// Gives every thread its own registers and mask. From here on the process is the program's.
    pub(super) fn finish_threads(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        self.set_scheduling(&plan.process.threads);
        self.set_timers(&plan.process.timers)?;
        self.seal_mappings(plan)?;
        self.set_switches(&plan.process.switches)?;
        self.give_up_capabilities(&plan.process.threads)?;
        self.unmap_scratch()?;
        self.set_limits(&plan.process.limits)?;
        for (task, thread) in self.tasks.iter().zip(&plan.process.threads) {
            // A processor with more registers keeps them after those that were saved; zeros there mean unused.
            let mut extended = task.extended_registers().map_err(building)?;
            let saved = &thread.extended_registers.0;
            extended.fill(0);
            extended.resize(extended.len().max(saved.len()), 0);
            extended[..saved.len()].copy_from_slice(saved);
            task.set_extended_registers(&extended).map_err(building)?;
            let mut registers = Registers(registers(thread));
            if let Some(wait) = &thread.wait {
                self.waits.resume(self.tasks[0].process(), task.tid(), &mut registers, wait);
            }
            task.set_registers(&registers).map_err(building)?;
            task.set_signal_mask(thread.signal_mask).map_err(building)?;
        }
        Ok(())
    }
}

fn registers(thread: &ThreadState) -> [u64; 27] {
    thread.registers.as_slice().try_into().expect("the plan has checked the number of registers")
}
