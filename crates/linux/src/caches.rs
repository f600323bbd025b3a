//! Ring 2: cache hints for pages that are read once, or that are written and not read soon. Without hints, pages that
//! lie far apart take several times as long as their bytes would: only we know which page is next.
//!
//! # Safety
//! Every processor of this architecture has these instructions. A hint may name any address.

use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;
use std::arch::x86_64::{_MM_HINT_T2, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128};
use std::cell::Cell;

/// Bytes that one prefetch loads.
const LINE_BYTES: usize = 64;
/// Bytes that one store past the caches writes.
pub(crate) const PART_BYTES: usize = 16;

thread_local! {
    /// The page that this thread last passed to [`expect`].
    static EXPECTED: Cell<usize> = const { Cell::new(0) };
}

/// Prefetches a page that is about to be read. This is only a hint and changes nothing. The processor prefetches the
/// page that follows the previous one by itself, and sooner than this hint would. The page goes to the outer caches,
/// since fetching it into the innermost one takes longer.
pub(crate) fn expect(page: *const u8) {
    if EXPECTED.replace(page.addr()) + PAGE_BYTES != page.addr() {
        fetch(page);
    }
}

/// Prefetches a page, wherever the previous one was.
pub(crate) fn fetch(page: *const u8) {
    for at in (0..PAGE_BYTES).step_by(LINE_BYTES) {
        // SAFETY: a hint.
        unsafe { _mm_prefetch(page.wrapping_add(at).cast(), _MM_HINT_T2) };
    }
}

/// Writes a page past the caches: the old content is not fetched first, and nothing else is evicted. Only this thread
/// is sure to read the new content before [`finish_writing`].
///
/// # Safety
/// `place` is aligned to [`PART_BYTES`], and one page there is writable and belongs to the caller alone.
pub(crate) unsafe fn write_past(place: *mut u8, page: &Page) {
    for (at, part) in page.as_chunks::<PART_BYTES>().0.iter().enumerate() {
        // SAFETY: the caller promises the place; a part may be read at any address.
        unsafe { _mm_stream_si128(place.add(at * PART_BYTES).cast(), _mm_loadu_si128(part.as_ptr().cast())) };
    }
}

/// Makes everything written past the caches visible to every thread. Calling it after each page would take half as long
/// as the writes themselves.
pub(crate) fn finish_writing() {
    // SAFETY: this only orders earlier writes.
    unsafe { _mm_sfence() };
}
