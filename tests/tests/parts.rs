//! Distributed jobs, on simulated nodes: commands on other nodes, and unmodified programs that are killed whole and continued.

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::standfast_binary;
use standfast_tests::cuts::{STREAMS, taken_under};
use standfast_tests::distributed::{Distributed, survives_blows};
use standfast_tests::mpi::{MPIS, Unmodified};
use standfast_tests::running::{PATIENCE, Running, until};
use standfast_tests::simulated::Nodes;
use standfast_tests::victims::{CLOSING, Program};
use standfast_tests::{Lacking, seed, skip};
use std::fs;
use std::path::Path;
use std::time::Duration;

pub(crate) const NODES: usize = 2;
/// How often everything is killed.
const KILLS: usize = 3;
/// Blows at the programs of each MPI. `make soak` strikes 200 times.
const BLOWS: usize = 5;
pub(crate) const LINES: usize = 60;
/// Checkpoints of each kind of traffic. `make soak` takes a thousand, and counts those that are late.
const CUTS: usize = 16;
/// Some three seconds.
const STEPS: u32 = 120;
const STEPS_OF_MPICH: u32 = 400;
/// A launcher may notice the death of a process this late. Epochs that are older hold none.
const NOTICED_LATE: Duration = Duration::from_millis(10_500);

/// Checks that a script of [`counting`] has printed each line once.
pub(crate) fn must_have_counted(job: &Distributed<'_>) -> Result<()> {
    let expected: String = (1..=LINES).map(|line| format!("got line {line}\n")).collect();
    let printed = job.printed()?;
    ensure!(printed == expected + "done\n", "it printed {printed:?}");
    Ok(())
}

fn coordinator(job: &Distributed<'_>) -> Result<Pid> {
    job.processes_with("--nodes")?.first().copied().context("no coordinator runs")
}

/// Kills everything at random moments, and continues it, until it has ended. Each life first takes a checkpoint. It may end
/// before the last kill, but not before the first.
fn survives_kills(job: &mut Distributed<'_>, command: &[&str]) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed());
    let mut running = job.run("200ms", command)?;
    for kill in 0..KILLS {
        let is_through = until(PATIENCE, "a checkpoint or the end", || {
            let is_through = running.has_ended()?;
            let is_taken = running.errors_so_far().contains("durable after");
            Ok((is_through || is_taken).then_some(is_through))
        })?;
        ensure!(!is_through || kill > 0, "it ended before it was killed: {}", running.errors_so_far());
        if is_through {
            break;
        }
        std::thread::sleep(Duration::from_millis(random.u64(0..300)));
        job.arena.clear();
        drop(running);
        running = job.restart()?;
    }
    running.wait(PATIENCE * 2)?.well("the job in its last life")?;
    job.arena.wait_until_empty(PATIENCE)
}

/// Returns a script that sends numbered lines to another node, which sends them back.
pub(crate) fn counting() -> Result<String> {
    let standfast = standfast_binary()?.display();
    Ok(format!(
        "i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i; sleep 0.05; done | \
         {standfast} rsh node2 'while read line; do echo got $line; done'; echo done"
    ))
}

