//! Small files that are written in one piece, each with a checksum.

use crate::error::MemberError;
use standfast_core::Checksum;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

/// Creates a directory that only its owner may access; an existing one must be ours.
pub(crate) fn make_directory(path: &Path) -> Result<(), MemberError> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        made => made.map_err(MemberError::file(path))?,
    }
    let metadata = fs::symlink_metadata(path).map_err(MemberError::file(path))?;
    let (is_ours, others) = (metadata.uid() == rustix::process::geteuid().as_raw(), metadata.mode() & 0o077);
    if !metadata.is_dir() || !is_ours || others != 0 {
        return Err(MemberError::unusable(path, "it is not a directory that is yours alone (mode 0700)"));
    }
    Ok(())
}

/// Replaces a file by one with this content and a checksum in front of it.
pub(crate) fn write_checked(directory: &Path, name: &str, body: &[u8]) -> Result<(), MemberError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let (path, open) = (directory.join(name), directory.join(format!("{name}.open")));
    let write = || -> std::io::Result<()> {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&open)?;
        file.write_all(&Checksum::of(body).to_bytes())?;
        file.write_all(body)?;
        fs::rename(&open, &path)
    };
    write().map_err(MemberError::file(&path))
}

/// Reads such a file; `None` if there is none.
pub(crate) fn read_checked(path: &Path) -> Result<Option<Vec<u8>>, MemberError> {
    let mut bytes = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(MemberError::file(path))?,
    };
    match bytes.split_first_chunk::<16>() {
        Some((checksum, body)) if Checksum::of(body).to_bytes() == *checksum => {
            bytes.drain(..16);
            Ok(Some(bytes))
        }
        _ => Err(MemberError::unusable(path, "it is damaged")),
    }
}
