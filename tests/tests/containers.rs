//! Jobs in containers as Docker makes them without options: `standfast run` is process 1, without privileges and under
//! Docker's default seccomp profile. When a container is killed, another one continues the job.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::container::{Container, processes};
use standfast_tests::result::{OUTPUT, RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running, patience_for_a_whole_run, until};
use standfast_tests::victims::{
    CHANNELS, MEMORY, PERL, PIPELINES, Program, R, ROUTINES, SIGNALS, SMALL, THREADS, THREADS_STATIC, Victim, WAITS,
};
use standfast_tests::{Lacking, skip};
use std::fs;
use std::process::{Command, Stdio};

/// How often a container is killed.
const KILLS: usize = 3;

/// Reports whether containers can be made here, and notes the skipped promise if not.
fn is_possible(promise: &str) -> Result<bool> {
    let is_possible = Container::is_possible()?;
    if !is_possible {
        skip(promise, &Lacking::system("the system lets this user make no namespaces"));
    }
    Ok(is_possible)
}

fn shell(script: &str) -> Program {
    Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] }
}

/// Starts a program under Standfast in a container.
fn run(arena: &Arena, container: Container, checkpoints: Checkpoints, program: &Program) -> Result<Running> {
    run_with(arena, &[], container, checkpoints, program)
}

/// Like [`run`], with more options.
fn run_with(
    arena: &Arena,
    options: &[&str],
    container: Container,
    checkpoints: Checkpoints,
    program: &Program,
) -> Result<Running> {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    let inner = Standfast::new(arena)?.run_command_with(&options, checkpoints, program);
    let mut command = container.around(arena, &inner)?;
    Running::start(arena, "run", Output::File(arena.work().join(OUTPUT)), &mut command)
}

/// Continues the job in a fresh container. The holder of the lease was in another one, where nobody can look.
fn restart(arena: &Arena, container: Container, name: &str) -> Result<Running> {
    let standfast = Standfast::new(arena)?;
    let mut command = standfast.restart_command(&arena.images());
    Running::start(arena, name, Output::Nowhere, &mut container.around(arena, command.arg("--force"))?)
}

/// Returns a process of a container by what it is inside: 1, or the program's parent, or the program.
fn process_of(running: &Running, place: usize) -> Result<Pid> {
    until(PATIENCE, "the processes of the container", || Ok(processes(running.pid()).get(place).map(|(pid, _)| *pid)))
}

const INIT: usize = 0;
const SUPERVISOR: usize = 1;
const PROGRAM: usize = 2;

/// Waits until the program has written this file.
fn await_file(arena: &Arena, name: &str) -> Result<()> {
    until(PATIENCE, "the program to be ready", || Ok(arena.work().join(name).exists().then_some(())))
}

#[test]
fn process_1_passes_signals_on_and_ends_as_the_program_does() -> Result<()> {
    if !is_possible("process 1 of a container")? {
        return Ok(());
    }
    let waits = "trap 'exit 7' USR1; trap 'exit 8' HUP; : >ready; while :; do sleep 0.05; done";
    let ends =
        [(Signal::SIGUSR1, waits, 7), (Signal::SIGHUP, waits, 8), (Signal::SIGINT, ": >ready; exec sleep 60", 130)];
    for (signal, script, status) in ends {
        let arena = Arena::new()?;
        let running = run(&arena, Container::Ordinary, Checkpoints::OnRequest, &shell(script))?;
        await_file(&arena, "ready")?;
        kill(process_of(&running, INIT)?, signal)?;
        let ended = running.wait(PATIENCE)?;
        ensure!(ended.exited(status), "after {signal} it ended with {}: {}", ended.status, ended.errors);
    }
    Ok(())
}

