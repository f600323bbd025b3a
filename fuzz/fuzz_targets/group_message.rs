//! Any bytes as a message of a group; and as the body of one, sealed so that it gets past length and checksum.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::Checksum;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::{Arrival, Control, Message, Phase, Plan, RecoveryMode, Term, decode, encode};

/// As `message.rs` has it.
const FOOT_BYTES: usize = 80;

fuzz_target!(|input: &[u8]| {
    let plan = Plan::rotating(JobId::from_bytes([1; 16]), RecoveryMode::Relaunch, Scheme::Parity, 4).expect("a plan");
    let _ = decode(&plan, input.to_vec());
    let Some((kind, body)) = input.split_first() else { return };
    let (pages, body) = body.split_at(if kind & 2 == 0 { 0 } else { body.len() / 2 });
    let whole = encode(&plan, Term::default(), Message::Control(Control::Phase(Phase::Arrived(Arrival::default()))));
    let mut foot = *whole.last_chunk::<FOOT_BYTES>().expect("every message ends with one");
    foot[6] = kind % 2;
    foot[52..56].copy_from_slice(&(body.len() as u32).to_le_bytes());
    foot[56..60].copy_from_slice(&(pages.len() as u32).to_le_bytes());
    let mut bytes = [pages, body, &foot].concat();
    let (summed, checksum) = bytes.split_last_chunk_mut::<16>().expect("the foot is there");
    *checksum = Checksum::of(&summed[pages.len()..]).to_bytes();
    if let Ok((term, message)) = decode(&plan, bytes) {
        let again = encode(&plan, term, message.clone());
        assert_eq!(decode(&plan, again), Ok((term, message)));
    }
});
