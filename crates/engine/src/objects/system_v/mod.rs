//! System V objects: segments, which are memory objects; semaphores with what the end of a process does to them; and
//! message queues with their messages.

mod collect;
mod leftover;
mod restore;
mod undo;

use collect::is_gone;
pub(crate) use collect::{SystemV, SystemVContents};
pub(crate) use leftover::pid_namespace;
use leftover::{is_leftover, made_since, was_elsewhere, was_here};
pub(crate) use restore::{MadeSystemV, has_ipc, refuse_shared_ipc, remove_leftovers, remove_made_since};
pub(crate) use undo::{FoundUndo, Probe, probes};
