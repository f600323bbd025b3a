//! What epoll instances watch: open files, each under the number under which it was added. That number may have been
//! closed or reused since. Only the kernel knows which file it is; kcmp(2) compares.

use super::shown::Shown;
use super::{Check, Kind, Known, Opening, Recorded, Unsupported, Walk};
use crate::error::kernel;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{EpollInterest, OpenFile, OpenFileKind};
use standfast_linux::abi;
use standfast_linux::proc::EpollTarget;
use standfast_linux::sys::descriptors::{self, EpollEntry};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

/// Bits of an entry's events that say how it is watched, not for what.
const HOW: u32 = (abi::EPOLLWAKEUP | abi::EPOLLONESHOT | abi::EPOLLET | abi::EPOLLEXCLUSIVE) as u32;
const EPOLL_CTL_ADD: u64 = abi::EPOLL_CTL_ADD as u64;
/// Status flags that a program can set. Nothing depends on them, but it can ask for them.
const SETTABLE: u32 = (abi::O_NONBLOCK | abi::O_APPEND) as u32;
const ANYTHING: i16 = abi::POLLIN | abi::POLLOUT | abi::POLLPRI | abi::POLLRDHUP;

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    // Its interests are determined when all open files are known.
    let is_instance = walk.shown[place].target == b"anon_inode:[eventpoll]";
    is_instance.then(|| Ok(OpenFileKind::Epoll { interests: Vec::new() }))
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    let OpenFileKind::Epoll { interests } = &file.kind else { return };
    let files = check.job.open_files.len();
    let is_sound = |interest: &EpollInterest| interest.descriptor >= 0 && (interest.open_file as usize) < files;
    if !interests.iter().all(is_sound) {
        check.add_missing_part("watches a file");
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let is_instance = matches!(recorded.kind, OpenFileKind::Epoll { .. });
    is_instance.then(|| {
        let made = opening.call("making an epoll instance", abi::SYS_epoll_create1, [0; 6])?;
        if recorded.flags & SETTABLE != 0 {
            opening.set_flags(made, recorded.flags)?;
        }
        Ok(made)
    })
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::Epoll { interests } = kind else { return None };
    Some(format!("epoll that watches {} descriptors", interests.len()))
}

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
            // A file that cannot be restored has been refused already.
            let Some(open_file) = self.position(watched) else { continue };
            if target.events & !HOW == 0 && !self.is_ready(watched)? {
                return Err(Unsupported::for_now(
                    RefusalCode::Epoll,
                    format!("it has reported descriptor {number} once (EPOLLONESHOT), and waits to be armed again"),
                ));
            }
            if self.found.open_files[open_file].needs_process() {
                self.refuse_apart(place, watched)?;
            }
            let (events, data) = (target.events, target.data);
            interests.push(EpollInterest { descriptor: number, events, data, open_file: open_file as u32 });
        }
        Ok(interests)
    }

    /// Refuses an instance that watches a handle of a process or a file of /proc, unless one process has both, and it
    /// alone the instance: what describes a process is made once there are processes, by the one that has it.
    fn refuse_apart(&self, instance: usize, watched: &Shown) -> Result<(), Unsupported> {
        let holder = self.shown[instance].holder;
        let is_here = |shown: &Shown| shown.holder == holder && shown.is_same_file(watched, &self.holders);
        let whose = if self.is_shared(instance) {
            "several processes share it, and it watches"
        } else if !self.shown.iter().any(is_here) {
            "only another process still has what it watches:"
        } else {
            return Ok(());
        };
        let why = format!("{whose} the handle of a process (pidfd) or a file of /proc, which cannot be restored yet");
        Err(Unsupported::because(RefusalCode::Epoll, why))
    }

    /// Reports whether several processes hold the file of a descriptor.
    fn is_shared(&self, place: usize) -> bool {
        let shown = &self.shown[place];
        let others = self.shown.iter().filter(|other| other.holder != shown.holder);
        others.into_iter().any(|other| other.is_same_file(shown, &self.holders))
    }

    /// Returns a descriptor of the file that an entry watches.
    fn watched_file(&self, target: &EpollTarget, entry: EpollEntry, holder: usize) -> Option<&Shown> {
        let is_usual = |shown: &&Shown| shown.holder == holder && shown.number == target.descriptor;
        let (usual, others) = (self.shown.iter().filter(is_usual), self.shown.iter().filter(|shown| !is_usual(shown)));
        let mut alike = usual.chain(others).filter(|shown| shown.identity().inode == target.inode);
        alike.find(|shown| {
            // If a kernel cannot compare, a number that still leads to the same inode is trusted.
            descriptors::is_watched(shown.holding(&self.holders), entry).unwrap_or_else(|_| is_usual(shown))
        })
    }

    /// Reports whether a file is ready for anything. Only then can an entry that has fired be restored as one that has.
    fn is_ready(&self, shown: &Shown) -> io::Result<bool> {
        let own = shown.own(&self.holders)?;
        descriptors::ready_events(own.as_fd(), ANYTHING).map(|events| events != 0)
    }
}

