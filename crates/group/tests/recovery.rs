//! Recoveries from shard stores that a test arranges by hand: nodes struck at one certain moment, nodes that come back,
//! pages that a disk has damaged. One process acts after the other, and storage acts at once; the simulator covers the
//! disorder.

mod table;

use proptest::prelude::*;
use standfast_core::PAGE_BYTES;
use standfast_core::erasure::Scheme;
use standfast_group::{
    Beginning, Control, Data, Effect, EpochId, EpochLevel, Event, Group, Life, LogicalRank, Membership,
    MemoryShardStore, Message, MessageError, Phase, Plan, Protocol, ProtocolEffect, ProtocolEvent, Rank, RecoveryMode,
    RegionId, Restore, Resumption, ShardId, ShardStore, Survey, Term, encode,
};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use table::*;

/// A process is struck while it encodes. The next time it takes another logical rank of the very epoch of which it has
/// half a shard.
#[test]
fn a_half_encoded_shard_is_never_sealed_with_other_data() {
    let plan = rotating(Scheme::ReedSolomon { checks: 2 }, 4);
    let mut table = begun(&plan);
    let mut half = table.shard_store(2);
    let old = half.shards().next().expect("the first epoch is kept");
    table.until = Until::Acknowledged;
    table.checkpoint();
    let new = table.players[&Rank(0)].process.protocol().kept().expect("all have sealed it");
    half.open(ShardId { epoch: new, logical_rank: LogicalRank(2) }, Some(old));
    // The logical ranks of processes 2 and 3 change, and all processes are struck again before the recovery is stable.
    let shard_stores = vec![table.shard_store(0), table.shard_store(1), MemoryShardStore::default(), half];
    let second = Table::new(&plan, shard_stores, Until::Acknowledged);
    let shards: Vec<_> = second.shard_store(3).shards().filter(|shard| shard.epoch == new).collect();
    assert_eq!(shards, [ShardId { epoch: new, logical_rank: LogicalRank(3) }]);
    let shard_stores =
        vec![MemoryShardStore::default(), second.shard_store(1), second.shard_store(2), second.shard_store(3)];
    Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(2);
}

/// A node that comes back with a shard that another node also has takes an empty logical rank. If it is the only node
/// left with both shards, it takes one of the logical ranks, and the process that takes the other gets the shard as it
/// is.
#[test]
fn a_shard_held_by_another_logical_rank_is_sent_whole() {
    let plans = [
        rotating(Scheme::Parity, 3),
        rotating(Scheme::Mirroring, 4),
        rotating(Scheme::OneDimensional { groups: 2 }, 5),
        rotating(Scheme::EvenOdd, 4),
        rotating(Scheme::ReedSolomon { checks: 2 }, 5),
        Arc::new(Plan::dedicated(JOB, RecoveryMode::Relaunch, Scheme::ReedSolomon { checks: 2 }, 3, 2).unwrap()),
    ];
    for plan in plans {
        let table = begun(&plan);
        let others = || (2..plan.logical_ranks() as u32).map(|rank| table.shard_store(rank));
        let shard_stores = [table.shard_store(1), table.shard_store(1)].into_iter().chain(others());
        let mut second = Table::new(&plan, shard_stores.collect(), Until::Acknowledged);
        let both = second.players.get_mut(&Rank(0)).expect("it is there").shard_store.survey();
        assert_eq!(
            both.holdings.iter().map(|it| it.logical_rank).collect::<Vec<_>>(),
            [LogicalRank(0), LogicalRank(1)]
        );
        let shard_stores = [second.shard_store(0), MemoryShardStore::default()].into_iter().chain(others());
        Table::new(&plan, shard_stores.collect(), Until::Stable).assert_all_back_at(1);
    }
}

