//! The end of the job: clients that wait are answered, and nothing begins any more.

use super::outcomes::answer;
use super::{CheckpointRequest, Effect, Event, Machine};
use crate::control::{ClientId, Reply};

impl Machine {
    /// Answers all waiting clients. From now on, nothing begins.
    pub(super) fn end(&mut self, effects: &mut Vec<Effect>) {
        self.has_ended = true;
        let served = self.checkpoint.take().map(|running| running.served).into_iter().flatten();
        let asked = self.asked.drain(..).map(|request| request.client);
        let coalescing = self.coalescing.take().into_iter().flatten().chain(self.coalescing_asked.drain(..));
        let waiting: Vec<ClientId> = served.chain(asked).chain(coalescing).collect();
        answer(waiting, &too_late(), effects);
    }
}

/// Handles an event that comes after the end: answers a client, and ignores all else.
pub(super) fn after_end(event: &Event) -> Vec<Effect> {
    match event {
        Event::Asked(CheckpointRequest { client, .. })
        | Event::CoalescingAsked { client }
        | Event::AskedHere { client, .. }
        | Event::Enabled { client } => vec![Effect::Answer(*client, too_late())],
        Event::Tick
        | Event::CheckpointAsked
        | Event::StopAsked
        | Event::Unprotectable { .. }
        | Event::CheckpointEnded(_)
        | Event::FlushEnded(_)
        | Event::CoalescingEnded(_)
        | Event::CoalescingNotBegun(_)
        | Event::RehearsalEnded(_)
        | Event::Sized { .. }
        | Event::JobEnded => Vec::new(),
    }
}

fn too_late() -> Reply {
    Reply::Failed { message: "the program ended".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::supervisor::flushing::{End, Measured};

    /// Makes a machine that has taken a checkpoint in memory, and flushes it.
    fn flushing(now: Instant) -> Machine {
        let flushes = FlushSchedule::new(Default::default(), Default::default(), now);
        let mut machine = Machine::new(Settings::imagined(), flushes, None, now);
        let now = now + Duration::from_secs(1);
        let begun = machine.on(Event::Tick, now);
        assert!(matches!(&begun[..], [Effect::BeginCheckpoint(_)]), "{begun:?}");
        let taken = TakenFacts::imagined(1, Level::Memory);
        machine.on(Event::CheckpointEnded(Ok(taken)), now);
        machine.on(Event::CoalescingEnded(Err("no room".to_owned())), now);
        let begun = machine.on(Event::Tick, now);
        assert!(matches!(&begun[..], [Effect::BeginFlush(_)]), "{begun:?}");
        machine
    }

    #[test]
    fn after_the_end_nothing_begins_and_clients_are_answered() {
        let start = Instant::now();
        let mut machine = flushing(start);
        let late = start + Duration::from_secs(3600);
        assert!(machine.on(Event::JobEnded, late).is_empty());
        let flushed = FlushOutcome { end: Ok(End::OnDisk(None)), measured: Measured::Nothing };
        for event in [Event::FlushEnded(flushed), Event::Tick, Event::CheckpointAsked, Event::Tick, Event::JobEnded] {
            let begun = machine.on(event, late);
            assert!(begun.is_empty(), "{begun:?}");
        }
        assert_eq!(machine.due(), None);
        let client = ClientId::imagined(1);
        let answers = machine.on(Event::CoalescingAsked { client }, late);
        assert!(matches!(&answers[..], [Effect::Answer(_, Reply::Failed { .. })]), "{answers:?}");
    }
}
