//! Compares the rebuilt job with its image before it runs, and before any file is cut back. It must not continue with
//! something else than what was saved.

use super::family::Family;
use super::plan::JobPlan;
use crate::error::kernel;
use crate::machine::machine;
use crate::objects::Renamed;
use crate::twin::Difference;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{JobState, Machine, OpenFileKind, SocketState};
use standfast_linux::abi;
use std::io;

/// How many differences are named.
const NAMED_MAX: usize = 5;
/// Fields, or the beginnings of their names, in which the kernel may deny a job what it had: the limits, privileges,
/// processors and NUMA nodes of the restart are other ones. Attributes of mappings that no result depends on are asked
/// before the stop, and may have changed by then. A wait that had nearly ended may be over when the rebuilt job is
/// collected (seen on Linux 5.10).
const MAY_DIFFER: &[&str] = &[
    "processes.limits",
    "processes.switches",
    "processes.threads.affinity",
    "processes.threads.restrictions.capabilities",
    "processes.threads.io_priority",
    "processes.threads.numa",
    "processes.threads.scheduling",
    "processes.threads.wait",
    "processes.mappings.attributes.accounting",
    "processes.mappings.attributes.advice",
    "processes.mappings.attributes.lock",
    "processes.mappings.attributes.numa",
];

impl Family {
    /// Returns what is to be reported. `despite` names fields that may differ.
    pub(super) fn compare_with_image(
        &self,
        plan: &JobPlan<'_>,
        despite: &[String],
    ) -> Result<Vec<String>, EngineError> {
        let differences = match self.rebuilt(plan).differences(plan.expected(&self.renamed)) {
            Ok(differences) => differences,
            Err(error) => {
                return Ok(vec![format!("the rebuilt job could not be compared with the checkpoint: {error}")]);
            }
        };
        let is_denied = |it: &Difference| MAY_DIFFER.iter().any(|field| it.field.starts_with(field));
        let is_noted = |it: &&Difference| {
            let mut lacking = self.processes.iter().flat_map(|process| &process.lacking);
            lacking.any(|field| it.field.starts_with(field))
        };
        let (denied, others): (Vec<_>, Vec<_>) = differences.into_iter().partition(is_denied);
        let may_all_differ = is_elsewhere(plan.job) || is_of_earlier_version(plan.job);
        let (allowed, wrong): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|it| may_all_differ || despite.contains(&it.field));
        if !wrong.is_empty() && self.has_lost_process() {
            let killed = io::Error::other("one of its processes was killed, as when memory runs out");
            return Err(kernel("rebuilding the job", killed));
        }
        if !wrong.is_empty() {
            return Err(EngineError::Refused(wrong.into_iter().map(refusal).collect()));
        }
        let reported = denied.iter().filter(|it| !is_noted(it)).chain(&allowed);
        Ok(shortened(reported.map(|it| format!("the rebuilt job differs from the checkpoint: {it}")).collect()))
    }
}

impl JobPlan<'_> {
    /// Returns what the rebuilt job is to be: as it was, but for files that continue elsewhere and sockets that could not
    /// have their names.
    fn expected(&self, renamed: &Renamed) -> JobState {
        let mut expected = self.job.clone();
        for planned in &self.regular {
            if let Some(OpenFileKind::Regular { offset, .. }) =
                expected.open_files.get_mut(planned.place).map(|open| &mut open.kind)
            {
                *offset = planned.offset;
            }
        }
        for socket in &mut expected.sockets {
            // It is connected later.
            if let SocketState::Connecting { .. } = socket.state {
                socket.state = SocketState::Unconnected;
                socket.name.0.iter_mut().skip(size_of::<abi::sa_family_t>()).for_each(|byte| *byte = 0);
            }
        }
        for (place, name) in &renamed.sockets {
            expected.sockets[*place].name = name.clone().into();
        }
        for (place, name) in &renamed.peers {
            if let SocketState::Distant { peer, .. } = &mut expected.sockets[*place].state {
                *peer = name.clone().into();
            }
        }
        expected
    }
}

/// Reports whether the job comes from another machine or kernel, where some things are called by other names.
fn is_elsewhere(job: &JobState) -> bool {
    let here = machine(job.machine.xsave_features);
    let it = |machine: &Machine| {
        let Machine { host, kernel_release, vdso, processor_features, .. } = machine.clone();
        (host, kernel_release, vdso, processor_features)
    };
    it(&here) != it(&job.machine)
}

/// Reports whether the image is of a version that recorded some things in another way.
fn is_of_earlier_version(job: &JobState) -> bool {
    job.surroundings.is_none()
}

fn refusal(difference: Difference) -> Blocker {
    Blocker::new(RefusalCode::RebuiltDifferently, "the rebuilt job", difference.to_string()).with_hint(format!(
        "this is a fault of Standfast, please report it; to continue nevertheless: standfast restart --despite {}",
        difference.field
    ))
}

fn shortened(mut notes: Vec<String>) -> Vec<String> {
    let more = notes.len().saturating_sub(NAMED_MAX);
    notes.truncate(NAMED_MAX);
    notes.extend((more > 0).then(|| format!("the rebuilt job differs from the checkpoint in {more} more fields")));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_differences_are_counted() {
        let notes = |count: usize| shortened((0..count).map(|it| it.to_string()).collect());
        assert_eq!(notes(NAMED_MAX).len(), NAMED_MAX);
        assert!(notes(NAMED_MAX + 2).last().unwrap().ends_with("in 2 more fields"));
    }
}
