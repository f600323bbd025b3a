//! Collects the switches of a process. Most of them are in the tables; the others take more than one question.

use super::{FILES, SWITCHES};
use crate::EngineError;
use crate::objects::protection_keys::allocated_keys;
use crate::objects::switch::AskedSwitches;
use crate::remote_caller::{Answers, Number, RemoteCallBatch, RemoteCaller};
use standfast_core::{Address, PageRange};
use standfast_format::records::{MemoryLock, ProcessSwitches};
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::{PageScan, Pid, Populated};

/// `membarrier(2)`: asks for the registrations (Linux 6.3).
const GET_REGISTRATIONS: u64 = 1 << 9;
const REGISTER_GLOBAL: u32 = 1 << 2;
/// Commands that need a registration, each with the command that registers: expedited, with synchronized cores, with
/// restarted sequences.
const PRIVATE_BARRIERS: [(u64, u32); 3] = [(1 << 3, 1 << 4), (1 << 5, 1 << 6), (1 << 7, 1 << 8)];
const PAGE: u64 = standfast_core::PAGE_BYTES as u64;

/// The switches of this process: a program inherits them.
#[derive(Debug)]
pub(crate) struct ProcessSwitchesBaseline {
    no_huge_pages: bool,
    /// The contents of each of [`FILES`].
    files: Vec<Vec<u8>>,
}

impl ProcessSwitchesBaseline {
    /// `status` is that of this process.
    pub(crate) fn of(own: Pid, status: &Status) -> Self {
        let files = FILES.iter().map(|file| proc::read(own, file.name).unwrap_or_default()).collect();
        Self { no_huge_pages: status.no_huge_pages, files }
    }
}

/// What the main thread is asked about the switches.
pub(crate) struct AskedProcessSwitches {
    switches: AskedSwitches<ProcessSwitches>,
    barriers: Number,
}

impl AskedProcessSwitches {
    pub(crate) fn of(batch: &mut RemoteCallBatch) -> Self {
        Self {
            switches: AskedSwitches::of(batch, SWITCHES),
            barriers: batch.call(abi::SYS_membarrier, [GET_REGISTRATIONS, 0, 0, 0, 0, 0]),
        }
    }

    /// Returns its answers, and finds out what takes more than one question.
    pub(crate) fn switches(
        &self,
        answers: &Answers,
        remote_caller: &RemoteCaller<'_>,
        status: &Status,
        own: &ProcessSwitchesBaseline,
    ) -> Result<ProcessSwitches, EngineError> {
        let pid = status.process_ids.first().copied().ok_or(EngineError::Ended)?;
        let mut switches = ProcessSwitches {
            protection_keys: allocated_keys(remote_caller)?,
            lock_future: match status.locked_kib {
                0 => MemoryLock::Unlocked,
                locked => lock_future(remote_caller, pid, locked)?,
            },
            memory_barriers: registered_barriers(remote_caller, answers.number(self.barriers))?,
            audit_login: proc::audit_login(pid),
            ..ProcessSwitches::default()
        };
        self.switches.note(&mut switches, answers, status)?;
        switches.no_huge_pages &= !own.no_huge_pages;
        for (file, own) in FILES.iter().zip(&own.files) {
            if let Some(theirs) = proc::read(pid, file.name).ok().filter(|theirs| theirs != own) {
                (file.note)(&mut switches, String::from_utf8_lossy(&theirs).trim());
            }
        }
        Ok(switches)
    }
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
