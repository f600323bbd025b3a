//! The command line. Each flag is defined once: the options of a job in the facade, all others here. The parser, help,
//! man page and completions are derived from that. A paragraph of help is a single line, since the parser wraps lines.

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use standfast::{
    DetachKey, GenerationNumber, LaunchOptions, MachineSettings, Notify, OptionChoices, RefusalCode, RestartChoices,
    WatchNotice,
};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  standfast run ./heat 4096           protect a program; a checkpoint every 10 minutes
  standfast run -i 1m -- ./heat -v    every minute; options after -- are the program's
  standfast restart                   after a crash: continue from the newest checkpoint
  standfast status heat.standfast     show its state
  standfast checkpoint heat.standfast --stop
                                      take a checkpoint now and stop; restart continues
  standfast clean heat.standfast      after it has finished: remove its checkpoints

Exit status of run and restart: that of the program, or the signal that killed it; 75 when it was stopped \
after a checkpoint (SIGTERM, or checkpoint --stop), or that of --stopped-status. Other commands: 0 for \
success, 1 for failure, 2 for an invalid command line. 127 and 126: the program was not found or could not be \
executed.";

const RUN_EXAMPLES: &str = "\
Examples:
  standfast run ./heat 4096
  standfast run -d /scratch/heat -i 30s -- ./heat 4096
  standfast run --nodes a,b -d /shared/job -- mpirun --host {nodes} -n 2 ./app     on two nodes, as one job
  standfast run --resume -- ./heat 4096     in a batch job that may be requeued: starts the
                                            program the first time, then continues it

SIGTERM takes a checkpoint, stops the program and exits with status 75. A second SIGTERM is passed to the \
program. --notice gives this and other signals another meaning. A checkpoint that fails never harms the \
program: it is reported and retried.

Options can also be set in standfast.toml in the current directory, in the section [run], under the names of \
these options: interval = \"90s\". A .ckptrc, as the libckpt paper of 1995 defines it, is read after that. The \
command line takes precedence.";

const RESTART_EXAMPLES: &str = "\
Examples:
  standfast restart                   the only *.standfast in the current directory
  standfast restart /scratch/heat
  standfast restart heat.standfast --at 7
                                      from checkpoint 7; later ones are set aside, not removed

Files that the program wrote are cut back to their length at the checkpoint; what is cut off is kept in the \
job's directory. See --files for files that others write too: it applies to this restart only. If the output of \
the run was redirected to a file, it continues there; see --redirect.

A job that has finished (status 0) is not restarted: the command says so and exits with status 0, so that a \
script can restart jobs in a loop until all are done. To repeat a part of a finished job, name the checkpoint \
with --at.";

const CHECKPOINT_EXAMPLES: &str = "\
Examples:
  standfast checkpoint heat.standfast
  standfast checkpoint --stop heat.standfast && standfast restart heat.standfast

Returns when the checkpoint is durable on disk. Also works if the supervisor has died.";

const ATTACH_EXAMPLES: &str = "\
Examples:
  standfast run --terminal proxied -- bash
                                      Ctrl-\\ Ctrl-\\ detaches
  standfast attach bash.standfast     reattaches, from any terminal; detaches whoever was attached

The program must have been started with --terminal proxied or --detach. It keeps its terminal when the \
supervisor is killed, and gets it back with its settings at a restart.";

const REHEARSE_EXAMPLES: &str = "\
Examples:
  standfast rehearse heat.standfast
                                      could the newest checkpoint be restarted here and now?

The restart is planned, every page is verified, and the job is rebuilt in namespaces of its own, compared with \
the checkpoint and discarded. Nothing of the program runs, no file is changed, and the running job notices \
nothing. What it would notice is left out, and named.";

const CORE_EXAMPLES: &str = "\
Examples:
  standfast core heat.standfast       writes core.heat.PID; the job may be running
  gdb ./heat core.heat.4711
  standfast core heat.standfast --at 7 -o heat.core
                                      checkpoint 7

