//! Erasure codes (D3): computing checks from the members' pieces, and lost pieces from the remaining ones.
//!
//! All codes are linear: a check is the sum over the members of *coefficient times piece*. So a difference of a piece
//! updates the checks (D7), and the sum can be formed hop by hop, with each hop adding its own share (D6). Rebuilding
//! uses the same hops: the survivors add their shares to some checks as in encoding, and the holders of these checks
//! add what they hold. Only the shares of the lost members remain, which [`Repair::solve`] separates.
//!
//! ```text
//! encode    member 0 --> + member 1 --> + member 2 --> checks
//! rebuild   member 0 ----------------> + member 2 --> + checks --> solve --> member 1
//! ```
//!
//! `algorithm.md` beside this file contains the mathematics. This module has no notion of epochs, ranks or messages. MPI
//! programs can choose parity and Reed-Solomon so far: the other codes complete the forms of diskless checkpointing in
//! groups.

mod coefficients;
mod evenodd;
mod field;
mod kernel;
#[cfg(test)]
mod tests;

use crate::PAGE_BYTES;
use coefficients::Coefficients;
use evenodd::EvenOdd;
use kernel::{Kernel, Library, xor};
use std::sync::Arc;

/// Largest number of members and checks of one code together: the number of elements of the field.
pub const PIECES_MAX: usize = 256;

/// A family of codes, without the number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// A copy of each member: n checks. Tolerates up to n losses, but not the loss of a member together with its copy.
    Mirroring,
    /// One check. Tolerates one loss.
    Parity,
    /// Members divided among `groups` groups, each with parity. Tolerates one loss per group.
    OneDimensional {
        /// Number of groups, and of checks.
        groups: usize,
    },
    /// Two checks, using only XOR. Tolerates any two losses. Pieces are whole pages.
    EvenOdd,
    /// Tolerates any `checks` losses.
    ReedSolomon {
        /// Number of checks.
        checks: usize,
    },
}

/// The reason why a code does not exist, or why it cannot repair a loss.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// No code has this shape.
    #[error("there is no code for {members} members with {checks} checks: {reason}")]
    Shape {
        /// Requested members.
        members: usize,
        /// Requested checks.
        checks: usize,
        /// The violated limit.
        reason: &'static str,
    },
    /// The remaining pieces do not determine the lost ones.
    #[error("members {members:?} cannot be rebuilt without checks {checks:?}")]
    Lost {
        /// Lost members.
        members: Vec<usize>,
        /// Lost checks.
        checks: Vec<usize>,
    },
}

/// A code for a number of members.
#[derive(Clone, Debug)]
pub struct Code {
    scheme: Scheme,
    members: usize,
    checks: usize,
    /// Coefficients; for EVENODD only those of the first check, see [`Combiner::add`].
    coefficients: Coefficients,
}

impl Code {
    /// Creates the code of this scheme for `members` members.
    ///
    /// # Errors
    /// [`CodeError::Shape`]
    pub fn new(scheme: Scheme, members: usize) -> Result<Self, CodeError> {
        let checks = match scheme {
            Scheme::Mirroring => members,
            Scheme::Parity => 1,
            Scheme::EvenOdd => 2,
            Scheme::OneDimensional { groups: checks } | Scheme::ReedSolomon { checks } => checks,
        };
        let refused = |reason| Err(CodeError::Shape { members, checks, reason });
        if members == 0 || checks == 0 {
            return refused("it takes at least one of each");
        }
        match scheme {
            Scheme::OneDimensional { groups } if groups > members => return refused("a group would be empty"),
            Scheme::ReedSolomon { .. } if members + checks > PIECES_MAX => {
                return refused("Reed-Solomon over bytes has room for 256 together");
            }
            Scheme::EvenOdd if members > evenodd::MEMBERS_MAX => {
                return refused("EVENODD on pages of 4096 bytes has room for 257 members");
            }
            _ => {}
        }
        let coefficients = match scheme {
            Scheme::Mirroring => Coefficients::new(checks, members, |row, column| u8::from(row == column)),
            Scheme::OneDimensional { groups } => {
                Coefficients::new(checks, members, |row, column| u8::from(column % groups == row))
            }
            Scheme::Parity | Scheme::EvenOdd => Coefficients::new(1, members, |_, _| 1),
            Scheme::ReedSolomon { checks } => Coefficients::cauchy(checks, members),
        };
        Ok(Self { scheme, members, checks, coefficients })
    }

