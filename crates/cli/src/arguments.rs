//! The command line: each flag is defined once, here; parser, help, man page and completions come from it.

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use standfast::{
    Compress, Delta, DetachKey, DurableEvery, ExternalSockets, Files, Flush, FlushEvery, GenerationNumber, Grace, Ids,
    Incremental, Interval, Keep, KeepFinished, MaxFiles, Memory, MinInterval, SaveFiles, SaveFolder, Snapshot, Stack,
    TerminalKind, Track,
};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  standfast run ./heat 4096           protect a program; a checkpoint every 10 minutes
  standfast run -i 1m -- ./heat -v    every minute; options after -- are the program's
  standfast restart                   it was killed: continue it from its newest checkpoint
  standfast status heat.standfast     how does it stand?
  standfast checkpoint heat.standfast --stop
                                      save it now and stop it; restart continues it
  standfast clean heat.standfast      it has finished: remove its checkpoints

Exit status of run and restart: the program's own; killed by a signal: the same signal;
75 when stopped behind a checkpoint (SIGTERM, or checkpoint --stop). Otherwise 0 for success,
1 for failure, 2 for a wrong command line; 127 and 126 when the program to run is not found
or cannot be executed.";

const RUN_EXAMPLES: &str = "\
Examples:
  standfast run ./heat 4096
  standfast run -d /scratch/heat -i 30s -- ./heat 4096
  standfast run --resume -- ./heat 4096     in a batch job: starts it or continues it,
                                            whichever applies, so that it can be requeued

SIGTERM takes a checkpoint, stops the program and ends with status 75. A second one goes to
the program. A checkpoint that fails never harms the program: it is told and tried again.

Where the current directory has a standfast.toml, what stands there below [run], by the names of these
options, holds where nothing is said here: interval = \"90s\", say. Behind it comes a .ckptrc, as the
libckpt paper of 1995 defines it.";

const RESTART_EXAMPLES: &str = "\
Examples:
  standfast restart                   the only *.standfast directory right here
  standfast restart /scratch/heat
  standfast restart heat.standfast --at 7
                                      from that checkpoint; later ones are set aside, not removed

Files that the program wrote are cut back to their length at the checkpoint; what is cut off is
kept in the job's directory. See --files for those that others write as well. A file that the
output of the run was redirected to stays the program's output; see --redirect.

A job that has finished (status 0) is not restarted: this says so and ends with status 0, so that a
script can restart whatever it finds until the job is done. To repeat a part of it, name the
checkpoint with --at.";

const CHECKPOINT_EXAMPLES: &str = "\
Examples:
  standfast checkpoint heat.standfast
  standfast checkpoint --stop heat.standfast && standfast restart heat.standfast

Returns when the checkpoint is safe on disk. Also saves a program whose supervisor has died.";

const ATTACH_EXAMPLES: &str = "\
Examples:
  standfast run --terminal proxied -- bash
                                      Ctrl-\\ Ctrl-\\ detaches
  standfast attach bash.standfast     back to it, from any terminal; whoever was attached is detached

The program was started with --terminal proxied or --detach. It keeps its terminal when the supervisor
is killed, and gets it back with its settings at a restart.";

const COALESCE_EXAMPLES: &str = "\
Examples:
  standfast coalesce heat.standfast

A supervisor does this by itself from time to time; the program runs meanwhile. Checkpoints that are
to be kept stay, each can be restarted as before.";

const CLEAN_EXAMPLES: &str = "\
Examples:
  standfast clean --dry-run heat.standfast
  standfast clean heat.standfast
  standfast run --keep-finished no -- ./heat
                                      removes its checkpoints itself when the program has finished

Files of your own in the directory stay, and the directory with them. A job that runs is refused; one
that was killed, stopped or has failed needs --unfinished.";

const GROUP_RUN_EXAMPLES: &str = "\
Examples:
  standfast group run -- mpirun -n 8 ./solver
  standfast group run -d /scratch/solver --tries 3 -- mpirun --hostfile nodes ./solver
  standfast group run -d /shared/solver --nodes n1,n2,n3,n4,n5 --spares 1 -- \\
                      mpirun --host {nodes} ./solver
  standfast group run --nodes slurm --spares 1 -- srun --nodelist={nodes} ./solver

The processes checkpoint themselves into each other's memory, with libstandfast_group. Whenever a
launch fails, the job is launched again and goes on from its newest checkpoint; what was lost with
a process or a node is rebuilt. On SIGTERM, at the time limit, or when the tries are used up, what
is in memory is saved in the directory, and the same command goes on with the job later.";

