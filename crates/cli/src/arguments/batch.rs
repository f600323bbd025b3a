//! The command line of `standfast batch`.

use super::Run;
use clap::{Args, ValueEnum};
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  standfast batch slurm -i 10m -- ./heat 4096 > heat.sh && sbatch heat.sh
  standfast batch condor -- ./heat 4096 > heat.sh && bash heat.sh
  standfast batch systemd -- ./heat 4096 > ~/.config/systemd/user/heat.service
  standfast batch kubernetes --image registry.example/heat -- ./heat 4096 | kubectl apply -f -

The text is complete and commented; change it as you like. Before the job is interrupted, a checkpoint is \
taken and the program stops, and the next run of the job continues it. A program that ends by itself does not \
run again, whatever its exit status.";

/// Print a script or unit that runs a program under a batch system or service manager
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Batch {
    /// Batch system or service manager
    #[arg(value_name = "SCHEDULER", value_enum)]
    pub(crate) scheduler: Scheduler,
    /// Name of the job [default: that of the program]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<OsString>,
    /// Who runs an interrupted job again: the script itself ('self') where the scheduler would not, or 'never'
    #[arg(long, value_name = "WHO", value_enum, default_value_t = Requeue::SelfAgain)]
    pub(crate) requeue: Requeue,
    /// Line for the scheduler, such as --directive=--partition=long; may be repeated
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) directive: Vec<String>,
    /// Path of standfast on the machines of the job [default: that of this command]
    #[arg(long, value_name = "PATH")]
    pub(crate) standfast: Option<OsString>,
    /// Container image with the program and Standfast, for Kubernetes
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// What a script is written for.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// Slurm
    Slurm,
    /// HTCondor
    Condor,
    /// Grid Engine
    Sge,
    /// systemd, for the system or a user
    Systemd,
    /// Kubernetes
    Kubernetes,
}

/// Who runs an interrupted job again.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// The script, where the scheduler would not
    #[value(name = "self")]
    SelfAgain,
    /// Nobody
    Never,
}
