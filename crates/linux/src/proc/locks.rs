//! `/proc/locks`: locks on files, of all processes. A lock that only a mapping keeps alive shows nowhere else.

use super::fdinfo::{self, Lock};
use super::{parse, parse_hex, words};
use rustix::fs::makedev;
use std::collections::BTreeSet;
use std::io;

/// A lock, and the file that it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockOnFile {
    /// The lock.
    pub lock: Lock,
    /// Device of the file, as `makedev` numbers it.
    pub device: u64,
    /// Inode of the file.
    pub inode: u64,
}

impl LockOnFile {
    /// Returns all locks that this process may see.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn all() -> io::Result<Vec<Self>> {
        std::fs::read("/proc/locks").map(|text| Self::parse_all(&text))
    }

    /// Parses the file. Ignores processes that wait for a lock.
    pub fn parse_all(text: &[u8]) -> Vec<Self> {
        text.split(|byte| *byte == b'\n').filter_map(held).collect()
    }
}

/// Parses `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`; with `->` before the kind it waits.
fn held(line: &[u8]) -> Option<LockOnFile> {
    if words(line).nth(1)? == b"->" {
        return None;
    }
    let lock = fdinfo::lock(line)?;
    let mut file = words(line).nth(5)?.splitn(3, |byte| *byte == b':');
    let (major, minor) = (parse_hex(file.next()?)?, parse_hex(file.next()?)?);
    let inode = parse(file.next()?)?;
    Some(LockOnFile { lock, device: makedev(major as u32, minor as u32), inode })
}

/// Returns the inodes of files with a lease. When another process opens one, the kernel signals the holder to release
/// the lease.
///
/// # Errors
/// When the file cannot be read.
pub fn leased_inodes() -> io::Result<BTreeSet<u64>> {
    std::fs::read("/proc/locks").map(|text| text.split(|byte| *byte == b'\n').filter_map(leased).collect())
}

/// Parses `1: LEASE  ACTIVE    WRITE 4711 fe:00:1234 0 EOF`.
fn leased(line: &[u8]) -> Option<u64> {
    let mut fields = words(line).skip(1);
    let is_lease = matches!(fields.next()?, b"LEASE" | b"DELEG");
    let file = fields.nth(3).filter(|_| is_lease)?;
    parse(file.rsplit(|byte| *byte == b':').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pid;
    use crate::proc::ShownLockKind;

    #[test]
    fn held_locks_are_parsed_and_waiting_ones_are_not() {
        let text = b"1: FLOCK  ADVISORY  WRITE 4711 fe:01:99 0 EOF\n1: -> FLOCK  ADVISORY  READ 4712 fe:01:99 0 EOF\n\
            2: OFDLCK ADVISORY  READ -1 00:1a:7 5 10 new\nfuture\n";
        let lock =
            |kind, exclusive, process, start, end| Lock { kind, exclusive, process: Pid::new(process), start, end };
        let whole = lock(ShownLockKind::Whole, true, 4711, 0, None);
        let part = lock(ShownLockKind::OpenFile, false, -1, 5, Some(10));
        let expected = [
            LockOnFile { lock: whole, device: makedev(0xfe, 1), inode: 99 },
            LockOnFile { lock: part, device: makedev(0, 0x1a), inode: 7 },
        ];
        assert_eq!(LockOnFile::parse_all(text), expected);
    }

    #[test]
    fn the_file_of_a_lease_is_known_by_its_inode() {
        assert_eq!(leased(b"1: LEASE  ACTIVE    WRITE 4711 fe:01:99 0 EOF"), Some(99));
        assert_eq!(leased(b"1: FLOCK  ADVISORY  WRITE 4711 fe:01:99 0 EOF"), None);
        assert_eq!(leased(b""), None);
    }
}
