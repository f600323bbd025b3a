//! `/proc/meminfo`: the memory of the machine. A container may show a file with few of the kernel's lines.

use super::{malformed, parse};
use std::io;

/// Values of `/proc/meminfo`, in bytes. `None` for a line that is missing or of unknown form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachineMemory {
    /// Memory of the machine.
    pub total: Option<u64>,
    /// Memory that programs can still take without swapping.
    pub available: Option<u64>,
    /// Size of the swap.
    pub swap: Option<u64>,
    /// Swap that is free.
    pub free_swap: Option<u64>,
    /// Memory that the kernel commits at most, if `vm.overcommit_memory` is 2.
    pub commit_limit: Option<u64>,
    /// Memory that it has committed.
    pub committed: Option<u64>,
}

impl MachineMemory {
    /// Reads the values of this machine.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read() -> io::Result<Self> {
        std::fs::read("/proc/meminfo").map(|text| Self::parse(&text))
    }

    /// Parses the file.
    fn parse(text: &[u8]) -> Self {
        let mut memory = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let bytes = || kilobytes(&line[colon + 1..])?.checked_mul(1024);
            match &line[..colon] {
                b"MemTotal" => memory.total = bytes(),
                b"MemAvailable" => memory.available = bytes(),
                b"SwapTotal" => memory.swap = bytes(),
                b"SwapFree" => memory.free_swap = bytes(),
                b"CommitLimit" => memory.commit_limit = bytes(),
                b"Committed_AS" => memory.committed = bytes(),
                _ => {}
            }
        }
        memory
    }
}

/// Reports whether the system uses any swap.
///
/// # Errors
/// When `/proc/meminfo` cannot be read or does not say.
pub fn swap_is_used() -> io::Result<bool> {
    let memory = MachineMemory::read()?;
    memory.swap.zip(memory.free_swap).map(|(all, free)| all != free).ok_or_else(|| malformed("meminfo"))
}

/// Parses `      12 kB`.
fn kilobytes(text: &[u8]) -> Option<u64> {
    parse(text.trim_ascii().strip_suffix(b" kB")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_among_unknown_lines() {
        let text = b"MemTotal:       24 kB\nFuture:  always\nFuture(x):\n\nfuture\nMemAvailable:     12 kB\n\
            HugePages_Total:       0\nSwapTotal:  8 kB\nSwapFree:  5 pages\nCommitted_AS:  -1 kB\n";
        let expected = MachineMemory {
            total: Some(24 << 10),
            available: Some(12 << 10),
            swap: Some(8 << 10),
            ..MachineMemory::default()
        };
        assert_eq!(MachineMemory::parse(text), expected);
    }

    #[test]
    fn memory_and_swap_of_this_machine_are_read() {
        let memory = MachineMemory::read().unwrap();
        assert!(memory.total.unwrap() >= memory.available.unwrap_or(0));
        assert!(swap_is_used().is_ok());
    }
}
