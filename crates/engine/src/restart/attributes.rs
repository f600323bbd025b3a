//! Properties of a process besides memory, files and threads, in the order in which they are set.

use super::plan::Plan;
use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use standfast_linux::abi;
use standfast_linux::proc;

impl Construction {
    pub(super) fn set_attributes(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        self.set_audit_login(plan.process.switches.audit_login)?;
        self.enter_working_directory(plan.job, plan.process)?;
        self.call("setting the umask", abi::SYS_umask, [plan.process.umask.into(), 0, 0, 0, 0, 0])?;
        plan.process.dispositions.iter().try_for_each(|disposition| self.set_disposition(disposition))?;
        self.set_execution_domain(plan.process.personality)
    }

    /// Sets the execution domain if the exec of its program has not. Mappings made after this may be executable that
    /// were not.
    fn set_execution_domain(&self, wanted: u32) -> Result<(), EngineError> {
        let now = proc::personality(self.pid()).map_err(|source| kernel("looking at the new process", source))?;
        if now == wanted {
            return Ok(());
        }
        self.call("setting the execution domain", abi::SYS_personality, [wanted.into(), 0, 0, 0, 0, 0]).map(drop)
    }
}
