//! What a script is to run: the words of the command line, checked and sorted.

use crate::arguments::{Arguments, Batch, Requeue};
use anyhow::{Context as _, Result, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory as _};
use standfast::Deadline;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Time between the scheduler's signal and the end of the job without a deadline, in seconds.
const SECONDS: u64 = 120;

/// Time that the scheduler gives beyond the deadline, in seconds.
const MARGIN: u64 = 10;

/// Options that the scripts set themselves, or that contradict them.
const NOT_HERE: [&str; 5] = ["notice", "stopped-status", "fresh", "detach", "terminal"];

/// What a script is to run, and how.
#[derive(Debug, Clone)]
pub(super) struct JobPlan {
    /// Name of the job: letters, digits, `.`, `_` and `-`.
    pub(super) name: String,
    /// This command on the machines of the job.
    pub(super) standfast: OsString,
    pub(super) working_directory: PathBuf,
    /// Directory of the checkpoints.
    pub(super) directory: PathBuf,
    /// Options of `run`, `--`, the program and its arguments.
    pub(super) words: Vec<OsString>,
    /// Time between the scheduler's signal and the end of the job.
    pub(super) seconds: u64,
    /// Whether an interrupted job runs again by itself.
    pub(super) requeues: bool,
    /// Lines for the scheduler.
    pub(super) directives: Vec<String>,
    /// Container image.
    pub(super) image: Option<String>,
}

impl JobPlan {
    pub(super) fn of(batch: &Batch, line: &[OsString]) -> Result<Self> {
        let here = std::env::current_dir().context("cannot find the working directory")?;
        let program = batch.run.command_line.first().context("the command line names a program")?;
        let usual = || standfast::default_directory(program);
        let directory = here.join(batch.run.directory.clone().unwrap_or_else(usual));
        let standfast = match &batch.standfast {
            Some(path) => path.clone(),
            None if batch.image.is_some() => "standfast".into(),
            None => std::env::current_exe().context("cannot find the path of this command")?.into(),
        };
        for directive in &batch.directive {
            if directive.chars().any(char::is_control) {
                bail!("the directive {directive:?} is more than a line\nhint: give --directive once for each line");
            }
        }
        Ok(Self {
            name: name(batch.name.as_deref().unwrap_or(program.as_os_str())),
            standfast,
            working_directory: here,
            directory,
            words: words(batch, line)?,
            seconds: seconds(batch.run.options.deadline),
            requeues: batch.requeue == Requeue::SelfAgain,
            directives: batch.directive.clone(),
            image: batch.image.clone(),
        })
    }
}

/// Returns the time that the scheduler gives: somewhat more than the deadline, for the script and the next start.
fn seconds(deadline: Option<Deadline>) -> u64 {
    deadline.and_then(Deadline::get).map_or(SECONDS, |deadline| deadline.as_secs() + MARGIN)
}

/// Returns a name that all schedulers accept.
fn name(program: &OsStr) -> String {
    let file = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = file.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    // Grid Engine wants a letter first.
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("job-{name}") }
}

/// Returns the options of `run` on the command line as they were given, and the program with its arguments.
fn words(batch: &Batch, line: &[OsString]) -> Result<Vec<OsString>> {
    let matches = Arguments::command().try_get_matches_from(line)?;
    let (_, given) = matches.subcommand().context("there is a command")?;
    let command = Arguments::command();
    let run = command.find_subcommand("run").context("there is a run")?;
    let mut words = Vec::new();
    for argument in run.get_arguments() {
        let Some(long) = argument.get_long() else { continue };
        let is_given = given.try_contains_id(argument.get_id().as_str()).is_ok()
            && given.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine);
        if !is_given || ["directory", "resume"].contains(&long) {
            continue;
        }
        if NOT_HERE.contains(&long) {
            bail!(
                "--{long} does not go with batch: the script decides that\nhint: leave it out, and change the script if you must"
            );
        }
        words.extend(option(argument, long, given));
    }
    words.push("--".into());
    words.extend(batch.run.command_line.iter().cloned());
    Ok(words)
}

/// Returns the words of one option.
fn option(argument: &Arg, long: &str, given: &ArgMatches) -> Vec<OsString> {
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return vec![format!("--{long}").into()];
    }
    let values = given.get_raw(argument.get_id().as_str()).into_iter().flatten();
    let word = |value: &OsStr| {
        let mut word = OsString::from(format!("--{long}="));
        word.push(value);
        word
    };
    values.map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_acceptable_to_schedulers() {
        for (program, wanted) in [("./heat", "heat"), ("/opt/my prog", "my-prog"), ("7z", "job-7z"), ("..", "job-..")] {
            assert_eq!(name(OsStr::new(program)), wanted);
        }
    }
}
