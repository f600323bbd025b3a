//! The loops that run over pages: coefficient times piece, added to sums. One trait, implemented by a library.
//!
//! [`Library`] is the implementation in use. It builds on a library's kernels (AVX2 and GFNI, chosen once for the
//! processor). Another library could replace it, since the polynomial and the coefficients alone determine the bytes.
//! The reference implementation, which processes one byte after the other, is among the tests.

use super::coefficients::Coefficients;
use std::fmt::Debug;

/// Adds multiples of pieces to sums.
pub(super) trait Kernel: Debug + Send + Sync {
    /// Computes `sums[row] ^= coefficient(row, column) x piece` for every row. All slices have the same length.
    fn add(&self, column: usize, piece: &[u8], sums: &mut [&mut [u8]]);

    /// Sets `sums[row]` to the sum over all columns of `coefficient(row, column) x pieces[column]`.
    fn combine(&self, pieces: &[&[u8]], sums: &mut [&mut [u8]]);
}

/// The library's kernels, with their tables computed once.
#[derive(Debug)]
pub(super) struct Library {
    coefficients: Coefficients,
    columns: usize,
    kernels: rusty_erasure::kernel::Kernels,
    tables: Vec<u8>,
    /// Whether all cells are 0 or 1: XOR then suffices, at memory speed.
    binary: bool,
}

impl Library {
    /// Prepares the kernels for these coefficients.
    pub(super) fn new(coefficients: Coefficients) -> Self {
        let kernels = rusty_erasure::best_kernels();
        let columns = coefficients.cells().len() / coefficients.rows().max(1);
        let binary = coefficients.cells().iter().all(|cell| *cell <= 1);
        let tables = (kernels.init)(coefficients.cells());
        Self { coefficients, columns, kernels, tables, binary }
    }
}

impl Kernel for Library {
    fn add(&self, column: usize, piece: &[u8], sums: &mut [&mut [u8]]) {
        if self.binary {
            for (row, sum) in sums.iter_mut().enumerate() {
                if self.coefficients.cell(row, column) == 1 {
                    xor(sum, piece);
                }
            }
            return;
        }
        (self.kernels.update)(&self.tables, self.columns, column, piece, sums);
    }

    fn combine(&self, pieces: &[&[u8]], sums: &mut [&mut [u8]]) {
        if !self.binary {
            (self.kernels.encode)(&self.tables, pieces, sums);
            return;
        }
        for (row, sum) in sums.iter_mut().enumerate() {
            let columns = pieces.iter().enumerate().filter(|(column, _)| self.coefficients.cell(row, *column) == 1);
            let chosen: Vec<&[u8]> = columns.map(|(_, piece)| *piece).collect();
            match chosen.as_slice() {
                [] => sum.fill(0),
                [only] => sum.copy_from_slice(only),
                several => rusty_erasure::raid::xor_gen(several, sum).expect("all pieces have one length"),
            }
        }
    }
}

/// Computes `sum ^= piece`. The compiler vectorises it.
pub(super) fn xor(sum: &mut [u8], piece: &[u8]) {
    assert_eq!(sum.len(), piece.len(), "what is added has the length of the sum");
    sum.iter_mut().zip(piece).for_each(|(sum, byte)| *sum ^= byte);
}
