//! Messages between the drivers of a job, beside the protocol's own: which process runs where, which data lies where, and
//! files that move to where their rank now runs.
//! Both travel in the same envelope.

use crate::error::MemberError;
use crate::plan_record::PlanRecord;
use crate::transport::{Patience, Transport};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use standfast_core::Checksum;
use standfast_format::manifest::JobId;
use standfast_group::{Envelope, EpochId, EpochLevel, Life, LogicalRank, MessageError, MessageKind, Opened, Term};
use std::collections::VecDeque;

/// A message between drivers.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) enum DriverMessage {
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
    job: JobId,
    messages: VecDeque<(u32, DriverMessage)>,
    protocol: VecDeque<(u32, Vec<u8>)>,
}

impl<T: Transport> Wire<T> {
    pub(crate) fn new(transport: T, job: JobId) -> Self {
        Self { transport, job, messages: VecDeque::new(), protocol: VecDeque::new() }
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

    /// Sends a message, possibly to this process.
    pub(crate) fn send_driver(&mut self, to: u32, message: &DriverMessage) -> Result<(), MemberError> {
        if to == self.rank() {
            self.messages.push_back((to, message.clone()));
            return Ok(());
        }
        let body = minicbor::to_vec(message).expect("a vector takes everything");
        let (kind, plan, term) = (MessageKind::Driver, Checksum::default(), Term::default());
        Ok(self.transport.send(to, Envelope { kind, job: self.job, plan, term }.seal(body, 0))?)
    }

    /// Sends a message to all processes, including this one.
    pub(crate) fn send_driver_to_all(&mut self, message: &DriverMessage) -> Result<(), MemberError> {
        (0..self.ranks()).try_for_each(|to| self.send_driver(to, message))
    }

    /// Sends a message of the protocol.
    pub(crate) fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<(), MemberError> {
        Ok(self.transport.send(to, bytes)?)
    }

    /// Waits for a message of certain kinds, and returns it with its sender. Other messages are kept for later requests.
    pub(crate) fn message_among(
        &mut self,
        kinds: impl Fn(&DriverMessage) -> bool,
    ) -> Result<(u32, DriverMessage), MemberError> {
        loop {
            if let Some(at) = self.messages.iter().position(|(_, message)| kinds(message)) {
                return Ok(self.messages.remove(at).expect("it has just been found there"));
            }
            self.take_one(Patience::Answer)?;
        }
    }

    /// Waits for a message of one kind, and returns what `kind` extracts from it.
    pub(crate) fn message_of<V>(&mut self, kind: impl Fn(&DriverMessage) -> Option<V>) -> Result<V, MemberError> {
        loop {
            if let Some(message) = self.message_here(&kind) {
                return Ok(message);
            }
            self.take_one(Patience::Answer)?;
        }
    }

    /// Returns a message of one kind that has already arrived.
    pub(crate) fn message_here<V>(&mut self, kind: impl Fn(&DriverMessage) -> Option<V>) -> Option<V> {
        let (at, value) = self.messages.iter().enumerate().find_map(|(at, (_, message))| Some((at, kind(message)?)))?;
        self.messages.remove(at);
        Some(value)
    }

    /// Lets all processes agree whether they can continue. If one cannot, none does, and all learn why.
    ///
    /// # Errors
    /// [`MemberError::Disagreement`], which names the process.
    pub(crate) fn agree<V>(&mut self, mine: Result<V, MemberError>) -> Result<V, MemberError> {
        let reason = mine.as_ref().err().map(|error| format!("process {}: {error}", self.rank()));
        self.send_driver(0, &DriverMessage::Able(reason))?;
        if self.rank() == 0 {
            let mut refused = None;
            for _ in 0..self.ranks() {
                let reason = self.message_of(|message| match message {
                    DriverMessage::Able(reason) => Some(reason.clone()),
                    _ => None,
                })?;
                refused = refused.or(reason);
            }
            self.send_driver_to_all(&DriverMessage::Agreed(refused))?;
        }
        let refused = self.message_of(|message| match message {
            DriverMessage::Agreed(refused) => Some(refused.clone()),
            _ => None,
        })?;
        refused.map_or(mine, |reason| Err(MemberError::Disagreement(reason)))
    }

    /// Waits for a message of the protocol.
    pub(crate) fn protocol_message(&mut self, patience: Patience) -> Result<(u32, Vec<u8>), MemberError> {
        loop {
            if let Some(message) = self.protocol.pop_front() {
                return Ok(message);
            }
            self.take_one(patience)?;
        }
    }

    fn take_one(&mut self, patience: Patience) -> Result<(), MemberError> {
        let Some((from, bytes)) = self.transport.receive()? else {
            self.transport.idle(patience);
            return Ok(());
        };
        if !Envelope::claims_to_be_of_drivers(&bytes) {
            // The protocol opens its messages itself.
            self.protocol.push_back((from, bytes));
            return Ok(());
        }
        let message = opened(&bytes).map_err(|error| {
            MemberError::Disagreement(format!(
                "process {from} sent a message that cannot be decoded ({error})\nhint: use one version everywhere"
            ))
        })?;
        if let DriverMessage::Leaves(reason) = message {
            return Err(MemberError::Disagreement(format!("process {from}: {reason}")));
        }
        self.messages.push_back((from, message));
        Ok(())
    }
}

fn opened(bytes: &[u8]) -> Result<DriverMessage, MessageError> {
    let Opened { body, .. } = Envelope::open(bytes)?;
    minicbor::decode(&bytes[body]).map_err(|error| MessageError::Senseless(error.to_string()))
}