pub(crate) fn with_nodes(promise: impl Fn(Distributed<'_>) -> Result<()>) -> Result<()> {
    let Some(nodes) = Nodes::new(NODES)? else {
        skip::skip("simulated nodes", &Lacking::system("this machine gives a plain user no namespaces"));
        return Ok(());
    };
    let arena = Arena::new()?;
    promise(Distributed::new(&nodes, &arena))
}

#[test]
fn a_command_on_another_node_has_its_streams_and_its_status() -> Result<()> {
    with_nodes(|mut job| {
        let standfast = standfast_binary()?.display().to_string();
        let script = format!(
            "hostname; echo sent | {standfast} rsh node2 'cat; hostname; echo aside >&2; exit 7'; echo status $?; exit 3"
        );
        let ended = job.run("off", &["sh", "-c", &script])?.wait(PATIENCE)?;
        ensure!(ended.exited(3), "{}: {}", ended.status, ended.errors);
        ensure!(ended.output == "node1\nsent\nnode2\nstatus 7\n", "it printed {:?}", ended.output);
        ensure!(ended.errors.contains("aside\n"), "its errors: {:?}", ended.errors);
        job.arena.wait_until_empty(PATIENCE)
    })
}

#[test]
fn streams_between_nodes_lose_nothing_when_everything_is_killed() -> Result<()> {
    with_nodes(|mut job| {
        survives_kills(&mut job, &["sh", "-c", &counting()?])?;
        must_have_counted(&job)
    })
}

#[test]
fn ends_whose_other_ends_were_closed_come_back_with_all_that_was_sent() -> Result<()> {
    with_nodes(|mut job| {
        let (standfast, file) = (standfast_binary()?.display(), job.arena.work().join("go"));
        let program = CLOSING.with(&[])?.path;
        let (program, go) = (program.display(), file.display());
        let script = format!("{program} serve 7001 {go} & {standfast} rsh node2 {program} call node1 7001 {go}; wait");
        let mut running = job.run("100ms", &["sh", "-c", &script])?;
        until(PATIENCE, "the server", || Ok(job.printed().is_ok_and(|it| it.contains("ready")).then_some(())))?;
        for _ in 0..2 {
            job.await_checkpoint(&running)?;
            job.arena.clear();
            drop(running);
            running = job.restart()?;
        }
        fs::write(&file, "")?;
        running.wait(PATIENCE)?.well("the job in its last life")?;
        let printed = job.printed()?;
        let number = |word: &str| {
            let mut numbers = printed.lines().filter_map(|line| line.strip_prefix(word)?.parse::<u64>().ok());
            numbers.next().with_context(|| format!("it printed {printed:?}"))
        };
        ensure!(number("received ")? == number("left ")? && number("farewell ")? == 100_000, "it printed {printed:?}");
        job.arena.wait_until_empty(PATIENCE)
    })
}

#[test]
#[ignore = "6 s; streams between nodes are killed in make test"]
fn a_job_goes_on_without_its_coordinator_and_is_taken_over() -> Result<()> {
    with_nodes(|mut job| {
        let running = job.run("100ms", &["sh", "-c", &counting()?])?;
        job.await_checkpoint(&running)?;
        kill(coordinator(&job)?, Signal::SIGKILL)?;
        let ended = running.wait(PATIENCE)?;
        ensure!(!ended.exited(0), "its coordinator ended well: {}", ended.errors);
        let taken_over = job.restart()?;
        job.await_checkpoint(&taken_over)?;
        let ended = taken_over.wait(PATIENCE)?.well("the job that was taken over")?;
        ensure!(ended.errors.contains("taking over"), "it said: {}", ended.errors);
        must_have_counted(&job)?;
        let finished = job.restart()?.wait(PATIENCE)?.well("the job that has finished")?;
        ensure!(finished.errors.contains("has finished"), "it said: {}", finished.errors);
        job.arena.wait_until_empty(PATIENCE)
    })
}

#[test]
#[ignore = "60 s: many checkpoints"]
fn checkpoints_of_busy_connections_are_taken_and_lose_no_byte() -> Result<()> {
    for traffic in STREAMS {
        match taken_under(traffic, CUTS).with_context(|| traffic.to_string())? {
            Some(cuts) => ensure!(cuts.taken == CUTS, "{traffic}: {cuts:?}"),
            None => skip::skip("simulated nodes", &Lacking::system("this machine gives a plain user no namespaces")),
        }
    }
    Ok(())
}

#[test]
#[ignore = "6 s; as above"]
fn a_job_goes_on_without_the_supervisor_of_a_part_and_says_so() -> Result<()> {
    with_nodes(|mut job| {
        let running = job.run("100ms", &["sh", "-c", &counting()?])?;
        job.await_checkpoint(&running)?;
        let supervisors = job.processes_with("part-run")?;
        ensure!(supervisors.len() == NODES, "these supervise: {supervisors:?}");
        kill(supervisors[1], Signal::SIGKILL)?;
        let ended = running.wait(PATIENCE)?.well("the unprotected job")?;
        ensure!(ended.errors.contains("runs on without checkpoints"), "it said: {}", ended.errors);
        must_have_counted(&job)?;
        job.arena.wait_until_empty(PATIENCE)
    })
}

#[test]
#[ignore = "6 s; as above"]
fn what_outlives_standfast_is_ended_before_a_restart() -> Result<()> {
    with_nodes(|mut job| {
        let script = format!("i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i; sleep 0.05; done");
        // Like mpiexec of MPICH, it passes on the environment of the first node.
        let standfast = standfast_binary()?.display();
        let elsewhere = format!("{standfast} rsh node2 \"export STANDFAST_PART=$STANDFAST_PART; exec sleep 5\"");
        let running = job.run("100ms", &["sh", "-c", &format!("{elsewhere} & {script}; wait $!")])?;
        job.await_checkpoint(&running)?;
        // Some end with their parents.
        job.arena.processes_of(standfast_binary()?).into_iter().for_each(|pid| _ = kill(pid, Signal::SIGKILL));
        drop(running);
        ensure!(!job.arena.processes().is_empty(), "nothing has outlived it");
        job.restart()?.wait(PATIENCE)?.well("the continued job")?;
        let expected: String = (1..=LINES).map(|line| format!("line {line}\n")).collect();
        ensure!(job.printed()? == expected, "it printed {:?}", job.printed()?);
        job.arena.wait_until_empty(PATIENCE)
    })
}

#[test]
#[ignore = "6 s; as above"]
fn a_job_stops_after_a_checkpoint_of_all_parts_and_continues() -> Result<()> {
    with_nodes(|mut job| {
        let running = job.run("off", &["sh", "-c", &counting()?])?;
        until(PATIENCE, "the first line", || Ok(job.printed().is_ok_and(|it| !it.is_empty()).then_some(())))?;
        kill(coordinator(&job)?, Signal::SIGTERM)?;
        let stopped = running.wait(PATIENCE)?;
        ensure!(stopped.exited(75), "it was not stopped: {} {}", stopped.status, stopped.errors);
        job.arena.wait_until_empty(PATIENCE)?;
        let directory = job.directory().display().to_string();
        let part = format!("{directory}/part-1/job");
        let refused = job.start(&["restart", &part])?.wait(PATIENCE)?.refusal("one part")?;
        ensure!(refused.contains("is one part of a distributed job"), "it said: {refused}");
        let refused = job.start(&["restart", &directory, "--at", "99"])?.wait(PATIENCE)?.refusal("epoch 99")?;
        ensure!(refused.contains("hint: these are: 1"), "it said: {refused}");
        job.restart()?.wait(PATIENCE)?.well("the continued job")?;
        must_have_counted(&job)
    })
}

#[test]
#[ignore = "5 s; as above"]
fn the_time_between_checkpoints_of_all_parts_is_chosen_if_that_is_wanted() -> Result<()> {
    with_nodes(|mut job| {
        let (directory, agent, nodes) = (job.directory().display().to_string(), job.nodes.agent(), job.nodes.list());
        let options = ["run", "--nodes", &nodes, "--agent", &agent, "-d", &directory, "-i", "auto", "--mtbf", "2s"];
        let running = job.start(&[&options[..], &["--", "sh", "-c", &counting()?]].concat())?;
        job.await_checkpoint(&running)?;
        ensure!(running.errors_so_far().contains("; the next one in 1.0 s"), "it said: {}", running.errors_so_far());
        running.wait(PATIENCE)?.well("the job")?;
        must_have_counted(&job)?;
        job.arena.wait_until_empty(PATIENCE)
    })
}

#[test]
#[ignore = "6 s; as above"]
fn questions_about_the_whole_are_answered() -> Result<()> {
    with_nodes(|mut job| {
        let directory = job.directory().display().to_string();
        let running = job.run("off", &["sh", "-c", &counting()?])?;
        until(PATIENCE, "the first line", || Ok(job.printed().is_ok_and(|it| !it.is_empty()).then_some(())))?;
        let ask = |job: &mut Distributed<'_>, words: &[&str], wanted: &[&str]| -> Result<()> {
            let answer = job.start(words)?.wait(PATIENCE)?.well(words[0])?.output;
            let lacking: Vec<_> = wanted.iter().filter(|it| !answer.contains(**it)).collect();
            ensure!(lacking.is_empty(), "{words:?} answered {answer:?}, without {lacking:?}");
            Ok(())
        };
        ask(&mut job, &["checkpoint", &directory], &["epoch 1: saved on all nodes"])?;
        let watched = job.start(&["status", "--watch", &directory])?;
        ask(
            &mut job,
            &["status", &directory],
            &["ago: epoch 1 is durable on all nodes", "running", "node2", "process "],
        )?;
        ask(&mut job, &["status", "--state", &directory], &["running"])?;
        for words in [&["restart", &directory][..], &["clean", &directory], &["rehearse", &directory]] {
            let refused = job.start(words)?.wait(PATIENCE)?.refusal(words[0])?;
            ensure!(refused.contains("steers the job") || refused.contains("part-0/job"), "{words:?}: {refused}");
        }
        ask(&mut job, &["list", &directory], &["epoch", "1 1"])?;
        ask(&mut job, &["verify", &directory], &["node1: 1 good", "node2: 1 good"])?;
        ask(&mut job, &["inspect", &directory, "1"], &["epoch 1, node node1", "epoch 1, node node2", "part-server"])?;
        let core = job.arena.work().join("core").display().to_string();
        ask(&mut job, &["core", &directory, "--output", &core], &["core.node1.", "core.node2."])?;
        running.wait(PATIENCE)?.well("the job")?;
        let watched = watched.wait(PATIENCE)?.well("a watch until the end")?.output;
        let (first, last) = (watched.lines().next(), watched.lines().last());
        ensure!((first, last) == (Some("running"), Some("finished")), "it saw {watched:?}");
        must_have_counted(&job)?;
        ask(&mut job, &["status", "--state", &directory], &["finished\n"])?;
        ask(&mut job, &["clean", &directory], &[])?;
        ensure!(!job.directory().exists(), "the directory is still there");
        job.arena.wait_until_empty(PATIENCE)
    })
}

