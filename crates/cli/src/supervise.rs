//! `run` and `restart`: split this process into the program's supervisor and its foreground proxy, which ends as the
//! program does.

use crate::arguments::{Attach, Restart, Run};
use crate::homes::shared_binaries;
use crate::leave::leave;
use crate::part;
use crate::program;
use crate::reporter::{Reporter, say};
use anyhow::{Context, bail};
use standfast::{
    AttachRequest, CKPTRC, Ckptrc, ClockPolicy, Departure, Ending, Error, ForShell, ForegroundConnection, Hooks,
    JobContext, Left, OptionChoices, RestartRequest, RunRequest, Side, Streams, Unfinished,
};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(run: Run, reporter: Reporter) -> anyhow::Result<ExitCode> {
    if !run.nodes.nodes.is_empty() {
        return part::run_distributed(run);
    }
    let mut words = run.command_line.into_iter();
    let program = words.next().expect("the command line names a program");
    if let Err(missing) = program::find(&program, std::env::var_os("PATH")) {
        say(&missing.message(&program));
        return Ok(ExitCode::from(missing.exit_status()));
    }
    let unfinished = match (run.resume, run.fresh) {
        (true, _) => Unfinished::Resume,
        (_, true) => Unfinished::Discard,
        (false, false) => Unfinished::Refuse,
    };
    let ckptrc = Ckptrc::load(Path::new(CKPTRC))?.or(run.ckptrc.then(Ckptrc::default));
    let directory = run.directory.unwrap_or_else(|| match &ckptrc {
        Some(ckptrc) => ckptrc.directory(&program),
        None => standfast::default_directory(&program),
    });
    let options = run.options.with_absolute_places().context("--memory names no directory")?;
    let machine = run.machine.settings()?;
    let attach = AttachRequest { directory: directory.clone(), detach_key: run.keys.detach_key };
    let request = |connection| RunRequest {
        context: JobContext {
            directory,
            options,
            force: run.force,
            wait: run.wait,
            foreground_proxy: Some(connection),
            detached: run.detach,
            machine,
            streams: streams(run.redirect),
            shared_binaries: shared_binaries(),
            part: None,
            hooks: HOOKS,
        },
        program,
        arguments: words.collect(),
        launch: run.launch,
        ckptrc,
        unfinished,
        clocks: clocks(run.clock_jump),
    };
    with_foreground_proxy(&attach, reporter, |connection| {
        standfast::run(&request(connection), &mut |event| reporter.event(event))
    })
}

pub(crate) fn restart(mut restart: Restart, reporter: Reporter) -> anyhow::Result<ExitCode> {
    let directory = match restart.directory.take() {
        Some(program) if restart.ckptrc => {
            Ckptrc::load(Path::new(CKPTRC))?.unwrap_or_default().directory(program.as_os_str())
        }
        named => named.map_or_else(only_directory, Ok)?,
    };
    if standfast::is_distributed(&directory) {
        return part::restart_distributed(restart, directory);
    }
    let options = OptionChoices::from(restart.options).with_absolute_places().context("--memory names no directory")?;
    let clocks = clocks(restart.clock_jump);
    let attach = AttachRequest { directory: directory.clone(), detach_key: restart.keys.detach_key };
    let streams = streams(restart.redirect);
    let Restart { at, force, wait, detach: detached, despite, machine, .. } = restart;
    let machine = machine.settings()?;
    let request = |connection| {
        let (foreground_proxy, shared_binaries) = (Some(connection), shared_binaries());
        RestartRequest {
            context: JobContext {
                directory,
                options,
                force,
                wait,
                foreground_proxy,
                detached,
                streams,
                machine,
                shared_binaries,
                part: None,
                hooks: HOOKS,
            },
            at,
            clocks,
            despite,
        }
    };
    with_foreground_proxy(&attach, reporter, |connection| {
        standfast::restart(&request(connection), &mut |event| reporter.event(event))
    })
}

