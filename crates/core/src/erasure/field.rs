//! The field of 256 elements: bytes that add by XOR and multiply modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11D).
//!
//! Small tables and plain loops. This module is for coefficients and for reference implementations; `kernel` has the
//! loops over pages.

/// The polynomial, including its ninth bit. ISA-L, jerasure and the RAID-6 of Linux use the same.
const POLYNOMIAL: u16 = 0x11D;

/// Number of nonzero elements: the powers of the generator 2 repeat after that many.
const ORDER: usize = 255;

struct Tables {
    logarithm: [u8; 256],
    power: [u8; ORDER],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables { logarithm: [0; 256], power: [0; ORDER] };
    let mut element: u16 = 1;
    let mut exponent = 0;
    while exponent < ORDER {
        tables.power[exponent] = element as u8;
        tables.logarithm[element as usize] = exponent as u8;
        element <<= 1;
        if element & 0x100 != 0 {
            element ^= POLYNOMIAL;
        }
        exponent += 1;
    }
    tables
}

/// Returns the product of two elements.
pub(super) fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let exponent = usize::from(TABLES.logarithm[usize::from(a)]) + usize::from(TABLES.logarithm[usize::from(b)]);
    TABLES.power[exponent % ORDER]
}

/// Returns the element whose product with `a` is 1. Panics for 0, which has none.
pub(super) fn inverse(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    TABLES.power[(ORDER - usize::from(TABLES.logarithm[usize::from(a)])) % ORDER]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies by definition: shift and add, then reduce.
    fn multiply_naive(a: u8, b: u8) -> u8 {
        let mut product = 0u16;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= u16::from(a) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= POLYNOMIAL << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn every_product_matches_naive_multiplication() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), multiply_naive(a, b), "{a} x {b}");
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_its_inverse() {
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a)), 1);
        }
    }
}
