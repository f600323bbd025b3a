//! A disk in memory that counts operations, fails on demand and can lose power.
//!
//! Names and contents exist twice: as programs see them, and as a power loss would leave them. [`Survival`] decides
//! which of the changes in between survive.

use crate::{FileStatus, LockGuard, StorageBackend, StorageFile};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

/// A fault and its time: operations that change something are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// This one operation fails; a failing write has done half of its work.
    Once(u64, io::ErrorKind),
    /// This operation and all later ones fail, but reads work.
    From(u64, io::ErrorKind),
    /// From this operation on nothing works.
    PowerLoss(u64),
}

/// The unsynced changes that survive a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Survival {
    /// Nothing.
    Nothing,
    /// All of them: the program was killed, but the power stayed on.
    Everything,
    /// The names, but with zeros as contents, as on file systems that delay allocation.
    Names,
    /// A random selection, made from this seed.
    Chance(u64),
}

#[derive(Debug)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Clone)]
struct State {
    fault: Fault,
    operations: u64,
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    /// The names at the last sync and after each change since.
    history: Vec<BTreeMap<String, usize>>,
    clock: Duration,
}

#[derive(Debug, Clone)]
struct Inode {
    seen: Vec<u8>,
    durable: Vec<u8>,
    mode: u32,
    modified: SystemTime,
}

