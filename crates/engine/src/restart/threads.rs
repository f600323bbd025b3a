//! The order in which the threads of a process under construction are made and get what is theirs. Afterwards every thread
//! is as it was, and nothing of ours is in the process any more.

use super::plan::Plan;
use crate::EngineError;
use crate::construction::Construction;
use standfast_linux::Tid;
use standfast_linux::abi;

impl Construction {
    pub(super) fn make_threads(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let threads = &plan.process.threads;
        // Returns the main thread's id as the program sees it, which is also the process's.
        let clear = threads[0].clear_child_tid;
        let own_pid = self.call("setting up the main thread", abi::SYS_set_tid_address, [clear, 0, 0, 0, 0, 0])?;
        self.ask_for_features(plan.process.permitted_features)?;
        for (place, thread) in threads.iter().enumerate() {
            let own_tid = if place == 0 { own_pid } else { self.make_thread(thread)? };
            let inner_id = Tid::new(own_tid as i32);
            self.inner_ids.push(inner_id);
            self.correct_cached_id(thread, inner_id)?;
            self.set_kernel_state(place, thread)?;
            self.make_room_for_state(&self.tasks[place], thread)?;
            self.choose_nodes(place, thread)?;
        }
        // Only now: a new thread has the restrictions of the main thread.
        threads.iter().enumerate().try_for_each(|(place, thread)| self.restrict(place, thread))
    }

    /// Gives every thread its own registers and mask. From here on the process is the program's.
    pub(super) fn finish_threads(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let threads = &plan.process.threads;
        self.set_scheduling(threads);
        self.set_timers(&plan.process.timers)?;
        self.seal_mappings(plan)?;
        self.set_switches(&plan.process.switches)?;
        self.give_up_capabilities(threads)?;
        self.unmap_scratch()?;
        self.set_limits(&plan.process.limits)?;
        threads.iter().enumerate().try_for_each(|(place, thread)| self.set_registers(place, thread))
    }
}
