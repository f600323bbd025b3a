//! The image format: bytes to records and back, and the traits between engine and store.
//!
//! Pure: no file is opened here. `docs/format.md` in the repository describes the bytes.
#![forbid(unsafe_code)]

pub mod image;
pub mod manifest;
pub mod records;
mod traits;

pub use traits::{Beneath, BoxError, Contents, ImageSink, ImageSource, PageBatch, Run};
