//! Inotify instances. The kernel reports the inode of a watched file but not its path, and opening by inode needs
//! privileges. So the path is searched for among those that the program is known to use.

use super::shown::Shown;
use super::{Check, Kind, Known, Opening, Recorded, Unsupported, Walk, as_path};
use crate::error::kernel;
use crate::files::FileId;
use crate::scratch::SCRATCH_BYTES;
use crate::{EngineError, RefusalCode};
use standfast_format::records::{Bytes, OpenFile, OpenFileKind, Watch};
use standfast_linux::abi;
use standfast_linux::proc::{self, Map};
use standfast_linux::sys::descriptors;
use standfast_linux::sys::tree::may_access;
use standfast_linux::{DescriptorPassage, Pid};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Events that listing a directory would cause.
const DISTURBED_BY_LISTING: u32 = abi::IN_ACCESS | abi::IN_OPEN | abi::IN_CLOSE_NOWRITE;
/// The most directory entries that are examined for one instance.
const ENTRIES_MAX: usize = 20_000;
/// New instances number their watches from 1. To restore a higher number, that many watches are made and removed.
const NUMBER_MAX: i32 = 4096;
const IN_NONBLOCK: u64 = abi::IN_NONBLOCK as u64;

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    (shown.target == b"anon_inode:inotify").then(|| walk.inotify(shown))
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    let OpenFileKind::Watches { watches } = &file.kind else { return };
    watches.iter().for_each(|watch| check.watch(watch));
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let is_instance = matches!(recorded.kind, OpenFileKind::Watches { .. });
    let arguments = [IN_NONBLOCK, 0, 0, 0, 0, 0];
    is_instance.then(|| opening.call("making an inotify instance", abi::SYS_inotify_init1, arguments))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::Watches { watches } = kind else { return None };
    Some(format!("inotify instance, watching {} paths", watches.len()))
}

impl Walk<'_> {
    fn inotify(&self, shown: &Shown) -> Known {
        if DescriptorPassage::is_needed() {
            return Err(Unsupported::with_hint(
                RefusalCode::Inotify,
                "a restart would add events to it, and could not remove them: this container forbids pidfd_getfd",
                "give the container CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)",
            ));
        }
        let own = shown.own(&self.holders)?;
        if descriptors::unread_bytes(own.as_fd())? > 0 {
            return Err(Unsupported::for_now(RefusalCode::Inotify, "it has events that the program has not read yet"));
        }
        let pid = self.process_of(shown);
        let candidates = self.paths_of(pid);
        let mut watches = Vec::new();
        for watch in &shown.information.watches {
            if watch.descriptor > NUMBER_MAX {
                return Err(Unsupported::because(
                    RefusalCode::Inotify,
                    format!("its watches are numbered beyond {NUMBER_MAX}"),
                ));
            }
            let device = abi::makedev(watch.device.0, watch.device.1);
            let leads_there = |path: &Path| {
                std::fs::metadata(path).is_ok_and(|file| FileId::of(&file) == FileId { device, inode: watch.inode })
            };
            let may_list = self.may_list();
            let found = candidates.iter().find(|path| leads_there(path)).cloned();
            let found = found.or_else(|| may_list.then(|| listed(&candidates, leads_there)).flatten());
            let Some(path) = found else {
                let why = format!("the path of what it watches (inode {}) is not known", watch.inode);
                return Err(Unsupported::with_hint(
                    RefusalCode::Inotify,
                    why,
                    "watch files and directories that are open or in the working directory",
                ));
            };
            if let Err(error) = may_access(&path, abi::R_OK) {
                let why = format!("a restart could not watch {} again ({error})", path.display());
                return Err(Unsupported::because(RefusalCode::Inotify, why));
            }
            let path = Bytes::from(path.as_os_str().as_bytes());
            let (descriptor, mask, inode) = (watch.descriptor, watch.mask, watch.inode);
            watches.push(Watch { descriptor, path, mask, device, inode });
        }
        watches.sort_by_key(|watch| watch.descriptor);
        Ok(OpenFileKind::Watches { watches })
    }

    /// Reports whether a directory may be listed without any watch of the job noticing.
    fn may_list(&self) -> bool {
        let mut watches = self.shown.iter().flat_map(|shown| &shown.information.watches);
        watches.all(|watch| watch.mask & DISTURBED_BY_LISTING == 0)
    }

    /// Returns paths that a process is known to use, and the directories that contain them.
    fn paths_of(&self, pid: Pid) -> BTreeSet<PathBuf> {
        let links = ["cwd", "exe", "root"].iter().filter_map(|name| proc::link(pid, name).ok());
        let opened = self.shown.iter().map(|shown| shown.target.clone());
        let mapped = Map::of(pid).unwrap_or_default().into_iter().map(|map| map.path);
        let words = ["cmdline", "environ"].iter().filter_map(|name| proc::read(pid, name).ok());
        let words =
            words.flat_map(|text| text.split(|byte| b"\0=:".contains(byte)).map(<[u8]>::to_vec).collect::<Vec<_>>());
        let paths = links.chain(opened).chain(mapped).chain(words).filter(|path| path.starts_with(b"/"));
        let mut known = BTreeSet::new();
        for path in paths {
            let path = Path::new(OsStr::from_bytes(&path)).to_owned();
            known.extend(path.ancestors().map(Path::to_owned));
        }
        known
    }
}

