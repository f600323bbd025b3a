//! The programs that the papers on checkpointing measure, taken from `examples`. They serve as victims that compute for
//! a second or two, and with arguments for a very short run. They check their own results.

use crate::victims::{Victim, example};

/// One of the programs.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    /// The program with arguments for a second or two.
    pub victim: Victim,
    /// The same program with the papers' directives, if there are any.
    pub directed: Option<Victim>,
    /// Arguments for a very short run.
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

/// All programs.
pub const PAPERS: [Paper; 9] = [MAT, SOLVE, EIGEN, CELL, STSWM, MCNF, NNET, LOG, CONTOUR];

/// Multiplies matrices that it reads from disk.
pub const MAT: Paper =
    Paper::with_directives(["mat", "mat-directed"], include_str!("../../examples/mat.c"), &["1500"], &["60"]);
/// Solves systems of linear equations, one after the other.
pub const SOLVE: Paper = Paper::with_directives(
    ["solve", "solve-directed"],
    include_str!("../../examples/solve.F90"),
    &["700", "30"],
    &["40", "2"],
);
/// Computes the eigenvalues of one matrix.
pub const EIGEN: Paper = Paper::plain("eigen", include_str!("../../examples/eigen.f90"), &["600"], &["20"]);
/// A cellular automaton.
pub const CELL: Paper = Paper::with_directives(
    ["cell", "cell-directed"],
    include_str!("../../examples/cell.c"),
    &["2048", "170"],
    &["64", "20"],
);
/// Shallow water on a sphere with a mountain. The very short run computes a flow that must not change.
pub const STSWM: Paper =
    Paper::plain("stswm", include_str!("../../examples/stswm.f90"), &["85", "36"], &["10", "3", "2"]);
/// Multicommodity flow in one network.
pub const MCNF: Paper = Paper::plain("mcnf", include_str!("../../examples/mcnf.f90"), &[], &["10", "5", "3"]);
/// A neural network.
pub const NNET: Paper = Paper::with_directives(
    ["nnet", "nnet-directed"],
    include_str!("../../examples/nnet.c"),
    &["6000", "40", "1500"],
    &["1000", "40", "60"],
);
/// Logs messages.
pub const LOG: Paper = Paper::plain("log", include_str!("../../examples/log.c"), &["150000", "220"], &["2000", "3"]);
/// Computes altitude contours.
pub const CONTOUR: Paper =
    Paper::plain("contour", include_str!("../../examples/contour.c"), &["2816", "2179", "3"], &["200", "100"]);
