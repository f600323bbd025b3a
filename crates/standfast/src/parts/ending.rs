//! How a coordinator ends a job: after a checkpoint, as asked, or when its command has ended, or could not begin.

use super::agent_protocol::{AgentReport, AgentRequest, FoundPart};
use super::coordinator::Coordinator;
use super::questions::look;
use super::reach::{Next, show};
use crate::ending::STOPPED_EXIT_STATUS;
use crate::{Ending, Error};
use std::time::{Duration, Instant};

/// How long the parts may take to end, and to flush what is in memory.
const END_MAX: Duration = Duration::from_secs(100);

impl Coordinator<'_, '_> {
    /// Ends the job after a checkpoint, as asked.
    pub(super) fn stop(&mut self, number: u64) -> Ending {
        self.end_parts(false);
        (self.tell)(&format!("stopped after epoch {number}; standfast restart continues it"));
        self.warn_of_memory(number);
        Ending::Stopped { generation: number, exit_status: STOPPED_EXIT_STATUS }
    }

    /// Says which nodes have an epoch in memory only, although the job has ended.
    fn warn_of_memory(&mut self, number: u64) {
        let Some(found) = self.nodes.job.flushes.and_then(|_| look(&mut self.nodes).ok()) else { return };
        let lacks = |part: &FoundPart| !part.epochs.iter().any(|it| it.epoch.number == number && it.is_on_disk);
        let nodes: Vec<&str> =
            self.nodes.job.nodes.iter().zip(&found).filter(|(_, part)| lacks(part)).map(|(node, _)| &**node).collect();
        if !nodes.is_empty() {
            let nodes = nodes.join(", ");
            (self.tell)(&format!("the disk was too slow: epoch {number} is only in the memory of {nodes}"));
        }
    }

    /// Records which epochs are in doubt, since the command has failed.
    pub(super) fn note_failure(&mut self) -> Result<(), Error> {
        self.nodes.job.in_doubt = self.recent.in_doubt(Instant::now());
        if let Some(older) = self.older {
            (self.tell)(&format!(
                "the command failed again\nhint: continue it from an earlier checkpoint: standfast restart --at {older}"
            ));
        }
        self.nodes.job.save(&self.nodes.directory)
    }

    /// Ends all parts, and waits until they have ended. Shows what has been printed until then. `is_finished` says whether the
    /// command has succeeded.
    pub(super) fn end_parts(&mut self, is_finished: bool) {
        for part in 0..self.nodes.count() {
            if !self.has_ended[part] && self.nodes.ask(part, &AgentRequest::End { is_finished }).is_err() {
                self.has_ended[part] = true;
            }
        }
        let deadline = Instant::now() + END_MAX;
        while self.has_ended.contains(&false) {
            match self.nodes.next_report(deadline) {
                Next::TimeUp => return,
                // A part that has not begun cannot be ended.
                Next::Lost(part) | Next::Report(part, AgentReport::Ended { .. } | AgentReport::Failed { .. }) => {
                    self.has_ended[part] = true;
                }
                Next::Report(_, report) => show(report),
            }
        }
    }

    /// Removes the parts of a job that could not begin, as far as that is possible.
    pub(super) fn abandon(mut self) {
        self.end_parts(false);
        let _ = self.nodes.ask_all(&AgentRequest::Remove { is_dry_run: false }, END_MAX, |report| match report {
            AgentReport::Removed { .. } | AgentReport::Failed { .. } => Ok(()),
            other => Err(other),
        });
    }
}
