//! The supervisor's part in coalescing: when it begins, by itself or because somebody has asked, and who is told.

use super::Supervisor;
use crate::chains::Incremental;
use crate::coalesce::Coalescing;
use crate::control::Reply;
use crate::event::JobEvent;
use crate::quoting::{InWords, without_numbers};
use crate::report::CoalescingReport;
use standfast_store::Level;

impl Supervisor<'_, '_> {
    /// Coalesces the chain of the newest checkpoint if it is time for that, while the program runs and checkpoints are
    /// taken.
    pub(super) fn begin_coalescing(&mut self, level: Level) {
        let builds = self.post.options.incremental != Incremental::Off || self.job.freezer().has_promises();
        if self.coalescing.is_some() || !builds {
            return;
        }
        match Coalescing::begin(&self.post.destination, level) {
            Ok(coalescing) => self.coalescing = Some(coalescing),
            Err(error) => self.warn(format!("cannot start a thread to coalesce checkpoints: {error}")),
        }
    }

    /// Coalesces as far as possible for whoever has asked for it, once nothing is being coalesced.
    pub(super) fn coalesce_as_asked(&mut self) {
        if self.coalescing.is_some() || self.merge_asked.is_empty() {
            return;
        }
        self.merge_served = std::mem::take(&mut self.merge_asked);
        match Coalescing::at_once(&self.post.destination) {
            Ok(coalescing) => self.coalescing = Some(coalescing),
            Err(error) => self.answer_merge(&Reply::Failed { message: InWords(&error).to_string() }),
        }
    }

    pub(super) fn answer_merge(&mut self, reply: &Reply) {
        let served = std::mem::take(&mut self.merge_served);
        if let Some(control) = &mut self.post.control {
            served.into_iter().for_each(|client| control.answer(client, reply));
        }
    }

    /// Takes note of what was coalesced, waiting for that if need be.
    pub(super) fn end_coalescing(&mut self) {
        let Some(coalescing) = self.coalescing.take() else { return };
        match coalescing.join() {
            Ok(coalesced) => {
                let report = CoalescingReport::of(coalesced);
                self.answer_merge(&Reply::Coalesced(report));
                if let CoalescingReport { generation: Some(generation), file_bytes, removed } = report {
                    self.say(&JobEvent::Coalesced { generation, file_bytes, removed });
                }
            }
            Err(reason) => {
                let reason = without_numbers(&reason);
                self.answer_merge(&Reply::Failed { message: reason.clone() });
                self.warn(format!("cannot coalesce checkpoints, which stay as they are: {reason}"));
            }
        }
    }
}
