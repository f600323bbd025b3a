//! Which files belong to an SQLite database. Programs overwrite these files in place, and each is wrong without the
//! others.

use super::open;
use std::os::unix::fs::FileExt;

/// The first bytes of these files: the database itself, its write-ahead log in either byte order, its rollback journal.
const BEGINNINGS: [&[u8]; 4] =
    [b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"];

/// Reports whether a file belongs to an SQLite database.
pub(crate) fn is_database(path: &[u8]) -> bool {
    let mut beginning = [0u8; 16];
    let read = open(path).and_then(|file| file.read_at(&mut beginning, 0)).unwrap_or(0);
    BEGINNINGS.iter().any(|wanted| beginning[..read].starts_with(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn sqlite_files_are_recognised_by_their_magic_bytes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        for (text, expected) in [
            (&b"SQLite format 3\0rest"[..], true),
            (b"\x37\x7f\x06\x82....", true),
            (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7....", true),
            (b"\xd9\xd5\x05\xf9", false),
            (b"SQLite", false),
            (b"", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(is_database(path.as_os_str().as_bytes()), expected);
        }
    }
}
