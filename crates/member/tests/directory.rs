//! The directory as a further level: what comes back when the nodes have lost more than the code tolerates, what is saved
//! without the program, and what is refused.

use crate::cluster::{Cluster, End, JOB, fresh_memory};
use crate::threads::{Connection, Network};
use fastrand::Rng;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::LogicalRank;
use standfast_member::{HeldEpoch, LevelDirectory, Member, rebuild, salvage};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};
use tempfile::TempDir;

fn cluster(seed: u64, scheme: Scheme, ranks: u32, every: u64) -> (Cluster, TempDir) {
    let mut cluster = Cluster::new(seed, scheme, ranks, ranks as usize);
    let place = tempfile::tempdir().expect("there is a place for it");
    cluster.directory = Some((place.path().join("job"), every));
    (cluster, place)
}

fn path(cluster: &Cluster) -> &Path {
    &cluster.directory.as_ref().expect("it has one").0
}

/// Kills one rank at its message with this number.
fn struck(cluster: &Cluster, victim: u32, at: u64) {
    let ends = cluster.launch(100_000, Some((victim, at)));
    assert!(ends.iter().all(|end| *end == End::Killed), "{ends:?}");
}

fn is_done(cluster: &Cluster, last: u64, seed: u64) {
    assert_eq!(cluster.launch(last, None), cluster.truth(last), "seed {seed}");
    assert_eq!(cluster.leftovers(), Vec::<PathBuf>::new(), "seed {seed}");
    assert!(!path(cluster).exists(), "seed {seed}: the job is done and its directory is there");
}

/// Every node loses its memory again and again, sometimes in the middle of a copy.
#[test]
fn a_job_that_loses_all_nodes_continues_from_the_directory() {
    for seed in 0..6 {
        let mut random = Rng::with_seed(seed);
        let ranks = random.u32(2..5);
        let (mut cluster, _place) = cluster(seed, Scheme::Parity, ranks, random.u64(1..4));
        cluster.encode_every = random.u64(1..4);
        let mut reached = 0;
        for _ in 0..4 {
            struck(&cluster, random.u32(..ranks), random.u64(200..700));
            reached = cluster.promised().max(reached);
            let epochs = LevelDirectory::new(path(&cluster)).epochs().unwrap();
            if !epochs.iter().any(|held| held.lacking().unwrap().is_none()) {
                continue;
            }
            (0..cluster.nodes.len()).for_each(|node| cluster.lose(node));
            cluster.promise(0);
        }
        // A copy that broke off before it held anything is removed with the others.
        fs::create_dir_all(path(&cluster).join("epoch-1-1-0000000000000000").join("seat-0")).unwrap();
        is_done(&cluster, reached + 5, seed);
    }
}

/// After all processes have ended, the nodes that are left save their memory. The shards of the lost nodes are rebuilt
/// without the program.
#[test]
fn a_job_continues_from_salvaged_and_rebuilt_shards() {
    for (seed, scheme, lost) in [(1, Scheme::Parity, 1), (2, Scheme::ReedSolomon { checks: 2 }, 2)] {
        let (mut cluster, _place) = cluster(seed, scheme, 4, 0);
        struck(&cluster, 1, 300);
        for node in cluster.nodes.iter().skip(lost) {
            let saved = salvage(node.path(), JOB, path(&cluster)).unwrap();
            assert!(!saved.shards.is_empty() && saved.lost.is_empty(), "{saved:?}");
        }
        let held = LevelDirectory::new(path(&cluster)).epochs().unwrap();
        let newest = held.iter().find(|held| held.lacking().unwrap().is_none()).expect("the code bears that");
        assert_eq!(newest.missing().len(), lost);
        assert_eq!(newest.tolerates().unwrap(), Some(0));
        let rebuilt = rebuild(path(&cluster)).unwrap();
        assert_eq!(rebuilt.logical_ranks, newest.missing());
        let whole = LevelDirectory::new(path(&cluster)).epochs().unwrap();
        let whole = whole.iter().find(|held| held.epoch == rebuilt.epoch).unwrap();
        assert!(whole.missing().is_empty());
        assert!(whole.verify().iter().all(|(_, damage)| damage.is_none()), "{:?}", whole.verify());
        (0..4).for_each(|node| cluster.lose(node));
        // The job has gone back to what was promised, and no further.
        is_done(&cluster, cluster.promised() + 5, seed);
    }
}

