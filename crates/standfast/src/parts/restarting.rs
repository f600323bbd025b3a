//! How a coordinator continues a job: it takes over parts that run, or has all of them restarted together from an epoch that is
//! complete.

use super::agent_protocol::{AgentReport, AgentRequest, FoundPart};
use super::coordinator::{Coordinator, DistributedRestart, random};
use super::questions::{complete, look_when_ended, no_epoch};
use super::reach::{Next, show};
use crate::report::JobPhase;
use crate::{Ending, Error};
use standfast_parts::{CompleteEpoch, CoordinatorEvent, FromPart, PartIndex, PartsEpoch, PartsRestart, RestartOutcome};
use std::time::{Duration, Instant};

/// How long a restart may take.
const RESTART_MAX: Duration = Duration::from_secs(240);
/// How long the other parts may take to say why they have failed.
const OTHER_FAILURES_MAX: Duration = Duration::from_secs(2);

impl Coordinator<'_, '_> {
    /// Continues the parts, or takes over those that run. Returns how the job has ended, if it has.
    pub(super) fn restart(&mut self, request: &DistributedRestart) -> Result<Option<Ending>, Error> {
        let at = request.at;
        let found = look_when_ended(&mut self.nodes)?;
        for (part, found) in found.iter().enumerate() {
            self.flushes.note_on_disk(part, found.on_disk().map(|it| it.epoch).collect());
        }
        let mut complete = complete(&found);
        self.complete = complete.first().map(|newest| newest.epoch);
        if at.is_none() {
            complete.retain(|it| !self.nodes.job.in_doubt.contains(&it.epoch));
            if let Some(first) = self.nodes.job.in_doubt.first() {
                (self.tell)(&format!(
                    "the command failed soon after epoch {} and later ones: an earlier one is used",
                    first.number
                ));
            }
        }
        if found.iter().all(FoundPart::is_running) {
            (self.tell)("the job runs: taking over");
            (0..found.len()).try_for_each(|part| self.nodes.ask(part, &AgentRequest::Follow))?;
            return Ok(None);
        }
        // What is left of it cannot go on without the others.
        for (part, _) in found.iter().enumerate().filter(|(_, found)| found.is_running()) {
            self.nodes.ask(part, &AgentRequest::End { is_finished: false })?;
        }
        if found[0].phase == JobPhase::Finished && at.is_none() {
            (self.tell)("the job has finished");
            return Ok(Some(Ending::Exited { status: 0 }));
        }
        let is_meant = |it: &&CompleteEpoch| at.is_none_or(|number| it.epoch.number == number);
        let Some(CompleteEpoch { epoch, generations }) = complete.iter().find(is_meant).cloned() else {
            return Err(no_epoch(&complete, at));
        };
        self.older = complete.iter().map(|it| it.epoch.number).find(|number| *number < epoch.number);
        self.recent.note(epoch, Instant::now());
        let token = random::<16>()?;
        let despite = request.despite.iter().map(|field| format!("--despite={field}"));
        let options: Vec<String> = request.options.to_words().into_iter().chain(despite).collect();
        for (part, generation) in generations.into_iter().enumerate() {
            let restart = AgentRequest::Restart { generation, token, options: options.clone() };
            self.nodes.ask(part, &restart)?;
        }
        self.restart_together(epoch).map(|()| None)
    }

    /// Brings the parts through a restart that has begun.
    fn restart_together(&mut self, epoch: PartsEpoch) -> Result<(), Error> {
        let count = self.nodes.job.nodes.len();
        let mut restart = PartsRestart::begin(count);
        let deadline = Instant::now() + RESTART_MAX;
        loop {
            let event = self.next_event(deadline);
            let effects = restart.take(event);
            self.carry_out(effects);
            match restart.outcome() {
                None => {}
                Some(RestartOutcome::Running) => {
                    (self.tell)(&format!("continued {count} parts from epoch {}", epoch.number));
                    return Ok(());
                }
                Some(RestartOutcome::GivenUp { part, reason }) => {
                    let error = self.given_up(*part, reason);
                    self.name_other_failures(*part, reason);
                    self.end_parts(false);
                    return Err(error);
                }
            }
        }
    }

    /// Says why other parts have failed, since the first failure that is heard may be due to them: a part that fails closes
    /// its connections before it says why.
    fn name_other_failures(&mut self, first: Option<PartIndex>, given_up: &str) {
        let deadline = Instant::now() + OTHER_FAILURES_MAX;
        let mut waits: Vec<bool> = (0..self.nodes.count()).map(|part| Some(part) != first).collect();
        while waits.contains(&true) {
            match self.next_event(deadline) {
                CoordinatorEvent::TimeUp => return,
                CoordinatorEvent::Lost(part) => waits[part] = false,
                CoordinatorEvent::Said(part, FromPart::Failed { reason }) => {
                    if std::mem::take(&mut waits[part]) && !reason.contains(given_up) {
                        (self.tell)(&self.nodes.failed(part, &reason).to_string());
                    }
                }
                CoordinatorEvent::Said(..) => {}
            }
        }
    }

    /// Waits for an event of a restart.
    fn next_event(&mut self, deadline: Instant) -> CoordinatorEvent {
        loop {
            match self.nodes.next_report(deadline) {
                Next::TimeUp => return CoordinatorEvent::TimeUp,
                Next::Lost(part) => return CoordinatorEvent::Lost(part),
                Next::Report(part, AgentReport::Ended { .. }) => {
                    self.has_ended[part] = true;
                    return CoordinatorEvent::Lost(part);
                }
                Next::Report(part, AgentReport::Part { cut: None, said }) => return CoordinatorEvent::Said(part, said),
                Next::Report(part, AgentReport::Failed { reason }) => {
                    return CoordinatorEvent::Said(part, FromPart::Failed { reason });
                }
                Next::Report(_, report) => show(report),
            }
        }
    }
}
