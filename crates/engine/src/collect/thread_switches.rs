//! Collects the switches of the kernel that only a thread itself can ask for.

use crate::EngineError;
use crate::remote_caller::{Answers, Number, RemoteCallBatch, Words};
use standfast_format::records::ThreadRestrictions;
use standfast_linux::abi;
use standfast_linux::proc::Status;

const PR_GET_TIMERSLACK: u64 = abi::PR_GET_TIMERSLACK as u64;
const PR_GET_PDEATHSIG: u64 = abi::PR_GET_PDEATHSIG as u64;
const PR_GET_TSC: u64 = abi::PR_GET_TSC as u64;
const PR_TSC_SIGSEGV: u64 = abi::PR_TSC_SIGSEGV as u64;
const PR_MCE_KILL_GET: u64 = abi::PR_MCE_KILL_GET as u64;
const PR_MCE_KILL_DEFAULT: u32 = abi::PR_MCE_KILL_DEFAULT as u32;
const PR_GET_KEEPCAPS: u64 = 7;
const PR_GET_IO_FLUSHER: u64 = 58;
/// `personality(2)`: changes nothing.
const GET_PERSONALITY: u64 = 0xffff_ffff;
/// `arch_prctl(2)`: whether the program may use the CPUID instruction.
const ARCH_GET_CPUID: u64 = 0x1011;

/// What only a thread itself can ask.
pub(super) struct Asked {
    /// Not of the main thread, which is asked for its process.
    parent_death_signal: Option<Words<1>>,
    timer_slack: Number,
    time_stamps: Words<1>,
    cpuid: Number,
    memory_failure: Number,
    io_flusher: Number,
    keep_capabilities: Number,
    personality: Number,
}

impl Asked {
    pub(super) fn of(batch: &mut RemoteCallBatch, place: usize) -> Self {
        let ask = |batch: &mut RemoteCallBatch, option| batch.ask(abi::SYS_prctl, |output| [option, output, 0, 0]);
        Self {
            parent_death_signal: (place > 0).then(|| ask(batch, PR_GET_PDEATHSIG)),
            timer_slack: batch.call(abi::SYS_prctl, [PR_GET_TIMERSLACK, 0, 0, 0, 0, 0]),
            time_stamps: ask(batch, PR_GET_TSC),
            cpuid: batch.call(abi::SYS_arch_prctl, [ARCH_GET_CPUID, 0, 0, 0, 0, 0]),
            memory_failure: batch.call(abi::SYS_prctl, [PR_MCE_KILL_GET, 0, 0, 0, 0, 0]),
            io_flusher: batch.call(abi::SYS_prctl, [PR_GET_IO_FLUSHER, 0, 0, 0, 0, 0]),
            keep_capabilities: batch.call(abi::SYS_prctl, [PR_GET_KEEPCAPS, 0, 0, 0, 0, 0]),
            personality: batch.call(abi::SYS_personality, [GET_PERSONALITY, 0, 0, 0, 0, 0]),
        }
    }

    pub(super) fn timer_slack(&self, answers: &Answers) -> u64 {
        answers.number(self.timer_slack).max(0) as u64
    }

    pub(super) fn personality(&self, answers: &Answers) -> Option<u32> {
        u32::try_from(answers.number(self.personality)).ok()
    }

    pub(super) fn restrictions(&self, answers: &Answers, status: &Status) -> Result<ThreadRestrictions, EngineError> {
        // An int: the upper half of the word holds old contents.
        let [stamps] = answers.words(self.time_stamps)?;
        Ok(ThreadRestrictions {
            no_new_privileges: status.no_new_privileges,
            no_time_stamp_counter: stamps & u64::from(u32::MAX) == PR_TSC_SIGSEGV,
            no_cpuid: answers.number(self.cpuid) == 0,
            store_bypass: status.store_bypass,
            indirect_branch: status.indirect_branch,
            memory_failure: u32::try_from(answers.number(self.memory_failure))
                .ok()
                .filter(|it| *it < PR_MCE_KILL_DEFAULT),
            // Only a privileged process may ask, and be one.
            io_flusher: (answers.number(self.io_flusher) == 1).then_some(true),
            capabilities: None,
            parent_death_signal: self
                .parent_death_signal
                .map(|question| answers.words(question).map(|[word]| word as u32))
                .transpose()?
                .filter(|signal| *signal != 0),
            keep_capabilities: (answers.number(self.keep_capabilities) == 1).then_some(true),
        })
    }
}
