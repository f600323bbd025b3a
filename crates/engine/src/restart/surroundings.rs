//! Whether what the job shares with its surroundings is there to be had again: directories and named pipes by their paths,
//! the addresses of sockets. Looks, and touches nothing.

use super::blockers::Blockers;
use super::plan::SocketName;
use super::remake::Remaking;
use crate::collect::socket_path;
use crate::scratch::SCRATCH_BYTES;
use crate::socket_paths::path_in;
use crate::{Blocker, RefusalCode};
use standfast_format::records::{Bytes, JobState, PipeContents, ProcSubject, Socket, SocketMessage, SocketState};
use standfast_linux::UnixSocket;
use standfast_linux::proc::{Endpoint, TcpConnection};
use standfast_linux::sys::tree::may_access;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Most descriptors in one message (SCM_MAX_FD), and room for the largest address.
const DESCRIPTORS_MAX: usize = 253;
const ADDRESS_BYTES: usize = 128;

impl Blockers {
    /// A named pipe must be there, or is made again.
    pub(super) fn check_pipe(&mut self, pipe: Option<&PipeContents>, remaking: &mut Remaking<'_>) {
        match pipe {
            None => self.add_impossible("it verifies, but names a pipe that it does not hold"),
            Some(PipeContents { path: Some(path), .. }) => {
                if let Err(why) = remaking.provide(as_path(path), libc::S_IFIFO) {
                    self.add_missing(format!("named pipe {path}"), why);
                }
            }
            Some(_) => {}
        }
    }

    /// A directory that the program has open must be there; one that held nothing is made again.
    pub(super) fn check_directory(&mut self, path: &Bytes, identity: Option<(u64, u64)>, remaking: &mut Remaking<'_>) {
        let is_gone = std::fs::symlink_metadata(as_path(path)).is_err();
        if is_gone && identity.is_none() && remaking.provide_empty(as_path(path)).is_ok() {
            return;
        }
        self.check_place(path, libc::S_IFDIR, identity);
    }

    /// Every process must find its working directory, unless that had been removed; one that held nothing is made again.
    pub(super) fn check_working_directories(&mut self, job: &JobState, remaking: &mut Remaking<'_>) {
        for process in job.processes.iter().filter(|process| process.process_tree.wait_status.is_none()) {
            let path = &process.working_directory;
            if is_removed(job, path) {
                continue;
            }
            let found = match std::fs::metadata(as_path(path)) {
                Ok(there) if !there.is_dir() => Err("it is no longer a directory".to_owned()),
                Ok(_) => {
                    may_access(as_path(path), libc::X_OK).map_err(|error| format!("it cannot be entered ({error})"))
                }
                Err(_) => remaking.provide_empty(as_path(path)),
            };
            if let Err(why) = found {
                self.add_missing(format!("working directory {path}"), why);
            }
        }
    }

    /// What the program had open by its path must be there, of the same type; where it had gone part of the way through
    /// it, the same one.
    pub(super) fn check_place(&mut self, path: &Bytes, kind: u32, identity: Option<(u64, u64)>) {
        let now = std::fs::symlink_metadata(OsStr::from_bytes(&path.0));
        let now = now.ok().filter(|now| now.mode() & libc::S_IFMT == kind);
        let why = match now {
            None => "it is not there any more, or something else",
            Some(now) if identity.is_some_and(|identity| identity != (now.dev(), now.ino())) => {
                "the program is in the middle of listing it, and another one has taken its place"
            }
            Some(_) => return,
        };
        self.add_missing(format!("{} {path}", if kind == libc::S_IFDIR { "directory" } else { "file" }), why);
    }

    /// What the kernel tells must be there to be opened again; of processes of the job it will be.
    pub(super) fn check_kernel_file(&mut self, job: &JobState, subject: Option<ProcSubject>, path: &Bytes) {
        let is_known = |subject: ProcSubject| {
            let process = job.processes.get(subject.process as usize);
            let has = |tid| process.is_some_and(|it| it.threads.iter().any(|thread| thread.tid == tid));
            process.is_some() && subject.thread.is_none_or(has)
        };
        match subject {
            Some(subject) if is_known(subject) => {}
            Some(_) => self.add_impossible("it verifies, but tells of a process that it does not hold"),
            None => self.check_place(path, libc::S_IFREG, None),
        }
    }

