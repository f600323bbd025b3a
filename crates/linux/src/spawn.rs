//! Ring 2: makes new processes: a program launched as if we were not there, or one held before its exec for a restart.
//!
//! # Safety
//! Between fork and exec only async-signal-safe calls are made, on values prepared before.

use crate::Pid;
use crate::split::lead_session;
use crate::sys::check;
use crate::terminal::{Terminal, lead_group, own_group};
use rustix::process::ioctl_tiocsctty;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Highest signal number.
const SIGNALS: i32 = 64;

/// The signal state with which this process was started, to be passed on to the program: the ignored signals (nohup)
/// and the blocked ones. Capture it before installing handlers.
#[derive(Debug, Clone, Copy)]
pub struct InheritedSignals {
    ignored: u64,
    blocked: libc::sigset_t,
}

impl InheritedSignals {
    /// Captures the current state of this process.
    pub fn capture() -> Self {
        let is_ignored = |signal: &i32| disposition(*signal).is_ok_and(|handler| handler == libc::SIG_IGN);
        let ignored = (1..=SIGNALS).filter(is_ignored).fold(0, |all, signal| all | 1 << (signal - 1));
        // SAFETY: a sigset_t is a bit mask for which all zeros is a value.
        let mut blocked = unsafe { std::mem::zeroed() };
        // SAFETY: `blocked` is live; no new mask is given.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &raw mut blocked) };
        // The Rust runtime has ignored SIGPIPE by now; programs are hardly ever started that way.
        Self { ignored: ignored & !(1 << (libc::SIGPIPE - 1)), blocked }
    }

    /// Returns a state with no signal ignored or blocked, for a process that restores its own.
    pub fn none() -> Self {
        // SAFETY: a sigset_t is a bit mask for which all zeros is a value, the empty set.
        Self { ignored: 0, blocked: unsafe { std::mem::zeroed() } }
    }

    /// Applies this state in a child that is about to exec.
    fn take_on(&self) {
        for signal in 1..=SIGNALS {
            let ignored = self.ignored & 1 << (signal - 1) != 0;
            // SIGKILL and SIGSTOP refuse, which is right.
            let _ = set_disposition(signal, if ignored { Disposition::Ignore } else { Disposition::Default });
        }
        // SAFETY: `blocked` is live.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.blocked, std::ptr::null_mut()) };
    }
}

/// What a signal does to a program without a handler for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disposition {
    Default = libc::SIG_DFL as isize,
    Ignore = libc::SIG_IGN as isize,
}

/// The kernel's `struct sigaction`. The C library refuses the two signals that it uses itself, and yet a program that
/// is executed inherits whether they are ignored.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct SignalAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// rt_sigaction(2): sets what a signal does.
fn set_disposition(signal: i32, wanted: Disposition) -> io::Result<()> {
    let action = SignalAction { handler: wanted as usize, ..SignalAction::default() };
    let nothing = std::ptr::null_mut::<SignalAction>();
    // SAFETY: `action` is live, its set of signals has the size passed, and no handler is installed.
    check(unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, nothing, size_of::<u64>()) })
        .map(drop)
}

/// rt_sigaction(2): returns the handler of a signal, which may be `SIG_DFL` or `SIG_IGN`.
fn disposition(signal: i32) -> io::Result<usize> {
    let mut action = SignalAction::default();
    let nothing = std::ptr::null::<SignalAction>();
    // SAFETY: `action` is live, and its set of signals has the size passed.
    check(unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, nothing, &raw mut action, size_of::<u64>()) })?;
    Ok(action.handler)
}

/// The terminal of a program that is launched.
#[derive(Debug, Clone)]
pub enum LaunchTerminal {
    /// The terminal of this process. The program leads a group of its own in our session. If this group is in the
    /// foreground, the program's group replaces it there.
    Shared {
        /// The process group for which the program is launched.
        callers: i32,
    },
    /// A terminal that is not in use yet. The program leads a session of its own, and this is its controlling terminal.
    New {
        /// Slave of the terminal.
        slave: Arc<OwnedFd>,
        /// The standard streams that are connected to it.
        streams: [bool; 3],
    },
}

impl LaunchTerminal {
    /// Returns the terminal of this process, for whose own group the program is launched.
    pub fn shared() -> Self {
        Self::Shared { callers: own_group() }
    }
}

/// Starts a program as a child of this process, with these additional environment variables. Returns its pid. The
/// caller has to reap it.
///
/// # Errors
/// When the program cannot be executed.
pub fn launch(
    program: &OsStr,
    arguments: &[OsString],
    variables: &[(&str, &OsStr)],
    signals: InheritedSignals,
    terminal: &LaunchTerminal,
) -> io::Result<Pid> {
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied());
    match terminal {
        LaunchTerminal::Shared { callers } => lead_a_group(&mut command, *callers, signals),
        LaunchTerminal::New { slave, streams } => lead_a_session(&mut command, slave, *streams, signals)?,
    }
    Ok(Pid::new(command.spawn()?.id() as i32))
}

fn lead_a_group(command: &mut Command, callers: i32, signals: InheritedSignals) {
    let terminal = Terminal::controlling().filter(|terminal| terminal.is_held_by(callers));
    // SAFETY: both make only async-signal-safe calls, on what the closure holds.
    unsafe {
        command.pre_exec(move || {
            lead_group(terminal.as_ref().map(AsRawFd::as_raw_fd))?;
            signals.take_on();
            Ok(())
        });
    }
}

