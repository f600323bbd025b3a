//! Distributed jobs: the coordinator, and what the processes of a part are started with.

use crate::arguments::{PartCommand, Run};
use crate::leave::leave;
use crate::reporter::say;
use anyhow::{Context, bail};
use standfast::{DistributedRequest, GenerationNumber, Interval, OptionChoices, default_directory};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

/// What a shell adds to the number of the signal that ended a command.
const BY_SIGNAL: i32 = 128;

/// Runs a program on several nodes.
pub(crate) fn run_distributed(run: Run) -> anyhow::Result<ExitCode> {
    let directory = run.directory.unwrap_or_else(|| default_directory(&run.command_line[0]));
    let words = run.command_line.into_iter().map(OsString::into_string);
    let Ok(command) = words.collect::<Result<Vec<_>, _>>() else { bail!("the command line is not UTF-8") };
    let request = DistributedRequest {
        directory,
        nodes: run.nodes.nodes,
        agent: run.nodes.agent,
        command,
        interval: interval(&run.options),
    };
    leave(standfast::run_distributed(&request, &mut say)?)
}

/// Continues a job of several nodes.
pub(crate) fn restart_distributed(directory: &Path, at: Option<GenerationNumber>) -> anyhow::Result<ExitCode> {
    leave(standfast::restart_distributed(directory, at.map(GenerationNumber::get), &mut say)?)
}

fn interval(options: &OptionChoices) -> Option<Duration> {
    match options.interval.unwrap_or_default() {
        Interval::Every(time) => Some(time),
        _ => None,
    }
}

/// Does what a process of a part is there for.
pub(crate) fn answer(command: PartCommand) -> anyhow::Result<ExitCode> {
    match command {
        PartCommand::PartAgent => standfast::part_agent()?,
        PartCommand::PartRun(part) => leave(standfast::run_part(&part.directory)?),
        PartCommand::PartRestart(part) => leave(standfast::restart_part(&part.directory, part.generation)?),
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
