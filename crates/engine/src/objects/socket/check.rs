//! Checks whether sockets can be made again here: they must fit together, and nobody else may have taken the place of
//! one. Looks, and touches nothing.

use super::restore::connect::any_port;
use crate::objects::Check;
use crate::scratch::SCRATCH_BYTES;
use crate::socket_paths::{path_in, socket_path};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{JobState, Socket, SocketMessage, SocketOption, SocketState};
use standfast_linux::abi;
use standfast_linux::proc::tcp_state::LISTENING;
use standfast_linux::proc::{self, Endpoint, TcpConnection, UdpPort};
use standfast_linux::sys::socket;
use standfast_linux::{Pid, UnixSocket};
use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Most descriptors in one message (SCM_MAX_FD), and room for the largest address.
const DESCRIPTORS_MAX: usize = 253;
const ADDRESS_BYTES: usize = 128;
/// Length of the family in front of a name.
const FAMILY_BYTES: usize = 2;

/// Whether others find a socket by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketName {
    /// Its name is what was recorded, with its file if it is a path.
    InSight,
    /// Its name is a path without a file: it had none, needs none, or could not get it again.
    Hidden,
}

impl Check<'_, '_> {
    /// Checks that sockets fit together, and that nobody else has taken the place of one that has a path. Returns which
    /// names will lead to them. `alive` are the processes of the job, if it is running.
    pub(crate) fn sockets(&mut self, alive: &[Pid], remarks: &mut Vec<String>) -> Vec<SocketName> {
        let job = self.job;
        let sockets = &job.sockets;
        let is_there = |place: u32| (place as usize) < sockets.len();
        let sound = |(place, socket): (usize, &Socket)| {
            let connected = match socket.state {
                SocketState::Paired { peer } => {
                    let other = sockets.get(peer as usize).map(|other| &other.state);
                    peer as usize != place && other == Some(&SocketState::Paired { peer: place as u32 })
                }
                SocketState::Waiting { listener, .. } => is_there(listener),
                SocketState::Towards { peer, .. } => peer.is_none_or(is_there),
                _ => true,
            };
            let message = |message: &SocketMessage| {
                message.sender.is_none_or(is_there)
                    && message.open_files.iter().all(|file| (*file as usize) < job.open_files.len())
                    && message.open_files.len() <= DESCRIPTORS_MAX
                    && (message.credentials.is_none() || message.contents.0.len() as u64 <= SCRATCH_BYTES / 2)
            };
            let is_reset = matches!(socket.state, SocketState::PeerClosed { .. }) && socket.family == abi::AF_UNIX;
            let reports = socket.error.is_none_or(|error| error == abi::ECONNRESET && is_reset);
            connected && reports && socket.name.0.len() <= ADDRESS_BYTES && socket.received.iter().all(message)
        };
        if !sockets.iter().enumerate().all(sound) {
            self.blockers.add_impossible("it verifies, but describes sockets that cannot be");
        }
        let own = sockets_of(alive);
        self.ports(&own);
        self.ports_of_datagrams(&own);
        self.addresses();
        let mut living = if sockets.is_empty() { Vec::new() } else { UnixSocket::all().unwrap_or_default() };
        living.retain(|socket| !own.contains(&socket.inode.into()));
        self.abstract_names(&living);
        let mut names = Vec::with_capacity(sockets.len());
        for socket in sockets {
            let path = socket_path(job, socket).filter(|_| socket.file_mode.is_some());
            let Some(path) = path else {
                let leads_nowhere = path_in(&socket.name.0).is_some() && socket.family == abi::AF_UNIX;
                names.push(if leads_nowhere { SocketName::Hidden } else { SocketName::InSight });
                continue;
            };
            if !is_found_by_name(socket) {
                // The file need only exist, for a program that removes it.
                if !sockets
                    .iter()
                    .any(|other| is_found_by_name(other) && socket_path(job, other).as_ref() == Some(&path))
                {
                    let _ = self.remaking.provide(&path, abi::S_IFSOCK);
                }
                names.push(SocketName::Hidden);
                continue;
            }
            names.push(self.socket_file(&path, &living, remarks));
        }
        names
    }

