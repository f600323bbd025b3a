//! What a distributed job takes along beside its connections: levels in memory, files, datagrams. And what it has of us
//! while no checkpoint is taken: nothing.

use crate::parts::{LINES, NODES, counting, must_have_counted, with_nodes};
use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standfast_tests::command::standfast_binary;
use standfast_tests::distributed::Distributed;
use standfast_tests::programs::in_path;
use standfast_tests::running::{PATIENCE, Running, until};
use standfast_tests::{Lacking, skip};
use std::fs;

/// Continues a job. Returns the number of the epoch from which all parts have continued.
fn continued(job: &mut Distributed<'_>) -> Result<(u64, Running)> {
    let running = job.restart()?;
    let epoch = || {
        let said = running.errors_so_far();
        Ok(said.split_once("parts from epoch ").and_then(|(_, rest)| rest.lines().next()?.parse().ok()))
    };
    Ok((until(PATIENCE, "the restart", epoch)?, running))
}

/// Checks that no process of ours is attached to a process, and that neither a filter nor a library of ours is in it.
fn must_be_left_alone(pid: Pid) -> Result<()> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
    let status = read("status")?;
    let word = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("status has it")?;
        Ok::<_, anyhow::Error>(line.trim().to_owned())
    };
    ensure!(word("TracerPid:")? == "0", "{pid} is traced: {status}");
    ensure!(word("Seccomp:")? == "0", "{pid} has a filter: {status}");
    let mapped = read("maps")?;
    ensure!(!mapped.contains("libstandfast"), "{pid} has a library of ours: {mapped}");
    ensure!(!read("environ")?.contains("LD_PRELOAD="), "{pid} was given a library");
    Ok(())
}

#[test]
#[ignore = "5 s; streams between nodes are killed in make test"]
fn programs_are_left_alone_between_checkpoints() -> Result<()> {
    with_nodes(|mut job| {
        let running = job.run("off", &["sh", "-c", &counting()?])?;
        let is_ours = |pid: &Pid| {
            let own = standfast_binary().ok().and_then(|path| path.canonicalize().ok());
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| Some(program) == own)
        };
        let shells = |job: &Distributed<'_>| -> Vec<Pid> {
            let named =
                |pid: &Pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sh");
            let of_nodes = |pid: &Pid| job.nodes.node_of(*pid).is_some();
            job.arena.processes().into_iter().filter(|it| of_nodes(it) && named(it) && !is_ours(it)).collect()
        };
        until(PATIENCE, "the first line", || Ok(job.printed().is_ok_and(|it| !it.is_empty()).then_some(())))?;
        let directory = job.directory().display().to_string();
        job.start(&["checkpoint", &directory])?.wait(PATIENCE)?.well("a checkpoint")?;
        let first = shells(&job);
        ensure!(first.len() >= NODES, "these run: {first:?}");
        first.into_iter().try_for_each(must_be_left_alone)?;
        job.arena.clear();
        drop(running);
        let (_, running) = continued(&mut job)?;
        let second = shells(&job);
        ensure!(second.len() >= NODES, "these run: {second:?}");
        second.into_iter().try_for_each(must_be_left_alone)?;
        running.wait(PATIENCE)?.well("the continued job")?;
        must_have_counted(&job)?;
        job.arena.wait_until_empty(PATIENCE)
    })
}

#[test]
#[ignore = "10 s; as above"]
fn checkpoints_in_memory_survive_the_program_and_those_on_disk_the_memory() -> Result<()> {
    with_nodes(|mut job| {
        let options = ["-i", "100ms", "--memory", "/dev/shm", "--flush-every", "1000"];
        let running = job.run_with(&options, &["sh", "-c", &counting()?])?;
        until(PATIENCE, "ten checkpoints", || {
            Ok(running.errors_so_far().contains("epoch 10: in memory").then_some(()))
        })?;
        job.arena.clear();
        drop(running);
        let levels = |node| job.nodes.on(node, "ls -d /dev/shm/standfast-* | wc -l");
        ensure!(
            (0..NODES).all(|node| levels(node).is_ok_and(|it| it.trim() == "1")),
            "the levels in memory are not there"
        );
        let directory = job.directory().display().to_string();
        let refused = job.start(&["inspect", &directory, "10"])?.wait(PATIENCE)?.refusal("epoch 10")?;
        ensure!(refused.contains("hint: these are on disk: 1"), "it said: {refused}");
        let (epoch, running) = continued(&mut job)?;
        ensure!(epoch >= 10, "it continued from epoch {epoch}");
        job.arena.clear();
        drop(running);
        job.nodes.on(1, "rm -r /dev/shm/standfast-*")?;
        let (epoch, running) = continued(&mut job)?;
        ensure!(epoch == 1, "it continued from epoch {epoch}");
        until(PATIENCE, "a checkpoint", || Ok(running.errors_so_far().contains("in memory after").then_some(())))?;
        let steers = job.processes_with("restart")?;
        steers.into_iter().try_for_each(|pid| kill(pid, Signal::SIGTERM))?;
        let stopped = running.wait(PATIENCE)?;
        ensure!(stopped.exited(75), "it was not stopped: {} {}", stopped.status, stopped.errors);
        let listed = job.start(&["list", &directory])?.wait(PATIENCE)?.well("list")?.output;
        let is_on_disk = listed.lines().last().is_some_and(|newest| !newest.contains("in memory"));
        ensure!(is_on_disk, "the last checkpoint is not on disk: {listed}");
        job.restart()?.wait(PATIENCE)?.well("the continued job")?;
        must_have_counted(&job)?;
        job.arena.wait_until_empty(PATIENCE)?;
        let left = |node| job.nodes.on(node, "ls /dev/shm");
        ensure!((0..NODES).all(|node| left(node).is_ok_and(|it| it.trim().is_empty())), "something is left in memory");
        Ok(())
    })
}

