//! Distributed jobs: the coordinator, and what the processes of a part are started with.

use crate::arguments::{PartCommand, PartRun, Run};
use crate::homes::shared_binaries;
use crate::leave::leave;
use crate::reporter::say;
use crate::slurm::{NamedNodes, named_nodes};
use anyhow::{Context, bail};
use standfast::{DistributedRequest, FlushEvery, GenerationNumber, Rehearse, TerminalKind, default_directory};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

/// What a shell adds to the number of the signal that ended a command.
const BY_SIGNAL: i32 = 128;

/// Runs a program on several nodes.
pub(crate) fn run_distributed(run: Run) -> anyhow::Result<ExitCode> {
    refuse_unsuitable(&run)?;
    let directory = run.directory.unwrap_or_else(|| default_directory(&run.command_line[0]));
    if run.resume && standfast::is_distributed(&directory) {
        return restart_distributed(&directory, None);
    }
    let words = run.command_line.into_iter().map(OsString::into_string);
    let Ok(command) = words.collect::<Result<Vec<_>, _>>() else { bail!("the command line is not UTF-8") };
    let NamedNodes { names, agent } = named_nodes(run.nodes.nodes, run.nodes.agent)?;
    let request = DistributedRequest {
        directory,
        nodes: names,
        agent,
        command,
        pause_limit: run.nodes.pause_limit,
        options: run.options,
    };
    leave(standfast::run_distributed(&request, &mut say)?)
}

/// Continues a job of several nodes.
pub(crate) fn restart_distributed(directory: &Path, at: Option<GenerationNumber>) -> anyhow::Result<ExitCode> {
    leave(standfast::restart_distributed(directory, at.map(GenerationNumber::get), &mut say)?)
}

/// Refuses options that mean nothing to a job of several nodes, or not yet, instead of ignoring them; and a launcher that
/// starts processes outside the job.
fn refuse_unsuitable(run: &Run) -> anyhow::Result<()> {
    let (options, launch) = (&run.options, &run.launch);
    let unsuitable = [
        ("min-interval", options.min_interval.is_some()),
        ("rehearse", options.rehearse.is_some_and(|it| it != Rehearse::Off)),
        ("flush-every auto", options.flush_every == Some(FlushEvery::Auto)),
        ("keep-finished", options.keep_finished.is_some()),
        ("grace", options.grace.is_some()),
        ("deadline", options.deadline.is_some()),
        ("stopped-status", options.stopped_status.is_some()),
        ("notice", options.notice.is_some()),
        ("save-folder", !launch.save_folder.is_empty()),
        ("check-exclusions", launch.check_exclusions),
        ("free-memory", launch.free_memory),
        ("terminal", launch.terminal != TerminalKind::default()),
        ("ckptrc", run.ckptrc),
        ("redirect", run.redirect),
        ("clock-jump", run.clock_jump),
        ("fresh", run.fresh),
        ("force", run.force),
        ("wait", run.wait),
        ("detach", run.detach),
    ];
    let mut all = unsuitable.into_iter().chain(run.machine.given());
    if let Some((name, _)) = all.find(|(_, is_given)| *is_given) {
        bail!("--{name} does not work with --nodes\nhint: leave it out, on the command line and in standfast.toml");
    }
    if Path::new(&run.command_line[0]).file_name().is_some_and(|name| name == "srun") {
        bail!(
            "srun has Slurm start the processes, outside the job\nhint: start them with mpirun, which finds the nodes of \
             the job by itself"
        );
    }
    Ok(())
}

/// Does what a process of a part is there for.
pub(crate) fn answer(command: PartCommand) -> anyhow::Result<ExitCode> {
    match command {
        PartCommand::PartAgent => standfast::part_agent()?,
        PartCommand::PartRun(PartRun { part, options }) => {
            leave(standfast::run_part(&part.directory, options, shared_binaries())?)
        }
        PartCommand::PartRestart(part) => {
            leave(standfast::restart_part(&part.directory, part.generation, shared_binaries())?)
        }
        PartCommand::PartServer(part) => return status(standfast::serve_part(&part.directory)?),
        PartCommand::PartShim(part) => standfast::answer_remote(&part.directory)?,
        PartCommand::Rsh(rsh) => return status(standfast::ask_remote(&rsh.node, &rsh.command)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends as a command on another node did.
fn status(ended: ExitStatus) -> anyhow::Result<ExitCode> {
    let code = ended.code().or(ended.signal().map(|signal| BY_SIGNAL + signal));
    Ok(ExitCode::from(u8::try_from(code.unwrap_or(1)).context("a command ended in an unknown way")?))
}
