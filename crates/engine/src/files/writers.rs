//! Which other processes have a file open for writing. The job must not cut off what such a process appends to the file.
//!
//! Only processes that this user may inspect are seen. The job itself does not count, nor do our ancestors: the shell
//! that redirected our output has the file open as well, and waits for us. Processes with our executable do not count
//! either: the process that asks for a checkpoint may be about to report it in the same log.

use super::FileId;
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::{self, DescriptorInformation, Stat};
use std::collections::{BTreeSet, HashMap};
use std::fs::Metadata;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a look at all processes of the system stays valid: with thousands of processes it costs 100 ms.
const SCAN_LASTS: Duration = Duration::from_secs(60);
/// Maximum number of ancestors of a process; a guard against a cycle that changes while we look.
const ANCESTORS_MAX: usize = 1000;

/// The findings of the last look.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    last: Mutex<Option<Scan>>,
}

#[derive(Debug)]
struct Scan {
    at: Instant,
    files: BTreeSet<FileId>,
    found: HashMap<FileId, String>,
}

impl Writers {
    /// Looks for other processes that write to `files`, unless that was done recently.
    pub(crate) fn scan(&self, files: &BTreeSet<FileId>, job: &[Pid]) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|last| last.at.elapsed() < SCAN_LASTS && last.files.is_superset(files)) {
            return;
        }
        *last = Some(Scan { at: Instant::now(), files: files.clone(), found: other_writers(files, job) });
    }

    /// Returns a description of the process that was seen to write to this file.
    pub(crate) fn known(&self, file: FileId) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref()?.found.get(&file).cloned()
    }
}

/// Returns for each of `files` that a process outside the job has open for writing a description of that process.
pub(crate) fn other_writers(files: &BTreeSet<FileId>, job: &[Pid]) -> HashMap<FileId, String> {
    let mut found = HashMap::new();
    if files.is_empty() {
        return found;
    }
    let mut own: BTreeSet<Pid> = job.iter().copied().collect();
    own.extend(ancestors(Pid::own()));
    let Ok(processes) = std::fs::read_dir("/proc") else { return found };
    let program = |pid: Pid| std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| FileId::of(&file));
    let ours = program(Pid::own());
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid::new));
    for pid in pids.filter(|pid| !own.contains(pid) && program(*pid) != ours) {
        for number in proc::numbers(pid, "fd").unwrap_or_default() {
            let Ok(file) = std::fs::metadata(format!("/proc/{pid}/fd/{number}")) else { continue };
            let key = FileId::of(&file);
            // Children of the job come and go: one may be younger than the list of its processes.
            if files.contains(&key) && writes(pid, number) && !ancestors(pid).any(|it| job.contains(&it)) {
                found.entry(key).or_insert_with(|| describe(pid));
            }
        }
    }
    found
}

/// How long a process may be seen in a directory without being a resident.
const PASSING_MAX: Duration = Duration::from_millis(20);

/// Returns those of `directories` that are the working directory of another process, by the rules of `other_writers`.
pub(crate) fn residents(directories: &BTreeSet<FileId>, job: &[Pid]) -> BTreeSet<FileId> {
    let own: BTreeSet<Pid> = job.iter().copied().chain(ancestors(Pid::own())).collect();
    let program = |pid: Pid| std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| FileId::of(&file));
    let ours = program(Pid::own());
    let lives_there = |pid: Pid| {
        let place = std::fs::metadata(format!("/proc/{pid}/cwd")).ok()?;
        let key = Some(FileId::of(&place)).filter(|key| directories.contains(key))?;
        let is_other = program(pid) != ours && !ancestors(pid).any(|it| job.contains(&it));
        // If a process has ended meanwhile, its ancestors were not found; the job's own children come and go all the
        // time.
        let is_there = std::fs::metadata(format!("/proc/{pid}/cwd")).is_ok();
        (is_other && is_there).then_some(key)
    };
    let pids = proc::all().unwrap_or_default();
    let found: Vec<Pid> = pids.into_iter().filter(|pid| !own.contains(pid) && lives_there(*pid).is_some()).collect();
    if !found.is_empty() {
        // A process that is about to execute another program in its directory, or to end, is no resident.
        std::thread::sleep(PASSING_MAX);
    }
    found.into_iter().filter_map(lives_there).collect()
}

/// Describes a process outside the job that has something open. `is_it` judges by pid, descriptor number and file.
pub(crate) fn other_holder(job: &[Pid], is_it: impl Fn(Pid, i32, &Metadata) -> bool) -> Option<String> {
    let processes = std::fs::read_dir("/proc").ok()?;
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid::new));
    let holds = |pid: &Pid| {
        let numbers = proc::numbers(*pid, "fd").unwrap_or_default();
        numbers.into_iter().any(|number| {
            let found = std::fs::metadata(format!("/proc/{pid}/fd/{number}"));
            found.is_ok_and(|found| is_it(*pid, number, &found))
        })
    };
    pids.filter(|pid| !job.contains(pid)).find(holds).map(describe)
}

/// Returns a process and its ancestors.
fn ancestors(pid: Pid) -> impl Iterator<Item = Pid> {
    let parent = |pid: &Pid| Stat::of(*pid).ok().map(|stat| stat.parent).filter(|parent| parent.get() > 0);
    std::iter::successors(Some(pid), parent).take(ANCESTORS_MAX)
}

fn writes(pid: Pid, number: i32) -> bool {
    let access = DescriptorInformation::of(pid, number).map(|it| it.flags & abi::O_ACCMODE as u32);
    access.is_ok_and(|access| access != abi::O_RDONLY as u32)
}

/// Describes a process for people.
pub(crate) fn describe(pid: Pid) -> String {
    let name = proc::read(pid, "comm").unwrap_or_default();
    format!("process {pid} ({})", String::from_utf8_lossy(&name).trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn other_writers_of_a_file_are_found_but_not_its_readers() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        let file = std::fs::File::create(&path).unwrap();
        let key = file.metadata().map(|it| FileId::of(&it)).unwrap();
        let files = BTreeSet::from([key]);
        assert!(other_writers(&files, &[]).is_empty(), "we ourselves do not count");
        let reading = std::fs::File::open(&path).unwrap();
        let mut reader =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(reading).spawn().unwrap();
        assert!(other_writers(&files, &[]).is_empty(), "a reader does not count");
        let mut writer = Command::new("cat").stdin(Stdio::piped()).stdout(file).spawn().unwrap();
        let pid = Pid::new(writer.id() as i32);
        let found = other_writers(&files, &[]);
        let of_the_job = other_writers(&files, &[pid]);
        for child in [&mut reader, &mut writer] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        assert!(found.get(&key).is_some_and(|who| who.contains(&pid.to_string())), "{found:?}");
        assert!(of_the_job.is_empty());
    }
}
