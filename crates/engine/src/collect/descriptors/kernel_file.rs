//! Files that the kernel makes up as they are read: those of `/proc`, `/sys` and control groups. What they hold is not kept:
//! opened again, they tell of the new life.
//!
//! A job in namespaces of its own has a `/proc` of its own, in which numbers mean its processes; in ours the same numbers
//! mean others. So paths are looked up as the job sees them, and only there.

use super::shown::Shown;
use super::{Known, O_ACCMODE, O_PATH, Unsupported, Walk};
use crate::RefusalCode;
use standfast_format::records::{Bytes, OpenFileKind, ProcSubject};
use standfast_linux::proc::{self, Status};
use standfast_linux::sys::file::FileSystem;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Below `/proc/PID`: what a process has open, by numbers that mean something to it only.
const OF_DESCRIPTORS: [&[u8]; 4] = [b"fd/", b"fdinfo/", b"map_files/", b"ns/"];

impl Walk<'_> {
    /// `None` for what an ordinary file system holds.
    pub(super) fn kernel_file(&self, shown: &Shown) -> Option<Known> {
        // Such files take no room, on no device.
        let kind = shown.file.file_type();
        let is_named = kind.is_file() || kind.is_dir() || kind.is_symlink();
        if !is_named || shown.file.blocks() > 0 || libc::major(shown.file.dev()) != 0 {
            return None;
        }
        // One that does not say what it is (FUSE may not) is none of the kernel's.
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
                "a threshold may have been set by it, which the kernel does not tell",
            ));
        }
        self.refuse_unopenable(shown)?;
        Ok(kernel_file(shown, None, path))
    }

    /// `None` for directories that are not of one process, and places in the file system.
    fn of_processes(&self, shown: &Shown, is_file: bool) -> Result<Option<OpenFileKind>, Unsupported> {
        let elsewhere = || {
            Unsupported::because(
                RefusalCode::KernelFile,
                "it lies in a file system of processes that is not the program's own /proc",
            )
        };
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
                "it tells of one thing that a process has open, and is soon through as a rule",
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
                "it is a list of the kernel's about one process, which is soon through as a rule",
            ));
        }
        Ok(Some(kernel_file(shown, Some(ProcSubject { process: subject, thread }), below)))
    }

    /// The place of the process of the job that `/proc` shows under this number.
    fn subject(&self, number: i32) -> Result<u32, Unsupported> {
        let pids = || self.job().iter().map(|holder| holder.pid).chain(self.zombies.iter().copied());
        let is_shown_so = |pid: i32| Status::of(pid).is_ok_and(|status| status.process_ids.last() == Some(&number));
        if let Some(place) = pids().position(is_shown_so) {
            return Ok(place as u32);
        }
        let has_thread = |pid: i32| {
            let threads = proc::numbers(pid, "task").unwrap_or_default();
            let ids = |tid| proc::read(pid, &format!("task/{tid}/status")).ok().map(|text| Status::parse(&text).ids);
            threads.into_iter().filter_map(ids).any(|ids| ids.last() == Some(&number))
        };
        Err(Unsupported::because(
            RefusalCode::KernelFile,
            if pids().any(has_thread) {
                "it was opened by the number of a thread, which cannot be restored".to_owned()
            } else {
                format!("it tells of process {number}, which is not part of the program")
            },
        ))
    }

    /// Under its path the job must find what it has open.
    fn path_of<'s>(&self, shown: &'s Shown) -> Result<&'s [u8], Unsupported> {
        // Of what tells of networks the kernel says that it has been deleted, unless it was the last to be opened.
        let path = shown.target.strip_suffix(b" (deleted)").unwrap_or(&shown.target);
        let is_of_process = path.strip_prefix(b"/proc/").is_some_and(|below| as_number(split(below).0).is_some());
        let is_same = |found: std::fs::Metadata| {
            // Below /proc/sys each looks at namespaces of its own, and finds inodes of its own.
            found.dev() == shown.file.dev() && (!is_of_process || found.ino() == shown.file.ino())
        };
        if std::fs::symlink_metadata(self.as_the_job_sees(path)).is_ok_and(is_same) {
            return Ok(path);
        }
        Err(match is_of_process {
            true => Unsupported::for_now(RefusalCode::KernelFile, "what it tells of has ended since it was opened"),
            false => Unsupported::because(RefusalCode::KernelFile, "it cannot be found under its path any more"),
        })
    }

    /// A path by which we come to what the job finds under `path`.
    pub(super) fn as_the_job_sees(&self, path: &[u8]) -> PathBuf {
        let root = format!("/proc/{}/root", self.holders[0].pid);
        PathBuf::from(OsStr::from_bytes(&[root.as_bytes(), path].concat()))
    }
}

fn kernel_file(shown: &Shown, subject: Option<ProcSubject>, path: &[u8]) -> OpenFileKind {
    OpenFileKind::KernelFile { subject, path: Bytes::from(path), offset: shown.information.position }
}

fn is_about_pressure(path: &[u8]) -> bool {
    path.starts_with(b"/proc/pressure/") || path.ends_with(b".pressure")
}

/// What stands before the first slash, and what behind it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().position(|byte| *byte == b'/');
    end.map_or((path, &[]), |end| (&path[..end], &path[end + 1..]))
}

fn as_number(name: &[u8]) -> Option<i32> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_at_their_first_slash() {
        for (path, first, rest) in [("12/task/13/stat", "12", "task/13/stat"), ("12", "12", ""), ("12/", "12", "")] {
            assert_eq!(split(path.as_bytes()), (first.as_bytes(), rest.as_bytes()), "{path}");
        }
        assert_eq!(as_number(b"12"), Some(12));
        assert_eq!(as_number(b"self"), None);
    }

    #[test]
    fn pressure_is_told_in_files_of_these_names() {
        assert!(is_about_pressure(b"/proc/pressure/io") && is_about_pressure(b"/sys/fs/cgroup/a/memory.pressure"));
        assert!(!is_about_pressure(b"/sys/fs/cgroup/a/memory.max"));
    }
}
