//! Any bytes as a message of a group; and as the body of one, sealed so that it gets past length and checksum.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::Checksum;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::{Control, Message, Phase, Plan, Term, WayBack, decode, encode};

fuzz_target!(|input: &[u8]| {
    let plan = Plan::rotating(JobId::from_bytes([1; 16]), WayBack::Relaunch, Scheme::Parity, 4).expect("a plan");
    let _ = decode(&plan, &mut input.to_vec());
    let Some((kind, body)) = input.split_first() else { return };
    let mut bytes = encode(&plan, Term::default(), &Message::Control(Control::Phase(Phase::Arrived(0))));
    bytes.truncate(72);
    bytes.extend(body);
    bytes[6] = kind % 2;
    bytes[52..56].copy_from_slice(&(body.len() as u32).to_le_bytes());
    bytes[56..72].fill(0);
    let checksum = Checksum::of(&bytes);
    bytes[56..72].copy_from_slice(&checksum.to_bytes());
    if let Ok((term, message)) = decode(&plan, &mut bytes) {
        let mut again = encode(&plan, term, &message);
        assert_eq!(decode(&plan, &mut again), Ok((term, message)));
    }
});
