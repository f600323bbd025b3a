//! Resource limits of a process (getrlimit(2)), read and set from outside.

use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use standfast_format::records::Limit;
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::sys::process;
use std::io;

/// Names of all limits, in the kernel's order.
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

/// Returns the limits of a process, in the order of [`LIMITS`].
pub(crate) fn resource_limits(pid: Pid) -> io::Result<Vec<Limit>> {
    let limit = |resource| process::limit(pid, resource).map(|(soft, hard)| Limit { soft, hard });
    (0..LIMITS.len() as u32).map(limit).collect()
}

impl Construction {
    /// Raises the limit, since descriptors are first parked above the highest number that the program uses.
    pub(crate) fn raise_descriptor_limit(&self) -> Result<(), EngineError> {
        let (_, hard) =
            process::limit(self.pid(), abi::RLIMIT_NOFILE).map_err(|source| kernel("asking for limits", source))?;
        process::set_limit(self.pid(), abi::RLIMIT_NOFILE, hard, hard)
            .map_err(|source| kernel("setting limits", source))
    }

    /// Sets the limits. They come last: the program's own might prevent building it. A limit that may not be raised
    /// here stays as high as allowed, which is noted.
    pub(crate) fn set_limits(&mut self, limits: &[Limit]) -> Result<(), EngineError> {
        for (resource, limit) in (0..).zip(limits) {
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
