//! A process under construction: held, seized, executing the right program, and doing as it is told.
//!
//! It is tied to us twice: the kernel kills it when its tracer ends (`PTRACE_O_EXITKILL`), and the init of its namespaces
//! ends when our end of their line closes. The commit cuts both ties.

use super::ids::{IdPolicy, JobIds};
use super::namespaces::hold;
use super::objects::Object;
use super::plan::{Plan, SCRATCH_BYTES};
use crate::EngineError;
use crate::freeze::kernel;
use standfast_core::Address;
use standfast_format::ImageSource;
use standfast_linux::proc::Map;
use standfast_linux::sys::process;
use standfast_linux::{
    Answer, HeldProgram, InheritedSignals, NamespaceInit, PinnedToCpu, ProcessMemory, Registers, SYSCALL_INSTRUCTION,
    Stop, Task, TaskError,
};

/// While it is built: new threads are attached, its exec is told, and it dies with us.
const BUILDING: i32 =
    libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
const ALL_SIGNALS: u64 = u64::MAX;

/// A process under construction.
#[derive(Debug)]
pub(super) struct Construction {
    /// Its main thread first.
    pub(super) tasks: Vec<Task>,
    /// The main thread's registers to inject with.
    pub(super) base: Registers,
    /// Address of a `syscall` instruction in its vdso, wherever that is at the moment.
    pub(super) syscall: u64,
    pub(super) memory: ProcessMemory,
    pub(super) init: Option<NamespaceInit>,
    /// Under which ids it will run.
    pub(super) ids: JobIds,
    /// Addresses of the scratch memory.
    pub(super) scratch: u64,
    /// The memory objects, in the order of the image.
    pub(super) objects: Vec<Object>,
    /// Its threads' ids as it sees them itself.
    pub(super) inner_ids: Vec<i32>,
    /// What it will go on without.
    pub(super) notes: Vec<String>,
}