#[test]
#[ignore = "6 s; as above"]
fn what_cannot_work_on_several_nodes_is_refused_before_anything_begins() -> Result<()> {
    with_nodes(|mut job| {
        let (directory, agent) = (job.directory().display().to_string(), job.nodes.agent());
        let nodes = job.nodes.list();
        let nowhere = format!("{nodes},nowhere");
        for (nodes, option, command, wanted) in [
            (&nodes, "--free-memory", "true", "--free-memory does not work with --nodes"),
            (&nodes, "--memory=/nowhere", "true", "--memory: the directory /nowhere does not exist there"),
            (&nodes, "--keep=3", "srun", "hint: start them with mpirun"),
            (&nowhere, "--keep=3", "true", "node nowhere: "),
        ] {
            let words = ["run", "--nodes", nodes, "--agent", &agent, "-d", &directory, option, "--", command];
            let refused = job.start(&words)?.wait(PATIENCE)?.refusal(wanted)?;
            ensure!(refused.contains(wanted), "it said {refused:?}, not {wanted:?}");
            ensure!(!job.directory().exists(), "{wanted}: the directory is there");
        }
        let examined = job.start(&["doctor", "--nodes", &nodes, "--agent", &agent])?.wait(PATIENCE)?;
        ensure!(examined.output.contains("node2"), "doctor said {:?} {:?}", examined.output, examined.errors);
        job.arena.wait_until_empty(PATIENCE)
    })
}

