//! Requests to a supervisor through the control socket, from people and from the program itself.

use super::Supervisor;
use super::machine::{CheckpointRequest, Event};
use crate::checkpoint::Purpose;
use crate::control::{ClientId, Reply, Request};
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

    pub(super) fn answer(&mut self, client: ClientId, reply: &Reply) {
        if let Some(control) = &mut self.setup.control {
            control.answer(client, reply);
        }
    }
}
