//! Programs of this machine that tests want.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Whether a command can be executed and ends well.
pub(crate) fn succeeds(command: &[&str]) -> bool {
    Command::new(command[0]).args(&command[1..]).output().is_ok_and(|answer| answer.status.success())
}

/// Where a program is, as a shell would find it, if it works.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let works = succeeds(&[name, "--version"]);
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut candidates = env::split_paths(&folders).map(|folder| folder.join(name));
    candidates.find(|path| path.is_file()).filter(|_| works)
}
