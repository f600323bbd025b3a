//! `/proc/PID/maps`. Not smaps, which costs 230 ms at 40,000 mappings.

use super::{malformed, parse, parse_hex};
use crate::Pid;
use rustix::fs::makedev;
use standfast_core::{Address, PageRange};
use std::io;
use std::os::unix::fs::PermissionsExt;

/// Mode bit of the links in `/proc/PID/map_files` for a file that was opened for writing.
const OWNER_WRITES: u32 = 0o200;

/// Path that the kernel shows for huge pages from the system's pool without a file.
pub const HUGE_PAGES: &[u8] = b"/anon_hugepage (deleted)";

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Access.
    pub protection: MapProtection,
    /// Whether writes go to the mapped object (`s`) instead of to a private copy (`p`).
    pub shared: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Device of the file as `makedev` numbers it; 0 if none.
    pub device: u64,
    /// Inode of the file; 0 if none.
    pub inode: u64,
    /// Path, `[name]` or nothing. A newline in a path is given as the kernel shows it, `\012`.
    pub path: Vec<u8>,
}

/// Access to a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapProtection {
    /// Whether it may be read.
    pub read: bool,
    /// Whether it may be written.
    pub write: bool,
    /// Whether it may be executed.
    pub execute: bool,
}

impl Map {
    /// Reads all mappings of a process, ascending.
    ///
    /// # Errors
    /// When it is gone or may not be inspected.
    pub fn of(pid: Pid) -> io::Result<Vec<Self>> {
        Self::parse(&super::read(pid, "maps")?)
    }

    /// Parses the file.
    ///
    /// # Errors
    /// When a line is of unknown form.
    pub fn parse(text: &[u8]) -> io::Result<Vec<Self>> {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| parse_line(line).ok_or_else(|| malformed("mapping"))).collect()
    }

    /// Reports whether `address` is within the mapping.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Returns the pages of the mapping.
    pub fn range(&self) -> PageRange {
        PageRange::between(Address::new(self.start), Address::new(self.end))
    }

    /// Reports whether it is the stack that the kernel made.
    pub fn is_stack(&self) -> bool {
        self.path == b"[stack]"
    }

    /// Reports whether the underlying file was opened for writing: a shared mapping of it can be made writable at any
    /// time. The link may be wrong for files that have been sealed since.
    ///
    /// # Errors
    /// When the process or the mapping is gone, or may not be inspected.
    pub fn is_of_writable_file(&self, pid: Pid) -> io::Result<bool> {
        let link = std::fs::symlink_metadata(format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end))?;
        Ok(link.permissions().mode() & OWNER_WRITES != 0)
    }

    /// Reports whether it is System V shared memory: `/SYSV` and the key.
    pub fn is_segment(&self) -> bool {
        self.path.starts_with(b"/SYSV")
    }

    /// Reports whether it shows a named file: neither memory without a name nor a device.
    pub fn is_of_named_file(&self) -> bool {
        let is_nameless = self.is_segment() || self.is_deleted() || self.path.starts_with(b"/dev/zero");
        self.inode != 0 && self.path.starts_with(b"/") && !is_nameless
    }

    /// Reports whether the underlying file has been deleted.
    pub fn is_deleted(&self) -> bool {
        self.path.ends_with(b" (deleted)")
    }
}

/// Parses `55d0-55d1 r-xp 00001000 fe:00 325835    /usr/bin/x y`.
fn parse_line(line: &[u8]) -> Option<Map> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut range = fields.next()?.splitn(2, |byte| *byte == b'-');
    let (start, end) = (parse_hex(range.next()?)?, parse_hex(range.next()?)?);
    let &[read, write, execute, sharing] = fields.next()? else { return None };
    let offset = parse_hex(fields.next()?)?;
    let mut device = fields.next()?.splitn(2, |byte| *byte == b':');
    let device = makedev(parse_hex(device.next()?)? as u32, parse_hex(device.next()?)? as u32);
    let inode = parse(fields.next()?)?;
    let path = fields.next().unwrap_or_default().trim_ascii_start().to_vec();
    let protection = MapProtection { read: read == b'r', write: write == b'w', execute: execute == b'x' };
    let aligned = start.is_multiple_of(4096) && end.is_multiple_of(4096) && start < end;
    aligned.then_some(Map { start, end, protection, shared: sharing == b's', offset, device, inode, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds_are_understood() {
        let text =
            b"7f2e84eab000-7f2e84ed1000 r-xp 00001000 fe:00 325835                     /usr/lib/a b.so (deleted)\n\
            7ffc46ae5000-7ffc46b06000 rw-p 00000000 00:00 0                          [stack]\n\
            7ffc46b07000-7ffc46b08000 ---s 00000000 00:00 0 \n";
        let maps = Map::parse(text).unwrap();
        assert_eq!(maps[0].path, b"/usr/lib/a b.so (deleted)");
        assert!(maps[0].is_deleted() && maps[0].protection.execute && !maps[0].shared);
        assert_eq!((maps[0].device, maps[0].inode), (makedev(0xfe, 0), 325_835));
        assert!(maps[1].is_stack());
        assert!(maps[2].shared && maps[2].path.is_empty() && maps[2].protection == MapProtection::default());
    }

    #[test]
    fn a_mapping_of_the_executable_is_not_of_a_writable_file() {
        let (own, path) = (Pid::own(), std::env::current_exe().unwrap());
        let maps = Map::of(own).unwrap();
        let program = maps.iter().find(|map| map.path == path.as_os_str().as_encoded_bytes()).unwrap();
        assert!(!program.is_of_writable_file(own).unwrap(), "nobody may write what is executed");
    }

    #[test]
    fn lines_of_unknown_form_are_errors() {
        for line in ["", "x", "1000-2000", "1000-2000 rw 0 0:0 0", "1001-2000 rw-p 0 0:0 0 "] {
            let parsed = Map::parse(line.as_bytes());
            assert!(line.is_empty() || parsed.is_err(), "{line}");
        }
    }
}
