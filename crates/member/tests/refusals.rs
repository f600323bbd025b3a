//! States from which a job must not continue: all processes refuse with the reason, before anything is overwritten, and
//! nothing is lost.

use crate::cluster::{Cluster, End};
use crate::threads::{Connection, Network};
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_linux::RegisteredMemory;
use standfast_member::{CheckpointEnd, Joined, Member, MemberError, Settings};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const RANKS: u32 = 3;
const BYTES: usize = 5 * 4096 + 100;

type Joining = Result<Member<Connection>, MemberError>;

/// Launches the processes once; they end without having finished.
fn launch_as<V: Send>(settings: impl Fn(u32) -> Settings, work: impl Fn(u32, Joining) -> V + Sync) -> Vec<V> {
    std::thread::scope(|scope| {
        let start = |connection: Connection| {
            let (settings, work) = (settings(connection.number()), &work);
            scope.spawn(move || work(connection.number(), Member::join(connection, &settings)))
        };
        let threads: Vec<_> = Network::new(RANKS, 1, None).connections().into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}

fn launch<V: Send>(cluster: &Cluster, work: impl Fn(u32, Member<Connection>) -> V + Sync) -> Vec<V> {
    launch_as(|rank| cluster.settings(rank), |rank, member| work(rank, member.expect("they join")))
}

fn filled(byte: u8) -> RegisteredMemory {
    let memory = RegisteredMemory::leaked(BYTES);
    memory.write(0, &[byte; BYTES]);
    memory
}

fn holds(memory: &RegisteredMemory, byte: u8) -> bool {
    let mut bytes = vec![!byte; BYTES];
    memory.read(0, &mut bytes);
    bytes.iter().all(|it| *it == byte)
}

/// Returns a cluster with two regions in each process and one epoch of them.
fn begun() -> Cluster {
    let cluster = Cluster::new(1, Scheme::Parity, RANKS, RANKS as usize);
    commit(&|rank| cluster.settings(rank));
    cluster
}

fn commit(settings: &dyn Fn(u32) -> Settings) {
    launch_as(settings, |rank, member| {
        let mut member = member.expect("they join");
        member.protect(1, filled(rank as u8 + 1)).expect("room for it");
        member.protect(2, filled(rank as u8 + 101)).expect("room for it");
        assert!(matches!(member.checkpoint(), Ok(CheckpointEnd::Committed(_))));
    });
}

/// Checks that everything is still there.
fn is_whole(settings: &dyn Fn(u32) -> Settings) {
    launch_as(settings, |rank, member| {
        let mut member = member.expect("they join");
        assert!(matches!(member.joined(), Joined::Survivor(epoch) | Joined::Replacement(epoch) if epoch.number == 1));
        let memories = [filled(0), filled(0)];
        member.protect(1, memories[0]).expect("room for it");
        member.protect(2, memories[1]).expect("room for it");
        member.restore().expect("nobody has refused");
        assert!(holds(&memories[0], rank as u8 + 1) && holds(&memories[1], rank as u8 + 101));
    });
}

#[test]
fn a_region_missing_in_one_process_is_named_and_nothing_restored() {
    let cluster = begun();
    let reasons = launch(&cluster, |rank, mut member| {
        let memories = [filled(7), filled(8)];
        member.protect(1, memories[0]).unwrap();
        // Process 1 registers it under another number.
        member.protect(if rank == 1 { 3 } else { 2 }, memories[1]).unwrap();
        let reason = member.restore().unwrap_err().to_string();
        assert!(holds(&memories[0], 7) && holds(&memories[1], 8));
        reason
    });
    assert!(reasons.iter().all(|reason| reason.contains("process 1: region 2") && reason.contains("not registered")));
    is_whole(&|rank| cluster.settings(rank));
}

#[test]
fn a_region_of_another_size_is_named_and_nothing_is_restored() {
    let cluster = begun();
    launch(&cluster, |rank, mut member| {
        let memory = filled(9);
        member.protect(1, memory).unwrap();
        let other = member.protect(2, filled(9).part(0, if rank == 2 { 4096 } else { BYTES }));
        if rank == 2 {
            let reason = other.unwrap_err().to_string();
            assert!(reason.contains("region 2") && reason.contains("4096 bytes are registered"), "{reason}");
        }
        assert!(member.restore().unwrap_err().to_string().contains("process 2: region 2"));
        assert!(holds(&memory, 9));
    });
    is_whole(&|rank| cluster.settings(rank));
}

/// A page of one process's shard is damaged after the recovery has looked at it, or a program cannot accept what it gets.
#[test]
fn a_restore_that_fails_in_one_process_fails_in_all() {
    let cluster = begun();
    for is_damaged in [true, false] {
        let reasons = launch(&cluster, |rank, mut member| {
            let memories = [filled(5), filled(6)];
            member.protect(1, memories[0]).expect("room for it");
            member.protect(2, memories[1]).expect("room for it");
            if is_damaged && rank == 1 {
                spoil_every_page(&cluster, 1);
            }
            let take_up = || match rank {
                2 if !is_damaged => Err(MemberError::Region { id: 2, reason: "it makes no sense".into() }),
                _ => Ok(()),
            };
            let reason = member.restore_and(take_up).unwrap_err().to_string();
            // A process that continues all the same does not get a checkpoint of it.
            let outcome = member.checkpoint();
            assert!(
                matches!(&outcome, Ok(CheckpointEnd::Abandoned(it)) if it.contains("not been restored")),
                "{outcome:?}"
            );
            reason
        });
        let named = if is_damaged { "process 1: the state cannot be restored" } else { "process 2: region 2" };
        assert!(reasons.iter().all(|reason| reason.starts_with(named)), "{reasons:?}");
        is_whole(&|rank| cluster.settings(rank));
    }
}

#[test]
fn a_checkpoint_before_the_restore_is_abandoned_by_all() {
    let cluster = begun();
    launch(&cluster, |rank, mut member| {
        member.protect(1, filled(3)).unwrap();
        member.protect(2, filled(3)).unwrap();
        let outcome = if rank == 0 { member.give_up_checkpoint("a reason".into()) } else { member.checkpoint() };
        let Ok(CheckpointEnd::Abandoned(reason)) = outcome else { panic!("{outcome:?}") };
        let is_named = reason.contains("it has not been restored") || reason == "a reason";
        assert!(is_named, "{reason}");
    });
    is_whole(&|rank| cluster.settings(rank));
}

/// A file of a shard store is not what was written: the shard counts as lost, and is rebuilt. Two such shard stores are
/// too many.
#[test]
fn a_shard_store_that_was_tampered_with_is_rebuilt_or_refused() {
    for name in ["pages", "table-1", "state"] {
        let cluster = begun();
        spoil(&cluster, 1, name);
        let joined = launch(&cluster, |_, member| matches!(member.joined(), Joined::Replacement(_)));
        assert_eq!(joined, [false, true, false], "{name}");
        is_whole(&|rank| cluster.settings(rank));
        spoil(&cluster, 0, name);
        spoil(&cluster, 2, name);
        let before = files(&cluster);
        for reason in launch_as(|rank| cluster.settings(rank), |_, member| member.err().map(|error| error.to_string()))
        {
            assert!(reason.as_ref().is_some_and(|it| it.contains("cannot be recovered")), "{name}: {reason:?}");
        }
        let is_there = |path: &PathBuf| files(&cluster).contains_key(path);
        assert!(before.keys().filter(|path| path.ends_with("pages")).all(is_there), "{name}");
    }
}

/// The record of which pages exist cannot be read anywhere. The job had begun all the same, and does not begin again
/// unasked.
#[test]
fn an_unreadable_job_is_refused_and_unchanged() {
    for name in ["table-1", "state"] {
        let cluster = begun();
        (0..RANKS as usize).for_each(|rank| spoil(&cluster, rank, name));
        let before = files(&cluster);
        for reason in launch_as(|rank| cluster.settings(rank), |_, member| member.err().map(|error| error.to_string()))
        {
            assert!(
                reason.as_ref().is_some_and(|it| it.contains("no member holds a readable sealed shard")),
                "{name}: {reason:?}"
            );
        }
        assert!(files(&cluster) == before, "{name}: what is there is what it was");
        // Flipping the same byte again repairs it.
        (0..RANKS as usize).for_each(|rank| spoil(&cluster, rank, name));
        is_whole(&|rank| cluster.settings(rank));
    }
}

/// Flips a byte of a file in the shard store of a rank, whatever the file's number is by now.
fn spoil(cluster: &Cluster, rank: usize, name: &str) {
    let path = &shard_store_file(cluster, rank, name);
    let mut bytes = fs::read(path).expect("a readable shard store");
    // Some frame of the pages is in use, but not all are.
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("it holds something");
    bytes[last] ^= 1;
    fs::write(path, bytes).expect("a readable shard store");
}

/// Flips bytes of every page while the shard store is in use.
fn spoil_every_page(cluster: &Cluster, rank: usize) {
    let pages = shard_store_file(cluster, rank, "pages");
    let bytes = fs::read(&pages).expect("a readable shard store");
    let file = fs::File::options().write(true).open(&pages).expect("a shard store");
    for (at, byte) in (0..).zip(&bytes).step_by(4096) {
        file.write_all_at(&[!byte], at).expect("a shard store that can be written");
    }
}

fn shard_store_file(cluster: &Cluster, rank: usize, name: &str) -> PathBuf {
    let prefix = name.trim_end_matches("-1");
    let is_meant =
        |path: &PathBuf| path.file_name().and_then(|it| it.to_str()).is_some_and(|it| it.starts_with(prefix));
    let mut within = files_of(cluster.nodes[cluster.homes[rank]].path()).into_keys();
    within.find(is_meant).expect("a shard store has such a file")
}

fn files(cluster: &Cluster) -> BTreeMap<PathBuf, Vec<u8>> {
    cluster.nodes.iter().flat_map(|node| files_of(node.path())).collect()
}

fn files_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in
        fs::read_dir(folder).expect("a readable shard store").map(|entry| entry.expect("a readable shard store").path())
    {
        match path.is_dir() {
            true => found.extend(files_of(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).expect("a readable shard store"))),
        }
    }
    found
}

