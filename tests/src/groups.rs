//! MPI programs and the other features of `standfast group run`: time limits, too little memory, messages in transit,
//! and low processor use while waiting. Also Python programs.

use crate::arena::Arena;
use crate::command::Standfast;
use crate::mpi::{HEADERS, MPIS, Mpi, library};
use crate::programs::in_path;
use crate::running::{Ended, Output, PATIENCE, Running, until};
use crate::workshop;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PYTHON: (&str, &str) = ("standfast_group.py", include_str!("../../bindings/mpi/python/standfast_group.py"));
const PYTHON_PROGRAM: &str = include_str!("../victims/mpi/field.py");

/// Programs and their names.
const SOURCES: [(&str, &str); 4] = [
    ("field", include_str!("../victims/mpi/field.c")),
    ("quiet", include_str!("../victims/mpi/quiet.c")),
    ("room", include_str!("../victims/mpi/room.c")),
    ("waits", include_str!("../victims/mpi/waits.c")),
];

const RANKS: &str = "4";
/// The maximum fraction of its time that a process may use a processor while it waits in a checkpoint.
const WAITING_PART: f64 = 0.01;

/// Returns one of the programs, compiled, or `None` if this MPI is not installed.
///
/// # Errors
/// When the program does not compile.
pub fn program(mpi: Mpi, name: &str) -> Result<Option<PathBuf>> {
    let (_, text) = SOURCES.iter().find(|(it, _)| *it == name).context("there is no such program")?;
    mpi.compiled(name, text)
}

/// Returns a `group run` of four processes with these options.
fn run(mpi: Mpi, arena: &Arena, options: &[&str], program: &[&str]) -> Result<Command> {
    let mut command = Standfast::new(arena)?.command(&["group", "run", "-d"]);
    command.arg(arena.images()).args(options).arg("--").args(mpi.launcher).args(["-n", RANKS]).args(program);
    command.env("STANDFAST_GROUP_MEMORY", memory(arena)?);
    Ok(command)
}

/// Returns the folder for the memory of all ranks.
fn memory(arena: &Arena) -> Result<PathBuf> {
    let memory = arena.folder().join("memory");
    fs::create_dir_all(&memory)?;
    Ok(memory)
}

fn well(arena: &Arena, name: &str, command: &mut Command) -> Result<Ended> {
    let ended = Running::complete(arena, name, command)?;
    ended.well(name).with_context(|| arena.evidence())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("scratch folders have plain names")
}

/// Lets the job run into its time limit, at which it must save what it holds, including local epochs. Then removes all
/// memory. The same command must continue from there and reach the undisturbed result.
///
/// # Errors
/// When any of that does not hold.
pub fn ends_at_its_time_limit_and_goes_on(mpi: Mpi, program: &Path) -> Result<()> {
    let arena = Arena::new()?;
    let program = text(program)?;
    let options = ["--encode-every", "3", "--time-limit", "2s"];
    let endless = [program, "100000000", "16"];
    let ended = Running::complete(&arena, "limited", &mut run(mpi, &arena, &options, &endless)?)?;
    ensure!(!ended.exited(0) && ended.errors.contains("are saved in"), "{}", arena.evidence());
    arena.wait_until_empty(PATIENCE)?;
    let reached = newest_whole(&arena)?;
    fs::remove_dir_all(memory(&arena)?)?;
    let last = (reached + 10).to_string();
    let rest = [program, &last, "16"];
    let found = well(&arena, "rest", run(mpi, &arena, &options[..2], &rest)?.env("FIELD_TELLS", ""))?;
    ensure!(found.errors.contains("rolls back to epoch"), "it began again; {}", arena.evidence());
    ensure!(found.errors.contains(&format!("at step {reached}")), "not at {reached}; {}", arena.evidence());
    let quiet = Arena::new()?;
    let truth = well(&quiet, "undisturbed", &mut run(mpi, &quiet, &["--encode-every", "1000"], &rest)?)?;
    ensure!(found.output.lines().last() == truth.output.lines().last(), "{} instead of {}", found.output, truth.output);
    Ok(())
}

