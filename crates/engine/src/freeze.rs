//! Stops every task of a job and lets it run again.
//!
//! A freeze belongs to the thread that made it. If that thread ends for any reason, the kernel releases every task, and
//! each task has its own state or heals into it. So to abandon a freeze, return the error and end the thread.
//! [`stopping`] holds the chase for processes and threads that come and go meanwhile.

mod sleepers;
mod stopping;

use crate::error::kernel;
use crate::exit::Vitality;
use crate::forbidden::forbidden;
use crate::shared::{JobTracing, MainProcess, Shared};
use crate::tracer_lock::TracerLockGuard;
use crate::tree::{Member, Roots};
use crate::waits::Interrupted;
use crate::{Blocker, EngineError, ProcessIdentity, RefusalCode, restartable_sequences};
pub(crate) use sleepers::await_sleepers;
use standfast_linux::abi;
use standfast_linux::proc::Map;
use standfast_linux::sys::process;
use standfast_linux::{Pid, ProcessMemory, Registers, Standstill, Task, TaskError, Tid};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stopping::{OPTIONS, Stopping};

/// The pause between two looks at tasks that are still returning from an interrupted checkpoint.
const HEALING_PAUSE: Duration = Duration::from_millis(1);
/// How long we wait for the kernel to free the memory of a killed job, which it does at 10 GB a second.
const EXIT_MAX: Duration = Duration::from_secs(30);
/// How often a freeze starts over because a thread is inside the vdso. If a thread hardly ever leaves the vdso, the job
/// can be restarted only under the same kernel.
const SCANS_AT_VDSO_MAX: u32 = 3;
/// Size of the healing code, at the end of the vdso.
const HEALING_CODE_BYTES: u64 = 16;

/// A frozen job. Dropping it lets the job continue.
#[derive(Debug)]
pub struct Frozen {
    /// Parents before their children; the main process first.
    pub(crate) processes: Vec<FrozenProcess>,
    /// Children that have ended but have not been reaped.
    pub(crate) zombies: Vec<Member>,
    pub(crate) main: ProcessIdentity,
    /// The process that adopts processes of the job that lose their parent, if it is known.
    pub(crate) reaper: Option<Pid>,
    pub(crate) shared: Arc<Shared>,
    since: Instant,
    _tracer_lock: TracerLockGuard,
    /// A tracer is a thread, so this may not move to another thread.
    _thread: PhantomData<*const ()>,
}

/// One process of a frozen job.
#[derive(Debug)]
pub(crate) struct FrozenProcess {
    /// Its pid as this process sees it.
    pub(crate) pid: Pid,
    /// Its parent, if the parent belongs to the job.
    pub(crate) parent: Option<Pid>,
    /// Its tasks; the main thread first.
    pub(crate) tasks: Vec<FrozenTask>,
    pub(crate) memory: ProcessMemory,
    pub(crate) maps: Vec<Map>,
    /// The signal with which job control had stopped it.
    pub(crate) stopped_by: Option<i32>,
}

/// One frozen task.
#[derive(Debug)]
pub(crate) struct FrozenTask {
    pub(crate) task: Task,
    /// The registers with which it continues.
    pub(crate) registers: Registers,
    /// Blocked signals.
    pub(crate) mask: u64,
    /// The call that it will repeat after the thaw, if there is one.
    pub(crate) interrupted: Interrupted,
    /// Whether job control has stopped it.
    is_in_stop: bool,
}

impl Frozen {
    /// Stops a job.
    pub(crate) fn new(roots: Roots, shared: Arc<Shared>, limit: Duration) -> Result<Self, EngineError> {
        let tracer_lock = shared.tracing.tracer_lock.take();
        let mut stopping = Stopping::new(&shared.tracing, Instant::now(), limit);
        if shared.tracing.has_sleepers.load(Ordering::Relaxed) {
            stopping.stop_sleepers(&roots).map_err(|error| if_another_ended(error, roots.main))?;
        }
        let (begun, deadline) = stopping.times();
        let mut scans = 0;
        loop {
            let stopped = stopping.stop(&roots);
            let stopped = stopped.map_err(|error| if_another_ended(error, roots.main))?;
            // A thread inside the vdso could continue only under this kernel, and it leaves the vdso soon.
            scans += 1;
            let settled = |(processes, _): &(Vec<FrozenProcess>, _)| {
                let is_inside = |process| FrozenProcess::is_in_vdso(process) && scans <= SCANS_AT_VDSO_MAX;
                !processes.iter().any(|process| process.is_healing() || is_inside(process))
            };
            if let Some((processes, zombies)) = stopped.filter(settled) {
                // The main process may have ended while the others were being stopped.
                if processes.first().is_none_or(|first| first.pid != roots.main.pid) {
                    return Err(EngineError::Ended);
                }
                let Roots { main, reaper } = roots;
                let since = begun;
                return Ok(Self {
                    processes,
                    zombies,
                    main,
                    reaper,
                    shared,
                    since,
                    _tracer_lock: tracer_lock,
                    _thread: PhantomData,
                });
            }
            if Instant::now() > deadline {
                return Err(EngineError::Unstoppable {
                    tid: roots.main.pid.main_thread(),
                    stood_still: begun.elapsed(),
                });
            }
            std::thread::sleep(HEALING_PAUSE);
            stopping = Stopping::resumed(&shared.tracing, begun, deadline);
        }
    }

