//! Names of Unix sockets in the file system. A socket that others find by its file gets that file again. Every other
//! one gets its name without a file, so that the restart makes nothing at that path and nothing there can obstruct it.

use super::connect::{Patience, any_address};
use super::{Made, describe, has_name, reachable};
use crate::EngineError;
use crate::error::kernel;
use crate::objects::Opening;
use crate::objects::socket::SocketName;
use crate::socket_paths::{directory_of, path_in};
use standfast_format::records::{Bytes, Socket, SocketState};
use standfast_linux::HiddenNames;
use standfast_linux::abi;
use standfast_linux::sys::socket;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The length of an address with only the family: the kernel then chooses a name for the socket.
const FAMILY_ONLY: usize = size_of::<abi::sa_family_t>();

/// Names without a file, while sockets are made.
#[derive(Debug, Default)]
pub(in crate::objects) struct Names {
    hidden: Option<HiddenNames>,
    /// Addresses that reach sockets whose own names lead nowhere, or to others, by their places.
    reached: BTreeMap<usize, Vec<u8>>,
    /// Files that exist until all sockets have been made, used if names cannot be hidden.
    passing: BTreeSet<Vec<u8>>,
    /// What the job continues without.
    pub(in crate::objects) notes: Vec<String>,
    pub(in crate::objects) renamed: Renamed,
}

/// Sockets that have other names than before, by the places of sockets in the job's table.
#[derive(Debug, Default)]
pub(crate) struct Renamed {
    /// The names of those that could not have their own.
    pub(crate) sockets: BTreeMap<usize, Vec<u8>>,
    /// The names of those other ends, in other parts, that could not have theirs.
    pub(crate) peers: BTreeMap<usize, Vec<u8>>,
}

