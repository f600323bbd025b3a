//! One life directly after another: Standfast waits for a process that is about to end, and never takes it for a living
//! one.
//!
//! `STANDFAST_ROUNDS` sets the number of rounds of each test (`make soak`).
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, bail, ensure};
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::victims::{HEAVY, Program};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Returns how often one life follows another.
fn rounds() -> usize {
    std::env::var("STANDFAST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4)
}

/// Starts a program with much memory, threads and this many children, and takes a checkpoint of it.
fn checkpointed<'a>(arena: &'a Arena, children: &str) -> Result<(Standfast<'a>, Running)> {
    let program = HEAVY.with(&["200", "4", children])?;
    let standfast = Standfast::new(arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    Ok((standfast, running))
}

/// Restarts the job. Standfast must not refuse that.
fn restarted(arena: &Arena, standfast: Standfast<'_>, round: usize) -> Result<Running> {
    let mut command = standfast.command(&["restart", "-v"]);
    command.arg(arena.images());
    let mut running = Running::start(arena, &format!("restart-{round}"), Output::Nowhere, &mut command)?;
    until(PATIENCE, "the program to run again", || {
        let said = running.errors_so_far();
        if !said.contains("the program runs as") && running.has_ended()? {
            bail!("round {round}: the restart ended: {}", running.errors_so_far());
        }
        Ok(said.contains("the program runs as").then_some(()))
    })?;
    Ok(running)
}

/// Waits for a process that has ended, so that no zombies accumulate.
fn has_ended(running: Running) -> Result<()> {
    running.wait(PATIENCE).map(drop)
}

#[test]
fn a_restart_right_after_kill_9_of_everything_is_not_refused() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, mut running) = checkpointed(&arena, "1")?;
    for round in 0..rounds() {
        arena.processes().into_iter().for_each(|pid| _ = kill(pid, Signal::SIGKILL));
        let again = restarted(&arena, standfast, round)?;
        has_ended(std::mem::replace(&mut running, again))?;
    }
    Ok(())
}

#[test]
fn a_clean_right_after_kill_9_of_everything_is_not_refused() -> Result<()> {
    for _ in 0..rounds() {
        let arena = Arena::new()?;
        let (standfast, running) = checkpointed(&arena, "1")?;
        arena.processes().into_iter().for_each(|pid| _ = kill(pid, Signal::SIGKILL));
        standfast.ask("clean", &arena.images(), &["--unfinished"])?.well("clean")?;
        ensure!(!arena.images().exists(), "something is left");
        has_ended(running)?;
    }
    Ok(())
}

#[test]
fn a_restart_right_after_kill_9_of_the_program_is_not_refused() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, mut running) = checkpointed(&arena, "0")?;
    for round in 0..rounds() {
        let program = standfast.program_pid()?.context("it runs")?;
        kill(program, Signal::SIGKILL)?;
        let again = restarted(&arena, standfast, round)?;
        has_ended(std::mem::replace(&mut running, again))?;
    }
    Ok(())
}

#[test]
fn a_job_stopped_by_checkpoint_stop_can_be_restarted_at_once() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, mut running) = checkpointed(&arena, "1")?;
    for round in 0..rounds() {
        standfast.ask("checkpoint", &arena.images(), &["--stop"])?.well("checkpoint --stop")?;
        ensure!(!arena.images().join("lease").exists(), "round {round}: it is still held");
        let again = restarted(&arena, standfast, round)?;
        has_ended(std::mem::replace(&mut running, again))?;
    }
    Ok(())
}

#[test]
fn a_restart_beside_a_process_of_an_earlier_life_is_refused() -> Result<()> {
    // One that is in a group of its own, and one that is not.
    for command in ["setsid sleep 600", "sleep 600"] {
        refused_beside(command).with_context(|| command.to_owned())?;
    }
    Ok(())
}

/// Has a shell start this command, kills the shell and its supervisor, and checks that no restart runs beside the command.
fn refused_beside(command: &str) -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let script = format!("{command} & echo > ready; wait");
    let program = Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] };
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    until(PATIENCE, "the shell", || Ok(arena.work().join("ready").exists().then_some(())))?;
    standfast.checkpoint_when_supervised()?;
    let (supervisor, shell) = (standfast.supervisor_pid()?, standfast.program_pid()?.context("it runs")?);
    [supervisor, shell].into_iter().try_for_each(|pid| kill(pid, Signal::SIGKILL))?;
    has_ended(running)?;
    let survivors = arena.processes_of(Path::new("/usr/bin/sleep"));
    ensure!(survivors.len() == 1, "these have survived: {survivors:?}");
    let mut command = standfast.restart_command(&arena.images());
    let refused = Running::complete(&arena, "beside", &mut command)?.refusal("a second life")?;
    ensure!(refused.contains(&format!("process {} (sleep) of an earlier life", survivors[0])), "it said: {refused}");
    kill(survivors[0], Signal::SIGKILL)?;
    let restarted = restarted(&arena, standfast, 0)?;
    arena.clear();
    has_ended(restarted)
}

/// Leaves a child, which ends when it notices that the shell has ended.
const LEAVES_A_CHILD: &str = "mkfifo line; cat line & exec 9> line; rm line; exit 0";

#[test]
fn a_run_right_after_a_run_is_not_refused() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let program = Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), LEAVES_A_CHILD.into()] };
    for round in 0..2 * rounds() {
        let mut command = standfast.run_command(Checkpoints::OnRequest, &program);
        Running::complete(&arena, &format!("run-{round}"), &mut command)?.well("the run")?;
    }
    Ok(())
}

/// Keeps a process from ending.
struct HeldAtExit {
    threads: Vec<Pid>,
}

