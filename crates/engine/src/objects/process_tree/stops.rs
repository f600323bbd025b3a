//! Processes that job control had stopped are stopped again while they are still empty. Their threads join the stop
//! when they are made, and none runs when all are released. Parents are notified of what they had not asked for yet,
//! and of nothing else.

use crate::EngineError;
use crate::construction::{Construction, building};
use crate::error::kernel;
use standfast_format::records::{JobState, ProcessTree, Unreported};
use standfast_linux::Stop;
use standfast_linux::abi;
use standfast_linux::sys::process;
use std::io;

/// Finds a child that has been stopped.
const ASK: u64 = (abi::WUNTRACED | abi::WNOHANG | abi::__WALL) as u64;

/// Stops again what was stopped.
pub(crate) fn stop_the_stopped(processes: &[Construction], job: &JobState) -> Result<(), EngineError> {
    let mut any = false;
    for (process, state) in processes.iter().zip(&job.processes) {
        let ProcessTree { parent, stopped_by, unreported, .. } = state.process_tree;
        // Only a process that was stopped can be continued.
        let Some(signal) = stopped_by.or(unreported.map(|_| abi::SIGSTOP as u8)) else { continue };
        any = true;
        process.stop(signal.into())?;
        let parent = parent.and_then(|parent| processes.get(parent as usize));
        if let Some(parent) = parent.filter(|_| unreported != Some(Unreported::Stopped)) {
            parent.hear_of_stop(state.pid)?;
        }
        if stopped_by.is_none() {
            let continuing = |source| kernel("continuing a process", source);
            process::kill(process.pid(), abi::SIGCONT).map_err(continuing)?;
        }
    }
    // Children come after their parents, who are notified by what a child does next.
    if any { processes.iter().rev().try_for_each(Construction::forget_signals) } else { Ok(()) }
}

impl Construction {
    /// Stops it by `signal`, or by SIGSTOP if the kernel lets no other signal stop a process of this group.
    fn stop(&self, signal: i32) -> Result<(), EngineError> {
        if self.is_stopped_by(signal)? || self.is_stopped_by(abi::SIGSTOP)? {
            return Ok(());
        }
        Err(kernel("stopping a process", io::Error::other("it goes on")))
    }

    fn is_stopped_by(&self, signal: i32) -> Result<bool, EngineError> {
        if signal != abi::SIGSTOP {
            self.reset_disposition(signal)?;
        }
        process::kill(self.pid(), signal).map_err(|source| kernel("stopping a process", source))?;
        let task = self.main();
        task.set_signal_mask(!(1 << (signal - 1))).map_err(building)?;
        // Should the signal have no effect, the process gets no further than this call.
        let harmless = self.base.calling(self.syscall, abi::SYS_getpid, [0; 6]);
        task.set_registers(&harmless).map_err(building)?;
        let mut pass = 0;
        let is_stopped = loop {
            task.resume_to_syscall(pass).map_err(building)?;
            let passed = pass == signal;
            match task.wait().map_err(building)? {
                Stop::Signal(taken) => pass = if taken == signal { signal } else { 0 },
                Stop::Asked if passed => break true,
                Stop::Asked | Stop::Event(_) => pass = 0,
                Stop::Syscall => break false,
            }
        };
        if !is_stopped {
            task.resume_to_syscall(0).and_then(|()| task.wait()).map_err(building)?;
        }
        task.set_signal_mask(u64::MAX).map_err(building)?;
        Ok(is_stopped)
    }

    /// Asks for a child that has been stopped, so that it is not reported once more.
    fn hear_of_stop(&self, child: i32) -> Result<(), EngineError> {
        let answer = self.call("asking for a stopped child", abi::SYS_wait4, [child as u64, 0, ASK, 0, 0, 0])?;
        if answer != child as u64 {
            return Err(kernel("asking for a stopped child", io::Error::other("the kernel does not report one")));
        }
        Ok(())
    }
}
