//! The kernels of `simd` where there are none: on other processors than x86-64 plain code does it.

use super::Change;
use super::kernel::SLOT_BYTES;

/// Nothing proves AVX2 here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Avx2 {}

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        None
    }

    pub(super) fn difference(self, _: Change<'_>, _: &mut [u8; SLOT_BYTES]) -> usize {
        match self {}
    }
}

/// Nothing proves AVX-512 here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Avx512 {}

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        None
    }

    pub(super) fn difference(self, _: Change<'_>, _: &mut [u8; SLOT_BYTES]) -> usize {
        match self {}
    }
}