#[test]
fn a_stopped_container_has_a_checkpoint_and_the_next_one_continues() -> Result<()> {
    if !is_possible("a stopped container")? {
        return Ok(());
    }
    let program = SMALL.with(&[])?;
    let native = RunResult::native(&program)?;
    for container in [Container::Ordinary, Container::NoNewPrivileges] {
        let arena = Arena::new()?;
        let standfast = Standfast::new(&arena)?;
        let running = run(&arena, container, Checkpoints::OnRequest, &program)?;
        standfast.await_gate()?;
        kill(process_of(&running, INIT)?, Signal::SIGTERM)?;
        let ended = running.wait(PATIENCE)?;
        ensure!(ended.exited(75), "it was not stopped: {} {}", ended.status, ended.errors);
        ensure!(ended.errors.contains("namespaces of its own here"), "nothing was said at the start: {}", ended.errors);
        open_gate(&arena)?;
        restart(&arena, container, "restart")?.wait(PATIENCE)?.well("the restart").with_context(|| arena.evidence())?;
        RunResult::read(&arena.work())?.must_equal(&native)?;
    }
    Ok(())
}

#[test]
fn process_1_waits_for_a_program_whose_supervisor_was_killed() -> Result<()> {
    if !is_possible("a killed supervisor in a container")? {
        return Ok(());
    }
    let arena = Arena::new()?;
    let script = ": >ready; until [ -e go ]; do sleep 0.05; done; exit 9";
    let running = run_with(&arena, &["-v"], Container::Ordinary, Checkpoints::OnRequest, &shell(script))?;
    // Process 1 knows the program by then.
    until(PATIENCE, "the program to run", || {
        Ok(running.errors_so_far().contains("the program runs as").then_some(()))
    })?;
    await_file(&arena, "ready")?;
    let program = process_of(&running, PROGRAM)?;
    kill(process_of(&running, SUPERVISOR)?, Signal::SIGKILL)?;
    until(PATIENCE, "a report", || Ok(running.errors_so_far().contains("the supervisor was killed").then_some(())))?;
    ensure!(kill(program, None).is_ok(), "the program ended with its supervisor");
    fs::write(arena.work().join("go"), "")?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(9), "it ended with {}: {}", ended.status, ended.errors);
    Ok(())
}

#[test]
fn process_1_reaps_orphans_that_are_not_of_the_job() -> Result<()> {
    if !is_possible("orphans in a container")? {
        return Ok(());
    }
    let arena = Arena::new()?;
    let running = run(&arena, Container::Ordinary, Checkpoints::OnRequest, &shell(": >ready; sleep 60"))?;
    await_file(&arena, "ready")?;
    let init = process_of(&running, INIT)?;
    // As docker exec does it. The inner shell loses its parent, and ends after it.
    let orphan = "(sleep 0.2; : >orphan) & exit 0";
    let mut enter = Command::new("nsenter");
    enter.args(["--user", "--preserve-credentials", "--pid", "--mount", "--target", &init.to_string()]);
    enter.args(["sh", "-c", &format!("cd {}; {orphan}", arena.work().display())]).stdin(Stdio::null());
    ensure!(enter.status()?.success(), "nobody can enter the container");
    await_file(&arena, "orphan")?;
    let is_zombie = |pid: Pid| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|it| it.contains(") Z "));
    until(PATIENCE, "the orphan to be reaped", || {
        let all = processes(running.pid());
        ensure!(all.len() > PROGRAM, "the job has ended: {}", running.errors_so_far());
        Ok((!all.iter().any(|(pid, _)| is_zombie(*pid))).then_some(()))
    })
}

#[test]
fn leftover_processes_end_with_the_container() -> Result<()> {
    if !is_possible("remaining processes in a container")? {
        return Ok(());
    }
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = run(&arena, Container::Ordinary, Checkpoints::OnRequest, &shell("sleep 60 & exit 3"))?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(3), "it ended with {}: {}", ended.status, ended.errors);
    ensure!(ended.errors.contains("the container ends with it"), "nothing was said: {}", ended.errors);
    ensure!(!arena.images().join("lease").exists(), "the lease is still held");
    ensure!(standfast.status(&arena.images())?["phase"] == "failed", "the end was not recorded");
    Ok(())
}

