//! What epoll instances watch: open files, each under the number under which it was added, which may have been closed or
//! mean something else since. Only the kernel knows which file it is; kcmp(2) compares.

use super::shown::Shown;
use super::{Unsupported, Walk};
use crate::{Blocker, RefusalCode};
use standfast_format::records::{EpollInterest, OpenFileKind};
use standfast_linux::proc::EpollTarget;
use standfast_linux::sys::descriptors::{self, EpollEntry};
use std::io;
use std::os::fd::AsFd;

/// Bits of an entry's events that say how it is watched, not for what.
const HOW: u32 = (libc::EPOLLWAKEUP | libc::EPOLLONESHOT | libc::EPOLLET | libc::EPOLLEXCLUSIVE) as u32;
const ANYTHING: i16 = libc::POLLIN | libc::POLLOUT | libc::POLLPRI | libc::POLLRDHUP;

impl Walk<'_> {
    /// Fills in what the epoll instances watch, now that all open files are known.
    pub(super) fn watched(&mut self, blockers: &mut Vec<Blocker>) -> io::Result<()> {
        for open_file in 0..self.found.open_files.len() {
            if !matches!(self.found.open_files[open_file].kind, OpenFileKind::Epoll { .. }) {
                continue;
            }
            match self.interests(self.known[open_file]) {
                Ok(interests) => self.found.open_files[open_file].kind = OpenFileKind::Epoll { interests },
                Err(unsupported) => blockers.push(self.blocker(self.known[open_file], unsupported)?),
            }
        }
        Ok(())
    }

    fn interests(&self, place: usize) -> Result<Vec<EpollInterest>, Unsupported> {
        let instance = &self.shown[place];
        let targets = &instance.information.epoll_targets;
        let mut interests = Vec::with_capacity(targets.len());
        for (position, target) in targets.iter().enumerate() {
            let number = target.descriptor;
            let before = targets[..position].iter().filter(|before| before.descriptor == number).count();
            let entry =
                EpollEntry { instance: instance.holding(&self.holders), added_as: number, place: before as u32 };
            let Some(watched) = self.watched_file(target, entry, instance.holder) else {
                let why =
                    format!("it still watches what descriptor {number} once was, and no descriptor leads there now");
                return Err(Unsupported::with_hint(
                    RefusalCode::Epoll,
                    why,
                    "remove descriptors from epoll before closing them",
                ));
            };
            // One that cannot be brought back has been refused already.
            let Some(open_file) = self.position(watched) else { continue };
            if target.events & !HOW == 0 && !self.is_ready(watched)? {
                return Err(Unsupported::for_now(
                    RefusalCode::Epoll,
                    format!("it has reported descriptor {number} once (EPOLLONESHOT), and waits to be armed again"),
                ));
            }
            if self.found.open_files[open_file].needs_process() && self.is_shared(place) {
                // There is no process yet when epoll instances are made that several processes are to inherit.
                let why =
                    "several processes share it, and it watches the handle of a process (pidfd) or a file of /proc";
                return Err(Unsupported::because(RefusalCode::Epoll, format!("{why}, which cannot be restored yet")));
            }
            let (events, data) = (target.events, target.data);
            interests.push(EpollInterest { descriptor: number, events, data, open_file: open_file as u32 });
        }
        Ok(interests)
    }

    /// Whether several processes hold the file of a descriptor.
    fn is_shared(&self, place: usize) -> bool {
        let shown = &self.shown[place];
        let others = self.shown.iter().filter(|other| other.holder != shown.holder);
        others.into_iter().any(|other| other.is_same_file(shown, &self.holders))
    }

    /// A descriptor of the file that an entry watches.
    fn watched_file(&self, target: &EpollTarget, entry: EpollEntry, holder: usize) -> Option<&Shown> {
        let is_usual = |shown: &&Shown| shown.holder == holder && shown.number == target.descriptor;
        let (usual, others) = (self.shown.iter().filter(is_usual), self.shown.iter().filter(|shown| !is_usual(shown)));
        let mut alike = usual.chain(others).filter(|shown| shown.identity().1 == target.inode);
        alike.find(|shown| {
            // A kernel that cannot compare is believed where the number still leads to the same inode.
            descriptors::is_watched(shown.holding(&self.holders), entry).unwrap_or_else(|_| is_usual(shown))
        })
    }

    /// Whether a file is ready for anything: only then an entry that has fired can be brought back as one that has.
    fn is_ready(&self, shown: &Shown) -> io::Result<bool> {
        let own = shown.own(&self.holders)?;
        descriptors::ready_events(own.as_fd(), ANYTHING).map(|events| events != 0)
    }
}
