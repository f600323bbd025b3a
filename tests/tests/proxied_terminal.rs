//! Programs on a terminal that Standfast holds for them: shells with job control, and editors. The tests detach them,
//! attach them elsewhere, kill them and restart them.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::Standfast;
use standfast_tests::desk::Desk;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::{Lacking, skip};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

const DETACH: &str = "\x1c\x1c";
const SHELL: [&str; 3] = ["bash", "--norc", "--noprofile"];
/// Runs in the foreground, and prints a word whenever it is woken or the window changes its size. The terminal also shows
/// the typed text, so that text does not contain these words. Without a trap for Ctrl-C, a shell ignores it if the
/// command that it waits for ends by itself at that moment.
const JOB: &str = "bash -c 'trap \"exit 130\" INT; trap \"echo wo\"\"ken\" CONT; trap \"echo si\"\"zed\" WINCH; echo be\"\"gun; while :; do sleep 0.02; done'\n";

fn run(standfast: &Standfast<'_>, arena: &Arena, options: &[&str], program: &[&str]) -> Command {
    let mut command = standfast.command(&["run", "-i", "off", "-d"]);
    command.arg(arena.images()).args(options).arg("--").args(program);
    command
}

fn proxied(standfast: &Standfast<'_>, arena: &Arena, program: &[&str]) -> Command {
    run(standfast, arena, &["--terminal", "proxied"], program)
}

fn attach(standfast: &Standfast<'_>, arena: &Arena) -> Command {
    let mut command = standfast.command(&["attach"]);
    command.arg(arena.images());
    command
}

#[test]
fn a_shell_is_detached_attached_and_restarted_with_its_jobs() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut desk = Desk::start(&arena, 24, 80, &proxied(&standfast, &arena, &SHELL))?;
    desk.screen.await_text("$ ")?;
    desk.say("stty size; word=seven\n", "24 80")?;
    desk.say(JOB, "begun")?;
    desk.say("\x1a", "Stopped")?;
    desk.screen.await_text("$ ")?;
    standfast.checkpoint()?;
    desk.say(DETACH, "standfast attach")?;
    ensure!(desk.wait()?.success(), "detaching is no failure");
    let mut elsewhere = Desk::start(&arena, 30, 100, &attach(&standfast, &arena))?;
    elsewhere.screen.await_text("$ ")?;
    elsewhere.say("stty size\n", "30 100")?;
    elsewhere.say("word=eight; fg\n", "woken")?;
    standfast.checkpoint()?;
    elsewhere.say("\x03", "$ ")?;
    let mut third = Desk::start(&arena, 25, 90, &attach(&standfast, &arena))?;
    third.say("stty size\n", "25 90")?;
    ensure!(elsewhere.wait()?.success(), "it was attached elsewhere");
    ensure!(standfast.kill_job()?, "nothing to kill");
    third.screen.await_text("has ended")?;
    ensure!(third.wait()?.success(), "the end of a program is no failure of an attachment");
    let mut desk = Desk::start(&arena, 40, 120, &standfast.restart_command(&arena.images()))?;
    // Only then does the terminal here stand for the other.
    desk.screen.await_text("sized")?;
    desk.say("\x1a", "Stopped")?;
    desk.say("echo $word; stty size\n", "40 120")?;
    desk.say("fg\n", "woken")?;
    desk.say("\x03", "$ ")?;
    desk.say("test $word = eight && exit 5\n", "exit")?;
    ensure!(desk.wait()?.code() == Some(5), "the status of a shell is lost");
    arena.wait_until_empty(PATIENCE)
}

#[test]
fn an_editor_with_unsaved_text_survives_a_restart() -> Result<()> {
    if Command::new("vim").arg("--version").output().is_err() {
        skip("an editor comes back in the middle of its work", &Lacking::program("vim"));
        return Ok(());
    }
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let editor = ["vim", "-u", "NONE", "-i", "NONE", "-n", "text"];
    let mut desk = Desk::start(&arena, 24, 80, &proxied(&standfast, &arena, &editor))?;
    desk.screen.await_text("text")?;
    desk.say("ihello wor", "wor")?;
    standfast.checkpoint()?;
    ensure!(standfast.kill_job()?, "nothing to kill");
    ensure!(desk.wait()?.signal() == Some(Signal::SIGKILL as i32), "its end is lost");
    let mut desk = Desk::start(&arena, 24, 80, &standfast.restart_command(&arena.images()))?;
    desk.screen.await_text("hello wor")?;
    desk.screen.type_in(b"ld\x1b:wq\r")?;
    ensure!(desk.wait()?.success(), "the editor failed: {}", desk.screen.shown);
    let text = fs::read_to_string(arena.work().join("text"))?;
    ensure!(text == "hello world\n", "it wrote {text:?}");
    Ok(())
}

