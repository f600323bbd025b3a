//! Properties of a process besides memory, files and threads: directory, umask, signal dispositions, limits.

use super::plan::Plan;
use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use standfast_format::records::{Disposition, Limit};
use standfast_linux::PassingDirectory;
use standfast_linux::abi;
use standfast_linux::proc;
use standfast_linux::sys::process;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

const SIGNAL_SET_BYTES: u64 = 8;
/// Names of the limits, in the kernel's order.
const LIMITS: [&str; 16] = [
    "RLIMIT_CPU",
    "RLIMIT_FSIZE",
    "RLIMIT_DATA",
    "RLIMIT_STACK",
    "RLIMIT_CORE",
    "RLIMIT_RSS",
    "RLIMIT_NPROC",
    "RLIMIT_NOFILE",
    "RLIMIT_MEMLOCK",
    "RLIMIT_AS",
    "RLIMIT_LOCKS",
    "RLIMIT_SIGPENDING",
    "RLIMIT_MSGQUEUE",
    "RLIMIT_NICE",
    "RLIMIT_RTPRIO",
    "RLIMIT_RTTIME",
];

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
    /// here stays as high as allowed, which is noted.
    pub(super) fn set_limits(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        for (resource, limit) in plan.process.limits.iter().enumerate() {
            let resource = resource as u32;
            let setting = |source| kernel("setting limits", source);
            let (_, hard_here) = process::limit(self.pid(), resource).map_err(setting)?;
            let hard = limit.hard.min(hard_here);
            let soft = limit.soft.min(hard);
            process::set_limit(self.pid(), resource, soft, hard).map_err(setting)?;
            if let Some(note) = lowered(resource, limit, soft, hard) {
                self.lack("processes.limits", note);
            }
        }
        Ok(())
    }
}

/// Returns a note about a limit that is lower than it was.
fn lowered(resource: u32, was: &Limit, soft: u64, hard: u64) -> Option<String> {
    let name = LIMITS.get(resource as usize)?;
    let (what, before, now) = match (soft < was.soft, hard < was.hard) {
        (true, _) => ("limit", was.soft, soft),
        (false, true) => ("hard limit", was.hard, hard),
        (false, false) => return None,
    };
    let shown = |limit: u64| if limit == u64::MAX { "unlimited".to_owned() } else { limit.to_string() };
    Some(format!("the program's {what} {name} is {} here, before it was {}", shown(now), shown(before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lower_limit_is_noted() {
        let was = Limit { soft: 1024, hard: u64::MAX };
        let note = |soft, hard| lowered(abi::RLIMIT_NOFILE, &was, soft, hard);
        assert_eq!(note(1024, u64::MAX), None);
        let soft = "the program's limit RLIMIT_NOFILE is 200 here, before it was 1024";
        assert_eq!(note(200, 200).as_deref(), Some(soft));
        let hard = "the program's hard limit RLIMIT_NOFILE is 4096 here, before it was unlimited";
        assert_eq!(note(1024, 4096).as_deref(), Some(hard));
    }
}
