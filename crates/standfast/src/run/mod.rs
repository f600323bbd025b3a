//! `run`: starts a program under a supervisor, or continues its unfinished job.

mod ckptrc;
mod decision;
mod default_directory;
mod launch_options;
mod restart;

pub use ckptrc::{CKPTRC, Ckptrc, CkptrcError, LineError, LineFault, TrustFault, read_settings};
pub use decision::Unfinished;
pub use default_directory::{default_directory, find_directories};
pub use launch_options::LaunchOptions;
pub use restart::{RestartRequest, restart};

use crate::checkpoint::Destination;
use crate::context::JobContext;
use crate::control::bind_control;
use crate::doctor::check_kernel;
use crate::event::{ContainerNews, JobEvent, Listener};
use crate::interrupts::Interrupts;
use crate::job_folders::save_folders;
use crate::quoting::{InWords, without_numbers};
use crate::settings::{JobOptions, Memory, OptionChoices, SaveFolder};
use crate::signals::SignalInbox;
use crate::supervisor::{SupervisorSetup, supervise};
use crate::takeover::take_lease;
use crate::terminal::{self, ForegroundConnection, HeldTerminal};
use crate::{Ending, Error};
use decision::{RunPlan, plan_run};
use restart::{Continuation, continue_job, is_hopeless, recorded_options};
use standfast_engine::{ClockPolicy, EngineError, InheritedSignals, Job, Launch, LaunchTerminal, Stopwatch};
use standfast_format::manifest::{JobDescription, Manifest};
use standfast_format::records::Bytes;
use standfast_linux::try_namespaces;
use standfast_store::{JobDirectory, Lease, LeaseRequest, Levels, Purpose, Selector, StoreError};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What to run, and how to protect it.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// Where checkpoints go, how the job is protected, and who waits for it.
    pub context: JobContext,
    /// The program: a path, or a name to look for in `PATH`.
    pub program: OsString,
    /// Its arguments, without the program's own name.
    pub arguments: Vec<OsString>,
    /// Options that take effect when the program starts.
    pub launch: LaunchOptions,
    /// Contents of a `.ckptrc`, if there is one. The options take precedence.
    pub ckptrc: Option<Ckptrc>,
    /// What to do about an unfinished job in the directory.
    pub unfinished: Unfinished,
    /// What a job that is continued does about monotonic clocks that are behind those of its checkpoint.
    pub clocks: ClockPolicy,
}

impl RunRequest {
    /// Returns the options that the user set. The command line takes precedence over `.ckptrc`.
    fn choices(&self) -> OptionChoices {
        let options = self.context.options.clone();
        match &self.ckptrc {
            Some(ckptrc) => options.over(ckptrc.choices()),
            None => options,
        }
    }

    /// Returns the options for a job that begins.
    fn options(&self) -> JobOptions {
        let defaults = if self.ckptrc.is_some() { Ckptrc::defaults() } else { JobOptions::default() };
        self.choices().or(defaults)
    }
}

/// Runs a program to its end.
///
/// Call it from a process of its own: the supervisor takes over most signals, and must be the program's parent.
///
/// # Errors
/// If the program was not started. A program that was started is supervised until it ends.
pub fn run(request: &RunRequest, listener: &mut Listener<'_>) -> Result<Ending, Error> {
    check_kernel()?;
    request.context.refuse_detached_init()?;
    let path = &request.context.directory;
    let of_store = |error| Error::of_store(path, error);
    let directory = Arc::new(JobDirectory::create(path).map_err(of_store)?);
    request.context.shared_binaries.iter().for_each(|place| directory.share_binaries_in(place));
    let expected = match request.unfinished {
        Unfinished::Resume => request.choices().or(recorded_options(&directory).unwrap_or_else(|| request.options())),
        Unfinished::Refuse | Unfinished::Discard => request.options(),
    };
    let take_lease = |listener: &mut Listener<'_>| {
        let lease_request = LeaseRequest { purpose: Purpose::Live, force: request.context.force };
        let interrupts = Interrupts::of(request.context.foreground_proxy.as_ref(), &expected);
        take_lease(&directory, path, lease_request, interrupts, listener).map(Arc::new)
    };
    let lease = take_lease(listener)?;
    let description = describe(request)?;
    let found = find_manifest(&directory, request.unfinished).map_err(of_store)?;
    let plan = plan_run(found.as_ref(), &description, request.unfinished);
    if matches!(plan, RunPlan::Start | RunPlan::Continue) {
        let unmet = request.ckptrc.iter().flat_map(Ckptrc::unmet);
        unmet.for_each(|reason| listener(&JobEvent::Trouble { reason }));
    }
    match plan {
        RunPlan::Start => start(request, directory.clone(), lease, description, listener),
        RunPlan::Continue => {
            let continuation = Continuation {
                context: JobContext { options: request.choices(), ..request.context.clone() },
                directory: directory.clone(),
                // Nobody else may hold it when the life ends, or it is not released.
                lease,
                clocks: request.clocks,
                despite: Vec::new(),
                stopwatch: Stopwatch::start(),
            };
            match continue_job(continuation, Selector::Newest, listener) {
                Err(Error::Store(error)) if is_hopeless(&error) => {
                    listener(&JobEvent::StartedAfresh { reason: without_numbers(&error.to_string()) });
                    let lease = take_lease(listener)?;
                    start(request, directory.clone(), lease, description, listener)
                }
                other => other,
            }
        }
        RunPlan::RefuseUnfinished => Err(Error::Unfinished(path.clone())),
        RunPlan::RefuseOther => {
            let found = found.map(|manifest| command_line(&manifest.description)).unwrap_or_default();
            Err(Error::OtherJob { directory: path.clone(), found })
        }
    }
}

