//! A process under construction: held, seized, executing the right program, and doing as it is told.
//!
//! This file makes one and has it do system calls; [`super::family`] makes a job of several.
//!
//! It is tied to us twice: the kernel kills it when its tracer ends (`PTRACE_O_EXITKILL`), and the init of its namespaces
//! ends when our end of their line closes. The commit cuts both ties.

use super::ids::{IdPolicy, JobIds};
use super::namespaces::{ClockPolicy, hold};
use super::objects::Object;
use super::plan::{JobPlan, Plan};
use crate::EngineError;
use crate::error::kernel;
use crate::scratch::SCRATCH_BYTES;
use crate::waits::Waits;
use standfast_core::Address;
use standfast_linux::proc::Map;
use standfast_linux::sys::process;
use standfast_linux::{
    Answer, HeldProgram, InheritedSignals, NamespaceInit, ProcessMemory, Registers, SYSCALL_INSTRUCTION, Stop, Task,
    TaskError,
};
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// While it is built: its threads and children are attached, its exec is told, and it dies with us.
const BUILDING: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL;
const ALL_SIGNALS: u64 = u64::MAX;
/// What the owner of a file needs to open it in any way.
const OWNER_USES: u32 = 0o600;

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
    /// The init of the job's namespaces.
    pub(super) init: Option<Arc<NamespaceInit>>,
    /// Under which ids it will run.
    pub(super) ids: JobIds,
    /// Addresses of the scratch memory.
    pub(super) scratch: u64,
    /// The memory objects of the job, in the order of the image.
    pub(super) objects: Arc<Vec<Object>>,
    /// Its threads' ids as it sees them itself.
    pub(super) inner_ids: Vec<i32>,
    /// What it will go on without.
    pub(super) notes: Vec<String>,
    /// The waits that its threads go on with.
    pub(super) waits: Waits,
}

