//! Attributes that mappings of a process under construction get besides their contents: advice, names, guards, locks,
//! access, seals. Those that no result depends on are reported if they are not allowed here, and the program continues
//! without them. `crate::attributes` collects them.

use super::address_space::{MREMAP_MAYMOVE_FIXED, NO_FILE, access, while_filling};
use super::plan::Plan;
use crate::EngineError;
use crate::attributes::advice_number;
use crate::construction::Construction;
use crate::error::kernel;
use crate::objects::execute_only_key;
use standfast_core::PAGE_BYTES;
use standfast_format::records::{Advice, Backing, Mapping, MemoryLock};
use standfast_linux::abi;
use standfast_linux::proc::Status;
use standfast_linux::sys::process;
use std::io;

const PR_SET_VMA: u64 = 0x5356_4d41;
const PR_SET_VMA_ANON_NAME: u64 = 0;
const MADV_GUARD_INSTALL: u64 = 102;
const MLOCK_ONFAULT: u64 = 1;
const UNUSED: u64 = (abi::MAP_PRIVATE | abi::MAP_ANONYMOUS | abi::MAP_NORESERVE) as u64;
/// mseal(2), Linux 6.10.
const SYS_MSEAL: i64 = 462;

impl Construction {
    /// Gives advice that must be known before a mapping is filled; all of it stays with the mapping.
    pub(super) fn advise(&mut self, mapping: &Mapping) -> Result<(), EngineError> {
        // A droppable mapping has its advice from the start.
        let advice = if mapping.attributes.droppable { &[] } else { &mapping.attributes.advice[..] };
        let (start, bytes) = (mapping.start, mapping.end - mapping.start);
        for advice in advice {
            let given =
                self.call("advising on memory", abi::SYS_madvise, [start, bytes, advice_number(*advice), 0, 0, 0]);
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

    /// Locks memory that must stay resident, once it has its access: the kernel copies each page of a private file that is
    /// locked while it is writable.
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
            let is_whole = mapping.attributes.lock == MemoryLock::Locked;
            let flags = if is_whole && !copies_on_touch(mapping) { 0 } else { MLOCK_ONFAULT };
            // This returns ENOMEM even if only some pages cannot be touched; the check below shows the result.
            let _ = self.call("locking memory", abi::SYS_mlock2, [mapping.start, length, flags, 0, 0, 0]);
            if is_whole && flags != 0 {
                self.lock_untouched(mapping.start, length)?;
            }
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

    /// Turns the lock of a mapping, which holds on the first touch of each page, into one of the whole mapping, and touches
    /// none. The kernel marks all that is mapped of a range as locked, and touches nothing if a part of the range is not
    /// mapped. So the mapping is moved to where nothing follows it, locked with what follows, and moved back.
    fn lock_untouched(&mut self, start: u64, length: u64) -> Result<(), EngineError> {
        let page = PAGE_BYTES as u64;
        let action = "locking memory without touching it";
        let away = self.call(action, abi::SYS_mmap, [0, length + page, 0, UNUSED, NO_FILE, 0])?;
        let there = [start, length, length, MREMAP_MAYMOVE_FIXED, away, 0];
        self.call(action, abi::SYS_mremap, there)?;
        self.call(action, abi::SYS_munmap, [away + length, page, 0, 0, 0, 0])?;
        // It always fails. If the limit is too low for the page that is not mapped, the lock stays as it is.
        let _ = self.call(action, abi::SYS_mlock2, [away, length + page, 0, 0, 0, 0]);
        let back = [away, length, length, MREMAP_MAYMOVE_FIXED, start, 0];
        self.call(action, abi::SYS_mremap, back).map(drop)
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
}

/// Reports whether the kernel copies a page of the mapping, instead of showing that of its file, when the mapping is locked.
fn copies_on_touch(mapping: &Mapping) -> bool {
    let is_of_file = matches!(mapping.backing, Backing::PrivateFile { .. } | Backing::PrivateObject { .. });
    is_of_file && mapping.protection.write
}
