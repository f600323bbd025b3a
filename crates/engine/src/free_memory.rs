//! Free memory is dead (M5): a thread of the program's own library gives it back before a checkpoint, where the run was asked
//! for that. The job is stopped for a moment to ring it, runs on, and is waited for, not for ever: whatever the program is
//! doing, its thread needs no more than the locks of the allocator.

use crate::EngineError;
use crate::directions::{heading_at_rest, write};
use crate::freeze::Frozen;
use crate::job::Freezer;
use standfast_core::Address;
use standfast_core::directions::{DirectivesHeader, give_back};
use standfast_linux::ProcessMemory;
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether a program has answered.
const SCAN_PAUSE: Duration = Duration::from_millis(1);

/// Programs that have been asked to give free memory back.
#[derive(Debug, Default)]
pub struct Asked(Vec<Program>);

#[derive(Debug)]
struct Program {
    memory: ProcessMemory,
    place: Address,
    /// What its library's count will be.
    times: u32,
}

impl Freezer {
    /// Whether the job's main program has such a thread. It may run.
    pub fn may_ask_for_free_memory(&self) -> bool {
        let found = ProcessMemory::open(self.main_process().pid).ok().and_then(|memory| heading_at_rest(&memory));
        found.is_some_and(|(_, header)| header.gives_back)
    }
}

impl Frozen {
    /// Asks all programs of the job that have such a thread, which answer when the job runs on.
    ///
    /// # Errors
    /// When one of them has ended meanwhile.
    pub fn ask_for_free_memory(&self) -> Result<Asked, EngineError> {
        let mut asked = Vec::new();
        for process in &self.processes {
            let Some((place, header)) = heading_at_rest(&process.memory) else { continue };
            if header.gives_back {
                let times = header.given.wrapping_add(1);
                write(&process.memory, place, &give_back(times))?;
                let Ok(memory) = ProcessMemory::open(process.pid) else { continue };
                asked.push(Program { memory, place, times });
            }
        }
        Ok(Asked(asked))
    }
}

impl Asked {
    /// Waits until all of them have answered, so long at most. The job runs.
    pub fn wait(self, most: Duration) {
        let begun = Instant::now();
        let answers = |program: &Program| {
            let header = heading_at_rest(&program.memory).filter(|(place, _)| *place == program.place);
            header.is_none_or(|(_, DirectivesHeader { given, .. })| given == program.times)
        };
        for program in self.0 {
            while !answers(&program) && begun.elapsed() < most {
                thread::sleep(SCAN_PAUSE);
            }
        }
    }
}