impl Disk {
    pub(super) fn new() -> Self {
        let state = State {
            fault: Fault::None,
            operations: 0,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            history: vec![BTreeMap::new()],
            clock: Duration::ZERO,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns a copy of the disk that will fail in this way.
    pub(super) fn copy_with(&self, fault: Fault) -> Self {
        let state = State { fault, operations: 0, ..self.state().clone() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns the disk as it is found when power is back.
    pub(super) fn after_power_loss(&self, survival: Survival) -> Self {
        let state = self.state();
        let mut chance = Chance(match survival {
            Survival::Chance(seed) => seed,
            _ => 0,
        });
        let names = match survival {
            Survival::Nothing => state.history[0].clone(),
            Survival::Everything | Survival::Names => state.names.clone(),
            Survival::Chance(_) => surviving_names(&state.history, &mut chance),
        };
        let survivor = |inode: &Inode| {
            let seen = match survival {
                Survival::Nothing => inode.durable.clone(),
                Survival::Everything => inode.seen.clone(),
                Survival::Names => with_zeros(inode),
                Survival::Chance(_) => match chance.below(4) {
                    0 => inode.durable.clone(),
                    1 => inode.seen.clone(),
                    2 => with_zeros(inode),
                    _ => inode.seen[..chance.below(inode.seen.len() + 1)].to_vec(),
                },
            };
            // Synced content always survives.
            let seen = if inode.durable == inode.seen { inode.durable.clone() } else { seen };
            Inode { durable: seen.clone(), seen, ..inode.clone() }
        };
        let inodes = state.inodes.iter().map(survivor).collect();
        let history = vec![names.clone()];
        let state = State { fault: Fault::None, operations: 0, inodes, names, history, clock: state.clock };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(super) fn storage_backend(&self) -> Arc<dyn StorageBackend> {
        Arc::new(Self(Arc::clone(&self.0)))
    }

    /// Returns how many operations have changed something or tried to.
    pub(super) fn operations(&self) -> u64 {
        self.state().operations
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    pub(super) fn content(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.inodes[state.names[name]].seen.clone()
    }

    pub(super) fn set_content(&self, name: &str, content: Vec<u8>) {
        let mut state = self.state();
        let at = state.names[name];
        state.inodes[at].seen = content;
    }

    pub(super) fn set_mode(&self, name: &str, mode: u32) {
        let mut state = self.state();
        let at = state.names[name];
        state.inodes[at].mode = mode;
    }

    pub(super) fn pass(&self, time: Duration) {
        self.state().clock += time;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while the disk is held")
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        state.count(true)?;
        change(&mut state)
    }

    fn rename_in_history<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.change(|state| {
            let result = change(state)?;
            let names = state.names.clone();
            state.history.push(names);
            Ok(result)
        })
    }
}

impl State {
    /// Counts an operation, and returns the error that is due.
    fn count(&mut self, changes: bool) -> io::Result<()> {
        let number = self.operations;
        self.operations += u64::from(changes);
        match self.fault {
            Fault::Once(at, kind) if changes && number == at => Err(kind.into()),
            Fault::From(at, kind) if changes && number >= at => Err(kind.into()),
            Fault::PowerLoss(at) if number > at || changes && number == at => Err(io::Error::other("no power")),
            _ => Ok(()),
        }
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn free(&self, name: &str) -> io::Result<()> {
        if self.names.contains_key(name) { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(()) }
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.clock
    }
}

/// Returns each name as it was at some time since the last sync, independently of the others: nothing guarantees an
/// order.
fn surviving_names(history: &[BTreeMap<String, usize>], chance: &mut Chance) -> BTreeMap<String, usize> {
    let all: BTreeSet<&String> = history.iter().flat_map(BTreeMap::keys).collect();
    let survivor = |name: &String| Some((name.clone(), *history[chance.below(history.len())].get(name)?));
    all.into_iter().filter_map(survivor).collect()
}

fn with_zeros(inode: &Inode) -> Vec<u8> {
    let mut content = inode.durable.clone();
    content.resize(inode.seen.len(), 0);
    content
}

impl StorageBackend for Disk {
    fn path(&self) -> &Path {
        Path::new("/disk")
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let inode = self.rename_in_history(|state| {
            state.free(name)?;
            let modified = state.now();
            state.inodes.push(Inode { seen: Vec::new(), durable: Vec::new(), mode: 0o600, modified });
            state.names.insert(name.to_owned(), state.inodes.len() - 1);
            Ok(state.inodes.len() - 1)
        })?;
        Ok(Arc::new(DiskFile { disk: Self(Arc::clone(&self.0)), inode }))
    }

    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = match self.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(name),
            opened => opened,
        }?;
        let length = file.status()?.bytes;
        file.write_at(bytes, length)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.state();
        state.count(false)?;
        let inode = state.find(name)?;
        Ok(Arc::new(DiskFile { disk: Self(Arc::clone(&self.0)), inode }))
    }

    fn status(&self) -> io::Result<FileStatus> {
        let state = self.state();
        let owner = rustix::process::geteuid().as_raw();
        Ok(FileStatus { inode: 1, is_regular: false, owner, mode: 0o700, bytes: 0, links: 2, modified: state.now() })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_in_history(|state| {
            let inode = state.find(from)?;
            state.names.remove(from);
            state.names.insert(to.to_owned(), inode);
            Ok(())
        })
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_in_history(|state| {
            let inode = state.find(from)?;
            state.free(to)?;
            state.names.insert(to.to_owned(), inode);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.rename_in_history(|state| {
            state.find(name)?;
            state.names.remove(name);
            Ok(())
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.state().count(false)?;
        Ok(self.names())
    }

    fn sync(&self) -> io::Result<()> {
        self.change(|state| {
            state.history = vec![state.names.clone()];
            Ok(())
        })
    }

    fn lock(&self, _name: &str) -> io::Result<Box<dyn LockGuard>> {
        self.state().count(false)?;
        Ok(Box::new(Lock))
    }
}

/// Each test drives one process at a time, so nobody ever waits for this lock.
#[derive(Debug)]
struct Lock;

impl LockGuard for Lock {}

#[derive(Debug)]
struct DiskFile {
    disk: Disk,
    inode: usize,
}

impl StorageFile for DiskFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let result = state.count(true);
        let done = if result.is_ok() { bytes.len() } else { bytes.len() / 2 };
        let (offset, modified) = (offset as usize, state.now());
        let inode = &mut state.inodes[self.inode];
        if inode.seen.len() < offset + done {
            inode.seen.resize(offset + done, 0);
        }
        inode.seen[offset..offset + done].copy_from_slice(&bytes[..done]);
        inode.modified = modified;
        result
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.count(false)?;
        let offset = offset as usize;
        let seen = &state.inodes[self.inode].seen;
        let content = seen.get(offset..offset + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(content);
        Ok(())
    }

    fn touch(&self) -> io::Result<()> {
        self.disk.change(|state| {
            state.inodes[self.inode].modified = state.now();
            Ok(())
        })
    }

    fn status(&self) -> io::Result<FileStatus> {
        let mut state = self.disk.state();
        state.count(false)?;
        let inode = &state.inodes[self.inode];
        let owner = rustix::process::geteuid().as_raw();
        let (bytes, links) = (inode.seen.len() as u64, state.names.values().filter(|at| **at == self.inode).count());
        let (links, modified) = (links as u64, inode.modified);
        Ok(FileStatus { inode: self.inode as u64, is_regular: true, owner, mode: inode.mode, bytes, links, modified })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.change(|state| {
            let inode = &mut state.inodes[self.inode];
            inode.durable.clone_from(&inode.seen);
            Ok(())
        })
    }
}

/// SplitMix64: small, and the same on every machine.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}