const GROUP_REBUILD_EXAMPLES: &str = "\
Examples:
  standfast group status /scratch/solver    which epochs are there, and what they lack
  standfast group rebuild /scratch/solver   make the newest one whole, without the program

A relaunched job does the same by itself.";

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
    /// Say nothing but warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Tell about each checkpoint
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
    Coalesce(Coalesce),
    Clean(Clean),
    Doctor(Doctor),
    #[command(subcommand)]
    Group(Group),
    Completions(Completions),
    Man(Man),
}

/// Run a program under protection
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// Where checkpoints go [default: PROGRAM.standfast, right here]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Time between checkpoints, such as 90s, 10m or 1h; 'off' for none but on request [default: 10m]
    #[arg(short, long, alias = "maxtime", value_name = "TIME")]
    pub(crate) interval: Option<Interval>,
    /// Least time between checkpoints that the program itself asks for (checkpoint_here); 'never' to heed none of these
    /// [default: 0s]
    #[arg(long, alias = "mintime", value_name = "TIME")]
    pub(crate) min_interval: Option<MinInterval>,
    /// How many checkpoints are kept [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<Keep>,
    /// Process ids after a restart: 'auto' for the old ones where that is allowed, 'new' [default: auto]
    #[arg(long, value_name = "POLICY")]
    pub(crate) ids: Option<Ids>,
    /// What is saved of the main thread's stack: 'live' or, for coroutines kept below it, 'whole' [default: live]
    #[arg(long, value_name = "PART")]
    pub(crate) stack: Option<Stack>,
    /// What a restart does about files that have grown or changed since: 'auto' to cut off what the program wrote and
    /// refuse in case of doubt, 'rollback' to cut off whoever wrote it, 'keep', 'refuse' [default: auto]
    #[arg(long, value_name = "POLICY")]
    pub(crate) files: Option<Files>,
    /// Save the files that the program may write, up to this size each [64M if none is given], and put them back
    /// at a restart; 'auto' saves those up to 1M and leaves what they have grown by; 'off' [default: auto]
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "64M")]
    pub(crate) save_files: Option<SaveFiles>,
    /// Save this directory with each checkpoint, with all that is in it, open or not, and put it back as a whole at a restart:
    /// what has come since is removed. Of a database, say, that runs in the job. 'auto' saves the files that the job was
    /// seen to write where it works, and moves away what it has created since. More than one may be named
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) save_folder: Vec<SaveFolder>,
    /// Connections whose other end is outside the job: 'refuse' the checkpoint, or let a restart bring them back as
    /// connections that the other end has 'reset' [default: refuse]
    #[arg(long, value_name = "POLICY")]
    pub(crate) external_sockets: Option<ExternalSockets>,
    /// Save only what has changed since the checkpoint before: 'on', 'off' or 'auto', which saves processes whole most
    /// of which has changed [default: auto]
    #[arg(long, value_name = "WHEN")]
    pub(crate) incremental: Option<Incremental>,
    /// How many checkpoint files may build upon each other before they are coalesced in the background [default: 16]
    #[arg(long, alias = "maxfiles", value_name = "N")]
    pub(crate) max_files: Option<MaxFiles>,
    /// How memory is taken: 'copy' to copy it, let the program run on and write it then, 'fork' to read and write it when
    /// the program runs on, from clones of its processes, 'precopy' to read it while the program runs and what it writes
    /// meanwhile once more, 'sequential' to write it while the program stands still, 'auto' for what costs the program
    /// least [default: auto]
    #[arg(long, value_name = "HOW")]
    pub(crate) snapshot: Option<Snapshot>,
    /// How it is found out what has changed: 'pagemap' by the kernel, 'hash' by reading and comparing everything, 'auto',
    /// 'off' [default: auto]
    #[arg(long, value_name = "HOW")]
    pub(crate) track: Option<Track>,
    /// Keep pages as what has changed in them since the checkpoint before: 'previous' wherever that is shorter, 'auto' where
    /// it is quicker than to write them, 'none' [default: none]
    #[arg(long, value_name = "HOW")]
    pub(crate) delta: Option<Delta>,
    /// Compress checkpoints: with 'lz4', with 'zstd', 'auto' with what is quicker than to write more, if anything is,
    /// 'none' [default: none]
    #[arg(long, value_name = "HOW")]
    pub(crate) compress: Option<Compress>,
    /// For programs with libstandfast: tell who writes to memory that has been excluded as read-only, and fill what is dead
    /// with a pattern at each restart
    #[arg(long)]
    pub(crate) check_exclusions: bool,
    /// For programs with libstandfast: leave what the allocator holds as free out of all checkpoints. A thread of the library
    /// gives it back before each
    #[arg(long)]
    pub(crate) free_memory: bool,
    /// Go by .ckptrc, and by what the paper says of settings that are not there, also without such a file: for programs
    /// that put themselves under Standfast
    #[arg(long)]
    pub(crate) ckptrc: bool,
    /// Where in memory checkpoints go first, such as /dev/shm; 'auto' for that where there is room, 'off' [default: off]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) memory: Option<Memory>,
    /// One in so many checkpoints in memory goes on to the disk [default: 16]
    #[arg(long, value_name = "N")]
    pub(crate) flush_every: Option<FlushEvery>,
    /// Where checkpoints in memory are brought to the disk: 'background' beside the program, 'foreground' while it stands
    /// still, 'auto' where that costs the program less time [default: auto]
    #[arg(long, value_name = "WHERE")]
    pub(crate) flush: Option<Flush>,
    /// Longest time between checkpoints on the disk while there are newer ones in memory [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub(crate) durable_every: Option<DurableEvery>,
    /// Whether checkpoints stay when the program has ended with status 0: 'yes', until standfast clean removes them, or
    /// 'no' [default: yes]
    #[arg(long, value_name = "WHETHER")]
    pub(crate) keep_finished: Option<KeepFinished>,
    /// How long the newest checkpoint may take from memory to the disk when the job is stopped or fails [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) grace: Option<Grace>,
    /// Continue an unfinished job if there is one with a good checkpoint; otherwise start
    #[arg(long, conflicts_with = "fresh")]
    pub(crate) resume: bool,
    /// With --resume: send standard output and error where those of this command go, also if they went to files
    #[arg(long)]
    pub(crate) redirect: bool,
    /// Give an unfinished job up, remove its checkpoints and start
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Take the directory over from another host or container that is known to be dead
    #[arg(long)]
    pub(crate) force: bool,
    /// Stay until all processes of the job have ended, not only the program itself; otherwise what it leaves behind is
    /// protected on in the background
    #[arg(long)]
    pub(crate) wait: bool,
    /// Its terminal: 'shared' with this command; 'proxied': one of its own, with job control, that survives a crash with
    /// its settings, and from which one detaches; 'auto': one of its own for a shell that is typed into [default: auto]
    #[arg(long, value_name = "KIND")]
    pub(crate) terminal: Option<TerminalKind>,
    /// Do not wait: the program runs in the background, on a terminal of its own; see attach
    #[arg(long, conflicts_with = "wait")]
    pub(crate) detach: bool,
    /// The key that, pressed twice, detaches; 'none' for none [default: ^\\]
    #[arg(long, value_name = "KEY")]
    pub(crate) detach_key: Option<DetachKey>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command_line: Vec<OsString>,
}

