//! The address space of a process under construction: cleared, laid out as in the image, protected when it has been
//! filled, and reported to the kernel.

use super::mapped_files::Attached;
use super::plan::Plan;
use super::vdso::is_special;
use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use crate::objects::{MadeSystemV, is_execute_only};
use crate::scratch::SCRATCH_BYTES;
use standfast_core::{Address, PAGE_BYTES, PageRange};
use standfast_format::records::{Accounting, Backing, Mapping, ObjectKind, ProcessState, Protection};
use standfast_linux::abi;
use standfast_linux::proc::Map;
use std::os::unix::ffi::OsStrExt;

const SHM_RDONLY: u64 = abi::SHM_RDONLY as u64;
const PROT_READ: u64 = abi::PROT_READ as u64;
const PROT_WRITE: u64 = abi::PROT_WRITE as u64;
const PROT_EXEC: u64 = abi::PROT_EXEC as u64;
const MAP_SHARED: u64 = abi::MAP_SHARED as u64;
const MAP_PRIVATE: u64 = abi::MAP_PRIVATE as u64;
const MAP_ANONYMOUS: u64 = abi::MAP_ANONYMOUS as u64;
/// Linux 6.11.
const MAP_DROPPABLE: u64 = 8;
const MAP_HUGETLB: u64 = abi::MAP_HUGETLB as u64;
const MAP_HUGE_SHIFT: u32 = abi::MAP_HUGE_SHIFT as u32;
const MAP_GROWSDOWN: u64 = abi::MAP_GROWSDOWN as u64;
const MAP_NORESERVE: u64 = abi::MAP_NORESERVE as u64;
const MAP_FIXED_NOREPLACE: u64 = abi::MAP_FIXED_NOREPLACE as u64;
const O_RDONLY: u32 = abi::O_RDONLY as u32;
const O_RDWR: u32 = abi::O_RDWR as u32;
pub(super) const NO_FILE: u64 = u64::MAX;
pub(super) const MREMAP_MAYMOVE_FIXED: u64 = (abi::MREMAP_MAYMOVE | abi::MREMAP_FIXED) as u64;
/// The size from which a mapping is a reservation. It matters if it is unknown whether mappings count against the
/// memory that the system has promised. Mappings without write access do not count then, nor do large ones.
const RESERVATION_BYTES: u64 = 64 << 20;

/// A file to be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToMap<'a> {
    pub(super) path: &'a [u8],
    /// Whether the program may make the mapping writable.
    pub(super) writable: bool,
}

impl Construction {
    pub(super) fn map_scratch(&self) -> Result<(), EngineError> {
        let scratch = [self.scratch, SCRATCH_BYTES, PROT_READ | PROT_WRITE, anonymous(), NO_FILE, 0];
        self.call("mapping working memory", abi::SYS_mmap, scratch).map(drop)
    }

