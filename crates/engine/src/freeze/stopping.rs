//! The chase: stops a tree of processes that fork, execute programs and end while they are being stopped.
//!
//! If a seized task forks, the kernel attaches its child to us, so no process escapes by forking. We repeat the walk
//! until it finds no new process and every known one has stopped or ended.
//!
//! The parent of a vfork(2) does not stop before its child has executed a program or ended, and we cannot detach it
//! meanwhile. So we let such a child run until then. A task that the kernel has put to sleep for a disk does not stop
//! either. If no further task stops, the freeze fails, and the end of this thread releases the parent.

use super::sleepers::asleep;
use super::{FrozenProcess, FrozenTask, refine};
use crate::error::kernel;
use crate::forbidden::forbidden;
use crate::shared::JobTracing;
use crate::tree::{Member, Roots, borrows_memory};
use crate::{EngineError, pool};
use standfast_linux::abi;
use standfast_linux::proc::{self, Map, Stat, Status};
use standfast_linux::sys::process;
use standfast_linux::{Pid, ProcessMemory, Standstill, Task, TaskError, Tid};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What the kernel attaches to us. Children of vfork are excluded, see above.
pub(super) const OPTIONS: i32 = abi::PTRACE_O_TRACESYSGOOD | abi::PTRACE_O_TRACEFORK | abi::PTRACE_O_TRACECLONE;
/// How often we look again without sleeping: a stop takes 11 to 140 us, a sleep at least 50.
const SCANS_BEFORE_SLEEP: u32 = 200;
const SLEEP: Duration = Duration::from_micros(100);

/// How long the other tasks stay stopped for tasks that sleep in the kernel, when no further task stops. With many
/// sleepers, one stops after the other, and each restarts this limit.
const ASLEEP_MAX: Duration = Duration::from_millis(200);
/// The same for tasks that need a processor: on a busy machine, or under a limit of processor time, they get one late.
const READY_MAX: Duration = Duration::from_secs(2);
/// How long we wait for tasks that slept before the others are stopped, when none of them wakes.
const WAKING_MAX: Duration = Duration::from_secs(1);
/// The pause between two looks at them; the job runs meanwhile.
const WAKING_PAUSE: Duration = Duration::from_millis(1);
/// How many looks must find no progress. A look at hundreds of processes takes some time on a busy machine.
const SCANS_MIN: u32 = 5;

/// Stopped processes, in the order of [`Roots::members`], and zombies.
pub(super) type Stopped = (Vec<FrozenProcess>, Vec<Member>);

/// A way to find out whether a task has stopped.
type Scan = fn(&Task) -> Result<Option<Standstill>, TaskError>;

/// A freeze under way.
pub(super) struct Stopping<'a> {
    tracing: &'a JobTracing,
    begun: Instant,
    deadline: Instant,
    progress: Progress,
    /// Processes that are being stopped, or are stopped.
    chased: Vec<Chased>,
}

/// How many tasks are stopped, how many are not yet, since when that has been so, and how many looks found it.
struct Progress {
    still: usize,
    stopping: usize,
    since: Instant,
    scans: u32,
}

/// One process that is being stopped.
struct Chased {
    frozen: FrozenProcess,
    /// Tasks that have been asked to stop.
    stopping: Vec<Task>,
    /// Whether threads were allowed to join a stop by job control.
    has_joined_stop: bool,
}

impl<'a> Stopping<'a> {
    /// Begins to stop the job at `begun`, and abandons the attempt after `limit`.
    pub(super) fn new(tracing: &'a JobTracing, begun: Instant, limit: Duration) -> Self {
        Self::resumed(tracing, begun, begun + limit)
    }

    /// Makes another attempt that counts from `begun`, with the same deadline.
    pub(super) fn resumed(tracing: &'a JobTracing, begun: Instant, deadline: Instant) -> Self {
        let progress = Progress { still: 0, stopping: 0, since: begun, scans: 0 };
        Self { tracing, begun, deadline, progress, chased: Vec::new() }
    }

    /// Returns when the stop began and when it will be abandoned.
    pub(super) fn times(&self) -> (Instant, Instant) {
        (self.begun, self.deadline)
    }

