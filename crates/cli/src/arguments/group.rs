//! The command line of `standfast group`.

use super::Place;
use clap::{Args, Subcommand, ValueHint};
use standfast::EncodeEvery;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const GROUP_RUN_EXAMPLES: &str = "\
Examples:
  standfast group run -- mpirun -n 8 ./solver
  standfast group run -d /scratch/solver --tries 3 -- mpirun --hostfile nodes ./solver
  standfast group run -d /shared/solver --nodes n1,n2,n3,n4,n5 --spares 1 -- \\
                      mpirun --host {nodes} ./solver
  standfast group run --nodes slurm --spares 1 -- srun --nodelist={nodes} ./solver

The processes keep their checkpoints in each other's memory, with libstandfast_group. When a launch fails, the \
job is launched again and continues from its newest checkpoint; shards that were lost with a process or a node \
are rebuilt. On SIGTERM, at the time limit, or after the last try, checkpoints in memory are saved to the \
directory, and the same command continues the job later.";

pub(super) const GROUP_REBUILD_EXAMPLES: &str = "\
Examples:
  standfast group status /scratch/solver    show the epochs and their missing shards
  standfast group rebuild /scratch/solver   rebuild the newest one, without the program

A relaunched job does this by itself.";

/// Run MPI programs whose processes keep each other's checkpoints in memory: see standfast_mpi.h
#[derive(Subcommand, Debug)]
pub(crate) enum Group {
    Run(GroupRun),
    Status(GroupStatus),
    Verify(GroupVerify),
    Rebuild(GroupRebuild),
    Salvage(GroupSalvage),
    End(GroupEnd),
    Purge(GroupPurge),
    Watch(GroupWatch),
}

/// Launch a job of many processes, and relaunch it when some are lost
#[derive(Args, Debug)]
#[command(after_help = GROUP_RUN_EXAMPLES)]
pub(crate) struct GroupRun {
    /// Directory for the job's name, kept until the job is done, and for checkpoints copied to disk; visible to all
    /// nodes
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "group.standfast")]
    pub(crate) directory: PathBuf,
    /// Maximum number of launches
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tries: u32,
    /// Total time limit, such as 90m; checkpoints in memory are saved to disk when it is reached
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) time_limit: Option<Duration>,
    /// Time after which a process without a checkpoint, or waiting in one, ends itself, such as 10m
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) hang: Option<Duration>,
    /// Time limit for all processes to join after a launch; 0s for no limit
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = humantime::parse_duration)]
    pub(crate) start_limit: Duration,
    /// Time limit for the launcher to end after one of the processes has ended; 0s for no limit
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) loss_limit: Duration,
    /// Time limit for the launcher to end after all processes have left the group; 0s for no limit
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    pub(crate) finish_limit: Duration,
    /// Time between checkpoints, such as 60s, where the program leaves it to this command
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) interval: Option<Duration>,
    /// Copy every Nth checkpoint to the directory, in the background; 0 for none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) flush_every: u32,
    /// Encode every Nth checkpoint across the nodes, or with 'auto' as many as is best; those between survive lost processes but
    /// no lost node
    #[arg(long, value_name = "N", default_value_t)]
    pub(crate) encode_every: EncodeEvery,
    /// Number of lost processes of a group that are tolerated: 1 with parity, more with Reed-Solomon
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub(crate) checks: u32,
    /// Abandon checkpoints that are taken while messages are in flight, and name those messages (programs with
    /// -DSTANDFAST_MPI_COUNT)
    #[arg(long)]
    pub(crate) check_quiescent: bool,
    /// Nodes that the job may use, or 'slurm' for those of the allocation; {nodes} in the command is replaced by those
    /// in use
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// Number of nodes kept in reserve for those that fail
    #[arg(long, value_name = "N", default_value_t = 0, requires = "nodes")]
    pub(crate) spares: usize,
    /// Command that runs a command on a node, as AGENT NODE COMMAND: 'ssh', or 'srun' for the nodes of Slurm
    #[arg(long, value_name = "COMMAND", requires = "nodes")]
    pub(crate) agent: Option<String>,
    /// Command that launches all processes, with its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// Show which shards of a job are in its directory and in this node's memory, and how many losses they tolerate
#[derive(Args, Debug)]
pub(crate) struct GroupStatus {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Verify every page of a job's checkpoints in its directory
#[derive(Args, Debug)]
pub(crate) struct GroupVerify {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Rebuild the missing shards of the newest checkpoint in a job's directory
#[derive(Args, Debug)]
#[command(after_help = GROUP_REBUILD_EXAMPLES)]
pub(crate) struct GroupRebuild {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Copy the shards that an ended job left in this node's memory to its directory
#[derive(Args, Debug)]
pub(crate) struct GroupSalvage {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// End the remaining processes of a job on this node whose launcher is gone
///
/// `standfast group run` does so on all its nodes before each launch.
#[derive(Args, Debug)]
pub(crate) struct GroupEnd {
    /// Directory that was given to `standfast group run`
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

/// Say, each time something comes on standard input, whether a process of a job on this node has ended
///
/// `standfast group run` has one on each of its nodes while the job runs.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct GroupWatch {
    /// Directory that was given to `standfast group run`
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

/// Remove a job's shards from this node's memory, for a job that is no longer wanted
///
/// `standfast group run` does so on all its nodes when the job is done.
#[derive(Args, Debug)]
pub(crate) struct GroupPurge {
    /// Directory that was given to `standfast group run`
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}
