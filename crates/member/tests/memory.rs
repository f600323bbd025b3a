//! The memory that a member takes on a node: as many pages as the protocol calculates, and as much of the file system.

use crate::cluster::{Cluster, JOB};
use crate::threads::{Connection, Network};
use standfast_core::PAGE_BYTES;
use standfast_core::erasure::Scheme;
use standfast_group::{Plan, Reckoning, RecoveryMode};
use standfast_linux::{FrameFile, RegisteredMemory};
use standfast_member::{CheckpointEnd, Member};
use std::fs;

const RANKS: u32 = 4;
/// Enough pages for several steps in which files grow.
const PAGES: usize = 2500;

fn written(memory: &RegisteredMemory, pages: usize, byte: u8) {
    (0..pages).for_each(|page| memory.write(page * PAGE_BYTES, &[byte, (page >> 8) as u8, page as u8]));
}

/// Returns a byte that no two processes share, so that no check is zeros.
fn byte(rank: u32, epoch: u8) -> u8 {
    (rank as u8 + 1) << 4 | epoch
}

/// Runs six epochs in which this many pages change. Returns how many pages each process keeps at the end, of its own and
/// of checks.
fn kept(cluster: &Cluster, changed: usize) -> Vec<(usize, usize)> {
    std::thread::scope(|scope| {
        let work = |connection: Connection| {
            let (rank, settings) = (connection.number(), cluster.settings(connection.number()));
            scope.spawn(move || {
                let mut member = Member::join(connection, &settings).expect("they join");
                let memory = RegisteredMemory::leaked(PAGES * PAGE_BYTES);
                written(&memory, PAGES, byte(rank, 1));
                member.protect(1, memory).expect("room for it");
                for epoch in 2..8 {
                    assert!(matches!(member.checkpoint(), Ok(CheckpointEnd::Committed(_))));
                    written(&memory, changed, byte(rank, epoch));
                }
                member.pages()
            })
        };
        let threads: Vec<_> = Network::new(RANKS, 3, None).connections().into_iter().map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}

#[test]
fn a_member_uses_no_more_memory_than_estimated() {
    // The last of six epochs is encoded, or is the second local one upon the fourth.
    for (encode_every, changed) in [(1, PAGES), (1, 300), (3, 300)] {
        let mut cluster = Cluster::new(2, Scheme::Parity, RANKS, RANKS as usize);
        cluster.encode_every = encode_every;
        let plan = Plan::rotating(JOB, RecoveryMode::Relaunch, Scheme::Parity, RANKS).unwrap();
        let kept = kept(&cluster, changed);
        for (position, (own, checks)) in kept.into_iter().enumerate() {
            let what = format!("{own} and {checks} pages at {position}, every {encode_every}, {changed} changed");
            let encoded =
                Reckoning::new(plan.layout(0), RecoveryMode::Relaunch, position, PAGES as u64, changed as u64);
            let reckoned = if encode_every == 1 { encoded } else { encoded.with_local(changed as u64) };
            let held = (own + checks) as u64;
            assert!(held <= reckoned.steady && held + 8 > reckoned.steady, "{what}: {reckoned:?}");
            let step = FrameFile::STEP_BYTES;
            let most = (reckoned.peak * PAGE_BYTES as u64).next_multiple_of(step);
            let node = cluster.nodes[cluster.homes[position]].path();
            let shard_store = fs::read_dir(node).unwrap().next().unwrap().unwrap().path().join(JOB.to_string());
            let taken = fs::metadata(shard_store.join(format!("seat-{position}")).join("pages")).unwrap().len();
            assert!(taken <= most && taken >= held * PAGE_BYTES as u64, "{what}: {taken} of {most} bytes");
        }
    }
}
