//! Files whose contents the kernel generates when they are read: those of `/proc`, `/sys` and control groups. Their
//! contents are not kept; opened again, they describe the new life.
//!
//! A job in its own namespaces has its own `/proc`, in which numbers mean its processes; in ours the same numbers mean
//! other processes. So paths are looked up as the job sees them, and only there.

use super::shown::Shown;
use super::{Check, Kind, Known, O_ACCMODE, O_PATH, Opening, Recorded, Unsupported, Walk};
use crate::construction::Construction;
use crate::{EngineError, RefusalCode};
use standfast_format::records::{Bytes, JobState, OpenFile, OpenFileKind, ProcSubject};
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::sys::file::FileSystem;
use standfast_linux::{Pid, Tid};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// Paths below `/proc/PID` that list what a process has open, by numbers that have a meaning only in that process.
const OF_DESCRIPTORS: [&[u8]; 4] = [b"fd/", b"fdinfo/", b"map_files/", b"ns/"];

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    walk.kernel_file(&walk.shown[place])
}

/// Checks that the file exists, so that it can be opened again. Files about processes of the job will exist.
fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    let OpenFileKind::KernelFile { subject, path, .. } = &file.kind else { return };
    let is_known = |subject: ProcSubject| {
        let process = check.job.processes.get(subject.process as usize);
        let has = |tid| process.is_some_and(|it| it.threads.iter().any(|thread| thread.tid == tid));
        process.is_some() && subject.thread.is_none_or(has)
    };
    match subject {
        Some(subject) if is_known(*subject) => {}
        Some(_) => check.add_missing_part("tells of a process"),
        None => check.place(path, abi::S_IFREG, None),
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::KernelFile { subject: None, path, offset } = recorded.kind else { return None };
    let opened = opening.open_path(&path.0, recorded.flags);
    Some(opened.and_then(|opened| opening.position(opened, *offset)))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::KernelFile { subject, path, .. } = kind else { return None };
    let of_process = subject.map_or_else(String::new, |subject| format!(" of process {} of the job", subject.process));
    Some(format!("the kernel's {path}{of_process}"))
}

