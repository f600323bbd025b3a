//! Collects the switches of a process: what it has told the kernel about itself as a whole.

use super::process_snapshot::SupervisorBaseline;
use crate::EngineError;
use crate::objects::allocated_keys;
use crate::remote_caller::{Answers, Number, RemoteCallBatch, RemoteCaller, Words};
use standfast_core::{Address, PageRange};
use standfast_format::records::{MemoryLock, ProcessSwitches};
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::sys::process;
use standfast_linux::{PageScan, Pid, Populated};

const PR_GET_PDEATHSIG: u64 = abi::PR_GET_PDEATHSIG as u64;
const PR_GET_CHILD_SUBREAPER: u64 = abi::PR_GET_CHILD_SUBREAPER as u64;
const PR_GET_DUMPABLE: u64 = abi::PR_GET_DUMPABLE as u64;
const PR_GET_THP_DISABLE: u64 = 42;
const PR_GET_MDWE: u64 = 66;
const PR_GET_MEMORY_MERGE: u64 = 68;
/// `membarrier(2)`: asks for the registrations (Linux 6.3).
const GET_REGISTRATIONS: u64 = 1 << 9;
const REGISTER_GLOBAL: u32 = 1 << 2;
/// Commands that need a registration, each with the command that registers: expedited, with synchronized cores, with
/// restarted sequences.
const PRIVATE_BARRIERS: [(u64, u32); 3] = [(1 << 3, 1 << 4), (1 << 5, 1 << 6), (1 << 7, 1 << 8)];
/// The answer of an ordinary process to `PR_GET_DUMPABLE`.
const DUMPABLE: i64 = 1;
const PAGE: u64 = standfast_core::PAGE_BYTES as u64;

/// What the main thread is asked about the switches.
pub(super) struct Asked {
    subreaper: Words<1>,
    parent_death_signal: Words<1>,
    merge_memory: Number,
    deny_write_execute: Number,
    dumpable: Number,
    huge_pages: Number,
    barriers: Number,
}

impl Asked {
    pub(super) fn of(batch: &mut RemoteCallBatch) -> Self {
        let number = |batch: &mut RemoteCallBatch, option| batch.call(abi::SYS_prctl, [option, 0, 0, 0, 0, 0]);
        Self {
            subreaper: batch.ask(abi::SYS_prctl, |output| [PR_GET_CHILD_SUBREAPER, output, 0, 0]),
            parent_death_signal: ask_parent_death_signal(batch),
            merge_memory: number(batch, PR_GET_MEMORY_MERGE),
            deny_write_execute: number(batch, PR_GET_MDWE),
            dumpable: number(batch, PR_GET_DUMPABLE),
            huge_pages: number(batch, PR_GET_THP_DISABLE),
            barriers: batch.call(abi::SYS_membarrier, [GET_REGISTRATIONS, 0, 0, 0, 0, 0]),
        }
    }

    /// Returns its answers, and finds out what takes more than one question.
    pub(super) fn switches(
        &self,
        answers: &Answers,
        remote_caller: &RemoteCaller<'_>,
        status: &Status,
        supervisor_baseline: &SupervisorBaseline,
    ) -> Result<ProcessSwitches, EngineError> {
        let pid = status.process_ids.first().copied().ok_or(EngineError::Ended)?;
        // Older kernels do not know these calls, and answer with an error.
        let number = |question| answers.number(question).max(0) as u64;
        Ok(ProcessSwitches {
            protection_keys: allocated_keys(remote_caller)?,
            lock_future: match status.locked_kib {
                0 => MemoryLock::Unlocked,
                locked => lock_future(remote_caller, pid, locked)?,
            },
            subreaper: int(answers, self.subreaper)? != 0,
            no_huge_pages: status.no_huge_pages && !supervisor_baseline.status.no_huge_pages,
            merge_memory: number(self.merge_memory) != 0,
            deny_write_execute: number(self.deny_write_execute),
            oom_score_adjustment: supervisor_baseline.other_oom_score(pid),
            core_dump_filter: supervisor_baseline.other_core_dump_filter(pid),
            parent_death_signal: int(answers, self.parent_death_signal)?,
            // Without privileges, an undumpable process could not have been stopped.
            undumpable: Some(answers.number(self.dumpable))
                .filter(|answer| process::effective_user() == 0 && *answer != DUMPABLE)
                .map(|answer| answer as u32),
            memory_barriers: registered_barriers(remote_caller, answers.number(self.barriers))?,
            audit_login: proc::audit_login(pid),
            huge_pages_flags: huge_pages_flags(answers.number(self.huge_pages)),
        })
    }
}