A debugger reads pages that the program had not changed from the mapped files. The command names mapped files \
that may have changed since. Memory that the program has excluded as dead holds zeros or old values.";

const COALESCE_EXAMPLES: &str = "\
Examples:
  standfast coalesce heat.standfast

The supervisor does this by itself from time to time, while the program runs. Every checkpoint that is kept \
can still be restarted.";

const CLEAN_EXAMPLES: &str = "\
Examples:
  standfast clean --dry-run heat.standfast
  standfast clean heat.standfast
  standfast run --keep-finished no -- ./heat
                                      removes its checkpoints itself when the program has finished

Files that are not Standfast's stay, and so does the directory then. A running job is refused; one that was \
killed, was stopped or failed needs --unfinished.";

/// Keeps long-running programs safe: checkpoints any unmodified program, and continues it after a crash.
#[derive(Parser, Debug)]
#[command(name = "standfast", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) volume: Volume,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How much is said.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Volume {
    /// Print only warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Report each checkpoint
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(Run),
    Restart(Restart),
    Attach(Attach),
    Checkpoint(Checkpoint),
    Status(Status),
    List(List),
    Inspect(Inspect),
    Verify(Verify),
    Core(Core),
    Rehearse(Rehearse),
    Coalesce(Coalesce),
    Clean(Clean),
    Batch(Batch),
    Advise(Advise),
    Report(Report),
    Doctor(Doctor),
    Explain(Explain),
    #[command(subcommand)]
    Group(Group),
    Completions(Completions),
    Man(Man),
    #[command(flatten)]
    Part(PartCommand),
}

/// Run a program and take checkpoints of it
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// Directory for the checkpoints [default: PROGRAM.standfast in the current directory]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: OptionChoices,
    #[command(flatten)]
    pub(crate) launch: LaunchOptions,
    /// Read .ckptrc, and use the paper's defaults for settings that are missing, even without such a file: for programs
    /// that put themselves under Standfast
    #[arg(long)]
    pub(crate) ckptrc: bool,
    #[command(flatten)]
    pub(crate) nodes: NodeOptions,
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    /// Continue an unfinished job if it has a good checkpoint; otherwise start the program
    #[arg(long, conflicts_with = "fresh")]
    pub(crate) resume: bool,
    /// With --resume: redirect standard output and error to those of this command, even if they were files
    #[arg(long)]
    pub(crate) redirect: bool,
    /// With --resume: let monotonic clocks jump to those of this machine instead of continuing where they were
    #[arg(long)]
    pub(crate) clock_jump: bool,
    /// Discard an unfinished job and its checkpoints, then start
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Take over the directory from another host or container that is known to be dead
    #[arg(long)]
    pub(crate) force: bool,
    /// Wait until all processes of the job have exited; without it the command ends with the program, and remaining
    /// processes stay supervised in the background
    #[arg(long)]
    pub(crate) wait: bool,
    /// Run in the background, on a terminal of its own, and return at once; see standfast attach
    #[arg(long, conflicts_with = "wait")]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) keys: KeyOptions,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command_line: Vec<OsString>,
}

/// Continue a program from a checkpoint
#[derive(Args, Debug)]
#[command(after_help = RESTART_EXAMPLES)]
pub(crate) struct Restart {
    /// Directory of the checkpoints [default: the only *.standfast in the current directory]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// DIR is the program; continue it from the directory that .ckptrc names
    #[arg(long, requires = "directory")]
    pub(crate) ckptrc: bool,
    /// Checkpoint to continue from [default: the newest good one]
    #[arg(long, value_name = "GENERATION", value_parser = generation)]
    pub(crate) at: Option<GenerationNumber>,
    #[command(flatten)]
    pub(crate) options: RestartChoices,
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    /// Redirect standard output and error to those of this command, even if they were files [default: they continue in
    /// those files]
    #[arg(long)]
    pub(crate) redirect: bool,
    /// Let monotonic clocks jump to those of this machine instead of continuing where they were
    #[arg(long)]
    pub(crate) clock_jump: bool,
    /// Continue although the rebuilt job differs from the checkpoint in FIELD, as a refusal names it; may be repeated
    #[arg(long, value_name = "FIELD")]
    pub(crate) despite: Vec<String>,
    /// Take over the directory from another host or container that is known to be dead
    #[arg(long)]
    pub(crate) force: bool,
    /// Wait until all processes of the job have exited; without it the command ends with the program, and remaining
    /// processes stay supervised in the background
    #[arg(long)]
    pub(crate) wait: bool,
    /// Run in the background and return at once
    #[arg(long, conflicts_with = "wait")]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) keys: KeyOptions,
}

