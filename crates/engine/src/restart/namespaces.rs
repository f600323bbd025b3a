//! Which namespaces a restarted job needs here: for its old ids, and for clocks that must not go back. Where they cannot
//! be had, what follows from that: new ids for programs that can live with them, a refusal by name for the others.

use super::IdPolicy;
use super::plan::Plan;
use crate::freeze::kernel;
use crate::{EngineError, Obstacle};
use standfast_linux::sys::process;
use standfast_linux::{
    ClockOffsets, Held, HeldProgram, InheritedSignals, NamespaceInit, NamespaceKind, monotonic_clocks_of,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A child that will execute the program: under its old id in namespaces of its own where that is wanted and allowed.
pub(super) fn hold(
    plan: &Plan<'_>,
    ids: IdPolicy,
    program: HeldProgram<'_>,
    signals: InheritedSignals,
) -> Result<(Option<NamespaceInit>, Held), EngineError> {
    let old = plan.process.pid;
    // Root stays root inside; in a container it may have to do as everybody else.
    let kinds = [NamespaceKind::Pid, NamespaceKind::User];
    let kinds = if process::effective_user() == 0 { &kinds[..] } else { &kinds[1..] };
    let clocks = plan.shifted_clocks()?;
    let mut reason = None;
    // Process 1 of the new namespace is its init.
    for kind in kinds.iter().filter(|_| ids == IdPolicy::Auto && old > 1) {
        match NamespaceInit::start(*kind, old, clocks, program, signals) {
            Ok((init, held)) => return Ok((Some(init), held)),
            Err(source) => reason = Some(source),
        }
    }
    if clocks.is_some() {
        return Err(plan.refuse_earlier_clocks(reason.as_ref()));
    }
    plan.refuse_new_ids(reason.as_ref())?;
    let held = Held::start(program, signals).map_err(|source| kernel("making a new process", source))?;
    Ok((None, held))
}

impl Plan<'_> {
    /// Without namespaces the program gets new ids. A C library's cached ids are found and put right; a Go program keeps
    /// its own where nobody finds them and would hang.
    fn refuse_new_ids(&self, reason: Option<&std::io::Error>) -> Result<(), EngineError> {
        let program = std::fs::read(OsStr::from_bytes(&self.process.executable.path.0));
        let is_go = program.is_ok_and(|program| contains(&program, b"\xff Go buildinf:"));
        if !is_go {
            return Ok(());
        }
        let (why, remedy) = match reason {
            Some(reason) => (
                format!("a Go program must have its old ids back, and namespaces cannot be had here ({reason})"),
                "allow unprivileged user namespaces, or restart it as root",
            ),
            None => ("a Go program must have its old ids back".to_owned(), "do not ask for new ones (--ids auto)"),
        };
        let what = "process ids".to_owned();
        Err(EngineError::Refused(vec![Obstacle { what, why, remedy: remedy.to_owned(), passing: false }]))
    }

    /// The clocks that the job must be given, where those of this machine would go back for it: after a reboot, on another
    /// machine, or when the job has lived under shifted clocks before. Absolute deadlines lie in the program's memory; under
    /// earlier clocks it would sleep until they come again, for days perhaps.
    fn shifted_clocks(&self) -> Result<Option<ClockOffsets>, EngineError> {
        let were = &self.job.clocks;
        let (monotonic, boottime) = monotonic_clocks_of(std::process::id() as i32);
        if monotonic >= were.monotonic_nanoseconds && boottime >= were.boottime_nanoseconds {
            return Ok(None);
        }
        let shifted =
            ClockOffsets::showing(monotonic.max(were.monotonic_nanoseconds), boottime.max(were.boottime_nanoseconds));
        shifted.map(Some).map_err(|source| kernel("shifting the job's clocks", source))
    }

    /// Where the clocks would have to be shifted and cannot.
    fn refuse_earlier_clocks(&self, reason: Option<&std::io::Error>) -> EngineError {
        let why = match reason {
            Some(reason) => format!("and a time namespace, in which it would go on, cannot be had here ({reason})"),
            None => "and the job gets no namespace, in which it would go on (--ids new)".to_owned(),
        };
        EngineError::Refused(vec![Obstacle {
            what: "monotonic clock".to_owned(),
            why: format!("that of this machine is behind the checkpoint's (rebooted since, or another machine), {why}"),
            remedy: "allow unprivileged user namespaces, or restart it as root, without --ids new".to_owned(),
            passing: false,
        }])
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