/// Returns the flags in the answer to `PR_GET_THP_DISABLE`. Without flags, `/proc/PID/status` shows it as well.
fn huge_pages_flags(answer: i64) -> Option<u32> {
    const SWITCHED_OFF: u32 = 1;
    u32::try_from(answer).ok().map(|answer| answer & !SWITCHED_OFF).filter(|flags| *flags != 0)
}

/// Asks a thread for the signal that it gets when the parent ends.
pub(super) fn ask_parent_death_signal(batch: &mut RemoteCallBatch) -> Words<1> {
    batch.ask(abi::SYS_prctl, |output| [PR_GET_PDEATHSIG, output, 0, 0])
}

/// Returns an answer that is an int: the upper half of the word holds old contents.
pub(super) fn int(answers: &Answers, question: Words<1>) -> Result<u32, EngineError> {
    answers.words(question).map(|[word]| word as u32)
}

/// Returns for which memory barriers the process has registered; `answer` is what the kernel says. Before Linux 6.3 the
/// kernel does not say it, so each command that needs a registration is tried. It only orders the memory accesses of
/// frozen threads.
fn registered_barriers(remote_caller: &RemoteCaller<'_>, answer: i64) -> Result<Option<u32>, EngineError> {
    if answer >= 0 {
        return Ok(Some(answer as u32).filter(|registered| *registered != 0));
    }
    if answer != -i64::from(abi::EINVAL) {
        return Ok(None);
    }
    // Whether it takes part in the barriers of others cannot be tried; taking part needlessly is harmless.
    let mut registered = REGISTER_GLOBAL;
    for (command, registration) in PRIVATE_BARRIERS {
        if remote_caller.call(abi::SYS_membarrier, [command, 0, 0, 0, 0, 0])? == 0 {
            registered |= registration;
        }
    }
    Ok(Some(registered))
}

/// Determines whether memory mapped from now on is locked: maps a page, inspects it and unmaps it again. `locked_kib` is
/// what is locked without it.
fn lock_future(remote_caller: &RemoteCaller<'_>, pid: Pid, locked_kib: u64) -> Result<MemoryLock, EngineError> {
    const FLAGS: u64 = (abi::MAP_PRIVATE | abi::MAP_ANONYMOUS) as u64;
    const ACCESS: u64 = (abi::PROT_READ | abi::PROT_WRITE) as u64;
    let at = remote_caller.call(abi::SYS_mmap, [0, PAGE, ACCESS, FLAGS, u64::MAX, 0])?;
    if (-4095..0).contains(&at) {
        // No more memory may be locked, so that none can be mapped; or there is no room at all.
        return Ok(if at == -i64::from(abi::EAGAIN) { MemoryLock::Locked } else { MemoryLock::Unlocked });
    }
    let page = PageRange::new(Address::new(at as u64), 1);
    let mut filled = Vec::new();
    let looked = Status::of(pid).and_then(|status| {
        PageScan::open(pid)?.populated(page, Populated::Any, &mut filled)?;
        Ok(status.locked_kib > locked_kib)
    });
    remote_caller.call(abi::SYS_munmap, [at as u64, PAGE, 0, 0, 0, 0])?;
    Ok(match looked.map_err(|_| EngineError::Ended)? {
        false => MemoryLock::Unlocked,
        true if filled.is_empty() => MemoryLock::OnFault,
        true => MemoryLock::Locked,
    })
}
