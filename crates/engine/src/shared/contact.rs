//! What leads out of a job: what it was started with, its terminal and its ports.

use crate::endpoint::TerminalHolder;
use crate::inheritance::Inheritance;
use crate::partners::CutPartners;
use crate::reused_ports::ReusedPorts;
use std::sync::{Arc, Mutex, PoisonError};

/// What leads out of a job.
#[derive(Debug)]
pub(crate) struct JobContact {
    pub(crate) inheritance: Inheritance,
    /// The holder of the master of its terminal, if that is outside.
    terminal: Mutex<Option<Arc<dyn TerminalHolder>>>,
    /// The other parts, if it is a part of a distributed job.
    partners: Mutex<Option<Arc<dyn CutPartners>>>,
    /// Its sockets that share their ports because we made them do so.
    pub(crate) reused_ports: ReusedPorts,
}

impl JobContact {
    pub(super) fn new(inheritance: Inheritance) -> Self {
        Self {
            inheritance,
            terminal: Mutex::default(),
            partners: Mutex::default(),
            reused_ports: ReusedPorts::default(),
        }
    }

    pub(crate) fn terminal(&self) -> Option<Arc<dyn TerminalHolder>> {
        self.terminal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn partners(&self) -> Option<Arc<dyn CutPartners>> {
        self.partners.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_partners(&self, partners: Arc<dyn CutPartners>) {
        *self.partners.lock().unwrap_or_else(PoisonError::into_inner) = Some(partners);
    }

    pub(crate) fn set_terminal(&self, holder: Option<Arc<dyn TerminalHolder>>) {
        *self.terminal.lock().unwrap_or_else(PoisonError::into_inner) = holder;
    }
}