/// Returns the manifest, if there is a job. An unreadable manifest does not prevent discarding the job.
fn find_manifest(directory: &JobDirectory, unfinished: Unfinished) -> Result<Option<Manifest>, StoreError> {
    match directory.manifest() {
        Ok(manifest) => Ok(Some(manifest)),
        Err(StoreError::NoJob(_)) => Ok(None),
        Err(StoreError::Manifest { .. }) if unfinished == Unfinished::Discard => Ok(None),
        Err(error) => Err(error),
    }
}

fn start(
    request: &RunRequest,
    directory: Arc<JobDirectory>,
    lease: Arc<Lease>,
    description: JobDescription,
    listener: &mut Listener<'_>,
) -> Result<Ending, Error> {
    let inherited = InheritedSignals::capture();
    // What comes from now on is acted on once the program runs.
    let signals = SignalInbox::open().map_err(Error::system("take over the signals"))?;
    let options = request.options();
    let of_store = |error| Error::of_store(&request.context.directory, error);
    let memory = request.choices().memory.unwrap_or_default();
    // A job that is discarded here may still have memory.
    if let Ok((mut abandoned, _)) = Levels::open((*directory).clone()) {
        abandoned.discard_memory(&lease, false).map_err(of_store)?;
    }
    directory.begin(&lease, description.clone(), options.to_record()).map_err(of_store)?;
    let mut levels = Levels::new((*directory).clone(), None);
    if let Some(place) = memory.place()
        && let Err(error) = levels.make_memory(&lease, place)
    {
        let reason = without_numbers(&error.to_string());
        listener(&JobEvent::NotInMemory { reason, is_selector: memory != Memory::Auto });
    }
    let (held, terminal) = terminal_for(request)?;
    let control = bind_control(&request.context.directory, listener);
    let launch = Launch {
        program: request.program.clone(),
        arguments: request.arguments.clone(),
        signals: inherited,
        terminal,
        directory: std::path::absolute(&request.context.directory).ok(),
        assistance: request.launch.assistance(),
    };
    let job = Job::launch(&launch).map_err(|error| not_started(&request.program, error))?;
    // The program runs meanwhile: this takes about 10 ms.
    if let Err(error) = try_namespaces() {
        let reason = InWords(&error).to_string();
        listener(&JobEvent::Container(ContainerNews::NoNamespaces { reason }));
    }
    save_folders(&job, &description, &request.context.directory);
    // Drop our copies of the terminal: from now on only the job decides whether it is open.
    drop(launch);
    let destination = Destination::new(levels, lease, &options).of_part(request.context.part.as_ref());
    let setup = SupervisorSetup {
        context: request.context.clone(),
        destination,
        options,
        outputs: Vec::new(),
        signals,
        control,
        memory_is_automatic: memory == Memory::Auto,
        terminal: held,
        restart: None,
    };
    supervise(setup, job, listener)
}