/// Checks a promise with an unmodified program of this length under every installed MPI, and that it has printed what it prints undisturbed.
fn with_every_mpi(
    kind: Unmodified,
    longer: u32,
    promise: impl Fn(&mut Distributed<'_>, &Program) -> Result<()>,
) -> Result<()> {
    for mpi in MPIS.iter() {
        let steps = if mpi.name.starts_with("MPICH") { STEPS_OF_MPICH } else { STEPS };
        let Some(program) = mpi.unmodified_across_nodes(kind, NODES, longer * steps)? else {
            skip::skip(mpi.name, &Lacking::program("its compiler and its launcher"));
            continue;
        };
        with_nodes(|mut job| {
            promise(&mut job, &program)?;
            let undisturbed = Arena::new()?;
            let mut command = undisturbed.command(&program.path);
            let native = Running::complete(&undisturbed, "native", command.args(&program.arguments))?;
            ensure!(job.printed()? == native.well("the program")?.output, "it printed {:?}", job.printed()?);
            Ok(())
        })
        .with_context(|| mpi.name)?;
    }
    Ok(())
}

#[test]
#[ignore = "40 s; streams between nodes are killed in make test"]
fn unmodified_programs_on_several_nodes_survive_blows_of_every_kind() -> Result<()> {
    for mpi in MPIS.iter() {
        if survives_blows(*mpi, BLOWS, seed()).with_context(|| mpi.name)?.is_none() {
            skip::skip(mpi.name, &Lacking::system("it, or namespaces for a plain user"));
        }
    }
    Ok(())
}

#[test]
#[ignore = "20 s; as above"]
fn one_sided_communication_between_nodes_survives_kills() -> Result<()> {
    with_every_mpi(Unmodified::Windows, 1, |job, program| {
        let words = program.words();
        survives_kills(job, &words.iter().map(String::as_str).collect::<Vec<_>>())
    })
}

#[test]
#[ignore = "100 s: a launcher may notice a death late"]
fn unmodified_programs_on_several_nodes_survive_the_loss_of_a_rank() -> Result<()> {
    with_every_mpi(Unmodified::Steps, 4, |job, program| {
        let words = program.words();
        let running = job.run("200ms", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
        job.await_checkpoint(&running)?;
        std::thread::sleep(NOTICED_LATE);
        let steps = program.arguments.iter().rev().nth(1).context("the program is the last word but one")?;
        let ranks = job.arena.processes_of(Path::new(steps));
        ensure!(ranks.len() == NODES, "these ranks run: {ranks:?}; {}", running.errors_so_far());
        kill(ranks[1], Signal::SIGKILL)?;
        let ended = running.wait(PATIENCE)?;
        ensure!(!ended.exited(0), "it ended well without one of its ranks: {}", ended.errors);
        job.arena.wait_until_empty(PATIENCE)?;
        job.restart()?.wait(PATIENCE * 2)?.well("the continued job")?;
        job.arena.wait_until_empty(PATIENCE)
    })
}