pub(crate) fn attach(attach: Attach) -> anyhow::Result<ExitCode> {
    let request = AttachRequest { directory: attach.directory, detach_key: attach.keys.detach_key };
    match standfast::attach(&request)? {
        Departure::Detached => report_how_to_reattach(&request.directory),
        Departure::Ended => say("the program has ended"),
    }
    Ok(ExitCode::SUCCESS)
}

fn report_how_to_reattach(directory: &Path) {
    say(&format!("detached; the program continues. Reattach with: standfast attach {}", ForShell(directory)));
}

/// Supervises in a child of the foreground proxy.
fn with_foreground_proxy(
    attach: &AttachRequest,
    reporter: Reporter,
    supervise: impl FnOnce(ForegroundConnection) -> Result<Ending, Error>,
) -> anyhow::Result<ExitCode> {
    match standfast::split()? {
        Side::ForegroundProxy(proxy) => {
            let_go_of_streams();
            match proxy.serve(attach, &mut |event| reporter.event(event))? {
                Left::Ended(ending) => leave(ending),
                Left::Detached => {
                    report_how_to_reattach(&attach.directory);
                    Ok(ExitCode::SUCCESS)
                }
            }
        }
        Side::Supervisor(connection) => conclude(supervise(connection)),
    }
}

fn clocks(jump: bool) -> ClockPolicy {
    if jump { ClockPolicy::Jump } else { ClockPolicy::Continue }
}

fn streams(redirect: bool) -> Streams {
    if redirect { Streams::Redirected } else { Streams::Recorded }
}

/// What the supervising process does with its own streams.
const HOOKS: Hooks = Hooks { running: let_go_of_streams, alone: speak_into };

/// Redirects messages to a file from now on: a reader of our standard error must not have to wait for us.
fn speak_into(directory: &Path) {
    let file = standfast::open_messages(directory);
    // If the file cannot be opened, messages are dropped.
    if let Ok(file) = file.or_else(|_| OpenOptions::new().write(true).open("/dev/null")) {
        let _ = rustix::stdio::dup2_stderr(&file);
    }
}

/// Leaves standard input and output to the program: a reader of its output must see the end when the program closes it,
/// not when we do.
fn let_go_of_streams() {
    // Without /dev/null the streams stay: their readers then see the end when we end too.
    let Ok(nothing) = OpenOptions::new().read(true).write(true).open("/dev/null") else { return };
    let replace =
        |nothing: &File| rustix::stdio::dup2_stdin(nothing).and_then(|()| rustix::stdio::dup2_stdout(nothing));
    let _ = replace(&nothing);
}

fn conclude(ended: Result<Ending, Error>) -> anyhow::Result<ExitCode> {
    match ended {
        Ok(ending) => leave(ending),
        Err(Error::NotStarted { program, source }) => {
            say(&Error::NotStarted { program, source: source.kind().into() }.to_string());
            let is_missing = source.kind() == ErrorKind::NotFound;
            Ok(ExitCode::from(if is_missing { program::NOT_FOUND } else { program::NOT_EXECUTABLE }))
        }
        Err(Error::CalledOff { signal, exit_status }) => {
            say(&Error::CalledOff { signal, exit_status }.to_string());
            Ok(ExitCode::from(exit_status))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the only job directory in the working directory.
fn only_directory() -> anyhow::Result<PathBuf> {
    let mut found = standfast::find_directories(Path::new(".")).context("name the directory: standfast restart DIR")?;
    match found.len() {
        0 => bail!("there is no *.standfast directory here\nhint: name the job's directory: standfast restart DIR"),
        1 => Ok(found.remove(0)),
        _ => {
            let commands = found.iter().map(|it| format!("standfast restart {}", ForShell(it)));
            bail!("there are several jobs here: {}\nhint: name one of them", commands.collect::<Vec<_>>().join(" | "))
        }
    }
}
