//! Makes the main process of a job, and lets processes execute their programs. Each is stopped after its exec, with
//! only the scratch in its memory.

use super::ids::IdPolicy;
use super::namespaces::{ClockPolicy, hold};
use super::plan::{JobPlan, Plan};
use crate::EngineError;
use crate::construction::{Construction, building, end_processes};
use crate::error::kernel;
use standfast_core::Address;
use standfast_linux::abi;
use standfast_linux::proc::Map;
use standfast_linux::{HeldProgram, InheritedSignals, ProcessMemory, SYSCALL_INSTRUCTION, Stop, Task};
use std::sync::Arc;

/// Options during construction: its threads and children are attached, its exec is reported, and it dies with us.
const BUILDING: i32 = abi::PTRACE_O_TRACESYSGOOD
    | abi::PTRACE_O_TRACECLONE
    | abi::PTRACE_O_TRACEFORK
    | abi::PTRACE_O_TRACEEXEC
    | abi::PTRACE_O_EXITKILL;
const ALL_SIGNALS: u64 = u64::MAX;

impl Construction {
    /// Makes the job's main process and lets it execute its program. It is stopped after its exec, with only the
    /// scratch in its memory.
    pub(super) fn begin(
        plan: &JobPlan<'_>,
        ids: IdPolicy,
        clocks: ClockPolicy,
        signals: InheritedSignals,
    ) -> Result<Self, EngineError> {
        let main = plan.of(0);
        let program = HeldProgram { path: main.executable, personality: main.process.personality };
        let (init, held, ids) = hold(plan, ids, clocks, program, signals)?;
        let pid = held.pid;
        let begun = Task::seize(pid, pid.main_thread(), BUILDING).map_err(building).and_then(|task| {
            held.let_go().map_err(|source| kernel("starting the new process", source))?;
            wait_for_exec(&task, &main)?;
            task.set_signal_mask(ALL_SIGNALS).map_err(building)?;
            Ok(task)
        });
        let begun = begun.and_then(|task| {
            let mut this = Self::of(task, main.scratch, ids)?;
            this.begin_again(&main)?;
            Ok(this)
        });
        let init = init.map(Arc::new);
        match begun {
            Ok(this) => Ok(Self { init, ..this }),
            Err(error) => {
                end_processes(&[pid], &[], init);
                Err(error)
            }
        }
    }

    /// Lets it execute the program of `plan`. Then nothing of its maker remains but its descriptors.
    pub(super) fn execute(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let personality = plan.process.personality.into();
        self.call("setting the execution domain", abi::SYS_personality, [personality, 0, 0, 0, 0, 0])?;
        let path = self.path_argument(plan.executable.to_bytes())?;
        // Argument vector and environment: the path, and nothing.
        let vector = path + (plan.executable.count_bytes() as u64 + 1).next_multiple_of(8);
        let words: Vec<u8> = [path, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        self.memory
            .write(Address::new(vector), &words)
            .map_err(|source| kernel("writing into the new process", source))?;
        let action = format!("executing {}", plan.process.executable.path);
        self.call(&action, abi::SYS_execve, [path, vector, vector + 8, 0, 0, 0])?;
        self.base = self.main().registers().map_err(building)?;
        self.memory = ProcessMemory::open(self.pid()).map_err(|source| kernel("opening the new process", source))?;
        self.begin_again(plan)
    }

    /// Throws its memory away and maps the scratch.
    pub(super) fn begin_again(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        self.syscall = self.find_syscall()?;
        self.clear()?;
        self.scratch = plan.scratch;
        self.map_scratch()
    }

    fn find_syscall(&self) -> Result<u64, EngineError> {
        let reading = |source| kernel("reading the new process", source);
        let maps = Map::of(self.pid()).map_err(reading)?;
        let missing = || kernel("looking for the new process's vdso", std::io::ErrorKind::NotFound.into());
        let vdso = maps.iter().find(|map| map.path == b"[vdso]").ok_or_else(missing)?;
        let mut code = vec![0u8; vdso.range().bytes() as usize];
        self.memory.read(Address::new(vdso.start), &mut code).map_err(reading)?;
        let place = code.windows(2).position(|bytes| bytes == SYSCALL_INSTRUCTION).ok_or_else(missing)?;
        Ok(vdso.start + place as u64)
    }
}

fn wait_for_exec(task: &Task, plan: &Plan<'_>) -> Result<(), EngineError> {
    let failed = |_| {
        kernel(
            &format!("executing {}", plan.process.executable.path),
            std::io::Error::other("the new process ended instead"),
        )
    };
    loop {
        match task.wait().map_err(failed)? {
            Stop::Event(abi::PTRACE_EVENT_EXEC) => break,
            _ => task.resume(0).map_err(building)?,
        }
    }
    // Leaves execve itself: its registers are those of the new program, about to start.
    task.resume_to_syscall(0).map_err(building)?;
    task.wait().map_err(failed).map(drop)
}
