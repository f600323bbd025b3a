//! Ring 2: what the processor's caches are told about pages that are read once, or written and not read soon. Pages that lie
//! far apart take several times as long as their bytes otherwise: nobody but us knows which is next.
//!
//! # Safety
//! Every processor of this architecture has the instructions. A hint may name any address.

use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;
use std::arch::x86_64::{_MM_HINT_T2, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128};
use std::cell::Cell;

/// What is fetched at once.
const LINE_BYTES: usize = 64;
/// What is written past the caches at once.
pub(crate) const PART_BYTES: usize = 16;

thread_local! {
    /// The page that this thread last expected.
    static EXPECTED: Cell<usize> = const { Cell::new(0) };
}

/// Has a page fetched that is about to be read: a hint, which changes nothing. The processor finds the neighbour of the page
/// before by itself, and sooner without this. It comes into the outer caches: into the first it takes longer.
pub(crate) fn expect(page: *const u8) {
    if EXPECTED.replace(page.addr()) + PAGE_BYTES != page.addr() {
        fetch(page);
    }
}

/// Has a page fetched, wherever the one before was.
pub(crate) fn fetch(page: *const u8) {
    for at in (0..PAGE_BYTES).step_by(LINE_BYTES) {
        // SAFETY: a hint.
        unsafe { _mm_prefetch(page.wrapping_add(at).cast(), _MM_HINT_T2) };
    }
}

/// Writes a page past the caches: what stood there is not fetched first, and nothing else is pushed out. Only this thread
/// is sure to read it before [`finish_writing`].
///
/// # Safety
/// `place` is aligned to [`PART_BYTES`], a page there may be written, and is the caller's alone.
pub(crate) unsafe fn write_past(place: *mut u8, page: &Page) {
    for (at, part) in page.as_chunks::<PART_BYTES>().0.iter().enumerate() {
        // SAFETY: the caller promises the place; a part may be read at any address.
        unsafe { _mm_stream_si128(place.add(at * PART_BYTES).cast(), _mm_loadu_si128(part.as_ptr().cast())) };
    }
}

/// What was written past the caches is there for whoever looks, in whatever thread. Once for each page it would take as long
/// as half the writing.
pub(crate) fn finish_writing() {
    // SAFETY: it orders what was written, no more.
    unsafe { _mm_sfence() };
}