    /// Maps the image's private memory into an empty address space, writable if pages follow.
    pub(super) fn map_everything(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        self.place_special(plan)?;
        let mut open: Option<(ToMap<'_>, u64)> = None;
        for mapping in &plan.process.mappings {
            let (file, offset) = match &mapping.backing {
                Backing::Anonymous => (None, 0),
                Backing::PrivateFile { file, offset } | Backing::SharedFileReadOnly { file, offset } => {
                    let copy = plan.copies.get(&file.path).map(|copy| copy.as_os_str().as_bytes());
                    let writable = mapping.may_write == Some(true);
                    (Some(ToMap { path: copy.unwrap_or(&file.path.0), writable }), *offset)
                }
                // Shared objects follow when they have been filled.
                Backing::SharedObject { .. } => continue,
                Backing::PrivateObject { object, offset } => {
                    self.map_one(mapping, self.objects[*object as usize].descriptor, *offset)?;
                    continue;
                }
            };
            let descriptor = match (file, open) {
                (None, _) => NO_FILE,
                (Some(file), Some((last, descriptor))) if file == last => descriptor,
                (Some(file), last) => {
                    if let Some((_, descriptor)) = last {
                        self.call("closing a file", abi::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
                    }
                    let descriptor = self.open_mapped(file)?;
                    open = Some((file, descriptor));
                    descriptor
                }
            };
            self.map_one(mapping, descriptor, offset)?;
        }
        if let Some((_, descriptor)) = open {
            self.call("closing a file", abi::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// Opens a file to be mapped.
    pub(super) fn open_mapped(&self, ToMap { path, writable }: ToMap<'_>) -> Result<u64, EngineError> {
        let action = format!("opening {} for mapping", String::from_utf8_lossy(path));
        self.open(&action, path, if writable { O_RDWR } else { O_RDONLY })
    }

    pub(super) fn map_one(&mut self, mapping: &Mapping, descriptor: u64, offset: u64) -> Result<(), EngineError> {
        let bytes = mapping.end - mapping.start;
        let mut flags = match mapping.backing {
            Backing::Anonymous if mapping.attributes.droppable => MAP_DROPPABLE | MAP_ANONYMOUS,
            Backing::Anonymous => MAP_PRIVATE | MAP_ANONYMOUS,
            Backing::PrivateFile { .. } | Backing::PrivateObject { .. } => MAP_PRIVATE,
            Backing::SharedFileReadOnly { .. } | Backing::SharedObject { .. } => MAP_SHARED,
        } | MAP_FIXED_NOREPLACE;
        if mapping.grows_down {
            flags |= MAP_GROWSDOWN;
        }
        let is_reservation = mapping.backing == Backing::Anonymous
            && (!mapping.protection.write || bytes > RESERVATION_BYTES)
            && mapping.attributes.accounting == Accounting::Unknown;
        if is_reservation || mapping.attributes.accounting == Accounting::Exempt {
            flags |= MAP_NORESERVE;
        }
        if let Some(order) = mapping.attributes.huge_page_bytes.checked_ilog2() {
            flags |= MAP_HUGETLB | u64::from(order) << MAP_HUGE_SHIFT;
        }
        let access = access(while_filling(mapping));
        let action = format!("mapping {:#x}-{:#x}", mapping.start, mapping.end);
        let map = |flags| self.call(&action, abi::SYS_mmap, [mapping.start, bytes, access, flags, descriptor, offset]);
        let at = match map(flags) {
            // This machine promises less memory than the old one: the mapping is made without a promise.
            Err(EngineError::Kernel { source, .. })
                if source.raw_os_error() == Some(abi::ENOMEM) && flags & MAP_HUGETLB == 0 =>
            {
                map(flags | MAP_NORESERVE)?
            }
            mapped => mapped?,
        };
        assert_eq!(at, mapping.start, "MAP_FIXED_NOREPLACE maps where it is told");
        self.advise(mapping)
    }

    /// Unmaps everything but the kernel's own mappings.
    pub(super) fn clear(&self) -> Result<(), EngineError> {
        for map in self.maps()?.iter().filter(|map| map.path != b"[vsyscall]" && !is_special(map)) {
            let bytes = map.end - map.start;
            self.call("clearing the new process", abi::SYS_munmap, [map.start, bytes, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    fn maps(&self) -> Result<Vec<Map>, EngineError> {
        Map::of(self.pid()).map_err(|source| kernel("reading the new process's mappings", source))
    }

    /// Unmaps the scratch memory, by the last call that the main thread makes for us.
    pub(super) fn unmap_scratch(&self) -> Result<(), EngineError> {
        self.call("unmapping working memory", abi::SYS_munmap, [self.scratch, SCRATCH_BYTES, 0, 0, 0, 0]).map(drop)
    }

    /// Maps shared objects at their addresses.
    pub(super) fn map_shared_objects(
        &mut self,
        plan: &Plan<'_>,
        system_v: &MadeSystemV,
        known: &mut Attached,
    ) -> Result<(), EngineError> {
        for mapping in &plan.process.mappings {
            let Backing::SharedObject { object, offset } = mapping.backing else { continue };
            let place = object as usize;
            let record = &plan.job.objects[place];
            match record.kind {
                ObjectKind::MappedFile { .. } => {
                    self.map_file(mapping, record, offset, known.files.insert(place))?;
                }
                ObjectKind::Segment { .. } => self.attach(mapping, system_v.id_of(place), record.length)?,
                _ if mapping.may_write == Some(false) => self.map_read_only(mapping, place, offset)?,
                _ => self.map_one(mapping, self.objects[place].descriptor, offset)?,
            }
        }
        Ok(())
    }

    /// Attaches a segment of `length` bytes. The mapping may reach beyond it, after mremap(2).
    fn attach(&mut self, mapping: &Mapping, id: u64, length: u64) -> Result<(), EngineError> {
        let flags = if mapping.may_write == Some(false) { SHM_RDONLY } else { 0 };
        self.call("attaching System V shared memory", abi::SYS_shmat, [id, mapping.start, flags, 0, 0, 0])?;
        let (attached, wanted) = (length.next_multiple_of(PAGE_BYTES as u64), mapping.end - mapping.start);
        if attached < wanted {
            let arguments = [mapping.start, attached, wanted, 0, 0, 0];
            self.call("extending System V shared memory", abi::SYS_mremap, arguments)?;
        }
        // Not by SHM_EXEC, for which the segment's permissions must allow execution. READ_IMPLIES_EXEC goes without that.
        if !mapping.protection.write || mapping.protection.execute {
            let access = access(mapping.protection);
            self.call("protecting memory", abi::SYS_mprotect, [mapping.start, wanted, access, 0, 0, 0])?;
        }
        self.advise(mapping)
    }

    /// Maps an object so that the program can never write to it there.
    fn map_read_only(&mut self, mapping: &Mapping, place: usize, offset: u64) -> Result<(), EngineError> {
        let path = format!("/proc/self/fd/{}", self.objects[place].descriptor);
        let descriptor = self.open_mapped(ToMap { path: path.as_bytes(), writable: false })?;
        self.map_one(mapping, descriptor, offset)?;
        self.call("closing a file", abi::SYS_close, [descriptor, 0, 0, 0, 0, 0]).map(drop)
    }
}

/// Reports whether a process maps all of a range, as memory that may have contents.
pub(super) fn is_mapped(process: &ProcessState, range: PageRange) -> bool {
    let mappings = &process.mappings;
    let place = mappings.partition_point(|mapping| mapping.end <= range.start().get());
    let mut at = range.start();
    for mapping in &mappings[place..] {
        let own = !matches!(mapping.backing, Backing::SharedFileReadOnly { .. } | Backing::SharedObject { .. });
        let inside = mapping.start <= at.get() && own;
        if at >= range.end() || !inside {
            break;
        }
        at = Address::new(mapping.end);
    }
    at >= range.end()
}

/// Returns the access while pages are written: private memory is writable until it is filled. Memory that has never been
/// writable need not become so, and large reservations could not: from then on it would count as committed. A page of it
/// that a debugger has changed is written all the same. Memory that can only be executed is readable until
/// [`Construction::protect`], since the kernel takes a protection key for it.
pub(super) fn while_filling(mapping: &Mapping) -> Protection {
    let is_reservation = mapping.backing == Backing::Anonymous && mapping.protection == Protection::default();
    let was_writable = match mapping.attributes.accounting {
        Accounting::Counted => true,
        // Huge pages of the system's pool never count.
        Accounting::Uncounted => mapping.attributes.huge_page_bytes != 0 && !is_reservation,
        Accounting::Exempt | Accounting::Unknown => !is_reservation,
    };
    let is_writable = match mapping.backing {
        Backing::SharedFileReadOnly { .. } | Backing::SharedObject { .. } => false,
        _ => was_writable,
    };
    let read = mapping.protection.read || is_writable || is_execute_only(mapping.protection);
    Protection { read, write: mapping.protection.write || is_writable, ..mapping.protection }
}

pub(super) fn access(protection: Protection) -> u64 {
    let bit = |set: bool, bit: u64| if set { bit } else { 0 };
    bit(protection.read, PROT_READ) | bit(protection.write, PROT_WRITE) | bit(protection.execute, PROT_EXEC)
}

const fn anonymous() -> u64 {
    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::MappingAttributes;

    #[test]
    fn only_memory_that_was_writable_becomes_writable() {
        let readable = Protection { read: true, ..Protection::default() };
        let becomes_writable = |backing: Backing, protection, accounting, huge_page_bytes| {
            let attributes = MappingAttributes { accounting, huge_page_bytes, ..MappingAttributes::default() };
            let mapping =
                Mapping { start: 0, end: 4096, protection, backing, grows_down: false, attributes, may_write: None };
            while_filling(&mapping).write
        };
        let file = || Backing::PrivateFile { file: Default::default(), offset: 0 };
        let nothing = Protection::default();
        assert!(becomes_writable(file(), readable, Accounting::Counted, 0));
        assert!(becomes_writable(file(), readable, Accounting::Unknown, 0));
        assert!(becomes_writable(Backing::Anonymous, readable, Accounting::Exempt, 0));
        assert!(becomes_writable(Backing::Anonymous, readable, Accounting::Uncounted, 2 << 20));
        assert!(becomes_writable(Backing::Anonymous, nothing, Accounting::Counted, 0));
        assert!(!becomes_writable(file(), readable, Accounting::Uncounted, 0));
        assert!(!becomes_writable(Backing::Anonymous, readable, Accounting::Uncounted, 0));
        assert!(!becomes_writable(Backing::Anonymous, nothing, Accounting::Exempt, 0));
        assert!(!becomes_writable(Backing::SharedObject { object: 0, offset: 0 }, readable, Accounting::Counted, 0));
    }
}
