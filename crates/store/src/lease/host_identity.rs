//! The identity of this host and process, and the processes that are alive here.

use super::ProcessIdentity;
use crate::StoreError;
use std::fmt;
use std::fs;
use std::path::Path;

/// Information about single processes, by process id.
pub trait Processes: fmt::Debug + Send + Sync {
    /// Returns when the process started, in clock ticks since boot. Returns `None` if there is no such process, or if
    /// it has ended and only its exit status is left.
    fn start_time(&self, pid: i32) -> Option<u64>;

    /// Reports whether the process group once led by this process still has members. As long as it has, the kernel does
    /// not reuse its id.
    fn has_group(&self, leader: i32) -> bool;
}

/// The processes visible in `/proc`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemProcesses;

impl Processes for SystemProcesses {
    fn start_time(&self, pid: i32) -> Option<u64> {
        parse_start_time(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn has_group(&self, leader: i32) -> bool {
        let pids = fs::read_dir("/proc").into_iter().flatten();
        let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let stats = pids.filter_map(|pid| fs::read(format!("/proc/{pid}/stat")).ok());
        stats.into_iter().any(|stat| parse_start_time(&stat).is_some() && parse_group(&stat) == Some(leader))
    }
}

/// Returns field 5 of `/proc/PID/stat`.
fn parse_group(stat: &[u8]) -> Option<i32> {
    fields(stat)?.get(2)?.parse().ok()
}

/// Returns the fields of `/proc/PID/stat` from the third on. The name before them is in parentheses and may contain
/// anything, even parentheses and line ends. The fields start after the last parenthesis.
fn fields(stat: &[u8]) -> Option<Vec<&str>> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = str::from_utf8(&stat[name_end + 1..]).ok()?;
    Some(text.split_ascii_whitespace().collect())
}

/// Returns field 22 of `/proc/PID/stat`, unless the process has ended.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let fields = fields(stat)?;
    let (state, threads, start_time) = (fields.first()?, fields.get(17)?, fields.get(19)?);
    // The first thread may end before the others: it then shows as a zombie, but the process is alive.
    let ended = matches!(*state, "Z" | "X" | "x") && threads.parse::<u64>().ok()? <= 1;
    if ended { None } else { start_time.parse().ok() }
}

/// The host, boot, namespace and user of this process.
#[derive(Debug)]
pub struct HostIdentity {
    /// Host name.
    pub host: String,
    /// Boot id of the host, `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Inode number of the pid namespace.
    pub pid_namespace: u64,
    /// The user whose files are trusted, and as which files are written.
    pub user: u32,
    /// Whether that user differs from the user of this process, which then only reads.
    pub is_guest: bool,
    /// This process.
    pub supervisor: ProcessIdentity,
    /// Access to the other processes.
    pub processes: Box<dyn Processes>,
}

impl HostIdentity {
    /// Reads the identity of this process.
    ///
    /// # Errors
    /// [`StoreError::StorageBackend`] if `/proc` is unreadable.
    pub fn observe() -> Result<Self, StoreError> {
        let unreadable = |path: &str, source| StoreError::reading(Path::new(path), source);
        let boot = "/proc/sys/kernel/random/boot_id";
        let boot_id = fs::read_to_string(boot).map_err(|error| unreadable(boot, error))?.trim().to_owned();
        let namespace = "/proc/self/ns/pid";
        let pid_namespace = rustix::fs::stat(namespace).map_err(|error| unreadable(namespace, error.into()))?.st_ino;
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = "/proc/self/stat";
        let own = fs::read(stat).map_err(|error| unreadable(stat, error))?;
        let start_time = parse_start_time(&own).expect("a process that asks has not ended");
        // The kernel allows line ends in a host name, but one would break the format of the lease.
        let host = rustix::system::uname().nodename().to_string_lossy().replace(char::is_control, "?");
        Ok(Self {
            host,
            boot_id,
            pid_namespace,
            user: rustix::process::geteuid().as_raw(),
            is_guest: false,
            supervisor: ProcessIdentity { pid, start_time },
            processes: Box::new(SystemProcesses),
        })
    }

    pub(super) fn lives(&self, process: ProcessIdentity) -> bool {
        self.processes.start_time(process.pid) == Some(process.start_time)
    }

    /// Reports whether a program is alive, if only in processes that it left behind.
    pub(super) fn program_lives(&self, program: ProcessIdentity) -> bool {
        match self.processes.start_time(program.pid) {
            Some(start_time) => start_time == program.start_time,
            None => self.processes.has_group(program.pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: char, threads: u32) -> Vec<u8> {
        let middle = "1 ".repeat(14);
        format!("42 ({name}) {state} {middle}20 0 {threads} 0 4711 99 99 new\n").into_bytes()
    }

    #[test]
    fn the_start_time_is_found_after_any_process_name() {
        assert_eq!(parse_start_time(&stat("sh", 'S', 1)), Some(4711));
        assert_eq!(parse_start_time(&stat("a) Z 1 (b\n", 'R', 1)), Some(4711));
    }

    #[test]
    fn a_process_lives_as_long_as_one_of_its_threads() {
        assert_eq!(parse_start_time(&stat("sh", 'Z', 1)), None);
        assert_eq!(parse_start_time(&stat("sh", 'Z', 3)), Some(4711));
        assert_eq!(parse_start_time(b"42 (sh) S"), None);
    }

    #[test]
    fn a_group_lives_as_long_as_one_of_its_members() {
        assert_eq!(parse_group(b"42 (a) 7 (b) S 1 40 30 0 0"), Some(40));
        let own = rustix::process::getpgrp().as_raw_nonzero().get();
        assert!(SystemProcesses.has_group(own));
        assert!(!SystemProcesses.has_group(i32::MAX));
    }

    #[test]
    fn this_process_is_alive_and_another_start_time_is_not() {
        let host_identity = HostIdentity::observe().unwrap();
        assert!(host_identity.lives(host_identity.supervisor));
        let later = ProcessIdentity { start_time: host_identity.supervisor.start_time + 1, ..host_identity.supervisor };
        assert!(!host_identity.lives(later), "another process of the same number");
    }
}
