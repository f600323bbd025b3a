//! What a program leaves: its standard output and its files, byte by byte.

use crate::arena::Arena;
use crate::running::{Output, Running, patience_for_a_whole_run};
use crate::victims::Program;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// The file in the working folder that receives a victim's standard output.
pub const OUTPUT: &str = "output";

/// Files through which tests and victims communicate. They are not part of a result.
const SIGNPOSTS: [&str; 2] = ["gate", "waiting"];

/// The files of a working folder by name, including standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult(BTreeMap<String, Vec<u8>>);

impl RunResult {
    /// Runs the program undisturbed, without Standfast, and returns its result.
    ///
    /// # Errors
    /// When the program fails.
    pub fn native(program: &Program) -> Result<Self> {
        let arena = Arena::new()?;
        open_gate(&arena)?;
        let mut command = arena.command(&program.path);
        command.args(&program.arguments).stdin(Stdio::null());
        let output = Output::File(arena.work().join(OUTPUT));
        let native = Running::start(&arena, "native", output, &mut command)?;
        native.wait(patience_for_a_whole_run())?.well("the undisturbed run")?;
        Self::read(&arena.work())
    }

    /// Reads the result from a working folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        collect(folder, "", &mut files)?;
        Ok(Self(files))
    }

    /// Returns the program's standard output.
    pub fn output(&self) -> String {
        self.0.get(OUTPUT).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    /// Compares this result with that of an undisturbed run.
    ///
    /// # Errors
    /// When they differ. The error says where.
    pub fn must_equal(&self, native: &Self) -> Result<()> {
        for (name, wanted) in &native.0 {
            let Some(found) = self.0.get(name) else { bail!("result file {name} is missing") };
            if found != wanted {
                let at = found.iter().zip(wanted).take_while(|(a, b)| a == b).count();
                let lengths = (found.len(), wanted.len());
                bail!("result file {name} differs from byte {at} on; {} bytes instead of {}", lengths.0, lengths.1);
            }
        }
        match self.0.keys().find(|name| !native.0.contains_key(*name)) {
            Some(name) => bail!("there is a result file {name} that an undisturbed run does not leave"),
            None => Ok(()),
        }
    }
}

/// Adds the contents of `folder` to `files`, including folders within it. For anything but regular files, only the kind
/// counts, since opening a FIFO would block.
fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if SIGNPOSTS.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            collect(&entry.path(), &format!("{name}/"), files)?;
        }
        let content = if kind.is_file() { fs::read(entry.path())? } else { format!("{kind:?}").into_bytes() };
        files.insert(name, content);
    }
    Ok(())
}

/// Opens the gate at which a victim waits.
///
/// # Errors
/// When the file cannot be made.
pub fn open_gate(arena: &Arena) -> Result<()> {
    fs::write(arena.work().join("gate"), "").context("opening the gate")
}
