//! Properties of a process besides memory, files and threads, in the order in which they are set.

use super::plan::Plan;
use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use standfast_linux::PassingDirectory;
use standfast_linux::abi;
use standfast_linux::proc;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

impl Construction {
    pub(super) fn set_attributes(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        self.set_audit_login(plan.process.switches.audit_login)?;
        self.enter_working_directory(plan)?;
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

    /// Enters the working directory. A removed directory is made somewhere, and removed again.
    fn enter_working_directory(&self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let directory = &plan.process.working_directory;
        let action = format!("changing to the program's working directory {directory}");
        let enter =
            |path: &[u8]| self.call(&action, abi::SYS_chdir, [self.path_argument(path)?, 0, 0, 0, 0, 0]).map(drop);
        let removed = plan.job.surroundings.iter().flatten().find(|it| it.removed && it.path == *directory);
        let Some(removed) = removed else { return enter(&directory.0) };
        let failed = |source| kernel(&action, source);
        let made = PassingDirectory::new().map_err(failed)?;
        enter(made.path().as_os_str().as_bytes())?;
        std::fs::set_permissions(made.path(), Permissions::from_mode(removed.mode & 0o7777)).map_err(failed)
    }
}
