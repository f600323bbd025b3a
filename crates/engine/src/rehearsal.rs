//! A rehearsal on a throw-away process, before the program is touched. The process is stopped, asked everything that a
//! program is asked from within, and released; it must then live on to its own end. A kernel, container or processor on
//! which that fails reveals it here.

use crate::collect::ask_from_within;
use crate::error::kernel;
use crate::freeze::Frozen;
use crate::inheritance::Inheritance;
use crate::shared::Shared;
use crate::tree::Roots;
use crate::{EngineError, InheritedSignals, ProcessIdentity};
use standfast_linux::abi;
use standfast_linux::sys::process;
use standfast_linux::{HeldChild, HeldProgram, Pid, WaitStatus, made_here_is_gone};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A process that does nothing stops at once, or never.
const STOP_MAX: Duration = Duration::from_secs(5);
/// The wait status of a held process whose program cannot be executed.
const NOT_EXECUTED: i32 = 127 << 8;

/// Rehearses a checkpoint on a throw-away process. After the first success in this process, later calls do nothing.
///
/// # Errors
/// Any error that a checkpoint of a program would have met. Nothing is left behind.
pub fn rehearse() -> Result<(), EngineError> {
    static WENT_WELL: Mutex<bool> = Mutex::new(false);
    let mut went_well = WENT_WELL.lock().unwrap_or_else(PoisonError::into_inner);
    if !*went_well {
        perform()?;
        *went_well = true;
    }
    Ok(())
}

fn perform() -> Result<(), EngineError> {
    // A directory cannot be executed: the released process ends by itself, if it still can.
    let nothing = HeldProgram { path: c"/", personality: 0 };
    let held = HeldChild::start(nothing, InheritedSignals::capture())
        .map_err(|source| kernel("making a throw-away process", source))?;
    let pid = held.pid;
    let asked = ask(pid);
    // Fails if the process is gone; its status then says more.
    let let_go = held.let_go();
    if asked.is_err() || let_go.is_err() {
        let _ = process::kill(pid, abi::SIGKILL);
    }
    let status =
        process::wait(pid.main_thread(), 0).map_err(|source| kernel("reaping a throw-away process", source))?;
    made_here_is_gone(pid);
    asked?;
    match status.map(WaitStatus) {
        Some(WaitStatus(NOT_EXECUTED)) => Ok(()),
        status => {
            let message = format!("it did not survive a checkpoint ({status:?}), so the program is not touched");
            Err(kernel("rehearsing on a throw-away process", std::io::Error::other(message)))
        }
    }
}

fn ask(pid: Pid) -> Result<(), EngineError> {
    let roots = Roots { main: ProcessIdentity::of(pid)?, reaper: None };
    let frozen = Frozen::new(roots, Shared::new(pid, Inheritance::default()), STOP_MAX)?;
    ask_from_within(&frozen)?;
    frozen.thaw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throw_away_process_survives_its_checkpoint() {
        rehearse().unwrap();
    }
}
