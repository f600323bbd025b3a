//! The protocol between the parts of a distributed job, without sockets, clocks or processes: events go in, effects come
//! out. A part is what runs on one node. A coordinator speaks with all parts; the parts do not speak with each other but
//! over the job's own connections.
//!
//! ```text
//! list_changes  lists that are said again and again: what has changed in them
//! message       what a part and the coordinator say to each other
//! pairing       which two ends are one connection, and whether anything is on its way between them
//! cut           a checkpoint of all parts: prepare, freeze, meet, capture, thaw, seal
//! restart       a restart of all parts, step by step
//! epoch         which checkpoints of the parts belong together
//! ```
//!
//! The cut follows from two rules: no part is thawed before all have captured, and an epoch counts only if all have sealed
//! it. So no message is on its way at a cut, and nothing needs to be logged.
#![forbid(unsafe_code)]

mod cut;
mod epoch;
mod list_changes;
mod message;
mod pairing;
mod restart;

pub use cut::{Cut, CutOutcome};
pub use epoch::{CompleteEpoch, CutOrder, PartsEpoch, SealedEpoch, complete_epochs};
pub use list_changes::ListChanges;
pub use message::{
    AskedEnd, AskedEndFate, ClosedConnectionEnd, ConnectionEnd, EndName, FromPart, MeetingReport, OppositeEnd,
    PartnerEnd, RestartBarrier, ToPart,
};
pub use pairing::{Pairing, PartReport, pair};
pub use restart::{PartsRestart, RestartOutcome};

/// A part, by its position among the parts of the job.
pub type PartIndex = usize;

/// What the coordinator hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorEvent {
    /// A part has said something.
    Said(PartIndex, FromPart),
    /// The connection to a part has ended.
    Lost(PartIndex),
    /// The time for what all wait for is over.
    TimeUp,
}

/// What the coordinator does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorEffect {
    /// To whom it speaks.
    pub to: PartIndex,
    /// What it says.
    pub message: ToPart,
}

#[cfg(test)]
mod exploration;
