//! Settings that a process has made in the kernel about its memory and about itself, made again. Nothing that a program
//! computes depends on most of them: settings that are not allowed here are reported, and the program continues without
//! them.

use super::address_space::{access, while_filling};
use super::plan::Plan;
use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use crate::objects::execute_only_key;
use standfast_core::PAGE_BYTES;
use standfast_format::records::{Advice, Mapping, MemoryLock, ProcessSwitches};
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::sys::process;
use std::io;

const PR_SET_VMA: u64 = 0x5356_4d41;
const PR_SET_VMA_ANON_NAME: u64 = 0;
const PR_SET_PDEATHSIG: u64 = abi::PR_SET_PDEATHSIG as u64;
const PR_SET_CHILD_SUBREAPER: u64 = abi::PR_SET_CHILD_SUBREAPER as u64;
const PR_SET_DUMPABLE: u64 = abi::PR_SET_DUMPABLE as u64;
const PR_SET_THP_DISABLE: u64 = abi::PR_SET_THP_DISABLE as u64;
const PR_SET_MDWE: u64 = 65;
const PR_SET_MEMORY_MERGE: u64 = 67;
const MADV_GUARD_INSTALL: u64 = 102;
const MLOCK_ONFAULT: u64 = 1;
const MCL_FUTURE: u64 = 2;
const MCL_ONFAULT: u64 = 4;
/// mseal(2), Linux 6.10.
const SYS_MSEAL: i64 = 462;
const O_WRONLY: u64 = abi::O_WRONLY as u64;
/// The field of the record for what this file sets of a whole process.
const SWITCHES: &str = "processes.switches";

impl Construction {
    /// Gives advice that must be known before a mapping is filled; all of it stays with the mapping.
    pub(super) fn advise(&mut self, mapping: &Mapping) -> Result<(), EngineError> {
        // A droppable mapping has its advice from the start.
        let advice = if mapping.attributes.droppable { &[] } else { &mapping.attributes.advice[..] };
        let (start, bytes) = (mapping.start, mapping.end - mapping.start);
        for advice in advice {
            let given = self.call("advising on memory", abi::SYS_madvise, [start, bytes, number_of(*advice), 0, 0, 0]);
            match (given, advice) {
                // A program that forks may rely on these.
                (Err(error), Advice::DontFork | Advice::WipeOnFork) => return Err(error),
                (Err(error), _) => self.go_without("processes.mappings.attributes.advice", "advice on memory", &error),
                (Ok(_), _) => {}
            }
        }
        self.choose_nodes_of_mapping(mapping)?;
        if let Some(name) = &mapping.attributes.name {
            let name = self.path_argument(&name.0)?;
            // A kernel without names shows none.
            let _ =
                self.call("naming memory", abi::SYS_prctl, [PR_SET_VMA, PR_SET_VMA_ANON_NAME, start, bytes, name, 0]);
        }
        Ok(())
    }

    /// Guards pages, once all others are filled.
    pub(super) fn guard(&self, plan: &Plan<'_>) -> Result<(), EngineError> {
        for guard in plan.process.mappings.iter().flat_map(|mapping| &mapping.attributes.guards) {
            let arguments = [guard.start, guard.pages * PAGE_BYTES as u64, MADV_GUARD_INSTALL, 0, 0, 0];
            self.call("guarding pages (Linux 6.13)", abi::SYS_madvise, arguments)?;
        }
        Ok(())
    }

    /// Locks memory that must stay resident.
    pub(super) fn lock(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let locked = |mapping: &&Mapping| mapping.attributes.lock != MemoryLock::Unlocked;
        let mappings: Vec<_> = plan.process.mappings.iter().filter(locked).collect();
        if mappings.is_empty() {
            return Ok(());
        }
        let limit = process::limit(self.pid(), abi::RLIMIT_MEMLOCK);
        limit
            .and_then(|(_, hard)| process::set_limit(self.pid(), abi::RLIMIT_MEMLOCK, hard, hard))
            .map_err(|source| kernel("setting limits", source))?;
        let mut bytes = 0;
        for mapping in mappings {
            let length = mapping.end - mapping.start;
            let flags = if mapping.attributes.lock == MemoryLock::OnFault { MLOCK_ONFAULT } else { 0 };
            // This returns ENOMEM even if only some pages cannot be touched; the check below shows the result.
            let _ = self.call("locking memory", abi::SYS_mlock2, [mapping.start, length, flags, 0, 0, 0]);
            // Huge pages of the pool are in memory anyway, and do not count.
            bytes += if mapping.attributes.huge_page_bytes == 0 { length } else { 0 };
        }
        let status = Status::of(self.pid()).map_err(|source| kernel("looking at the new process", source))?;
        if status.locked_kib < bytes >> 10 {
            let error = io::Error::other(format!("{} of {} KiB, see ulimit -l", status.locked_kib, bytes >> 10));
            self.go_without("processes.mappings.attributes.lock", "memory that may not be swapped out", &error);
        }
        Ok(())
    }

    /// Gives every mapping its recorded access, now that it is filled, and its protection key.
    pub(super) fn protect(&self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let mappings = &plan.process.mappings;
        let of_kernel = execute_only_key(mappings);
        let spare = self.allocate_keys(plan.process.switches.protection_keys)?;
        // The kernel takes the first free key for memory that can only be executed.
        of_kernel.map_or(Ok(()), |key| self.free_key(key))?;
        for mapping in mappings {
            let key = mapping.attributes.protection_key;
            let bytes = mapping.end - mapping.start;
            let wanted = access(mapping.protection);
            if key != 0 && Some(key) != of_kernel {
                let arguments = [mapping.start, bytes, wanted, key.into(), 0, 0];
                self.call("protecting memory with a key", abi::SYS_pkey_mprotect, arguments)?;
            } else if access(while_filling(mapping)) != wanted {
                self.call("protecting memory", abi::SYS_mprotect, [mapping.start, bytes, wanted, 0, 0, 0])?;
            }
        }
        spare.into_iter().try_for_each(|key| self.free_key(key))
    }

