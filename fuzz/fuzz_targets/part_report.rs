//! Any bytes as what a part of a distributed job says, and any ends of connections as what two parts report of them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_parts::{ConnectionEnd, EndName, FromPart, PartReport, pair};
use std::net::SocketAddr;

/// Flags, addresses, and three counters.
const BYTES_OF_END: usize = 2 + 3 * 8;

fn address(choice: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, choice & 1], 4000 + u16::from(choice & 2)))
}

fn end([flags, choice, counters @ ..]: &[u8; BYTES_OF_END]) -> ConnectionEnd {
    let flag = |bit: u8| flags & 1 << bit != 0;
    let counter = |at: usize| u64::from_le_bytes(*counters[8 * at..].first_chunk().expect("three of them"));
    ConnectionEnd {
        name: EndName { local: address(*choice), remote: address(choice >> 2) },
        seems_accepted: flag(0),
        has_ended: flag(1),
        has_received_all: flag(2),
        may_be_emptied: flag(3),
        was_emptied: flag(4),
        was_refilled: flag(5),
        unsent: counter(0),
        acknowledged: counter(1),
        received: counter(2),
    }
}

fuzz_target!(|input: &[u8]| {
    if let Ok(said) = serde_json::from_slice::<FromPart>(input) {
        let again = serde_json::to_vec(&said).expect("it can be encoded");
        assert_eq!(serde_json::from_slice::<FromPart>(&again).expect("it was one before"), said);
        if let FromPart::Frozen(report) = said {
            report.ends.apply(&mut Vec::new());
        }
    }
    let mut reports = [PartReport::default(), PartReport::default()];
    for bytes in input.chunks_exact(BYTES_OF_END) {
        let part = usize::from(bytes[0] >> 7);
        reports[part].ends.push(end(bytes.first_chunk().expect("of this length")));
    }
    for are_full in [false, true] {
        let pairing = pair(&reports, &[], are_full);
        let is_answered = |(others, report): (&Vec<_>, &PartReport)| others.len() == report.ends.len();
        assert!(pairing.others.iter().zip(&reports).all(is_answered));
    }
});