    /// Returns the scheme of the code.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the number of members.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns the number of checks.
    pub fn checks(&self) -> usize {
        self.checks
    }

    /// Returns how many losses the code tolerates, whichever they are.
    pub fn tolerance(&self) -> usize {
        match self.scheme {
            Scheme::Mirroring | Scheme::Parity | Scheme::OneDimensional { .. } => 1,
            Scheme::EvenOdd => 2,
            Scheme::ReedSolomon { checks } => checks,
        }
    }

    /// Reports whether the check depends on the member.
    pub fn covers(&self, check: usize, member: usize) -> bool {
        self.scheme == Scheme::EvenOdd || self.coefficients.cell(check, member) != 0
    }

    /// Returns the combiner that adds shares to all checks.
    pub fn combiner(&self) -> Combiner {
        self.combiner_of(&(0..self.checks).collect::<Vec<_>>())
    }

    /// Returns the combiner that adds shares to these checks, in this order.
    pub fn combiner_of(&self, checks: &[usize]) -> Combiner {
        let all: Vec<usize> = (0..self.members).collect();
        let (plain, body) = if self.scheme == Scheme::EvenOdd {
            let plain = checks.iter().map(|check| *check == 0).collect();
            (plain, Body::EvenOdd(EvenOdd::new(self.members), checks.to_vec()))
        } else {
            let coefficients = self.coefficients.part(checks, &all);
            let plain = coefficients.cells().chunks_exact(self.members).map(|row| row.iter().all(|cell| *cell == 1));
            (plain.collect(), Body::Linear(Arc::new(Library::new(coefficients))))
        };
        Combiner { members: self.members, checks: checks.len(), plain, body }
    }

    /// Returns how to rebuild these members without these checks. It uses as few checks as possible, the first that
    /// suffice.
    ///
    /// # Errors
    /// [`CodeError::Lost`] if the remaining pieces do not determine them.
    pub fn repair(&self, lost_members: &[usize], lost_checks: &[usize]) -> Result<Repair, CodeError> {
        let mut lost = lost_members.to_vec();
        lost.sort_unstable();
        lost.dedup();
        let left: Vec<usize> = (0..self.checks).filter(|check| !lost_checks.contains(check)).collect();
        let too_much = || CodeError::Lost { members: lost.clone(), checks: lost_checks.to_vec() };
        let (checks, solver) = if self.scheme == Scheme::EvenOdd {
            if lost.len() > left.len() {
                return Err(too_much());
            }
            (left[..lost.len()].to_vec(), Solver::EvenOdd(EvenOdd::new(self.members)))
        } else {
            let checks = self.coefficients.independent_rows(&left, &lost).ok_or_else(too_much)?;
            let inverse = self.coefficients.part(&checks, &lost).inverse();
            let solver = match inverse.is_identity() {
                true => Solver::AsItIs,
                false => Solver::Linear(Arc::new(Library::new(inverse))),
            };
            (checks, solver)
        };
        let combiner = self.combiner_of(&checks);
        Ok(Repair { lost, checks, combiner, solver })
    }
}

/// Adds members' shares to some checks.
#[derive(Clone, Debug)]
pub struct Combiner {
    members: usize,
    checks: usize,
    /// For each sum, whether pieces are added to it unchanged.
    plain: Vec<bool>,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Linear(Arc<dyn Kernel>),
    EvenOdd(EvenOdd, Vec<usize>),
}

impl Combiner {
    /// Returns the number of sums.
    pub fn checks(&self) -> usize {
        self.checks
    }

    /// Reports whether there is exactly one sum, to which pieces are added unchanged.
    pub fn is_plain(&self) -> bool {
        *self.plain == [true]
    }

    /// Returns for each sum whether pieces are added to it unchanged.
    pub fn plain(&self) -> &[bool] {
        &self.plain
    }

