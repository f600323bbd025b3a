//! Any messages of any kind to a process in the middle of its first epoch: it may refuse, never panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::transfer::Costs;
use standfast_group::{
    Beginning, Effect, Event, LogicalRank, Membership, MemoryShardStore, Message, Nothing, Plan, Process,
    ProcessSettings, Rank, RecoveryMode, Term, encode,
};
use std::sync::Arc;

fuzz_target!(|input: &[u8]| {
    let plan = Plan::rotating(JobId::from_bytes([1; 16]), RecoveryMode::Relaunch, Scheme::Parity, 3).expect("a plan");
    let plan = Arc::new(plan);
    let costs = Costs { latency_nanoseconds: 1, page_nanoseconds: 1 };
    let beginning = Beginning { rank: Rank(0), prefers: Some(LogicalRank(0)), started: false, costs, encode_every: 1 };
    let mut process = Process::new(plan.clone(), ProcessSettings { beginning, compress: true, full: None });
    let (mut payload, mut shard_store) = (Nothing::default(), MemoryShardStore::default());
    let membership = Membership { number: 1, present: (0..3).map(Rank).collect() };
    let mut inputs = vec![Event::Membership(membership)];
    let mut rest = input;
    loop {
        while let Some(input) = inputs.pop() {
            for output in process.handle(input, &mut payload, &mut shard_store) {
                match output {
                    Effect::Survey(membership) => inputs.push(Event::Surveyed(membership, shard_store.survey())),
                    Effect::Seal(work) => {
                        shard_store.seal(work);
                        inputs.push(Event::Sealed(work.epoch));
                    }
                    Effect::Acknowledge(epoch) => {
                        shard_store.acknowledge(epoch);
                        inputs.push(Event::Acknowledged(epoch));
                    }
                    Effect::Keep { epoch, logical_rank, life } => {
                        shard_store.keep(epoch, logical_rank, life);
                        inputs.push(Event::Kept);
                    }
                    Effect::Resume(_) => inputs.push(Event::Arrived(1)),
                    _ => {}
                }
            }
        }
        // One message: from whom and of what kind, its length, its body.
        let [head, length, behind @ ..] = rest else { return };
        let body = &behind[..behind.len().min(usize::from(*length))];
        rest = &behind[body.len()..];
        let message = if head & 1 == 0 {
            minicbor::decode(body).map(Message::Control).ok()
        } else {
            minicbor::decode(body).map(Message::Data).ok()
        };
        let Some(message) = message else { continue };
        let term = Term { membership: 1, round: u32::from(head >> 6) };
        let from = Rank(u32::from(head >> 1 & 3));
        inputs.push(Event::Message(from, encode(&plan, term, message)));
    }
});
