//! The programs that the papers on checkpointing measure, as they are in `examples`: as victims that compute for a second or
//! two, and with arguments for a moment. They check their own results.

use crate::victims::{Victim, example};

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