/// One process was struck before the first epoch counted, and had sealed nothing. It then took another logical rank, and
/// had sealed its shard when the next process was struck. It still knows that nothing was promised, so the job begins
/// again.
#[test]
fn an_interrupted_recovery_remembers_that_nothing_was_promised() {
    let group = |logical_ranks: [u32; 3]| Group {
        members: logical_ranks.map(LogicalRank).to_vec(),
        parity_nodes: Vec::new(),
        scheme: Scheme::Parity,
    };
    let groups = vec![group([0, 1, 2]), group([3, 4, 5])];
    let plan = Arc::new(Plan::new(JOB, RecoveryMode::Relaunch, groups).unwrap().in_runs_of(1));
    let mut table = Table::new(&plan, vec![MemoryShardStore::default(); 6], Until::Sealed);
    let sealed_nothing = table.shard_store(0);
    table.checkpoint();
    assert!(table.resumptions.is_empty(), "nobody goes on");
    let others = |table: &Table, ranks: Range<u32>| ranks.map(|rank| table.shard_store(rank)).collect::<Vec<_>>();
    let shard_stores = [vec![MemoryShardStore::default()], others(&table, 1..5), vec![sealed_nothing]].concat();
    let second = Table::new(&plan, shard_stores, Until::Sealed);
    assert_eq!(second.shard_store(5).survey().holdings.len(), 1);
    let shard_stores = [vec![MemoryShardStore::default(); 2], others(&second, 2..6)].concat();
    let third = Table::new(&plan, shard_stores, Until::Stable);
    assert_eq!(third.refused, None);
    assert!(third.resumptions.len() == 6 && third.resumptions.values().all(|it| matches!(it, Resumption::Start(_))));
}

/// Damage shows while the recovery reads the pages: the shard then counts as lost, if the code tolerates that.
#[test]
fn a_shard_found_damaged_in_a_recovery_counts_as_lost() {
    for recovery_mode in [RecoveryMode::Relaunch, RecoveryMode::InPlace] {
        let plan = rotating_by(recovery_mode, Scheme::ReedSolomon { checks: 2 }, 4);
        let mut table = begun(&plan);
        table.checkpoint();
        let damage = |rank: u32, choice| {
            let mut shard_store = table.shard_store(rank);
            assert!(shard_store.damage(choice));
            shard_store
        };
        let (own, checks) = table.shard_store(1).pages();
        for choice in 0..own + checks {
            let recovered = |first, last| {
                let shard_stores = vec![first, damage(1, choice), table.shard_store(2), last];
                Table::new(&plan, shard_stores, Until::Stable)
            };
            recovered(table.shard_store(0), table.shard_store(3)).assert_all_back_at(2);
            recovered(MemoryShardStore::default(), table.shard_store(3)).assert_all_back_at(2);
            let reason = recovered(MemoryShardStore::default(), damage(3, choice)).refused.expect("it is too much");
            assert!(reason.contains("lacks the shards of 3 logical ranks"), "{reason}");
        }
    }
}

/// If the last shard proves damaged, none is left. The job then does not begin again, unless it is known that nothing was
/// promised.
#[test]
fn a_wholly_damaged_job_restarts_only_if_nothing_was_promised() {
    let plan = rotating(Scheme::Parity, 2);
    let damaged = |table: &Table, rank| {
        let mut shard_store = table.shard_store(rank);
        assert!(shard_store.damage(0));
        shard_store
    };
    let table = begun(&plan);
    let promised = Table::new(&plan, vec![damaged(&table, 0), damaged(&table, 1)], Until::Stable);
    assert!(promised.refused.is_some_and(|reason| reason.contains("is damaged")) && promised.resumptions.is_empty());
    let mut table = Table::new(&plan, vec![MemoryShardStore::default(); 2], Until::Sealed);
    let sealed_nothing = table.shard_store(1);
    table.checkpoint();
    let unpromised = Table::new(&plan, vec![damaged(&table, 0), sealed_nothing], Until::Stable);
    assert_eq!(unpromised.refused, None);
    assert!(unpromised.resumptions.values().all(|it| matches!(it, Resumption::Start(_))));
}

