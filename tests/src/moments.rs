//! The gates at which a victim waits, so that a strike hits exactly there.
//!
//! A victim announces a moment with a file `at-NUMBER-NAME` in a folder that an environment variable names. It then
//! waits until `open-NUMBER` or `open-all` exists. If the variable is not set, the victim does not wait.

use crate::arena::Arena;
use crate::running::{PATIENCE, Running, until};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::PathBuf;

/// The environment variable that gives the victim the folder.
pub const FOLDER_VARIABLE: &str = "VICTIM_MOMENTS";

/// The moments of one run.
#[derive(Debug)]
pub struct Moments {
    folder: PathBuf,
}

/// A moment at which the victim waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Its number, counted from 1.
    pub number: u32,
    /// The victim's name for it.
    pub name: String,
}

impl Moments {
    /// Makes the folder, with all gates closed.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(arena: &Arena) -> Result<Self> {
        let folder = arena.folder().join("moments");
        fs::create_dir(&folder).context("making the folder for moments")?;
        Ok(Self { folder })
    }

    /// Returns the folder, for [`FOLDER_VARIABLE`].
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Waits until the victim has reached moment `number`. Returns `None` if the job ends instead.
    ///
    /// # Errors
    /// When neither happens within [`PATIENCE`].
    pub fn reached(&self, number: u32, job: &mut Running) -> Result<Option<Moment>> {
        let reached = until(PATIENCE, &format!("moment {number} of the victim"), || {
            // In this order, since a job ends after its last moment.
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

    /// Lets the victim pass this moment.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn open(&self, moment: &Moment) -> Result<()> {
        self.make(&format!("open-{}", moment.number))
    }

    /// Lets the victim pass all moments.
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
