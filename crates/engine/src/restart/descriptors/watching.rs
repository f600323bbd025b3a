//! What watches other files: epoll and inotify instances, filled once everything else is there.

use super::Opening;
use crate::EngineError;
use crate::error::kernel;
use crate::scratch::SCRATCH_BYTES;
use standfast_format::records::{EpollInterest, OpenFile, OpenFileKind, Watch};

const EPOLL_CTL_ADD: u64 = libc::EPOLL_CTL_ADD as u64;
const IN_NONBLOCK: u64 = libc::IN_NONBLOCK as u64;
/// Bits of an entry's events that say how it is watched, not for what.
const HOW: u32 = (libc::EPOLLWAKEUP | libc::EPOLLONESHOT | libc::EPOLLET | libc::EPOLLEXCLUSIVE) as u32;
const ANYTHING: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP) as u32;

impl Opening<'_> {
    /// Fills epoll and inotify instances. Numbers below the parking area are free to be used meanwhile.
    pub(super) fn watch(&self, files: &[Option<u64>]) -> Result<(), EngineError> {
        for (file, parked) in self.plan.job.open_files.iter().zip(files) {
            match (&file.kind, *parked) {
                (OpenFileKind::Epoll { interests }, Some(epoll)) => {
                    let known = interests.iter().filter(|interest| !self.needs_process(interest));
                    self.fill_epoll(epoll, known, files)?;
                }
                (OpenFileKind::Watches { watches }, Some(instance)) => {
                    self.fill_inotify(instance, watches, file.flags)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds what could only be had once there were processes to epoll instances of this process's own.
    pub(super) fn watch_processes(&self, files: &[Option<u64>]) -> Result<(), EngineError> {
        for descriptor in &self.plan.process.descriptors {
            let place = descriptor.open_file as usize;
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

    /// Entries that have fired and wait to be armed again come first: to make one, it has to fire once more, alone.
    fn fill_epoll<'i>(
        &self,
        epoll: u64,
        interests: impl Iterator<Item = &'i EpollInterest>,
        files: &[Option<u64>],
    ) -> Result<(), EngineError> {
        let (fired, armed): (Vec<&EpollInterest>, Vec<&EpollInterest>) =
            interests.partition(|interest| interest.events & !HOW == 0);
        for interest in fired {
            self.add_interest(epoll, &EpollInterest { events: interest.events | ANYTHING, ..*interest }, files)?;
            self.call("firing an epoll entry", libc::SYS_epoll_wait, [epoll, self.process.scratch, 1, 0, 0, 0])?;
        }
        armed.into_iter().try_for_each(|interest| self.add_interest(epoll, interest, files))
    }

    /// Adds a file under the number that it once had, whatever that number means now.
    fn add_interest(&self, epoll: u64, interest: &EpollInterest, files: &[Option<u64>]) -> Result<(), EngineError> {
        let missing = || kernel("filling an epoll instance", std::io::ErrorKind::InvalidData.into());
        let file = files.get(interest.open_file as usize).copied().flatten().ok_or_else(missing)?;
        let number = interest.descriptor as u64;
        self.call("placing a watched file", libc::SYS_dup3, [file, number, 0, 0, 0, 0])?;
        // struct epoll_event is packed: four bytes, then eight.
        let event = [&interest.events.to_le_bytes()[..], &interest.data.to_le_bytes()].concat();
        let event = self.process.argument(&event)?;
        self.call("adding to an epoll instance", libc::SYS_epoll_ctl, [epoll, EPOLL_CTL_ADD, number, event, 0, 0])?;
        self.close(number)
    }

    pub(super) fn make_inotify(&self) -> Result<u64, EngineError> {
        self.call("making an inotify instance", libc::SYS_inotify_init1, [IN_NONBLOCK, 0, 0, 0, 0, 0])
    }

    fn fill_inotify(&self, instance: u64, watches: &[Watch], flags: u32) -> Result<(), EngineError> {
        for watch in watches {
            let wanted = watch.descriptor as u64;
            let action = format!("watching {}", watch.path);
            let path = self.process.path_argument(&watch.path.0)?;
            let add = || self.call(&action, libc::SYS_inotify_add_watch, [instance, path, watch.mask.into(), 0, 0, 0]);
            // The kernel numbers them in turn: those in between are made and removed again.
            let mut given = add()?;
            while given < wanted {
                self.call("removing a watch", libc::SYS_inotify_rm_watch, [instance, given, 0, 0, 0, 0])?;
                given = add()?;
            }
            if given != wanted {
                return Err(kernel(&action, std::io::Error::other("it came under another number")));
            }
        }
        // Removing has left events behind; what is not blocking says so at the end by an error.
        let read = [instance, self.process.scratch, SCRATCH_BYTES, 0, 0, 0];
        while self.call("emptying an inotify instance", libc::SYS_read, read).is_ok() {}
        self.set_flags(instance, flags)
    }
}