/// Returns the terminal on which the program starts, and its holder if the program gets one of its own.
fn terminal_for(request: &RunRequest) -> Result<(Option<Arc<HeldTerminal>>, LaunchTerminal), Error> {
    if request.context.detached || request.launch.terminal.is_own(&request.program, &request.arguments) {
        let (held, terminal) = terminal::make(&request.context.directory, request.context.detached)?;
        return Ok((Some(held), terminal));
    }
    let callers = request.context.foreground_proxy.as_ref().map(ForegroundConnection::group);
    Ok((None, callers.map_or_else(LaunchTerminal::shared, |callers| LaunchTerminal::Shared { callers })))
}

fn not_started(program: &OsStr, error: EngineError) -> Error {
    match error {
        EngineError::Kernel { source, .. } => Error::NotStarted { program: program.to_owned(), source },
        other => Error::Engine(other),
    }
}

fn describe(request: &RunRequest) -> Result<JobDescription, Error> {
    let here = std::env::current_dir().map_err(Error::system("find the working directory"))?;
    let folders = &request.launch.save_folder;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(JobDescription {
        program: request.program.as_bytes().into(),
        arguments: request.arguments.iter().map(|argument| argument.as_bytes().into()).collect(),
        working_directory: here.as_os_str().as_bytes().into(),
        started_nanoseconds: u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX),
        folders: folders.iter().filter_map(SaveFolder::directory).map(settled).collect::<Result<_, _>>()?,
        saves_written: folders.contains(&SaveFolder::Written).then_some(true),
    })
}

/// Returns the path of a folder as the kernel shows it. The folder need not exist yet.
fn settled(folder: &Path) -> Result<Bytes, Error> {
    let unknown = Error::system("find the folder to save");
    let settled = match folder.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            folder.file_name().ok_or(error).and_then(|name| Ok(parent.canonicalize()?.join(name)))
        }
        found => found,
    };
    settled.map(|path| path.as_os_str().as_bytes().into()).map_err(unknown)
}

fn command_line(description: &JobDescription) -> String {
    let words = std::iter::once(&description.program).chain(&description.arguments);
    words.map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MinInterval;
    use crate::settings::Interval;
    use crate::settings::Keep;
    use std::time::Duration;

    fn request(options: OptionChoices, ckptrc: Option<&str>) -> RunRequest {
        RunRequest {
            context: JobContext { options, ..JobContext::of("heat.standfast") },
            program: OsString::from("heat"),
            arguments: Vec::new(),
            launch: LaunchOptions::default(),
            ckptrc: ckptrc.map(|text| Ckptrc::parse(text.as_bytes()).unwrap()),
            unfinished: Unfinished::Refuse,
            clocks: ClockPolicy::Continue,
        }
    }

    #[test]
    fn the_command_line_wins_over_ckptrc_and_that_over_defaults() {
        let seconds = |seconds| Interval::Every(Duration::from_secs(seconds));
        let said = OptionChoices { interval: Some(seconds(7)), ..OptionChoices::default() };
        let nothing = OptionChoices::default();
        let table = [
            (&said, Some("maxtime 90\nmaxfiles 5"), seconds(7), 5),
            (&said, Some("checkpointing off"), seconds(7), 1),
            (&nothing, Some("maxtime 90\nmaxfiles 5"), seconds(90), 5),
            (&nothing, Some("maxtime 90"), seconds(90), 1),
            (&nothing, Some(""), seconds(600), 1),
            (&nothing, None, seconds(600), 2),
            (&said, None, seconds(7), 2),
        ];
        for (options, ckptrc, interval, keep) in table {
            let others = if ckptrc.is_some() { Ckptrc::defaults() } else { JobOptions::default() };
            // With checkpoints off, the program's own requests are not honoured either.
            let off = ckptrc == Some("checkpointing off");
            let min_interval = if off { MinInterval::Never } else { others.min_interval };
            let wanted = JobOptions { interval, keep: Keep::new(keep).unwrap(), min_interval, ..others };
            assert_eq!(request(options.clone(), ckptrc).options(), wanted, "{options:?} {ckptrc:?}");
        }
    }

    #[test]
    fn a_continued_job_keeps_options_that_are_not_given_again() {
        let own = JobOptions { keep: Keep::new(9).unwrap(), ..JobOptions::default() };
        let continued = |ckptrc| request(OptionChoices::default(), ckptrc).choices().or(own);
        assert_eq!(continued(Some("dir /scratch")), own);
        assert_eq!(continued(None), own);
        assert_eq!(continued(Some("maxtime 0")), JobOptions { interval: Interval::Off, ..own });
    }
}