impl HeldAtExit {
    fn hold(process: Pid) -> Result<Self> {
        let tasks = fs::read_dir(format!("/proc/{process}/task"))?;
        let tids = tasks.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let threads: Vec<Pid> = tids.map(Pid::from_raw).collect();
        for thread in &threads {
            ptrace::seize(*thread, Options::PTRACE_O_TRACEEXIT)?;
        }
        Ok(Self { threads })
    }

    /// Waits until the process is stopped just before its end.
    fn await_exit(&self) -> Result<()> {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::from_bits_retain(libc::__WNOTHREAD);
        for thread in &self.threads {
            let status = waitpid(*thread, Some(flags))?;
            ensure!(
                matches!(status, WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXIT)),
                "{thread} has not come to its exit: {status:?}"
            );
        }
        Ok(())
    }

    fn let_go(self) -> Result<()> {
        self.threads.iter().try_for_each(|thread| ptrace::detach(*thread, None)).context("letting it end")
    }
}

/// Kills everything, keeps one process from ending, and restarts the job.
fn is_named_and_waited_for(choose: impl Fn(Standfast<'_>) -> Result<Pid>) -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = checkpointed(&arena, "1")?;
    let pid = choose(standfast)?;
    let held = HeldAtExit::hold(pid)?;
    arena.processes().into_iter().for_each(|pid| _ = kill(pid, Signal::SIGKILL));
    held.await_exit()?;
    let mut again = standfast.restart(&arena.images(), "again")?;
    let line = format!("process {pid} is still exiting");
    until(PATIENCE, "a word about who is waited for", || {
        ensure!(!again.has_ended()?, "it was not waited for: {}", again.errors_so_far());
        Ok(again.errors_so_far().contains(&line).then_some(()))
    })?;
    held.let_go()?;
    standfast.checkpoint_when_supervised().with_context(|| again.errors_so_far())?;
    has_ended(running)
}

#[test]
fn a_supervisor_that_takes_long_to_end_is_named_and_waited_for() -> Result<()> {
    is_named_and_waited_for(|standfast| standfast.supervisor_pid())
}

#[test]
fn a_program_that_takes_long_to_end_is_named_and_waited_for() -> Result<()> {
    is_named_and_waited_for(|standfast| standfast.program_pid()?.context("it runs"))
}

#[test]
fn a_child_that_takes_long_to_end_is_named_and_waited_for() -> Result<()> {
    is_named_and_waited_for(|standfast| {
        let program = standfast.program_pid()?.context("it runs")?;
        let children = fs::read_to_string(format!("/proc/{program}/task/{program}/children"))?;
        Ok(Pid::from_raw(children.trim().parse()?))
    })
}

/// Returns the lease of a job that was killed with everything, edited as if the job had taken it in another boot.
fn in_another_boot(arena: &Arena) -> Result<PathBuf> {
    let (_, running) = checkpointed(arena, "0")?;
    arena.processes().into_iter().for_each(|pid| _ = kill(pid, Signal::SIGKILL));
    has_ended(running)?;
    let lease = arena.images().join("lease");
    let text = fs::read_to_string(&lease)?;
    let boot = text.lines().find(|line| line.starts_with("boot=")).context("a lease names its boot")?;
    let text = text.replace(boot, "boot=another").replace("end=1\n", "heartbeat=1\nend=1\n");
    fs::write(&lease, text)?;
    Ok(lease)
}

#[test]
fn a_lease_of_another_boot_without_heartbeat_is_watched_and_taken() -> Result<()> {
    let arena = Arena::new()?;
    in_another_boot(&arena)?;
    let standfast = Standfast::new(&arena)?;
    let again = restarted(&arena, standfast, 0)?;
    let said = again.errors_so_far();
    ensure!(said.contains("watching its heartbeat for 2 s"), "it was taken without a look: {said}");
    Ok(())
}

#[test]
fn a_wait_for_an_earlier_life_ends_at_a_notice_to_stop_and_no_other() -> Result<()> {
    let arena = Arena::new()?;
    let lease = in_another_boot(&arena)?;
    let text = fs::read_to_string(&lease)?;
    fs::write(&lease, text.replace("heartbeat=1\n", "heartbeat=600\n"))?;
    let standfast = Standfast::new(&arena)?;
    let mut restart = standfast.restart_command(&arena.images());
    restart.args(["--notice", "TERM=checkpoint", "--notice", "USR1=stop", "--stopped-status", "85"]);
    let again = Running::start(&arena, "again", Output::Nowhere, &mut restart)?;
    until(PATIENCE, "the wait", || Ok(again.errors_so_far().contains("watching its heartbeat").then_some(())))?;
    for signal in [Signal::SIGTERM, Signal::SIGUSR1] {
        again.signal(signal)?;
    }
    let ended = again.wait(PATIENCE)?;
    ensure!(ended.exited(85), "it ended with {}: {}", ended.status, ended.errors);
    ensure!(ended.errors.contains("interrupted by SIGUSR1"), "{}", ended.errors);
    ensure!(fs::read_to_string(&lease)?.contains("boot=another"), "the lease was taken");
    Ok(())
}

#[test]
fn a_lease_of_another_boot_with_a_heartbeat_is_not_taken() -> Result<()> {
    let arena = Arena::new()?;
    let lease = in_another_boot(&arena)?;
    let standfast = Standfast::new(&arena)?;
    let mut again = standfast.restart(&arena.images(), "again")?;
    // Another machine of this name shows that it is alive.
    until(PATIENCE, "the restart to be refused", || {
        File::options().write(true).open(&lease)?.set_modified(SystemTime::now())?;
        Ok(again.has_ended()?.then_some(()))
    })?;
    let said = again.wait(PATIENCE)?.refusal("a restart beside a living job")?;
    ensure!(said.contains("heartbeat continues"), "{said}");
    Ok(())
}
