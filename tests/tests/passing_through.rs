//! From outside, a supervised program looks as if Standfast were not there: its status, signals, streams and terminal.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{OUTPUT, RunResult, open_gate};
use standfast_tests::running::{Ended, Output, PATIENCE, Running, until};
use standfast_tests::screen::Screen;
use standfast_tests::victims::{PLAIN, Program, SMALL};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;

fn run_plain(arguments: &[&str]) -> Result<Ended> {
    let arena = Arena::new()?;
    Standfast::new(&arena)?.run(Checkpoints::OnRequest, &PLAIN.with(arguments)?)?.wait(PATIENCE)
}

fn output_holds(arena: &Arena, text: &str) -> Result<()> {
    until(PATIENCE, &format!("the program to say {text:?}"), || {
        let said = fs::read_to_string(arena.work().join(OUTPUT)).unwrap_or_default();
        Ok(said.contains(text).then_some(()))
    })
}

#[test]
fn the_exit_status_is_that_of_the_program() -> Result<()> {
    for status in [0, 1, 3, 75, 255] {
        let ended = run_plain(&["exit", &status.to_string()])?;
        ensure!(ended.exited(status), "instead of {status}: {}; {}", ended.status, ended.errors);
    }
    Ok(())
}

#[test]
fn a_program_killed_by_a_signal_ends_the_command_by_that_signal() -> Result<()> {
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGSEGV, Signal::SIGABRT, Signal::SIGHUP] {
        let ended = run_plain(&["die", &(signal as i32).to_string()])?;
        ensure!(ended.killed_by(signal), "instead of {signal}: {}; {}", ended.status, ended.errors);
    }
    Ok(())
}

#[test]
fn a_program_that_cannot_be_started_exits_127_or_126() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let text = arena.work().join("text");
    fs::write(&text, "no program")?;
    for (path, status) in [(Path::new("/nonexistent/program"), 127), (text.as_path(), 126)] {
        let program = Program { path: path.to_owned(), arguments: Vec::new() };
        let ended = standfast.run(Checkpoints::OnRequest, &program)?.wait(PATIENCE)?;
        ensure!(ended.exited(status), "instead of {status}: {}; {}", ended.status, ended.errors);
        ensure!(ended.errors.contains(path.to_str().context("a path in UTF-8")?), "not named: {}", ended.errors);
    }
    Ok(())
}

#[test]
fn standard_input_and_output_belong_to_the_program() -> Result<()> {
    let arena = Arena::new()?;
    let cat = Program { path: "/bin/cat".into(), arguments: Vec::new() };
    let mut command = Standfast::new(&arena)?.run_command(Checkpoints::EveryMilliseconds(20), &cat);
    let mut running = Running::start(&arena, "cat", Output::Log, command.stdin(Stdio::piped()))?;
    let mut input = running.input().context("the command has a pipe for input")?;
    let sent: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
    let expected = sent.clone();
    let writer = thread::spawn(move || input.write_all(sent.as_bytes()));
    let ended = running.wait(PATIENCE)?.well("cat")?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    ensure!(ended.output == expected, "cat gave {} bytes instead of {}", ended.output.len(), expected.len());
    Ok(())
}

#[test]
fn signals_to_the_supervisor_reach_the_program() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &PLAIN.with(&["signals"])?)?;
    output_holds(&arena, "ready\n")?;
    let forwarded = [(Signal::SIGHUP, "HUP"), (Signal::SIGINT, "INT"), (Signal::SIGUSR1, "USR1")];
    for (signal, name) in forwarded.into_iter().chain([(Signal::SIGQUIT, "QUIT"), (Signal::SIGUSR2, "USR2")]) {
        running.signal(signal)?;
        output_holds(&arena, &format!("signal {name}\n")).with_context(|| arena.evidence())?;
    }
    running.wait(PATIENCE)?.well("the job").map(drop)
}

/// `setsid --ctty` gives the command a terminal of its own, as a login does.
#[test]
fn the_terminal_and_its_keys_belong_to_the_program() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let run = standfast.run_command(Checkpoints::EveryMilliseconds(50), &PLAIN.with(&["terminal"])?);
    let (mut screen, terminal, _) = Screen::open()?;
    let mut command = arena.command("setsid");
    command.args(["--ctty", "--wait"]).arg(run.get_program()).args(run.get_args());
    command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
    let mut child = command.spawn()?;
    drop(command);
    screen.await_text("ready")?;
    for (key, name) in [(b"\x03", "signal INT"), (b"\x1c", "signal QUIT")] {
        screen.type_in(key)?;
        screen.await_text(name)?;
    }
    let program = standfast.await_program()?;
    kill(program, Signal::SIGUSR2)?;
    let status = until(PATIENCE, "the session to end", || Ok(child.try_wait()?))?;
    ensure!(status.success(), "it ended with {status}; the terminal shows: {}", screen.shown);
    Ok(())
}