/// Continue a program from a checkpoint
#[derive(Args, Debug)]
#[command(after_help = RESTART_EXAMPLES)]
pub(crate) struct Restart {
    /// The directory of its checkpoints [default: the only *.standfast right here]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Take DIR for the program, and continue it from where .ckptrc has its checkpoints
    #[arg(long, requires = "directory")]
    pub(crate) ckptrc: bool,
    /// The checkpoint to continue from [default: the newest good one]
    #[arg(long, value_name = "GENERATION", value_parser = generation)]
    pub(crate) at: Option<GenerationNumber>,
    /// Files that have grown or changed since the checkpoint: 'auto', 'rollback', 'keep' or 'refuse', this time
    /// [default: as in the run]
    #[arg(long, value_name = "POLICY")]
    pub(crate) files: Option<Files>,
    /// Process ids: 'auto' for the old ones where that is allowed, 'new' [default: as in the run]
    #[arg(long, value_name = "POLICY")]
    pub(crate) ids: Option<Ids>,
    /// Where in memory checkpoints go first: a directory, 'auto' or 'off' [default: as in the run]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) memory: Option<Memory>,
    /// Send standard output and error where those of this command go, also if they went to files [default: they continue
    /// in these files]
    #[arg(long)]
    pub(crate) redirect: bool,
    /// Let monotonic clocks jump back to those of this machine, instead of going on where they were
    #[arg(long)]
    pub(crate) clock_jump: bool,
    /// Take the directory over from another host or container that is known to be dead
    #[arg(long)]
    pub(crate) force: bool,
    /// Stay until all processes of the job have ended, not only the program itself; otherwise what it leaves behind is
    /// protected on in the background
    #[arg(long)]
    pub(crate) wait: bool,
    /// Do not wait: the program runs in the background
    #[arg(long, conflicts_with = "wait")]
    pub(crate) detach: bool,
    /// The key that, pressed twice, detaches; 'none' for none [default: ^\\]
    #[arg(long, value_name = "KEY")]
    pub(crate) detach_key: Option<DetachKey>,
}

