//! `/proc/PID/numa_maps`: the policies by which the memory of mappings is spread over NUMA nodes. Reading it makes the
//! kernel walk all page tables, as with `smaps`: never read it while a program is stopped for it.

use super::{malformed, parse, parse_hex, words};
use crate::Pid;
use std::io;

/// The policy by which memory is taken from NUMA nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShownNumaPolicy {
    /// `MPOL_` mode with its flags, as `mbind(2)` takes them.
    pub mode: u32,
    /// The nodes, a bit for each.
    pub nodes: Vec<u64>,
}

/// The policy of one mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapPolicy {
    /// Its first address.
    pub start: u64,
    /// The policy in force: its own or, if it has none, that of the main thread.
    pub policy: ShownNumaPolicy,
}

/// The kernel's words for modes, by their numbers.
const MODES: [(&str, u32); 7] = [
    ("default", 0),
    ("prefer (many)", 5),
    ("prefer", 1),
    ("bind", 2),
    ("weighted interleave", 6),
    ("interleave", 3),
    ("local", 4),
];
/// The kernel's words for flags of modes.
const FLAGS: [(&str, u32); 3] = [("static", 1 << 15), ("relative", 1 << 14), ("balancing", 1 << 13)];
/// Maximum number of nodes for which Linux can be built.
const NODES_MAX: usize = 1024;

impl MapPolicy {
    /// Reads the policies of all mappings of a process, ascending; none if the kernel does not support NUMA nodes.
    ///
    /// # Errors
    /// When it is gone or may not be inspected.
    pub fn of(pid: Pid) -> io::Result<Vec<Self>> {
        match super::read(pid, "numa_maps") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            text => Self::parse(&text?),
        }
    }

    /// Parses the file.
    ///
    /// # Errors
    /// When it is of unknown form.
    pub fn parse(text: &[u8]) -> io::Result<Vec<Self>> {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| Self::parse_line(line).ok_or_else(|| malformed("policy of a mapping"))).collect()
    }

    /// Parses `7f12a0000000 bind=static:0-1,3 anon=4 dirty=4 ...`.
    fn parse_line(line: &[u8]) -> Option<Self> {
        let start = parse_hex(words(line).next()?)?;
        let line = std::str::from_utf8(line).ok()?;
        let (_, rest) = line.split_once(' ')?;
        let (name, number) = MODES.iter().find(|(name, _)| rest.starts_with(name))?;
        // The word ends at the end of the line, a blank, the flags or the nodes.
        let described = rest[name.len()..].split(' ').next()?;
        let (flags, nodes) = described.split_once(':').unwrap_or((described, ""));
        let mut mode = *number;
        for flag in flags.trim_start_matches('=').split('|').filter(|flag| !flag.is_empty()) {
            mode |= FLAGS.iter().find(|(name, _)| *name == flag)?.1;
        }
        Some(Self { start, policy: ShownNumaPolicy { mode, nodes: node_set(nodes)? } })
    }
}

/// Parses `0-1,3` into a bit for each node.
fn node_set(list: &str) -> Option<Vec<u64>> {
    let mut nodes = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (parse(first.as_bytes())?, parse(last.as_bytes())?);
        for node in first..=last.min(NODES_MAX) {
            nodes.resize(nodes.len().max(node / 64 + 1), 0);
            nodes[node / 64] |= 1 << (node % 64);
        }
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_understood_with_flags_and_nodes() {
        let text =
            b"00400000 default file=/bin/x mapped=1\n7000 bind=static:0-1,65 anon=1 future N0=1\n8000 prefer (many):2\n\
            9000 local\na000 interleave=relative|balancing:0\n";
        let all = MapPolicy::parse(text).unwrap();
        let found: Vec<_> = all.iter().map(|it| (it.start, it.policy.mode, it.policy.nodes.as_slice())).collect();
        let expected: [(u64, u32, &[u64]); 5] = [
            (0x40_0000, 0, &[]),
            (0x7000, 2 | 1 << 15, &[3, 2]),
            (0x8000, 5, &[4]),
            (0x9000, 4, &[]),
            (0xa000, 3 | 1 << 14 | 1 << 13, &[1]),
        ];
        assert_eq!(found, expected);
        assert!(MapPolicy::parse(b"7000 whatever:0\n").is_err());
    }

    #[test]
    fn our_own_numa_policies_are_read() {
        assert!(MapPolicy::of(Pid::own()).is_ok());
    }
}
