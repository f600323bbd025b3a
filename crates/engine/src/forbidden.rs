//! Why a process may not be inspected, as far as `/proc` shows: it is another user's, traced, undumpable, or ending.

use crate::error::{Reason, kernel};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_linux::abi;
use standfast_linux::proc;
use standfast_linux::sys::process;
use standfast_linux::{DescriptorPassage, Pid, Tid};
use std::time::{Duration, Instant};

/// What helps where another program traces a process.
pub(crate) const END_TRACER: &str = "end the debugger or strace first";

/// How long the other threads may take to end after the main thread of a program has ended.
const DYING_MAX: Duration = Duration::from_millis(500);
/// The pause between two looks at it.
const PAUSE: Duration = Duration::from_millis(1);

/// Returns why a process may not be inspected, as far as `/proc` shows.
pub(crate) fn forbidden(pid: Pid, source: std::io::Error) -> EngineError {
    let Ok(status) = proc::Status::of(pid) else { return EngineError::Ended };
    let main = pid.main_thread();
    let lives = |tid: &Tid| proc::Stat::of_task(pid, *tid).is_ok_and(|stat| !matches!(stat.state, b'Z' | b'X'));
    let some_live = || proc::threads(pid).unwrap_or_default().iter().any(lives);
    let wait_while = |alive: &dyn Fn() -> bool| {
        let deadline = Instant::now() + DYING_MAX;
        while alive() && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
    };
    // An ending process is still listed when its memory is gone; unprivileged users may then not inspect it.
    if lives(&main) && matches!(source.raw_os_error(), Some(abi::ESRCH | abi::ENOENT)) {
        return EngineError::Ended;
    }
    let is_ours = |tracer: &Tid| std::fs::exists(format!("/proc/self/task/{tracer}")).unwrap_or(false);
    let other_tracer = status.tracer.filter(|tracer| !is_ours(tracer));
    if other_tracer.is_none() && (status.tracer.is_some() || status.user == process::effective_user()) {
        wait_while(&|| lives(&main));
    }
    let main_thread_ended = !lives(&main);
    if main_thread_ended {
        // The threads of a killed program do not end all at once.
        wait_while(&some_live);
        if !some_live() {
            return EngineError::Ended;
        }
    }
    let reason = if main_thread_ended {
        Reason::new(RefusalCode::MainThreadEnded, "its main thread has ended while other threads run")
            .with_hint("let the main thread wait for the others (pthread_join)")
    } else if let Some(tracer) = other_tracer {
        Reason::new(RefusalCode::Traced, format!("process {tracer} traces it already")).with_hint(END_TRACER)
    } else if status.user != process::effective_user() {
        Reason::new(RefusalCode::OtherUser, format!("it belongs to user {}", status.user))
            .with_hint("run standfast as that user or as root")
    } else if source.raw_os_error() == Some(abi::EPERM) && DescriptorPassage::is_needed() {
        let why =
            "pidfd_getfd(2) is forbidden, as in most containers, so only a checkpoint can look at its descriptors";
        Reason::new(RefusalCode::TracingForbidden, why)
            .with_hint("CAP_SYS_PTRACE lifts that: docker run --cap-add SYS_PTRACE")
    } else if source.kind() == std::io::ErrorKind::PermissionDenied {
        let why = "it has made itself undumpable, or the system restricts ptrace (kernel.yama.ptrace_scope)";
        Reason::new(RefusalCode::TracingForbidden, why)
            .with_hint("leave the program dumpable, and set kernel.yama.ptrace_scope to 1 or 0")
    } else {
        return kernel(&format!("examining process {pid}"), source);
    };
    EngineError::Refused(vec![Blocker::of(format!("process {pid}"), reason)])
}