    /// Takes a job that was just rebuilt and has not run yet as a frozen one, with its threads, process by process.
    /// [`Self::forget`] must be called in the end, or they are let go.
    pub(crate) fn of_rebuilt(roots: Roots, shared: Arc<Shared>, threads: &[Vec<Tid>]) -> Result<Self, EngineError> {
        let (living, zombies): (Vec<Member>, _) =
            roots.members().into_iter().partition(|member| member.wait_status.is_none());
        let mut processes = Vec::new();
        for tids in threads {
            let pid = tids[0].as_process();
            let member = living.iter().find(|member| member.pid == pid).ok_or(EngineError::Ended)?;
            let memory = ProcessMemory::open(pid).map_err(|source| kernel("opening the new process", source))?;
            let standing = |tid: &Tid| {
                let mut task = Task::attached_by_clone(pid, *tid);
                if tids.len() == 1 {
                    task.is_alone();
                }
                FrozenTask::of_rebuilt(task, &shared.tracing).map_err(|error| refine(error, pid, &shared.tracing.main))
            };
            let tasks = tids.iter().map(standing).collect::<Result<_, _>>()?;
            let maps = Map::of(pid).map_err(|source| kernel("reading the program's mappings", source))?;
            processes.push((FrozenParts { pid, parent: member.parent, memory, maps }, tasks));
        }
        let processes = processes.into_iter().map(|(parts, tasks)| parts.with(tasks)).collect();
        let _tracer_lock = shared.tracing.tracer_lock.take();
        let Roots { main, reaper } = roots;
        Ok(Self { processes, zombies, main, reaper, shared, since: Instant::now(), _tracer_lock, _thread: PhantomData })
    }

    /// Gives up a rebuilt job without letting its threads go.
    pub(crate) fn forget(mut self) {
        self.processes.iter_mut().for_each(|process| process.tasks.clear());
    }

    /// Returns when the first of its threads stopped, or was asked to stop together with all others.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Returns all of its processes, the living first.
    pub(crate) fn members(&self) -> Vec<Member> {
        let living = self.processes.iter().map(|it| Member {
            pid: it.pid,
            parent: it.parent,
            wait_status: None,
            threads: it.tasks.len(),
        });
        living.chain(self.zombies.iter().cloned()).collect()
    }

    /// Has the kernel kill the job if we end while it is frozen, or no longer.
    pub(crate) fn die_with_us(&self, dies: bool) -> Result<(), EngineError> {
        let options = OPTIONS | if dies { abi::PTRACE_O_EXITKILL } else { 0 };
        for process in &self.processes {
            let set = |task: &FrozenTask| task.task.set_options(options);
            let all = process.tasks.iter().try_for_each(set);
            all.map_err(|error| refine(error, process.pid, &self.shared.tracing.main))?;
        }
        Ok(())
    }

    /// Ends the job with SIGKILL where it is.
    pub(crate) fn end(&self) {
        for process in &self.processes {
            // One that has ended already needs no signal.
            let _ = process::kill(process.pid, abi::SIGKILL);
        }
    }

    /// Lets the job continue.
    ///
    /// # Errors
    /// If its main process ended while the job was frozen.
    pub fn thaw(mut self) -> Result<(), EngineError> {
        let mut outcome = Ok(());
        // Children first, so that a parent finds them as it left them.
        while let Some(process) = self.processes.pop() {
            let let_go = process.let_go(&self.shared.tracing.main);
            if self.processes.is_empty() {
                outcome = let_go;
            }
        }
        outcome
    }

    /// Ends the job with SIGKILL where it is; it executes not one more instruction. Returns when its memory and files
    /// are free, or when the kernel takes too long to free them.
    ///
    /// # Errors
    /// If the job had already ended.
    pub fn kill(mut self) -> Result<(), EngineError> {
        let mut outcome = Ok(());
        for (place, frozen) in self.processes.iter().enumerate() {
            let killed = process::kill(frozen.pid, abi::SIGKILL).map_err(|source| kernel("ending the program", source));
            if place == 0 {
                outcome = killed;
            }
        }
        let deadline = Instant::now() + EXIT_MAX;
        let is_there = |it: &FrozenProcess| ProcessIdentity::of(it.pid).is_ok_and(|it| it.vitality() != Vitality::Gone);
        while self.processes.iter().any(is_there) && Instant::now() < deadline {
            std::thread::sleep(HEALING_PAUSE);
        }
        // In this order, parents learn of the ends of their children.
        self.processes.drain(..).for_each(drop);
        outcome
    }
}

/// A process of which every thread has been looked at, before it counts as frozen.
struct FrozenParts {
    pid: Pid,
    parent: Option<Pid>,
    memory: ProcessMemory,
    maps: Vec<Map>,
}

impl FrozenParts {
    fn with(self, tasks: Vec<FrozenTask>) -> FrozenProcess {
        let Self { pid, parent, memory, maps } = self;
        FrozenProcess { pid, parent, tasks, memory, maps, stopped_by: None }
    }
}