impl Opening<'_> {
    /// Fills epoll instances. Numbers below the parking area are free to be used meanwhile.
    pub(super) fn fill_epolls(&self, files: &[Option<u64>]) -> Result<(), EngineError> {
        for (file, parked) in self.plan.job.open_files.iter().zip(files) {
            if let (OpenFileKind::Epoll { interests }, Some(epoll)) = (&file.kind, *parked) {
                let known = interests.iter().filter(|interest| !self.needs_process(interest));
                self.fill_epoll(epoll, known, files)?;
            }
        }
        Ok(())
    }

    /// Adds files that could be opened only once there were processes to epoll instances of this process's own.
    pub(super) fn watch_processes(&self, files: &[Option<u64>]) -> Result<(), EngineError> {
        // Several descriptors may lead to one instance.
        let places: BTreeSet<u32> = self.plan.process.descriptors.iter().map(|it| it.open_file).collect();
        for place in places {
            let place = place as usize;
            let Some(OpenFileKind::Epoll { interests }) = self.plan.job.open_files.get(place).map(|it| &it.kind) else {
                continue;
            };
            let is_here = |interest: &&EpollInterest| {
                self.needs_process(interest) && files.get(interest.open_file as usize).is_some_and(Option::is_some)
            };
            if let Some(epoll) = files[place] {
                self.fill_epoll(epoll, interests.iter().filter(is_here), files)?;
            }
        }
        Ok(())
    }

    fn needs_process(&self, interest: &EpollInterest) -> bool {
        self.plan.job.open_files.get(interest.open_file as usize).is_some_and(OpenFile::needs_process)
    }

    /// Entries that have fired and wait to be armed again come first: to restore one, it has to fire once more, alone.
    fn fill_epoll<'i>(
        &self,
        epoll: u64,
        interests: impl Iterator<Item = &'i EpollInterest>,
        files: &[Option<u64>],
    ) -> Result<(), EngineError> {
        let (fired, armed): (Vec<&EpollInterest>, Vec<&EpollInterest>) =
            interests.partition(|interest| interest.events & !HOW == 0);
        for interest in fired {
            self.add_interest(
                epoll,
                &EpollInterest { events: interest.events | u32::from(ANYTHING as u16), ..*interest },
                files,
            )?;
            self.call("firing an epoll entry", abi::SYS_epoll_wait, [epoll, self.process.scratch, 1, 0, 0, 0])?;
        }
        armed.into_iter().try_for_each(|interest| self.add_interest(epoll, interest, files))
    }

    /// Adds a file under the number that it once had, whatever that number means now.
    fn add_interest(&self, epoll: u64, interest: &EpollInterest, files: &[Option<u64>]) -> Result<(), EngineError> {
        let missing = || kernel("filling an epoll instance", std::io::ErrorKind::InvalidData.into());
        let file = files.get(interest.open_file as usize).copied().flatten().ok_or_else(missing)?;
        let number = interest.descriptor as u64;
        self.call("placing a watched file", abi::SYS_dup3, [file, number, 0, 0, 0, 0])?;
        // struct epoll_event is packed: four bytes, then eight.
        let event = [&interest.events.to_le_bytes()[..], &interest.data.to_le_bytes()].concat();
        let event = self.process.argument(&event)?;
        self.call("adding to an epoll instance", abi::SYS_epoll_ctl, [epoll, EPOLL_CTL_ADD, number, event, 0, 0])?;
        self.close(number)
    }
}
