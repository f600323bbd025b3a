//! Where a restart works inside a process that it rebuilds: addresses that neither the old nor the new process uses.

use standfast_format::records::ProcessState;

/// Room for arguments of injected calls and for pipe contents in transit.
pub(crate) const SCRATCH_BYTES: u64 = 64 * 1024;
/// Room to park the kernel's mappings while they are moved.
pub(crate) const PARKING_BYTES: u64 = 1024 * 1024;
/// Kept free below growing stacks.
const STACK_ROOM: u64 = 2 * 1024 * 1024;
/// User addresses end here (47 bits, less a guard page).
pub(crate) const ADDRESS_END: u64 = 0x7fff_ffff_f000;

/// Returns the lowest addresses with room to work that are well away from every mapping of the image.
pub(crate) fn hole(process: &ProcessState) -> Option<u64> {
    let bytes = SCRATCH_BYTES + PARKING_BYTES;
    /// Lower addresses may be forbidden (vm.mmap_min_addr).
    const LOWEST: u64 = 0x1_0000;
    let special = process.special_mappings.iter().map(|mapping| (mapping.start, mapping.end));
    let mut taken: Vec<_> =
        process.mappings.iter().map(|mapping| (mapping.start, mapping.end)).chain(special).collect();
    taken.sort_unstable();
    let mut start = LOWEST;
    for (from, to) in taken {
        if from.saturating_sub(STACK_ROOM) >= start + bytes {
            break;
        }
        start = start.max(to);
    }
    (start + bytes <= ADDRESS_END).then_some(start)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use standfast_format::records::{Backing, Mapping, MappingAttributes, Protection};

    /// Returns a process with mappings at these ranges of addresses.
    pub(crate) fn process(ranges: &[(u64, u64)]) -> ProcessState {
        let mapping = |&(start, end): &(u64, u64)| Mapping {
            start,
            end,
            may_write: None,
            protection: Protection::default(),
            backing: Backing::Anonymous,
            grows_down: false,
            attributes: MappingAttributes::default(),
        };
        ProcessState { mappings: ranges.iter().map(mapping).collect(), ..ProcessState::default() }
    }

    #[test]
    fn the_hole_does_not_overlap_any_mapping() {
        assert_eq!(hole(&process(&[])), Some(0x1_0000));
        assert_eq!(hole(&process(&[(0x80_0000, 0x90_0000)])), Some(0x1_0000));
        let low = process(&[(0x1_0000, 0x2_0000), (0x3_0000, 0x50_0000)]);
        assert_eq!(hole(&low), Some(0x50_0000));
        assert_eq!(hole(&process(&[(0x1_0000, ADDRESS_END)])), None);
    }
}