/// The damage shows when the page is read, and the epoch that would be made from it is abandoned.
#[test]
fn an_epoch_with_a_damaged_page_is_abandoned() {
    for recovery_mode in [RecoveryMode::Relaunch, RecoveryMode::InPlace] {
        let plan = rotating_by(recovery_mode, Scheme::Parity, 3);
        let (own, checks) = begun(&plan).shard_store(1).pages();
        assert!(own > 0 && checks > 0);
        for choice in 0..own + checks {
            let mut table = begun_with(Some(false), &plan);
            assert!(table.players.get_mut(&Rank(1)).expect("it is there").shard_store.damage(choice));
            table.checkpoint();
            for resumption in table.resumptions.values() {
                assert!(
                    matches!(resumption, Resumption::Abandoned(reason) if reason.contains("logical rank 1 in epoch 1")),
                    "{resumption:?}"
                );
            }
            table.resumptions.clear();
            table.membership(2);
            table.assert_all_back_at(1);
        }
    }
}

/// Checks that are made in full do not come from the previous pages, so damage to those pages ends there. A page that has
/// not changed is still one of them.
#[test]
fn full_encoding_does_not_read_damaged_old_pages() {
    let plan = rotating(Scheme::ReedSolomon { checks: 2 }, 4);
    let (own, checks) = begun(&plan).shard_store(1).pages();
    let damaged = |choice| {
        let mut table = begun_with(Some(true), &plan);
        assert!(table.players.get_mut(&Rank(1)).expect("it is there").shard_store.damage(choice));
        table
    };
    for choice in 0..own + checks {
        let mut table = damaged(choice);
        table.checkpoint();
        for lost in 0..4 {
            let mut shard_stores: Vec<_> = (0..4).map(|rank| table.shard_store(rank)).collect();
            shard_stores[lost] = MemoryShardStore::default();
            Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(2);
        }
    }
    let abandoned = (0..own + checks).filter(|choice| {
        let mut table = damaged(*choice);
        table.players.get_mut(&Rank(1)).expect("it is there").program.still = true;
        table.checkpoint();
        table
            .resumptions
            .values()
            .all(|it| matches!(it, Resumption::Abandoned(reason) if reason.contains("logical rank 1 in epoch 1")))
    });
    assert_eq!(abandoned.count(), own);
}

/// The encoding uses what was stored, even if the program writes to its pages meanwhile.
#[test]
fn pages_written_during_a_checkpoint_are_encoded_as_first_read() {
    for (full, lost) in [false, true].into_iter().flat_map(|full| (0..4).map(move |lost| (full, lost))) {
        let plan = rotating(Scheme::Parity, 4);
        let mut table = begun_with(Some(full), &plan);
        table.players.values_mut().for_each(|player| player.program.restless = Some(RefCell::default()));
        table.checkpoint();
        let mut shard_stores: Vec<_> = (0..4).map(|rank| table.shard_store(rank)).collect();
        shard_stores[lost] = MemoryShardStore::default();
        Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(2);
    }
}

/// After a crash that leaves all memory whole, the job goes back to the local epoch. After the loss of one node, it goes
/// back to the encoded epoch before it. It continues from either, and its next encoded epoch is right.
#[test]
fn a_crash_restores_the_local_epoch_and_a_loss_the_encoded_one() {
    let plan = rotating(Scheme::Parity, 3);
    let mut table = Table::encoding_every(3, &plan, vec![MemoryShardStore::default(); 3], Until::Stable);
    (0..3).for_each(|_| table.checkpoint());
    let shard_stores = |table: &Table| (0..3).map(|rank| table.shard_store(rank)).collect::<Vec<_>>();
    assert!(
        shard_stores(&table).iter().all(|shard_store| shard_store.shards().count() == 2),
        "the encoded one stays beside the local"
    );
    let mut lost = shard_stores(&table);
    lost[1] = MemoryShardStore::default();
    for (shard_stores, back) in [(shard_stores(&table), 3), (lost, 1)] {
        let mut second = Table::encoding_every(3, &plan, shard_stores, Until::Stable);
        second.assert_all_back_at(back);
        while second.players[&Rank(0)].process.protocol().kept().is_none_or(|kept| kept.number == 1) {
            second.checkpoint();
        }
        let newest = second.players[&Rank(0)].process.protocol().kept().expect("it was waited for").number;
        assert_eq!(newest, 4);
        let shard_stores = vec![second.shard_store(0), MemoryShardStore::default(), second.shard_store(2)];
        Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(newest);
    }
}

