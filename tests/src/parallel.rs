//! The parallel programs in `examples/mpi`, with the MPI libraries that the machine has. Ranks share this machine, whatever
//! its number of processors, and talk through its memory.

use crate::arena::Arena;
use crate::command::Standfast;
use crate::mpi::library;
use crate::running::{Output, PATIENCE, Running, until};
use crate::victims::{Program, in_path};
use crate::workshop;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

/// All that goes into them.
const SOURCES: [&str; 17] = [
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
    include_str!("../../bindings/mpi/include/standfast_group.h"),
    include_str!("../../bindings/mpi/include/standfast_mpi.h"),
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
    /// As Debian's alternatives are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// The folder with all parallel programs, which are made if need be. `None` where the machine has not this MPI with
    /// Fortran and ScaLAPACK.
    ///
    /// # Errors
    /// When they do not compile.
    pub fn programs(self) -> Result<Option<PathBuf>> {
        self.made(None)
    }

    /// The same, with checkpoints in each other's memory.
    ///
    /// # Errors
    /// When they or the library do not compile.
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

    /// One of them on so many ranks.
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

/// Runs a program under `standfast group run`, kills some of its ranks at random moments after its first checkpoints, and
/// returns what it came to.
///
/// # Errors
/// When it does not come to its end, or leaves something behind.
pub fn killed(mpi: Mpi, program: &Path, arguments: &[&str], strikes: usize, random: &mut Rng) -> Result<String> {
    let arena = Arena::new()?;
    let memory = arena.folder().join("memory");
    fs::create_dir(&memory)?;
    let launched = mpi.on_ranks(4, program, arguments);
    let mut command = Standfast::new(&arena)?.command(&["group", "run", "-d"]);
    command.arg(arena.images()).arg("--checks").arg(random.u8(1..3).to_string());
    command.args(["--interval", "10ms", "--encode-every"]).arg(random.u8(1..4).to_string()).arg("--");
    command.arg(launched.path).args(launched.arguments);
    command.env("STANDFAST_GROUP_MEMORY", &memory);
    let mut running = Running::start(&arena, "killed", Output::Log, &mut command)?;
    for _ in 0..strikes {
        let has_begun = |running: &mut Running| -> Result<Option<bool>> {
            let ended = running.has_ended()?;
            Ok((ended || (arena.processes_of(program).len() == 4 && has_checkpoint(&memory))).then_some(ended))
        };
        if until(PATIENCE, "a checkpoint", || has_begun(&mut running))? {
            break;
        }
        sleep(Duration::from_millis(random.u64(..200)));
        let mut ranks = arena.processes_of(program);
        random.shuffle(&mut ranks);
        for rank in ranks.iter().take(random.usize(1..3)) {
            // The launcher may have been quicker.
            let _ = kill(*rank, Signal::SIGKILL);
        }
    }
    let ended = running.wait(2 * PATIENCE)?.well("the killed job").with_context(|| arena.evidence())?;
    let left: Vec<_> = fs::read_dir(&memory)?.flatten().map(|entry| entry.path()).collect();
    ensure!(left.is_empty(), "left in memory: {left:?}");
    arena.wait_until_empty(PATIENCE)?;
    Ok(ended.output)
}

/// Whether some process has sealed a piece.
fn has_checkpoint(memory: &Path) -> bool {
    let within = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    within(memory.to_owned()).flat_map(within).flat_map(within).any(|seat| seat.join("table-1").exists())
}

/// The last line of an output: the checksum.
///
/// # Errors
/// When it is none.
pub fn checksum(output: &str) -> Result<&str> {
    let last = output.trim_end().lines().last().unwrap_or_default();
    last.strip_prefix("checksum ").with_context(|| format!("no checksum ends {output:?}"))
}
