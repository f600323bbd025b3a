//! The lease records who supervises a job, so that the job never has two lives at the same time.
//!
//! A link(2) to a complete temporary file creates the lease; even old network file systems do this atomically. It is
//! taken over, changed and released under a lock on the file `lock`. The heartbeat is its modification time, which the
//! server of the file system sets and compares by its own clock.
//!
//! The content is synced, so that nobody finds a lease without it. The name is not: if power fails, the holder is gone.

mod content;
mod host_identity;

pub use host_identity::{HostIdentity, Processes, SystemProcesses};

pub use crate::holder::{Holder, ProcessIdentity};
use crate::random::{CLOCK_STEM, LEASE_STEM, temporary_name};
use crate::trust::open_trusted;
use crate::{LockGuard, StorageBackend, StorageFile, StoreError};
use content::{Content, Facts, LEASE_BYTES_MAX};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

pub(crate) const LEASE: &str = "lease";
pub(crate) const LOCK: &str = "lock";

/// Interval at which the holder of a lease shows that it is alive.
pub const HEARTBEAT: Duration = Duration::from_secs(20);

/// Number of times that a lease may disappear between reading and taking it before that is an error.
const ATTEMPTS_MAX: u32 = 8;

/// The last heartbeat of a lease. Two equal values are the same heartbeat: the holder has not shown since that it is
/// alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    pub(crate) token: String,
    pub(crate) beaten: SystemTime,
    /// The interval of the heartbeat while the holder is alive.
    pub heartbeat: Duration,
}

/// The state of a job's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    /// Nobody holds the lease.
    Free,
    /// A live supervisor holds it.
    Supervised(Holder),
    /// The supervisor is gone, but the program still runs.
    Orphaned(Holder, ProcessIdentity),
    /// Both the supervisor and the program are gone.
    Abandoned(Holder),
    /// The lease names this host but was taken in another boot: before this machine restarted, or on another machine of
    /// the same name (clones, containers). Only a moving heartbeat tells these apart. The duration is the time since
    /// the last heartbeat, by the clock of the file system, and is only for people.
    OtherBoot(Holder, Pulse, Duration),
    /// The holder is not visible from here. The duration is the time since the last heartbeat.
    Elsewhere(Holder, Duration),
    /// The lease cannot be parsed.
    Unreadable,
}

/// The purpose of taking a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To give the job a new life. The job must not have one.
    Live,
    /// To supervise a program whose supervisor is gone. The program must be running.
    Adopt,
}

/// A request for the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Its purpose.
    pub purpose: Purpose,
    /// Whether to take the lease from a holder that is not visible from here. This never takes it from a visible, live
    /// holder.
    pub force: bool,
}

/// A held lease. Dropping it without [`Lease::release`] releases it only if it names no program.
#[derive(Debug)]
pub struct Lease {
    core: Arc<LeaseCore>,
    released: bool,
}

impl Lease {
    pub(crate) fn take(
        storage_backend: Arc<dyn StorageBackend>,
        host_identity: Arc<HostIdentity>,
        lease_request: LeaseRequest,
        watched: Option<&Pulse>,
    ) -> Result<Self, StoreError> {
        let desk = Desk { storage_backend, host_identity };
        let holder = Holder {
            host: desk.host_identity.host.clone(),
            boot_id: desk.host_identity.boot_id.clone(),
            pid_namespace: desk.host_identity.pid_namespace,
            supervisor: desk.host_identity.supervisor,
            program: None,
        };
        let content =
            desk.take(Content { token: crate::random_token(), holder, heartbeat: HEARTBEAT }, lease_request, watched)?;
        Ok(Self { core: Arc::new(LeaseCore { desk, content: Mutex::new(content) }), released: false })
    }

    /// Returns the program that the lease named when it was taken for [`Purpose::Adopt`], or that was set since.
    pub fn program(&self) -> Option<ProcessIdentity> {
        self.core.content().holder.program
    }

    /// Records the program that runs under this lease.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::StorageBackend`].
    pub fn set_program(&self, program: ProcessIdentity) -> Result<(), StoreError> {
        let _lock = self.core.desk.lock();
        self.core.check()?;
        let mut content = self.core.content();
        content.holder.program = Some(program);
        self.core.desk.replace(&content)?;
        self.core.set_content(content);
        Ok(())
    }

