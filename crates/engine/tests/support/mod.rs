//! What the engine's tests share.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A program of the tests, compiled, in a directory that goes when the test ends, however it ends.
pub(crate) fn compile(source: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory can be had");
    let program = directory.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let done = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().expect("cc runs");
    assert!(done.success());
    (directory, program)
}
