//! Policy, priorities and processors of the threads of a process under construction, set from outside. Nothing that a
//! program computes depends on them: settings that are not allowed here are reported, and the thread continues without
//! them.

use super::plan::Plan;
use crate::construction::Construction;
use standfast_format::records::{Scheduling, ThreadState};
use standfast_linux::abi;
use standfast_linux::sys::schedule::{self, SchedulingAttributes};
use standfast_linux::{Task, Tid};
use std::io;

/// `SCHED_FLAG_UTIL_CLAMP`: the utilization hints are valid.
const UTILIZATION_HINTS: u64 = 0x60;

impl Construction {
    /// Sets only what differs. The main thread comes last: threads that it makes would inherit its settings.
    pub(super) fn set_scheduling(&mut self, plan: &Plan<'_>) {
        let threads: Vec<_> = self.tasks.iter().map(Task::tid).zip(&plan.process.threads).rev().collect();
        for (tid, thread) in threads {
            let given = [
                ("processes.threads.affinity", "processors", set_affinity(tid, thread)),
                ("processes.threads.io_priority", "priority for disks", set_io_priority(tid, thread.io_priority)),
                (
                    "processes.threads.scheduling",
                    "scheduling policy and priority",
                    set_attributes(tid, &thread.scheduling),
                ),
            ];
            for (field, what, given) in given {
                if let Err(error) = given {
                    let note = format!("a thread continues without its {what}, which is not permitted here ({error})");
                    self.lack(field, note);
                }
            }
        }
    }
}

fn set_affinity(tid: Tid, thread: &ThreadState) -> io::Result<()> {
    thread.affinity.as_ref().map_or(Ok(()), |mask| schedule::set_affinity(tid, &mask.0))
}

fn set_io_priority(tid: Tid, priority: u32) -> io::Result<()> {
    let now = schedule::io_priority(tid).unwrap_or_default();
    if now == priority { Ok(()) } else { schedule::set_io_priority(tid, priority) }
}

fn set_attributes(tid: Tid, scheduling: &Scheduling) -> io::Result<()> {
    let now = schedule::attributes(tid)?;
    let mut wanted = SchedulingAttributes {
        size: now.size,
        policy: scheduling.policy,
        flags: scheduling.flags,
        nice: now.nice,
        priority: scheduling.priority,
        runtime: if scheduling.runtime == 0 { now.runtime } else { scheduling.runtime },
        deadline: scheduling.deadline,
        period: scheduling.period,
        utilization_min: scheduling.utilization_min,
        utilization_max: scheduling.utilization_max,
    };
    if schedule::nice(tid)? != scheduling.nice {
        schedule::set_nice(tid, scheduling.nice)?;
    }
    // The nice value is reported, and may be set, only under ordinary policies. Else it waits until there is one again.
    wanted.nice = if is_ordinary(wanted.policy) { scheduling.nice } else { 0 };
    if wanted == (SchedulingAttributes { nice: wanted.nice, ..now }) {
        return Ok(());
    }
    if (now.utilization_min, now.utilization_max) != (wanted.utilization_min, wanted.utilization_max) {
        wanted.flags |= UTILIZATION_HINTS;
    }
    schedule::set_attributes(tid, &wanted)
}

fn is_ordinary(policy: u32) -> bool {
    matches!(policy as i32, abi::SCHED_OTHER | abi::SCHED_BATCH)
}
