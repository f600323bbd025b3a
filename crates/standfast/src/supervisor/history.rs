//! What a supervisor appends to the job's history, and what it learns from it.

use super::machine::{Failed, PastIntervals, TakenFacts};
use super::{Supervisor, SupervisorSetup};
use crate::history::{HistoryEntry, nanoseconds_since_1970, read_history};
use crate::settings::Interval;

/// Returns what the choice of the interval begins with, if that is left to the supervisor.
pub(super) fn past_intervals(setup: &SupervisorSetup) -> Option<PastIntervals> {
    if setup.options.interval != Interval::Auto {
        return None;
    }
    let history = read_history(&setup.destination.levels.directory);
    Some(PastIntervals {
        told: setup.options.mtbf.rate(),
        failures: history.failures(false),
        chooser: history.chooser(),
        began_nanoseconds: nanoseconds_since_1970(),
    })
}

impl Supervisor<'_, '_> {
    /// Notes that a life has begun.
    pub(super) fn begin_history(&self) {
        self.append(HistoryEntry::Began { restart: self.setup.restart.clone() });
    }

    /// Notes how a checkpoint has ended, if it was one.
    pub(super) fn note_in_history(&self, outcome: &Result<TakenFacts, Failed>) {
        match outcome {
            Ok(taken) => self.append(HistoryEntry::Checkpoint(taken.report)),
            Err(failed) if failed.is_disabled || failed.is_end => {}
            Err(failed) => self.append(HistoryEntry::failed(&failed.reason)),
        }
    }

    pub(super) fn append(&self, entry: HistoryEntry) {
        let destination = &self.setup.destination;
        entry.append(&destination.levels.directory, &destination.lease);
    }
}
