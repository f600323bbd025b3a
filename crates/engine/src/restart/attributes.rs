//! Properties of a process besides memory, files and threads: directory, umask, signal dispositions, limits.

use super::plan::Plan;
use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use standfast_format::records::Disposition;
use standfast_linux::PassingDirectory;
use standfast_linux::abi;
use standfast_linux::sys::process;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

const SIGNAL_SET_BYTES: u64 = 8;

impl Construction {
    pub(super) fn set_attributes(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        self.set_audit_login(plan.process.switches.audit_login)?;
        self.enter_working_directory(plan)?;
        self.call("setting the umask", abi::SYS_umask, [plan.process.umask.into(), 0, 0, 0, 0, 0])?;
        plan.process.dispositions.iter().try_for_each(|disposition| self.set_disposition(disposition))
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

    /// Raises the limit, since descriptors are first parked above the highest number that the program uses.
    pub(super) fn raise_descriptor_limit(&self) -> Result<(), EngineError> {
        let (_, hard) =
            process::limit(self.pid(), abi::RLIMIT_NOFILE).map_err(|source| kernel("asking for limits", source))?;
        process::set_limit(self.pid(), abi::RLIMIT_NOFILE, hard, hard)
            .map_err(|source| kernel("setting limits", source))
    }

    fn set_disposition(&self, disposition: &Disposition) -> Result<(), EngineError> {
        let words = [disposition.handler, disposition.flags, disposition.restorer, disposition.mask];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let action = format!("setting what signal {} does", disposition.signal);
        let arguments = [disposition.signal.into(), self.argument(&bytes)?, 0, SIGNAL_SET_BYTES, 0, 0];
        self.call(&action, abi::SYS_rt_sigaction, arguments).map(drop)
    }

    /// Sets the limits. They come last: the program's own might prevent building it. A limit that may not be raised
    /// here stays as high as allowed.
    pub(super) fn set_limits(&self, plan: &Plan<'_>) -> Result<(), EngineError> {
        for (resource, limit) in plan.process.limits.iter().enumerate() {
            let resource = resource as u32;
            let setting = |source| kernel("setting limits", source);
            let (_, hard_here) = process::limit(self.pid(), resource).map_err(setting)?;
            let hard = limit.hard.min(hard_here);
            process::set_limit(self.pid(), resource, limit.soft.min(hard), hard).map_err(setting)?;
        }
        Ok(())
    }
}