/// Some processes have sealed the second local epoch and some have not; the first one is whole.
#[test]
fn a_crash_during_a_local_seal_restores_the_previous_epoch() {
    let plan = rotating(Scheme::Parity, 3);
    let mut table = Table::encoding_every(9, &plan, vec![MemoryShardStore::default(); 3], Until::Stable);
    (0..2).for_each(|_| table.checkpoint());
    let before = table.shard_store(1);
    table.until = Until::Sealed;
    table.checkpoint();
    let newest =
        |shard_store: &mut MemoryShardStore| shard_store.survey().holdings.iter().map(|it| it.epoch.number).max();
    assert_eq!((newest(&mut table.shard_store(0)), newest(&mut before.clone())), (Some(3), Some(2)));
    let shard_stores = vec![table.shard_store(0), before.clone(), table.shard_store(2)];
    Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(2);
    let shard_stores = vec![table.shard_store(0), before, MemoryShardStore::default()];
    Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(1);
}

#[test]
fn one_unable_process_makes_all_abandon_the_checkpoint() {
    for encode_every in [1, 9] {
        let plan = rotating(Scheme::Parity, 3);
        let mut table = Table::encoding_every(encode_every, &plan, vec![MemoryShardStore::default(); 3], Until::Stable);
        table.checkpoint();
        table.resumptions.clear();
        table.events.extend([0, 2].map(|rank| (Rank(rank), Event::Arrived(u64::from(rank)))));
        table.events.push_back((Rank(1), Event::Unable(1, "it lacks a region".into())));
        table.play();
        let abandoned = |it: &Resumption| matches!(it, Resumption::Abandoned(reason) if reason == "it lacks a region");
        assert!(table.resumptions.len() == 3 && table.resumptions.values().all(abandoned), "{:?}", table.resumptions);
        table.checkpoint();
        assert!(
            table.resumptions.values().all(|it| matches!(it, Resumption::Committed(..))),
            "{:?}",
            table.resumptions
        );
    }
}

#[test]
fn a_survey_of_an_older_membership_is_ignored() {
    let beginning = Beginning { rank: Rank(0), prefers: None, started: false, costs: COSTS, encode_every: 1 };
    let mut protocol = Protocol::new(rotating(Scheme::Parity, 2), beginning);
    let membership = |number| ProtocolEvent::Membership(Membership { number, present: vec![Rank(1), Rank(0)] });
    assert_eq!(protocol.handle(membership(1)), [ProtocolEffect::Survey(1)]);
    assert_eq!(protocol.handle(membership(2)), [ProtocolEffect::Survey(2)]);
    assert_eq!(protocol.handle(ProtocolEvent::Surveyed(1, Survey::default())), []);
    assert_eq!(protocol.handle(ProtocolEvent::Surveyed(2, Survey::default())).len(), 1);
}

