//! The default directory for the checkpoints of a program: `PROGRAM.standfast` in the working directory.

use crate::Error;
use standfast_core::Root;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Returns the default directory for a program's checkpoints: `PROGRAM.standfast` in the working directory. If that
/// name is too long, the program's name is cut between characters, and a digest of the whole name is added to keep
/// similar names apart.
pub fn default_directory(program: &OsStr) -> PathBuf {
    let name = Path::new(program).file_name().unwrap_or(program);
    let mut directory = match name.len() + DIRECTORY_SUFFIX.len() <= NAME_BYTES_MAX {
        true => name.to_owned(),
        false => shortened(name.as_bytes()),
    };
    directory.push(DIRECTORY_SUFFIX);
    PathBuf::from(directory)
}

fn shortened(name: &[u8]) -> OsString {
    // The digest is long enough that nobody can make another name with the same one.
    let digest = Root::of(&[name]).to_bytes();
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let digest = format!("-{digits}");
    let is_within_a_character = |at: usize| name[at] & 0b1100_0000 == 0b1000_0000;
    let room = NAME_BYTES_MAX - DIRECTORY_SUFFIX.len() - digest.len();
    let end = (0..=room).rev().take(4).find(|end| !is_within_a_character(*end)).unwrap_or(room);
    OsString::from_vec([&name[..end], digest.as_bytes()].concat())
}

/// Longest file name in the file systems of Linux.
const NAME_BYTES_MAX: usize = 255;

/// Suffix of the default names of job directories.
const DIRECTORY_SUFFIX: &str = ".standfast";

/// Returns the directories directly below `place` that have a default name, in alphabetical order.
///
/// # Errors
/// If `place` cannot be read.
pub fn find_directories(place: &Path) -> Result<Vec<PathBuf>, Error> {
    let found = || -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(place)? {
            let entry = entry?;
            let is_named_so = entry.file_name().to_string_lossy().ends_with(DIRECTORY_SUFFIX);
            if is_named_so && entry.path().is_dir() {
                found.push(PathBuf::from(entry.file_name()));
            }
        }
        found.sort();
        Ok(found)
    };
    found().map_err(Error::system("list the job directories here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_directory_is_named_after_the_program() {
        assert_eq!(default_directory(OsStr::new("./build/heat")), Path::new("heat.standfast"));
        assert_eq!(default_directory(OsStr::new("heat")), Path::new("heat.standfast"));
    }

    #[test]
    fn programs_with_long_names_have_directories_of_their_own() {
        let place = tempfile::tempdir().unwrap();
        let longest = NAME_BYTES_MAX - DIRECTORY_SUFFIX.len();
        let name = |length: usize, end: &str| "x".repeat(length - end.len()) + end;
        let mut names = vec![name(longest, ""), name(longest + 1, ""), name(255, "a"), name(255, "b")];
        names.extend((0..4).map(|shift| "x".repeat(shift) + &"ü".repeat(120) + "end"));
        for name in &names {
            let directory = default_directory(OsStr::new(name));
            assert!(directory.to_str().is_some(), "cut within a character");
            std::fs::create_dir(place.path().join(directory)).expect("of its own, and not too long");
        }
        assert_eq!(default_directory(OsStr::new(&names[0])).to_str().unwrap(), names[0].clone() + DIRECTORY_SUFFIX);
    }

    #[test]
    fn job_directories_are_found_by_name_and_files_are_ignored() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("heat.standfast")).unwrap();
        std::fs::create_dir(scratch.path().join("cold.standfast")).unwrap();
        std::fs::create_dir(scratch.path().join("other")).unwrap();
        std::fs::write(scratch.path().join("file.standfast"), "").unwrap();
        let found = find_directories(scratch.path()).unwrap();
        assert_eq!(found, [Path::new("cold.standfast"), Path::new("heat.standfast")]);
    }
}