    /// Shows that the holder is alive. Call it every [`HEARTBEAT`].
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::StorageBackend`].
    pub fn heartbeat(&self) -> Result<(), StoreError> {
        self.core.check()?.touch().map_err(|error| self.core.desk.writing(error))
    }

    /// Releases the lease after the program has ended.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::StorageBackend`].
    pub fn release(mut self) -> Result<(), StoreError> {
        self.released = true;
        self.core.remove()
    }

    pub(crate) fn core(&self) -> &Arc<LeaseCore> {
        &self.core
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // If a program is named, this process is dying while the program may live: the lease must keep naming it.
        if !self.released && self.program().is_none() {
            // A failure is harmless: the lease then names a supervisor that will be found dead.
            let _ = self.core.remove();
        }
    }
}

/// The part of a lease that a checkpoint in progress shares.
#[derive(Debug)]
pub(crate) struct LeaseCore {
    desk: Desk,
    content: Mutex<Content>,
}

impl LeaseCore {
    /// Runs `write` while nobody can take the lease over, if the lease is still ours.
    pub(crate) fn guarding<T>(&self, write: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _lock = self.desk.lock();
        self.check()?;
        write()
    }

    pub(crate) fn is_of(&self, storage_backend: &Arc<dyn StorageBackend>) -> bool {
        Arc::ptr_eq(&self.desk.storage_backend, storage_backend)
    }

    /// Checks that the lease is still ours, and returns its file.
    fn check(&self) -> Result<Arc<dyn StorageFile>, StoreError> {
        match self.desk.read()? {
            Some(Found { content: Some(content), file }) if content.token == self.content().token => Ok(file),
            _ => Err(StoreError::LeaseLost(self.desk.storage_backend.path().to_owned())),
        }
    }

    fn remove(&self) -> Result<(), StoreError> {
        let _lock = self.desk.lock();
        self.check()?;
        self.desk.storage_backend.remove(LEASE).map_err(|error| self.desk.writing(error))
    }

    fn content(&self) -> Content {
        self.content.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_content(&self, content: Content) {
        *self.content.lock().unwrap_or_else(PoisonError::into_inner) = content;
    }
}

/// Returns the state of the lease in `storage_backend`.
pub(crate) fn lease_state(
    storage_backend: &Arc<dyn StorageBackend>,
    host_identity: &Arc<HostIdentity>,
) -> Result<LeaseState, StoreError> {
    Desk { storage_backend: Arc::clone(storage_backend), host_identity: Arc::clone(host_identity) }.lease_state()
}

/// Checks whether a lease request would succeed.
pub(crate) fn would_grant(
    storage_backend: &Arc<dyn StorageBackend>,
    host_identity: &Arc<HostIdentity>,
    lease_request: LeaseRequest,
) -> Result<(), StoreError> {
    let desk = Desk { storage_backend: Arc::clone(storage_backend), host_identity: Arc::clone(host_identity) };
    content::decide(desk.lease_state()?, lease_request, None, &desk.path()).map(drop)
}

/// Access to the lease file of a directory.
#[derive(Debug)]
struct Desk {
    storage_backend: Arc<dyn StorageBackend>,
    host_identity: Arc<HostIdentity>,
}

impl Desk {
    /// Makes `content` the lease, and adds the program that comes with it.
    fn take(
        &self,
        content: Content,
        lease_request: LeaseRequest,
        watched: Option<&Pulse>,
    ) -> Result<Content, StoreError> {
        if lease_request.purpose == Purpose::Adopt {
            return self.take_over(&content, lease_request, watched)?.ok_or(StoreError::NothingToAdopt);
        }
        for _ in 0..ATTEMPTS_MAX {
            let temporary = self.write_temporary(&content)?;
            let linked = self.storage_backend.link(&temporary, LEASE);
            self.discard(&temporary);
            // On a network file system the reply to a successful link may be lost: only the file shows the truth.
            if linked.is_ok() || self.read()?.is_some_and(|found| found.content.as_ref() == Some(&content)) {
                return Ok(content);
            }
            match linked.map_err(|error| (error.kind(), error)) {
                Err((io::ErrorKind::AlreadyExists, _)) => {
                    if let Some(content) = self.take_over(&content, lease_request, watched)? {
                        return Ok(content);
                    }
                }
                // Another process removed the temporary file as a leftover.
                Err((io::ErrorKind::NotFound, _)) | Ok(()) => {}
                Err((_, error)) => return Err(self.writing(error)),
            }
        }
        let busy = io::Error::other("it keeps changing hands");
        Err(StoreError::StorageBackend { action: "take", path: self.path(), source: busy, hint: "try again" })
    }

