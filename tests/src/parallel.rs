//! The parallel programs in `examples/mpi`, with the MPI libraries on this machine. All ranks run on this machine,
//! whatever its number of processors, and communicate through its memory.

use crate::arena::Arena;
use crate::command::Standfast;
use crate::mpi::library;
use crate::programs::in_path;
use crate::result::RunResult;
use crate::running::{Ended, Output, PATIENCE, Running, until};
use crate::victims::Program;
use crate::workshop;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// All sources of the programs.
const SOURCES: [&str; 19] = [
    include_str!("../../examples/Makefile"),
    include_str!("../../examples/example.h"),
    include_str!("../../examples/example.f90"),
    include_str!("../../examples/shallow_water.f90"),
    include_str!("../../examples/mpi/parallel.h"),
    include_str!("../../examples/mpi/parallel.f90"),
    include_str!("../../examples/mpi/pcell.c"),
    include_str!("../../examples/mpi/pmat.c"),
    include_str!("../../examples/mpi/nbody.c"),
    include_str!("../../examples/mpi/pcg.f90"),
    include_str!("../../examples/mpi/pstswm.f90"),
    include_str!("../../examples/mpi/psolve.f90"),
    include_str!("../../examples/mpi/unprotected.f90"),
    include_str!("../../examples/mpi/unprotected.h"),
    include_str!("../../bindings/mpi/include/standfast_group.h"),
    include_str!("../../bindings/mpi/include/standfast_mpi.h"),
    include_str!("../../bindings/mpi/include/standfast_program.h"),
    include_str!("../../bindings/mpi/fortran/standfast_group.f90"),
    include_str!("../../bindings/mpi/fortran/standfast_group_fortran.c"),
];

/// An MPI library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mpi {
    /// Debian's Open MPI.
    Open,
    /// Debian's MPICH.
    Mpich,
}

impl Mpi {
    /// Returns the name that Debian's alternatives use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// Returns the folder with all parallel programs, built if necessary. Returns `None` if the machine lacks this MPI
    /// with Fortran and ScaLAPACK.
    ///
    /// # Errors
    /// When the programs do not compile.
    pub fn programs(self) -> Result<Option<PathBuf>> {
        self.made(None)
    }

    /// Like [`Mpi::programs`], with checkpoints in each other's memory.
    ///
    /// # Errors
    /// When the programs or the library do not compile.
    pub fn protected_programs(self) -> Result<Option<PathBuf>> {
        self.made(Some(library()?))
    }

    fn made(self, group: Option<PathBuf>) -> Result<Option<PathBuf>> {
        static COMPILING: Mutex<()> = Mutex::new(());
        let tools = ["mpicc", "mpifort", "mpirun"].map(|tool| format!("{tool}.{}", self.name()));
        let has_tools = tools.iter().all(|tool| in_path(tool).is_some());
        if !has_tools || !workshop::has_library(&format!("scalapack-{}", self.name())) {
            return Ok(None);
        }
        let _turn = COMPILING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = workshop::folder(self.name(), (SOURCES, &group))?;
        let first = workshop::built(&folder, "pcell", |path| {
            let folder = path.parent().context("a program lies in a folder")?;
            let with = group.as_ref().map(|library| format!("GROUP={}", library.display()));
            let target = format!("MPI={}", self.name());
            workshop::make_example(folder, &["mpi", &target, with.as_deref().unwrap_or("GROUP=")])
        })?;
        Ok(first.parent().map(Path::to_owned))
    }

    /// Returns one of the programs on this many ranks.
    pub fn on_ranks(self, ranks: u32, program: &Path, arguments: &[&str]) -> Program {
        let launcher = Path::new("/usr/bin").join(format!("mpirun.{}", self.name()));
        let words: &[&str] = match self {
            Self::Open => &["--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader"],
            Self::Mpich => &[],
        };
        let ranks = ranks.to_string();
        let before = words.iter().copied().chain(["-n", &ranks]).map(OsString::from);
        let behind = arguments.iter().map(OsString::from);
        Program { path: launcher, arguments: before.chain([program.into()]).chain(behind).collect() }
    }
}

/// The programs that are struck, with arguments that make each run for half a second, undisturbed, on a fast machine.
pub const STRUCK: [(&str, &[&str]); 6] = [
    ("pcell", &["600", "1200"]),
    ("pmat", &["1000"]),
    ("nbody", &["3000", "20"]),
    ("pcg", &["64"]),
    ("pstswm", &["31", "240"]),
    ("psolve", &["300", "40"]),
];

/// The maximum number of strikes in one run, which must also reach its end.
const STRIKES_MAX: usize = 10;

/// One of the programs loses ranks at random moments under `standfast group run`, `kills` times, over as many runs as
/// that takes. Each run must reach the undisturbed result. Returns `false` if the machine lacks this MPI with all that
/// the programs need.
///
/// # Errors
/// When a run fails or leaves something behind.
pub fn survives_kills(mpi: Mpi, name: &str, arguments: &[&str], kills: usize, random: &mut Rng) -> Result<bool> {
    let (Some(plain), Some(protected)) = (mpi.programs()?, mpi.protected_programs()?) else { return Ok(false) };
    let wanted = undisturbed(mpi, 4, &plain.join(name), arguments)?;
    let mut done = 0;
    while done < kills {
        let strikes = STRIKES_MAX.min(kills - done);
        let (found, struck) = killed(mpi, &protected.join(name), arguments, strikes, random)?;
        ensure!(checksum(&found)? == checksum(&wanted)?, "{found}{wanted}");
        ensure!(struck > 0, "{name} ends before it can be struck");
        done += struck;
    }
    Ok(true)
}

