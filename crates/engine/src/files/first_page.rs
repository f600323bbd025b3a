//! The first page of a file as it was at a checkpoint, for a core file: of an executable or a library it leads to the
//! build id. Nothing is believed of a file that cannot be proved to be unchanged.

use super::{digest_of, identity, open};
use standfast_core::PAGE_BYTES;
use standfast_format::records::FileReference;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns the first page of `file`, filled up with zeros, if what lies at `path`, the file itself or a copy, has the
/// contents of the checkpoint. A sampled digest covers the first page as well.
pub fn first_page(file: &FileReference, path: &Path) -> Option<Vec<u8>> {
    unchanged_page(file, path).ok().flatten()
}

fn unchanged_page(file: &FileReference, path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Nothing but a regular file is opened: opening a device may have effects.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let opened = open(path.as_os_str().as_bytes())?;
    let now = opened.metadata()?;
    if !now.is_file() || !is_unchanged(file, &opened, &now)? {
        return Ok(None);
    }
    let mut page = Vec::new();
    opened.take(PAGE_BYTES as u64).read_to_end(&mut page)?;
    page.resize(PAGE_BYTES, 0);
    Ok(Some(page))
}

fn is_unchanged(file: &FileReference, opened: &File, now: &Metadata) -> io::Result<bool> {
    if now.len() != file.length {
        return Ok(false);
    }
    match file.digest {
        Some(recorded) => Ok(digest_of(opened, file.length, recorded.coverage)? == recorded),
        None => Ok(identity(now) == file.identity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::Coverage;

    #[test]
    fn a_page_comes_from_the_file_or_its_copy_and_never_from_another_version() {
        let place = tempfile::tempdir().unwrap();
        let (path, copy) = (place.path().join("lib.so"), place.path().join("copy"));
        std::fs::write(&path, "as it was").unwrap();
        std::fs::copy(&path, &copy).unwrap();
        let opened = File::open(&path).unwrap();
        let mut file = FileReference {
            path: path.as_os_str().as_bytes().into(),
            length: 9,
            identity: identity(&opened.metadata().unwrap()),
            ..FileReference::default()
        };
        let page = |file: &FileReference, path: &Path| first_page(file, path).map(|page| page[..11].to_vec());
        let known = Some(b"as it was\0\0".to_vec());
        assert_eq!((page(&file, &path), page(&file, &copy)), (known.clone(), None), "by its identity");
        file.digest = Some(digest_of(&opened, 9, Coverage::Whole).unwrap());
        file.identity.inode += 1;
        assert_eq!((page(&file, &path), page(&file, &copy)), (known.clone(), known.clone()), "by its digest");
        std::fs::write(&path, "otherwise").unwrap();
        assert_eq!((page(&file, &path), page(&file, &copy)), (None, known));
        std::fs::write(&copy, "longer now").unwrap();
        assert_eq!(page(&file, &copy), None);
        assert_eq!(page(&file, place.path()), None, "no directory is read");
    }
}
