//! Signals to the command that mean something, and the exit status after a stop, as batch systems want them.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::victims::SMALL;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Restarts the job with these options, and waits until it is supervised.
fn continued(arena: &Arena, options: &[&str]) -> Result<Running> {
    let standfast = Standfast::new(arena)?;
    let mut command = standfast.restart_command(&arena.images());
    let running = Running::start(arena, "restart", Output::Nowhere, command.args(options))?;
    standfast.checkpoint_when_supervised()?;
    Ok(running)
}

#[test]
#[ignore = "several lives; the unit tests of signals.rs and notices.rs check the policy in make test"]
fn notices_and_the_status_of_a_stop_are_those_of_the_job_until_a_restart_changes_them() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let options = words(&["--notice", "USR1=checkpoint", "--notice", "USR2=stop", "--stopped-status", "99"]);
    let mut running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.await_program()?;
    running.signal(Signal::SIGUSR1)?;
    let first = standfast.await_generation(None, &mut running)?;
    ensure!(first == Some(1), "SIGUSR1 gave {first:?}; {}", running.errors_so_far());
    running.signal(Signal::SIGUSR2)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(99), "SIGUSR2 gave {}; {}", ended.status, ended.errors);
    arena.wait_until_empty(PATIENCE)?;

    let running = continued(&arena, &[])?;
    running.signal(Signal::SIGUSR2)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(99), "the restarted job has forgotten its options: {}; {}", ended.status, ended.errors);

    let running = continued(&arena, &["--notice", "HUP=stop", "--stopped-status", "85"])?;
    running.signal(Signal::SIGHUP)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(85), "SIGHUP gave {}; {}", ended.status, ended.errors);
    open_gate(&arena)?;
    standfast.restart(&arena.images(), "last")?.wait(PATIENCE)?.well("the last restart")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?).with_context(|| arena.evidence())
}

#[test]
#[ignore = "four refusals of the command line, which its unit tests refuse as well"]
fn a_malformed_notice_is_refused_before_anything_starts() -> Result<()> {
    for (options, wanted) in [
        (&["--notice", "USR1"][..], "write a signal and its meaning"),
        (&["--notice", "KILL=stop"], "write HUP, INT"),
        (&["--notice", "USR1=halt"], "'stop', 'checkpoint', 'pass' or 'ignore'"),
        (&["--stopped-status", "256"], "from 0 to 255"),
    ] {
        let arena = Arena::new()?;
        let run = Standfast::new(&arena)?.run_with(&words(options), Checkpoints::OnRequest, &SMALL.with(&[])?)?;
        let refused = run.wait(PATIENCE)?.refusal("a malformed option")?;
        ensure!(refused.contains(wanted), "{options:?}: it said {refused}");
        ensure!(!arena.images().exists(), "something was begun");
    }
    Ok(())
}

/// A metadata service on this machine. It answers as the paths say, and 404 elsewhere, until it is dropped.
struct Metadata {
    address: SocketAddr,
    answers: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl Metadata {
    fn new(answers: &[(&'static str, &str)]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let answers: Vec<_> = answers.iter().map(|(line, body)| (*line, (*body).to_owned())).collect();
        let answers = Arc::new(Mutex::new(answers));
        let known = answers.clone();
        // The thread ends with this process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &known.lock().unwrap_or_else(PoisonError::into_inner));
            }
        });
        Ok(Self { address, answers })
    }

    fn say(&self, line: &'static str, body: &str) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(0, (line, body.to_owned()));
    }
}

fn answer(mut stream: TcpStream, answers: &[(&str, String)]) -> Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().context("a request")??;
    let headers: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let is_trusted =
        ["X-aws-ec2-metadata-token", "Metadata"].iter().any(|own| headers.iter().any(|it| it.contains(own)));
    let found = answers.iter().find(|(line, _)| is_trusted && request.starts_with(line));
    let (status, body) = found.map_or(("404 Not Found", ""), |(_, body)| ("200 OK", body.as_str()));
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())?;
    Ok(())
}

const AWS_TOKEN: &str = "PUT /latest/api/token";
const AWS_ACTION: &str = "GET /latest/meta-data/spot/instance-action";
const GCP: &str = "GET /computeMetadata/v1/instance/preempted";
const AZURE_EVENTS: &str = "GET /metadata/scheduledevents";
const AZURE_NAME: &str = "GET /metadata/instance/compute/name";

/// Runs a job that watches, makes the notice come, and continues the job to its end.
fn stops_for(watched: &str, notice: impl FnOnce(&Arena), wanted: &str) -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut running = standfast.run_with(&words(&["--watch-notice", watched]), Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.await_program()?;
    ensure!(!running.has_ended()?, "it ended without a notice: {}", running.errors_so_far());
    notice(&arena);
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(75) && ended.errors.contains(wanted), "{watched}: {}; {}", ended.status, ended.errors);
    arena.wait_until_empty(PATIENCE)?;
    open_gate(&arena)?;
    standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("the restart")?;
    std::fs::remove_file(arena.work().join("notice")).ok();
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?).with_context(|| arena.evidence())
}

#[test]
#[ignore = "three lives with pauses of two seconds; unit tests have what clouds answer"]
fn a_notice_of_a_cloud_stops_the_program_after_a_checkpoint() -> Result<()> {
    let events = |kind: &str| {
        format!(
            r#"{{"DocumentIncarnation":1,"Events":[{{"EventType":"{kind}","Resources":["heat-7"],"NotBefore":""}}]}}"#
        )
    };
    let aws = Metadata::new(&[(AWS_TOKEN, "secret")])?;
    let action = r#"{"action": "terminate", "time": "2026-11-26T18:00:00Z"}"#;
    let tell = |_: &Arena| aws.say(AWS_ACTION, action);
    stops_for(&format!("aws:{}", aws.address), tell, "AWS will terminate this machine at 2026-11-26T18:00:00Z")?;
    let gcp = Metadata::new(&[(GCP, "FALSE")])?;
    stops_for(&format!("gcp:{}", gcp.address), |_| gcp.say(GCP, "TRUE"), "Google Cloud preempts this machine")?;
    let azure = Metadata::new(&[(AZURE_EVENTS, &events("Freeze")), (AZURE_NAME, "heat-7")])?;
    let tell = |_: &Arena| azure.say(AZURE_EVENTS, &events("Preempt"));
    stops_for(&format!("azure:{}", azure.address), tell, "Azure announces Preempt of this machine, now")
}

#[test]
#[ignore = "two lives with pauses of two seconds; unit tests have how the option is read"]
fn a_file_or_a_command_can_be_a_notice() -> Result<()> {
    let appear = |arena: &Arena| std::fs::write(arena.work().join("notice"), "").expect("the folder can be written");
    stops_for("file:notice", appear, "notice exists")?;
    stops_for("command:test -e notice", appear, "the command 'test -e notice' succeeded")
}

#[test]
#[ignore = "a life with a pause; the unit tests of the watcher's parts run in make test"]
fn a_silent_metadata_service_is_reported_and_changes_nothing() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let watched = format!("gcp:{}", listener.local_addr()?);
    drop(listener);
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run_with(&words(&["--watch-notice", &watched]), Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    until(PATIENCE, "a report of the silence", || {
        Ok(running.errors_so_far().contains("about to be taken away, and will look again").then_some(()))
    })?;
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}
