//! Open files that the kernel makes of itself: event counters and epoll instances.

use super::{O_NONBLOCK, Opening};
use crate::EngineError;
use standfast_format::records::{EpollInterest, OpenFileKind};

const EFD_SEMAPHORE: u64 = libc::EFD_SEMAPHORE as u64;
const EPOLL_CTL_ADD: u64 = libc::EPOLL_CTL_ADD as u64;

impl Opening<'_> {
    pub(super) fn make_counter(&self, count: u64, semaphore: bool, flags: u32) -> Result<u64, EngineError> {
        let semaphore = if semaphore { EFD_SEMAPHORE } else { 0 };
        let flags = u64::from(flags & O_NONBLOCK) | semaphore;
        let counter = self.call("making an event counter", libc::SYS_eventfd2, [0, flags, 0, 0, 0, 0])?;
        // The initial value that the call takes has 32 bits only.
        if count > 0 {
            let word = self.process.argument(&count.to_le_bytes())?;
            self.call("setting an event counter", libc::SYS_write, [counter, word, 8, 0, 0, 0])?;
        }
        Ok(counter)
    }

    /// Fills the epoll instances, once everything that they watch is in its place.
    pub(super) fn watch(&self, files: &[u64]) -> Result<(), EngineError> {
        for (file, parked) in self.plan.job.open_files.iter().zip(files) {
            if let OpenFileKind::Epoll { interests } = &file.kind {
                interests.iter().try_for_each(|interest| self.add_interest(*parked, interest))?;
            }
        }
        Ok(())
    }

    fn add_interest(&self, epoll: u64, interest: &EpollInterest) -> Result<(), EngineError> {
        // struct epoll_event is packed: four bytes, then eight.
        let event = [&interest.events.to_le_bytes()[..], &interest.data.to_le_bytes()].concat();
        let event = self.process.argument(&event)?;
        let arguments = [epoll, EPOLL_CTL_ADD, interest.descriptor as u64, event, 0, 0];
        self.call("adding to an epoll instance", libc::SYS_epoll_ctl, arguments).map(drop)
    }
}
