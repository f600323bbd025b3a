//! Paths in the addresses of Unix sockets.

use standfast_format::records::{Bytes, JobState, OpenFile, OpenFileKind, ProcessState, Socket, SocketState};
use standfast_linux::abi;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns the working directory of a process that holds a socket.
pub(crate) fn directory_of(job: &JobState, socket: &Socket) -> Bytes {
    let is_this = |file: &OpenFile| match file.kind {
        OpenFileKind::Socket { socket: place } => {
            job.sockets.get(place as usize).is_some_and(|other| std::ptr::eq(other, socket))
        }
        _ => false,
    };
    let open_file = job.open_files.iter().position(is_this);
    let holds = |process: &&ProcessState| {
        process.descriptors.iter().any(|descriptor| Some(descriptor.open_file as usize) == open_file)
    };
    let holder = job.processes.iter().find(holds).or(job.processes.first());
    holder.map(|holder| holder.working_directory.clone()).unwrap_or_default()
}

/// Returns the path in an address of a Unix socket, unless it is abstract.
pub(crate) fn path_in(address: &[u8]) -> Option<&[u8]> {
    let path = address.get(size_of::<abi::sa_family_t>()..)?;
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    (end > 0).then(|| &path[..end])
}

/// Returns the file that the name of a Unix socket refers to, whether or not it exists.
pub(crate) fn socket_path(state: &JobState, socket: &Socket) -> Option<PathBuf> {
    if socket.family != abi::AF_UNIX || socket.state == SocketState::Reset {
        return None;
    }
    let path = path_in(&socket.name.0)?;
    Some(Path::new(OsStr::from_bytes(&directory_of(state, socket).0)).join(OsStr::from_bytes(path)))
}
