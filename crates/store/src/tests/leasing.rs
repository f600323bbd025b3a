//! One job has one life: the lease on a real directory and between machines.

use super::disk::Disk;
use super::{Crowd, LIVE, SUPERVISOR, begin, checkpoint, fill, host_identity, newest, open_on, some_pages, state};
use crate::{HostIdentity, JobDirectory, LeaseRequest, LeaseState, ProcessIdentity, Purpose, StoreError};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

const PROGRAM: ProcessIdentity = ProcessIdentity { pid: 77, start_time: 770 };

/// Returns the identity of this machine for another supervisor, with these processes alive.
fn beside(alive: &[ProcessIdentity]) -> HostIdentity {
    let supervisor = ProcessIdentity { pid: 20, start_time: 200 };
    HostIdentity { supervisor, processes: Box::new(Crowd(alive.to_vec())), ..host_identity(1) }
}

fn elsewhere() -> HostIdentity {
    HostIdentity { host: "there".into(), ..beside(&[]) }
}

fn on(disk: &Disk, host_identity: HostIdentity) -> JobDirectory {
    JobDirectory::on(disk.storage_backend(), host_identity).unwrap()
}

#[test]
fn one_of_many_concurrent_requests_gets_the_lease() {
    let place = tempfile::tempdir().unwrap();
    let start = Barrier::new(8);
    let ask = || {
        let directory = JobDirectory::open(place.path()).unwrap();
        start.wait();
        directory.take_lease(LIVE)
    };
    let answers: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(matches!(refused, StoreError::Supervised(_)), "{refused}");
    }
}

#[test]
fn one_of_many_concurrent_takeovers_gets_the_lease() {
    let place = tempfile::tempdir().unwrap();
    // A supervisor of an earlier boot left this.
    let storage_backend = std::sync::Arc::new(crate::Directory::open(place.path()).unwrap());
    let gone = JobDirectory::on(storage_backend, host_identity(0)).unwrap();
    let lease = gone.take_lease(LIVE).unwrap();
    lease.set_program(PROGRAM).unwrap();
    drop(lease);
    let start = Barrier::new(8);
    let ask = || {
        let directory = JobDirectory::open(place.path()).unwrap();
        start.wait();
        directory.take_lease(LeaseRequest { force: true, ..LIVE })
    };
    let granted: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap().ok()).collect()
    });
    assert_eq!(granted.len(), 1);
}

#[test]
fn a_dropped_lease_is_free_unless_it_names_a_program() {
    let disk = Disk::new();
    let directory = open_on(disk.storage_backend(), 1);
    directory.take_lease(LIVE).unwrap().release().unwrap();
    assert_eq!(directory.lease_state().unwrap(), LeaseState::Free);
    drop(directory.take_lease(LIVE).unwrap());
    assert_eq!(directory.lease_state().unwrap(), LeaseState::Free);
    let lease = directory.take_lease(LIVE).unwrap();
    lease.set_program(PROGRAM).unwrap();
    drop(lease);
    assert!(matches!(directory.lease_state().unwrap(), LeaseState::Supervised(_)));
}

#[test]
fn an_orphaned_program_can_be_adopted_but_not_started_again() {
    let disk = Disk::new();
    let lease = open_on(disk.storage_backend(), 1).take_lease(LIVE).unwrap();
    lease.set_program(PROGRAM).unwrap();
    drop(lease);
    let orphaned = on(&disk, beside(&[PROGRAM]));
    let refused = orphaned.take_lease(LeaseRequest { force: true, ..LIVE }).unwrap_err();
    assert!(matches!(refused, StoreError::ProgramStillRuns { pid: 77 }), "{refused}");
    let adopted = orphaned.take_lease(LeaseRequest { purpose: Purpose::Adopt, force: false }).unwrap();
    assert_eq!(adopted.program(), Some(PROGRAM));
    drop(adopted);
    assert!(on(&disk, beside(&[])).take_lease(LIVE).is_ok(), "once the program has ended too");
}

/// A checkpoint request that arrives just after the program has ended must not block the next life.
#[test]
fn a_program_that_has_ended_cannot_be_adopted() {
    let disk = Disk::new();
    let adopt = LeaseRequest { purpose: Purpose::Adopt, force: false };
    let refused = |directory: &JobDirectory| {
        let refused = directory.take_lease(adopt).unwrap_err();
        assert!(matches!(refused, StoreError::NothingToAdopt), "{refused}");
    };
    let lease = open_on(disk.storage_backend(), 1).take_lease(LIVE).unwrap();
    lease.set_program(PROGRAM).unwrap();
    drop(lease);
    let abandoned = on(&disk, beside(&[]));
    refused(&abandoned);
    abandoned.take_lease(LIVE).expect("nobody holds it").release().unwrap();
    refused(&abandoned);
}

