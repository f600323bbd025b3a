//! Fetches what the rules look at: git's list of files, their text, cargo's list of packages. Decides nothing itself.

use crate::circles::Modules;
use crate::finding::Finding;
use crate::names::PublicTypes;
use crate::{documents, rooms, sources, words};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Written by cargo, not by us.
const GENERATED: &str = "Cargo.lock";

const GLOSSARY: &str = "docs/glossary.md";

/// What a check found.
#[derive(Debug)]
pub(crate) struct Report {
    /// Files looked at.
    pub(crate) files: usize,
    /// Packages looked at.
    pub(crate) packages: usize,
    /// What is to be mended, in order of files.
    pub(crate) findings: Vec<Finding>,
}

/// Why a check could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TidyError {
    /// A program is missing or failed.
    #[error("`{command}` failed: {reason}")]
    Command {
        /// The command line.
        command: String,
        /// What it said.
        reason: String,
    },
    /// A file that git lists could not be read.
    #[error("{} could not be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Cargo's answer is not what it used to be.
    #[error("the answer of `cargo metadata` was not understood: {0}")]
    Metadata(#[from] serde_json::Error),
}

/// Checks the repository that this package was built in.
///
/// # Errors
/// When git or cargo cannot be asked, or a file not be read.
pub(crate) fn check() -> Result<Report, TidyError> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a folder of the repository");
    let files = list_files(top)?;
    let metadata = list_packages(top)?;
    let (mut types, mut modules) = (PublicTypes::default(), Modules::default());
    let mut findings = rooms::check(&metadata, &top.to_string_lossy());
    for path in files.iter().filter(|path| *path != GENERATED) {
        let Some(text) = read_text(&top.join(path))? else { continue };
        findings.extend(sources::check(path, &text));
        findings.extend(words::check(path, &text));
        types.note(path, &text);
        modules.note(path, &text);
        if path.ends_with(".md") {
            findings.extend(documents::dead_links(path, &text, &files));
        }
        if path == GLOSSARY {
            findings.extend(documents::glossary(path, &text));
        }
    }
    findings.extend(types.check());
    findings.extend(modules.check());
    findings.sort();
    Ok(Report { files: files.len(), packages: metadata.packages.len(), findings })
}

/// Files that git knows or would take, as far as they are there.
fn list_files(top: &Path) -> Result<BTreeSet<String>, TidyError> {
    let mut git = Command::new("git");
    // The checkout may belong to another user than the one who runs the tests; nothing in it is executed here.
    git.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = answer(git.current_dir(top))?;
    let names = listed.split('\0').filter(|name| !name.is_empty() && top.join(name).is_file());
    Ok(names.map(str::to_owned).collect())
}

fn list_packages(top: &Path) -> Result<rooms::Metadata, TidyError> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    Ok(serde_json::from_str(&answer(cargo.current_dir(top))?)?)
}

/// `None` for a file that is not text.
fn read_text(path: &Path) -> Result<Option<String>, TidyError> {
    let bytes = std::fs::read(path).map_err(|source| TidyError::Unreadable { path: path.to_owned(), source })?;
    Ok(String::from_utf8(bytes).ok())
}

fn answer(command: &mut Command) -> Result<String, TidyError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let failed = |reason: String| TidyError::Command { command: line.clone(), reason };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
}
