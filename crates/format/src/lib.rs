//! The image format: bytes to records and back, and the traits between engine and store; and records as core files for
//! debuggers.
//!
//! Pure: no file is opened here. `docs/format.md` in the repository describes the bytes.
//!
//! ```
//! use standfast_format::manifest::{JobDescription, JobId, Manifest, RunOptions, seal, unseal};
//!
//! let job = JobId::from_bytes([7; 16]);
//! let manifest = Manifest::new(job, JobDescription::default(), RunOptions::default());
//! let mut bytes = seal(&manifest)?;
//! assert_eq!(unseal(&bytes)?, manifest);
//! bytes[20] ^= 1;
//! assert!(unseal(&bytes).is_err());
//! # Ok::<(), standfast_format::manifest::ManifestError>(())
//! ```
#![forbid(unsafe_code)]

pub mod core_file;
pub mod image;
pub mod manifest;
pub mod records;
mod traits;

pub use traits::{BackingPage, BatchRange, BoxError, Contents, ImageSink, ImageSource, PageBatch, Run};
