//! Programs of this machine that tests need.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Reports whether a command can be executed and succeeds.
pub(crate) fn succeeds(command: &[&str]) -> bool {
    Command::new(command[0]).args(&command[1..]).output().is_ok_and(|answer| answer.status.success())
}

/// Returns the path of a program as a shell would find it, if the program works.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let works = succeeds(&[name, "--version"]);
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut candidates = env::split_paths(&folders).map(|folder| folder.join(name));
    candidates.find(|path| path.is_file()).filter(|_| works)
}
