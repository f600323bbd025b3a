//! Whether what the job shares with its surroundings is there to be had again: directories and named pipes by their paths,
//! the addresses of sockets. Looks, and touches nothing.

use super::descriptors::{directory_of, path_in};
use super::plan::{Obstacles, SCRATCH_BYTES};
use standfast_format::records::{Bytes, JobState, Message, PipeContents, ProcSubject, Socket, SocketState};
use standfast_linux::UnixSocket;
use standfast_linux::proc::{Endpoint, TcpConnection};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Most descriptors in one message (SCM_MAX_FD), and room for the largest address.
const DESCRIPTORS_MAX: usize = 253;
const ADDRESS_BYTES: usize = 128;

impl Obstacles {
    /// A named pipe must be there.
    pub(super) fn check_pipe(&mut self, pipe: Option<&PipeContents>) {
        match pipe {
            None => self.add("image", "it verifies, but names a pipe that it does not hold", "use another generation"),
            Some(PipeContents { path: Some(path), .. }) => self.check_place(path, libc::S_IFIFO, None),
            Some(_) => {}
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
        self.add(&format!("{} {path}", if kind == libc::S_IFDIR { "directory" } else { "file" }), why, "put it back");
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
            Some(_) => {
                self.add("image", "it verifies, but tells of a process that it does not hold", "use another generation")
            }
            None => self.check_place(path, libc::S_IFREG, None),
        }
    }

    /// Sockets must fit together, and nobody else may have taken the place of one that has a path.
    pub(super) fn check_sockets(&mut self, job: &JobState) {
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
            let message = |message: &Message| {
                message.sender.is_none_or(is_there)
                    && message.open_files.iter().all(|file| (*file as usize) < job.open_files.len())
                    && message.open_files.len() <= DESCRIPTORS_MAX
                    && (message.credentials.is_none() || message.contents.0.len() as u64 <= SCRATCH_BYTES / 2)
            };
            connected && socket.name.0.len() <= ADDRESS_BYTES && socket.received.iter().all(message)
        };
        if !sockets.iter().enumerate().all(sound) {
            self.add("image", "it verifies, but describes sockets that cannot be", "use another generation");
        }
        self.check_ports(job);
        // A connection that comes back as reset has no use for its name.
        let named = |socket: &&Socket| socket.family == libc::AF_UNIX && socket.state != SocketState::Reset;
        let paths = sockets.iter().filter(named).filter_map(|socket| {
            let directory = directory_of(job, socket);
            path_in(&socket.name.0).map(|path| Path::new(OsStr::from_bytes(&directory.0)).join(OsStr::from_bytes(path)))
        });
        let paths: BTreeSet<_> = paths.collect();
        let living = if paths.is_empty() { Vec::new() } else { UnixSocket::all().unwrap_or_default() };
        for path in paths {
            let Ok(there) = std::fs::symlink_metadata(&path) else { continue };
            let what = format!("socket {}", path.display());
            if !there.file_type().is_socket() {
                self.add(&what, "a file that is no socket has taken its place", "move it away");
            } else if living.iter().any(|socket| socket.file.is_some_and(|(inode, _)| inode == there.ino() as u32)) {
                self.add(&what, "another program uses it now", "end that program");
            }
        }
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
                self.add(&format!("TCP port {endpoint}"), "another program listens there now", "end that program");
            }
        }
    }
}
