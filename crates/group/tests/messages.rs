//! Messages from outside: every kind arrives as it was sent, and an error names whatever is wrong with a message.

use standfast_core::erasure::Scheme;
use standfast_core::{Checksum, Syndrome};
use standfast_format::manifest::JobId;
use standfast_group::transfer::Costs;
use standfast_group::{
    Arrival, Control, Data, DeltaDescriptor, Description, EpochId, EpochLevel, Fingerprint, Holding, Life, LogicalRank,
    MESSAGE_BYTES_MAX, Message, MessageError, Node, Part, Phase, Plan, Rank, RecoveryMode, Refusal, RegionId, Report,
    Restore, ShardId, SlotMap, SlotSet, Sums, Term, decode, encode,
};

const TERM: Term = Term { membership: 7, round: 2 };
const COSTS: Costs = Costs { latency_nanoseconds: 2_000, page_nanoseconds: 300 };

fn job(byte: u8) -> JobId {
    JobId::from_bytes([byte; 16])
}

fn plan_of(byte: u8, members: u32) -> Plan {
    Plan::rotating(job(byte), RecoveryMode::Relaunch, Scheme::Parity, members).expect("parity takes any number")
}

fn epoch(byte: u8) -> EpochId {
    EpochId { job: job(byte), life: Life(3), number: 9, random: 0xabc }
}

fn description(logical_rank: u32) -> Description {
    let mut map = SlotMap::default();
    map.resize(RegionId(5), 3 * 4096 - 7).expect("three pages have room");
    let mut sums = Sums::default();
    sums.add(1, Fingerprint::of(&[9; 4096]));
    Description { logical_rank: LogicalRank(logical_rank), map, sums, slots: 3 }
}

fn delta_descriptor(logical_rank: u32, changed: impl IntoIterator<Item = u32>) -> DeltaDescriptor {
    DeltaDescriptor::new(&description(logical_rank), changed.into_iter().collect())
}

fn part() -> Part {
    let (to, bytes, syndromes) = (Node::Hop(1), vec![1; 2 * 4096], vec![Syndrome::of(&[1; 4096]); 2]);
    Part { epoch: epoch(1), group: 0, sum: 1, piece: 0, to, stripes: 0b101, sums: 1, words: false, syndromes, bytes }
}

fn every_kind() -> Vec<Message> {
    let level = EpochLevel::Local(Some(epoch(1)));
    let holdings = vec![Holding { epoch: epoch(1), logical_rank: LogicalRank(2), acknowledged: true, level }];
    let report = Report { life: Life(3), started: true, prefers: Some(LogicalRank(1)), holdings, unpromised: false };
    let (logical_ranks, sources) = (vec![(LogicalRank(0), Rank(4))], vec![(LogicalRank(1), Rank(2))]);
    let restore = Restore { life: Life(4), epoch: Some(epoch(1)), logical_ranks, sources, level };
    let controls = [
        Control::Report(report),
        Control::Restore(restore, COSTS),
        Control::Refuse(Refusal::Nothing),
        Control::Refuse(Refusal::TooMuchLost { epoch: epoch(1), group: 3, missing: vec![LogicalRank(1)] }),
        Control::Refuse(Refusal::TooFew { members: 3, present: 2 }),
        Control::Refuse(Refusal::Rejected { epoch: epoch(1), reason: "it differs".into() }),
        Control::Phase(Phase::Arrived(Arrival { random: 77, full: true })),
        Control::Phase(Phase::Prepare(epoch(1), Some(epoch(1)), COSTS, true)),
        Control::Phase(Phase::PrepareLocal(epoch(1), epoch(1))),
        Control::Phase(Phase::Sealed(epoch(1))),
        Control::Phase(Phase::Commit(epoch(1))),
        Control::Phase(Phase::Acknowledged(epoch(1))),
        Control::Phase(Phase::Stable(epoch(1))),
        Control::Phase(Phase::Failed(epoch(1), "no space".into())),
        Control::Phase(Phase::Abandon(epoch(1), "no space".into())),
        Control::Phase(Phase::Damaged(epoch(1), ShardId { epoch: epoch(1), logical_rank: LogicalRank(1) })),
    ];
    let data = [
        Data::DeltaDescriptor { epoch: epoch(1), delta_descriptor: delta_descriptor(0, [1, 2]) },
        Data::WriteSet {
            epoch: epoch(1),
            logical_rank: LogicalRank(0),
            changed: SlotSet::all(3),
            held: SlotSet::all(4),
        },
        Data::Description { epoch: epoch(1), description: description(1) },
        Data::Part(part()),
        Data::LowWaterMark { epoch: epoch(1), group: 0, piece: 8 },
    ];
    controls.map(Message::Control).into_iter().chain(data.map(Message::Data)).collect()
}

fn refused(bytes: &[u8]) -> MessageError {
    decode(&plan_of(1, 3), bytes.to_vec()).expect_err("it is wrong")
}

/// Returns the place of a field that is this far after the beginning of the foot.
fn at(bytes: &[u8], field: usize) -> usize {
    bytes.len() - 80 + field
}