    /// Checks whether the file of a socket can be made again at its path: nobody else may have taken its place.
    fn socket_file(&mut self, path: &Path, living: &[UnixSocket], remarks: &mut Vec<String>) -> SocketName {
        let there = std::fs::symlink_metadata(path).ok();
        let what = format!("socket {}", path.display());
        if there.as_ref().is_some_and(|there| !there.file_type().is_socket()) {
            let blocker = Blocker::new(RefusalCode::PathTaken, what, "another file has taken its place");
            self.blockers.add(blocker.with_hint("move that file away"));
        } else if let Some(there) = &there
            && living.iter().any(|socket| socket.file.is_some_and(|(inode, _)| inode == there.ino() as u32))
        {
            let blocker = Blocker::new(RefusalCode::PortTaken, what, "another program uses it now");
            self.blockers.add(blocker.with_hint("end that program"));
        } else if let Err(why) = self.remaking.provide_parent(path).and_then(|()| self.remaking.may_replace(path)) {
            remarks.push(format!("the {what} has no file, so that other programs cannot connect to it: {why}"));
            return SocketName::Hidden;
        }
        self.remaking.expect(path);
        SocketName::InSight
    }

    /// Checks that nobody else listens where the job does. `own` are the job's sockets, if it is running.
    fn ports(&mut self, own: &HashSet<u64>) {
        let listens = |socket: &&Socket| matches!(socket.state, SocketState::Listening { .. });
        let wanted = self.job.sockets.iter().filter(listens).filter_map(|socket| Endpoint::of(&socket.name.0));
        let wanted: Vec<_> = wanted.collect();
        let taken = if wanted.is_empty() { Vec::new() } else { TcpConnection::all().unwrap_or_default() };
        for endpoint in wanted {
            let is_taken = |other: &TcpConnection| {
                other.state == LISTENING
                    && !own.contains(&other.inode)
                    && (other.local.serves(&endpoint) || endpoint.serves(&other.local))
            };
            if taken.iter().any(is_taken) {
                let what = format!("TCP port {endpoint}");
                let blocker = Blocker::new(RefusalCode::PortTaken, what, "another program listens there now");
                self.blockers.add(blocker.with_hint("end that program"));
            }
        }
    }

    /// Checks that nobody else has a UDP port of the job's that it did not share. The kernel would let us wait for it for
    /// ever.
    fn ports_of_datagrams(&mut self, own: &HashSet<u64>) {
        let is_datagrams = |socket: &&Socket| socket.kind == abi::SOCK_DGRAM && !shares_its_address(socket);
        let wanted = self.job.sockets.iter().filter(is_datagrams).filter_map(|socket| Endpoint::of(&socket.name.0));
        let wanted: Vec<_> = wanted.filter(|endpoint| endpoint.port != 0).collect();
        let taken = if wanted.is_empty() { Vec::new() } else { UdpPort::all().unwrap_or_default() };
        for endpoint in wanted {
            let is_taken = |other: &UdpPort| {
                !own.contains(&other.inode) && (other.local.serves(&endpoint) || endpoint.serves(&other.local))
            };
            if taken.iter().any(is_taken) {
                let what = format!("UDP port {endpoint}");
                let blocker = Blocker::new(RefusalCode::PortTaken, what, "another program has it now");
                self.blockers.add(blocker.with_hint("end that program"));
            }
        }
    }

