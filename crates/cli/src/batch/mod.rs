//! `standfast batch`: prints a script or unit that runs a program under a batch system or service manager, and
//! continues it after each interruption. Nothing here asks the scheduler; the texts are in `templates/`.

mod condor;
mod kubernetes;
mod plan;
mod sge;
mod shell;
mod slurm;
mod systemd;
mod template;

use crate::arguments::{Batch, Scheduler};
use plan::JobPlan;
use std::ffi::OsString;

/// Returns the script for the command line `line`, which was parsed to `batch`.
pub(crate) fn script(batch: &Batch, line: &[OsString]) -> anyhow::Result<Vec<u8>> {
    let plan = JobPlan::of(batch, line)?;
    render(batch.scheduler, &plan)
}

fn render(scheduler: Scheduler, plan: &JobPlan) -> anyhow::Result<Vec<u8>> {
    match scheduler {
        Scheduler::Slurm => Ok(slurm::script(plan)),
        Scheduler::Condor => Ok(condor::script(plan)),
        Scheduler::Sge => Ok(sge::script(plan)),
        Scheduler::Systemd => Ok(systemd::unit(plan)),
        Scheduler::Kubernetes => kubernetes::manifest(plan),
    }
}

#[cfg(test)]
mod tests;
