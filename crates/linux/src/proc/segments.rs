//! `/proc/sysvipc`: System V shared memory, semaphores and message queues.

use super::{malformed, parse, parse_octal, words};
use std::io;

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInformation {
    /// Its key; 0 for private ones and those marked for removal.
    pub key: i32,
    /// Its id, which mappings show as their inode.
    pub id: i32,
    /// Permissions and flags.
    pub mode: u32,
    /// Length in bytes.
    pub bytes: u64,
    /// How often it is attached.
    pub attached: u64,
}

/// `SHM_DEST`: it goes when nobody has it attached any more.
const REMOVED: u32 = 0o1000;

/// The lines of `/proc/sysvipc/KIND`, each as its numbers; the third, which is octal, as if it were decimal.
///
/// # Errors
/// When the file is there and cannot be read.
pub(crate) fn kernel_objects(kind: &str) -> io::Result<Vec<Vec<i64>>> {
    let text = match std::fs::read(format!("/proc/sysvipc/{kind}")) {
        // A kernel without System V objects.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let lines = text.split(|byte| *byte == b'\n').skip(1).filter(|line| !line.is_empty());
    Ok(lines.map(|line| words(line).filter_map(parse).collect()).collect())
}

impl SegmentInformation {
    /// All in this IPC namespace.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub fn all() -> io::Result<Vec<Self>> {
        Self::parse(&std::fs::read("/proc/sysvipc/shm")?)
    }

    /// Parses the file.
    ///
    /// # Errors
    /// When a line is of unknown form.
    pub fn parse(text: &[u8]) -> io::Result<Vec<Self>> {
        let lines = text.split(|byte| *byte == b'\n').skip(1).filter(|line| !line.is_empty());
        lines.map(|line| segment(line).ok_or_else(|| malformed("segment"))).collect()
    }

    /// Whether it is marked for removal, so that nobody can find it any more.
    pub fn is_removed(&self) -> bool {
        self.mode & REMOVED != 0
    }
}

/// `key shmid perms size cpid lpid nattch ...`
fn segment(line: &[u8]) -> Option<SegmentInformation> {
    let mut fields = words(line);
    let (key, id) = (parse(fields.next()?)?, parse(fields.next()?)?);
    let (mode, bytes) = (parse_octal(fields.next()?)?, parse(fields.next()?)?);
    Some(SegmentInformation { key, id, mode, bytes, attached: parse(fields.nth(2)?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let text = b"       key      shmid perms                  size  cpid  lpid nattch   uid\n\
            \x20        0          3  1600                 65536 12345 12345      2  1000\n";
        let segment = SegmentInformation { key: 0, id: 3, mode: 0o1600, bytes: 65536, attached: 2 };
        assert_eq!(SegmentInformation::parse(text).unwrap(), [segment]);
        assert!(segment.is_removed());
        assert!(SegmentInformation::parse(b"head\n1 2\n").is_err());
    }
}