#[test]
fn leftovers_of_another_job_are_not_touched() {
    let cluster = begun();
    let before = files(&cluster);
    let other = |rank| Settings { job: JobId::from_bytes([9; 16]), ..cluster.settings(rank) };
    launch_as(other, |_, member| {
        let mut member = member.expect("nothing of it is there");
        assert_eq!(member.joined(), Joined::New);
        member.protect(1, filled(77)).unwrap();
        assert!(matches!(member.checkpoint(), Ok(CheckpointEnd::Committed(_))));
        member.finish().unwrap();
    });
    assert!(files(&cluster) == before, "the other job's files are what they were");
    is_whole(&|rank| cluster.settings(rank));
}

#[test]
fn memory_that_one_process_cannot_use_is_named_by_all() {
    let cluster = begun();
    let elsewhere = |rank| match rank {
        1 => Settings { memory: "/dev/shm/there/is/no/such".into(), ..cluster.settings(rank) },
        _ => cluster.settings(rank),
    };
    for reason in launch_as(elsewhere, |_, member| member.err().map(|error| error.to_string())) {
        assert!(
            reason.as_ref().is_some_and(|it| it.contains("process 1: cannot use /dev/shm/there/is/no/such")),
            "{reason:?}"
        );
    }
    is_whole(&|rank| cluster.settings(rank));
}