impl Check<'_, '_> {
    /// Checks that the target of a watch exists and is the same file, or is made again.
    fn watch(&mut self, watch: &Watch) {
        let path = as_path(&watch.path);
        let same = match std::fs::metadata(path) {
            Ok(now) => now.dev() != watch.device || now.ino() == watch.inode,
            Err(_) => self.remaking.provide_empty(path).is_ok(),
        };
        if !same {
            let why = "the program watches it (inotify), and it is gone or another one now";
            self.blockers.add_missing(format!("watched file {}", watch.path), why);
        }
    }
}

impl Opening<'_> {
    /// Fills inotify instances.
    pub(super) fn fill_inotifies(&self, files: &[Option<u64>]) -> Result<(), EngineError> {
        for (file, parked) in self.plan.job.open_files.iter().zip(files) {
            if let (OpenFileKind::Watches { watches }, Some(instance)) = (&file.kind, *parked) {
                self.fill_inotify(instance, watches, file.flags)?;
            }
        }
        Ok(())
    }

    fn fill_inotify(&self, instance: u64, watches: &[Watch], flags: u32) -> Result<(), EngineError> {
        for watch in watches {
            let wanted = watch.descriptor as u64;
            let action = format!("watching {}", watch.path);
            let path = self.process.path_argument(&watch.path.0)?;
            let add = || self.call(&action, abi::SYS_inotify_add_watch, [instance, path, watch.mask.into(), 0, 0, 0]);
            // The kernel numbers watches in turn: those in between are made and removed again.
            let mut given = add()?;
            while given < wanted {
                self.call("removing a watch", abi::SYS_inotify_rm_watch, [instance, given, 0, 0, 0, 0])?;
                given = add()?;
            }
            if given != wanted {
                return Err(kernel(&action, std::io::Error::other("it came under another number")));
            }
        }
        // Removing watches has left events behind. Reading a non-blocking instance ends with an error when it is empty.
        let read = [instance, self.process.scratch, SCRATCH_BYTES, 0, 0, 0];
        while self.call("emptying an inotify instance", abi::SYS_read, read).is_ok() {}
        self.set_flags(instance, flags)
    }
}

/// Searches the directories among `candidates`.
fn listed(candidates: &BTreeSet<PathBuf>, leads_there: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let directories =
        candidates.iter().filter(|path| path.is_dir() && !path.starts_with("/proc") && !path.starts_with("/sys"));
    let entries = directories.filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
    entries.take(ENTRIES_MAX).map(|entry| entry.path()).find(|path| leads_there(path))
}