    /// Sockets must fit together, and nobody else may have taken the place of one that has a path. Tells which names will
    /// lead to them.
    pub(super) fn check_sockets(
        &mut self,
        job: &JobState,
        remaking: &mut Remaking<'_>,
        remarks: &mut Vec<String>,
    ) -> Vec<SocketName> {
        let sockets = &job.sockets;
        let is_there = |place: u32| (place as usize) < sockets.len();
        let sound = |(place, socket): (usize, &Socket)| {
            let connected = match socket.state {
                SocketState::Paired { peer } => {
                    let other = sockets.get(peer as usize).map(|other| &other.state);
                    peer as usize != place && other == Some(&SocketState::Paired { peer: place as u32 })
                }
                SocketState::Waiting { listener, .. } => is_there(listener),
                _ => true,
            };
            let message = |message: &SocketMessage| {
                message.sender.is_none_or(is_there)
                    && message.open_files.iter().all(|file| (*file as usize) < job.open_files.len())
                    && message.open_files.len() <= DESCRIPTORS_MAX
                    && (message.credentials.is_none() || message.contents.0.len() as u64 <= SCRATCH_BYTES / 2)
            };
            connected && socket.name.0.len() <= ADDRESS_BYTES && socket.received.iter().all(message)
        };
        if !sockets.iter().enumerate().all(sound) {
            self.add_impossible("it verifies, but describes sockets that cannot be");
        }
        self.check_ports(job);
        let living = if sockets.is_empty() { Vec::new() } else { UnixSocket::all().unwrap_or_default() };
        let mut names = Vec::with_capacity(sockets.len());
        for socket in sockets {
            let path = socket_path(job, socket).filter(|_| socket.file_mode.is_some());
            let Some(path) = path else {
                let leads_nowhere = path_in(&socket.name.0).is_some() && socket.family == libc::AF_UNIX;
                names.push(if leads_nowhere { SocketName::Hidden } else { SocketName::InSight });
                continue;
            };
            if !is_found_by_name(socket) {
                // What its file is good for is to be there, for whoever removes it.
                if !sockets
                    .iter()
                    .any(|other| is_found_by_name(other) && socket_path(job, other).as_ref() == Some(&path))
                {
                    let _ = remaking.provide(&path, libc::S_IFSOCK);
                }
                names.push(SocketName::Hidden);
                continue;
            }
            names.push(self.check_socket_file(&path, &living, remaking, remarks));
        }
        names
    }

    /// Whether the file of a socket can be made again where it was: nobody else may have taken its place.
    fn check_socket_file(
        &mut self,
        path: &Path,
        living: &[UnixSocket],
        remaking: &mut Remaking<'_>,
        remarks: &mut Vec<String>,
    ) -> SocketName {
        let there = std::fs::symlink_metadata(path).ok();
        let what = format!("socket {}", path.display());
        if there.as_ref().is_some_and(|there| !there.file_type().is_socket()) {
            let blocker = Blocker::new(RefusalCode::PathTaken, what, "another file has taken its place");
            self.add(blocker.with_hint("move that file away"));
        } else if let Some(there) = &there
            && living.iter().any(|socket| socket.file.is_some_and(|(inode, _)| inode == there.ino() as u32))
        {
            let blocker = Blocker::new(RefusalCode::PortTaken, what, "another program uses it now");
            self.add(blocker.with_hint("end that program"));
        } else if let Err(why) = remaking.provide_parent(path).and_then(|()| remaking.may_replace(path)) {
            remarks.push(format!("the {what} has no file, so that other programs cannot connect to it: {why}"));
            return SocketName::Hidden;
        }
        remaking.expect(path);
        SocketName::InSight
    }

    /// Nobody else may listen where the job does.
    fn check_ports(&mut self, job: &JobState) {
        const LISTENING: u8 = 10;
        let listens = |socket: &&Socket| matches!(socket.state, SocketState::Listening { .. });
        let wanted = job.sockets.iter().filter(listens).filter_map(|socket| Endpoint::of(&socket.name.0));
        let wanted: Vec<_> = wanted.collect();
        let taken = if wanted.is_empty() { Vec::new() } else { TcpConnection::all().unwrap_or_default() };
        for endpoint in wanted {
            let is_taken = |other: &TcpConnection| {
                other.state == LISTENING && (other.local.serves(&endpoint) || endpoint.serves(&other.local))
            };
            if taken.iter().any(is_taken) {
                let what = format!("TCP port {endpoint}");
                let blocker = Blocker::new(RefusalCode::PortTaken, what, "another program listens there now");
                self.add(blocker.with_hint("end that program"));
            }
        }
    }
}

/// Whether others find a socket by its name: not one that is a connection.
fn is_found_by_name(socket: &Socket) -> bool {
    let stands_alone =
        matches!(socket.state, SocketState::Listening { .. } | SocketState::Unconnected | SocketState::Towards { .. });
    socket.family == libc::AF_UNIX && socket.file_mode.is_some() && (stands_alone || socket.kind == libc::SOCK_DGRAM)
}

/// Whether a working directory had been removed by the checkpoint.
pub(super) fn is_removed(job: &JobState, path: &Bytes) -> bool {
    job.surroundings.iter().flatten().any(|it| it.removed && it.path == *path)
}

fn as_path(path: &Bytes) -> &Path {
    Path::new(OsStr::from_bytes(&path.0))
}
