//! What a job's owner and the thread that freezes it share. A function takes the part that it needs.

mod contact;
mod files;
mod memory;
mod tracing;

pub(crate) use contact::JobContact;
pub(crate) use files::{JobFiles, Kept};
pub(crate) use memory::JobMemory;
pub(crate) use tracing::{JobTracing, MainProcess};

use crate::inheritance::Inheritance;
use standfast_linux::Pid;
use std::sync::Arc;

/// What a job's owner and the thread that freezes it share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What stopping its threads needs.
    pub(crate) tracing: JobTracing,
    /// What is known about its memory. A capture needs this part for longer than the freeze lasts.
    pub(crate) memory: Arc<JobMemory>,
    /// What is known about its files.
    pub(crate) files: JobFiles,
    /// What leads out of it.
    pub(crate) contact: JobContact,
}

impl Shared {
    /// `main` is the main process's pid as this process sees it.
    pub(crate) fn new(main: Pid, inheritance: Inheritance) -> Arc<Self> {
        Arc::new(Self {
            tracing: JobTracing::new(main),
            memory: Arc::default(),
            files: JobFiles::default(),
            contact: JobContact::new(inheritance),
        })
    }
}
