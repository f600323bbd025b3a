//! Finds the program before anything else is done, so that a typing error leaves nothing behind and gets the exit
//! status that shells give it.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Exit status of a shell for a program that cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;

/// Exit status of a shell for a program that does not exist.
pub(crate) const NOT_FOUND: u8 = 127;

/// Why a program cannot be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The file does not exist.
    NotFound,
    /// It is not a file that this user may execute.
    NotExecutable,
}

impl Missing {
    /// Returns cause and remedy.
    pub(crate) fn message(&self, program: &OsStr) -> String {
        let name = program.display();
        match self {
            Self::NotFound if program.as_bytes().starts_with(b"-") => {
                format!("unknown option {name}\nhint: standfast run --help lists the options")
            }
            Self::NotFound if is_path(program) => format!("no program at {name}\nhint: check the path"),
            Self::NotFound => {
                format!("no program {name} in PATH\nhint: check the name, or write ./{name} for one in this directory")
            }
            Self::NotExecutable => format!("you may not execute {name}\nhint: make it executable with chmod +x {name}"),
        }
    }

    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::NotFound => NOT_FOUND,
            Self::NotExecutable => NOT_EXECUTABLE,
        }
    }
}

/// Checks that `program` can be run, looking for it in `path` (the value of `PATH`) as exec does.
pub(crate) fn find(program: &OsStr, path: Option<OsString>) -> Result<(), Missing> {
    if is_path(program) {
        return examine(Path::new(program));
    }
    let mut missing = Missing::NotFound;
    for folder in path.iter().flat_map(std::env::split_paths) {
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        match examine(&folder.join(program)) {
            Ok(()) => return Ok(()),
            Err(Missing::NotExecutable) => missing = Missing::NotExecutable,
            Err(Missing::NotFound) => {}
        }
    }
    Err(missing)
}

fn is_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

fn examine(file: &Path) -> Result<(), Missing> {
    match file.metadata() {
        Ok(metadata) if !metadata.is_file() => Err(Missing::NotExecutable),
        Ok(_) => rustix::fs::access(file, rustix::fs::Access::EXEC_OK).map_err(|_| Missing::NotExecutable),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Err(Missing::NotFound),
        Err(_) => Err(Missing::NotExecutable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_option_is_reported_as_an_unknown_option() {
        assert!(Missing::NotFound.message(OsStr::new("--dir")).contains("unknown option --dir"));
        assert!(Missing::NotFound.message(OsStr::new("heat")).contains("no program heat"));
    }

    #[test]
    fn programs_are_found_in_the_path_and_by_path() {
        assert_eq!(find(OsStr::new("sh"), Some("/nowhere:/bin:/usr/bin".into())), Ok(()));
        assert_eq!(find(OsStr::new("/bin/sh"), None), Ok(()));
    }

    #[test]
    fn a_missing_file_and_a_non_executable_file_are_distinguished() {
        assert_eq!(find(OsStr::new("no-such-program"), Some("/bin".into())), Err(Missing::NotFound));
        assert_eq!(find(OsStr::new("/bin/sh/heat"), None), Err(Missing::NotFound));
        assert_eq!(find(OsStr::new("/etc"), None), Err(Missing::NotExecutable));
        assert_eq!(find(OsStr::new("passwd"), Some("/etc".into())), Err(Missing::NotExecutable));
    }
}
