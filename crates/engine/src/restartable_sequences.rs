//! Restartable sequences (rseq(2)): where a thread continues that was stopped within one.
//!
//! The kernel tells a tracer of the area that the thread has registered since Linux 5.13. On an older one the area is
//! searched for near the thread pointer, where C libraries keep it.

use standfast_core::{Address, PAGE_BYTES};
use standfast_linux::{ProcessMemory, Registers, Task, TaskError};

/// Length and alignment of an area before Linux 6.3.
pub(crate) const AREA_BYTES: u64 = 32;
/// Offset within the area: a pointer to the current sequence.
const CURRENT_SEQUENCE: u64 = 8;
/// What precedes each abort handler on x86-64 by convention of all libraries.
pub(crate) const SIGNATURE: u32 = 0x5305_3053;
/// How far from the thread pointer an area is searched for, in both directions.
pub(crate) const NEAR: u64 = PAGE;
const PAGE: u64 = PAGE_BYTES as u64;

/// Returns the abort handler at which a task inside a restartable sequence must continue. The kernel would send it there
/// by itself, but an injected call makes the kernel forget (measured).
pub(crate) fn abort_handler(
    task: &Task,
    registers: &Registers,
    memory: &ProcessMemory,
) -> Result<Option<u64>, TaskError> {
    let of_area = |area, signature| abort_handler_of(area, signature, registers.instruction(), memory);
    Ok(match task.rseq_configuration()? {
        Some(shown) if shown.area == 0 => None,
        Some(shown) => of_area(shown.area, shown.signature),
        None => possible_areas(registers.thread_pointer(), memory).find_map(|area| of_area(area, SIGNATURE)),
    })
}

/// Returns the abort handler of the sequence that an area names, if the instruction is within that.
fn abort_handler_of(area: u64, signature: u32, instruction: u64, memory: &ProcessMemory) -> Option<u64> {
    let word = |address: u64| {
        let mut bytes = [0u8; 8];
        memory.read(Address::new(address), &mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
    };
    let sequence = word(area + CURRENT_SEQUENCE).filter(|sequence| *sequence != 0)?;
    // struct rseq_cs: version and flags, start, length, abort handler. What only looks like an area may name any address.
    let field = |offset: u64| word(sequence.checked_add(offset)?);
    let (start, length, abort) = (field(8)?, field(16)?, field(24)?);
    let is_marked = word(abort.checked_sub(4)?)? as u32 == signature;
    (instruction.wrapping_sub(start) < length && is_marked).then_some(abort)
}

/// Returns where, near a thread pointer, there may be an area of a task within a sequence.
fn possible_areas(thread_pointer: u64, memory: &ProcessMemory) -> impl Iterator<Item = u64> {
    let pages = (thread_pointer.saturating_sub(NEAR) / PAGE..=thread_pointer.saturating_add(NEAR) / PAGE)
        .map(|page| page * PAGE);
    pages.flat_map(|page| {
        let mut bytes = vec![0; PAGE_BYTES];
        let areas = match memory.read(Address::new(page), &mut bytes) {
            Ok(()) => bytes.chunks_exact(AREA_BYTES as usize),
            Err(_) => [].chunks_exact(AREA_BYTES as usize),
        };
        let places = (page..).step_by(AREA_BYTES as usize).zip(areas);
        places.filter(|(_, area)| may_be_in_use(area)).map(|(place, _)| place).collect::<Vec<_>>()
    })
}

/// Reports whether an area may be one whose task is within a sequence: it names a sequence, and the kernel has written the
/// same processor twice.
fn may_be_in_use(area: &[u8]) -> bool {
    area[0..4] == area[4..8] && area[CURRENT_SEQUENCE as usize..][..8] != [0; 8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_linux::Pid;

    #[test]
    fn what_only_looks_like_an_area_names_no_sequence() {
        let memory = ProcessMemory::open(Pid::own()).unwrap();
        for filler in [0, 1, u64::MAX, u64::MAX - 16] {
            let area = [filler; AREA_BYTES as usize / 8];
            assert_eq!(abort_handler_of(area.as_ptr() as u64, SIGNATURE, 0, &memory), None, "{filler:x}");
        }
    }

    #[test]
    fn an_area_within_a_sequence_leads_to_its_abort_handler() {
        let memory = ProcessMemory::open(Pid::own()).unwrap();
        let code = [0, u64::from(SIGNATURE) << 32, 0];
        let (start, abort) = (0x5000, code.as_ptr() as u64 + 16);
        let sequence = [0, start, 0x10, abort];
        let area = [0, sequence.as_ptr() as u64, 0, 0];
        let found = |instruction| abort_handler_of(area.as_ptr() as u64, SIGNATURE, instruction, &memory);
        assert_eq!([start - 1, start, start + 0x10].map(found), [None, Some(abort), None]);
    }
}
