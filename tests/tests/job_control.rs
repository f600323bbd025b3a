//! A supervised job under an interactive shell, and processes that a main process leaves behind.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::screen::Screen;
use standfast_tests::victims::SMALL;
use std::fs;
use std::process::Child;

/// An interactive shell on a terminal of its own.
struct Shell {
    child: Child,
    screen: Screen,
}

impl Shell {
    fn start(arena: &Arena) -> Result<Self> {
        let (screen, terminal, _) = Screen::open()?;
        let mut command = arena.command("setsid");
        command.args(["--ctty", "--wait", "bash", "--norc", "--noprofile", "-i"]).env("PS1", "$ ");
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
        let child = command.spawn()?;
        drop(command);
        Ok(Self { child, screen })
    }

    fn type_in(&mut self, keys: &str) -> Result<()> {
        self.screen.type_in(keys.as_bytes())
    }

    fn await_text(&mut self, text: &str) -> Result<()> {
        self.screen.await_text(text)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Counts aloud until a key interrupts it, and first prints the word that it has read. The terminal also shows the
/// program, so the program does not contain the printed text literally.
const COUNT: &str = r#"trap "printf %s-%s inter rupted; exit 3" INT; read word; printf "%s=%s\n" got "$word"; n=0; while sleep 0.02; do n=$((n+1)); printf "%s-%s\n" tick $n; done"#;

#[test]
fn job_control_keys_of_a_shell_reach_the_job() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut shell = Shell::start(&arena)?;
    shell.await_text("$ ")?;
    let command = standfast.command(&[]);
    let binary = command.get_program().to_str().context("a path in UTF-8")?.to_owned();
    shell.type_in(&format!("{binary} run -d '{}' -i off -- bash -c '{}'\n", arena.images().display(), COUNT))?;
    shell.type_in("word\n")?;
    shell.await_text("got=word")?;
    for wake in ["fg\n", "bg\n"] {
        shell.await_text("tick-")?;
        shell.type_in("\x1a")?;
        shell.await_text("Stopped")?;
        shell.await_text("$ ")?;
        shell.type_in(wake)?;
    }
    // The job is now running in the background; nothing tells it when it returns to the foreground.
    shell.await_text("tick-")?;
    let of_the_shell = shell.screen.foreground()?;
    shell.type_in("fg\n")?;
    // The job ticks all the time, so its ticks do not show where keys go.
    until(PATIENCE, "the job to have the terminal", || Ok((shell.screen.foreground()? != of_the_shell).then_some(())))?;
    shell.type_in("\x03")?;
    shell.await_text("inter-rupted")?;
    shell.type_in("echo status $?.\n")?;
    shell.await_text("status 3.")?;
    shell.type_in("exit\n")?;
    until(PATIENCE, "the shell to end", || Ok(shell.child.try_wait()?)).map(drop)
}

/// Leaves a child behind that reports its end, once `gate` is there.
const LEAVE: &str = "(while ! test -e gate; do sleep 0.01; done; echo late >> said) & echo early >> said; exit 4";

fn run_leaving(arena: &Arena, options: &[&str]) -> Result<Running> {
    let mut command = Standfast::new(arena)?.command(&["run", "-i", "off", "-d"]);
    command.arg(arena.images()).args(options).args(["--", "bash", "-c", LEAVE]);
    Running::start(arena, "run", Output::Nowhere, &mut command)
}

fn said(arena: &Arena) -> String {
    fs::read_to_string(arena.work().join("said")).unwrap_or_default()
}

#[test]
fn leftover_processes_stay_supervised_in_the_background() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let ended = run_leaving(&arena, &[])?.wait(PATIENCE)?;
    ensure!(ended.exited(4), "instead of the program's status: {}; {}", ended.status, ended.errors);
    ensure!(ended.errors.contains("remaining processes stay supervised"), "not told: {}", ended.errors);
    run_leaving(&arena, &["--fresh"])?.wait(PATIENCE)?.refusal("a second life beside the first")?;
    standfast.checkpoint()?;
    let survivor = standfast.program_pid()?.context("the survivor is named")?;
    kill(survivor, Signal::SIGKILL).context("killing the survivor")?;
    arena.wait_until_empty(PATIENCE)?;
    ensure!(said(&arena) == "early\n", "it said more: {}", said(&arena));
    fs::write(arena.work().join("gate"), "")?;
    standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("restart")?;
    ensure!(said(&arena) == "early\nlate\n", "it said {}", said(&arena));
    arena.wait_until_empty(PATIENCE)
}

#[test]
fn a_job_whose_foreground_proxy_is_killed_stays_supervised() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    let (supervisor, main) = (standfast.supervisor_pid()?, standfast.await_program()?);
    ensure!(running.pid() != supervisor, "the supervisor is what the shell waits for");
    running.signal(Signal::SIGKILL)?;
    ensure!(running.wait(PATIENCE)?.killed_by(Signal::SIGKILL), "the front is what was started");
    standfast.checkpoint()?;
    ensure!(standfast.program_pid()? == Some(main) && standfast.supervisor_pid()? == supervisor, "somebody else");
    kill(supervisor, Signal::SIGTERM).context("asking for a checkpoint and an end")?;
    arena.wait_until_empty(PATIENCE)?;
    open_gate(&arena)?;
    standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("restart")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

#[test]
fn wait_supervises_leftover_processes_until_they_end() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = run_leaving(&arena, &["--wait"])?;
    let named =
        || -> Result<String> { Ok(standfast.ask("status", &arena.images(), &["--json"])?.well("status")?.output) };
    until(PATIENCE, "the main process to end", || {
        Ok(running.errors_so_far().contains("remaining processes stay supervised").then_some(()))
    })?;
    let survivor = until(PATIENCE, "the survivor to be named", || {
        let status: serde_json::Value = serde_json::from_str(&named()?).context("status answers in JSON")?;
        Ok(status["program_pid"].as_i64())
    })?;
    standfast.checkpoint()?;
    kill(Pid::from_raw(i32::try_from(survivor)?), Signal::SIGKILL).context("killing the survivor")?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(4), "instead of the program's status: {}; {}", ended.status, ended.errors);
    arena.wait_until_empty(PATIENCE)?;
    ensure!(said(&arena) == "early\n", "it said more: {}", said(&arena));
    fs::write(arena.work().join("gate"), "")?;
    standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("restart")?;
    ensure!(said(&arena) == "early\nlate\n", "it said {}", said(&arena));
    Ok(())
}
