//! Launches that make no progress although their launcher stays. `standfast group run` ends them, and launches the job
//! again or says why it does not.

use crate::arena::Arena;
use crate::command::Standfast;
use crate::mpi::{Mpi, RANKS};
use crate::running::{Ended, PATIENCE, Running, until};
use crate::watched::Watched;
use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Stands in for a launcher. In the first launch, one of its ranks is killed, or no rank ever joins, and the launcher
/// stays. The second launch succeeds. A caller can prepend lines that make the launcher ignore SIGTERM.
const LAUNCHER: &str = r#"
if mkdir "$PLACE/first" 2>/dev/null; then
    if test -n "$RANKS"; then
        export MPI_LOCALNRANKS=2
        PMI_RANK=0 sleep 600 &
        PMI_RANK=1 sh -c 'kill -9 $$' &
    fi
    sleep 600 &
    wait $!
    wait
fi
echo done
"#;

const LOST: &str = "one of its processes has ended, and the launcher has not ended for 1s";

/// Reported before each launch except the first.
const LAUNCHED_AGAIN: &str = "launching it again";

/// The kill comes within this time after the process starts, mostly in MPI_Init.
const START_MILLISECONDS: u64 = 300;

fn run(arena: &Arena, options: &[&str]) -> Result<Command> {
    let memory = arena.folder().join("memory");
    fs::create_dir_all(&memory)?;
    let mut command = Standfast::new(arena)?.command(&["group", "run", "-d"]);
    command.arg(arena.images()).args(options).arg("--").env("STANDFAST_GROUP_MEMORY", memory);
    Ok(command)
}

fn stand_in(arena: &Arena, options: &[&str], before: &str, ranks: &str) -> Result<Ended> {
    let script = format!("{before}{LAUNCHER}");
    let mut command = run(arena, options)?;
    command.args(["sh", "-c", &script, "{nodes}"]).env("PLACE", arena.folder()).env("RANKS", ranks);
    let ended = Running::complete(arena, "launched", &mut command)?.well("the second launch");
    ended.with_context(|| arena.evidence())
}

fn told(ended: &Ended, words: &str, arena: &Arena) -> Result<()> {
    ensure!(ended.errors.contains(words), "nobody said {words:?}; {}", arena.evidence());
    arena.wait_until_empty(PATIENCE)
}

/// Starts a launch that no process ever joins. It must be ended after its time limit, by SIGKILL if SIGTERM has no
/// effect, and the next launch must succeed.
///
/// # Errors
/// When that does not happen.
pub fn a_launch_that_never_begins_is_ended() -> Result<()> {
    let arena = Arena::new()?;
    let ended = stand_in(&arena, &["--start-limit", "1s"], "trap '' TERM\n", "")?;
    told(&ended, "not all of its processes have joined in 1s", &arena)?;
    told(&ended, "came no further; launching it again, 2 of 10", &arena)
}

/// Kills a process during the start, whose launcher then waits for ever. The process runs on this node, or on one
/// reached through an agent. The launch must be ended.
///
/// # Errors
/// When the launch is not ended.
pub fn a_launch_that_has_lost_a_process_is_ended() -> Result<()> {
    let arena = Arena::new()?;
    told(&stand_in(&arena, &["--loss-limit", "1s"], "", "two")?, LOST, &arena)?;
    let arena = Arena::new()?;
    let agent = agent(&arena, "")?;
    let on_a_node = ["--loss-limit", "1s", "--nodes", "here", "--agent", &agent];
    told(&stand_in(&arena, &on_a_node, "", "two")?, LOST, &arena)
}

/// Checks that a launcher is not believed if it reports success although the job has lost a rank.
///
/// # Errors
/// When the job does not reach the undisturbed result.
pub fn a_launch_that_only_seems_well_is_not_the_last(mpi: Mpi, program: &Path, seed: u64) -> Result<()> {
    let mut watched = Watched::endless(mpi.behind(&["sh", "-c", "\"$@\"; exit 0", "sh"]), program, seed)?;
    let mut running = watched.start("struck", &[], &[])?;
    watched.wait_for_a_moment(&mut running)?;
    watched.strike(Signal::SIGKILL);
    watched.wait_until_told(&mut running, "not all of its processes have left the group")?;
    watched.check(running).map(drop)
}

/// Lets a launch end with apparent success although no process has joined a group and a node is gone. The command must
/// leave out that node.
///
/// # Errors
/// When the node is not left out.
pub fn a_node_that_no_launcher_misses_is_left_out() -> Result<()> {
    let arena = Arena::new()?;
    let agent = agent(&arena, "if test \"$1\" = here && test -e \"$PLACE/gone\"; then exit 255; fi")?;
    let mut command = run(&arena, &["--nodes", "here,there", "--spares", "1", "--agent", &agent])?;
    command
        .args(["sh", "-c", "mkdir \"$PLACE/gone\" 2>/dev/null || echo done", "{nodes}"])
        .env("PLACE", arena.folder());
    let ended = Running::complete(&arena, "launched", &mut command)?.well("the second launch");
    let ended = ended.with_context(|| arena.evidence())?;
    ensure!(ended.output == "done\n", "{}", arena.evidence());
    told(&ended, "the job lost here; launching it again", &arena)?;
    told(&ended, "none of the job's processes has joined a group", &arena)
}