/// Show the terminal of a running program that has one of its own, and type there
#[derive(Args, Debug)]
#[command(after_help = ATTACH_EXAMPLES)]
pub(crate) struct Attach {
    /// The directory of its checkpoints
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
    /// The key that, pressed twice, detaches; 'none' for none [default: ^\\]
    #[arg(long, value_name = "KEY")]
    pub(crate) detach_key: Option<DetachKey>,
}

/// Take a checkpoint of a running program now
#[derive(Args, Debug)]
#[command(after_help = CHECKPOINT_EXAMPLES)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Stop the program where the checkpoint was taken
    #[arg(long)]
    pub(crate) stop: bool,
}

/// Show how a job stands: running or not, its last checkpoint, the next
#[derive(Args, Debug)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) place: Place,
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
    /// The checkpoint [default: the newest good one]
    #[arg(value_name = "GENERATION", value_parser = generation)]
    pub(crate) at: Option<GenerationNumber>,
}

/// Read checkpoints from end to end and verify every byte
#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The checkpoint [default: all]
    #[arg(value_name = "GENERATION", value_parser = generation)]
    pub(crate) at: Option<GenerationNumber>,
}

/// Merge checkpoints that build upon each other into one, and remove what only led up to it
#[derive(Args, Debug)]
#[command(after_help = COALESCE_EXAMPLES)]
pub(crate) struct Coalesce {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Remove what a finished job keeps: its checkpoints and its directory
#[derive(Args, Debug)]
#[command(after_help = CLEAN_EXAMPLES)]
pub(crate) struct Clean {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Say what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Remove the checkpoints of a job that has not finished as well: it can never be restarted again
    #[arg(long)]
    pub(crate) unfinished: bool,
    /// Take the directory over from another host or container that is known to be dead
    #[arg(long)]
    pub(crate) force: bool,
}

/// Show what this machine offers, and what in a process could not be restored
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// A running process to look at
    #[arg(value_name = "PID")]
    pub(crate) pid: Option<i32>,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Programs of many processes (MPI) that keep each other's state in memory: see standfast_mpi.h
#[derive(Subcommand, Debug)]
pub(crate) enum Group {
    Run(GroupRun),
    Status(GroupStatus),
    Verify(GroupVerify),
    Rebuild(GroupRebuild),
    Scavenge(GroupScavenge),
    End(GroupEnd),
    Forget(GroupForget),
    Watch(GroupWatch),
}

/// Launch a job of many processes, and again when it has lost some of them
#[derive(Args, Debug)]
#[command(after_help = GROUP_RUN_EXAMPLES)]
pub(crate) struct GroupRun {
    /// Where the job's name is kept until it is done, and checkpoints that are copied to disk; all nodes see it
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "group.standfast")]
    pub(crate) directory: PathBuf,
    /// How often it is launched at most
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tries: u32,
    /// How long it may take in all, such as 90m; what is in memory is saved then
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) time_limit: Option<Duration>,
    /// How long a process may go without a checkpoint, or wait in one, before it ends itself, such as 10m
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) hang: Option<Duration>,
    /// How long a launch may take until all processes have joined; 0s for as long as it likes
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = humantime::parse_duration)]
    pub(crate) start_limit: Duration,
    /// How long the launcher may go on when one of the processes has ended; 0s for as long as it likes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) loss_limit: Duration,
    /// How long the launcher may go on when all processes have left the group; 0s for as long as it likes
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    pub(crate) finish_limit: Duration,
    /// Time between checkpoints, such as 60s, where the program leaves that to the command
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) interval: Option<Duration>,
    /// Copy every Nth checkpoint to the directory, in the background; 0 for none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) flush_every: u32,
    /// Encode every Nth checkpoint across the nodes; those between survive lost processes but no lost node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) encode_every: u32,
    /// How many lost processes of a group are borne: 1 by parity, more by Reed-Solomon
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub(crate) checks: u32,
    /// Give checkpoints up that are taken while messages are under way, and name them (programs with -DSTANDFAST_MPI_COUNT)
    #[arg(long)]
    pub(crate) check_quiescent: bool,
    /// The nodes that it may run on, or `slurm` for those of the allocation; {nodes} in the command stands for those that are
    /// taken
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// How many of them are kept for those that die
    #[arg(long, value_name = "N", default_value_t = 0, requires = "nodes")]
    pub(crate) spares: usize,
    /// What carries a command out on a node: AGENT NODE COMMAND; `ssh`, or `srun` for the nodes of Slurm
    #[arg(long, value_name = "COMMAND", requires = "nodes")]
    pub(crate) agent: Option<String>,
    /// The command that launches all its processes, with its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// Show what of a job is in its directory and in this node's memory, and what could be lost
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