    /// Checks that this machine has the addresses of sockets that are bound to one, by binding another socket there for a
    /// moment, at a port of the kernel's choice.
    fn addresses(&mut self) {
        let may_be_anywhere = |option: &SocketOption| {
            option.level == abi::IPPROTO_IP && matches!(option.name, abi::IP_FREEBIND | abi::IP_TRANSPARENT)
        };
        let is_bound = |socket: &&Socket| {
            !matches!(socket.state, SocketState::PeerClosed { .. }) && !socket.options.iter().any(may_be_anywhere)
        };
        let names = self.job.sockets.iter().filter(is_bound).filter_map(|socket| {
            let endpoint = Endpoint::of(&socket.name.0).filter(|it| !it.address.is_unspecified())?;
            Some((endpoint.address, any_port(&socket.name.0), socket.family))
        });
        let names: BTreeMap<_, _> = names.map(|(address, name, family)| (address, (name, family))).collect();
        for (address, (name, family)) in names {
            let probe = || {
                let probe = socket::create(family, abi::SOCK_DGRAM, 0)?;
                socket::bind(probe.as_fd(), &name)
            };
            if probe().is_err_and(|error| error.raw_os_error() == Some(abi::EADDRNOTAVAIL)) {
                let why = "no network device has it here now";
                let blocker = Blocker::new(RefusalCode::AddressGone, format!("address {address}"), why);
                self.blockers.add(blocker.with_hint("add it, or restart the job on the machine that has it"));
            }
        }
    }

    /// Checks that nobody else has a name of the job's that is no path. `living` are the sockets of others.
    fn abstract_names(&mut self, living: &[UnixSocket]) {
        let has_own = |socket: &&Socket| {
            let is_found = matches!(socket.state, SocketState::Listening { .. } | SocketState::Unconnected);
            socket.family == abi::AF_UNIX && (is_found || socket.kind == abi::SOCK_DGRAM)
        };
        for socket in self.job.sockets.iter().filter(has_own) {
            let Some(name) = socket.name.0.get(FAMILY_BYTES..).filter(|name| name.first() == Some(&0)) else {
                continue;
            };
            let is_taken = |other: &&UnixSocket| {
                let is_found = other.is_listening || other.peer.is_none() || other.kind == abi::SOCK_DGRAM;
                other.kind == socket.kind && is_found && other.abstract_name.as_deref() == Some(name)
            };
            if living.iter().any(|other| is_taken(&other)) {
                let what = format!("socket {}", super::restore::describe(&socket.name));
                let blocker = Blocker::new(RefusalCode::PortTaken, what, "another program has its name now");
                self.blockers.add(blocker.with_hint("end that program"));
            }
        }
    }
}

/// Refuses to restart one part of a distributed job alone: nobody would answer at the other ends of its connections.
pub(crate) fn refuse_lone_part(job: &JobState) -> Result<(), EngineError> {
    let is_distant = |socket: &&Socket| matches!(socket.state, SocketState::Distant { .. });
    let Some(end) = job.sockets.iter().find(is_distant) else { return Ok(()) };
    let SocketState::Distant { peer, .. } = &end.state else { return Ok(()) };
    let what = format!("connection to {}", super::restore::describe(peer));
    let why = "its other end is in another part of a distributed job, and is restarted together with it only";
    let blocker = Blocker::new(RefusalCode::OtherParts, what, why);
    Err(EngineError::Refused(vec![blocker.with_hint("restart the whole job, by its own directory")]))
}

/// Reports whether a program lets others have the address of a socket as well.
fn shares_its_address(socket: &Socket) -> bool {
    let shares = |option: &SocketOption| {
        option.level == abi::SOL_SOCKET && matches!(option.name, abi::SO_REUSEADDR | abi::SO_REUSEPORT)
    };
    socket.options.iter().any(shares)
}

/// Returns the inodes of the sockets that processes have open.
fn sockets_of(pids: &[Pid]) -> HashSet<u64> {
    let links = |pid: &Pid| {
        let numbers = proc::numbers(*pid, "fd").unwrap_or_default();
        numbers.into_iter().filter_map(|number| proc::link(*pid, &format!("fd/{number}")).ok()).collect::<Vec<_>>()
    };
    let inode = |link: Vec<u8>| str::from_utf8(&link).ok()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    pids.iter().flat_map(links).filter_map(inode).collect()
}

/// Reports whether others find a socket by its name. They never find a connection by its name.
fn is_found_by_name(socket: &Socket) -> bool {
    let stands_alone =
        matches!(socket.state, SocketState::Listening { .. } | SocketState::Unconnected | SocketState::Towards { .. });
    socket.family == abi::AF_UNIX && socket.file_mode.is_some() && (stands_alone || socket.kind == abi::SOCK_DGRAM)
}