/// A recovery begins again while storage still works on the shards of the first attempt.
#[test]
fn a_storage_error_is_assigned_to_its_own_recovery_attempt() {
    let beginning = Beginning { rank: Rank(0), prefers: None, started: false, costs: COSTS, encode_every: 1 };
    let mut protocol = Protocol::new(rotating(Scheme::Parity, 2), beginning);
    let logical_ranks = vec![(LogicalRank(0), Rank(0)), (LogicalRank(1), Rank(1))];
    let epoch = EpochId { job: JOB, life: Life(1), number: 1, random: 1 };
    let restore = Restore {
        life: Life(2),
        epoch: Some(epoch),
        logical_ranks: logical_ranks.clone(),
        sources: logical_ranks,
        level: EpochLevel::Encoded,
    };
    let attempt = |round| {
        let control = Control::Restore(restore.clone(), COSTS);
        ProtocolEvent::Message { from: Rank(1), term: Term { membership: 1, round }, control }
    };
    let full = || ProtocolEvent::Unstored(epoch, "no space left".into());
    protocol.handle(ProtocolEvent::Membership(Membership { number: 1, present: vec![Rank(1), Rank(0)] }));
    protocol.handle(ProtocolEvent::Surveyed(1, Survey::default()));
    for round in 0..2 {
        assert!(matches!(protocol.handle(attempt(round))[..], [ProtocolEffect::Rebuild { .. }]));
        assert_eq!(protocol.handle(full()), [], "nothing is stored of this attempt yet");
        assert!(matches!(protocol.handle(ProtocolEvent::Done(epoch))[..], [ProtocolEffect::Seal(_)]));
    }
    assert_eq!(protocol.handle(full()), [ProtocolEffect::Leave("no space left".into())]);
}

/// Another history of the job uses the same number, and one of its processes is still there.
#[test]
fn messages_of_another_epoch_with_the_same_number_are_refused() {
    let plan = rotating(Scheme::Parity, 3);
    let mut table = begun(&plan);
    let player = table.players.get_mut(&Rank(1)).expect("it is there");
    let (here, term) = (player.process.protocol().kept().expect("it is begun"), player.process.protocol().term());
    let found = EpochId { random: !here.random, ..here };
    let low_water_mark = Message::Data(Data::LowWaterMark { epoch: found, group: 0, piece: 1 });
    let commit = Message::Control(Control::Phase(Phase::Commit(found)));
    for message in [low_water_mark, commit] {
        let event = Event::Message(Rank(0), encode(&plan, term, message.clone()));
        let effects = player.process.handle(event, &mut player.program, &mut player.shard_store);
        assert_eq!(effects, [Effect::Rejected(Rank(0), MessageError::OtherEpoch { found, here })]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// From one message on, every message arrives with other bytes than its sender meant, and passes the checksum. It may
    /// be refused, the epoch may be abandoned, or nothing may come of it.
    #[test]
    fn no_message_makes_a_process_panic(
        first in 0_usize..120,
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
        dedicated: bool,
    ) {
        let plan = if dedicated {
            Arc::new(Plan::dedicated(JOB, RecoveryMode::InPlace, Scheme::EvenOdd, 2, 2).unwrap())
        } else {
            rotating(Scheme::ReedSolomon { checks: 2 }, 4)
        };
        let mut table = begun(&plan);
        table.damaged = Some((first, changes));
        table.checkpoint();
        table.membership(2);
    }
}

/// Returns the bytes that all processes send for one checkpoint of members with this many pages, none of which changes.
fn bytes_of_an_idle_checkpoint(pages: u32) -> usize {
    let plan = rotating(Scheme::Parity, 4);
    let mut table = Table::new(&plan, vec![MemoryShardStore::default(); 4], Until::Stable);
    for player in table.players.values_mut() {
        player.program.map.resize(RegionId(1), u64::from(pages) * PAGE_BYTES as u64).expect("they have room");
    }
    table.checkpoint();
    table.sent = 0;
    table.players.values_mut().for_each(|player| player.program.number -= 1);
    table.checkpoint();
    assert!(table.resumptions.values().all(|it| matches!(it, Resumption::Committed(epoch, _) if epoch.number == 2)));
    table.sent
}

#[test]
fn a_page_that_did_not_change_costs_a_bit_at_most() {
    let (few, many) = (bytes_of_an_idle_checkpoint(64), bytes_of_an_idle_checkpoint(64 + 3200));
    // Each of four members sends to three others.
    assert!(many - few <= 4 * 3 * 3200 / 8, "{few} bytes for 64 pages, {many} for 3264");
}
