//! Pure computation for Standfast: pages and their places, proof that bytes are unchanged, and reconstruction of lost
//! bytes.
//!
//! Nothing here reads a file, a clock, the environment or another process: given the same arguments, every function
//! returns the same result. `cargo xtask tidy` checks this. It makes the crate the place for oracles and proofs.
//!
//! ```
//! use standfast_core::{Address, Checksum, PageRange, PAGE_BYTES};
//!
//! let range = PageRange::new(Address::new(0x7000), 3);
//! assert_eq!(range.bytes(), 3 * PAGE_BYTES as u64);
//! assert_ne!(Checksum::of(b"before"), Checksum::of(b"after"));
//! ```
#![deny(unsafe_code)]

pub mod buffer;
mod checksum;
pub mod codec;
pub mod delta;
pub mod directions;
pub mod erasure;
pub mod estimate;
mod hint;
mod mask;
mod page;
mod page_set;
mod printable;
mod syndrome;
pub mod words;

pub use checksum::{Checksum, Root};
pub use hint::{HINT, cause, message_lines};
pub use mask::{MASK_BYTES, MASK_WORD_BYTES, MASK_WORDS, Mask};
pub use page::{Address, PAGE_BYTES, PageRange, is_zero, merge_ranges};
pub use page_set::PageSet;
pub use printable::{is_printable, printable, printable_json, printable_lines};
pub use syndrome::Syndrome;
