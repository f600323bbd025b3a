//! Messages between the drivers of a job, beside the protocol's own: which process runs where, which data lies where, and
//! files that move to where their rank now runs.
//!
//! The last byte of every message says which of the two it is: at the end, it costs nothing to add and to remove.

use crate::error::MemberError;
use crate::plan_record::PlanRecord;
use crate::transport::{Patience, Transport};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use standfast_format::manifest::JobId;
use standfast_group::{EpochId, EpochLevel, Life, LogicalRank};
use std::collections::VecDeque;

const NOTE: u8 = 0;
const PROTOCOL: u8 = 1;

/// A message between drivers.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// To the first process: this process is present, with this data on its node.
    #[n(0)]
    Present(#[n(0)] Presence),
    /// From the first process: the job begins with this arrangement.
    #[n(1)]
    Arrange(#[n(0)] Arrangement),
    /// From the first process: the job cannot begin.
    #[n(2)]
    Refuse(#[n(0)] String),
    /// A part of a file of a logical rank's shard store.
    #[n(3)]
    Part(#[n(0)] LogicalRank, #[n(1)] String, #[n(2)] u64, #[n(3)] ByteVec),
    /// The part has been received: send more.
    #[n(4)]
    Taken(#[n(0)] LogicalRank),
    /// The shard store is complete.
    #[n(5)]
    Whole(#[n(0)] LogicalRank),
    /// The shard store cannot be sent.
    #[n(6)]
    Lacking(#[n(0)] LogicalRank, #[n(1)] String),
    /// From the first process: whether a checkpoint is due.
    #[n(7)]
    Due(#[n(0)] bool),
    /// To the first process, and back from it when all have sent it: the job is done.
    #[n(8)]
    Done,
    /// To the first process: the last copy to the directory has ended, and why it failed if it did.
    #[n(9)]
    Flushed(#[n(0)] Option<String>),
    /// From the first process: whether this epoch is copied to the directory.
    #[n(10)]
    Flush(#[n(0)] bool),
    /// To the first process, instead of a presence: this process cannot take part.
    #[n(11)]
    Absent(#[n(0)] String),
    /// To the first process: whether this process can continue, else why not.
    #[n(12)]
    Able(#[n(0)] Option<String>),
    /// From the first process: whether all can continue, else why one cannot.
    #[n(13)]
    Agreed(#[n(0)] Option<String>),
    /// To all: this process cannot continue, for this reason, and so the job cannot either.
    #[n(14)]
    Leaves(#[n(0)] String),
}

/// A process, and the data on its node.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Presence {
    #[n(0)]
    pub(crate) job: JobId,
    #[n(1)]
    pub(crate) node: String,
    /// What must be the same in all processes: version and settings, as text.
    #[n(2)]
    pub(crate) terms: String,
    #[n(3)]
    pub(crate) shard_stores: Vec<ShardStoreNote>,
}

/// A shard store in the memory of a node.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardStoreNote {
    #[n(0)]
    pub(crate) logical_rank: LogicalRank,
    /// Life and number of its newest shard; if there is none, the life that it knows and 0.
    #[n(1)]
    pub(crate) age: (Life, u64),
    /// The plan of its shards; `None` if it has none.
    #[n(2)]
    pub(crate) plan: Option<PlanRecord>,
    /// The latest life that it knows.
    #[n(3)]
    pub(crate) life: Life,
    /// Epochs of which it has a shard, and their levels.
    #[n(4)]
    pub(crate) epochs: Vec<(EpochId, EpochLevel)>,
}

/// How the job begins.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrangement {
    #[n(0)]
    pub(crate) plan: PlanRecord,
    /// The first rank of the node of each rank.
    #[n(1)]
    pub(crate) leaders: Vec<u32>,
    #[n(2)]
    pub(crate) moves: Vec<Move>,
    /// Nodes whose loss would be too much, as text.
    #[n(3)]
    pub(crate) warnings: Vec<String>,
    /// What the directory holds of the job; `None` for nothing.
    #[n(4)]
    pub(crate) directory: Option<InDirectory>,
    #[n(5)]
    pub(crate) job: JobId,
}

/// The content of a directory.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) enum InDirectory {
    /// Epochs that can be restored, the newest first, if their copies are good.
    #[n(0)]
    Epochs {
        #[n(0)]
        epochs: Vec<EpochId>,
        /// The latest life that any shard store knows.
        #[n(1)]
        life: Life,
        /// Whether memory holds nothing that new.
        #[n(2)]
        is_newest: bool,
    },
    /// Too little to restore, for this reason.
    #[n(1)]
    NotEnough(#[n(0)] String),
}

/// A shard store on another node than the one on which its rank runs.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    #[n(0)]
    pub(crate) logical_rank: LogicalRank,
    #[n(1)]
    pub(crate) from: u32,
    #[n(2)]
    pub(crate) to: u32,
}

/// A transport that distinguishes the two kinds of messages and keeps those that were not requested yet.
#[derive(Debug)]
pub(crate) struct Wire<T> {
    transport: T,
    notes: VecDeque<(u32, Note)>,
    protocol: VecDeque<(u32, Vec<u8>)>,
}

impl<T: Transport> Wire<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, notes: VecDeque::new(), protocol: VecDeque::new() }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.transport.rank()
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.transport.ranks()
    }

    /// Pauses the transport until the next call of a function that waits.
    pub(crate) fn pause(&mut self) -> Result<(), MemberError> {
        Ok(self.transport.pause()?)
    }

    /// Sends a note, possibly to this process.
    pub(crate) fn tell(&mut self, to: u32, note: &Note) -> Result<(), MemberError> {
        if to == self.rank() {
            self.notes.push_back((to, note.clone()));
            return Ok(());
        }
        let mut bytes = minicbor::to_vec(note).expect("a vector takes everything");
        bytes.push(NOTE);
        Ok(self.transport.send(to, bytes)?)
    }

    /// Sends a note to all processes, including this one.
    pub(crate) fn tell_all(&mut self, note: &Note) -> Result<(), MemberError> {
        (0..self.ranks()).try_for_each(|to| self.tell(to, note))
    }

    /// Sends a message of the protocol.
    pub(crate) fn send(&mut self, to: u32, mut bytes: Vec<u8>) -> Result<(), MemberError> {
        bytes.push(PROTOCOL);
        Ok(self.transport.send(to, bytes)?)
    }

    /// Waits for a note of certain kinds, and returns it with its sender. Other notes are kept for later requests.
    pub(crate) fn note_among(&mut self, kinds: impl Fn(&Note) -> bool) -> Result<(u32, Note), MemberError> {
        loop {
            if let Some(at) = self.notes.iter().position(|(_, note)| kinds(note)) {
                return Ok(self.notes.remove(at).expect("it has just been found there"));
            }
            self.take_one(Patience::Answer)?;
        }
    }

    /// Waits for a note of one kind, and returns what `kind` extracts from it.
    pub(crate) fn note_of<V>(&mut self, kind: impl Fn(&Note) -> Option<V>) -> Result<V, MemberError> {
        loop {
            if let Some(note) = self.note_here(&kind) {
                return Ok(note);
            }
            self.take_one(Patience::Answer)?;
        }
    }

    /// Returns a note of one kind that has already arrived.
    pub(crate) fn note_here<V>(&mut self, kind: impl Fn(&Note) -> Option<V>) -> Option<V> {
        let (at, value) = self.notes.iter().enumerate().find_map(|(at, (_, note))| Some((at, kind(note)?)))?;
        self.notes.remove(at);
        Some(value)
    }

    /// Lets all processes agree whether they can continue. If one cannot, none does, and all learn why.
    ///
    /// # Errors
    /// [`MemberError::Disagreement`], which names the process.
    pub(crate) fn agree<V>(&mut self, mine: Result<V, MemberError>) -> Result<V, MemberError> {
        let reason = mine.as_ref().err().map(|error| format!("process {}: {error}", self.rank()));
        self.tell(0, &Note::Able(reason))?;
        if self.rank() == 0 {
            let mut refused = None;
            for _ in 0..self.ranks() {
                let reason = self.note_of(|note| match note {
                    Note::Able(reason) => Some(reason.clone()),
                    _ => None,
                })?;
                refused = refused.or(reason);
            }
            self.tell_all(&Note::Agreed(refused))?;
        }
        let refused = self.note_of(|note| match note {
            Note::Agreed(refused) => Some(refused.clone()),
            _ => None,
        })?;
        refused.map_or(mine, |reason| Err(MemberError::Disagreement(reason)))
    }

    /// Waits for a message of the protocol.
    pub(crate) fn message(&mut self, patience: Patience) -> Result<(u32, Vec<u8>), MemberError> {
        loop {
            if let Some(message) = self.protocol.pop_front() {
                return Ok(message);
            }
            self.take_one(patience)?;
        }
    }

    fn take_one(&mut self, patience: Patience) -> Result<(), MemberError> {
        let Some((from, mut bytes)) = self.transport.receive()? else {
            self.transport.idle(patience);
            return Ok(());
        };
        match bytes.pop() {
            Some(PROTOCOL) => {
                self.protocol.push_back((from, bytes));
                Ok(())
            }
            Some(NOTE) => {
                let note = minicbor::decode(&bytes).map_err(|error| {
                    MemberError::Disagreement(format!(
                        "process {from} sent a message that cannot be decoded ({error}): all processes must use one version"
                    ))
                })?;
                if let Note::Leaves(reason) = note {
                    return Err(MemberError::Disagreement(format!("process {from}: {reason}")));
                }
                self.notes.push_back((from, note));
                Ok(())
            }
            _ => Err(MemberError::Disagreement(format!("process {from} sent a message of an unknown kind"))),
        }
    }
}