impl Opening<'_> {
    /// Gives a socket its name. Returns the address at which it is reached, or `None` if it had to stay without a name.
    pub(super) fn bind(&self, made: &Made, record: &Socket) -> Result<Option<Vec<u8>>, EngineError> {
        if record.family != abi::AF_UNIX || path_in(&record.name.0).is_none() || !self.is_hidden(record) {
            self.bind_in_sight(made, record)?;
            return Ok(Some(reachable(&record.name.0, record.family)));
        }
        if let Ok(reached) = self.bind_hidden(made, record) {
            return Ok(Some(reached));
        }
        // If namespaces are forbidden, the name may still be free.
        if self.bind_in_passing(made, record).is_ok() {
            return Ok(Some(record.name.0.clone()));
        }
        if matches!(record.state, SocketState::Listening { .. }) {
            let family = &record.name.0[..FAMILY_ONLY];
            self.with_address("naming a socket", abi::SYS_bind, made, family, Patience::None)?;
        }
        self.note_name(made, record)?;
        Ok(None)
    }

    /// Notes it if a socket has another name than the recorded one.
    pub(super) fn note_name(&self, made: &Made, record: &Socket) -> Result<(), EngineError> {
        let now = name_of(made)?;
        if now == record.name.0 {
            return Ok(());
        }
        let note = format!("the socket {} could not get its name again", describe(&record.name));
        self.note_renamed(self.place_of(record), now, note);
        Ok(())
    }

    /// Notes which name a socket has instead of its own.
    pub(super) fn note_renamed(&self, place: Option<usize>, now: Vec<u8>, note: String) {
        let mut names = self.names.borrow_mut();
        names.notes.push(note);
        names.renamed.sockets.extend(place.map(|place| (place, now)));
    }

    /// Returns the name of a closed peer, or an empty one if it cannot be had: a name that is no path belongs to one socket
    /// at a time, which may be another one by now.
    pub(super) fn name_of_closed(&self, record: &Socket, peer: &Bytes) -> Bytes {
        if peer.0.len() <= FAMILY_ONLY {
            return Bytes::default();
        }
        if path_in(&peer.0).is_some() {
            return peer.clone();
        }
        let is_free = || {
            let probe = socket::create(record.family, record.kind, record.protocol)?;
            socket::bind(probe.as_fd(), &peer.0)
        };
        let is_wanted = self.plan.job.sockets.iter().any(|other| other.name == *peer);
        // The other end of a stream without a name is accepted, so that it does not keep the name from others.
        let is_kept = record.kind == abi::SOCK_DGRAM || has_name(record);
        if is_free().is_ok() && !(is_kept && is_wanted) {
            return peer.clone();
        }
        let note = format!("the name {} of a closed peer belongs to another socket now", describe(peer));
        self.names.borrow_mut().notes.push(note);
        Bytes::default()
    }

    /// Returns the address at which the socket at this place is reached from here.
    pub(super) fn reach(&self, place: usize, family: i32) -> Vec<u8> {
        let names = self.names.borrow();
        let name = &self.plan.job.sockets[place].name.0;
        names.reached.get(&place).cloned().unwrap_or_else(|| reachable(name, family))
    }

    /// Records at which address others reach a socket that stands alone.
    pub(super) fn note_reached(&self, record: &Socket, reached: Option<Vec<u8>>) {
        let reached = reached.filter(|_| record.family == abi::AF_UNIX && has_name(record));
        if let Some((place, reached)) = self.place_of(record).zip(reached) {
            self.names.borrow_mut().reached.insert(place, reached);
        }
    }

    /// Reports whether a socket needs no file. The name of a connection is only a label. So is that of its other end,
    /// which has no record of its own.
    fn is_hidden(&self, record: &Socket) -> bool {
        self.place_of(record).is_none_or(|place| self.plan.socket_names.get(place) == Some(&SocketName::Hidden))
    }

    fn place_of(&self, record: &Socket) -> Option<usize> {
        self.plan.job.sockets.iter().position(|other| std::ptr::eq(other, record))
    }

    fn bind_hidden(&self, made: &Made, record: &Socket) -> io::Result<Vec<u8>> {
        let mut names = self.names.borrow_mut();
        if names.hidden.is_none() {
            names.hidden = Some(HiddenNames::new()?);
        }
        let hidden = names.hidden.as_mut().expect("it has just been made");
        let path = hidden.bind(made.own(), &record.name.0)?;
        Ok([&record.name.0[..FAMILY_ONLY], path.as_os_str().as_bytes(), b"\0"].concat())
    }

    /// Gives a socket its name at its real path, by a file that is removed when all sockets have been made.
    fn bind_in_passing(&self, made: &Made, record: &Socket) -> Result<(), EngineError> {
        let path = path_in(&record.name.0).unwrap_or_default();
        if !path.starts_with(b"/") {
            self.enter_directory_of(record)?;
        }
        if self.names.borrow().passing.contains(path) {
            self.remove(path)?;
        }
        self.with_address("naming a socket", abi::SYS_bind, made, &record.name.0, Patience::None)?;
        self.names.borrow_mut().passing.insert(path.to_vec());
        Ok(())
    }

    /// Removes the temporary names by which sockets were reached.
    pub(super) fn forget_names(&self) -> Result<(), EngineError> {
        let passing = std::mem::take(&mut self.names.borrow_mut().passing);
        passing.iter().try_for_each(|path| self.remove(path))?;
        drop(self.names.borrow_mut().hidden.take());
        Ok(())
    }

    /// Gives a socket its name, and makes a file for that. Removes the file that a Unix socket of the previous life has
    /// left there; the plan has checked whether another program owns it by now.
    fn bind_in_sight(&self, made: &Made, record: &Socket) -> Result<(), EngineError> {
        let action = format!("giving a socket its address {}", describe(&record.name));
        let path = if record.family == abi::AF_UNIX { path_in(&record.name.0) } else { None };
        if path.is_some_and(|path| !path.starts_with(b"/")) {
            self.enter_directory_of(record)?;
        }
        if let Some(path) = path {
            self.remove(path)?;
            self.names.borrow_mut().passing.remove(path);
        }
        let name = any_address(record, &record.name.0).unwrap_or_else(|| record.name.0.clone());
        self.with_address(&action, abi::SYS_bind, made, &name, Patience::Long)?;
        match (path, record.file_mode) {
            (Some(path), Some(mode)) => {
                let path = self.process.path_argument(path)?;
                let mode = u64::from(mode & 0o7777);
                self.call("setting a socket's permissions", abi::SYS_chmod, [path, mode, 0, 0, 0, 0]).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Changes to the directory of the process that holds the socket, to which a relative path refers.
    fn enter_directory_of(&self, record: &Socket) -> Result<(), EngineError> {
        let directory = directory_of(self.plan.job, record);
        let path = self.process.path_argument(&directory.0)?;
        let action = format!("changing to {}", Path::new(OsStr::from_bytes(&directory.0)).display());
        self.call(&action, abi::SYS_chdir, [path, 0, 0, 0, 0, 0]).map(drop)
    }

    fn remove(&self, path: &[u8]) -> Result<(), EngineError> {
        let path = self.process.path_argument(path)?;
        match self.call("removing a socket's file", abi::SYS_unlink, [path, 0, 0, 0, 0, 0]) {
            Err(EngineError::Kernel { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map(drop),
        }
    }
}

/// Returns the name that a socket has.
pub(super) fn name_of(made: &Made) -> Result<Vec<u8>, EngineError> {
    socket::name(made.own()).map_err(|source| kernel("reading the name of a socket", source))
}