/// One process cannot store what it must store after a recovery; no other process waits for it.
#[test]
fn a_process_that_fails_in_a_recovery_is_named_by_all() {
    let cluster = begun();
    let state = files_of(cluster.nodes[cluster.homes[1]].path()).into_keys().find(|path| path.ends_with("state"));
    // The next state is written here before it replaces this one.
    let in_its_way = state.expect("a shard store has one").with_extension("open");
    fs::create_dir(&in_its_way).unwrap();
    let reasons = launch_as(|rank| cluster.settings(rank), |_, member| member.err().map(|error| error.to_string()));
    for (rank, reason) in reasons.iter().enumerate() {
        let named = if rank == 1 { "seat-1/state" } else { "process 1: " };
        assert!(reason.as_ref().is_some_and(|it| it.contains(named)), "process {rank}: {reason:?}");
    }
    fs::remove_dir(&in_its_way).unwrap();
    is_whole(&|rank| cluster.settings(rank));
}

#[test]
fn a_shard_store_of_another_version_is_refused_and_left_alone() {
    let cluster = begun();
    let node = cluster.nodes[cluster.homes[2]].path();
    let path = files_of(node).into_keys().find(|path| path.ends_with("state")).expect("a shard store has one");
    let mut bytes = fs::read(&path).unwrap();
    // After the checksum comes an array, with the version as its first element.
    assert_eq!(bytes[17], 2);
    bytes[17] = 9;
    let checksum = standfast_core::Checksum::of(&bytes[16..]).to_bytes();
    bytes[..16].copy_from_slice(&checksum);
    let sound = fs::read(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    for reason in launch_as(|rank| cluster.settings(rank), |_, member| member.err().map(|error| error.to_string())) {
        assert!(reason.as_ref().is_some_and(|it| it.contains("it is of version 9")), "{reason:?}");
    }
    assert_eq!(fs::read(&path).unwrap(), bytes);
    fs::write(&path, &sound).unwrap();
    is_whole(&|rank| cluster.settings(rank));
}

#[test]
fn a_job_continues_only_with_as_many_processes_as_before() {
    let cluster = Cluster::new(4, Scheme::Parity, 4, 4);
    assert!(cluster.launch(1000, Some((1, 300))).iter().all(|end| *end == End::Killed));
    let reasons = launch_as(|rank| cluster.settings(rank), |_, member| member.err().map(|error| error.to_string()));
    for reason in reasons {
        assert!(reason.as_ref().is_some_and(|it| it.contains("start as many as before")), "{reason:?}");
    }
    let last = cluster.promised() + 3;
    assert_eq!(cluster.launch(last, None), cluster.truth(last));
}
