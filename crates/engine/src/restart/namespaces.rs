//! Determines which namespaces a restarted job needs here: for its old ids, and for clocks that must not go back. If
//! they are not available, programs that tolerate new ids get these, and others are refused by name.

use super::ids::IdPolicy;
use super::plan::JobPlan;
use crate::JobIds;
use crate::error::kernel;
use crate::objects::{has_ipc, makes_terminals, refuse_shared_ipc};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_linux::{
    ClockOffsets, Furnishing, HeldChild, HeldProgram, InheritedSignals, NamespaceInit, NamespaceKind, Pid,
    monotonic_clocks_of,
};

/// What a restart does if the monotonic clocks of this machine are behind those that the job has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockPolicy {
    /// The job gets a time namespace in which they continue; if that is not available, the restart is refused.
    #[default]
    Continue,
    /// They jump back to those of this machine, whatever deadlines the program may have computed.
    Jump,
}

/// Makes a child that will execute the program: under its old id in its own namespaces if that is wanted and allowed.
pub(super) fn hold(
    plan: &JobPlan<'_>,
    policy: IdPolicy,
    clock_policy: ClockPolicy,
    program: HeldProgram<'_>,
    signals: InheritedSignals,
) -> Result<(Option<NamespaceInit>, HeldChild, JobIds), EngineError> {
    let old = plan.job.processes[0].pid;
    let clocks = match clock_policy {
        ClockPolicy::Continue => plan.shifted_clocks()?,
        ClockPolicy::Jump => None,
    };
    let furnishing = Furnishing { clocks, terminals: makes_terminals(plan.job), ipc: has_ipc(plan.job) };
    let mut reason = None;
    // Process 1 of the new namespace is its init.
    if policy == IdPolicy::Auto && old > 1 {
        plan.refuse_ids_above_limit()?;
        for kind in NamespaceKind::of_this_user() {
            match NamespaceInit::start(*kind, Pid::new(old), furnishing, program, signals) {
                Ok((init, held)) => {
                    return Ok((Some(init), held, JobIds::Old { of_user: *kind == NamespaceKind::User }));
                }
                Err(source) => reason = Some(source),
            }
        }
    }
    if clocks.is_some() {
        return Err(plan.refuse_earlier_clocks(reason.as_ref()));
    }
    plan.refuse_new_ids(reason.as_ref())?;
    refuse_shared_ipc(plan.job, reason.as_ref())?;
    let held = HeldChild::start(program, signals).map_err(|source| kernel("making a new process", source))?;
    Ok((None, held, JobIds::New { reason: reason.map(|reason| reason.to_string()) }))
}

impl JobPlan<'_> {
    /// Returns the clocks that the job must be given if those of this machine would go back for it. This happens after
    /// a reboot, on another machine, or when the job has lived under shifted clocks before. The program's memory holds
    /// absolute deadlines. Under earlier clocks it would sleep until they come again, perhaps for days.
    fn shifted_clocks(&self) -> Result<Option<ClockOffsets>, EngineError> {
        let were = &self.job.clocks;
        let (monotonic, boottime) = monotonic_clocks_of(Pid::own());
        if monotonic >= were.monotonic_nanoseconds && boottime >= were.boottime_nanoseconds {
            return Ok(None);
        }
        let shifted =
            ClockOffsets::showing(monotonic.max(were.monotonic_nanoseconds), boottime.max(were.boottime_nanoseconds));
        shifted.map(Some).map_err(|source| kernel("shifting the job's clocks", source))
    }

    /// Returns the refusal of a job whose clocks would have to be shifted and cannot be.
    fn refuse_earlier_clocks(&self, reason: Option<&std::io::Error>) -> EngineError {
        let why = match reason {
            Some(reason) => format!("and a time namespace, which would correct it, is not available here ({reason})"),
            None => "and with --ids new the job gets no time namespace, which would correct it".to_owned(),
        };
        EngineError::Refused(vec![Blocker::new(RefusalCode::Clock, "monotonic clock", format!("this machine's clock is earlier than the checkpoint's (it has been booted since, or is another machine), {why}")).with_hint("allow unprivileged user namespaces, or restart it as root, without --ids new; or let the clocks jump back \
                     (--clock-jump), which may make the program sleep for as long as the machine had been up")])
    }
}
