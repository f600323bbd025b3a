//! How far a launch of a job is, told in a file by its first process for who has launched it. That process is not asked for
//! anything: it reads the file now and then.

use crate::error::MemberError;
use std::fs;
use std::path::Path;

const LEFT: &str = "left\n";

/// What all processes of a launch have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    /// They are there: the roll call is over.
    Joined,
    /// They are done.
    Left,
}

impl Milestone {
    /// Tells of it.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn tell(self, path: &Path) -> Result<(), MemberError> {
        let words = match self {
            Self::Joined => "joined\n",
            Self::Left => LEFT,
        };
        fs::write(path, words).map_err(MemberError::file(path))
    }

    /// The last one that was told; `None` where none was, or none can be read.
    pub fn told(path: &Path) -> Option<Self> {
        // While it is being written it may be empty, and no launch leaves before it has joined.
        fs::read_to_string(path).ok().map(|words| if words == LEFT { Self::Left } else { Self::Joined })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_last_is_heard() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("launch");
        assert_eq!(Milestone::told(&path), None);
        for milestone in [Milestone::Joined, Milestone::Left] {
            milestone.tell(&path).expect("a writable folder");
            assert_eq!(Milestone::told(&path), Some(milestone));
        }
    }
}
