//! Who steers a distributed job. One coordinator does at a time: it keeps a file in the job's directory locked. Beside that
//! it records what others ask about, since they cannot reach it from everywhere.

use super::description::{load, save};
use crate::{Error, InWords};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOCK_FILE: &str = "coordinator.lock";
const RECORD_FILE: &str = "coordinator.json";
/// How long those who only look may hold the lock.
const LOOK_MAX: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(10);

/// What a coordinator records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeadRecord {
    /// The name of its host.
    pub(super) host: String,
    /// Its process id there.
    pub(super) pid: i32,
    /// How many requests for a checkpoint it has answered.
    pub(super) answered: u64,
    /// The number of the last epoch that all parts have sealed.
    pub(super) epoch: Option<u64>,
    /// Why the last cut was given up, if it was.
    pub(super) given_up: Option<String>,
}

/// The right to steer a job, until it is dropped.
#[derive(Debug)]
pub(super) struct Lead {
    directory: PathBuf,
    record: LeadRecord,
    _lock: File,
}

impl Lead {
    /// Takes the lead of the job in `directory`.
    pub(super) fn take(directory: &Path) -> Result<Self, Error> {
        let taking = |error: std::io::Error| Error::system("take the lead of the job")(error);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(directory.join(LOCK_FILE));
        let lock = opened.map_err(taking)?;
        let begun = Instant::now();
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            let error = std::io::Error::from(error);
            if error.kind() != std::io::ErrorKind::WouldBlock {
                return Err(taking(error));
            }
            if begun.elapsed() < LOOK_MAX {
                std::thread::sleep(PAUSE);
                continue;
            }
            let who = record(directory).map_or_else(|_| "another command".to_owned(), |it| it.to_string());
            return Err(Error::Declined(format!("{who} steers the job")));
        }
        let pid = i32::try_from(std::process::id()).unwrap_or_default();
        let record = LeadRecord { host: own_host(), pid, answered: 0, epoch: None, given_up: None };
        let lead = Self { directory: directory.to_owned(), record, _lock: lock };
        lead.save()?;
        Ok(lead)
    }

    /// Returns what the coordinator of a job has recorded, if there is one.
    pub(super) fn look(directory: &Path) -> Option<LeadRecord> {
        let lock = File::open(directory.join(LOCK_FILE)).ok()?;
        // Whoever can share the lock is alone. The lock ends with this function.
        let is_free = flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
        if is_free { None } else { record(directory).ok() }
    }

    /// Records how a cut has ended. `answers` says whether somebody had asked for it.
    pub(super) fn note(&mut self, outcome: Result<u64, String>, answers: bool) {
        self.record.answered += u64::from(answers);
        match outcome {
            Ok(epoch) => (self.record.epoch, self.record.given_up) = (Some(epoch), None),
            Err(reason) => self.record.given_up = Some(reason),
        }
        // A full disk must not end the coordinator. Who asks then sees what was recorded before.
        let _ = self.save();
    }

    fn save(&self) -> Result<(), Error> {
        save(&self.directory.join(RECORD_FILE), &self.record)
    }
}

impl LeadRecord {
    /// Reports whether it runs on this host.
    pub(super) fn is_here(&self) -> bool {
        self.host == own_host()
    }
}

impl std::fmt::Display for LeadRecord {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "process {} on {}", self.pid, self.host)
    }
}

/// Removes what a coordinator leaves in the directory of a job.
pub(super) fn forget(directory: &Path) -> Result<(), Error> {
    for name in [LOCK_FILE, RECORD_FILE] {
        match std::fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::Declined(format!("{name} could not be removed: {}", InWords(&error))));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns what the last coordinator has recorded, whether it still leads or not.
pub(super) fn record(directory: &Path) -> Result<LeadRecord, Error> {
    load(&directory.join(RECORD_FILE))
}

fn own_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_coordinator_leads_at_a_time_and_says_what_came_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        assert_eq!(Lead::look(at), None);
        let mut lead = Lead::take(at).unwrap();
        let refused = Lead::take(at).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {} on ", std::process::id())), "{refused}");
        lead.note(Ok(3), false);
        lead.note(Err("a reason".to_owned()), true);
        let seen = Lead::look(at).unwrap();
        assert_eq!((seen.epoch, seen.answered, seen.given_up.as_deref()), (Some(3), 1, Some("a reason")));
        assert!(seen.is_here());
        drop(lead);
        assert_eq!(Lead::look(at), None);
        forget(at).unwrap();
        assert_eq!(std::fs::read_dir(at).unwrap().count(), 0);
    }
}
