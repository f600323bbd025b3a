//! Matrices of coefficients: one row for each check, one column for each member.
//!
//! This is not the matrix printed in reference \[25\] of the diskless checkpointing paper: a later note of its authors
//! says that it does not tolerate every loss. It is Cauchy's matrix, every square part of which is invertible.

use super::field;

/// A small matrix over the field, by rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Coefficients {
    rows: usize,
    columns: usize,
    cells: Vec<u8>,
}

impl Coefficients {
    /// Creates the matrix with these cells.
    pub(super) fn new(rows: usize, columns: usize, cell: impl Fn(usize, usize) -> u8) -> Self {
        let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        Self { rows, columns, cells: places.map(|(row, column)| cell(row, column)).collect() }
    }

    /// Creates Cauchy's matrix 1 / (x + y), with each column divided by its first cell. Row 0 is all ones, so that one
    /// check *is* parity. Neither x nor y depends on the size, so more checks or members leave the existing
    /// coefficients unchanged.
    pub(super) fn cauchy(checks: usize, members: usize) -> Self {
        assert!(checks + members <= 256, "x and y are distinct elements of a field of 256");
        let x = |row: usize| 255 - row as u8;
        let y = |column: usize| column as u8;
        let cell = |row, column| field::inverse(x(row) ^ y(column));
        Self::new(checks, members, |row, column| field::multiply(cell(row, column), field::inverse(cell(0, column))))
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the cell in this row and column.
    pub(super) fn cell(&self, row: usize, column: usize) -> u8 {
        self.cells[row * self.columns + column]
    }

    /// Returns all cells, by rows.
    pub(super) fn cells(&self) -> &[u8] {
        &self.cells
    }

    /// Returns the part with these rows and columns.
    pub(super) fn part(&self, rows: &[usize], columns: &[usize]) -> Self {
        Self::new(rows.len(), columns.len(), |row, column| self.cell(rows[row], columns[column]))
    }

    /// Returns the first of `available` rows that are independent in these columns, as many as there are columns;
    /// `None` if there are too few.
    pub(super) fn independent_rows(&self, available: &[usize], columns: &[usize]) -> Option<Vec<usize>> {
        let mut chosen = Vec::new();
        let mut reduced: Vec<(usize, Vec<u8>)> = Vec::new();
        for &row in available {
            if chosen.len() == columns.len() {
                break;
            }
            let mut line: Vec<u8> = columns.iter().map(|&column| self.cell(row, column)).collect();
            for (pivot, other) in &reduced {
                let factor = line[*pivot];
                line.iter_mut().zip(other).for_each(|(cell, other)| *cell ^= field::multiply(factor, *other));
            }
            let Some(pivot) = line.iter().position(|cell| *cell != 0) else { continue };
            let scale = field::inverse(line[pivot]);
            line.iter_mut().for_each(|cell| *cell = field::multiply(*cell, scale));
            reduced.push((pivot, line));
            chosen.push(row);
        }
        (chosen.len() == columns.len()).then_some(chosen)
    }

    /// Reports whether this is the identity matrix.
    pub(super) fn is_identity(&self) -> bool {
        let on_diagonal = |at: usize| at.is_multiple_of(self.columns + 1);
        self.rows == self.columns && self.cells.iter().enumerate().all(|(at, cell)| *cell == u8::from(on_diagonal(at)))
    }

    /// Returns the inverse, by Gauss-Jordan elimination. Panics if there is none; callers choose independent rows.
    pub(super) fn inverse(&self) -> Self {
        let size = self.rows;
        assert_eq!(size, self.columns, "only a square matrix has an inverse");
        let mut left = self.clone();
        let mut right = Self::new(size, size, |row, column| u8::from(row == column));
        for pivot in 0..size {
            let row = (pivot..size).find(|&row| left.cell(row, pivot) != 0).expect("the rows are independent");
            left.swap(row, pivot);
            right.swap(row, pivot);
            let scale = field::inverse(left.cell(pivot, pivot));
            left.scale(pivot, scale);
            right.scale(pivot, scale);
            for other in (0..size).filter(|other| *other != pivot) {
                let factor = left.cell(other, pivot);
                left.add(pivot, other, factor);
                right.add(pivot, other, factor);
            }
        }
        right
    }

    fn swap(&mut self, a: usize, b: usize) {
        for column in 0..self.columns {
            self.cells.swap(a * self.columns + column, b * self.columns + column);
        }
    }

    fn scale(&mut self, row: usize, factor: u8) {
        for cell in &mut self.cells[row * self.columns..][..self.columns] {
            *cell = field::multiply(*cell, factor);
        }
    }

    fn add(&mut self, from: usize, to: usize, factor: u8) {
        for column in 0..self.columns {
            let product = field::multiply(factor, self.cell(from, column));
            self.cells[to * self.columns + column] ^= product;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_check_is_parity_and_more_checks_keep_the_first_rows() {
        let small = Coefficients::cauchy(1, 20);
        assert!(small.cells().iter().all(|cell| *cell == 1));
        let (two, five) = (Coefficients::cauchy(2, 20), Coefficients::cauchy(5, 31));
        for (row, column) in (0..2).flat_map(|row| (0..20).map(move |column| (row, column))) {
            assert_eq!(two.cell(row, column), five.cell(row, column));
        }
        assert!(Coefficients::cauchy(100, 156).cells().iter().all(|cell| *cell != 0));
    }

    #[test]
    fn one_lost_piece_equals_the_first_sum() {
        let matrix = Coefficients::cauchy(2, 9);
        assert!(matrix.part(&[0], &[7]).inverse().is_identity());
        assert!(!matrix.part(&[1], &[7]).inverse().is_identity());
        assert!(!matrix.part(&[0, 1], &[2, 7]).inverse().is_identity());
    }

    #[test]
    fn an_inverse_times_its_matrix_is_one() {
        let matrix = Coefficients::cauchy(6, 9).part(&[0, 2, 3, 5], &[1, 4, 6, 8]);
        let inverse = matrix.inverse();
        for (row, column) in (0..4).flat_map(|row| (0..4).map(move |column| (row, column))) {
            let cells = (0..4).map(|at| field::multiply(inverse.cell(row, at), matrix.cell(at, column)));
            assert_eq!(cells.fold(0, |sum, cell| sum ^ cell), u8::from(row == column));
        }
    }
}
