//! What the drivers of a job tell each other, beside the protocol's own messages: who is where, what lies where, files that
//! move to where their rank now runs.
//!
//! The last byte of every message says which of the two it is: there it costs nothing to add and to take off.

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
    /// To the first: here I am, and this lies on my node.
    #[n(0)]
    Present(#[n(0)] Presence),
    /// From the first: so it shall be.
    #[n(1)]
    Arrange(#[n(0)] Arrangement),
    /// From the first: it cannot be.
    #[n(2)]
    Refuse(#[n(0)] String),
    /// A part of a file of a logical rank's shard store.
    #[n(3)]
    Part(#[n(0)] LogicalRank, #[n(1)] String, #[n(2)] u64, #[n(3)] ByteVec),
    /// It has been taken: send more.
    #[n(4)]
    Taken(#[n(0)] LogicalRank),
    /// That was all of the shard store.
    #[n(5)]
    Whole(#[n(0)] LogicalRank),
    /// The shard store cannot be sent.
    #[n(6)]
    Lacking(#[n(0)] LogicalRank, #[n(1)] String),
    /// From the first: whether a checkpoint is due.
    #[n(7)]
    Due(#[n(0)] bool),
    /// To the first, and back from it when all have said it: the job is done.
    #[n(8)]
    Done,
    /// To the first: the last copy to the directory has ended, and why it failed.
    #[n(9)]
    Flushed(#[n(0)] Option<String>),
    /// From the first: whether this epoch is copied to the directory.
    #[n(10)]
    Flush(#[n(0)] bool),
    /// To the first, in the place of a presence: this process cannot be there.
    #[n(11)]
    Absent(#[n(0)] String),
    /// To the first: whether this process can go on, else why not.
    #[n(12)]
    Able(#[n(0)] Option<String>),
    /// From the first: whether all can, else why somebody cannot.
    #[n(13)]
    Agreed(#[n(0)] Option<String>),
    /// To all: this process cannot go on, for this reason, so that nobody can.
    #[n(14)]
    Leaves(#[n(0)] String),
}

/// Who a process is, and what lies on its node.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Presence {
    #[n(0)]
    pub(crate) job: JobId,
    #[n(1)]
    pub(crate) node: String,
    /// What all must have alike: version and settings, in words.
    #[n(2)]
    pub(crate) terms: String,
    #[n(3)]
    pub(crate) shard_stores: Vec<ShardStoreNote>,
}

/// A shard store that lies somewhere.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardStoreNote {
    #[n(0)]
    pub(crate) logical_rank: LogicalRank,
    /// Life and number of its newest shard, or the life that it knows of and 0.
    #[n(1)]
    pub(crate) age: (Life, u64),
    /// By which its shards are encoded; `None` where it has none.
    #[n(2)]
    pub(crate) plan: Option<PlanRecord>,
    /// The latest life that it knows of.
    #[n(3)]
    pub(crate) life: Life,
    /// Epochs of which it has a shard, and how they are kept.
    #[n(4)]
    pub(crate) epochs: Vec<(EpochId, EpochLevel)>,
}

/// How the job begins.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrangement {
    #[n(0)]
    pub(crate) plan: PlanRecord,
    /// For each rank the first rank of its node.
    #[n(1)]
    pub(crate) leaders: Vec<u32>,
    #[n(2)]
    pub(crate) moves: Vec<Move>,
    /// What the loss of one node would be too much for, in words.
    #[n(3)]
    pub(crate) warnings: Vec<String>,
    /// What the directory holds of the job; `None` where that is nothing.
    #[n(4)]
    pub(crate) directory: Option<InDirectory>,
    #[n(5)]
    pub(crate) job: JobId,
}

/// What a directory has to offer.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) enum InDirectory {
    /// These epochs can be gone back to, the newest first, if what is there of them is good.
    #[n(0)]
    Epochs {
        #[n(0)]
        epochs: Vec<EpochId>,
        /// No shard store knows a later life.
        #[n(1)]
        life: Life,
        /// Memory holds nothing as new.
        #[n(2)]
        is_newest: bool,
    },
    /// Nothing, for this reason.
    #[n(1)]
    NotEnough(#[n(0)] String),
}

/// A shard store that lies on another node than its rank runs on.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    #[n(0)]
    pub(crate) logical_rank: LogicalRank,
    #[n(1)]
    pub(crate) from: u32,
    #[n(2)]
    pub(crate) to: u32,
}

/// A transport that tells the two kinds of messages apart and keeps what is not asked for yet.
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

    /// Nothing is waited for until the next call of a function that waits.
    pub(crate) fn pause(&mut self) -> Result<(), MemberError> {
        Ok(self.transport.pause()?)
    }

    /// Sends a note, also to oneself.
    pub(crate) fn tell(&mut self, to: u32, note: &Note) -> Result<(), MemberError> {
        if to == self.rank() {
            self.notes.push_back((to, note.clone()));
            return Ok(());
        }
        let mut bytes = minicbor::to_vec(note).expect("a vector takes everything");
        bytes.push(NOTE);
        Ok(self.transport.send(to, bytes)?)
    }

    /// Sends a note to all, also to oneself.
    pub(crate) fn tell_all(&mut self, note: &Note) -> Result<(), MemberError> {
        (0..self.ranks()).try_for_each(|to| self.tell(to, note))
    }

    /// Sends a message of the protocol.
    pub(crate) fn send(&mut self, to: u32, mut bytes: Vec<u8>) -> Result<(), MemberError> {
        bytes.push(PROTOCOL);
        Ok(self.transport.send(to, bytes)?)
    }

    /// Waits for a note of certain kinds, with its sender; others wait for who asks for them.
    pub(crate) fn note_among(&mut self, kinds: impl Fn(&Note) -> bool) -> Result<(u32, Note), MemberError> {
        loop {
            if let Some(at) = self.notes.iter().position(|(_, note)| kinds(note)) {
                return Ok(self.notes.remove(at).expect("it has just been found there"));
            }
            self.take_one(Patience::Answer)?;
        }
    }

    /// Waits for a note of one kind, and takes from it what is asked for.
    pub(crate) fn note_of<V>(&mut self, kind: impl Fn(&Note) -> Option<V>) -> Result<V, MemberError> {
        loop {
            if let Some(note) = self.note_here(&kind) {
                return Ok(note);
            }
            self.take_one(Patience::Answer)?;
        }
    }

    /// A note of one kind that has come.
    pub(crate) fn note_here<V>(&mut self, kind: impl Fn(&Note) -> Option<V>) -> Option<V> {
        let (at, value) = self.notes.iter().enumerate().find_map(|(at, (_, note))| Some((at, kind(note)?)))?;
        self.notes.remove(at);
        Some(value)
    }

    /// All say whether they can go on. Where one cannot, nobody does, and all know why.
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
