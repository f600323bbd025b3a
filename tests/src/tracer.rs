//! Watches a supervisor and strikes at one of its system calls: the n-th of all, or the n-th that changes its files.
//!
//! The command's foreground proxy starts the supervisor. The supervisor and its threads run under ptrace. The proxy is
//! not traced, and neither are the processes that the supervisor starts, since it traces them itself. The tracer sees
//! each call before it happens. A blow kills the supervisor or the program, or makes the call fail without executing it.
//!
//! All ptrace requests come from one thread, as the kernel demands. It waits only for its own tracees (`__WNOTHREAD`),
//! so that scenarios can run concurrently in one test process.

mod calls;

use crate::arena::Arena;
use crate::running::{Output, PATIENCE, alone, redirect, until};
use anyhow::{Context as _, Result, anyhow, bail};
use calls::Call;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// What happens at the chosen call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// Kills the supervisor before it makes the call.
    KillSupervisor,
    /// Kills the program, then lets the call happen.
    KillProgram(Pid),
    /// Kills a descendant of the supervisor, then lets the call happen. The number, modulo the number of descendants,
    /// selects it.
    KillDescendant(usize),
    /// Kills all clones of this program, then lets the call happen. Calls count only while clones exist.
    KillClones(Pid),
    /// Removes everything in this folder of the arena, then lets the call happen.
    Empty(&'static str),
    /// Makes the call fail once with this error.
    Fail(Errno),
    /// Makes the call and all further calls of its kind fail with this error, like a disk that stays full.
    FailFromHereOn(Errno),
}

/// A blow and its place: the `at`-th call that counts, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike {
    at: u64,
    /// The blow.
    pub blow: Blow,
    /// The name of the threads whose calls count, if not all count.
    by: Option<&'static str>,
    /// The folder of the arena on whose files calls fail.
    folder: &'static str,
}

impl Strike {
    /// Makes a strike at a call, counted over all threads. Calls that fail act on files of the job's directory.
    pub fn new(at: u64, blow: Blow) -> Self {
        Self { at, blow, by: None, folder: "images" }
    }

    /// Counts only calls of threads with this name.
    #[must_use]
    pub fn by(self, name: &'static str) -> Self {
        Self { by: Some(name), ..self }
    }

    /// Selects the folder of the arena on whose files calls fail.
    #[must_use]
    pub fn on_files_of(self, folder: &'static str) -> Self {
        Self { folder, ..self }
    }
}

/// What the tracer has seen since a strike was armed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sighting {
    /// The number of calls that counted.
    pub calls: u64,
    /// The name of the call that was struck.
    pub struck: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Aim {
    strike: Option<Strike>,
    sighting: Sighting,
}

/// A traced supervisor.
#[derive(Debug)]
pub struct Tracer {
    aim: Arc<Mutex<Aim>>,
    supervisor: Pid,
    errors: PathBuf,
    thread: Option<JoinHandle<Result<WaitStatus>>>,
}

impl Tracer {
    /// Starts `command` and traces its supervisor from the first instruction, armed with `strike` if given. `name` names
    /// its logs.
    ///
    /// # Errors
    /// When the command cannot be started or traced.
    pub fn start(arena: &Arena, name: &str, output: Output, command: &Command, strike: Option<Strike>) -> Result<Self> {
        let aim = Arc::new(Mutex::new(Aim { strike, sighting: Sighting::default() }));
        let (announce, announced) = mpsc::channel();
        let (watched, arena_folder) = (Arc::clone(&aim), arena.folder().to_owned());
        let mut stopping = stopping(command);
        let _alone = alone();
        let errors = redirect(arena, name, output, &mut stopping)?.1;
        let thread = std::thread::spawn(move || {
            let child = stopping.stdin(Stdio::null()).spawn().context("starting a shell")?;
            drop(stopping);
            let supervisor = Pid::from_raw(i32::try_from(child.id()).expect("a pid fits in 31 bits"));
            let watch = Watch { supervisor, arena: arena_folder, aim: watched, failing: HashMap::new() };
            watch.find_supervisor(&announce)?.follow()
        });
        match announced.recv() {
            Ok(supervisor) => Ok(Self { aim, supervisor, errors, thread: Some(thread) }),
            Err(_) => match thread.join() {
                Ok(Err(problem)) => Err(problem),
                _ => bail!("the tracer's thread ended without a reason"),
            },
        }
    }

