//! The parallel programs in `examples/mpi`, with the MPI libraries that the machine has. Ranks share this machine, whatever
//! its number of processors, and talk through its memory.

use crate::victims::{Program, in_path};
use crate::workshop;
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// All that goes into them.
const SOURCES: [&str; 12] = [
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
        static COMPILING: Mutex<()> = Mutex::new(());
        let tools = ["mpicc", "mpifort", "mpirun"].map(|tool| format!("{tool}.{}", self.name()));
        let has_tools = tools.iter().all(|tool| in_path(tool).is_some());
        if !has_tools || !workshop::has_library(&format!("scalapack-{}", self.name())) {
            return Ok(None);
        }
        let _turn = COMPILING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = workshop::folder(self.name(), SOURCES)?;
        let first = workshop::built(&folder, "pcell", |path| {
            let folder = path.parent().context("a program lies in a folder")?;
            workshop::make_example(folder, &["mpi", &format!("MPI={}", self.name())])
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

/// The last line of an output: the checksum.
///
/// # Errors
/// When it is none.
pub fn checksum(output: &str) -> Result<&str> {
    let last = output.trim_end().lines().last().unwrap_or_default();
    last.strip_prefix("checksum ").with_context(|| format!("no checksum ends {output:?}"))
}
