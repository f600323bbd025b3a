//! Stand-ins for the kernels of `simd`: processors other than x86-64 use plain code.

use super::Change;
use super::kernel::SLOT_BYTES;

/// AVX2 is never available here.
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

/// AVX-512 is never available here.
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
