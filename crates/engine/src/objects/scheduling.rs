//! Policy, priorities and processors of threads, read and set from outside. Nothing that a program computes depends on
//! them: settings that are not allowed here are reported, and the thread continues without them.

use crate::construction::Construction;
use standfast_format::records::{Bytes, Scheduling, ThreadState};
use standfast_linux::abi;
use standfast_linux::sys::schedule::{self, SchedulingAttributes};
use standfast_linux::{Pid, Task, Tid};
use std::io;

/// `SCHED_FLAG_UTIL_CLAMP`: the utilization hints are valid.
const UTILIZATION_HINTS: u64 = 0x60;

/// One setting of a thread.
struct Setting {
    /// Its field of the record.
    field: &'static str,
    /// What it is to people.
    what: &'static str,
    collect: fn(Tid, &SchedulingBaseline, &mut ThreadState) -> io::Result<()>,
    restore: fn(Tid, &ThreadState) -> io::Result<()>,
}

/// All settings, in the order in which they are restored.
const SETTINGS: [Setting; 3] = [
    Setting {
        field: "processes.threads.affinity",
        what: "processors",
        collect: collect_affinity,
        restore: restore_affinity,
    },
    Setting {
        field: "processes.threads.io_priority",
        what: "priority for disks",
        collect: collect_io_priority,
        restore: restore_io_priority,
    },
    Setting {
        field: "processes.threads.scheduling",
        what: "scheduling policy and priority",
        collect: |tid, own, thread| scheduling(tid, &own.attributes).map(|found| thread.scheduling = found),
        restore: |tid, thread| restore_scheduling(tid, &thread.scheduling),
    },
];

/// What this process has: a program inherits it.
#[derive(Debug)]
pub(crate) struct SchedulingBaseline {
    attributes: SchedulingAttributes,
    /// The affinity of our main thread, since other threads move to where they have work.
    affinity: Vec<u8>,
}

impl SchedulingBaseline {
    pub(crate) fn of(own: Pid) -> io::Result<Self> {
        let main = own.main_thread();
        Ok(Self { attributes: schedule::attributes(main)?, affinity: schedule::affinity(main)? })
    }
}

/// Notes in the record of a thread how it is scheduled.
pub(super) fn collect_scheduling(tid: Tid, own: &SchedulingBaseline, thread: &mut ThreadState) -> io::Result<()> {
    SETTINGS.iter().try_for_each(|setting| (setting.collect)(tid, own, thread))
}

/// Returns policy and priorities of this thread.
pub(crate) fn own_scheduling() -> io::Result<Scheduling> {
    let own = Tid::own();
    scheduling(own, &schedule::attributes(own)?)
}

impl Construction {
    /// Sets only what differs. The main thread comes last: threads that it makes would inherit its settings.
    pub(crate) fn set_scheduling(&mut self, threads: &[ThreadState]) {
        let threads: Vec<_> = self.tasks.iter().map(Task::tid).zip(threads).rev().collect();
        for (tid, thread) in threads {
            for Setting { field, what, restore, .. } in SETTINGS {
                if let Err(error) = restore(tid, thread) {
                    let note = format!("a thread continues without its {what}, which is not permitted here ({error})");
                    self.lack(field, note);
                }
            }
        }
    }
}

/// Notes the processors of a task, if they differ from ours, which it inherited.
fn collect_affinity(tid: Tid, own: &SchedulingBaseline, thread: &mut ThreadState) -> io::Result<()> {
    let theirs = schedule::affinity(tid)?;
    thread.affinity = (theirs != own.affinity).then_some(Bytes(theirs));
    Ok(())
}

fn restore_affinity(tid: Tid, thread: &ThreadState) -> io::Result<()> {
    thread.affinity.as_ref().map_or(Ok(()), |mask| schedule::set_affinity(tid, &mask.0))
}

/// Notes the I/O priority; zero if the kernel has none.
fn collect_io_priority(tid: Tid, _: &SchedulingBaseline, thread: &mut ThreadState) -> io::Result<()> {
    thread.io_priority = schedule::io_priority(tid).unwrap_or_default();
    Ok(())
}

fn restore_io_priority(tid: Tid, thread: &ThreadState) -> io::Result<()> {
    let now = schedule::io_priority(tid).unwrap_or_default();
    if now == thread.io_priority { Ok(()) } else { schedule::set_io_priority(tid, thread.io_priority) }
}

/// Returns policy and priorities of a task. The slice of an ordinary task is reported only if it differs from the
/// system's default, which depends on the number of processors.
fn scheduling(tid: Tid, own: &SchedulingAttributes) -> io::Result<Scheduling> {
    let theirs = schedule::attributes(tid)?;
    let has_slice = matches!(theirs.policy as i32, abi::SCHED_OTHER | abi::SCHED_BATCH | abi::SCHED_IDLE);
    let runtime = if has_slice && theirs.runtime == own.runtime { 0 } else { theirs.runtime };
    Ok(Scheduling {
        policy: theirs.policy,
        flags: theirs.flags,
        nice: schedule::nice(tid)?,
        priority: theirs.priority,
        runtime,
        deadline: theirs.deadline,
        period: theirs.period,
        utilization_min: theirs.utilization_min,
        utilization_max: theirs.utilization_max,
    })
}

fn restore_scheduling(tid: Tid, scheduling: &Scheduling) -> io::Result<()> {
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
