//! Open files without a name, which the kernel makes of itself: event counters, epoll instances, and what is refused.

use super::shown::Shown;
use super::{Known, Unfit, Walk};
use standfast_format::records::{EpollInterest, OpenFileKind};
use standfast_linux::proc::DescriptorInformation;

impl Walk<'_> {
    pub(super) fn anonymous(&self, shown: &Shown) -> Known {
        let information = &shown.information;
        match shown.target.as_slice() {
            b"anon_inode:[eventfd]" => match information.event_count {
                Some(count) => Ok(OpenFileKind::EventCounter { count, semaphore: information.event_semaphore }),
                None => Err(Unfit::because("this kernel does not tell its count")),
            },
            b"anon_inode:[eventpoll]" => self.epoll(shown.holder, information),
            b"anon_inode:[io_uring]" => Err(Unfit::with_remedy(
                "io_uring cannot be checkpointed: the kernel may be writing into the program's memory",
                "Node.js: set UV_USE_IO_URING=0",
            )),
            _ => Err(Unfit::because("a descriptor of this kind cannot be brought back yet")),
        }
    }

    fn epoll(&self, holder: usize, information: &DescriptorInformation) -> Known {
        let mut interests = Vec::new();
        for target in &information.epoll_targets {
            let is_watched = |shown: &&Shown| shown.holder == holder && shown.number == target.descriptor;
            let watched = self.shown.iter().find(is_watched);
            if watched.is_none_or(|watched| watched.identity().1 != target.inode) {
                let why = format!(
                    "it still watches descriptor {}, which has been closed or means something else now",
                    target.descriptor
                );
                return Err(Unfit::with_remedy(why, "remove descriptors from epoll before closing them"));
            }
            interests.push(EpollInterest { descriptor: target.descriptor, events: target.events, data: target.data });
        }
        Ok(OpenFileKind::Epoll { interests })
    }
}