    /// Stops tasks that are in an uninterruptible sleep, each as it wakes. The others run until then, so the pause of
    /// the job begins when the first of them stops.
    pub(super) fn stop_sleepers(&mut self, roots: &Roots) -> Result<(), EngineError> {
        let limit = self.deadline - self.begun;
        for member in roots.members().iter().filter(|member| member.wait_status.is_none() && !borrows_memory(member)) {
            let tids = asleep(member.pid);
            if !tids.is_empty() {
                match open_memory(member.pid) {
                    Ok(memory) => self.chased.push(Chased::new(member, memory)),
                    Err(EngineError::Ended) if member.pid != roots.main.pid => continue,
                    Err(error) => return Err(error),
                }
                let chased = self.chased.last_mut().expect("it has just been added");
                chased.seize_each(tids, roots.main.pid, self.tracing)?;
            }
        }
        let (mut first_stop, mut last_stop, mut still) = (None, self.begun, 0);
        while let Some(tid) = self.stuck() {
            self.scan(roots.main.pid)?;
            let now = Instant::now();
            let stopped = self.chased.iter().map(|chased| chased.frozen.tasks.len()).sum();
            if stopped > still {
                first_stop = first_stop.or(Some(now));
                (last_stop, still) = (now, stopped);
            }
            if now - last_stop >= WAKING_MAX {
                let stood_still = first_stop.map_or(Duration::ZERO, |first| now - first);
                return Err(EngineError::Unstoppable { tid, stood_still });
            }
            if self.stuck().is_some() {
                std::thread::sleep(WAKING_PAUSE);
            }
        }
        self.begun = first_stop.unwrap_or_else(Instant::now);
        self.deadline = self.begun + limit;
        self.progress.since = Instant::now();
        Ok(())
    }

    /// Checks once which tasks have stopped.
    fn scan(&mut self, main: Pid) -> Result<(), EngineError> {
        self.chased.iter().flat_map(|chased| &chased.stopping).for_each(|task| _ = task.reap_dead_siblings());
        for scan in [Task::poll_stop, Task::poll_silent_stop] {
            self.chased.iter_mut().try_for_each(|chased| chased.poll(scan, main, self.tracing))?;
        }
        Ok(())
    }

    /// Returns when every process has stopped. Returns `None` if the stop must begin again, since a process has executed
    /// a program unnoticed.
    pub(super) fn stop(mut self, roots: &Roots) -> Result<Option<Stopped>, EngineError> {
        loop {
            let members = roots.members();
            if members.first().is_none_or(|first| first.pid != roots.main.pid) {
                return Err(EngineError::Ended);
            }
            let news = self.seize_new(&members, roots.main.pid)? | self.bury(&members);
            let is_running = |it: &&Member| it.wait_status.is_none() && !self.stands_still(it.pid);
            let running: Vec<Pid> = members.iter().filter(is_running).map(|member| member.pid).collect();
            let Some(first) = running.first() else {
                if news || !roots.are_all(&members) {
                    continue;
                }
                return self.finish(members);
            };
            self.wait(roots.main.pid)?;
            if self.is_hopeless(&running, Instant::now()) {
                let tid = self.stuck().unwrap_or(first.main_thread());
                return Err(EngineError::Unstoppable { tid, stood_still: self.begun.elapsed() });
            }
        }
    }

    /// Waits a while for tasks that have been asked to stop.
    fn wait(&mut self, main: Pid) -> Result<(), EngineError> {
        for _ in 0..SCANS_BEFORE_SLEEP {
            self.chased.iter_mut().try_for_each(|chased| chased.poll(Task::poll_stop, main, self.tracing))?;
            if self.stuck().is_none() {
                return Ok(());
            }
            std::thread::yield_now();
        }
        self.scan(main)?;
        std::thread::sleep(SLEEP);
        Ok(())
    }

    /// Reaps processes that were killed after they had stopped, so that their parents learn of it. Reports whether there
    /// were any.
    fn bury(&mut self, members: &[Member]) -> bool {
        let before = self.chased.len();
        let is_zombie = |pid| members.iter().any(|member| member.pid == pid && member.wait_status.is_some());
        let take = |pid: Pid| matches!(process::wait(pid.main_thread(), abi::WNOHANG), Ok(Some(_)));
        self.chased.retain(|chased| !(is_zombie(chased.frozen.pid) && take(chased.frozen.pid)));
        self.chased.len() < before
    }

    fn stands_still(&self, pid: Pid) -> bool {
        let chased = self.chased.iter().find(|chased| chased.frozen.pid == pid);
        chased.is_some_and(|chased| chased.stopping.is_empty() && !chased.frozen.tasks.is_empty())
    }

    /// Reports whether it is useless to wait longer for processes that have not stopped yet, including children of
    /// vfork.
    fn is_hopeless(&mut self, running: &[Pid], now: Instant) -> bool {
        let still = self.chased.iter().map(|chased| chased.frozen.tasks.len()).sum();
        let stopping = self.chased.iter().map(|chased| chased.stopping.len()).sum();
        if (still, stopping) != (self.progress.still, self.progress.stopping) {
            self.progress = Progress { still, stopping, since: now, scans: 0 };
        }
        self.progress.scans += 1;
        let waited = now.saturating_duration_since(self.progress.since);
        // The kernel may be freeing the memory of a task that exits.
        let is_busy = |stat: Stat| stat.state == b'R' || stat.is_exiting();
        let mut stopping = self.chased.iter().flat_map(|chased| &chased.stopping);
        let wants_processor = |task: &Task| Stat::of_task(task.process(), task.tid()).is_ok_and(is_busy);
        now >= self.deadline
            || waited >= READY_MAX && self.progress.scans >= SCANS_MIN
            || waited >= ASLEEP_MAX
                && self.progress.scans >= SCANS_MIN
                && !stopping.any(wants_processor)
                && !running.iter().any(|pid| Stat::of(*pid).is_ok_and(is_busy))
    }