    /// Returns what the supervisor has written to its standard error so far.
    pub fn errors_so_far(&self) -> String {
        fs::read(&self.errors).map(|said| String::from_utf8_lossy(&said).into_owned()).unwrap_or_default()
    }

    /// Returns the supervisor's pid.
    pub fn supervisor(&self) -> Pid {
        self.supervisor
    }

    /// Starts counting calls for this strike.
    pub fn arm(&self, strike: Strike) {
        *lock(&self.aim) = Aim { strike: Some(strike), sighting: Sighting::default() };
    }

    /// Stops counting and failing calls. Returns what was seen.
    pub fn disarm(&self) -> Sighting {
        let mut aim = lock(&self.aim);
        aim.strike = None;
        aim.sighting.clone()
    }

    /// Returns what has been seen so far.
    pub fn sighting(&self) -> Sighting {
        lock(&self.aim).sighting.clone()
    }

    /// Reports whether the supervisor has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the supervisor to end.
    ///
    /// # Errors
    /// When it takes longer than [`PATIENCE`], or when tracing fails.
    pub fn wait(mut self) -> Result<WaitStatus> {
        let thread = self.thread.take().context("waited for once")?;
        until(PATIENCE, "the traced supervisor to end", || Ok(thread.is_finished().then_some(())))?;
        thread.join().map_err(|_| anyhow!("the tracer's thread panicked"))?
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = kill(self.supervisor, Signal::SIGKILL);
            let _ = thread.join();
        }
    }
}

fn lock(aim: &Mutex<Aim>) -> MutexGuard<'_, Aim> {
    aim.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills a program and waits until its memory is gone, so that the pending call meets a dead program rather than a dying
/// one. The wait is limited, since a task may hang in the kernel.
fn kill_through_and_through(program: Pid) -> nix::Result<()> {
    kill(program, Signal::SIGKILL)?;
    let has_memory =
        || fs::read_to_string(format!("/proc/{program}/statm")).is_ok_and(|pages| !pages.starts_with("0 "));
    for _ in 0..200 {
        if !has_memory() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the children that the main thread of a process has created or adopted.
fn children(parent: Pid) -> Vec<Pid> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
}

/// Returns all descendants of a process.
fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut found = vec![ancestor];
    let mut at = 0;
    while let Some(parent) = found.get(at) {
        found.extend(children(*parent));
        at += 1;
    }
    found.split_off(1)
}

/// Returns the clones of a program that has no other processes: all other children of its supervisor.
fn clones(supervisor: Pid, program: Pid) -> Vec<Pid> {
    children(supervisor).into_iter().filter(|pid| *pid != program).collect()
}

/// Makes a command that stops itself before it executes the program proper, so that no call of the program is missed.
fn stopping(command: &Command) -> Command {
    let mut stopping = Command::new("sh");
    stopping.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    stopping.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        stopping.current_dir(folder);
    }
    stopping
}

/// The state of the tracing thread.
struct Watch {
    supervisor: Pid,
    /// The arena's folder.
    arena: PathBuf,
    aim: Arc<Mutex<Aim>>,
    /// The errors with which pending calls must end, by thread.
    failing: HashMap<Pid, Errno>,
}