/// The newest epoch is a local one: what all nodes hold of it is saved, and the job continues from it. With one node
/// lost, it continues from the encoded one before, which is saved with it.
#[test]
fn a_salvaged_local_epoch_is_used_only_if_complete() {
    for (seed, lost) in [(1, 0), (2, 1)] {
        let (mut cluster, _place) = cluster(seed, Scheme::Parity, 3, 0);
        cluster.encode_every = 1000;
        struck(&cluster, 1, 300);
        let (newest, encoded) = (cluster.promised(), cluster.encoded());
        assert!(newest > encoded && encoded > 0, "{newest}, {encoded}");
        for node in cluster.nodes.iter().skip(lost) {
            let saved = salvage(node.path(), JOB, path(&cluster)).unwrap();
            assert!(saved.shards.len() >= 2 && saved.lost.is_empty(), "{saved:?}");
        }
        let epochs = LevelDirectory::new(path(&cluster)).epochs().unwrap();
        let first = epochs.iter().find(|held| held.lacking().unwrap().is_none()).unwrap();
        assert_eq!((first.is_local(), first.tolerates().unwrap()), (lost == 0, Some(0)));
        (0..3).for_each(|node| cluster.lose(node));
        cluster.promise(if lost == 0 { newest } else { encoded });
        is_done(&cluster, newest + 5, seed);
        assert_eq!(cluster.back_at() > encoded, lost == 0);
    }
}

/// Returns the newest epoch of which the directory has each logical rank's copy, and all newer epochs.
fn at_hand(cluster: &Cluster) -> (Vec<HeldEpoch>, HeldEpoch) {
    let mut newer = LevelDirectory::new(path(cluster)).epochs().expect("it can be read");
    let at = newer.iter().position(|held| held.missing().is_empty()).expect("all had sealed one");
    let whole = newer.split_off(at).remove(0);
    (newer, whole)
}

/// A page of a copy changes: the damage is reported by name, and the code repairs it.
#[test]
fn damage_in_the_directory_is_reported_and_repaired() {
    let (mut cluster, _place) = cluster(3, Scheme::Parity, 3, 0);
    struck(&cluster, 0, 300);
    cluster.nodes.iter().for_each(|node| drop(salvage(node.path(), JOB, path(&cluster)).unwrap()));
    // A rank that was struck while an epoch was sealed may lack the newest one. So the test damages an epoch that all
    // have, and the job goes back to that one.
    let (newer, whole) = at_hand(&cluster);
    newer
        .iter()
        .flat_map(|held| held.logical_ranks.values())
        .for_each(|logical_rank| fs::remove_dir_all(logical_rank).unwrap());
    let pages = whole.logical_ranks[&LogicalRank(2)].join("pages");
    let mut bytes = fs::read(&pages).unwrap();
    bytes[5000] ^= 1;
    fs::write(&pages, bytes).unwrap();
    let damaged: Vec<_> =
        whole.verify().into_iter().filter_map(|(logical_rank, damage)| damage.map(|_| logical_rank.0)).collect();
    assert_eq!(damaged, [2]);
    (0..3).for_each(|node| cluster.lose(node));
    is_done(&cluster, cluster.promised() + 5, 3);
}

/// A node that was away comes back with its old memory, after the job has continued elsewhere.
#[test]
fn a_returning_node_with_old_memory_is_ignored() {
    for seed in 0..4 {
        let (mut cluster, _place) = cluster(seed, Scheme::Parity, 4, 1);
        struck(&cluster, 0, 300);
        let old: Vec<TempDir> = cluster.nodes.iter().map(copy_of).collect();
        struck(&cluster, 1, 400);
        let reached = cluster.promised();
        let whole = LevelDirectory::new(path(&cluster)).epochs().unwrap();
        if whole.iter().any(|held| held.missing().is_empty()) {
            // Everything is lost, and two nodes come back with an epoch that is older than the directory's.
            let mut old = old.into_iter();
            (0..2).for_each(|node| cluster.nodes[node] = old.next().unwrap());
            (2..4).for_each(|node| cluster.lose(node));
            cluster.promise(0);
        } else {
            cluster.nodes[0] = old.into_iter().next().unwrap();
        }
        struck(&cluster, 2, 200);
        is_done(&cluster, reached.max(cluster.promised()) + 5, seed);
    }
}

