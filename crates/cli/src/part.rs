//! Distributed jobs: the coordinator, and what the processes of a part are started with.

use crate::arguments::{PartCommand, PartRestart, PartRun, Restart, Run};
use crate::homes::shared_binaries;
use crate::leave::leave;
use crate::reporter::say;
use crate::slurm::{NamedNodes, named_nodes};
use anyhow::{Context, bail};
use standfast::{
    DistributedRequest, DistributedRestart, FlushEvery, GenerationNumber, OptionChoices, PartToRestart, Rehearse,
    TerminalKind, default_directory,
};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

/// What a shell adds to the number of the signal that ended a command.
const BY_SIGNAL: i32 = 128;

/// Runs a program on several nodes.
pub(crate) fn run_distributed(run: Run) -> anyhow::Result<ExitCode> {
    refuse_unsuitable(&run)?;
    let directory = run.directory.unwrap_or_else(|| default_directory(&run.command_line[0]));
    let options = run.options.with_absolute_places().context("--memory names no directory")?;
    if run.resume && standfast::is_distributed(&directory) {
        let restart = DistributedRestart { directory, options, ..DistributedRestart::default() };
        return continue_distributed(&restart);
    }
    let words = run.command_line.into_iter().map(OsString::into_string);
    let Ok(command) = words.collect::<Result<Vec<_>, _>>() else { bail!("the command line is not UTF-8") };
    let NamedNodes { names, agent } = named_nodes(run.nodes.nodes, run.nodes.agent)?;
    let request =
        DistributedRequest { directory, nodes: names, agent, command, pause_limit: run.nodes.pause_limit, options };
    leave(standfast::run_distributed(&request, &mut say)?)
}

/// Continues a job of several nodes.
pub(crate) fn restart_distributed(restart: Restart, directory: PathBuf) -> anyhow::Result<ExitCode> {
    let options = OptionChoices::from(restart.options).with_absolute_places().context("--memory names no directory")?;
    let unsuitable = [
        ("redirect", restart.redirect),
        ("clock-jump", restart.clock_jump),
        ("force", restart.force),
        ("wait", restart.wait),
        ("detach", restart.detach),
    ];
    refuse_any(unsuitable.into_iter().chain(unsuitable_among(&options)).chain(restart.machine.given()))?;
    let at = restart.at.map(GenerationNumber::get);
    continue_distributed(&DistributedRestart { directory, at, options, despite: restart.despite })
}

fn continue_distributed(request: &DistributedRestart) -> anyhow::Result<ExitCode> {
    leave(standfast::restart_distributed(request, &mut say)?)
}

/// Says of protection options whether they were given, though they mean nothing to a job of several nodes, or not yet.
fn unsuitable_among(options: &OptionChoices) -> [(&'static str, bool); 8] {
    [
        ("flush-every auto", options.flush_every == Some(FlushEvery::Auto)),
        ("min-interval", options.min_interval.is_some()),
        ("rehearse", options.rehearse.is_some_and(|it| it != Rehearse::Off)),
        ("keep-finished", options.keep_finished.is_some()),
        ("grace", options.grace.is_some()),
        ("deadline", options.deadline.is_some()),
        ("stopped-status", options.stopped_status.is_some()),
        ("notice", options.notice.is_some()),
    ]
}

/// Refuses the first option that was given, instead of ignoring it.
fn refuse_any(unsuitable: impl IntoIterator<Item = (&'static str, bool)>) -> anyhow::Result<()> {
    if let Some((name, _)) = unsuitable.into_iter().find(|(_, is_given)| *is_given) {
        bail!("--{name} does not work with --nodes\nhint: leave it out, on the command line and in standfast.toml");
    }
    Ok(())
}

/// Refuses options that mean nothing to a job of several nodes, or not yet, and a launcher that starts processes outside the
/// job.
fn refuse_unsuitable(run: &Run) -> anyhow::Result<()> {
    let launch = &run.launch;
    let unsuitable = [
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
    refuse_any(unsuitable.into_iter().chain(unsuitable_among(&run.options)).chain(run.machine.given()))?;
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
            let PartRestart { directory, generation, options, despite } = part;
            let shared_binaries = shared_binaries();
            leave(standfast::restart_part(PartToRestart { directory, generation, options, despite, shared_binaries })?)
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