/// Options about this machine. No manifest keeps them: the job may be restarted on another machine.
#[derive(Args, Debug)]
pub(crate) struct MachineOptions {
    /// Stop the program after a checkpoint when this machine is about to be taken away: 'aws', 'gcp' and 'azure' ask
    /// the cloud, 'file:PATH' waits for a file, 'command:TEXT' for a command of the shell to succeed
    #[arg(long, value_name = "WHAT")]
    watch_notice: Option<WatchNotice>,
    /// Write metrics for Prometheus to FILE, each 15 seconds and after each checkpoint: for the textfile collector of a node
    /// exporter, which reads names that end in .prom
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    metrics: Option<PathBuf>,
    /// Run COMMAND in a shell if checkpoints fail for longer than --notify-after, and once more when one is taken again; its
    /// environment has STANDFAST_NOTIFY_STATE ('unprotected' or 'protected'), STANDFAST_NOTIFY_REASON and
    /// STANDFAST_NOTIFY_JOB
    #[arg(long, value_name = "COMMAND")]
    notify: Option<String>,
    /// With --notify: time without a checkpoint after which it is run
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30m", requires = "notify")]
    notify_after: Duration,
}

impl MachineOptions {
    /// Returns the settings, with paths that stay what they are.
    pub(crate) fn settings(self) -> anyhow::Result<MachineSettings> {
        let Self { watch_notice, metrics, notify, notify_after } = self;
        let metrics = metrics.map(std::path::absolute).transpose().context("cannot find the current directory")?;
        Ok(MachineSettings {
            watch_notice,
            metrics,
            notify: notify.map(|command| Notify { command, after: notify_after }),
        })
    }

    /// Returns the names of the options that were given, and whether they were.
    pub(crate) fn given(&self) -> [(&'static str, bool); 3] {
        [
            ("watch-notice", self.watch_notice.is_some()),
            ("metrics", self.metrics.is_some()),
            ("notify", self.notify.is_some()),
        ]
    }
}

/// Options about keys that this command does not pass to the program.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct KeyOptions {
    /// Key that detaches when pressed twice; 'none' disables it
    #[arg(long, value_name = "KEY", default_value_t)]
    pub(crate) detach_key: DetachKey,
}

/// Attach to the terminal of a running program that has one of its own
#[derive(Args, Debug)]
#[command(after_help = ATTACH_EXAMPLES)]
pub(crate) struct Attach {
    /// Directory of the checkpoints
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) keys: KeyOptions,
}

/// Take a checkpoint of a running program now
#[derive(Args, Debug)]
#[command(after_help = CHECKPOINT_EXAMPLES)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Stop the program after the checkpoint
    #[arg(long)]
    pub(crate) stop: bool,
}

/// Show the state of a job: running or not, its last checkpoint, the next one
#[derive(Args, Debug)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Print only the state, in one word: 'none' without a job, 'running', 'unprotected', 'elsewhere', 'stopped' on
    /// request, 'killed', 'crashed', 'failed' by itself, or 'finished'
    #[arg(long, conflicts_with = "json")]
    pub(crate) state: bool,
    /// Show it again each second until the job ends, with the pauses and sizes of the last checkpoints; without a terminal,
    /// print a line for each change
    #[arg(short, long, conflicts_with_all = ["json", "state"])]
    pub(crate) watch: bool,
}

