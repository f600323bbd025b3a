//! The gates at which a victim stands, so that it is struck exactly there.
//!
//! A victim announces a moment with a file `at-NUMBER-NAME` in a folder that the environment names, and waits until there
//! is `open-NUMBER` or `open-all`. Without that variable it passes.

use crate::arena::Arena;
use crate::running::{PATIENCE, Running, until};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::PathBuf;

/// What names the folder to the victim.
pub const FOLDER_VARIABLE: &str = "VICTIM_MOMENTS";

/// The moments of one run.
#[derive(Debug)]
pub struct Moments {
    folder: PathBuf,
}

/// A moment at which the victim stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Counted from 1.
    pub number: u32,
    /// As the victim calls it.
    pub name: String,
}

impl Moments {
    /// All gates closed.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(arena: &Arena) -> Result<Self> {
        let folder = arena.folder().join("moments");
        fs::create_dir(&folder).context("making the folder for moments")?;
        Ok(Self { folder })
    }

    /// The folder, for [`FOLDER_VARIABLE`].
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Waits until the victim stands at its moment `number`. `None` where the job ended instead.
    ///
    /// # Errors
    /// When neither happens within [`PATIENCE`].
    pub fn reached(&self, number: u32, job: &mut Running) -> Result<Option<Moment>> {
        let reached = until(PATIENCE, &format!("moment {number} of the victim"), || {
            // In this order: a job that ends does so behind its last moment.
            let ended = job.has_ended()?;
            Ok(match self.announced(number)? {
                Some(moment) => Some(Some(moment)),
                None => ended.then_some(None),
            })
        });
        reached.with_context(|| format!("the job had said: {}", job.errors_so_far()))
    }

    fn announced(&self, number: u32) -> Result<Option<Moment>> {
        let prefix = format!("at-{number}-");
        let names = fs::read_dir(&self.folder)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names = names.filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned));
        Ok(names.next().map(|name| Moment { number, name }))
    }

    /// Lets the victim pass this one.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn open(&self, moment: &Moment) -> Result<()> {
        self.make(&format!("open-{}", moment.number))
    }

    /// Lets the victim pass all of them.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn open_all(&self) -> Result<()> {
        self.make("open-all")
    }

    fn make(&self, name: &str) -> Result<()> {
        let path = self.folder.join(name);
        ensure!(!path.exists(), "gate {name} has been opened already");
        fs::write(&path, "").with_context(|| format!("making {}", path.display()))
    }
}
