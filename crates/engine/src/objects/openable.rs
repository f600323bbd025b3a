//! Checks whether the user who restarts a program could open its files again. The program may have received a file from
//! somebody with more rights, or have had more rights itself.

use super::shown::Shown;
use super::{O_ACCMODE, O_WRONLY, Unsupported, Walk};
use crate::RefusalCode;
use standfast_linux::abi;
use standfast_linux::sys::process::effective_user;
use standfast_linux::sys::tree::may_access;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const RIGHTS: &str = "start the program with what its own user may open, or run it as that other user";
/// Standard output and error.
const OUTPUTS: [i32; 2] = [1, 2];

impl Walk<'_> {
    /// Refuses a file that has a path but could not be opened there in the same way. The owner of a file can grant
    /// himself missing permissions, and a standard output may lead elsewhere after a restart.
    pub(super) fn refuse_unopenable(&self, shown: &Shown) -> Result<(), Unsupported> {
        if shown.file.uid() == effective_user() {
            return Ok(());
        }
        let path = self.as_the_job_sees(&shown.target);
        let Err(error) = may_access(&path, needed(shown.information.flags)) else { return Ok(()) };
        if self.is_standard_output(shown) {
            return Ok(());
        }
        let why = format!("a restart could not open it again, since it belongs to user {} ({error})", shown.file.uid());
        Err(Unsupported::with_hint(RefusalCode::Permission, why, RIGHTS))
    }

    /// Returns a path by which we reach what the job finds under `path`.
    pub(super) fn as_the_job_sees(&self, path: &[u8]) -> PathBuf {
        let root = format!("/proc/{}/root", self.holders[0].pid);
        PathBuf::from(OsStr::from_bytes(&[root.as_bytes(), path].concat()))
    }

    /// Reports whether the main process writes to it as its output or error stream: a restart has its own.
    fn is_standard_output(&self, shown: &Shown) -> bool {
        let is_output = |other: &&Shown| other.holder == 0 && OUTPUTS.contains(&other.number);
        let writes = shown.information.flags & O_ACCMODE != 0;
        writes && self.shown.iter().filter(is_output).any(|other| other.is_same_file(shown, &self.holders))
    }
}

/// Returns the mode to ask access(2) for.
fn needed(flags: u32) -> i32 {
    match flags & O_ACCMODE {
        0 => abi::R_OK,
        O_WRONLY => abi::W_OK,
        _ => abi::R_OK | abi::W_OK,
    }
}

/// Reports whether a file could be opened for reading and writing again, as a shared mapping needs.
pub(crate) fn may_map_again(path: &[u8], user: u32) -> bool {
    user == effective_user() || may_access(Path::new(OsStr::from_bytes(path)), abi::R_OK | abi::W_OK).is_ok()
}
