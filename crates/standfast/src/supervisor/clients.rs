//! Requests to a supervisor through the control socket, from people and from the program itself.

use super::Supervisor;
use super::machine::{CheckpointRequest, Event};
use crate::checkpoint::{Purpose, end_job};
use crate::control::{ClientId, Reply, Request};
use standfast_engine::EngineError;
use standfast_parts::CutOrder;
use std::time::Instant;

impl Supervisor<'_, '_> {
    pub(super) fn handle_clients(&mut self) {
        let now = Instant::now();
        let requests = self.setup.control.as_mut().map(|control| control.take_requests(now)).unwrap_or_default();
        for (client, request) in requests {
            let event = match request {
                Request::Checkpoint { stop } => {
                    let purpose = if stop { Purpose::Stop } else { Purpose::Protect };
                    Event::Asked(CheckpointRequest { client, purpose })
                }
                Request::Cut(order) => {
                    if let Err(reason) = self.begin_cut(client, order) {
                        self.answer(client, &Reply::Failed { message: reason });
                        continue;
                    }
                    Event::Asked(CheckpointRequest { client, purpose: Purpose::Protect })
                }
                Request::End { is_finished } => {
                    self.is_finished |= is_finished;
                    let failed = |error: EngineError| Reply::Failed { message: error.to_string() };
                    let reply = end_job(&self.job.freezer()).map_or_else(failed, |()| Reply::Noted);
                    self.answer(client, &reply);
                    continue;
                }
                Request::Coalesce => Event::CoalescingAsked { client },
                Request::Here { again } => Event::AskedHere { client, again },
                Request::Enabled => Event::Enabled { client },
                Request::Status => {
                    self.note_size();
                    let own = i32::try_from(std::process::id()).expect("process ids are positive and small");
                    let mut report = self.machine.report(own, self.job.main_process().pid.get(), now);
                    report.restart.clone_from(&self.setup.restart);
                    self.answer(client, &Reply::Status(Box::new(report)));
                    continue;
                }
            };
            self.on(event);
        }
    }

    /// Begins the part of a cut that is this job's.
    fn begin_cut(&mut self, client: ClientId, order: CutOrder) -> Result<(), String> {
        let Some(part) = &self.setup.destination.part else {
            return Err("it is not a part of a distributed job".to_owned());
        };
        if self.checkpointing.is_some() {
            return Err("a checkpoint is under way already".to_owned());
        }
        let conversation = self.setup.control.as_mut().map(|control| control.conversation(client));
        match conversation {
            Some(Ok((stream, said))) => {
                part.begin_cut(order, stream, said);
                Ok(())
            }
            Some(Err(error)) => Err(error.to_string()),
            None => Err("it has no control socket".to_owned()),
        }
    }

    pub(super) fn answer(&mut self, client: ClientId, reply: &Reply) {
        if let Some(control) = &mut self.setup.control {
            control.answer(client, reply);
        }
    }
}