    /// Seals mappings: nothing about them can be changed any more.
    pub(super) fn seal_mappings(&self, plan: &Plan<'_>) -> Result<(), EngineError> {
        for mapping in plan.process.mappings.iter().filter(|mapping| mapping.attributes.sealed) {
            self.call("sealing memory", SYS_MSEAL, [mapping.start, mapping.end - mapping.start, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// Sets switches of the process as a whole, in the last step but one that its main thread performs for us.
    pub(super) fn set_switches(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let switches = &plan.process.switches;
        let set = |option: u64, value: u64| {
            self.call("setting a switch of the process", abi::SYS_prctl, [option, value, 0, 0, 0, 0]).map(drop)
        };
        if switches.subreaper {
            set(PR_SET_CHILD_SUBREAPER, 1)?;
        }
        let huge_pages = self.switch_off_huge_pages(switches);
        if switches.parent_death_signal != 0 {
            set(PR_SET_PDEATHSIG, switches.parent_death_signal.into())?;
        }
        let merging = if switches.merge_memory { set(PR_SET_MEMORY_MERGE, 1) } else { Ok(()) };
        if switches.deny_write_execute != 0 {
            set(PR_SET_MDWE, switches.deny_write_execute)?;
        }
        self.register_barriers(switches.memory_barriers.unwrap_or_default())?;
        if let Some(wanted) = switches.undumpable {
            set(PR_SET_DUMPABLE, wanted.into())?;
        }
        if switches.lock_future != MemoryLock::Unlocked {
            let on_fault = if switches.lock_future == MemoryLock::OnFault { MCL_ONFAULT } else { 0 };
            self.call("locking memory", abi::SYS_mlockall, [MCL_FUTURE | on_fault, 0, 0, 0, 0, 0])?;
        }
        if let Err(error) = merging {
            self.go_without(SWITCHES, "merging of equal pages", &error);
        }
        if let Err(error) = huge_pages {
            self.go_without(SWITCHES, "choice of huge pages", &error);
        }
        let written = [
            ("out-of-memory score", "oom_score_adj", switches.oom_score_adjustment.map(|value| value.to_string())),
            ("choice of what a core dump holds", "coredump_filter", switches.core_dump_filter.map(|it| it.to_string())),
        ];
        for (what, file, value) in written {
            let Some(value) = value else { continue };
            if let Err(error) = std::fs::write(format!("/proc/{}/{file}", self.pid()), value) {
                self.go_without(SWITCHES, what, &error);
            }
        }
        Ok(())
    }

    /// Switches huge pages off, or off where the program has not advised to use them (Linux 6.18).
    fn switch_off_huge_pages(&self, switches: &ProcessSwitches) -> Result<(), EngineError> {
        let flags = switches.huge_pages_flags.unwrap_or_default();
        if !switches.no_huge_pages && flags == 0 {
            return Ok(());
        }
        let arguments = [PR_SET_THP_DISABLE, 1, flags.into(), 0, 0, 0];
        self.call("switching huge pages off", abi::SYS_prctl, arguments).map(drop)
    }

    /// Registers for memory barriers: a program that has registered calls them without checking.
    fn register_barriers(&self, wanted: u32) -> Result<(), EngineError> {
        for command in (0..u32::BITS).map(|bit| 1 << bit).filter(|command: &u32| wanted & command != 0) {
            let arguments = [command.into(), 0, 0, 0, 0, 0];
            self.call("registering for memory barriers (membarrier)", abi::SYS_membarrier, arguments)?;
        }
        Ok(())
    }

    /// Gives the process its former audit login id, which threads and children that it makes have as well. Only a
    /// process itself can set it, and mostly only once.
    pub(super) fn set_audit_login(&mut self, wanted: Option<u32>) -> Result<(), EngineError> {
        let Some(wanted) = wanted.filter(|wanted| proc::audit_login(self.pid()).is_some_and(|now| now != *wanted))
        else {
            return Ok(());
        };
        let write = || {
            let path = self.path_argument(b"/proc/self/loginuid")?;
            let file = self.call("opening the audit login id", abi::SYS_open, [path, O_WRONLY, 0, 0, 0, 0])?;
            let text = wanted.to_string();
            let arguments = [file, self.argument(text.as_bytes())?, text.len() as u64, 0, 0, 0];
            let written = self.call("setting the audit login id", abi::SYS_write, arguments);
            self.call("closing a file", abi::SYS_close, [file, 0, 0, 0, 0, 0])?;
            written
        };
        if let Err(error) = write() {
            self.go_without(SWITCHES, "audit login id", &error);
        }
        Ok(())
    }
}

fn number_of(advice: Advice) -> u64 {
    (match advice {
        Advice::DontFork => abi::MADV_DONTFORK,
        Advice::WipeOnFork => abi::MADV_WIPEONFORK,
        Advice::DontDump => abi::MADV_DONTDUMP,
        Advice::HugePages => abi::MADV_HUGEPAGE,
        Advice::NoHugePages => abi::MADV_NOHUGEPAGE,
        Advice::Mergeable => abi::MADV_MERGEABLE,
        Advice::Sequential => abi::MADV_SEQUENTIAL,
        Advice::Random => abi::MADV_RANDOM,
    }) as u64
}
