//! Free memory is dead (M5). If the run was configured for it, a thread of the program's own library returns free memory
//! before a checkpoint. The job is stopped for a moment to notify that thread, then runs again, and we wait for a
//! limited time. Whatever the program is doing, its thread needs only the locks of the allocator.

use crate::EngineError;
use crate::directions::{heading_at_rest, write};
use crate::freeze::Frozen;
use crate::job::Freezer;
use standfast_core::Address;
use standfast_core::directions::{DirectivesHeader, give_back};
use standfast_linux::ProcessMemory;
use std::thread;
use std::time::{Duration, Instant};

/// The pause between two checks whether a program has answered.
const SCAN_PAUSE: Duration = Duration::from_millis(1);

/// Programs that have been asked to return free memory.
#[derive(Debug, Default)]
pub struct Asked(Vec<Program>);

#[derive(Debug)]
struct Program {
    memory: ProcessMemory,
    place: Address,
    /// The count of its library after the answer.
    times: u32,
}

impl Freezer {
    /// Reports whether the job's main program has such a thread. The program may run.
    pub fn may_ask_for_free_memory(&self) -> bool {
        let found = ProcessMemory::open(self.main_process().pid).ok().and_then(|memory| heading_at_rest(&memory));
        found.is_some_and(|(_, header)| header.gives_back)
    }
}

impl Frozen {
    /// Asks all programs of the job that have such a thread; they answer when the job runs again.
    ///
    /// # Errors
    /// If one of them has ended meanwhile.
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
    /// Waits until all of them have answered, for at most `most`. The job runs.
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