/// Reads a line once there is a gate.
const GATED: &str =
    "echo rea\"\"dy; while ! test -e gate; do sleep 0.02; done; read word; echo got=$word; read word; echo got=$word";

#[test]
fn type_ahead_is_read_after_a_restart() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut desk = Desk::start(&arena, 24, 80, &proxied(&standfast, &arena, &["bash", "-c", GATED]))?;
    desk.screen.await_text("ready")?;
    // The terminal shows the typed text once it has received it.
    desk.say("ahead\nhalf", "half")?;
    standfast.checkpoint()?;
    ensure!(standfast.kill_job()?, "nothing to kill");
    desk.wait()?;
    let mut desk = Desk::start(&arena, 24, 80, &standfast.restart_command(&arena.images()))?;
    fs::write(arena.work().join("gate"), "")?;
    desk.screen.await_text("got=ahead")?;
    desk.say("way\n", "got=halfway")?;
    ensure!(desk.wait()?.success(), "it ended otherwise: {}", desk.screen.shown);
    Ok(())
}

const ECHO: &str = "echo rea\"\"dy; while read word; do echo got=$word; done";

#[test]
fn a_program_whose_supervisor_is_killed_keeps_its_terminal() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut desk = Desk::start(&arena, 24, 80, &proxied(&standfast, &arena, &["bash", "-c", ECHO]))?;
    desk.screen.await_text("ready")?;
    desk.say("one\n", "got=one")?;
    kill(standfast.supervisor_pid()?, Signal::SIGKILL)?;
    desk.wait()?;
    let mut desk = Desk::start(&arena, 24, 80, &attach(&standfast, &arena))?;
    desk.screen.await_text("got=one")?;
    desk.say("two\n", "got=two")?;
    desk.screen.type_in(b"\x04")?;
    ensure!(desk.wait()?.success(), "the end of a program is no failure of an attachment");
    arena.wait_until_empty(PATIENCE)
}

#[test]
fn a_program_whose_terminal_is_lost_gets_sighup() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let script = format!("trap 'echo hung up > told; exit 4' HUP; {ECHO}");
    let mut desk = Desk::start(&arena, 24, 80, &proxied(&standfast, &arena, &["bash", "-c", &script]))?;
    desk.screen.await_text("ready")?;
    let supervisor = standfast.supervisor_pid()?;
    let front_and_supervisor = [supervisor, parent(supervisor)?];
    let command = standfast.command(&[]);
    let ours = arena.processes_of(Path::new(command.get_program()));
    let holder = ours.into_iter().find(|pid| !front_and_supervisor.contains(pid)).context("somebody holds it")?;
    kill(holder, Signal::SIGKILL)?;
    ensure!(desk.wait()?.code() == Some(4), "it ended otherwise: {}", desk.screen.shown);
    ensure!(desk.screen.shown.contains("terminal is gone"), "not told: {}", desk.screen.shown);
    ensure!(fs::read_to_string(arena.work().join("told"))? == "hung up\n", "the program was not told");
    arena.wait_until_empty(PATIENCE)
}

fn parent(pid: Pid) -> Result<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let parent =
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).context("a process has a parent")?;
    Ok(Pid::from_raw(parent.parse()?))
}

#[test]
fn a_detached_program_has_its_own_terminal() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut command = run(&standfast, &arena, &["--detach"], &["bash", "-c", ECHO]);
    let started = Running::start(&arena, "run", Output::Nowhere, &mut command)?.wait(PATIENCE)?.well("run --detach")?;
    ensure!(started.errors.contains("standfast attach"), "not told: {}", started.errors);
    let socket = arena.images().join("terminal");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(socket)?.permissions());
    ensure!(mode & 0o777 == 0o600, "others may attach: {mode:o}");
    standfast.checkpoint()?;
    let mut desk = Desk::start(&arena, 24, 80, &attach(&standfast, &arena))?;
    desk.screen.await_text("ready")?;
    desk.say("one\n", "got=one")?;
    // A terminal that is lost is detached.
    drop(desk);
    let mut desk = Desk::start(&arena, 24, 80, &attach(&standfast, &arena))?;
    desk.say("two\n", "got=two")?;
    kill(standfast.supervisor_pid()?, Signal::SIGTERM)?;
    desk.wait()?;
    arena.wait_until_empty(PATIENCE)?;
    let mut command = standfast.restart_command(&arena.images());
    let restarted = Running::start(&arena, "restart", Output::Nowhere, command.arg("--detach"))?;
    restarted.wait(PATIENCE)?.well("restart --detach")?;
    let mut desk = Desk::start(&arena, 24, 80, &attach(&standfast, &arena))?;
    desk.say("three\n", "got=three")?;
    desk.screen.type_in(b"\x04")?;
    desk.wait()?;
    arena.wait_until_empty(PATIENCE)
}

