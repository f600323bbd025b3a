//! Collects a thread: what the kernel keeps for it, by injected calls that it makes itself, and its registers.

use super::switches::{OF_OTHER_THREADS, RESTRICTIONS, SETTINGS};
use crate::freeze::FrozenTask;
use crate::objects::numa_policy::AskedNumaPolicy;
use crate::objects::scheduling::{SchedulingBaseline, collect_scheduling};
use crate::objects::switch::AskedSwitches;
use crate::remote_caller::{Answers, RemoteCallBatch, RemoteCaller, Words};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{AlternateStack, Bytes, RobustList, Scheduling, ThreadRestrictions, ThreadState};
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::sys::process;
use standfast_linux::{Abort, Registers};

const PR_GET_TID_ADDRESS: u64 = abi::PR_GET_TID_ADDRESS as u64;

/// What a thread is asked for itself.
pub(crate) struct AskedThread {
    clear_child_tid: Words<1>,
    alternate_stack: Words<3>,
    settings: AskedSwitches<ThreadState>,
    restrictions: AskedSwitches<ThreadRestrictions>,
    numa: AskedNumaPolicy,
}

impl AskedThread {
    /// Adds the questions for the thread at `place`.
    pub(crate) fn of(batch: &mut RemoteCallBatch, place: usize) -> Self {
        let of_others = if place > 0 { OF_OTHER_THREADS } else { &[] };
        Self {
            clear_child_tid: batch.ask(abi::SYS_prctl, |output| [PR_GET_TID_ADDRESS, output, 0, 0]),
            alternate_stack: batch.ask(abi::SYS_sigaltstack, |output| [0, output, 0, 0]),
            settings: AskedSwitches::of(batch, SETTINGS),
            restrictions: AskedSwitches::of(batch, RESTRICTIONS.iter().chain(of_others)),
            numa: AskedNumaPolicy::of(batch),
        }
    }

    /// Returns the record of a thread, without its pending signals, restartable sequences and capabilities.
    pub(crate) fn thread(
        &self,
        remote_caller: &RemoteCaller<'_>,
        answers: &Answers,
        task: &FrozenTask,
        status: &Status,
        own: &SchedulingBaseline,
    ) -> Result<ThreadState, EngineError> {
        let tid = task.task.tid();
        let gone = |_| EngineError::Ended;
        let [clear_child_tid] = answers.words(self.clear_child_tid)?;
        // stack_t: address, flags (an int and padding), length.
        let [start, flags, length] = answers.words(self.alternate_stack)?;
        let (head, head_length) = process::robust_list(tid).map_err(gone)?;
        let name = proc::read(task.task.process(), &format!("task/{tid}/comm")).map_err(gone)?;
        let mut thread = ThreadState {
            tid: status.ids.last().copied().unwrap_or(tid).get(),
            registers: registers(task)?.0.to_vec(),
            extended_registers: Bytes::from(remote_caller.extended()),
            signal_mask: task.mask,
            pending: Vec::new(),
            alternate_stack: AlternateStack { start, flags: flags as u32, length },
            clear_child_tid,
            robust_list: RobustList { head, length: head_length },
            restartable_sequence: None,
            name: Bytes::from(name.strip_suffix(b"\n").unwrap_or(&name)),
            scheduling: Scheduling::default(),
            affinity: None,
            io_priority: 0,
            timer_slack_nanoseconds: 0,
            restrictions: ThreadRestrictions::default(),
            wait: task.interrupted.wait(),
            numa: self.numa.policy(answers),
            personality: None,
        };
        self.settings.note(&mut thread, answers, status)?;
        self.restrictions.note(&mut thread.restrictions, answers, status)?;
        collect_scheduling(tid, own, &mut thread).map_err(gone)?;
        Ok(thread)
    }
}

/// Returns the registers for the image. Of an interrupted call, they keep only what a new process can repeat.
fn registers(task: &FrozenTask) -> Result<Registers, EngineError> {
    match (task.registers.pending_restart(), task.interrupted.call) {
        (Abort::None, _) => Ok(task.registers),
        (Abort::Restart { .. }, Some(number)) => Ok(task.registers.without_restart_block(number)),
        (Abort::Restart { .. }, None) => Err(EngineError::Refused(vec![
            Blocker::new(
                RefusalCode::SystemCall,
                format!("thread {}", task.task.tid()),
                "it waits in a system call whose number the kernel no longer reports",
            )
            .with_hint("wait until the call has returned")
            .for_now(),
        ])),
    }
}
