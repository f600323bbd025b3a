//! The programs that the papers on checkpointing measure, as they are in `examples`: as victims that compute for a second or
//! two, and with arguments for a moment. They check their own results.

use crate::victims::{Victim, example, in_path};
use crate::workshop;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    /// With arguments for a second or two.
    pub victim: Victim,
    /// The same with the papers' directives, where there are some.
    pub directed: Option<Victim>,
    /// Arguments for a moment.
    pub tiny: &'static [&'static str],
}

impl Paper {
    const fn plain(name: &'static str, source: &'static str, arguments: Arguments, tiny: Arguments) -> Self {
        Self { victim: example(name, source, arguments), directed: None, tiny }
    }

    const fn with_directives(
        [name, directed]: [&'static str; 2],
        source: &'static str,
        arguments: Arguments,
        tiny: Arguments,
    ) -> Self {
        Self { directed: Some(example(directed, source, arguments)), ..Self::plain(name, source, arguments, tiny) }
    }
}

type Arguments = &'static [&'static str];

/// What the name of a program with directives ends with.
const DIRECTED: &str = "-directed";

/// All of them.
pub const PAPERS: [Paper; 9] = [MAT, SOLVE, EIGEN, CELL, STSWM, MCNF, NNET, LOG, CONTOUR];

/// A product of matrices that are read from disk.
pub const MAT: Paper =
    Paper::with_directives(["mat", "mat-directed"], include_str!("../../examples/mat.c"), &["1500"], &["60"]);
/// One system of linear equations after the other.
pub const SOLVE: Paper = Paper::with_directives(
    ["solve", "solve-directed"],
    include_str!("../../examples/solve.F90"),
    &["700", "30"],
    &["40", "2"],
);
/// Eigenvalues of one matrix.
pub const EIGEN: Paper = Paper::plain("eigen", include_str!("../../examples/eigen.f90"), &["600"], &["20"]);
/// A cellular automaton.
pub const CELL: Paper = Paper::with_directives(
    ["cell", "cell-directed"],
    include_str!("../../examples/cell.c"),
    &["2048", "170"],
    &["64", "20"],
);
/// Shallow water on a sphere, with a mountain; for a moment the flow that must stay as it is.
pub const STSWM: Paper =
    Paper::plain("stswm", include_str!("../../examples/stswm.f90"), &["85", "36"], &["10", "3", "2"]);
/// Many commodities in one network.
pub const MCNF: Paper = Paper::plain("mcnf", include_str!("../../examples/mcnf.f90"), &[], &["10", "5", "3"]);
/// A neural network.
pub const NNET: Paper = Paper::with_directives(
    ["nnet", "nnet-directed"],
    include_str!("../../examples/nnet.c"),
    &["6000", "40", "1500"],
    &["1000", "40", "60"],
);
/// Messages to be logged.
pub const LOG: Paper = Paper::plain("log", include_str!("../../examples/log.c"), &["100000", "180"], &["2000", "3"]);
/// Altitude contours.
pub const CONTOUR: Paper =
    Paper::plain("contour", include_str!("../../examples/contour.c"), &["2816", "2179", "3"], &["200", "100"]);

/// What else goes into them.
const SHARED: [&str; 4] = [
    include_str!("../../examples/Makefile"),
    include_str!("../../examples/example.h"),
    include_str!("../../examples/example.f90"),
    include_str!("../../examples/shallow_water.f90"),
];

/// What lies between Fortran and libstandfast.
const INTERFACE: &str = include_str!("../../bindings/fortran/standfast.f90");

/// The executable of an example. `None` where it is in Fortran and the machine has no compiler for it, or no LAPACK.
pub(crate) fn built(name: &str, source: &str) -> Result<Option<PathBuf>> {
    let is_fortran = source.starts_with('!');
    if is_fortran && (in_path("gfortran").is_none() || !workshop::has_library("lapack")) {
        return Ok(None);
    }
    let Some(name) = name.strip_suffix(DIRECTED) else {
        let folder = workshop::folder(name, (source, SHARED))?;
        return made(&folder, name, &[]).map(Some);
    };
    let folder = workshop::folder(&format!("{name}{DIRECTED}"), (source, SHARED, workshop::LIBRARY, INTERFACE))?;
    let [include, archive] = &workshop::library_flags("cc")?[..] else { bail!("libstandfast is a folder and a file") };
    made(&folder, name, &["CKPT=1", &format!("DIRECTIVES=-DCKPT {include}"), &format!("LIBRARY={archive}")]).map(Some)
}

fn made(folder: &Path, name: &str, how: &[&str]) -> Result<PathBuf> {
    workshop::built(folder, name, |path| {
        let folder = path.parent().context("a program lies in a folder")?;
        workshop::make_example(folder, &[how, &[name]].concat())
    })
}
