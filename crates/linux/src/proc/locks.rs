//! `/proc/locks`: locks of whole files (`flock(2)`) of all processes. A lock that only a mapping keeps alive shows
//! nowhere else.

use super::{parse, parse_hex, words};
use crate::Pid;
use std::collections::BTreeSet;
use std::io;

/// A lock of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeFileLock {
    /// Whether it excludes everyone else, instead of only writers.
    pub exclusive: bool,
    /// The process that took it; it may have ended.
    pub process: Pid,
    /// Device of the file, as `makedev` numbers it.
    pub device: u64,
    /// Inode of the file.
    pub inode: u64,
}

impl WholeFileLock {
    /// Returns all locks that this process may see.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn all() -> io::Result<Vec<Self>> {
        std::fs::read("/proc/locks").map(|text| Self::parse(&text))
    }

    /// Parses the file. Ignores other kinds of lock, and processes that wait for one.
    pub fn parse(text: &[u8]) -> Vec<Self> {
        text.split(|byte| *byte == b'\n').filter_map(lock).collect()
    }
}

/// Parses `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`; with `->` before the kind it waits.
fn lock(line: &[u8]) -> Option<WholeFileLock> {
    let mut fields = words(line).skip(1);
    if fields.next()? != b"FLOCK" {
        return None;
    }
    let exclusive = fields.nth(1)? == b"WRITE";
    let process = Pid::new(parse(fields.next()?)?);
    let mut file = fields.next()?.splitn(3, |byte| *byte == b':');
    let (major, minor) = (parse_hex(file.next()?)?, parse_hex(file.next()?)?);
    let inode = parse(file.next()?)?;
    Some(WholeFileLock { exclusive, process, device: libc::makedev(major as u32, minor as u32), inode })
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

    #[test]
    fn only_whole_file_locks_are_parsed() {
        let text = b"1: FLOCK  ADVISORY  WRITE 4711 fe:01:99 0 EOF\n1: -> FLOCK  ADVISORY  READ 4712 fe:01:99 0 EOF\n\
            2: POSIX  ADVISORY  READ 4711 fe:01:99 0 10\n3: FLOCK  ADVISORY  READ 5 00:1a:7 0 EOF new\n\
            4: FUTURE  NEW  READ 5 00:1a:7 0 EOF\nfuture\n";
        let lock =
            |exclusive, process, device, inode| WholeFileLock { exclusive, process: Pid::new(process), device, inode };
        let expected = [lock(true, 4711, libc::makedev(0xfe, 1), 99), lock(false, 5, libc::makedev(0, 0x1a), 7)];
        assert_eq!(WholeFileLock::parse(text), expected);
    }

    #[test]
    fn the_file_of_a_lease_is_known_by_its_inode() {
        assert_eq!(leased(b"1: LEASE  ACTIVE    WRITE 4711 fe:01:99 0 EOF"), Some(99));
        assert_eq!(leased(b"1: FLOCK  ADVISORY  WRITE 4711 fe:01:99 0 EOF"), None);
        assert_eq!(leased(b""), None);
    }
}
