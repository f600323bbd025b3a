//! Files as others see them: their contents, and who else writes to them. Both the collection and the restart use this
//! module. How to treat the files of a job is up to these two.

mod build_id;
mod by_path;
mod database;
mod digest;
mod first_page;
mod id;
mod stamp;
mod writers;

pub(crate) use build_id::build_id;
pub(crate) use by_path::{References, names_in, opened, reference};
pub(crate) use database::is_database;
pub(crate) use digest::{Digests, Haste, Scan, digest_of, identity, open};
pub use first_page::first_page;
pub(crate) use id::FileId;
pub(crate) use stamp::{Proof, TICK_NANOSECONDS, is_fresh, times_tell_at};
pub(crate) use writers::{Writers, describe, other_holder, other_writers, residents};
