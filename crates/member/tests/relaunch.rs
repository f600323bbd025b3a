//! Whole jobs as threads: they compute, checkpoint, are killed at any moment, lose nodes with their memory, and are
//! launched again on other nodes. They must continue with exactly the bytes that an epoch had.

use crate::cluster::{Cluster, End};
use crate::threads::{Connection, Network};
use fastrand::Rng;
use standfast_core::erasure::Scheme;
use standfast_member::Member;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("STANDFAST_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(8);
    0..count
}

/// Kills a job again and again, loses as many nodes as the code tolerates, and lets ranks change places.
fn torment(seed: u64, scheme: Scheme, losses: usize) {
    let mut random = Rng::with_seed(seed);
    let ranks = random.u32(losses as u32 + 2..7);
    let mut cluster = Cluster::new(seed, scheme, ranks, ranks as usize);
    cluster.encode_every = random.u64(1..4);
    // Losses add up until an epoch has been encoded after them.
    let mut whole_since = 0;
    for launch in 0..5 {
        let last = if launch == 4 { cluster.promised() + 5 } else { 1000 };
        let strokes = (launch < 4).then(|| (random.u32(..ranks), random.u64(1..400)));
        let ends = cluster.launch(last, strokes);
        if launch == 4 {
            assert_eq!(ends, cluster.truth(last), "seed {seed}");
            continue;
        }
        assert!(ends.iter().all(|end| *end == End::Killed), "seed {seed}, launch {launch}: {ends:?}");
        let lost: BTreeSet<usize> = (0..losses).map(|_| random.usize(..cluster.nodes.len())).collect();
        let encoded = cluster.encoded();
        if random.bool() && encoded > whole_since {
            whole_since = encoded;
            lost.into_iter().for_each(|node| cluster.lose(node));
        }
        if random.bool() {
            random.shuffle(&mut cluster.homes);
        }
    }
    assert_eq!(cluster.leftovers(), Vec::<PathBuf>::new(), "seed {seed}");
}

#[test]
fn a_job_survives_kills_and_lost_nodes_under_parity() {
    seeds().for_each(|seed| torment(seed, Scheme::Parity, 1));
}

#[test]
fn a_job_survives_two_lost_nodes_under_reed_solomon() {
    seeds().for_each(|seed| torment(seed, Scheme::ReedSolomon { checks: 2 }, 2));
}

#[test]
fn crashes_restore_local_epochs_and_lost_nodes_encoded_ones() {
    for seed in 0..4 {
        let mut cluster = Cluster::new(seed, Scheme::Parity, 3, 3);
        cluster.encode_every = 1000;
        for _ in 0..2 {
            assert!(cluster.launch(1000, Some((1, 300))).iter().all(|end| *end == End::Killed));
        }
        let (reached, encoded) = (cluster.promised(), cluster.encoded());
        assert!(encoded > 0 && cluster.back_at() > encoded, "seed {seed}: back at {}", cluster.back_at());
        cluster.homes.rotate_left(1);
        assert!(cluster.launch(1000, Some((0, 300))).iter().all(|end| *end == End::Killed));
        assert!(cluster.back_at() >= reached, "seed {seed}: the shards moved with their ranks");
        cluster.lose(2);
        assert_eq!(cluster.launch(reached + 3, None), cluster.truth(reached + 3), "seed {seed}");
        assert_eq!(cluster.back_at(), encoded, "seed {seed}");
        assert_eq!(cluster.leftovers(), Vec::<PathBuf>::new(), "seed {seed}");
    }
}

#[test]
fn losses_beyond_the_tolerance_are_refused_and_nothing_changes() {
    let mut cluster = Cluster::new(1, Scheme::Parity, 4, 4);
    assert!(cluster.launch(1000, Some((2, 300))).iter().all(|end| *end == End::Killed));
    assert!(cluster.promised() > 0);
    cluster.lose(0);
    cluster.lose(3);
    let before = cluster.leftovers();
    for end in cluster.launch(1000, None) {
        let End::Failed(reason) = end else { panic!("{end:?}") };
        assert!(reason.contains("cannot be recovered"), "{reason}");
    }
    assert!(before.iter().all(|path| path.exists()));
}

#[test]
fn settings_on_which_processes_differ_are_named() {
    let cluster = Cluster::new(2, Scheme::Parity, 3, 3);
    let network = Network::new(3, 2, None);
    let mut reasons = Vec::new();
    std::thread::scope(|scope| {
        let join = |connection: Connection| {
            let mut settings = cluster.settings(connection.number());
            if connection.number() == 2 {
                settings.scheme = Scheme::ReedSolomon { checks: 1 };
            }
            scope.spawn(move || Member::join(connection, &settings).err().map(|error| error.to_string()))
        };
        let threads: Vec<_> = network.connections().into_iter().map(join).collect();
        reasons.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    });
    let named = |reason: &Option<String>| reason.as_ref().is_some_and(|it| it.contains("process 2 has other settings"));
    assert!(reasons.iter().all(named), "{reasons:?}");
    let alone = Network::new(1, 3, None).connections().pop().unwrap();
    let refused = Member::join(alone, &cluster.settings(0)).err().map(|error| error.to_string());
    assert!(refused.is_some_and(|reason| reason.contains("a group needs at least two processes")));
}