impl Construction {
    /// Makes the job's main process and lets it execute its program; it stands still behind its exec, with nothing in its
    /// memory but the scratch.
    pub(super) fn begin(
        plan: &JobPlan<'_>,
        policies: (IdPolicy, ClockPolicy),
        signals: InheritedSignals,
    ) -> Result<Self, EngineError> {
        let main = plan.of(0);
        let program = HeldProgram { path: main.executable, personality: main.process.personality };
        let (init, held, ids) = hold(plan, policies, program, signals)?;
        let pid = held.pid;
        let begun = Task::seize(pid, pid, BUILDING).map_err(building).and_then(|task| {
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

    /// A process that has nothing yet but a main thread.
    fn of(task: Task, scratch: u64, ids: JobIds) -> Result<Self, EngineError> {
        let memory = ProcessMemory::open(task.tid()).map_err(|source| kernel("opening the new process", source))?;
        Ok(Self {
            base: task.registers().map_err(building)?,
            tasks: vec![task],
            syscall: 0,
            memory,
            init: None,
            ids,
            scratch,
            objects: Arc::default(),
            inner_ids: Vec::new(),
            notes: Vec::new(),
            waits: Waits::default(),
        })
    }

    /// A child of this process, which has nothing in its memory yet but the scratch. It stands still, in the same state.
    /// `flags` are those of clone(2), with the signal that tells of its end. `id` is what the two see it as; without one
    /// the kernel chooses.
    pub(super) fn fork(&self, flags: i32, id: Option<i32>) -> Result<Self, EngineError> {
        if let (Some(init), Some(id)) = (&self.init, id) {
            init.choose_next_id(id).map_err(|source| kernel("choosing a process id", source))?;
        }
        let flags = flags as u64;
        let answer = self.ask(self.main(), &self.base, "making a process", libc::SYS_clone, [flags, 0, 0, 0, 0, 0])?;
        let failed = |reason: String| kernel("making a process", std::io::Error::other(reason));
        let pid = answer.new_task.ok_or_else(|| failed("the kernel did not attach it".to_owned()))?;
        let task = Task::attached_by_clone(pid, pid);
        match task.wait().map_err(building)? {
            Stop::Asked => {}
            stop => return Err(failed(format!("unexpected stop {stop:?}"))),
        }
        if let Some(id) = id.filter(|id| i64::from(*id) != answer.result) {
            end_processes(&[pid], &[], None);
            return Err(failed(format!("it got the id {} instead of {id}", answer.result)));
        }
        let child = Self::of(task, self.scratch, self.ids.clone())?;
        let (init, objects) = (self.init.clone(), Arc::clone(&self.objects));
        Ok(Self { syscall: self.syscall, init, objects, ..child })
    }

    /// Lets it execute the program of `plan`: what it has of its maker is gone then, but for its descriptors.
    pub(super) fn execute(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let personality = plan.process.personality.into();
        self.call("setting the execution domain", libc::SYS_personality, [personality, 0, 0, 0, 0, 0])?;
        let path = self.path_argument(plan.executable.to_bytes())?;
        // Argument vector and environment: the path, and nothing.
        let vector = path + (plan.executable.count_bytes() as u64 + 1).next_multiple_of(8);
        let words: Vec<u8> = [path, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        self.memory
            .write(Address::new(vector), &words)
            .map_err(|source| kernel("writing into the new process", source))?;
        let action = format!("executing {}", plan.process.executable.path);
        self.call(&action, libc::SYS_execve, [path, vector, vector + 8, 0, 0, 0])?;
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

    pub(super) fn pid(&self) -> i32 {
        self.main().tid()
    }

    pub(super) fn main(&self) -> &Task {
        &self.tasks[0]
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

    /// Opens a file by its path, also where its owner, who we are, has taken rights from himself since it was opened.
    pub(super) fn open(&self, action: &str, path: &[u8], flags: u32) -> Result<u64, EngineError> {
        let open = || self.call(action, libc::SYS_open, [self.path_argument(path)?, flags.into(), 0, 0, 0, 0]);
        let denied = match open() {
            Err(EngineError::Kernel { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => source,
            opened => return opened,
        };
        let file = Path::new(OsStr::from_bytes(path));
        let changing = |source| kernel(action, source);
        let rights = match std::fs::metadata(file) {
            Ok(found) if found.uid() == process::effective_user() && !found.is_dir() => found.permissions(),
            _ => return Err(changing(denied)),
        };
        let more = Permissions::from_mode(rights.mode() | OWNER_USES);
        std::fs::set_permissions(file, more).map_err(changing)?;
        let opened = open();
        std::fs::set_permissions(file, rights).map_err(changing)?;
        opened
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

/// Ends processes under construction, and their namespaces with all that is in them.
pub(super) fn end_processes(pids: &[i32], other_threads: &[i32], init: Option<Arc<NamespaceInit>>) {
    // Errors mean that it is gone already.
    pids.iter().for_each(|pid| drop(process::kill(*pid, libc::SIGKILL)));
    for tid in other_threads.iter().chain(pids) {
        while process::wait(*tid, 0).is_ok_and(|status| status.is_some_and(|status| status & 0xff == 0x7f)) {}
    }
    if let Some(init) = init.and_then(Arc::into_inner) {
        // The init of a namespace cannot end before every process in it has been reaped, and we are the tracer of all.
        let _ = process::kill(init.pid(), libc::SIGKILL);
        while process::wait_for_any().is_ok_and(|pid| pid != init.pid()) {}
        init.destroy();
    }
}

pub(super) fn building(error: TaskError) -> EngineError {
    match error {
        TaskError::Kernel { action, source, .. } => kernel(&format!("{action} of the new process"), source),
        TaskError::Ended { .. } | TaskError::TimedOut { .. } => kernel(
            "building the new process",
            std::io::Error::other("another program killed it; restart the job once more"),
        ),
    }
}
