//! Event counters (eventfd): their count is saved in the image, and whether they are semaphores. Before Linux 6.5 the
//! kernel does not show the latter, so a process that has the counter open must try.

use super::{Descriptors, Kind, Known, O_NONBLOCK, Opening, Recorded, Unsupported, Walk, nothing};
use crate::remote_caller::RemoteCaller;
use crate::{EngineError, RefusalCode};
use standfast_format::records::OpenFileKind;
use standfast_linux::{ProcessMemory, abi};

const EFD_SEMAPHORE: u64 = abi::EFD_SEMAPHORE as u64;

pub(super) const KIND: Kind = Kind { collect, check: nothing, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    if shown.target != b"anon_inode:[eventfd]" {
        return None;
    }
    let Some(count) = shown.information.event_count else {
        return Some(Err(Unsupported::because(RefusalCode::KernelTooOld, "this kernel does not report its count")));
    };
    if shown.information.event_semaphore.is_none() {
        if shown.holder == walk.processes() {
            let why = "it is in an unread message, and this kernel does not report whether it is a semaphore";
            return Some(Err(Unsupported::for_now(RefusalCode::KernelTooOld, why)));
        }
        let (number, open_file) = (shown.number, walk.known.len() as u32);
        let counter = SilentCounter { holder: shown.holder, number, open_file, count };
        walk.found.silent_counters.push(counter);
    }
    let semaphore = shown.information.event_semaphore.unwrap_or(false);
    Some(Ok(OpenFileKind::EventCounter { count, semaphore }))
}

/// A counter of which the kernel does not show whether it is a semaphore.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SilentCounter {
    /// The place of a process that has it open, and under which number.
    pub(super) holder: usize,
    number: i32,
    open_file: u32,
    count: u64,
}

/// Words that the calls of a question need.
const ONE: u64 = 0;
const TWO: u64 = 1;
const TAKEN: u64 = 2;
const REST: u64 = 3;
/// Vectors of one word each: where a read puts what it takes, and where it puts a rest.
const TO_TAKEN: u64 = 4;
const TO_REST: u64 = 6;
const WORD: u64 = 8;

impl SilentCounter {
    /// Reports whether it is a semaphore, of which a read takes 1 instead of everything. The process reads, and writes
    /// back what it has taken. If we die meanwhile, it still makes all of these calls, and no other task runs between
    /// them. The reads never wait.
    pub(crate) fn ask(self, caller: &RemoteCaller<'_>, memory: &ProcessMemory) -> Result<bool, EngineError> {
        let output = caller.injector.output();
        let at = |word: u64| output.get() + word * WORD;
        let words = [1, 2, 0, 0, at(TAKEN), WORD, at(REST), WORD];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        memory.write(output, &bytes).map_err(|_| EngineError::Ended)?;
        let number = self.number as u64;
        let mut batch = caller.batch();
        let read = |vector| (abi::SYS_preadv2, [number, at(vector), 1, u64::MAX, 0, abi::RWF_NOWAIT as u64]);
        let write = |word| (abi::SYS_write, [number, at(word), WORD, 0, 0, 0]);
        let calls: &[_] = match self.count {
            0 => &[write(TWO), read(TO_TAKEN), read(TO_REST)],
            1 => &[read(TO_REST), write(TWO), read(TO_TAKEN), read(TO_REST), write(ONE)],
            _ => &[read(TO_TAKEN), write(TAKEN)],
        };
        for (call, arguments) in calls {
            batch.call(*call, *arguments);
        }
        caller.put(&batch)?;
        let mut said = [0u8; (TO_TAKEN * WORD) as usize];
        caller.injector.read_output(&mut said).map_err(|_| EngineError::Ended)?;
        Ok(said.as_chunks::<8>().0[TAKEN as usize] == 1u64.to_le_bytes())
    }
}

impl Descriptors {
    /// Returns the counters that the process at a place must be asked about.
    pub(crate) fn silent_counters(&self, place: usize) -> Vec<SilentCounter> {
        self.silent_counters.iter().copied().filter(|counter| counter.holder == place).collect()
    }

    /// Records that a counter is a semaphore.
    pub(crate) fn keep_semaphore(&mut self, counter: SilentCounter) {
        let open_file = self.open_files.get_mut(counter.open_file as usize);
        if let Some(OpenFileKind::EventCounter { semaphore, .. }) = open_file.map(|it| &mut it.kind) {
            *semaphore = true;
        }
    }
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