/// Returns the number of the newest sufficient epoch in the directory, which is the program's step.
fn newest_whole(arena: &Arena) -> Result<u64> {
    let mut command = Standfast::new(arena)?.command(&["group", "status", "--json"]);
    command.arg(arena.images()).env("STANDFAST_GROUP_MEMORY", memory(arena)?);
    let answer: Value = serde_json::from_str(&well(arena, "status", &mut command)?.output)?;
    let suffices = |held: &&Value| held["place"] == "directory" && held["suffices"] == true;
    let newest = answer.as_array().and_then(|held| held.iter().find(suffices)).context("nothing suffices")?;
    let number = newest["epoch"].as_str().and_then(|epoch| epoch.split('/').next()).context("an epoch has a number")?;
    Ok(number.parse()?)
}

/// Runs a job whose memory file system is too small. It must abandon the checkpoint with the reason and continue, and
/// the next checkpoint, which has room, must count. Returns `None` if no such file system can be mounted.
///
/// # Errors
/// When any of that does not hold.
pub fn goes_on_where_memory_is_too_small(mpi: Mpi, program: &Path) -> Result<Option<()>> {
    let arena = Arena::new()?;
    if !arena.command("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let inner = run(mpi, &arena, &[], &[text(program)?, "16"])?;
    let mut command = arena.command("unshare");
    command.args(["-Urm", "sh", "-c", "mount -t tmpfs -o size=36m none \"$0\" && exec \"$@\""]).arg(memory(&arena)?);
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let found = well(&arena, "room", &mut command)?.output;
    let lines: Vec<&str> = found.lines().collect();
    ensure!(lines.len() == 4 && [lines[0], lines[2]] == ["little: counts", "little again: counts"], "{found}");
    ensure!(lines[1].contains("its memory file system has only") && lines[3] == "as it was", "{found}");
    Ok(Some(()))
}

/// Checks that a checkpoint names messages in transit and is abandoned, and that it does not name received messages. A
/// program that does not count its messages is refused.
///
/// # Errors
/// When any of that does not hold.
pub fn names_messages_under_way(mpi: Mpi, program: &Path, uncounted: &Path) -> Result<()> {
    let arena = Arena::new()?;
    let found = well(&arena, "quiet", &mut run(mpi, &arena, &["--check-quiescent"], &[text(program)?])?)?.output;
    let quiet = "the program is not quiet: ";
    let wanted = [
        "all received: counts".to_owned(),
        format!(
            "three on their way: {quiet}messages from rank 1 to rank 2 that were sent and are not received: 3 (3 in all)"
        ),
        "and received: counts".into(),
        format!("one awaited: {quiet}receives of rank 3 that are under way: 1 (1 in all)"),
        "and come: counts".into(),
    ];
    ensure!(found.lines().eq(wanted.iter()), "{found}");
    let asked = ["--check-quiescent", "--tries", "1"];
    let refused = Running::complete(&arena, "uncounted", &mut run(mpi, &arena, &asked, &[text(uncounted)?, "3"])?)?;
    // The last line survives even if the launcher loses part of the output.
    let last = refused.errors.lines().last().unwrap_or_default();
    ensure!(refused.exited(3) && last.contains("-DSTANDFAST_MPI_COUNT"), "{}", arena.evidence());
    Ok(())
}

/// Checks that processes waiting in a checkpoint for a computing one use hardly any processor time, including their
/// watchdogs.
///
/// # Errors
/// When they use more.
pub fn waits_without_computing(mpi: Mpi, program: &Path) -> Result<()> {
    const SECONDS: u32 = 2;
    let arena = Arena::new()?;
    let seconds = SECONDS.to_string();
    let found = well(&arena, "waits", &mut run(mpi, &arena, &["--hang", "60s"], &[text(program)?, &seconds])?)?.output;
    let milliseconds: f64 = found.trim().parse().with_context(|| found.clone())?;
    let part = milliseconds / 1e3 / f64::from(SECONDS);
    ensure!(part < WAITING_PART, "{:.2} % of a processor", part * 100.0);
    Ok(())
}

/// Kills a Python program with mpi4py twice. It must reach the undisturbed result. Returns `None` if mpi4py is not
/// installed.
///
/// # Errors
/// When the program does not reach that result.
pub fn python_survives_kills(python: &str, seed: u64) -> Result<Option<()>> {
    let asks =
        Command::new(python).args(["-c", "import mpi4py, numpy; print(mpi4py.get_config().get('mpicc', ''))"]).output();
    let Some(answer) = asks.ok().filter(|answer| answer.status.success()) else { return Ok(None) };
    let compiler = String::from_utf8_lossy(&answer.stdout);
    let Some(mpi) = MPIS.iter().copied().find(|mpi| is_of(mpi, compiler.trim())) else { return Ok(None) };
    let steps = "60";
    let quiet = Arena::new()?;
    let truth = well(&quiet, "undisturbed", &mut python_run(mpi, &quiet, python, steps)?)?;
    let arena = Arena::new()?;
    let mut random = Rng::with_seed(seed);
    let mut running = Running::start(&arena, "killed", Output::Log, &mut python_run(mpi, &arena, python, steps)?)?;
    let mut epochs = 0;
    for _ in 0..2 {
        epochs += random.usize(3..15);
        until(PATIENCE, "some epochs", || {
            ensure!(!running.has_ended()?, "the job has ended by itself; seed {seed}; {}", arena.evidence());
            let told = running.errors_so_far().lines().filter(|line| line.starts_with("epoch ")).count();
            Ok((told >= epochs).then_some(()))
        })?;
        let ranks: Vec<_> = arena.processes().into_iter().filter(|pid| is_rank(*pid)).collect();
        if let Some(rank) = random.choice(ranks) {
            let _ = kill(rank, Signal::SIGKILL);
        }
    }
    let found = running.wait(PATIENCE)?.well("the killed job").with_context(|| arena.evidence())?;
    ensure!(found.output.lines().last() == truth.output.lines().last(), "seed {seed}; {}", arena.evidence());
    ensure!(found.errors.contains("launching it again"), "nothing was launched again; {}", arena.evidence());
    ensure!(fs::read_dir(memory(&arena)?)?.next().is_none(), "something is left in memory");
    Ok(Some(()))
}

/// Reports whether a compiler belongs to this MPI. Debian's alternatives are resolved.
fn is_of(mpi: &Mpi, compiler: &str) -> bool {
    let real = |name: &str| in_path(name).and_then(|path| fs::canonicalize(path).ok());
    let name = Path::new(compiler).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    real(mpi.compiler).is_some() && (name == mpi.compiler || fs::canonicalize(compiler).ok() == real(mpi.compiler))
}

fn python_run(mpi: Mpi, arena: &Arena, python: &str, steps: &str) -> Result<Command> {
    let folder = arena.folder().join("python");
    fs::create_dir_all(&folder)?;
    for (name, text) in HEADERS.into_iter().chain([PYTHON, ("field.py", PYTHON_PROGRAM)]) {
        fs::write(folder.join(name), text)?;
    }
    let program = folder.join("field.py");
    let mut command = run(mpi, arena, &["--encode-every", "2"], &[python, "-m", "mpi4py", text(&program)?, steps])?;
    command.env("STANDFAST_GROUP_LIBRARY", library()?).env("XDG_CACHE_HOME", workshop::folder("glue", HEADERS)?);
    command.env("MPICC", mpi.compiler);
    Ok(command)
}

/// Reports whether a process runs the Python program and is not its launcher.
fn is_rank(pid: nix::unistd::Pid) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    words.first().is_some_and(|word| word.windows(6).any(|it| it == b"python"))
        && line.windows(8).any(|it| it == b"field.py")
}
