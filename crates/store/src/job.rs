//! The directory of a job: opened, described, its manifest read and rewritten.

use crate::lease::{Claim, Here, Lease, Standing};
use crate::{Medium, Prepared, StoreError};
use standfast_format::manifest::{JobDescription, Manifest, Outcome, RunOptions};
use std::path::Path;
use std::sync::Arc;

/// The directory of a job. Reading needs no more than this; whatever writes also takes the [`Lease`].
///
/// One value may be shared by the threads of a process: a checkpoint is written on one while another answers questions.
#[derive(Debug)]
pub struct JobDirectory {}

impl JobDirectory {
    /// Opens the directory, which is created (mode 0700) where it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`] when others own it or may write it, [`StoreError::Medium`].
    pub fn create(_path: &Path) -> Result<Self, StoreError> {
        unimplemented!("skeleton")
    }

    /// Opens a directory that exists. Whether there is a job in it, [`JobDirectory::manifest`] tells.
    ///
    /// # Errors
    /// [`StoreError::NoDirectory`], [`StoreError::Untrusted`], [`StoreError::Medium`].
    pub fn open(_path: &Path) -> Result<Self, StoreError> {
        unimplemented!("skeleton")
    }

    /// Opens whatever stands behind `medium`, as seen from `here`.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`], [`StoreError::Medium`].
    pub fn on(_medium: Arc<dyn Medium>, _here: Here) -> Result<Self, StoreError> {
        unimplemented!("skeleton")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        unimplemented!("skeleton")
    }

    /// The manifest as it was when the directory was opened, the lease taken, or this value last wrote it.
    ///
    /// # Errors
    /// [`StoreError::NoJob`] where there is none; [`StoreError::Manifest`] and others where it cannot be read.
    pub fn manifest(&self) -> Result<Manifest, StoreError> {
        unimplemented!("skeleton")
    }

    /// Who looks after the job now.
    ///
    /// # Errors
    /// [`StoreError::Medium`].
    pub fn standing(&self) -> Result<Standing, StoreError> {
        unimplemented!("skeleton")
    }

    /// Takes the lease, clears away what a dead writer left half done and reads the manifest again.
    ///
    /// # Errors
    /// [`StoreError::Supervised`], [`StoreError::ProgramStillRuns`], [`StoreError::HeldElsewhere`],
    /// [`StoreError::LeaseUnreadable`], [`StoreError::Medium`].
    pub fn take_lease(&self, _claim: Claim) -> Result<Lease, StoreError> {
        unimplemented!("skeleton")
    }

    /// Begins a new job here: writes a first manifest and removes the generations of a job that was here before.
    ///
    /// # Errors
    /// When the manifest cannot be written.
    pub fn begin(&self, _lease: &Lease, _description: JobDescription, _options: RunOptions) -> Result<(), StoreError> {
        unimplemented!("skeleton")
    }

    /// Notes how the job stands.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn set_outcome(&self, _lease: &Lease, _outcome: Outcome) -> Result<(), StoreError> {
        unimplemented!("skeleton")
    }

    /// Notes other options of the run.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn set_options(&self, _lease: &Lease, _options: RunOptions) -> Result<(), StoreError> {
        unimplemented!("skeleton")
    }

    /// Makes ready to take the next generation: creates its file, its buffers and its writing threads. Costs
    /// milliseconds, so call it before the program is frozen.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::LeaseLost`], [`StoreError::NoSpace`], [`StoreError::Medium`].
    pub fn prepare(&self, _lease: &Lease) -> Result<Prepared, StoreError> {
        unimplemented!("skeleton")
    }
}
