//! Sets the switches of a process again. Nothing that a program computes depends on most of them: switches that are not
//! allowed here are reported, and the program continues without them.

use super::{FIELD, FILES, SWITCHES};
use crate::EngineError;
use crate::construction::Construction;
use standfast_format::records::{MemoryLock, ProcessSwitches};
use standfast_linux::abi;
use standfast_linux::proc;

const MCL_FUTURE: u64 = 2;
const MCL_ONFAULT: u64 = 4;
const O_WRONLY: u64 = abi::O_WRONLY as u64;

impl Construction {
    /// Sets switches of the process as a whole, in the last step but one that its main thread performs for us.
    pub(crate) fn set_switches(&mut self, switches: &ProcessSwitches) -> Result<(), EngineError> {
        self.set_recorded(0, SWITCHES, switches)?;
        self.register_barriers(switches.memory_barriers.unwrap_or_default())?;
        if switches.lock_future != MemoryLock::Unlocked {
            let on_fault = if switches.lock_future == MemoryLock::OnFault { MCL_ONFAULT } else { 0 };
            self.call("locking memory", abi::SYS_mlockall, [MCL_FUTURE | on_fault, 0, 0, 0, 0, 0])?;
        }
        for file in FILES {
            let Some(value) = (file.set)(switches) else { continue };
            if let Err(error) = std::fs::write(format!("/proc/{}/{}", self.pid(), file.name), value) {
                self.go_without(FIELD, file.what, &error);
            }
        }
        Ok(())
    }

    /// Registers for memory barriers: a program that has registered calls them without checking.
    fn register_barriers(&self, wanted: u32) -> Result<(), EngineError> {
        for command in (0..u32::BITS).map(|bit| 1 << bit).filter(|command: &u32| wanted & command != 0) {
            let arguments = [command.into(), 0, 0, 0, 0, 0];
            self.call("registering for memory barriers (membarrier)", abi::SYS_membarrier, arguments)?;
        }
        Ok(())
    }

    /// Gives the process its former audit login id, which threads and children that it makes have as well. Only a
    /// process itself can set it, and mostly only once.
    pub(crate) fn set_audit_login(&mut self, wanted: Option<u32>) -> Result<(), EngineError> {
        let Some(wanted) = wanted.filter(|wanted| proc::audit_login(self.pid()).is_some_and(|now| now != *wanted))
        else {
            return Ok(());
        };
        let write = || {
            let path = self.path_argument(b"/proc/self/loginuid")?;
            let file = self.call("opening the audit login id", abi::SYS_open, [path, O_WRONLY, 0, 0, 0, 0])?;
            let text = wanted.to_string();
            let arguments = [file, self.argument(text.as_bytes())?, text.len() as u64, 0, 0, 0];
            let written = self.call("setting the audit login id", abi::SYS_write, arguments);
            self.call("closing a file", abi::SYS_close, [file, 0, 0, 0, 0, 0])?;
            written
        };
        if let Err(error) = write() {
            self.go_without(FIELD, "audit login id", &error);
        }
        Ok(())
    }
}