#[test]
fn detach_is_refused_for_process_1_of_a_container() -> Result<()> {
    if !is_possible("--detach in a container")? {
        return Ok(());
    }
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let options = ["--detach".to_owned()];
    let inner = standfast.run_command_with(&options, Checkpoints::OnRequest, &shell("sleep 60"));
    let refused = Running::complete(&arena, "detached", &mut Container::Ordinary.around(&arena, &inner)?)?;
    let said = refused.refusal("--detach")?;
    ensure!(said.contains("process 1 of a container"), "another reason: {said}");
    ensure!(!arena.images().exists(), "something was written");
    Ok(())
}

/// Kills the container of a victim again and again, and continues in another one. The result must be that of an
/// undisturbed run.
fn survives(victim: Victim) -> Result<()> {
    let Some(program) = victim.program()? else {
        skip(victim.name, &victim.lacking());
        return Ok(());
    };
    if !is_possible(victim.name)? {
        return Ok(());
    }
    let native = RunResult::native(&program)?;
    let mut arena = Arena::new()?;
    let outcome = killed_with_its_container(&arena, &program, &native);
    if outcome.is_err() && std::env::var_os("STANDFAST_KEEP").is_some() {
        arena.keep();
    }
    outcome.with_context(|| format!("{} {}", victim.name, arena.evidence()))
}

fn killed_with_its_container(arena: &Arena, program: &Program, native: &RunResult) -> Result<()> {
    let standfast = Standfast::new(arena)?;
    let mut running = run(arena, Container::Ordinary, Checkpoints::EveryMilliseconds(100), program)?;
    let mut kills = 0;
    while kills < KILLS {
        let before = standfast.newest_generation(&arena.images())?;
        if standfast.await_generation(before, &mut running)?.is_none() {
            break;
        }
        running.signal(Signal::SIGKILL)?;
        running.wait(PATIENCE)?;
        arena.wait_until_empty(PATIENCE)?;
        kills += 1;
        running = restart(arena, Container::Ordinary, &format!("restart-{kills}"))?;
    }
    let ended = running.wait(patience_for_a_whole_run())?.well("the job")?;
    ensure!(kills > 0, "it ended before it could be killed: {}", ended.errors);
    RunResult::read(&arena.work())?.must_equal(native)
}

#[test]
#[ignore = "slow; make test kills a smaller program's container"]
fn programs_survive_the_end_of_their_containers() -> Result<()> {
    let victims = [THREADS, THREADS_STATIC, CHANNELS, MEMORY, SIGNALS, WAITS, PERL, R];
    victims.into_iter().try_for_each(survives)
}

/// Waits until a run has said these words.
fn is_named(program: &Program, words: &str) -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let inner = standfast.run_command_with(
        &["--rehearse".to_owned(), "every:1".to_owned()],
        Checkpoints::EveryMilliseconds(100),
        program,
    );
    let mut command = Container::Ordinary.around(&arena, &inner)?;
    // It must not end before the first rehearsal does.
    command.env("VICTIM_TIMES", "100");
    let mut running = Running::start(&arena, "run", Output::Nowhere, &mut command)?;
    let named = until(PATIENCE, words, || {
        let is_named = running.errors_so_far().contains(words);
        Ok(if is_named || running.has_ended()? { Some(is_named) } else { None })
    })?;
    ensure!(named, "it was not refused by name: {}", running.errors_so_far());
    Ok(())
}

#[test]
#[ignore = "slow: it waits for Go and bash"]
fn blockers_of_a_container_are_named_at_the_first_checkpoint() -> Result<()> {
    for (victim, named) in [
        (ROUTINES, "a Go program must have its old ids"),
        (PIPELINES, "several processes: this container forbids kcmp"),
    ] {
        let Some(program) = victim.program()? else {
            skip(victim.name, &victim.lacking());
            continue;
        };
        if !is_possible(victim.name)? {
            return Ok(());
        }
        is_named(&program, named).context(victim.name)?;
    }
    Ok(())
}
