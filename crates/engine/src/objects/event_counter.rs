//! Event counters (eventfd): their count is saved in the image.

use super::{Kind, Known, O_NONBLOCK, Opening, Recorded, Unsupported, Walk, nothing};
use crate::{EngineError, RefusalCode};
use standfast_format::records::OpenFileKind;
use standfast_linux::abi;

const EFD_SEMAPHORE: u64 = abi::EFD_SEMAPHORE as u64;

pub(super) const KIND: Kind = Kind { collect, check: nothing, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    (shown.target == b"anon_inode:[eventfd]").then(|| match shown.information.event_count {
        Some(count) => Ok(OpenFileKind::EventCounter { count, semaphore: shown.information.event_semaphore }),
        None => Err(Unsupported::because(RefusalCode::KernelTooOld, "this kernel does not tell its count")),
    })
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::EventCounter { count, semaphore } = recorded.kind else { return None };
    Some(opening.make_counter(*count, *semaphore, recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::EventCounter { count, semaphore } = kind else { return None };
    Some(format!("eventfd{} with count {count}", if *semaphore { " (semaphore)" } else { "" }))
}

impl Opening<'_> {
    fn make_counter(&self, count: u64, semaphore: bool, flags: u32) -> Result<u64, EngineError> {
        let semaphore = if semaphore { EFD_SEMAPHORE } else { 0 };
        let flags = u64::from(flags & O_NONBLOCK) | semaphore;
        let counter = self.call("making an event counter", abi::SYS_eventfd2, [0, flags, 0, 0, 0, 0])?;
        // The initial value that the call takes has only 32 bits.
        if count > 0 {
            let word = self.process.argument(&count.to_le_bytes())?;
            self.call("setting an event counter", abi::SYS_write, [counter, word, 8, 0, 0, 0])?;
        }
        Ok(counter)
    }
}
