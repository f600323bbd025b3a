//! A symbolic link of another user on the way to a directory, which is not followed.

use std::ffi::OsString;
use std::fmt;

/// Somebody else's link on the way to a directory.
#[derive(Debug)]
pub(crate) struct ForeignLink {
    /// Its name.
    pub(crate) name: OsString,
    /// Whose it is.
    pub(crate) owner: u32,
}

impl fmt::Display for ForeignLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is a symbolic link of user {}", self.name.display(), self.owner)
    }
}

impl std::error::Error for ForeignLink {}