impl Walk<'_> {
    /// Returns `None` for files of an ordinary file system.
    pub(super) fn kernel_file(&self, shown: &Shown) -> Option<Known> {
        // Such files occupy no space, and are on no device.
        let kind = shown.file.file_type();
        let is_named = kind.is_file() || kind.is_dir() || kind.is_symlink();
        if !is_named || shown.file.blocks() > 0 || abi::major(shown.file.dev()) != 0 {
            return None;
        }
        // A file system that does not report its type (FUSE may not) does not belong to the kernel.
        let system = shown.own(&self.holders).and_then(|own| FileSystem::of(own.as_fd())).ok()?;
        let is_file = shown.file.is_file() && shown.information.flags & O_PATH == 0;
        match system {
            FileSystem::Processes => self.of_processes(shown, is_file).transpose(),
            FileSystem::Devices if is_file => Some(self.of_kernel(shown)),
            FileSystem::Inner => {
                Some(Err(Unsupported::because(RefusalCode::KernelFile, "the kernel may keep state for its descriptor")))
            }
            FileSystem::Devices | FileSystem::Ordinary => None,
        }
    }

    fn of_kernel(&self, shown: &Shown) -> Known {
        let path = self.path_of(shown)?;
        if shown.information.flags & O_ACCMODE != 0 && is_about_pressure(path) {
            return Err(Unsupported::because(
                RefusalCode::KernelFile,
                "the program may have set a threshold through it, which the kernel does not report",
            ));
        }
        self.refuse_unopenable(shown)?;
        Ok(kernel_file(shown, None, path))
    }

    /// Returns `None` for directories that do not belong to one process, and for places in the file system.
    fn of_processes(&self, shown: &Shown, is_file: bool) -> Result<Option<OpenFileKind>, Unsupported> {
        let elsewhere =
            || Unsupported::because(RefusalCode::KernelFile, "it is in a /proc other than the program's own");
        if shown.target == b"/proc" {
            return Ok(None);
        }
        let below = shown.target.strip_prefix(b"/proc/").ok_or_else(elsewhere)?;
        let Some(number) = as_number(split(below).0) else {
            return if is_file { self.of_kernel(shown).map(Some) } else { Ok(None) };
        };
        let (_, below) = split(&self.path_of(shown)?[b"/proc/".len()..]);
        let subject = self.subject(number)?;
        let (thread, below) = match split(below) {
            (b"task", rest) if !rest.is_empty() => {
                let (thread, below) = split(rest);
                (as_number(thread), below)
            }
            _ => (None, below),
        };
        if OF_DESCRIPTORS.iter().any(|start| below.starts_with(start)) {
            return Err(Unsupported::for_now(
                RefusalCode::KernelFile,
                "it describes an open file of a process; programs usually close it soon",
            ));
        }
        if shown.file.is_symlink() {
            return Err(Unsupported::because(
                RefusalCode::KernelFile,
                "a link of /proc that is itself open (O_PATH) cannot be restored",
            ));
        }
        if shown.file.is_dir() && shown.information.position > 0 {
            return Err(Unsupported::for_now(
                RefusalCode::KernelFile,
                "it is a partly read directory about one process; programs usually close it soon",
            ));
        }
        Ok(Some(kernel_file(shown, Some(ProcSubject { process: subject, thread }), below)))
    }

    /// Returns the place of the process of the job that `/proc` shows under this number.
    fn subject(&self, number: i32) -> Result<u32, Unsupported> {
        let pids = || self.job().iter().map(|holder| holder.pid).chain(self.zombies.iter().copied());
        let is_shown_so =
            |pid: Pid| Status::of(pid).is_ok_and(|status| status.process_ids.last() == Some(&Pid::new(number)));
        if let Some(place) = pids().position(is_shown_so) {
            return Ok(place as u32);
        }
        let has_thread = |pid: Pid| {
            let threads = proc::threads(pid).unwrap_or_default();
            let ids =
                |tid: Tid| proc::read(pid, &format!("task/{tid}/status")).ok().map(|text| Status::parse(&text).ids);
            threads.into_iter().filter_map(ids).any(|ids| ids.last() == Some(&Tid::new(number)))
        };
        Err(Unsupported::because(
            RefusalCode::KernelFile,
            if pids().any(has_thread) {
                "it was opened by the number of a thread, which cannot be restored".to_owned()
            } else {
                format!("it describes process {number}, which is not part of the program")
            },
        ))
    }

    /// Returns the path, under which the job must find the file that it has open.
    fn path_of<'s>(&self, shown: &'s Shown) -> Result<&'s [u8], Unsupported> {
        // The kernel marks files about networks as deleted, unless they were the last to be opened.
        let path = shown.target.strip_suffix(b" (deleted)").unwrap_or(&shown.target);
        let is_of_process = path.strip_prefix(b"/proc/").is_some_and(|below| as_number(split(below).0).is_some());
        let is_same = |found: std::fs::Metadata| {
            // Below /proc/sys each process looks at its own namespaces, and finds its own inodes.
            found.dev() == shown.file.dev() && (!is_of_process || found.ino() == shown.file.ino())
        };
        if std::fs::symlink_metadata(self.as_the_job_sees(path)).is_ok_and(is_same) {
            return Ok(path);
        }
        Err(match is_of_process {
            true => Unsupported::for_now(RefusalCode::KernelFile, "what it describes has ended since it was opened"),
            false => Unsupported::because(RefusalCode::KernelFile, "it cannot be found under its path any more"),
        })
    }
}

fn kernel_file(shown: &Shown, subject: Option<ProcSubject>, path: &[u8]) -> OpenFileKind {
    OpenFileKind::KernelFile { subject, path: Bytes::from(path), offset: shown.information.position }
}

fn is_about_pressure(path: &[u8]) -> bool {
    path.starts_with(b"/proc/pressure/") || path.ends_with(b".pressure")
}

/// Splits a path into the parts before and after its first slash.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().position(|byte| *byte == b'/');
    end.map_or((path, &[]), |end| (&path[..end], &path[end + 1..]))
}

fn as_number(name: &[u8]) -> Option<i32> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// Returns the directory of `/proc` about a subject, as the job sees it.
pub(super) fn directory_of(job: &JobState, processes: &[Construction], subject: ProcSubject) -> String {
    let recorded = &job.processes[subject.process as usize];
    let made = processes.get(subject.process as usize);
    let pid = made.map_or(recorded.pid, |process| process.inner_ids[0].get());
    let Some(tid) = subject.thread else { return format!("/proc/{pid}/") };
    let thread = recorded.threads.iter().position(|thread| thread.tid == tid);
    let tid = made.zip(thread).map_or(tid, |(process, thread)| process.inner_ids[thread].get());
    format!("/proc/{pid}/task/{tid}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_at_the_first_slash() {
        for (path, first, rest) in [("12/task/13/stat", "12", "task/13/stat"), ("12", "12", ""), ("12/", "12", "")] {
            assert_eq!(split(path.as_bytes()), (first.as_bytes(), rest.as_bytes()), "{path}");
        }
        assert_eq!(as_number(b"12"), Some(12));
        assert_eq!(as_number(b"self"), None);
    }

    #[test]
    fn pressure_files_are_recognised_by_their_names() {
        assert!(is_about_pressure(b"/proc/pressure/io") && is_about_pressure(b"/sys/fs/cgroup/a/memory.pressure"));
        assert!(!is_about_pressure(b"/sys/fs/cgroup/a/memory.max"));
    }
}