/// List the checkpoints of a job
#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Show what a checkpoint holds: processes, threads, memory, descriptors
#[derive(Args, Debug)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Checkpoint to show [default: the newest good one]
    #[arg(value_name = "GENERATION", value_parser = generation)]
    pub(crate) at: Option<GenerationNumber>,
}

/// Verify every byte of the checkpoints
#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Checkpoint to verify [default: all]
    #[arg(value_name = "GENERATION", value_parser = generation)]
    pub(crate) at: Option<GenerationNumber>,
}

/// Write a checkpoint as core files for gdb and lldb, one for each process
#[derive(Args, Debug)]
#[command(after_help = CORE_EXAMPLES)]
pub(crate) struct Core {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Checkpoint to write [default: the newest good one]
    #[arg(long, value_name = "GENERATION", value_parser = generation)]
    pub(crate) at: Option<GenerationNumber>,
    /// File to write; with several processes, the name of each file is FILE.PID [default: core.PROGRAM.PID in the current
    /// directory]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Write only this process, by the id that it had in the checkpoint
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<i32>,
    /// Replace existing files
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// Find out whether a checkpoint can be restarted here, while the job runs or after it ended
#[derive(Args, Debug)]
#[command(after_help = REHEARSE_EXAMPLES)]
pub(crate) struct Rehearse {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Checkpoint to rehearse [default: the newest good one]
    #[arg(value_name = "GENERATION", value_parser = generation)]
    pub(crate) at: Option<GenerationNumber>,
    /// Yield processors, disks and memory to all others, and end with the parent process
    #[arg(long, hide = true)]
    pub(crate) background: bool,
}

/// Merge a chain of checkpoints into one, and remove those that are no longer needed
#[derive(Args, Debug)]
#[command(after_help = COALESCE_EXAMPLES)]
pub(crate) struct Coalesce {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Remove the checkpoints and the directory of a finished job
#[derive(Args, Debug)]
#[command(after_help = CLEAN_EXAMPLES)]
pub(crate) struct Clean {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Print what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Also remove the checkpoints of an unfinished job, which can then never be restarted
    #[arg(long)]
    pub(crate) unfinished: bool,
    /// Take over the directory from another host or container that is known to be dead
    #[arg(long)]
    pub(crate) force: bool,
}

/// Show what this machine supports, and what in a process could not be restored
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Running process to examine
    #[arg(value_name = "PID")]
    pub(crate) pid: Option<i32>,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Examine these nodes instead of this machine, or with 'slurm' those of the allocation
    #[arg(long, value_name = "NODE,...", value_delimiter = ',', conflicts_with = "pid")]
    pub(crate) nodes: Vec<String>,
    /// With --nodes: the command that reaches a node [default: ssh, or srun in an allocation of Slurm]
    #[arg(long, value_name = "COMMAND", requires = "nodes")]
    pub(crate) agent: Option<String>,
}

/// Explain why a checkpoint or a restart was refused
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// Code in the message, such as SF0401 [default: list all]
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<RefusalCode>,
}

/// Print completions for a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Print the manual page
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Command to describe, such as 'run' or 'group run' [default: a summary of all]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Which job, and how the answer is written.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// Directory of the checkpoints
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// How an answer is written.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Form {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn generation(text: &str) -> Result<GenerationNumber, String> {
    let number = text.parse().ok().and_then(GenerationNumber::new);
    number.ok_or_else(|| "a checkpoint is named by its number, 1 or more: see `standfast list DIR`".to_owned())
}

mod advise;
mod batch;
mod group;
mod nodes;

pub(crate) use advise::{Advise, Report};
pub(crate) use batch::{Batch, Requeue, Scheduler};
pub(crate) use group::{Group, GroupRun};
pub(crate) use nodes::{NodeOptions, PartCommand, PartRestart, PartRun};
#[cfg(test)]
mod tests;
