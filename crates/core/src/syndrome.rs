//! Syndromes: remainders of pages divided by a polynomial. The syndrome of a sum of pages is the sum of their
//! syndromes. This proves that a sum belongs to its summands without having any of them at hand.

use crate::PAGE_BYTES;
use crate::page::Page;
use std::ops::{BitXor, BitXorAssign};

/// The CRC-64 of a page of zeros. The initial and final values of the register make it nonzero.
const OF_ZEROS: u64 = 0x6482_d367_eb22_b64e;

/// The remainder of a page modulo a polynomial over GF(2) of degree 64, that of CRC-64/NVME. Adding is XOR, for pages
/// and for syndromes. Pages that differ only within 64 consecutive bits always have different syndromes; any other
/// pages do with probability 1 - 2^-64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Syndrome(u64);

impl Syndrome {
    /// Length in bytes on the wire.
    pub const BYTES: usize = 8;

    /// Returns the syndrome of a page; that of zeros is [`Syndrome::default`].
    pub fn of(page: &Page) -> Self {
        Self(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, page) ^ OF_ZEROS)
    }

    /// Returns the bytes to send, least significant first.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_le_bytes()
    }

    /// Restores a syndrome from received bytes.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }
}

impl BitXor for Syndrome {
    type Output = Self;

    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl BitXorAssign for Syndrome {
    fn bitxor_assign(&mut self, other: Self) {
        *self = *self ^ other;
    }
}

const _: () = assert!(PAGE_BYTES == 4096, "the syndrome of zeros is that of so many");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the syndrome bit by bit, least significant first.
    fn naive(page: &Page) -> Syndrome {
        const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;
        let divided = |rest: u64, byte: &u8| {
            (0..8).fold(rest ^ u64::from(*byte), |rest, _| (rest >> 1) ^ (POLYNOMIAL * (rest & 1)))
        };
        Syndrome(page.iter().fold(0, divided))
    }

    proptest! {
        #[test]
        fn the_syndrome_of_a_sum_is_the_sum_of_the_syndromes(a: u64, b: u64, changed in 0..PAGE_BYTES) {
            let page = |seed: u64| -> Page { std::array::from_fn(|at| (seed.wrapping_mul(at as u64 + 1) >> 32) as u8) };
            let (one, other) = (page(a), page(b));
            let sum: Page = std::array::from_fn(|at| one[at] ^ other[at]);
            prop_assert_eq!(Syndrome::of(&sum), Syndrome::of(&one) ^ Syndrome::of(&other));
            prop_assert_eq!(Syndrome::of(&one), naive(&one));
            prop_assert_eq!(Syndrome::from_bytes(Syndrome::of(&one).to_bytes()), Syndrome::of(&one));
            let mut altered = one;
            altered[changed] ^= 1 << (b % 8);
            prop_assert_ne!(Syndrome::of(&altered), Syndrome::of(&one));
        }
    }

    #[test]
    fn the_syndrome_of_zeros_is_zero() {
        assert_eq!(Syndrome::of(&[0; PAGE_BYTES]), Syndrome::default());
    }
}