    /// Replaces a lease whose holder may be gone. Returns `None` if it was released meanwhile.
    fn take_over(
        &self,
        content: &Content,
        lease_request: LeaseRequest,
        watched: Option<&Pulse>,
    ) -> Result<Option<Content>, StoreError> {
        let _lock = self.storage_backend.lock(LOCK).map_err(|source| StoreError::StorageBackend {
            action: "lock",
            path: self.storage_backend.path().join(LOCK),
            source,
            hint: "put the directory on a file system that has locks",
        })?;
        let lease_state = self.lease_state()?;
        if lease_state == LeaseState::Free {
            return Ok(None);
        }
        let mut content = content.clone();
        content.holder.program = content::decide(lease_state, lease_request, watched, &self.path())?;
        self.replace(&content)?;
        Ok(Some(content))
    }

    fn replace(&self, content: &Content) -> Result<(), StoreError> {
        let temporary = self.write_temporary(content)?;
        let replaced = self.storage_backend.rename(&temporary, LEASE);
        self.discard_after_error(&temporary, replaced)
    }

    fn lease_state(&self) -> Result<LeaseState, StoreError> {
        let Some(Found { content, file }) = self.read()? else {
            return Ok(LeaseState::Free);
        };
        let Some(Content { holder, token, heartbeat }) = content else {
            return Ok(LeaseState::Unreadable);
        };
        let beaten = file.status().map_err(|error| StoreError::reading(&self.path(), error))?.modified;
        let facts = Facts {
            host: self.host_identity.host.clone(),
            boot_id: self.host_identity.boot_id.clone(),
            pid_namespace: self.host_identity.pid_namespace,
            supervisor_lives: self.host_identity.lives(holder.supervisor),
            program_lives: holder.program.is_some_and(|program| self.host_identity.program_lives(program)),
        };
        let pulse = Pulse { token, beaten, heartbeat };
        Ok(content::judge(holder, &facts, pulse, || self.now().duration_since(beaten).unwrap_or_default()))
    }

    /// Returns the time by the clock that sets the heartbeat: that of a file just written in the same place.
    fn now(&self) -> SystemTime {
        let name = temporary_name(CLOCK_STEM);
        let time = self.storage_backend.create(&name).and_then(|file| {
            file.touch()?;
            Ok(file.status()?.modified)
        });
        self.discard(&name);
        // A process that may not write here only wants information: its own clock is good enough.
        time.unwrap_or_else(|_| SystemTime::now())
    }

    fn read(&self) -> Result<Option<Found>, StoreError> {
        let (file, status) = match open_trusted(&*self.storage_backend, LEASE, self.host_identity.user) {
            Err(StoreError::StorageBackend { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            other => other?,
        };
        if status.bytes > LEASE_BYTES_MAX {
            return Ok(Some(Found { content: None, file }));
        }
        let mut text = vec![0; status.bytes as usize];
        file.read_at(&mut text, 0).map_err(|error| StoreError::reading(&self.path(), error))?;
        let content = str::from_utf8(&text).ok().and_then(Content::decode);
        Ok(Some(Found { content, file }))
    }

    fn write_temporary(&self, content: &Content) -> Result<String, StoreError> {
        let name = temporary_name(LEASE_STEM);
        let written = self.storage_backend.create(&name).and_then(|file| {
            file.write_at(content.encode().as_bytes(), 0)?;
            file.sync()
        });
        self.discard_after_error(&name, written)?;
        Ok(name)
    }

    /// Takes the lock if locks are supported. Without them a lease can be held, but not taken over.
    fn lock(&self) -> Option<Box<dyn LockGuard>> {
        self.storage_backend.lock(LOCK).ok()
    }

    fn discard_after_error(&self, temporary: &str, result: io::Result<()>) -> Result<(), StoreError> {
        result.map_err(|error| {
            self.discard(temporary);
            self.writing(error)
        })
    }

    fn discard(&self, temporary: &str) {
        // The next process that takes the lease removes the file if this fails.
        let _ = self.storage_backend.remove(temporary);
    }

    fn writing(&self, source: io::Error) -> StoreError {
        StoreError::writing(&self.path(), source)
    }

    fn path(&self) -> PathBuf {
        self.storage_backend.path().join(LEASE)
    }
}

/// An existing lease.
struct Found {
    /// Its content, if it can be parsed.
    content: Option<Content>,
    file: Arc<dyn StorageFile>,
}
