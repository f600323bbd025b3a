//! What is asked of a supervisor: by people through the control socket, and by the program itself.

use super::Supervisor;
use crate::control::{ClientId, Reply, Request};
use crate::report::LiveReport;
use std::time::{Duration, Instant};

impl Supervisor<'_, '_> {
    pub(super) fn handle_clients(&mut self) {
        let now = Instant::now();
        let requests = self.post.control.as_mut().map(|control| control.take_requests(now)).unwrap_or_default();
        for (client, request) in requests {
            match request {
                Request::Checkpoint { stop } => self.asked.push((client, stop)),
                Request::Coalesce => self.merge_asked.push(client),
                Request::Here { again } => self.handle_program(client, again, now),
                Request::Enabled => {
                    if self.disabled_since.is_some() {
                        self.schedule.hasten(now);
                    }
                    self.answer(client, &Reply::Noted);
                }
                Request::Status => {
                    let status = Reply::Status(self.live_report(now));
                    self.answer(client, &status);
                }
            }
        }
    }

    /// A program asks for a checkpoint where it stands.
    pub(super) fn handle_program(&mut self, client: ClientId, again: bool, now: Instant) {
        let wait = self.schedule.honoured_in(now);
        let reply = if again && self.last_failure.is_some() {
            // It could not be told by the checkpoint itself.
            Reply::Failed { message: "the checkpoint failed".to_owned() }
        } else if again || wait == Some(Duration::ZERO) {
            self.here_asked = true;
            Reply::Noted
        } else {
            let nanoseconds = wait.and_then(|wait| u64::try_from(wait.as_nanos()).ok()).unwrap_or(u64::MAX);
            Reply::NotDue { nanoseconds }
        };
        self.answer(client, &reply);
    }

    pub(super) fn answer(&mut self, client: ClientId, reply: &Reply) {
        if let Some(control) = &mut self.post.control {
            control.answer(client, reply);
        }
    }

    pub(super) fn live_report(&self, now: Instant) -> LiveReport {
        let until = |due: Instant| due.saturating_duration_since(now).as_secs_f64();
        LiveReport {
            supervisor_pid: i32::try_from(std::process::id()).expect("process ids are positive and small"),
            program_pid: self.job.main_process().pid,
            is_checkpointing: self.checkpointing.is_some(),
            is_coalescing: self.coalescing.is_some(),
            flush: self
                .post
                .destination
                .levels
                .memory
                .as_ref()
                .map(|_| self.flush_costs.report(self.post.options.flush)),
            disabled_seconds: self.disabled_since.map(|since| now.saturating_duration_since(since).as_secs_f64()),
            next_due_seconds: self.schedule.due().map(until),
            last_checkpoint: self.last_checkpoint,
            last_failure: self.last_failure.clone(),
        }
    }
}
