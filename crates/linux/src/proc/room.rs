//! Memory that a process can still take: the available memory of the system, the limits of the control groups, and the
//! remaining commit limit of the kernel. And how many more tasks it may have. Parsers take text; two functions read it.

use super::{MachineMemory, Stat};
use crate::Pid;
use crate::sys::process;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Memory that may be used, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The minimum of the system's available memory and the memory that each control group has left. 0 if it is
    /// unknown.
    pub spare_bytes: u64,
    /// Memory that the kernel still commits, if it commits no more than it has (`vm.overcommit_memory` is 2).
    pub promised_bytes: Option<u64>,
}

impl Room {
    /// Reads the room for a process: on this machine and in its control groups.
    pub fn of(pid: Pid) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory = MachineMemory::read().unwrap_or_default();
        let is_strict = text("/proc/sys/vm/overcommit_memory").trim() == "2";
        let available = memory.available.unwrap_or(0);
        let left = folders(&text(&format!("/proc/{pid}/cgroup"))).iter().filter_map(|folder| left_in(folder)).min();
        Self {
            spare_bytes: left.map_or(available, |left| left.min(available)),
            promised_bytes: is_strict
                .then(|| memory.commit_limit.unwrap_or(0).saturating_sub(memory.committed.unwrap_or(0))),
        }
    }
}

/// Tasks that may still be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRoom {
    /// The minimum of what the limits of this user and of the control groups leave.
    pub spare: u64,
}

impl TaskRoom {
    /// Reads the room for this process; `None` if nothing limits it.
    pub fn of_own() -> Option<Self> {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let of_groups = folders(&text("/proc/self/cgroup")).into_iter().filter_map(|folder| tasks_left_in(&folder));
        let (soft, _) = process::limit(Pid::own(), libc::RLIMIT_NPROC).unwrap_or((libc::RLIM_INFINITY, 0));
        let of_user = (soft != libc::RLIM_INFINITY).then(|| soft.saturating_sub(tasks_of(process::effective_user())));
        of_groups.chain(of_user).min().map(|spare| Self { spare })
    }
}

/// Returns how many more tasks a control group may have, or `None` if it has no limit.
fn tasks_left_in(folder: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    Some(number("pids.max")?.saturating_sub(number("pids.current")?))
}

/// Returns the number of tasks of a user.
fn tasks_of(user: u32) -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let own = entries.filter_map(Result::ok).filter(|entry| entry.metadata().is_ok_and(|it| it.uid() == user));
    let pids = own.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::new));
    pids.filter_map(|pid| Stat::of(pid).ok()).map(|stat| stat.threads as u64).sum()
}

/// Returns the folders of the control groups of a process, and of all groups above them, from `/proc/PID/cgroup`.
fn folders(text: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|it| it == "memory") => "/sys/fs/cgroup/memory",
            _ => continue,
        };
        let relative = Path::new(path.trim_start_matches('/'));
        folders.extend(relative.ancestors().map(|folder| Path::new(root).join(folder)));
    }
    folders
}

/// Returns the memory that a control group has left, or `None` if it has no limit. File pages that it could drop count
/// as left.
fn left_in(folder: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (limit, used) = number("memory.max")
        .zip(number("memory.current"))
        .or_else(|| number("memory.limit_in_bytes").zip(number("memory.usage_in_bytes")))?;
    let droppable = read("memory.stat").as_deref().and_then(inactive_file).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(droppable)))
}

fn inactive_file(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parent_cgroups_and_the_v1_memory_hierarchy_are_listed() {
        let paths = |text| folders(text).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(paths("0::/a/b\n"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"]);
        let older = ["/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/memory/"];
        assert_eq!(paths("future\n\n5:future:/z\nv4:cpu,memory,future:/x\n3:cpuset:/y\n"), older);
    }

    #[test]
    fn free_memory_of_a_cgroup_includes_inactive_file_pages() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.current", "700\n");
        write("memory.max", "max\n");
        assert_eq!(left_in(folder.path()), None);
        write("memory.max", "1000\n");
        assert_eq!(left_in(folder.path()), Some(300));
        write("memory.stat", "anon 3\nfuture\ninactive_file 200\n");
        assert_eq!(left_in(folder.path()), Some(500));
    }
}
