//! The error for a symbolic link of another user on the path to a directory. Such a link is not followed.

use std::ffi::OsString;
use std::fmt;

/// Another user's symbolic link on the path to a directory.
#[derive(Debug)]
pub(crate) struct ForeignLink {
    /// Its name.
    pub(crate) name: OsString,
    /// Its owner.
    pub(crate) owner: u32,
}

impl fmt::Display for ForeignLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is a symbolic link of user {}", self.name.display(), self.owner)
    }
}

impl std::error::Error for ForeignLink {}