impl FrozenProcess {
    /// Reports whether a task is still in the healing code, left there by a tracer that died a moment ago.
    fn is_healing(&self) -> bool {
        let vdso = self.maps.iter().find(|map| map.path == b"[vdso]");
        vdso.is_some_and(|vdso| {
            let code = vdso.end - HEALING_CODE_BYTES..vdso.end;
            self.tasks.iter().any(|task| code.contains(&task.registers.instruction()))
        })
    }

    /// Reports whether a task is in the code that the kernel maps into every program.
    fn is_in_vdso(&self) -> bool {
        let vdso = self.maps.iter().find(|map| map.path == b"[vdso]");
        vdso.is_some_and(|vdso| self.tasks.iter().any(|task| vdso.contains(task.registers.instruction())))
    }

    /// Opens its memory again, since an exec after the first look has replaced the address space.
    fn renew_memory(&mut self) {
        // If this fails, the process has ended, and all later steps notice that.
        if let Ok(memory) = ProcessMemory::open(self.pid) {
            self.memory = memory;
        }
    }

    fn let_go(self, main: &MainProcess) -> Result<(), EngineError> {
        // The main thread comes last: when it runs, all run.
        self.tasks.iter().rev().try_for_each(|task| task.task.detach()).map_err(|error| refine(error, self.pid, main))
    }
}

impl Drop for FrozenProcess {
    fn drop(&mut self) {
        for task in self.tasks.iter().rev() {
            // If it is already detached or has ended, there is nothing left to release.
            let _ = task.task.detach();
        }
        // If a process was killed while it was frozen, we got its exit status, and reaping it here passes it on to its
        // parent. The main process is our own child, and its status is for the caller who asks how the job ended.
        let main = self.pid.main_thread();
        if self.parent.is_some() && process::has_ended(main) {
            let _ = process::wait(main, abi::WNOHANG);
        }
    }
}

impl FrozenTask {
    /// Inspects a frozen task and corrects what our stop and our injections would otherwise change: an EINTR that only
    /// the stop has caused, a restartable sequence that the kernel would forget to abort, and a time limit that would
    /// begin again.
    pub(crate) fn new(
        task: Task,
        stop: Standstill,
        memory: &ProcessMemory,
        tracing: &JobTracing,
    ) -> Result<Self, TaskError> {
        let stopped = task.registers()?;
        let mut registers = stopped;
        let is_forgiven = registers.forgive_interruption();
        if let Some(abort) = restartable_sequences::abort_handler(&task, &registers, memory)? {
            registers.set_instruction(abort);
            registers.forget_call();
        }
        let interrupted = tracing.waits().meet(task.process(), task.tid(), &mut registers, memory, is_forgiven);
        if registers != stopped {
            task.set_registers(&registers)?;
        }
        let is_in_stop = stop != Standstill::OurDoing;
        Ok(Self { mask: task.signal_mask()?, task, registers, interrupted, is_in_stop })
    }
}

impl FrozenTask {
    /// Inspects a task that was just rebuilt, and changes nothing.
    fn of_rebuilt(task: Task, tracing: &JobTracing) -> Result<Self, TaskError> {
        let registers = task.registers()?;
        let interrupted = tracing.waits().resumed(task.tid(), &registers);
        Ok(Self { mask: task.signal_mask()?, task, registers, interrupted, is_in_stop: false })
    }
}

/// Translates an error of a task into its meaning for the job, and keeps an exit status that can be read only once.
pub(crate) fn refine(error: TaskError, pid: Pid, main: &MainProcess) -> EngineError {
    match error {
        TaskError::Ended { tid, status } => {
            if let Some(status) = status.filter(|_| tid == pid.main_thread() && pid == main.pid) {
                main.keep_status(status);
            }
            EngineError::Ended
        }
        TaskError::TimedOut { tid } => EngineError::Unstoppable { tid, stood_still: Duration::ZERO },
        TaskError::Kernel { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            forbidden(pid, source)
        }
        TaskError::Kernel { action, source, .. } => kernel(action, source),
    }
}

/// How long it may take until we see that the main process has ended, after we saw one part of it end. The job is
/// frozen.
const END_SEEN_MAX: Duration = Duration::from_millis(50);

/// Reports whether a process still runs. A process that is being killed ends thread by thread, and may look alive for a
/// moment.
fn goes_on(main: ProcessIdentity) -> bool {
    let begin = Instant::now();
    while main.is_running() {
        if begin.elapsed() > END_SEEN_MAX {
            return true;
        }
        std::thread::sleep(HEALING_PAUSE);
    }
    false
}

/// Translates the error for a process that ended, if it was not the main process.
pub(crate) fn if_another_ended(error: EngineError, main: ProcessIdentity) -> EngineError {
    if matches!(error, EngineError::Ended) && goes_on(main) {
        return EngineError::Refused(vec![
            Blocker::new(
                RefusalCode::EndedMeanwhile,
                "a process of the program",
                "another program killed it during the checkpoint",
            )
            .for_now(),
        ]);
    }
    error
}