impl Watch {
    /// Follows the command until it has created its supervisor. Announces the supervisor, and detaches from the command.
    fn find_supervisor(mut self, announce: &mpsc::Sender<Pid>) -> Result<Self> {
        let front = self.supervisor;
        waitpid(front, Some(WaitPidFlag::WUNTRACED)).context("waiting for the shell to stop")?;
        let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
        ptrace::seize(front, options | Options::PTRACE_O_TRACEFORK).context("seizing the command")?;
        kill(front, Signal::SIGCONT).context("letting the shell go on")?;
        loop {
            match waitpid(front, None).context("following the command to its supervisor")? {
                WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_FORK) => break,
                WaitStatus::Stopped(_, signal) => ptrace::cont(front, signal)?,
                WaitStatus::PtraceEvent(..) => ptrace::cont(front, None)?,
                other => bail!("the command became no supervisor: {other:?}"),
            }
        }
        self.supervisor = Pid::from_raw(i32::try_from(ptrace::getevent(front)?)?);
        ptrace::detach(front, None)?;
        waitpid(self.supervisor, Some(WaitPidFlag::__WALL)).context("waiting for the supervisor")?;
        ptrace::setoptions(self.supervisor, options)?;
        announce.send(self.supervisor).map_err(|_| anyhow!("nobody waits for the supervisor"))?;
        ptrace::syscall(self.supervisor, None)?;
        Ok(self)
    }

    fn follow(mut self) -> Result<WaitStatus> {
        loop {
            let status = waitpid(Pid::from_raw(-1), Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))?;
            match status {
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _) if pid == self.supervisor => {
                    return Ok(status);
                }
                // A task that was killed while it was stopped is simply gone, so ESRCH is no error here.
                _ => match self.on_stop(status) {
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(problem) => return Err(problem).context("tracing the supervisor"),
                },
            }
        }
    }

    fn on_stop(&mut self, status: WaitStatus) -> nix::Result<()> {
        match status {
            WaitStatus::PtraceSyscall(thread) => {
                self.on_call(thread)?;
                ptrace::syscall(thread, None)
            }
            WaitStatus::PtraceEvent(task, _, _) if !self.is_own_thread(task) => ptrace::detach(task, None),
            WaitStatus::PtraceEvent(thread, _, _) => ptrace::syscall(thread, None),
            WaitStatus::Stopped(thread, signal) => ptrace::syscall(thread, signal),
            _ => Ok(()),
        }
    }

    fn is_own_thread(&self, task: Pid) -> bool {
        Path::new(&format!("/proc/{}/task/{task}", self.supervisor)).exists()
    }

    fn is_called(&self, thread: Pid, name: &str) -> bool {
        let path = format!("/proc/{}/task/{thread}/comm", self.supervisor);
        fs::read_to_string(path).is_ok_and(|found| found.trim_end() == name)
    }

    fn on_call(&mut self, thread: Pid) -> nix::Result<()> {
        match ptrace::syscall_info(thread)?.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => self.on_entry(thread),
            libc::PTRACE_SYSCALL_INFO_EXIT => self.on_exit(thread),
            _ => Ok(()),
        }
    }

    fn on_entry(&mut self, thread: Pid) -> nix::Result<()> {
        let aim = Arc::clone(&self.aim);
        let mut aim = lock(&aim);
        let Some(strike) = aim.strike else { return Ok(()) };
        let mut registers = ptrace::getregs(thread)?;
        let call = Call::of(&registers);
        let folder = self.arena.join(strike.folder);
        let counts = match strike.blow {
            Blow::KillSupervisor | Blow::KillProgram(_) | Blow::KillDescendant(_) | Blow::Empty(_) => true,
            Blow::KillClones(program) => !clones(self.supervisor, program).is_empty(),
            Blow::Fail(_) => call.changes_files_in(self.supervisor, &registers, &folder),
            Blow::FailFromHereOn(_) => {
                call.takes_space() && call.changes_files_in(self.supervisor, &registers, &folder)
            }
        };
        if !counts || strike.by.is_some_and(|name| !self.is_called(thread, name)) {
            return Ok(());
        }
        aim.sighting.calls += 1;
        let repeats = matches!(strike.blow, Blow::FailFromHereOn(_)) && aim.sighting.calls > strike.at;
        if aim.sighting.calls != strike.at && !repeats {
            return Ok(());
        }
        aim.sighting.struck.get_or_insert(call.name());
        match strike.blow {
            Blow::KillSupervisor => kill(self.supervisor, Signal::SIGKILL),
            Blow::KillProgram(program) => kill_through_and_through(program),
            Blow::KillDescendant(number) => {
                let descendants = descendants(self.supervisor);
                let chosen = descendants.get(number % descendants.len().max(1));
                // A process that has ended meanwhile needs no kill.
                let _ = chosen.map(|pid| kill_through_and_through(*pid));
                Ok(())
            }
            Blow::KillClones(program) => {
                clones(self.supervisor, program).into_iter().for_each(|pid| _ = kill_through_and_through(pid));
                Ok(())
            }
            Blow::Empty(folder) => {
                for entry in fs::read_dir(self.arena.join(folder)).into_iter().flatten().flatten() {
                    let _ = fs::remove_dir_all(entry.path());
                }
                Ok(())
            }
            Blow::Fail(errno) | Blow::FailFromHereOn(errno) => {
                self.failing.insert(thread, errno);
                registers.orig_rax = u64::MAX;
                ptrace::setregs(thread, registers)
            }
        }
    }

    fn on_exit(&mut self, thread: Pid) -> nix::Result<()> {
        let Some(errno) = self.failing.remove(&thread) else { return Ok(()) };
        let mut registers = ptrace::getregs(thread)?;
        registers.rax = (-(errno as i64)).cast_unsigned();
        ptrace::setregs(thread, registers)
    }
}
