//! `/proc`: pure parsers of bytes, and beside each a thin function that reads the file.
//!
//! All parsers are our own. Most of these files are read while a job is stopped, when every microsecond counts. For the
//! others procfs-core 0.18 was tried: its parsers fail if anything that we do not need is missing or of unknown form,
//! like `SwapCached` in the `meminfo` of some containers or a new state in `tcp`, and it has none for `igmp`. It would
//! also bring two crates and five seconds of build, to save a few lines.

mod fdinfo;
mod locks;
mod maps;
mod meminfo;
mod multicast;
mod net;
mod numa;
mod room;
mod schedstat;
mod sleep;
mod smaps;
mod stat;
mod statm;
mod status;
mod timers;

pub use fdinfo::{DescriptorInformation, EpollTarget, Lock, ShownLockKind};
pub use locks::{LockOnFile, leased_inodes};
pub use maps::{HUGE_PAGES, Map, MapProtection};
pub use meminfo::{MachineMemory, swap_is_used};
pub use multicast::MulticastGroup;
pub use net::{Endpoint, TcpConnection, UdpPort, tcp_state};
pub use numa::{MapPolicy, ShownNumaPolicy};
pub use room::{Room, TaskRoom};
pub use schedstat::ProcessorTime;
pub use sleep::Sleep;
pub use smaps::MapAttributes;
pub use stat::Stat;
pub use statm::{ProcessPages, has_memory};
pub use status::{Capabilities, Status};
pub use timers::{Notice, TimerInformation};

use crate::{Pid, Tid};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;

/// Usual maximum length of files here.
const USUAL_BYTES: usize = 4096;

/// Reads a whole file of `/proc/PID`.
///
/// # Errors
/// When the process is gone or may not be inspected.
pub fn read(pid: Pid, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    // Reading a File alone would first ask for its length and position, which are zero here. The limit, which limits
    // nothing, prevents that.
    File::open(format!("/proc/{pid}/{name}"))?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the target of a link of `/proc/PID`.
///
/// # Errors
/// When the process is gone or may not be inspected.
pub fn link(pid: Pid, name: &str) -> io::Result<Vec<u8>> {
    std::fs::read_link(format!("/proc/{pid}/{name}")).map(|path| OsString::from(path).into_vec())
}

/// Returns the numbers that name the entries of a directory of `/proc/PID`, like `fd`. Ascending.
///
/// # Errors
/// When the process is gone or may not be inspected.
pub fn numbers(pid: Pid, directory: &str) -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/{directory}"))? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the threads of a process. Ascending.
///
/// # Errors
/// When the process is gone or may not be inspected.
pub fn threads(pid: Pid) -> io::Result<Vec<Tid>> {
    Ok(numbers(pid, "task")?.into_iter().map(Tid::new).collect())
}

/// Returns all processes.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn all() -> io::Result<Vec<Pid>> {
    let names = std::fs::read_dir("/proc")?.flatten();
    Ok(names.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::new)).collect())
}

/// Returns the children of all threads of a process, oldest first, which is the order in which wait(2) finds them.
/// Reads `/proc/PID/task/TID/children`, which container kernels sometimes lack: then it reads the parent of every
/// process.
///
/// # Errors
/// When the process is gone.
pub fn children(pid: Pid) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for tid in threads(pid)? {
        match read(pid, &format!("task/{tid}/children")) {
            Ok(text) => children.extend(words(&text).filter_map(parse).map(Pid::new)),
            Err(_) => return children_by_parent(pid),
        }
    }
    Ok(children)
}

/// Returns the children that one thread of a process has made, and those that it has inherited from threads that have
/// ended. If the kernel does not distinguish threads, returns the children of the whole process.
///
/// # Errors
/// When the thread is gone.
pub fn children_of_thread(pid: Pid, tid: Tid) -> io::Result<Vec<Pid>> {
    match read(pid, &format!("task/{tid}/children")) {
        Ok(text) => Ok(words(&text).filter_map(parse).map(Pid::new).collect()),
        Err(_) => children_by_parent(pid),
    }
}

/// Returns the audit login id of a process, all ones if none has been set, or `None` if the kernel has no audit.
pub fn audit_login(pid: Pid) -> Option<u32> {
    read(pid, "loginuid").ok().and_then(|text| parse(text.trim_ascii()))
}

/// Returns the execution domain of a process, as `personality(2)` does.
///
/// # Errors
/// When the process is gone or may not be inspected.
pub fn personality(pid: Pid) -> io::Result<u32> {
    let text = read(pid, "personality")?;
    Ok(parse_hex(text.trim_ascii()).unwrap_or_default() as u32)
}

/// Returns how many processes and threads have been made since the machine was started.
///
/// # Errors
/// When the kernel does not report it.
pub fn forks() -> io::Result<u64> {
    parse_forks(&std::fs::read("/proc/stat")?).ok_or_else(|| malformed("count of forks"))
}

/// Parses `/proc/stat`.
fn parse_forks(text: &[u8]) -> Option<u64> {
    text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"processes ")).and_then(parse)
}

/// The file whose last number is [`last_id`] of the reader's pid namespace, whichever namespace `/proc` belongs to.
pub const LOADAVG: &str = "/proc/loadavg";

/// Returns the last id that the kernel has given to a process or thread in our pid namespace.
///
/// # Errors
/// When the kernel does not report it.
pub fn last_id() -> io::Result<i32> {
    parse_last_id(&std::fs::read(LOADAVG)?).ok_or_else(|| malformed("last process id"))
}

/// Parses `/proc/loadavg`.
pub fn parse_last_id(text: &[u8]) -> Option<i32> {
    words(text).nth(4).and_then(parse)
}

/// Returns the number of ids that the kernel gives to processes and threads before it starts over.
///
/// # Errors
/// When the kernel does not report it.
pub fn ids_max() -> io::Result<u64> {
    let text = std::fs::read("/proc/sys/kernel/pid_max")?;
    parse(text.trim_ascii()).ok_or_else(|| malformed("limit of process ids"))
}

fn children_by_parent(parent: Pid) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let pid = Pid::new(pid);
        if Stat::of(pid).is_ok_and(|stat| stat.parent == parent) {
            children.push(pid);
        }
    }
    Ok(children)
}

pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

pub(crate) fn parse<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn parse_hex(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()
}

pub(crate) fn parse_octal(word: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(word).ok()?, 8).ok()
}

pub(crate) fn malformed(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc shows a {name} of unknown form"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fork_count_is_found_among_unknown_lines() {
        let text = b"cpu  1 2 3 x\ncpufuture always\nfuture\nprocesses 9453225\nprocs_running 3\n";
        assert_eq!(parse_forks(text), Some(9_453_225));
        assert_eq!(parse_forks(b"procs_running 3\n"), None);
        assert!(forks().unwrap() > 0);
    }
}