impl Construction {
    /// Makes the process and lets it execute the job's program; it stands still behind its exec.
    pub(super) fn begin(plan: &Plan<'_>, policy: IdPolicy, signals: InheritedSignals) -> Result<Self, EngineError> {
        let program = HeldProgram { path: &plan.executable, personality: plan.process.personality };
        let (init, held, ids) = hold(plan, policy, program, signals)?;
        let pid = held.pid;
        let begun = Task::seize(pid, pid, BUILDING).map_err(building).and_then(|task| {
            held.let_go().map_err(|source| kernel("starting the new process", source))?;
            wait_for_exec(&task, plan)?;
            let base = task.registers().map_err(building)?;
            let memory = ProcessMemory::open(pid).map_err(|source| kernel("opening the new process", source))?;
            Ok((task, base, memory))
        });
        match begun {
            Ok((task, base, memory)) => {
                task.set_signal_mask(ALL_SIGNALS).map_err(building)?;
                Ok(Self {
                    tasks: vec![task],
                    base,
                    syscall: 0,
                    memory,
                    init,
                    ids,
                    scratch: plan.scratch,
                    objects: Vec::new(),
                    inner_ids: Vec::new(),
                    notes: Vec::new(),
                })
            }
            Err(error) => {
                end_process(pid, &[], init);
                Err(error)
            }
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.main().tid()
    }

    pub(super) fn main(&self) -> &Task {
        &self.tasks[0]
    }

    pub(super) fn build(&mut self, plan: &Plan<'_>, source: &dyn ImageSource) -> Result<(), EngineError> {
        let pinned = PinnedToCpu::new(standfast_linux::proc::Stat::of(self.pid()).map(|stat| stat.cpu).unwrap_or(0));
        self.syscall = self.find_syscall()?;
        self.map_everything(plan)?;
        drop(pinned);
        self.deliver_pages(plan, source)?;
        let _pinned = PinnedToCpu::new(standfast_linux::proc::Stat::of(self.pid()).map(|stat| stat.cpu).unwrap_or(0));
        self.map_shared_objects(plan)?;
        self.refuse_held_locks(plan, source)?;
        self.guard(plan)?;
        self.lock(plan)?;
        self.protect(plan)?;
        self.set_layout(plan)?;
        self.set_attributes(plan)?;
        self.open_descriptors(plan)?;
        self.make_threads(plan)?;
        self.finish_threads(plan)
    }

    /// Cuts the ties, the last one being the commit, and lets the job run.
    pub(super) fn commit(&mut self) -> Result<Option<NamespaceInit>, EngineError> {
        for task in &self.tasks {
            task.set_options(libc::PTRACE_O_TRACESYSGOOD).map_err(building)?;
        }
        if let Some(init) = &self.init {
            init.commit().map_err(|source| kernel("handing over to the job's init", source))?;
        }
        for task in self.tasks.iter().rev() {
            task.detach().map_err(building)?;
        }
        Ok(self.init.take())
    }

    /// Removes what has been built.
    pub(super) fn abandon(self) {
        let others: Vec<i32> = self.tasks.iter().skip(1).map(Task::tid).collect();
        end_process(self.pid(), &others, self.init);
    }

    /// Makes the main thread execute a system call; an error of the kernel's is an error here.
    pub(super) fn call(&self, action: &str, number: i64, arguments: [u64; 6]) -> Result<u64, EngineError> {
        self.call_in(self.main(), &self.base, action, number, arguments)
    }

    /// The same of any thread.
    pub(super) fn call_in(
        &self,
        task: &Task,
        base: &Registers,
        action: &str,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<u64, EngineError> {
        self.ask(task, base, action, number, arguments).map(|answer| answer.result as u64)
    }

    /// The same, with the new task that the call may have made.
    pub(super) fn ask(
        &self,
        task: &Task,
        base: &Registers,
        action: &str,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<Answer, EngineError> {
        let answer = task.call(base, self.syscall, number, arguments).map_err(building)?;
        if (-4095..0).contains(&answer.result) {
            return Err(kernel(action, std::io::Error::from_raw_os_error(-answer.result as i32)));
        }
        Ok(answer)
    }

    /// Puts an argument of an injected call into the scratch memory; returns its address.
    pub(super) fn argument(&self, bytes: &[u8]) -> Result<u64, EngineError> {
        assert!(bytes.len() as u64 <= SCRATCH_BYTES, "arguments fit the scratch memory");
        let writing = |source| kernel("writing into the new process", source);
        self.memory.write(Address::new(self.scratch), bytes).map_err(writing)?;
        Ok(self.scratch)
    }

    /// A path as an argument of an injected call.
    pub(super) fn path_argument(&self, path: &[u8]) -> Result<u64, EngineError> {
        self.argument(&[path, b"\0"].concat())
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
            Stop::Event(libc::PTRACE_EVENT_EXEC) => break,
            _ => task.resume(0).map_err(building)?,
        }
    }
    // Out of execve itself: its registers are those of the new program, about to start.
    task.resume_to_syscall(0).map_err(building)?;
    task.wait().map_err(failed).map(drop)
}

/// The init of a namespace cannot end before every process in it has been reaped, and we are the tracer of all: reap
/// first, then end the init.
fn end_process(pid: i32, other_threads: &[i32], init: Option<NamespaceInit>) {
    // Errors mean that it is gone already.
    let _ = process::kill(pid, libc::SIGKILL);
    for tid in other_threads.iter().chain([&pid]) {
        while process::wait(*tid, 0).is_ok_and(|status| status.is_some_and(|status| status & 0xff == 0x7f)) {}
    }
    if let Some(init) = init {
        init.destroy();
    }
}

pub(super) fn building(error: TaskError) -> EngineError {
    match error {
        TaskError::Kernel { action, source, .. } => kernel(&format!("{action} of the new process"), source),
        TaskError::Ended { .. } | TaskError::TimedOut { .. } => {
            kernel("building the new process", std::io::Error::other("somebody killed it; restart the job once more"))
        }
    }
}