    /// Returns a task that has been asked to stop and has not stopped.
    fn stuck(&self) -> Option<Tid> {
        self.chased.iter().flat_map(|chased| &chased.stopping).map(Task::tid).next()
    }

    /// Seizes everything that we have not seized yet; reports whether there was anything.
    fn seize_new(&mut self, members: &[Member], main: Pid) -> Result<bool, EngineError> {
        let mut news = false;
        for member in members.iter().filter(|member| member.wait_status.is_none()) {
            let known = self.chased.iter().position(|chased| chased.frozen.pid == member.pid);
            let place = match known {
                Some(place) => place,
                // A stopped parent is not in vfork, so such a child shares its memory permanently.
                None if borrows_memory(member) && !member.parent.is_some_and(|it| self.stands_still(it)) => continue,
                None => {
                    let memory = match open_memory(member.pid) {
                        Ok(memory) => memory,
                        Err(EngineError::Ended) if member.pid != main => continue,
                        Err(error) => return Err(error),
                    };
                    self.chased.push(Chased::new(member, memory));
                    self.chased.len() - 1
                }
            };
            let chased = &mut self.chased[place];
            chased.frozen.parent = member.parent;
            news |= !chased.knows(member.threads) && chased.seize_new(main, self.tracing)?;
        }
        Ok(news)
    }

    fn finish(mut self, members: Vec<Member>) -> Result<Option<Stopped>, EngineError> {
        if !self.chased.iter().all(Chased::is_settled) {
            return Ok(None);
        }
        let mut processes = Vec::new();
        let mut zombies = Vec::new();
        for member in members {
            if member.wait_status.is_some() {
                // A thread that we had not met yet may have reaped it, and ended, since it was listed.
                if Stat::of(member.pid).is_ok() {
                    zombies.push(member);
                }
                continue;
            }
            let place = self.chased.iter().position(|chased| chased.frozen.pid == member.pid);
            let mut frozen = self.chased.swap_remove(place.expect("it stands still")).frozen;
            let main = frozen.pid.main_thread();
            frozen.tasks.sort_by_key(|it| (it.task.tid() != main, it.task.tid()));
            if let [only] = &mut frozen.tasks[..] {
                only.task.is_alone();
            }
            processes.push(frozen);
        }
        let pids: Vec<Pid> = processes.iter().map(|process: &FrozenProcess| process.pid).collect();
        for (process, maps) in processes.iter_mut().zip(pool::each(&pids, |pid| Map::of(*pid))) {
            process.maps = maps.map_err(|source| kernel("reading the program's mappings", source))?;
        }
        leave_shared(&mut processes);
        Ok(Some((processes, zombies)))
    }
}

/// Makes reads keep the pages shared that processes share since a fork. Such processes have stack and vdso at the same
/// addresses, which the kernel chooses at random for each executed program.
fn leave_shared(processes: &mut [FrozenProcess]) {
    let places = |process: &FrozenProcess| {
        let place = |name: &[u8]| process.maps.iter().find(|map| map.path == name).map(|map| map.end);
        (place(b"[stack]"), place(b"[vdso]"))
    };
    let mut known: HashMap<_, usize> = HashMap::new();
    processes.iter().for_each(|process| *known.entry(places(process)).or_default() += 1);
    let relatives = processes.iter_mut().filter(|process| known[&places(process)] > 1);
    relatives.for_each(|process| process.memory.leave_shared());
}

impl Chased {
    fn new(member: &Member, memory: ProcessMemory) -> Self {
        let Member { pid, parent, .. } = *member;
        let frozen = FrozenProcess { pid, parent, tasks: Vec::new(), memory, maps: Vec::new(), stopped_by: None };
        Self { frozen, stopping: Vec::new(), has_joined_stop: false }
    }

    /// Reports whether all its threads, `threads` in number, have stopped; then there can be no others.
    fn knows(&self, threads: usize) -> bool {
        self.stopping.is_empty() && !self.frozen.tasks.is_empty() && self.frozen.tasks.len() == threads
    }

    /// Seizes its threads that we have not seized yet; reports whether there were any.
    fn seize_new(&mut self, main: Pid, tracing: &JobTracing) -> Result<bool, EngineError> {
        let pid = self.frozen.pid;
        match proc::threads(pid) {
            Ok(tids) => self.seize_each(tids, main, tracing),
            Err(_) if pid == main => Err(EngineError::Ended),
            Err(_) => Ok(false),
        }
    }