/// Rebuild what the newest checkpoint in a job's directory lacks
#[derive(Args, Debug)]
#[command(after_help = GROUP_REBUILD_EXAMPLES)]
pub(crate) struct GroupRebuild {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Save what a job that has ended has in this node's memory in its directory
#[derive(Args, Debug)]
pub(crate) struct GroupScavenge {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// End what is left of a job's processes on this node, whose launcher is gone
///
/// `standfast group run` does so on all its nodes before each launch.
#[derive(Args, Debug)]
pub(crate) struct GroupEnd {
    /// The directory that `standfast group run` was given
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

/// Say, each time something comes on standard input, whether a process of a job on this node has ended
///
/// `standfast group run` has one on each of its nodes while the job runs.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct GroupWatch {
    /// The directory that `standfast group run` was given
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

/// Remove what a job that nobody wants any more has in this node's memory
///
/// `standfast group run` does so on all its nodes when the job is done.
#[derive(Args, Debug)]
pub(crate) struct GroupForget {
    /// The directory that `standfast group run` was given
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
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
    /// The command it is about [default: all in short]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}

/// Which job, and how the answer is written.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// The directory of its checkpoints
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// How an answer is written.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Form {
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn generation(text: &str) -> Result<GenerationNumber, String> {
    let number = text.parse().ok().and_then(GenerationNumber::new);
    number.ok_or_else(|| "a checkpoint is named by its number, 1 or more: see `standfast list DIR`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run(words: &str) -> Run {
        match Arguments::try_parse_from(words.split(' ')).map(|arguments| arguments.command) {
            Ok(Command::Run(run)) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_is_a_command_as_well() {
        let told = Arguments::try_parse_from(["standfast", "help", "restart"]).unwrap_err();
        assert_eq!(told.kind(), clap::error::ErrorKind::DisplayHelp);
        assert!(told.to_string().contains("Usage: standfast restart"), "{told}");
    }

    #[test]
    fn the_papers_names_mean_what_ours_mean() {
        let theirs = "standfast run --maxtime 90s --mintime 5s --maxfiles 3 --snapshot copy-on-write prog";
        let ours = "standfast run --interval 90s --min-interval 5s --max-files 3 --snapshot fork prog";
        assert_eq!(format!("{:?}", run(theirs)), format!("{:?}", run(ours)));
        assert_eq!(run("standfast run --snapshot main-memory prog").snapshot, Some(Snapshot::Copy));
    }

    #[test]
    fn options_behind_the_program_are_the_programs() {
        for words in ["standfast run -i 1m ./heat -i 5 --resume", "standfast run -i 1m -- ./heat -i 5 --resume"] {
            let run = run(words);
            assert_eq!(run.command_line, ["./heat", "-i", "5", "--resume"]);
            assert_eq!(run.interval, Some(Interval::Every(Duration::from_secs(60))));
            assert!(!run.resume);
        }
    }

    #[test]
    fn files_are_saved_up_to_the_size_that_is_named_or_a_usual_one() {
        assert_eq!(run("standfast run --save-files ./heat").save_files, Some(SaveFiles::UpTo(64 << 20)));
        assert_eq!(run("standfast run --save-files=1G ./heat").save_files, Some(SaveFiles::UpTo(1 << 30)));
    }

    #[test]
    fn what_is_not_said_is_left_open() {
        let run = run("standfast run ./heat");
        assert!(run.interval.is_none() && run.keep.is_none() && run.ids.is_none() && run.directory.is_none());
    }

    #[test]
    fn contradictions_and_nonsense_are_refused() {
        for words in [
            "standfast run --resume --fresh ./heat",
            "standfast run",
            "standfast run -i soon ./heat",
            "standfast run --keep 0 ./heat",
            "standfast restart --at 0",
            "standfast status",
            "standfast -q -v list d",
        ] {
            let error = Arguments::try_parse_from(words.split(' ')).expect_err(words);
            assert_eq!(error.exit_code(), 2, "{words}");
        }
    }
}
