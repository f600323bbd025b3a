//! The layout of an address space as the kernel knows it: the positions of code, data, heap, stack, arguments and
//! environment, and the auxiliary vector.

use crate::EngineError;
use crate::construction::Construction;
use standfast_format::records::{Bytes, MemoryLayout};
use standfast_linux::abi;
use standfast_linux::proc::Stat;

const PR_SET_MM: u64 = abi::PR_SET_MM as u64;
const PR_SET_MM_MAP: u64 = abi::PR_SET_MM_MAP as u64;
/// Offset of the auxiliary vector in the scratch memory.
const VECTOR_OFFSET: usize = 1024;

/// Returns the layout of a process. `/proc` does not show the end of its heap.
pub(crate) fn memory_layout(stat: &Stat, heap_end: u64, auxiliary_vector: Bytes) -> MemoryLayout {
    let [code_start, code_end, stack_start, data_start, data_end, heap_start, rest @ ..] = stat.layout;
    let [arguments_start, arguments_end, environment_start, environment_end] = rest;
    MemoryLayout {
        code_start,
        code_end,
        data_start,
        data_end,
        heap_start,
        heap_end,
        stack_start,
        arguments_start,
        arguments_end,
        environment_start,
        environment_end,
        auxiliary_vector,
    }
}

impl Construction {
    /// Sets the positions of heap, stack, arguments and environment by `prctl(PR_SET_MM_MAP)`; the heap then grows on
    /// from its end.
    pub(crate) fn set_layout(&self, layout: &MemoryLayout) -> Result<(), EngineError> {
        let vector = &layout.auxiliary_vector.0;
        let words = [
            layout.code_start,
            layout.code_end,
            layout.data_start,
            layout.data_end,
            layout.heap_start,
            layout.heap_end,
            layout.stack_start,
            layout.arguments_start,
            layout.arguments_end,
            layout.environment_start,
            layout.environment_end,
            self.scratch + VECTOR_OFFSET as u64,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend((vector.len() as u32).to_le_bytes());
        bytes.extend(u32::MAX.to_le_bytes()); // the executable stays
        let length = bytes.len() as u64;
        bytes.resize(VECTOR_OFFSET, 0);
        bytes.extend(vector);
        let at = self.argument(&bytes)?;
        self.call("setting the memory layout", abi::SYS_prctl, [PR_SET_MM, PR_SET_MM_MAP, at, length, 0, 0]).map(drop)
    }
}