    /// Seizes those of `tids` that we have not seized yet; reports whether there were any.
    fn seize_each(&mut self, tids: Vec<Tid>, main: Pid, tracing: &JobTracing) -> Result<bool, EngineError> {
        let pid = self.frozen.pid;
        let mut news = false;
        for tid in tids {
            let known = self.frozen.tasks.iter().any(|it| it.task.tid() == tid);
            if known || self.stopping.iter().any(|task| task.tid() == tid) {
                continue;
            }
            match seize(pid, tid) {
                Ok(task) => {
                    self.stopping.push(task);
                    news = true;
                }
                // It may end between the look and the seize; the main process of the job may not.
                Err(TaskError::Ended { .. }) if tid != main.main_thread() => {}
                Err(error) => match refine(error, pid, &tracing.main) {
                    EngineError::Ended if pid != main => {}
                    error => return Err(error),
                },
            }
        }
        Ok(news)
    }

    /// Checks which of its tasks have stopped or ended.
    fn poll(&mut self, scan: Scan, main: Pid, tracing: &JobTracing) -> Result<(), EngineError> {
        for task in std::mem::take(&mut self.stopping) {
            let tid = task.tid();
            let is_first = self.frozen.tasks.is_empty();
            let polled = scan(&task).and_then(|stop| match stop {
                // Correct it at once: if we die before that, a waiting call returns EINTR, as after a SIGSTOP.
                Some(stop) => {
                    if is_first {
                        self.frozen.renew_memory();
                    }
                    FrozenTask::new(task, stop, &self.frozen.memory, tracing).map(|frozen| Ok((stop, frozen)))
                }
                None => Ok(Err(task)),
            });
            match polled {
                Ok(Ok((stop, frozen))) => {
                    if let Standstill::JobControl { signal } = stop {
                        self.frozen.stopped_by = Some(signal);
                    }
                    self.frozen.tasks.push(frozen);
                }
                Ok(Err(task)) => self.stopping.push(task),
                Err(TaskError::Ended { .. }) if tid != main.main_thread() => {}
                Err(error) => return Err(refine(error, self.frozen.pid, &tracing.main)),
            }
        }
        let joined = self.join_stop();
        joined.or_else(|error| if self.frozen.pid == main { Err(refine(error, main, &tracing.main)) } else { Ok(()) })
    }

    /// Completes a stop by job control that had begun before it reached the threads that we had already stopped. They
    /// join in, and the parent learns of it as usual. This happens once: if the process was continued meanwhile, it is
    /// not stopped.
    fn join_stop(&mut self) -> Result<(), TaskError> {
        let outside = |it: &FrozenTask| !it.is_in_stop;
        if self.frozen.stopped_by.is_none() || self.has_joined_stop || !self.frozen.tasks.iter().any(outside) {
            return Ok(());
        }
        self.has_joined_stop = true;
        self.frozen.stopped_by = None;
        let (inside, outside) = std::mem::take(&mut self.frozen.tasks).into_iter().partition(|it| it.is_in_stop);
        self.frozen.tasks = inside;
        outside.into_iter().try_for_each(|it: FrozenTask| {
            // The interrupt makes it stop again at once, whether or not the stop by job control still lasts.
            it.task.interrupt()?;
            it.task.resume(0)?;
            self.stopping.push(it.task);
            Ok(())
        })
    }

    /// Reports whether every task is where we left it. An exec by one thread ends all others, even stopped ones.
    fn is_settled(&self) -> bool {
        let is_unmoved = |it: &FrozenTask| it.task.registers().is_ok_and(|registers| registers == it.registers);
        self.frozen.tasks.iter().all(is_unmoved)
    }
}

/// Seizes a task and asks it to stop. A task that the kernel has attached to us stops without being asked.
fn seize(process: Pid, tid: Tid) -> Result<Task, TaskError> {
    let task = match Task::seize(process, tid, OPTIONS) {
        Ok(task) => task,
        Err(_) if Status::of_task(process, tid).is_ok_and(|status| status.tracer == Some(Tid::own())) => {
            return Ok(Task::attached_by_clone(process, tid));
        }
        Err(error) => return Err(error),
    };
    task.interrupt()?;
    Ok(task)
}

/// Opens the memory of a process. A process that is changing its parent may be out of reach for a moment. A refusal
/// that outlasts the time granted to a dying process is permanent.
fn open_memory(pid: Pid) -> Result<ProcessMemory, EngineError> {
    ProcessMemory::open(pid).or_else(|source| match forbidden(pid, source) {
        EngineError::Ended => Err(EngineError::Ended),
        error => ProcessMemory::open(pid).map_err(|_| error),
    })
}
