//! Options of distributed jobs, and the commands that their processes are started with, which are hidden.

use super::generation;
use clap::{Args, Subcommand};
use standfast::{GenerationNumber, OptionChoices};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Options of distributed jobs.
#[derive(Args, Debug, Clone)]
pub(crate) struct NodeOptions {
    /// Nodes of a distributed job, or 'slurm' for those of the allocation; the program runs on the first one, and its
    /// launcher starts others with standfast rsh
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// Command that reaches a node [default: ssh, or srun in an allocation of Slurm]
    #[arg(long, value_name = "COMMAND", requires = "nodes")]
    pub(crate) agent: Option<String>,
    /// With --nodes: the longest time for which a checkpoint may freeze the program; one that would take longer is given up
    #[arg(long, value_name = "TIME", requires = "nodes", default_value = "1s", value_parser = humantime::parse_duration)]
    pub(crate) pause_limit: Duration,
}

/// What the processes of a distributed job are started with. Nobody types them but `rsh`.
#[derive(Subcommand, Debug)]
pub(crate) enum PartCommand {
    /// Speak for a node
    #[command(hide = true)]
    PartAgent,
    /// Begin a part and supervise it
    #[command(hide = true)]
    PartRun(PartRun),
    /// Continue a part together with the others
    #[command(hide = true)]
    PartRestart(PartRestart),
    /// Serve a part
    #[command(hide = true)]
    PartServer(PartPlace),
    /// Answer one command from another node
    #[command(hide = true)]
    PartShim(PartPlace),
    /// Execute a command on another node of the distributed job that this process belongs to, as a launcher's remote shell
    Rsh(Rsh),
}

/// A part of a distributed job.
#[derive(Args, Debug)]
pub(crate) struct PartPlace {
    /// Directory of the part
    pub(crate) directory: PathBuf,
}

/// A part to begin.
#[derive(Args, Debug)]
pub(crate) struct PartRun {
    #[command(flatten)]
    pub(crate) part: PartPlace,
    #[command(flatten)]
    pub(crate) options: OptionChoices,
}

/// A part to continue.
#[derive(Args, Debug)]
pub(crate) struct PartRestart {
    /// Directory of the part
    pub(crate) directory: PathBuf,
    /// Checkpoint to continue from
    #[arg(value_parser = generation)]
    pub(crate) generation: GenerationNumber,
    #[command(flatten)]
    pub(crate) options: OptionChoices,
    /// Continue although the rebuilt part differs from the checkpoint in FIELD
    #[arg(long, value_name = "FIELD")]
    pub(crate) despite: Vec<String>,
}

/// A command for another node.
#[derive(Args, Debug)]
pub(crate) struct Rsh {
    /// As ssh has it; it means nothing here
    #[arg(short)]
    pub(crate) x: bool,
    /// Node of the job
    pub(crate) node: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}
