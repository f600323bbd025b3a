//! Excluded parts of regions: they are not in the epoch, a restore does not touch them, and they are back when they are
//! included again.

use crate::cluster::Cluster;
use crate::threads::{Connection, Network};
use standfast_core::erasure::Scheme;
use standfast_linux::RegisteredMemory;
use standfast_member::{CheckpointEnd, Joined, Member};

const PAGE: usize = 4096;
const PAGES: usize = 8;
const REGION: u64 = 5;

/// Returns what the region holds: a byte for each page.
fn content(memory: &RegisteredMemory) -> Vec<u8> {
    let mut bytes = vec![0; PAGES * PAGE];
    memory.read(0, &mut bytes);
    bytes.as_chunks::<PAGE>().0.iter().map(|page| page[7]).collect()
}

fn filled(byte: u8) -> RegisteredMemory {
    let memory = RegisteredMemory::leaked(PAGES * PAGE);
    memory.write(0, &vec![byte; PAGES * PAGE]);
    memory
}

/// Launches two processes once; they end without having finished.
fn launch(cluster: &Cluster, work: impl Fn(Member<Connection>) + Sync) {
    std::thread::scope(|scope| {
        for connection in Network::new(2, 1, None).connections() {
            let (settings, work) = (cluster.settings(connection.number()), &work);
            scope.spawn(move || work(Member::join(connection, &settings).expect("they join")));
        }
    });
}

fn committed(member: &mut Member<Connection>) {
    assert!(matches!(member.checkpoint(), Ok(CheckpointEnd::Committed(_))));
}

#[test]
fn excluded_memory_is_neither_saved_nor_restored() {
    for seed in 0..2 {
        let cluster = Cluster::new(seed, Scheme::Parity, 2, 2);
        launch(&cluster, |mut member| {
            let memory = filled(1);
            member.protect(REGION, memory).unwrap();
            committed(&mut member);
            // Pages 2, 3 and 4 lie wholly within the excluded part.
            member.exclude(REGION, 2 * PAGE - 10, 3 * PAGE + 20).unwrap();
            memory.write(0, &[2; PAGES * PAGE]);
            committed(&mut member);
        });
        launch(&cluster, |mut member| {
            assert!(matches!(member.joined(), Joined::Survivor(_)));
            let memory = filled(9);
            member.protect(REGION, memory).unwrap();
            member.exclude(REGION, 3 * PAGE, PAGE).unwrap();
            member.restore().unwrap();
            // Pages 2 and 4 are zeros, which proves that they were left out.
            assert_eq!(content(&memory), [2, 2, 0, 9, 0, 2, 2, 2]);
            committed(&mut member);
            member.include(REGION, 0, PAGES * PAGE).unwrap();
            committed(&mut member);
        });
        launch(&cluster, |mut member| {
            let memory = filled(7);
            member.protect(REGION, memory).unwrap();
            member.restore().unwrap();
            assert_eq!(content(&memory), [2, 2, 0, 9, 0, 2, 2, 2]);
            member.finish().unwrap();
        });
    }
}

#[test]
fn a_part_outside_a_region_cannot_be_excluded() {
    let cluster = Cluster::new(0, Scheme::Parity, 2, 2);
    launch(&cluster, |mut member| {
        member.protect(REGION, filled(1)).unwrap();
        let beyond = member.exclude(REGION, PAGE, PAGES * PAGE).unwrap_err();
        assert!(beyond.to_string().contains("it has 32768 bytes, not 36864"), "{beyond}");
        assert!(member.exclude(REGION + 1, 0, PAGE).unwrap_err().to_string().contains("not registered"));
        // Excluding to the end of a region means to the end of its last page.
        member.protect(REGION + 1, RegisteredMemory::leaked(PAGE + 1)).unwrap();
        member.exclude(REGION + 1, PAGE, 1).unwrap();
        committed(&mut member);
        member.finish().unwrap();
    });
}
