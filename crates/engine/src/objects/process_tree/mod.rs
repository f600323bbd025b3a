//! The relations between the processes of a job: parents, groups, sessions, what they share, which are stopped by job
//! control, and which have ended but have not been reaped. `crate::births` decides in which order they are made.

mod check;
mod collect;
mod restore;
mod stops;

pub(crate) use check::is_sound_tree;
pub(crate) use collect::{Relations, ShownProcess, outline_of_tree, unreported};
pub(crate) use restore::Remains;
pub(crate) use stops::stop_the_stopped;
