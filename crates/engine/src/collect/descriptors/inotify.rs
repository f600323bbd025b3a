//! Inotify instances. The kernel tells the inode of what is watched but not its path; to open by inode takes privileges.
//! So the path is looked for among those that the program is known to deal with.

use super::shown::Shown;
use super::{Known, Unsupported, Walk};
use crate::RefusalCode;
use standfast_format::records::{Bytes, OpenFileKind, Watch};
use standfast_linux::proc::{self, Map};
use standfast_linux::sys::descriptors;
use standfast_linux::sys::tree::may_access;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Events that listing a directory would cause.
const DISTURBED_BY_LISTING: u32 = libc::IN_ACCESS | libc::IN_OPEN | libc::IN_CLOSE_NOWRITE;
/// How many directory entries are looked at for one instance.
const ENTRIES_MAX: usize = 20_000;
/// New instances number their watches from 1: one with a higher number is brought back by making and removing as many.
const NUMBER_MAX: i32 = 4096;

impl Walk<'_> {
    pub(super) fn inotify(&self, shown: &Shown) -> Known {
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
            let device = libc::makedev(watch.device.0, watch.device.1);
            let leads_there = |path: &Path| {
                std::fs::metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == (device, watch.inode))
            };
            let may_list = self.may_list();
            let found = candidates.iter().find(|path| leads_there(path)).cloned();
            let found = found.or_else(|| may_list.then(|| listed(&candidates, leads_there)).flatten());
            let Some(path) = found else {
                let why = format!("the path of what it watches (inode {}) is not known", watch.inode);
                return Err(Unsupported::with_hint(
                    RefusalCode::Inotify,
                    why,
                    "watch open files or directories, or what lies in the working directory",
                ));
            };
            if let Err(error) = may_access(&path, libc::R_OK) {
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

    /// Whether a directory may be listed without any watch of the job taking notice.
    fn may_list(&self) -> bool {
        let mut watches = self.shown.iter().flat_map(|shown| &shown.information.watches);
        watches.all(|watch| watch.mask & DISTURBED_BY_LISTING == 0)
    }

    /// Paths that a process is known to deal with, and the directories that they lie in.
    fn paths_of(&self, pid: i32) -> BTreeSet<PathBuf> {
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

/// Looks into the directories among `candidates`.
fn listed(candidates: &BTreeSet<PathBuf>, leads_there: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let directories =
        candidates.iter().filter(|path| path.is_dir() && !path.starts_with("/proc") && !path.starts_with("/sys"));
    let entries = directories.filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
    entries.take(ENTRIES_MAX).map(|entry| entry.path()).find(|path| leads_there(path))
}