#[test]
fn a_remote_holder_keeps_its_lease_unless_forced() {
    let disk = Disk::new();
    let lease = open_on(disk.storage_backend(), 1).take_lease(LIVE).unwrap();
    disk.pass(Duration::from_secs(1000));
    lease.heartbeat().unwrap();
    disk.pass(Duration::from_secs(70));
    let there = on(&disk, elsewhere());
    match there.take_lease(LIVE) {
        Err(StoreError::HeldElsewhere { holder, silent }) => {
            assert_eq!((holder.host.as_str(), silent), ("here", Duration::from_secs(70)));
        }
        other => panic!("{other:?}"),
    }
    let taken = there.take_lease(LeaseRequest { force: true, ..LIVE }).unwrap();
    assert!(matches!(lease.heartbeat(), Err(StoreError::LeaseLost(_))), "the old holder learns of it");
    drop(lease);
    assert!(taken.heartbeat().is_ok(), "and cannot take it back by leaving");
}

#[test]
fn a_lost_lease_allows_no_changes() {
    let disk = Disk::new();
    let old = open_on(disk.storage_backend(), 1);
    let lost = old.take_lease(LIVE).unwrap();
    begin(&old, &lost).unwrap();
    let mut unsealed = old.prepare(&lost).unwrap();
    fill(&mut unsealed, &some_pages(1), &state("lost")).unwrap();

    let new = on(&disk, elsewhere());
    let lease = new.take_lease(LeaseRequest { force: true, ..LIVE }).unwrap();
    checkpoint(&new, &lease, &some_pages(2), "new").unwrap();
    let before = disk.names();

    assert!(matches!(unsealed.seal(), Err(StoreError::LeaseLost(_))));
    assert!(matches!(begin(&old, &lost), Err(StoreError::LeaseLost(_))));
    assert!(matches!(old.prepare(&lost), Err(StoreError::LeaseLost(_))));
    assert_eq!(disk.names(), before);
    assert_eq!(newest(&new).unwrap(), ("new".into(), some_pages(2)));
}

#[test]
fn a_sealed_generation_of_a_lost_lease_is_not_committed() {
    let disk = Disk::new();
    let old = open_on(disk.storage_backend(), 1);
    let lost = old.take_lease(LIVE).unwrap();
    begin(&old, &lost).unwrap();
    let mut prepared = old.prepare(&lost).unwrap();
    fill(&mut prepared, &some_pages(1), &state("lost")).unwrap();
    let sealed = prepared.seal().unwrap();

    let new = on(&disk, elsewhere());
    let lease = new.take_lease(LeaseRequest { force: true, ..LIVE }).unwrap();
    checkpoint(&new, &lease, &some_pages(2), "new").unwrap();
    assert!(matches!(sealed.commit(Duration::ZERO), Err(StoreError::LeaseLost(_))));
    assert_eq!(newest(&new).unwrap(), ("new".into(), some_pages(2)), "its file was not removed either");
}

#[test]
fn an_unreadable_lease_is_only_taken_by_force() {
    let disk = Disk::new();
    let lease = open_on(disk.storage_backend(), 1).take_lease(LIVE).unwrap();
    for strange in [&b""[..], b"standfast-lease=2\n", &[0xff; 100], &[b'x'; 5000]] {
        disk.set_content("lease", strange.to_vec());
        let directory = on(&disk, beside(&[SUPERVISOR]));
        assert_eq!(directory.lease_state().unwrap(), LeaseState::Unreadable);
        assert!(matches!(directory.take_lease(LIVE), Err(StoreError::LeaseUnreadable(_))));
    }
    assert!(on(&disk, beside(&[])).take_lease(LeaseRequest { force: true, ..LIVE }).is_ok());
    drop(lease);
}

#[test]
fn a_holder_of_another_boot_is_dead_only_if_its_heartbeat_stops() {
    let disk = Disk::new();
    let lease = open_on(disk.storage_backend(), 1).take_lease(LIVE).unwrap();
    lease.set_program(PROGRAM).unwrap();
    let later = on(&disk, HostIdentity { boot_id: "another".into(), ..beside(&[]) });
    let pulse = || match later.lease_state().unwrap() {
        LeaseState::OtherBoot(holder, pulse, _) => {
            assert_eq!(holder.host, "here");
            pulse
        }
        other => panic!("{other:?}"),
    };
    let watched = pulse();
    assert!(matches!(later.take_lease(LIVE), Err(StoreError::HeldByNamesake(_))), "nobody has watched it");
    disk.pass(Duration::from_secs(20));
    lease.heartbeat().unwrap();
    assert_ne!(pulse(), watched);
    assert!(matches!(later.take_watched_lease(LIVE, Some(&watched)), Err(StoreError::HeldByNamesake(_))), "it lives");
    let watched = pulse();
    disk.pass(Duration::from_secs(40));
    assert_eq!(pulse(), watched);
    assert!(later.take_watched_lease(LIVE, Some(&watched)).is_ok());
    assert!(matches!(lease.heartbeat(), Err(StoreError::LeaseLost(_))));
}