/// Returns a shell that notes the settings of its terminal before and after it runs a command on it.
fn noting_settings(command: &Command) -> Result<Command> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| Ok(format!("'{}'", word.to_str().context("words in UTF-8")?)));
    let line = words.collect::<Result<Vec<_>>>()?.join(" ");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("stty -echo; stty -g > before; {line}; stty -g > after; stty size > size")]);
    Ok(shell)
}

#[test]
fn the_users_terminal_is_restored_after_an_interactive_shell() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let said = |when: &str| fs::read_to_string(arena.work().join(when));
    let is_as_it_was = |what: &str| {
        let (before, after) = (said("before")?, said("after")?);
        ensure!(after == before, "{what} leaves the terminal otherwise: {before:?} has become {after:?}");
        Ok(())
    };
    let run = run(&standfast, &arena, &[], &SHELL);
    let mut desk = Desk::start(&arena, 24, 80, &noting_settings(&run)?)?;
    desk.screen.await_text("$ ")?;
    desk.screen.type_in(b"while test \"$(stty size)\" != '34 102'; do sleep 0.02; done; echo fol\"\"lowed\n")?;
    desk.screen.resize(34, 102)?;
    desk.screen.await_text("followed")?;
    standfast.checkpoint()?;
    desk.say(DETACH, "standfast attach")?;
    ensure!(desk.wait()?.success(), "detaching is no failure");
    is_as_it_was("detaching")?;
    ensure!(said("size")? == "34 102\n", "its window is of another size");
    let mut desk = Desk::start(&arena, 24, 80, &noting_settings(&attach(&standfast, &arena))?)?;
    desk.say("stty size\n", "24 80")?;
    // Kill the program alone, since the shell that notes the settings must continue.
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    desk.wait()?;
    arena.wait_until_empty(PATIENCE)?;
    is_as_it_was("a job that is killed")?;
    let mut desk = Desk::start(&arena, 24, 80, &noting_settings(&standfast.restart_command(&arena.images()))?)?;
    desk.say("exit 3\n", "exit")?;
    desk.wait()?;
    is_as_it_was("a job that ends")?;
    arena.wait_until_empty(PATIENCE)
}

/// How often the test kills the shell that counts.
const KILLS: u32 = 3;

#[test]
fn a_shell_killed_at_random_moments_continues_from_its_checkpoint() -> Result<()> {
    let kills = std::env::var("STANDFAST_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(KILLS);
    let seed = standfast_tests::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut desk = Desk::start(&arena, 24, 80, &proxied(&standfast, &arena, &SHELL))?;
    desk.screen.await_text("$ ")?;
    desk.say("n=0; echo beg\"\"un\n", "begun")?;
    let mut count = 0;
    for _ in 0..kills {
        for _ in 0..random.u32(..4) {
            count += 1;
            desk.say("n=$((n+1)); echo is=$n\n", &format!("is={count}\r"))?;
        }
        standfast.checkpoint()?;
        // The restart undoes the following commands: whole ones, and one that the test does not wait for.
        (1..random.u32(1..3))
            .try_for_each(|more| desk.say("n=$((n+1)); echo is=$n\n", &format!("is={}\r", count + more)))?;
        desk.screen.type_in(b"n=$((n+1)); echo is=$n\n")?;
        until(PATIENCE, "the job to be killed", || Ok(standfast.kill_job()?.then_some(())))?;
        desk.wait()?;
        desk = Desk::start(&arena, 24, 80, &standfast.restart_command(&arena.images()))?;
        desk.say("echo is=$n\n", &format!("is={count}\r")).with_context(|| format!("seed {seed}"))?;
    }
    desk.say("exit 6\n", "exit")?;
    ensure!(desk.wait()?.code() == Some(6), "the status of a shell is lost");
    arena.wait_until_empty(PATIENCE)
}
