//! System V objects: segments, which are memory objects; semaphores with what the end of a process does to them; and
//! message queues with their messages.

mod collect;
mod restore;
mod undo;

pub(crate) use collect::{SystemV, SystemVContents, pid_namespace};
use collect::{is_gone, is_leftover, made_since, was_here};
pub(crate) use restore::{MadeSystemV, has_ipc, refuse_shared_ipc, remove_leftovers, remove_made_since};
pub(crate) use undo::{FoundUndo, Probe, probes};
