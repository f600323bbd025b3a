//! The loops that run over pages: coefficient times piece, added to sums. One door, and the library behind it.
//!
//! [`Library`] is what runs. It stands on a library's kernels (AVX2 and GFNI, chosen once by what the processor has);
//! another library could take its place, since the bytes follow from the polynomial and the coefficients alone.
//! Its naive twin, one byte after the other, is among the tests.

use super::coefficients::Coefficients;
use std::fmt::Debug;

/// Adds multiples of pieces to sums.
pub(super) trait Kernel: Debug + Send + Sync {
    /// `sums[row] ^= coefficient(row, column) x piece` for every row. All slices have one length.
    fn add(&self, column: usize, piece: &[u8], sums: &mut [&mut [u8]]);

    /// `sums[row] = ` the sum over all columns of `coefficient(row, column) x pieces[column]`.
    fn combine(&self, pieces: &[&[u8]], sums: &mut [&mut [u8]]);
}

/// The library's kernels, with the tables that they want made once.
#[derive(Debug)]
pub(super) struct Library {
    coefficients: Coefficients,
    columns: usize,
    kernels: rusty_erasure::kernel::Kernels,
    tables: Vec<u8>,
    /// Whether no cell is anything but 0 and 1: then XOR does it, at the speed of memory.
    binary: bool,
}

impl Library {
    /// Ready for these coefficients.
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

/// `sum ^= piece`. The compiler makes vector code of it.
pub(super) fn xor(sum: &mut [u8], piece: &[u8]) {
    assert_eq!(sum.len(), piece.len(), "what is added has the length of the sum");
    sum.iter_mut().zip(piece).for_each(|(sum, byte)| *sum ^= byte);
}