/// Checks that the command names a node that is gone after all processes have left.
///
/// # Errors
/// When the node is not named.
pub fn a_node_that_is_gone_in_the_end_is_named(mpi: Mpi, program: &Path) -> Result<()> {
    let arena = Arena::new()?;
    let agent = agent(&arena, "if test -e \"$PLACE/gone\"; then exit 255; fi")?;
    let mut command = run(&arena, &["--nodes", "here", "--agent", &agent])?;
    command.args(["sh", "-c", "\"$@\"; touch \"$PLACE/gone\"", "{nodes}"]).env("PLACE", arena.folder());
    command.args(mpi.launcher).args(["-n", &RANKS.to_string()]).arg(program).args(["5", "4"]);
    let ended = Running::complete(&arena, "launched", &mut command)?.well("the launch");
    told(&ended.with_context(|| arena.evidence())?, "the job has finished, and here no longer answers", &arena)
}

/// Makes an agent that executes commands here, whatever the node. It first executes a given line.
fn agent(arena: &Arena, first: &str) -> Result<String> {
    let agent = arena.folder().join("agent");
    fs::write(&agent, format!("#!/bin/sh\n{first}\nshift\nexec \"$@\"\n"))?;
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755))?;
    Ok(agent.to_str().context("scratch folders have plain names")?.to_owned())
}

/// Keeps a launcher running after all processes have finished. The command must not launch the job again, since there is
/// no epoch to continue from.
///
/// # Errors
/// When the job is launched again.
pub fn a_launch_that_does_not_end_is_ended(mpi: Mpi, program: &Path) -> Result<()> {
    let arena = Arena::new()?;
    let mut command = run(&arena, &["--finish-limit", "1s"])?;
    command.args(["sh", "-c", "\"$@\"; sleep 600", "sh"]).args(mpi.launcher).args(["-n", &RANKS.to_string()]);
    let ended = Running::complete(&arena, "launched", command.arg(program).args(["5", "4"]))?;
    ensure!(ended.exited(70), "it ended otherwise; {}", arena.evidence());
    told(&ended, "all of its processes have left the group, and the launcher has not ended for 1s", &arena)?;
    ensure!(ended.output.lines().count() == 1, "not one result; {}", arena.evidence());
    ensure!(!arena.images().exists(), "the job's directory is still there; {}", arena.evidence());
    Ok(())
}

/// Kills ranks at random moments of their start, mostly in MPI_Init. Some launchers then wait for ever.
///
/// # Errors
/// When the job does not reach the undisturbed result.
pub fn survives_kills_at_the_start(mpi: Mpi, program: &Path, strikes: usize, seed: u64) -> Result<()> {
    let mut watched = Watched::endless(mpi, program, seed)?;
    let tries = (strikes + 2).to_string();
    let options = ["--tries", &tries, "--loss-limit", "1s", "--start-limit", "30s"];
    let mut running = watched.start("struck", &options, &[])?;
    let mut struck = BTreeSet::new();
    let launches = |running: &Running| running.errors_so_far().matches(LAUNCHED_AGAIN).count();
    for _ in 0..strikes {
        let ranks = |struck: &BTreeSet<Pid>| -> Vec<Pid> {
            watched.arena.processes_of(program).into_iter().filter(|rank| !struck.contains(rank)).collect()
        };
        // The first processes seen may be the last ones of the previous life.
        let (of_this_life, before) = loop {
            until(PATIENCE, "the next launch", || {
                ensure!(!running.has_ended()?, "the job has ended by itself");
                Ok((!ranks(&struck).is_empty()).then_some(()))
            })
            .with_context(|| watched.said())?;
            sleep(Duration::from_millis(watched.random.u64(..START_MILLISECONDS)));
            let (mut there, before) = (ranks(&struck), launches(&running));
            watched.random.shuffle(&mut there);
            if there.first().is_some_and(|rank| kill(*rank, Signal::SIGKILL).is_ok()) {
                break (there, before);
            }
        };
        until(PATIENCE, "the struck launch to end", || {
            // All processes seen before none is left, or before the next launch is reported, belong to this life, too.
            let left = watched.arena.processes_of(program);
            let is_over = launches(&running) > before;
            struck.extend(of_this_life.iter().chain(left.iter().filter(|_| !is_over)).copied());
            Ok((is_over || left.is_empty()).then_some(()))
        })
        .with_context(|| watched.said())?;
    }
    let ended = watched.check(running)?;
    ensure!(ended.errors.contains(LAUNCHED_AGAIN), "nothing was struck; {}", watched.said());
    Ok(())
}