fn lead_a_session(
    command: &mut Command,
    slave: &OwnedFd,
    streams: [bool; 3],
    signals: InheritedSignals,
) -> io::Result<()> {
    let redirect = [Command::stdin, Command::stdout, Command::stderr];
    for (redirect, _) in redirect.into_iter().zip(streams).filter(|(_, leads_there)| *leads_there) {
        redirect(command, Stdio::from(slave.try_clone()?));
    }
    let slave = slave.try_clone()?;
    // SAFETY: all make only async-signal-safe calls, on what the closure holds.
    unsafe {
        command.pre_exec(move || {
            lead_session()?;
            ioctl_tiocsctty(&slave)?;
            signals.take_on();
            Ok(())
        });
    }
    Ok(())
}

/// Children that this process has made for its own purposes, as opposed to orphaned descendants of a job that it has
/// adopted.
static MADE_HERE: Mutex<BTreeSet<Pid>> = Mutex::new(BTreeSet::new());

/// Reports whether this process has made its child `pid` for its own purposes.
pub fn is_made_here(pid: Pid) -> bool {
    MADE_HERE.lock().unwrap_or_else(PoisonError::into_inner).contains(&pid)
}

/// Registers a process that was made for our own purposes. It is, or will be, a child of this process, or of an init
/// that this process has made.
pub fn made_here(pid: Pid) {
    MADE_HERE.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
}

/// Runs `work`, during which this process has a child for its own purposes that is gone afterwards.
pub(crate) fn undisturbed_by_strays<T>(work: impl FnOnce() -> T) -> T {
    let _made_here = MADE_HERE.lock().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Removes such a child after it has been reaped: its number may be given to another process.
pub fn made_here_is_gone(pid: Pid) {
    MADE_HERE.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
}

/// Starts a program for our own purposes.
///
/// # Errors
/// When it cannot be started.
pub fn spawn_made_here(command: &mut Command) -> io::Result<Child> {
    let mut made_here = MADE_HERE.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    made_here.insert(Pid::new(child.id() as i32));
    Ok(child)
}

/// A child that waits before its exec until it is released, so that it can be seized first.
#[derive(Debug)]
pub struct HeldChild {
    /// Its pid as this process sees it.
    pub pid: Pid,
    gate: OwnedFd,
}

/// The program that a held child will execute.
#[derive(Debug, Clone, Copy)]
pub struct HeldProgram<'a> {
    /// Path of the executable.
    pub path: &'a CStr,
    /// Execution domain.
    pub personality: u32,
}

impl HeldChild {
    /// Forks a child of this process that will execute `program`.
    ///
    /// # Errors
    /// When no process can be made.
    pub fn start(program: HeldProgram<'_>, signals: InheritedSignals) -> io::Result<Self> {
        let (waiting, gate) = gate()?;
        // The lock is held so that the child is not taken for an orphan before it is registered.
        let mut made_here = MADE_HERE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the child makes only async-signal-safe calls until it execs or exits.
        match check(unsafe { libc::fork() }.into())? {
            0 => wait_and_execute(waiting.as_fd(), gate.as_raw_fd(), program, signals),
            pid => {
                let pid = Pid::new(pid as i32);
                made_here.insert(pid);
                Ok(Self::behind(pid, gate))
            }
        }
    }

    /// Wraps a child, forked elsewhere, that waits behind `gate`.
    pub(crate) fn behind(pid: Pid, gate: OwnedFd) -> Self {
        Self { pid, gate }
    }

    /// Lets the child exec.
    ///
    /// # Errors
    /// When it is gone.
    pub fn let_go(self) -> io::Result<()> {
        use std::io::Write;
        std::fs::File::from(self.gate).write_all(b"!")
    }
}

/// Makes a pipe, both ends closed on exec: the reading end for the child, the writing end for us.
pub(crate) fn gate() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// Runs in the child: waits at the gate, then executes the program. If the gate closes without a message, its holder is
/// dead, and the child exits.
pub(crate) fn wait_and_execute(
    waiting: BorrowedFd<'_>,
    gate: RawFd,
    program: HeldProgram<'_>,
    signals: InheritedSignals,
) -> ! {
    let arguments = [program.path.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null()];
    // SAFETY: only async-signal-safe calls, on live values; the arrays end with null as execve wants.
    unsafe {
        rustix::io::close(gate);
        if rustix::io::read(waiting, &mut [0u8]) == Ok(1) {
            signals.take_on();
            libc::personality(program.personality.into());
            libc::execve(program.path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
        }
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SIGCANCEL, which the C library hides.
    const HIDDEN: i32 = 32;

    /// Returns the ignored signals of a program started with these signals, one bit each.
    fn ignored_by_program(signals: InheritedSignals) -> u64 {
        let mut command = Command::new("grep");
        command.args(["SigIgn", "/proc/self/status"]);
        // SAFETY: only async-signal-safe calls.
        unsafe {
            command.pre_exec(move || {
                signals.take_on();
                Ok(())
            });
        }
        let output = command.output().expect("grep runs");
        let text = String::from_utf8(output.stdout).expect("text");
        u64::from_str_radix(text.trim_start_matches("SigIgn:").trim(), 16).expect("a mask")
    }

    #[test]
    fn signals_hidden_by_the_c_library_are_inherited_like_others() {
        let before = InheritedSignals::capture();
        let bit = |signal: i32| 1u64 << (signal - 1);
        set_disposition(HIDDEN, Disposition::Ignore).unwrap();
        let captured = InheritedSignals::capture();
        let (passed_on, kept_back) = (ignored_by_program(captured), ignored_by_program(InheritedSignals::none()));
        let was_ignored = before.ignored & bit(HIDDEN) != 0;
        set_disposition(HIDDEN, if was_ignored { Disposition::Ignore } else { Disposition::Default }).unwrap();
        assert_eq!((passed_on & bit(HIDDEN), kept_back), (bit(HIDDEN), 0));
    }
}
