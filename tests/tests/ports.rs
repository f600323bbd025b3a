//! Ports of a killed job: connections linger there for a minute. A restart does not wait for them, and reports each wait
//! that it cannot avoid.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::victims::HOLDER;
use std::fs;
use std::time::Duration;

const WAITS: &str = "waiting for port 127.0.0.1:";

/// Kills a server while one of its connections lingers that was made after its checkpoint.
fn killed_beside_what_lingers(arena: &Arena, option: &str) -> Result<()> {
    let standfast = Standfast::new(arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &HOLDER.with(&["server", option])?)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    open_gate(arena)?;
    kill_beside_what_lingers(arena, running)
}

/// Does the same, and restarts the server.
fn restarted_beside_what_lingers(arena: &Arena, option: &str) -> Result<Running> {
    killed_beside_what_lingers(arena, option)?;
    Standfast::new(arena)?.restart(&arena.images(), "restart")
}

fn kill_beside_what_lingers(arena: &Arena, running: Running) -> Result<()> {
    let lingering = arena.work().join("lingering");
    until(PATIENCE, "a connection to linger", || Ok(lingering.exists().then_some(())))?;
    ensure!(Standfast::new(arena)?.kill_job()?, "the server has ended by itself");
    running.wait(PATIENCE)?;
    Ok(fs::remove_file(lingering)?)
}

/// Checks that the restarted server ends well, and that the restart waited for nothing.
fn ends_without_a_wait(arena: &Arena, restarted: Running) -> Result<()> {
    fs::write(arena.work().join("end"), "")?;
    let ended = restarted.wait(PATIENCE)?.well("the restarted server").with_context(|| arena.evidence())?;
    ensure!(!ended.errors.contains(WAITS), "{}", ended.errors);
    Ok(())
}

#[test]
fn a_restart_does_not_wait_for_connections_that_linger_at_a_port() -> Result<()> {
    let arena = Arena::new()?;
    let restarted = restarted_beside_what_lingers(&arena, "shared")?;
    ends_without_a_wait(&arena, restarted)
}

/// The test kills the second life before it has a checkpoint of its own.
#[test]
fn a_second_restart_does_not_wait_for_lingering_connections() -> Result<()> {
    let arena = Arena::new()?;
    let restarted = restarted_beside_what_lingers(&arena, "shared")?;
    kill_beside_what_lingers(&arena, restarted)?;
    let again = Standfast::new(&arena)?.restart(&arena.images(), "restart-again")?;
    ends_without_a_wait(&arena, again)
}

/// The program has undone what the checkpoint set, as if the connection had ended before the first checkpoint.
#[test]
fn a_lingering_local_connection_without_reuseaddr_is_ended() -> Result<()> {
    let arena = Arena::new()?;
    let restarted = restarted_beside_what_lingers(&arena, "alone")?;
    ends_without_a_wait(&arena, restarted)
}

/// A socket that was only bound at the checkpoint listens after the restart. The kernel lets it do so only if nothing lingers
/// at its port.
#[test]
fn a_bound_socket_can_listen_beside_what_lingered_at_its_port() -> Result<()> {
    let arena = Arena::new()?;
    let restarted = restarted_beside_what_lingers(&arena, "bound")?;
    ends_without_a_wait(&arena, restarted)
}

/// Listens at another address of the same port until it is killed.
const LISTENS: &str = r"
import socket, sys, time
listener = socket.create_server(('127.0.0.2', int(sys.argv[1])))
print('bound', file=sys.stderr, flush=True)
time.sleep(3600)
";

/// If the attempt to end a connection fails, the restart tries again. It does not wait until the kernel forgets the
/// connection, after 60 s.
#[test]
fn ending_a_lingering_connection_is_retried() -> Result<()> {
    let arena = Arena::new()?;
    killed_beside_what_lingers(&arena, "alone")?;
    let another = beside_port(&arena, LISTENS)?;
    let restarted = Standfast::new(&arena)?.restart(&arena.images(), "restart")?;
    until(PATIENCE, "the wait to be reported", || Ok(restarted.errors_so_far().contains(WAITS).then_some(())))?;
    another.signal(Signal::SIGKILL)?;
    another.wait(PATIENCE)?;
    fs::write(arena.work().join("end"), "")?;
    restarted.wait(Duration::from_secs(20))?.well("the restarted server").map(drop)
}

/// Holds a port until it is killed, and does not listen there, since the restart would refuse that at once.
const HOLDS: &str = r"
import socket, sys, time
held = socket.socket()
held.bind(('127.0.0.1', int(sys.argv[1])))
print('bound', file=sys.stderr, flush=True)
time.sleep(3600)
";

/// Runs a script with the port of the server, and returns when the script has bound its own.
fn beside_port(arena: &Arena, script: &str) -> Result<Running> {
    let port = fs::read_to_string(arena.work().join("port"))?;
    let mut command = arena.command("python3");
    let another = Running::start(arena, "another", Output::Nowhere, command.args(["-c", script, &port]))?;
    until(PATIENCE, "the port to be taken", || Ok(another.errors_so_far().contains("bound").then_some(())))?;
    Ok(another)
}

/// Restarts a server whose port another program now holds. Returns when the restart has reported that it waits for the
/// port.
fn restarted_beside_another(arena: &Arena) -> Result<(Running, Running)> {
    let standfast = Standfast::new(arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &HOLDER.with(&["server", "shared"])?)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    ensure!(standfast.kill_job()?, "the server has ended by itself");
    running.wait(PATIENCE)?;
    let another = beside_port(arena, HOLDS)?;
    let restarted = standfast.restart(&arena.images(), "restart")?;
    until(PATIENCE, "the wait to be reported", || Ok(restarted.errors_so_far().contains(WAITS).then_some(())))?;
    Ok((restarted, another))
}

#[test]
fn a_restart_waits_for_a_port_and_says_so() -> Result<()> {
    let arena = Arena::new()?;
    let (restarted, another) = restarted_beside_another(&arena)?;
    another.signal(Signal::SIGKILL)?;
    another.wait(PATIENCE)?;
    open_gate(&arena)?;
    fs::write(arena.work().join("end"), "")?;
    restarted.wait(PATIENCE)?.well("the restarted server").map(drop)
}

#[test]
fn a_restart_that_waits_for_a_port_ends_at_a_signal() -> Result<()> {
    // SIGTERM would have stopped the running job, and so the job can be queued again.
    for (signal, status) in [(Signal::SIGTERM, 75), (Signal::SIGINT, 1)] {
        let arena = Arena::new()?;
        let (restarted, another) = restarted_beside_another(&arena)?;
        restarted.signal(signal)?;
        let ended = restarted.wait(PATIENCE)?;
        ensure!(ended.exited(status), "it ended with {}: {}", ended.status, ended.errors);
        ensure!(ended.errors.contains(&format!("interrupted by {signal}")), "{}", ended.errors);
        another.signal(Signal::SIGKILL)?;
        another.wait(PATIENCE)?;
        arena.wait_until_empty(PATIENCE)?;
        let status = Standfast::new(&arena)?.status(&arena.images())?;
        ensure!(status["live"].is_null(), "{status}");
    }
    Ok(())
}
