//! Ends this process as the program ended, so that the caller sees no difference.

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getpid, getrlimit, kill_process, set_dumpable_behavior, setrlimit,
};
use standfast::Ending;

/// Offset of the exit status that shells give for a program killed by a signal. It is used if the signal itself does
/// not kill.
const KILLED: i32 = 128;

/// Ends this process as the job ended.
pub(crate) fn leave(ending: Ending) -> ! {
    match ending {
        Ending::Exited { status } => std::process::exit(status),
        Ending::Stopped { exit_status, .. } => std::process::exit(exit_status.into()),
        Ending::Killed { signal } => {
            // The kernel lets no signal kill process 1 of a container from within.
            if !getpid().is_init() {
                die_by(signal);
            }
            std::process::exit(KILLED + signal)
        }
    }
}

/// Dies by the same signal. The program has dumped its core, if it was to; ours would only overwrite it.
fn die_by(signal: i32) {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let maximum = getrlimit(Resource::Core).maximum;
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
    // For signals that we handle: restores the default action, then raises the signal.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // For signals that it does not know, such as SIGKILL: their action is still the default.
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(getpid(), signal);
    }
}