    /// Adds *coefficient x piece* to each sum. A difference of two pieces changes the sums as the pieces themselves
    /// would have. Panics if lengths differ, and for EVENODD if pieces are not whole pages.
    pub fn add(&self, member: usize, piece: &[u8], sums: &mut [&mut [u8]]) {
        assert!(member < self.members && sums.len() == self.checks, "the code has this member and these checks");
        assert!(sums.iter().all(|sum| sum.len() == piece.len()), "piece and sums have one length");
        match &self.body {
            Body::Linear(kernel) => kernel.add(member, piece, sums),
            Body::EvenOdd(code, checks) => {
                assert!(piece.len().is_multiple_of(PAGE_BYTES), "EVENODD works on whole pages");
                for (check, sum) in checks.iter().zip(sums) {
                    if *check == 0 {
                        xor(sum, piece);
                        continue;
                    }
                    let pages = piece.chunks_exact(PAGE_BYTES).zip(sum.chunks_exact_mut(PAGE_BYTES));
                    pages.for_each(|(page, sum)| code.add_diagonals(member, page, sum));
                }
            }
        }
    }

    /// Computes the sums over all members at once. Panics as [`Combiner::add`] does.
    pub fn combine(&self, pieces: &[&[u8]], sums: &mut [&mut [u8]]) {
        let length = pieces.first().map_or(0, |piece| piece.len());
        assert!(pieces.len() == self.members && sums.len() == self.checks, "the code has these members and checks");
        assert!(pieces.iter().all(|it| it.len() == length) && sums.iter().all(|it| it.len() == length), "one length");
        match &self.body {
            Body::Linear(kernel) => kernel.combine(pieces, sums),
            Body::EvenOdd(code, checks) => {
                assert!(length.is_multiple_of(PAGE_BYTES), "EVENODD works on whole pages");
                for start in (0..length).step_by(PAGE_BYTES) {
                    let pages: Vec<&[u8]> = pieces.iter().map(|piece| &piece[start..][..PAGE_BYTES]).collect();
                    for (check, sum) in checks.iter().zip(sums.iter_mut()) {
                        let sum = &mut sum[start..][..PAGE_BYTES];
                        if *check == 0 {
                            sum.copy_from_slice(pages[0]);
                            pages[1..].iter().for_each(|page| xor(sum, page));
                        } else {
                            code.combine_diagonals(&pages, sum);
                        }
                    }
                }
            }
        }
    }
}

/// The procedure for rebuilding lost members.
#[derive(Clone, Debug)]
pub struct Repair {
    lost: Vec<usize>,
    checks: Vec<usize>,
    combiner: Combiner,
    solver: Solver,
}

#[derive(Clone, Debug)]
enum Solver {
    /// The sums are the lost pieces: one member is lost, and the first check is the plain sum.
    AsItIs,
    Linear(Arc<dyn Kernel>),
    EvenOdd(EvenOdd),
}

impl Repair {
    /// Returns the members that it rebuilds, ascending.
    pub fn lost(&self) -> &[usize] {
        &self.lost
    }

    /// Returns the checks that it needs: as many as members are lost.
    pub fn checks(&self) -> &[usize] {
        &self.checks
    }

    /// Returns the combiner that adds the survivors' shares to the sums, one sum for each of [`Repair::checks`]. The
    /// checks themselves are added to their sums unchanged.
    pub fn combiner(&self) -> &Combiner {
        &self.combiner
    }

    /// Turns the sums of survivors and checks into the lost members' pieces, in the order of [`Repair::lost`].
    pub fn solve(&self, sums: &mut [&mut [u8]]) {
        assert_eq!(sums.len(), self.lost.len(), "one sum for each lost member");
        match &self.solver {
            Solver::AsItIs => {}
            Solver::Linear(kernel) => {
                let copies: Vec<Vec<u8>> = sums.iter().map(|sum| sum.to_vec()).collect();
                let pieces: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
                kernel.combine(&pieces, sums);
            }
            Solver::EvenOdd(code) => match (self.lost.as_slice(), sums) {
                ([first, second], [parity, diagonals]) => {
                    let pages = parity.chunks_exact_mut(PAGE_BYTES).zip(diagonals.chunks_exact_mut(PAGE_BYTES));
                    pages.for_each(|(parity, diagonals)| code.solve_both(*first, *second, parity, diagonals));
                }
                ([only], [sum]) if self.checks[0] == 1 => {
                    sum.chunks_exact_mut(PAGE_BYTES).for_each(|sum| code.solve_from_diagonals(*only, sum));
                }
                _ => {}
            },
        }
    }
}
