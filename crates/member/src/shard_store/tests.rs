//! One shard store by itself: the content of its files between a survey and the seal, and the number of its tables.

use super::*;
use standfast_core::PAGE_BYTES;
use standfast_group::{Group, SlotMap};
use std::fs::File;

const JOB: JobId = JobId::from_bytes([3; 16]);

fn shard(number: u64) -> ShardId {
    ShardId { epoch: EpochId { job: JOB, life: Life(1), number, random: number }, logical_rank: LogicalRank(0) }
}

fn shard_store(directory: &Path) -> FileShardStore {
    let members = vec![LogicalRank(0), LogicalRank(1), LogicalRank(2)];
    let group = Group { members, parity_nodes: Vec::new(), scheme: standfast_core::erasure::Scheme::Parity };
    FileShardStore::open(directory, JOB, LogicalRank(0), &PlanRecord::new(&[group])).unwrap()
}

/// Writes stripes of a check, which no description mentions.
fn written(shard_store: &mut FileShardStore, number: u64, base: Option<u64>, stripes: std::ops::Range<u32>, byte: u8) {
    let page = [byte; PAGE_BYTES];
    shard_store.open(shard(number), base.map(shard));
    let place = |stripe| Place::Check { check: 0, stripe };
    stripes.for_each(|stripe| shard_store.write(shard(number), place(stripe), &page, Fingerprint::of(&page)));
    let (map, sums) = (SlotMap::default(), Sums::default());
    shard_store.describe(shard(number), vec![Description { logical_rank: LogicalRank(1), map, sums, slots: 0 }]);
}

/// Creates a shard store with one sealed shard.
fn begun(stripes: std::ops::Range<u32>) -> (tempfile::TempDir, FileShardStore) {
    let folder = tempfile::tempdir().unwrap();
    let mut shard_store = shard_store(&folder.path().join("seat-0"));
    written(&mut shard_store, 1, None, stripes, 7);
    seal(&mut shard_store, 1, false);
    (folder, shard_store)
}

fn seal(shard_store: &mut FileShardStore, number: u64, recovery: bool) {
    shard_store.seal(Work { epoch: shard(number).epoch, recovery, level: EpochLevel::Encoded }).unwrap();
}

#[test]
fn a_recovery_keeps_the_old_shard_until_the_new_one_is_sealed() {
    let (folder, mut first) = begun(0..1500);
    written(&mut first, 1, None, 0..1500, 8);
    drop(first);
    let mut second = shard_store(&folder.path().join("seat-0"));
    assert!(second.is_good(shard(1)), "it was never replaced");
    written(&mut second, 1, None, 0..1500, 9);
    seal(&mut second, 1, true);
    let frames = second.frames.count();
    written(&mut second, 2, Some(1), 0..1500, 10);
    assert_eq!(second.frames.count(), frames, "there are frames to be used again");
}

#[test]
fn keeping_nothing_frees_all_frames() {
    let (_folder, mut shard_store) = begun(0..1500);
    written(&mut shard_store, 1, None, 0..1, 8);
    shard_store.keep(None, Some(LogicalRank(0)), Life(2)).unwrap();
    assert_eq!(shard_store.frames.count(), 0);
    written(&mut shard_store, 2, None, 0..1500, 9);
    seal(&mut shard_store, 2, false);
    written(&mut shard_store, 3, Some(2), 0..1500, 10);
    assert!(shard_store.is_good(shard(2)), "no frame is given out twice");
}

#[test]
fn verify_finds_damage_and_checks_each_frame_once() {
    use std::os::unix::fs::FileExt as _;
    let (folder, mut shard_store) = begun(0..3);
    assert_eq!(shard_store.survey().holdings.len(), 1);
    assert_eq!(shard_store.verify(shard(1)), Ok(()));
    let pages = File::options().write(true).open(folder.path().join("seat-0/pages")).unwrap();
    pages.write_all_at(&[8], 0).unwrap();
    assert_eq!(shard_store.verify(shard(1)), Ok(()), "it has been looked at");
    assert_eq!(shard_store.survey().holdings.len(), 1);
    assert_eq!(shard_store.verify(shard(1)).map_err(|damaged| damaged.shard), Err(shard(1)));
    assert!(!shard_store.is_good(shard(1)));
}

#[test]
fn tables_take_little_however_much_of_a_shard_changes() {
    for changed in [1, 10, 60, 100] {
        let (folder, mut first) = begun(0..100);
        for number in 2..=70 {
            written(&mut first, number, Some(number - 1), 0..changed, number as u8);
            seal(&mut first, number, false);
            first.acknowledge(shard(number).epoch).unwrap();
            first.keep(Some(shard(number).epoch), Some(LogicalRank(0)), Life(1)).unwrap();
            let Shard { tables, listed, .. } = &first.shards[&shard(number)];
            assert!(tables.len() < TABLES_MAX && *listed < LISTED_MAX * 100, "{changed} at {number}");
        }
        drop(first);
        let second = shard_store(&folder.path().join("seat-0"));
        let known = |stripe, number| {
            let known_by = second.known(shard(70), Place::Check { check: 0, stripe });
            assert!(known_by == Fingerprint::of(&[number; PAGE_BYTES]), "{changed}: stripe {stripe}");
        };
        (0..100).for_each(|stripe| known(stripe, if stripe < changed { 70 } else { 7 }));
        assert!(second.is_good(shard(70)));
    }
}