/// Reads its datagrams once there is a file `go`, and answers the sender of the first one.
const RECEIVER: &str = "
import os, socket, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
own, local = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
own.bind(('', 5005))
open('listens', 'w')
until('sent')
local.bind(('127.0.0.1', 0))
local.sendto(b'from here', ('127.0.0.1', 5005))
open('ready', 'w')
until('go')
got = [own.recvfrom(100) for _ in range(4)]
for contents, (address, _) in got: print(contents.decode(), address, flush=True)
own.sendto(b'thanks', got[0][1])
";
/// Is bound to any address, so that the answer must come to the same one.
const SENDER: &str = "
import os, socket, time
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(('', 5005))
while not os.path.exists('listens'): time.sleep(0.01)
for word in [b'one', b'two', b'three']: own.sendto(word, ('node1', 5005))
open('sent', 'w')
print('answered', own.recv(100).decode(), flush=True)
";

#[test]
#[ignore = "4 s; as above"]
fn datagrams_of_another_node_that_nobody_has_read_yet_are_kept() -> Result<()> {
    with_nodes(|mut job| {
        let Some(python) = in_path("python3") else {
            skip::skip("datagrams between nodes", &Lacking::program("Python"));
            return Ok(());
        };
        let work = job.arena.work();
        [("receiver.py", RECEIVER), ("sender.py", SENDER)]
            .iter()
            .try_for_each(|(name, text)| fs::write(work.join(name), text))?;
        let (python, standfast) = (python.display(), standfast_binary()?.display());
        let script = format!("{python} receiver.py & {standfast} rsh node2 {python} sender.py; wait");
        let running = job.run("off", &["sh", "-c", &script])?;
        until(PATIENCE, "the datagrams", || Ok(work.join("ready").exists().then_some(())))?;
        let directory = job.directory().display().to_string();
        for _ in 0..2 {
            job.start(&["checkpoint", &directory])?.wait(PATIENCE)?.well("a checkpoint")?;
            job.arena.clear();
            drop(continued(&mut job)?);
        }
        drop(running);
        job.arena.clear();
        fs::write(work.join("go"), "")?;
        job.restart()?.wait(PATIENCE)?.well("the continued job")?;
        let wanted = "one 10.77.0.12\ntwo 10.77.0.12\nthree 10.77.0.12\nfrom here 127.0.0.1\nanswered thanks\n";
        ensure!(job.printed()? == wanted, "it printed {:?}", job.printed()?);
        job.arena.wait_until_empty(PATIENCE)
    })
}

#[test]
#[ignore = "6 s; as above"]
fn no_part_runs_unless_the_files_of_all_are_right() -> Result<()> {
    with_nodes(|mut job| {
        // Others may have written to it: it was there before the program, which does not keep it open.
        fs::write(job.arena.work().join("list"), "begun before\n")?;
        let script = format!("{}; cat list", counting()?.replace("echo line $i", "echo line $i; echo $i >> list"));
        let running = job.run("100ms", &["sh", "-c", &script])?;
        job.await_checkpoint(&running)?;
        job.await_checkpoint(&running)?;
        job.arena.clear();
        drop(running);
        fs::write(job.arena.work().join("list"), fs::read_to_string(job.arena.work().join("list"))? + "another's\n")?;
        let printed = job.printed()?;
        let refused = job.restart()?.wait(PATIENCE)?.refusal("a file of another")?;
        ensure!(refused.contains("list") && refused.contains("--files rollback"), "it said: {refused}");
        ensure!(job.printed()? == printed, "a part has run: {:?}", job.printed()?);
        job.arena.wait_until_empty(PATIENCE)?;
        let directory = job.directory().display().to_string();
        let refused = job.start(&["restart", &directory, "--wait"])?.wait(PATIENCE)?.refusal("--wait")?;
        ensure!(refused.contains("--wait does not work with --nodes"), "it said: {refused}");
        let restart = ["restart", &directory, "--files", "rollback"];
        job.start(&restart)?.wait(PATIENCE)?.well("the continued job")?;
        let listed: String = (1..=LINES).map(|line| format!("{line}\n")).collect();
        ensure!(job.printed()?.ends_with(&format!("done\nbegun before\n{listed}")), "it printed {:?}", job.printed()?);
        job.arena.wait_until_empty(PATIENCE)
    })
}
