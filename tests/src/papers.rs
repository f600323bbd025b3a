//! The programs that the papers on checkpointing measure, as they are in `examples`: as victims that compute for a second or
//! two, and with arguments for a moment. They check their own results.

use crate::victims::{Victim, example, in_path};
use crate::workshop;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    /// With arguments for a second or two.
    pub victim: Victim,
    /// Arguments for a moment.
    pub tiny: &'static [&'static str],
}

/// All of them.
pub const PAPERS: [Paper; 9] = [MAT, SOLVE, EIGEN, CELL, STSWM, MCNF, NNET, LOG, CONTOUR];

/// A product of matrices that are read from disk.
pub const MAT: Paper = Paper { victim: example("mat", include_str!("../../examples/mat.c"), &["1000"]), tiny: &["60"] };
/// One system of linear equations after the other.
pub const SOLVE: Paper =
    Paper { victim: example("solve", include_str!("../../examples/solve.F90"), &["500", "12"]), tiny: &["40", "2"] };
/// Eigenvalues of one matrix.
pub const EIGEN: Paper =
    Paper { victim: example("eigen", include_str!("../../examples/eigen.f90"), &["600"]), tiny: &["20"] };
/// A cellular automaton.
pub const CELL: Paper =
    Paper { victim: example("cell", include_str!("../../examples/cell.c"), &["1024", "700"]), tiny: &["64", "20"] };
/// Shallow water on a sphere, with a mountain; for a moment the flow that must stay as it is.
pub const STSWM: Paper = Paper {
    victim: example("stswm", include_str!("../../examples/stswm.f90"), &["85", "36"]),
    tiny: &["10", "3", "2"],
};
/// Many commodities in one network.
pub const MCNF: Paper =
    Paper { victim: example("mcnf", include_str!("../../examples/mcnf.f90"), &[]), tiny: &["10", "5", "3"] };
/// A neural network.
pub const NNET: Paper = Paper {
    victim: example("nnet", include_str!("../../examples/nnet.c"), &["6000", "40", "500"]),
    tiny: &["1000", "40", "60"],
};
/// Messages to be logged.
pub const LOG: Paper =
    Paper { victim: example("log", include_str!("../../examples/log.c"), &["100000", "60"]), tiny: &["2000", "3"] };
/// Altitude contours.
pub const CONTOUR: Paper = Paper {
    victim: example("contour", include_str!("../../examples/contour.c"), &["2816", "2179", "3"]),
    tiny: &["200", "100"],
};

/// What else goes into them.
const SHARED: [&str; 4] = [
    include_str!("../../examples/Makefile"),
    include_str!("../../examples/example.h"),
    include_str!("../../examples/example.f90"),
    include_str!("../../examples/shallow_water.f90"),
];

/// The executable of an example. `None` where it is in Fortran and the machine has no compiler for it, or no LAPACK.
pub(crate) fn built(name: &str, source: &str) -> Result<Option<PathBuf>> {
    let is_fortran = source.starts_with('!');
    if is_fortran && (in_path("gfortran").is_none() || !workshop::has_library("lapack")) {
        return Ok(None);
    }
    let folder = workshop::folder(name, (source, SHARED))?;
    let build = |path: &Path| {
        let folder = path.parent().context("a program lies in a folder")?;
        workshop::make_example(folder, &[name])
    };
    workshop::built(&folder, name, build).map(Some)
}
