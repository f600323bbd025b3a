//! `/proc/PID/smaps`: keeps only what `/proc/PID/maps` does not show. Reading it makes the kernel walk all page tables:
//! 100 ms for each GiB, so never read it while a program is stopped for it.

use super::{malformed, parse, parse_hex, words};
use crate::Pid;
use std::io;

/// Attributes of one mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapAttributes {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Inode of the underlying file; 0 if none.
    pub inode: u64,
    /// Size of its pages in bytes.
    pub page_bytes: u64,
    /// Its protection key.
    pub protection_key: u32,
    /// Two letters for each flag, as in `VmFlags`.
    flags: Vec<[u8; 2]>,
}

impl MapAttributes {
    /// Reads the attributes of all mappings of a process, ascending.
    ///
    /// # Errors
    /// When it is gone or may not be inspected.
    pub fn of(pid: Pid) -> io::Result<Vec<Self>> {
        Self::parse(&super::read(pid, "smaps")?)
    }

    /// Parses the file.
    ///
    /// # Errors
    /// When it is of unknown form.
    pub fn parse(text: &[u8]) -> io::Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut words = words(line);
            let first = words.next().unwrap_or_default();
            if !first.ends_with(b":") {
                let mut range = first.splitn(2, |byte| *byte == b'-').map(parse_hex);
                let (Some(Some(start)), Some(Some(end))) = (range.next(), range.next()) else {
                    return Err(malformed("mapping"));
                };
                let inode = words.nth(3).and_then(parse).ok_or_else(|| malformed("mapping"))?;
                all.push(Self { start, end, inode, ..Self::default() });
                continue;
            }
            let Some(last) = all.last_mut() else { return Err(malformed("mapping")) };
            match first {
                b"KernelPageSize:" => {
                    last.page_bytes = words.next().and_then(parse).unwrap_or(0) << 10;
                }
                b"ProtectionKey:" => last.protection_key = words.next().and_then(parse).unwrap_or(0),
                b"VmFlags:" => last.flags = words.filter_map(|flag| flag.try_into().ok()).collect(),
                _ => {}
            }
        }
        Ok(all)
    }

    /// Reports whether the mapping starts at `start` and shows the file `inode`.
    pub fn is_at(&self, start: u64, inode: u64) -> bool {
        (self.start, self.inode) == (start, inode)
    }

    /// Reports whether the mapping has a flag, given by the kernel's two letters for it.
    pub fn has(&self, flag: &[u8; 2]) -> bool {
        self.flags.contains(flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_protection_keys_are_parsed_for_each_mapping() {
        let text = b"7000-8000 rw-p 00000000 00:00 0    [anon: a: b]\nSize: 4 kB\nKernelPageSize:     2048 kB\n\
            ProtectionKey:         3\nFuture: x\nVmFlags: rd wr lo wf zz future \n8000-9000 r--p 00000000 00:00 0 \nVmFlags: rd\n";
        let [one, other] = &MapAttributes::parse(text).unwrap()[..] else { panic!("two mappings") };
        assert_eq!((one.start, one.end, one.page_bytes, one.protection_key), (0x7000, 0x8000, 2 << 20, 3));
        assert!(one.has(b"lo") && one.has(b"wf") && !one.has(b"sl"));
        assert!(other.has(b"rd") && !other.has(b"lo") && other.protection_key == 0);
    }

    #[test]
    fn text_of_unknown_form_is_an_error() {
        assert!(MapAttributes::parse(b"VmFlags: rd\n").is_err());
        assert!(MapAttributes::parse(b"nonsense\n").is_err());
    }

    #[test]
    fn our_own_mappings_are_read() {
        let all = MapAttributes::of(Pid::own()).unwrap();
        assert!(all.iter().any(|map| map.has(b"ex")) && all.iter().all(|map| map.page_bytes >= 4096));
    }
}
