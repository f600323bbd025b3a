//! The supervisor of a part. It is that of an ordinary job: its main process is the part's server, and its checkpoints are
//! taken when the coordinator says so.

use super::description::PartDirectory;
use crate::context::JobContext;
use crate::event::JobEvent;
use crate::messages::open_messages;
use crate::part_link::{Conversation, JobPart};
use crate::run::{LaunchOptions, RestartRequest, RunRequest, Unfinished, restart, run};
use crate::settings::{Interval, MinInterval, OptionChoices, Rehearse};
use crate::{Ending, Error};
use standfast_engine::{ClockPolicy, RestartToken};
use standfast_format::manifest::GenerationNumber;
use standfast_parts::FromPart;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the agent may take to say for which restart a part is continued.
const TOKEN_MAX: Duration = Duration::from_secs(10);

/// Begins the part in `directory`, protected by these options, and supervises it to its end. It shares copies of executables
/// and libraries at `shared_binaries`.
///
/// # Errors
/// If it could not begin.
pub fn run_part(directory: &Path, options: OptionChoices, shared_binaries: Option<PathBuf>) -> Result<Ending, Error> {
    let part = PartDirectory::at(directory);
    let mut messages = Messages::of(&part);
    let request = RunRequest {
        context: JobContext { shared_binaries, ..context(&part, JobPart::new(), options) },
        program: std::env::current_exe().map_err(Error::system("find this program"))?.into(),
        arguments: vec!["part-server".into(), directory.into()],
        launch: LaunchOptions::default(),
        ckptrc: None,
        unfinished: Unfinished::Refuse,
        clocks: ClockPolicy::Continue,
    };
    run(&request, &mut |event| messages.note(event))
}

/// A part to be continued.
#[derive(Debug, Clone)]
pub struct PartToRestart {
    /// Its directory.
    pub directory: PathBuf,
    /// The checkpoint to continue from.
    pub generation: GenerationNumber,
    /// Options that differ from those of its life before.
    pub options: OptionChoices,
    /// See [`RestartRequest::despite`].
    pub despite: Vec<String>,
    /// Directory in which the jobs of this user share the binaries that they save, if they share them.
    pub shared_binaries: Option<PathBuf>,
}

/// Continues a part together with all others, and supervises it to its end. Standard input is the conversation with the
/// coordinator.
///
/// # Errors
/// If it does not run again.
pub fn restart_part(to_restart: PartToRestart) -> Result<Ending, Error> {
    let PartToRestart { directory, generation, options, despite, shared_binaries } = to_restart;
    let part = PartDirectory::at(directory);
    let mut messages = Messages::of(&part);
    let joining = |error| Error::system("join the restart of the distributed job")(error);
    let stream = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from).map_err(joining)?;
    let token = || Conversation::begin(stream.try_clone()?, TOKEN_MAX)?.hear();
    let job_part = token().and_then(|token| JobPart::restarting(stream.try_clone()?, RestartToken(token), part.path()));
    let request = RestartRequest {
        context: JobContext { shared_binaries, ..context(&part, job_part.map_err(joining)?, options) },
        at: Some(generation),
        clocks: ClockPolicy::Continue,
        despite,
    };
    let ended = restart(&request, &mut |event| messages.note(event));
    if let Err(error) = &ended
        && let Ok(mut conversation) = Conversation::begin(stream, TOKEN_MAX)
    {
        // If nobody hears it any more, nobody needs to.
        let _ = conversation.say(&FromPart::Failed { reason: error.to_string() });
    }
    ended
}

fn context(part: &PartDirectory, job_part: JobPart, given: OptionChoices) -> JobContext {
    // All parts are checkpointed when the coordinator says so.
    let options = OptionChoices {
        interval: Some(Interval::Off),
        min_interval: Some(MinInterval::Never),
        rehearse: Some(Rehearse::Off),
        ..given
    };
    JobContext { options, part: Some(job_part), ..JobContext::of(part.job()) }
}

/// What the supervisor has to say goes to a file in the directory of its job.
struct Messages(PathBuf);

impl Messages {
    fn of(part: &PartDirectory) -> Self {
        Self(part.job())
    }

    fn note(&mut self, event: &JobEvent) {
        // The directory may not exist yet, and a full disk must not end the part.
        let _ = open_messages(&self.0).and_then(|mut file| writeln!(file, "{event}"));
    }
}
