//! Protection keys of memory (pkeys(7)): which ones a process has allocated, and their allocation. Which memory is under
//! which key is an attribute of mappings.

use crate::EngineError;
use crate::construction::Construction;
use crate::remote_caller::RemoteCaller;
use standfast_format::records::{Mapping, Protection};
use standfast_linux::Registers;
use standfast_linux::abi;

/// The XSAVE feature of protection keys.
const PROTECTION_KEYS: u64 = 1 << 9;
/// Keys that x86-64 has.
const KEYS: u32 = 16;
/// `PKEY_DISABLE_ACCESS`: the access rights that free keys get.
const NO_ACCESS: u64 = 1;

/// Returns the allocated keys, found by allocating all free ones and releasing them again. This is done only if the
/// first free key is not the first of all. So keys without memory go unnoticed if a program has allocated several and
/// released the first one. Returns 0 if the processor has no keys.
pub(super) fn allocated_keys(remote_caller: &RemoteCaller<'_>) -> Result<u32, EngineError> {
    if Registers::xsave_features(remote_caller.extended()) & PROTECTION_KEYS == 0 {
        return Ok(0);
    }
    let allocate = || remote_caller.call(abi::SYS_pkey_alloc, [0, NO_ACCESS, 0, 0, 0, 0]);
    let mut free = 0u32;
    loop {
        let key = allocate()?;
        if !(1..i64::from(KEYS)).contains(&key) {
            break;
        }
        free |= 1 << key;
        if key == 1 {
            break;
        }
    }
    for key in (1..KEYS).filter(|key| free & 1 << key != 0) {
        remote_caller.call(abi::SYS_pkey_free, [key.into(), 0, 0, 0, 0, 0])?;
    }
    Ok(if free & 1 << 1 == 0 { u32::from(u16::MAX) & !free } else { 1 })
}

/// Returns the allocated keys, given those that were found: memory under a key shows that it is allocated as well.
pub(crate) fn with_keys_in_use(found: u32, in_use: impl Iterator<Item = u32>) -> u32 {
    in_use.filter(|key| (1..KEYS).contains(key)).fold(found, |keys, key| keys | 1 << key)
}

impl Construction {
    /// Allocates protection keys. The kernel gives them out in the order of their numbers, so all up to the highest are
    /// allocated. Returns those that are not wanted and must be freed.
    pub(crate) fn allocate_keys(&self, wanted: u32) -> Result<Vec<u32>, EngineError> {
        let highest = wanted.checked_ilog2().unwrap_or(0);
        for _ in 0..highest {
            self.call("allocating a protection key", abi::SYS_pkey_alloc, [0, NO_ACCESS, 0, 0, 0, 0])?;
        }
        Ok((1..highest).filter(|key| wanted & 1 << key == 0).collect())
    }

    pub(crate) fn free_key(&self, key: u32) -> Result<(), EngineError> {
        self.call("freeing a protection key", abi::SYS_pkey_free, [key.into(), 0, 0, 0, 0, 0]).map(drop)
    }
}

/// Returns the key that the kernel has taken for memory that can only be executed: no call allocates it for a program,
/// and mprotect(2) makes such memory readable again. It is recognised by the memory under it. A program's own key under
/// which there is nothing else looks the same.
pub(crate) fn execute_only_key(mappings: &[Mapping]) -> Option<u32> {
    let under = |key| mappings.iter().filter(move |mapping| mapping.attributes.protection_key == key);
    let keys = mappings.iter().map(|mapping| mapping.attributes.protection_key).filter(|key| *key != 0);
    keys.filter(|key| under(*key).all(|mapping| is_execute_only(mapping.protection))).min()
}

pub(crate) fn is_execute_only(protection: Protection) -> bool {
    protection == Protection { execute: true, ..Protection::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{Backing, MappingAttributes};

    #[test]
    fn memory_shows_keys_beyond_a_free_one() {
        assert_eq!(with_keys_in_use(1, [0, 2].into_iter()), 0b101);
        assert_eq!(with_keys_in_use(0, [0].into_iter()), 0);
    }

    fn under(protection_key: u32, read: bool) -> Mapping {
        let protection = Protection { read, write: false, execute: true };
        let attributes = MappingAttributes { protection_key, ..MappingAttributes::default() };
        let backing = Backing::Anonymous;
        Mapping { start: 0, end: 4096, protection, backing, grows_down: false, attributes, may_write: None }
    }

    #[test]
    fn the_kernels_own_key_is_that_of_memory_that_can_only_be_executed() {
        assert_eq!(execute_only_key(&[under(0, true), under(2, true), under(3, false), under(3, false)]), Some(3));
        assert_eq!(execute_only_key(&[under(0, false)]), None, "a processor without keys");
        assert_eq!(execute_only_key(&[under(3, false), under(3, true)]), None, "a key of the program's");
    }
}