#[test]
fn sigterm_stops_after_a_checkpoint_and_resume_continues() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.await_program()?;
    running.signal(Signal::SIGTERM)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(75), "SIGTERM gave {}; {}", ended.status, ended.errors);
    arena.wait_until_empty(PATIENCE)?;
    open_gate(&arena)?;
    let mut command = standfast.command(&["run", "--resume", "-d"]);
    command.arg(arena.images()).arg("--").arg(&program.path);
    Running::start(&arena, "resume", Output::Nowhere, &mut command)?.wait(PATIENCE)?.well("run --resume")?;
    ensure!(
        !arena.images().join("lease").exists(),
        "a machine that sees no process of this one could not take it over"
    );
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?).with_context(|| arena.evidence())
}

#[test]
fn a_restart_with_redirected_output_continues_in_the_new_file() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.ask("checkpoint", &arena.images(), &["--stop"])?.well("checkpoint --stop")?;
    ensure!(running.wait(PATIENCE)?.exited(75), "a job that was stopped after a checkpoint ends with 75");
    open_gate(&arena)?;
    let mut command = standfast.restart_command(&arena.images());
    command.arg("--redirect");
    let ended = Running::start(&arena, "restart", Output::Log, &mut command)?.wait(PATIENCE)?.well("restart")?;
    ensure!(ended.output.starts_with("small: "), "the new file holds {:?}", ended.output);
    ensure!(fs::read_to_string(arena.work().join(OUTPUT))?.is_empty(), "the old file was written, too");
    Ok(())
}

/// Imitates batch systems, which write into a job's output why they ended it.
#[test]
fn an_output_changed_by_others_continues_in_the_output_of_the_restart() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.ask("checkpoint", &arena.images(), &["--stop"])?.well("checkpoint --stop")?;
    ensure!(running.wait(PATIENCE)?.exited(75), "a job that was stopped after a checkpoint ends with 75");
    let old = arena.work().join(OUTPUT);
    fs::write(&old, "*** cancelled due to a time limit ***\n")?;
    open_gate(&arena)?;
    let refused = Running::start(&arena, "refused", Output::Nowhere, &mut standfast.restart_command(&arena.images()))?;
    let refused = refused.wait(PATIENCE)?.refusal("an output that goes nowhere")?;
    ensure!(refused.contains("--redirect") && refused.contains("--files rollback"), "no remedies: {refused}");
    let mut command = standfast.restart_command(&arena.images());
    let ended = Running::start(&arena, "restart", Output::Log, &mut command)?.wait(PATIENCE)?.well("restart")?;
    ensure!(ended.output.starts_with("small: "), "the new file holds {:?}", ended.output);
    ensure!(ended.errors.contains("standard output continues in"), "not a word of it: {}", ended.errors);
    ensure!(fs::read_to_string(old)?.starts_with("*** cancelled"), "what others have written is gone");
    Ok(())
}

#[test]
fn resume_starts_fresh_where_there_is_nothing_to_continue() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    open_gate(&arena)?;
    let mut command = Standfast::new(&arena)?.command(&["run", "--resume", "-d"]);
    command.arg(arena.images()).arg("--").arg(&program.path);
    let output = Output::File(arena.work().join(OUTPUT));
    Running::start(&arena, "resume", output, &mut command)?.wait(PATIENCE)?.well("run --resume")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

#[test]
fn starting_a_live_job_again_is_refused_with_the_holder() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    let holder = standfast.supervisor_pid()?.to_string();
    let second_restart = standfast.restart(&arena.images(), "second")?.wait(PATIENCE)?.refusal("a second restart")?;
    let mut command = standfast.run_command(Checkpoints::OnRequest, &program);
    let second_run = Running::start(&arena, "second", Output::Log, &mut command)?.wait(PATIENCE)?;
    for said in [second_restart, second_run.refusal("a second run")?] {
        ensure!(said.contains(&holder), "the holder {holder} is not named: {said}");
    }
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}