/// Returns the output of a program without Standfast. The program fails if a self-check finds its result wrong.
///
/// # Errors
/// When the program fails, or checks nothing.
pub fn undisturbed(mpi: Mpi, ranks: u32, program: &Path, arguments: &[&str]) -> Result<String> {
    let program = mpi.on_ranks(ranks, program, arguments);
    let output = RunResult::native(&program).with_context(|| format!("{program:?}"))?.output();
    ensure!(output.contains("check "), "it does not check its result: {output}");
    Ok(output)
}

/// Returns the output of the job, and how often it was struck.
fn killed(mpi: Mpi, program: &Path, arguments: &[&str], strikes: usize, random: &mut Rng) -> Result<(String, usize)> {
    let arena = Arena::new()?;
    let memory = arena.folder().join("memory");
    fs::create_dir(&memory)?;
    let launched = mpi.on_ranks(4, program, arguments);
    let mut command = Standfast::new(&arena)?.command(&["group", "run", "-d"]);
    command.arg(arena.images()).arg("--checks").arg(random.u8(1..3).to_string());
    command.args(["--tries", &(2 * strikes + 2).to_string()]);
    let encode_every = random.choice(["1", "2", "3", "auto"]).expect("there are four");
    command.args(["--interval", "10ms", "--encode-every", encode_every, "--"]);
    command.arg(launched.path).args(launched.arguments);
    command.env("STANDFAST_GROUP_MEMORY", &memory);
    let mut running = Running::start(&arena, "killed", Output::Log, &mut command)?;
    let mut struck = 0;
    while struck < strikes && awaits_strike(&arena, program, &memory, &mut running, random)? {
        let mut ranks = arena.processes_of(program);
        random.shuffle(&mut ranks);
        // The launcher may have been faster.
        let killed = ranks.iter().take(random.usize(1..3)).filter(|rank| kill(**rank, Signal::SIGKILL).is_ok()).count();
        struck += killed.min(1);
        // The next strike must hit another life.
        until(PATIENCE, "the struck launch to end", || {
            let is_gone = |rank: &Pid| !arena.processes_of(program).contains(rank);
            Ok(ranks.iter().all(is_gone).then_some(()))
        })?;
    }
    let ended = running.wait(2 * PATIENCE)?;
    // Ranks that have reached the result release what they held. If a rank is struck after that, it cannot be recovered.
    if let Some(output) = result_before_an_end(&ended) {
        return Ok((output, struck));
    }
    let ended = ended.well("the killed job").with_context(|| arena.evidence())?;
    let left: Vec<_> = fs::read_dir(&memory)?.flatten().map(|entry| entry.path()).collect();
    ensure!(left.is_empty(), "left in memory: {left:?}");
    arena.wait_until_empty(PATIENCE)?;
    Ok((ended.output, struck))
}

/// Returns a job's output up to its result, if the job printed one and then failed.
fn result_before_an_end(ended: &Ended) -> Option<String> {
    let is_over = !ended.exited(0) && ended.errors.contains("cannot be recovered");
    let end = ended.output.lines().position(|line| line.starts_with("checksum ")).filter(|_| is_over)?;
    Some(ended.output.lines().take(end + 1).map(|line| format!("{line}\n")).collect())
}

/// Waits for a random moment after all ranks have sealed something in this life. Open MPI's launcher does not always
/// notice when a rank is killed during the start. Returns `false` if the job has ended.
fn awaits_strike(
    arena: &Arena,
    program: &Path,
    memory: &Path,
    running: &mut Running,
    random: &mut Rng,
) -> Result<bool> {
    let before = sealed(memory);
    let may_be_struck = |running: &mut Running| -> Result<Option<bool>> {
        if running.has_ended()? {
            return Ok(Some(false));
        }
        let (is_there, now) = (arena.processes_of(program).len() == 4, sealed(memory));
        Ok((is_there && now.len() == 4 && now.iter().min() > before.iter().max()).then_some(true))
    };
    let goes_on = until(PATIENCE, "a checkpoint", || may_be_struck(running)).with_context(|| arena.evidence())?;
    sleep(Duration::from_millis(random.u64(..100)));
    Ok(goes_on)
}

/// Returns when each process has last sealed.
fn sealed(memory: &Path) -> Vec<SystemTime> {
    let within = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let logical_ranks = within(memory.to_owned()).flat_map(within).flat_map(within);
    logical_ranks
        .filter_map(|logical_rank| fs::metadata(logical_rank.join("state")).and_then(|file| file.modified()).ok())
        .collect()
}

/// Returns the checksum in the last line of an output.
///
/// # Errors
/// When the last line contains no checksum.
pub fn checksum(output: &str) -> Result<&str> {
    let last = output.trim_end().lines().last().unwrap_or_default();
    last.strip_prefix("checksum ").with_context(|| format!("no checksum ends {output:?}"))
}