/// Copies in this process, since a child would hold its locks for a moment.
fn copy_of(node: &TempDir) -> TempDir {
    fn copy(from: &Path, to: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                fs::DirBuilder::new().mode(0o700).create(&to)?;
                copy(&path, &to)?;
            } else {
                fs::copy(&path, &to)?;
            }
        }
        Ok(())
    }
    let to = fresh_memory();
    copy(node.path(), to.path()).expect("nobody writes there now");
    to
}

#[test]
fn another_jobs_directory_is_refused_and_left_alone() {
    let (cluster, _place) = cluster(5, Scheme::Parity, 3, 0);
    struck(&cluster, 0, 200);
    cluster.nodes.iter().for_each(|node| drop(salvage(node.path(), JOB, path(&cluster)).unwrap()));
    let before = LevelDirectory::new(path(&cluster)).epochs().unwrap().len();
    let network = Network::new(3, 5, None);
    std::thread::scope(|scope| {
        let join = |connection: Connection| {
            let mut settings = cluster.settings(connection.number());
            settings.job = JobId::from_bytes([8; 16]);
            scope.spawn(move || Member::join(connection, &settings).map(drop).expect_err("it is another's").to_string())
        };
        for thread in network.connections().into_iter().map(join).collect::<Vec<_>>() {
            let reason = thread.join().unwrap();
            assert!(reason.contains("it holds checkpoints of job"), "{reason}");
        }
    });
    let other = salvage(cluster.nodes[0].path(), JobId::from_bytes([8; 16]), path(&cluster));
    assert!(other.is_err_and(|error| error.to_string().contains("name another directory")));
    assert_eq!(LevelDirectory::new(path(&cluster)).epochs().unwrap().len(), before);
}

/// What another version has saved is not lost. A job that took it for lost would begin again.
#[test]
fn a_directory_of_another_version_is_refused_and_left_alone() {
    let (mut cluster, _place) = cluster(7, Scheme::Parity, 3, 0);
    struck(&cluster, 0, 200);
    cluster.nodes.iter().for_each(|node| drop(salvage(node.path(), JOB, path(&cluster)).unwrap()));
    let epochs = LevelDirectory::new(path(&cluster)).epochs().unwrap();
    let states: Vec<_> = epochs
        .iter()
        .flat_map(|held| held.logical_ranks.values().map(|logical_rank| logical_rank.join("state")))
        .collect();
    for state in &states {
        let mut bytes = fs::read(state).unwrap();
        // After the checksum comes an array, with the version as its first element.
        bytes[17] = 9;
        let checksum = standfast_core::Checksum::of(&bytes[16..]).to_bytes();
        bytes[..16].copy_from_slice(&checksum);
        fs::write(state, &bytes).unwrap();
    }
    (0..3).for_each(|node| cluster.lose(node));
    for end in cluster.launch(1000, None) {
        let End::Failed(reason) = end else { panic!("{end:?}") };
        assert!(reason.contains("it is of version 9"), "{reason}");
    }
    assert!(!states.is_empty() && states.iter().all(|state| fs::read(state).unwrap()[17] == 9));
}

/// Memory and directory together hold too little: the job is refused by name, and nothing is removed.
#[test]
fn too_little_in_memory_and_directory_is_refused() {
    let (mut cluster, _place) = cluster(6, Scheme::Parity, 4, 0);
    struck(&cluster, 0, 300);
    cluster.nodes.iter().take(2).for_each(|node| drop(salvage(node.path(), JOB, path(&cluster)).unwrap()));
    (0..4).for_each(|node| cluster.lose(node));
    for end in cluster.launch(1000, None) {
        let End::Failed(reason) = end else { panic!("{end:?}") };
        assert!(reason.contains("holds too few shards"), "{reason}");
    }
    let held = LevelDirectory::new(path(&cluster)).epochs().unwrap();
    assert_eq!(held.iter().map(|held| held.logical_ranks.len()).max(), Some(2));
    assert!(rebuild(path(&cluster)).is_err_and(|error| error.to_string().contains("too few shards")));
}