/// Gives a message without pages a checksum that fits.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let (before, checksum) = bytes.split_last_chunk_mut::<16>().expect("every message ends with one");
    *checksum = Checksum::of(before).to_bytes();
    bytes
}

/// Reports whether all pages that came with a message yield the syndromes that it states.
fn is_whole(message: &Message) -> bool {
    let Message::Data(Data::Part(part)) = message else { return true };
    part.bytes.as_chunks().0.iter().map(Syndrome::of).eq(part.syndromes.iter().copied())
}

#[test]
fn every_message_comes_back_as_it_was_sent() {
    let plan = plan_of(1, 3);
    for message in every_kind() {
        let bytes = encode(&plan, TERM, message.clone());
        assert_eq!(decode(&plan, bytes), Ok((TERM, message)));
    }
}

#[test]
fn flipped_bits_and_wrong_lengths_are_detected() {
    let plan = plan_of(1, 3);
    for message in every_kind() {
        let bytes = encode(&plan, TERM, message.clone());
        for at in (0..bytes.len()).filter(|at| *at < 200 || at + 200 > bytes.len()) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let decoded = decode(&plan, flipped);
            assert!(!decoded.is_ok_and(|(_, it)| is_whole(&it)), "byte {at} of {message:?}");
        }
        for length in (0..bytes.len().min(200)).chain([bytes.len() - 1]) {
            assert!(decode(&plan, bytes[..length].to_vec()).is_err());
        }
        assert!(matches!(refused(&[&[0], &bytes[..]].concat()), MessageError::Length { .. }));
    }
}

#[test]
fn messages_of_other_jobs_plans_and_versions_are_refused_by_name() {
    let message = Message::Control(Control::Phase(Phase::Arrived(Arrival::default())));
    assert_eq!(refused(&encode(&plan_of(2, 3), TERM, message.clone())), MessageError::ForeignJob(job(2)));
    assert_eq!(refused(&encode(&plan_of(1, 4), TERM, message.clone())), MessageError::ForeignPlan);
    assert_eq!(refused(b"GET / HTTP/1.1\r\n"), MessageError::Foreign);
    assert_eq!(refused(&vec![0; MESSAGE_BYTES_MAX + 1]), MessageError::TooLong(MESSAGE_BYTES_MAX + 1));
    let mut other = encode(&plan_of(1, 3), TERM, message.clone());
    let place = at(&other, 4);
    other[place] = 9;
    assert_eq!(refused(&sealed(other)), MessageError::Version(9));
    let mut other = encode(&plan_of(1, 3), TERM, message.clone());
    other[0] ^= 1;
    assert_eq!(refused(&other), MessageError::Damaged);
    let mut other = encode(&plan_of(1, 3), TERM, message.clone());
    let place = at(&other, 6);
    other[place] = 9;
    assert!(matches!(refused(&sealed(other)), MessageError::Senseless(_)));
    for foreign in [Phase::Commit(epoch(2)), Phase::PrepareLocal(epoch(1), epoch(2))] {
        let foreign = Message::Control(Control::Phase(foreign));
        assert_eq!(refused(&encode(&plan_of(1, 3), TERM, foreign)), MessageError::ForeignJob(job(2)));
    }
}

#[test]
fn impossible_sizes_are_refused_with_the_reason() {
    let senseless = |data: Data| match refused(&encode(&plan_of(1, 3), TERM, Message::Data(data))) {
        MessageError::Senseless(reason) => reason,
        other => panic!("{other}"),
    };
    let told = |delta_descriptor| Data::DeltaDescriptor { epoch: epoch(1), delta_descriptor };
    let write_set = Data::WriteSet {
        epoch: epoch(1),
        logical_rank: LogicalRank(0),
        changed: SlotSet::all(4),
        held: SlotSet::all(3),
    };
    assert!(senseless(write_set).contains("slots have changed"));
    assert!(
        senseless(told(DeltaDescriptor { changed: SlotSet::all(4), ..delta_descriptor(0, [1]) }))
            .contains("slots have changed")
    );
    assert!(
        senseless(told(DeltaDescriptor { changed: SlotSet::default(), ..delta_descriptor(0, [1]) }))
            .contains("as many sums")
    );
    assert!(senseless(told(delta_descriptor(3, []))).contains("no logical rank 3"));
    let described = |description| Data::Description { epoch: epoch(1), description };
    let large = Description { slots: u32::MAX, ..description(0) };
    assert!(senseless(described(large)).contains("as many sums as checksum blocks"));
    assert!(senseless(Data::Part(Part { stripes: 0b111, ..part() })).contains("2 syndromes stand for 3 pages"));
    assert!(senseless(Data::Part(Part { syndromes: vec![], ..part() })).contains("0 syndromes stand for 2 pages"));
    assert!(senseless(Data::Part(Part { stripes: 0, bytes: vec![], ..part() })).contains("0 pages"));
    assert!(senseless(Data::Part(Part { sums: u32::MAX, ..part() })).contains("8192 bytes"));
    assert!(senseless(Data::Part(Part { group: 1, ..part() })).contains("no group 1"));
}
