//! The messages of the protocol and of encoding, and their bodies as CBOR. [`crate::envelope`] has what surrounds them.
//!
//! A message is used only after its envelope, job and plan proved right. This module accepts any body that makes sense by
//! itself; the state machines decide whether it fits the work in progress.

use crate::description::{DeltaDescriptor, Description};
use crate::envelope::{Envelope, MessageKind, Opened};
use crate::identity::{EpochId, EpochLevel, LogicalRank, Term};
use crate::message_error::MessageError;
use crate::plan::Plan;
use crate::protocol::{Control, Phase};
use crate::slots::{SlotError, SlotSet};
use minicbor::{Decode, Encode};
use standfast_core::Syndrome;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A message of the protocol.
    Control(Control),
    /// A message of encoding or rebuilding.
    Data(Data),
}

/// Messages between the logical ranks of one group while they encode or rebuild.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// The new description of a member's shard of the epoch, and the slots that changed.
    #[n(0)]
    DeltaDescriptor {
        /// The epoch.
        #[n(0)]
        epoch: EpochId,
        /// The changes to the member's previous description.
        #[n(1)]
        delta_descriptor: DeltaDescriptor,
    },
    /// The slots that make up a member's shard of the epoch, if checks are made in full. The member's delta descriptor
    /// follows.
    #[n(4)]
    WriteSet {
        /// The epoch.
        #[n(0)]
        epoch: EpochId,
        /// The member's logical rank.
        #[n(1)]
        logical_rank: LogicalRank,
        /// Slots that may have changed.
        #[n(2)]
        changed: SlotSet,
        /// Those, and all other slots that may hold something.
        #[n(3)]
        held: SlotSet,
    },
    /// The description of a member's shard of an epoch, for a process that has no shard of it.
    #[n(1)]
    Description {
        /// The epoch.
        #[n(0)]
        epoch: EpochId,
        /// The member's description.
        #[n(1)]
        description: Description,
    },
    /// Partial sums.
    #[n(2)]
    Part(#[n(0)] Part),
    /// Says that the sender is done with all pieces below this one, and accepts those of the window above it.
    #[n(3)]
    LowWaterMark {
        /// The epoch.
        #[n(0)]
        epoch: EpochId,
        /// The group.
        #[n(1)]
        group: u32,
        /// Number of the first piece that the sender is not done with.
        #[n(2)]
        piece: u32,
    },
}

/// Partial sums of one piece of one sum, on their way from one node of its tree to the next.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The epoch.
    #[n(0)]
    pub epoch: EpochId,
    /// The group.
    #[n(1)]
    pub group: u32,
    /// Index of the sum in the transfer.
    #[n(2)]
    pub sum: u32,
    /// Number of the piece in the transfer.
    #[n(3)]
    pub piece: u32,
    /// The node that receives it.
    #[n(4)]
    pub to: Node,
    /// Stripes of the piece that the part contains, one bit each.
    #[n(5)]
    pub stripes: u64,
    /// Number of sums for each stripe.
    #[n(6)]
    pub sums: u32,
    /// Whether pages are in word form if that is shorter; a byte before each page says which form it has.
    #[n(7)]
    pub words: bool,
    /// Expected syndrome of each page, sum by sum, computed from the shares in it.
    #[cbor(n(8), with = "syndromes")]
    pub syndromes: Vec<Syndrome>,
    /// The pages, sum by sum. They come before the body of the message.
    #[cbor(skip)]
    pub bytes: Vec<u8>,
}

/// Syndromes on the wire: one string of bytes.
mod syndromes {
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder, decode::Error};
    use standfast_core::Syndrome;

    pub(super) fn encode<C, W: Write>(
        syndromes: &[Syndrome],
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        let bytes: Vec<u8> = syndromes.iter().flat_map(|syndrome| syndrome.to_bytes()).collect();
        encoder.bytes(&bytes)?.ok()
    }

    pub(super) fn decode<C>(decoder: &mut Decoder<'_>, _: &mut C) -> Result<Vec<Syndrome>, Error> {
        let (syndromes, rest) = decoder.bytes()?.as_chunks::<{ Syndrome::BYTES }>();
        match rest {
            [] => Ok(syndromes.iter().map(|bytes| Syndrome::from_bytes(*bytes)).collect()),
            _ => Err(Error::message("a syndrome has 8 bytes")),
        }
    }
}

/// A node in the tree of a sum.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    /// Adds its own share: the contributor with this number.
    #[n(0)]
    Hop(#[n(0)] u32),
    /// Takes the sum: the target with this number.
    #[n(1)]
    Target(#[n(0)] u32),
    /// Takes the target's solution: the lost column with this number.
    #[n(2)]
    Replacement(#[n(0)] u32),
}

/// Encodes a message.
pub fn encode(plan: &Plan, term: Term, message: Message) -> Vec<u8> {
    let (kind, mut bytes, message) = match message {
        Message::Data(Data::Part(mut part)) => {
            (MessageKind::Data, std::mem::take(&mut part.bytes), Message::Data(Data::Part(part)))
        }
        Message::Data(_) => (MessageKind::Data, Vec::new(), message),
        Message::Control(_) => (MessageKind::Control, Vec::new(), message),
    };
    let pages = bytes.len();
    match &message {
        Message::Control(control) => minicbor::encode(control, &mut bytes),
        Message::Data(data) => minicbor::encode(data, &mut bytes),
    }
    .expect("a vector takes all bytes");
    Envelope { kind, job: plan.job(), plan: plan.digest(), term }.seal(bytes, pages)
}

/// Decodes a message.
///
/// # Errors
/// [`MessageError`]
pub fn decode(plan: &Plan, mut bytes: Vec<u8>) -> Result<(Term, Message), MessageError> {
    let Opened { envelope, pages, body } = Envelope::open(&bytes)?;
    if envelope.job != plan.job() {
        return Err(MessageError::ForeignJob(envelope.job));
    }
    if envelope.plan != plan.digest() {
        return Err(MessageError::ForeignPlan);
    }
    let mut message = match envelope.kind {
        MessageKind::Control => Message::Control(whole(&bytes[body])?),
        MessageKind::Data => Message::Data(whole(&bytes[body])?),
        MessageKind::Driver => return Err(MessageError::Senseless("it is a message of the drivers".into())),
    };
    match &mut message {
        Message::Data(Data::Part(part)) => {
            bytes.truncate(pages);
            part.bytes = bytes;
        }
        _ if pages > 0 => return Err(MessageError::Senseless("it has pages, and its kind has none".into())),
        _ => {}
    }
    check(plan, &message)?;
    Ok((envelope.term, message))
}

fn whole<'b, T: Decode<'b, ()>>(body: &'b [u8]) -> Result<T, MessageError> {
    let mut decoder = minicbor::Decoder::new(body);
    let value = decoder.decode().map_err(|error| MessageError::Senseless(error.to_string()))?;
    if decoder.position() != body.len() {
        return Err(MessageError::Senseless("more follows after its end".into()));
    }
    Ok(value)
}

/// Checks a body by itself. Its epochs must belong to the job, its logical ranks to the plan.
fn check(plan: &Plan, message: &Message) -> Result<(), MessageError> {
    let senseless = |reason: String| Err(MessageError::Senseless(reason));
    let epochs = epochs(message);
    if let Some(foreign) = epochs.iter().find(|epoch| epoch.job != plan.job()) {
        return Err(MessageError::ForeignJob(foreign.job));
    }
    if let Message::Data(Data::LowWaterMark { group, .. } | Data::Part(Part { group, .. })) = message
        && *group as usize >= plan.groups().len()
    {
        return senseless(format!("the plan has no group {group}"));
    }
    if let Some(logical_rank) = logical_ranks(message).into_iter().find(|logical_rank| !plan.has(*logical_rank)) {
        return senseless(format!("the plan has no logical rank {}", logical_rank.0));
    }
    let (logical_rank, checked) = match message {
        Message::Data(Data::DeltaDescriptor { delta_descriptor, .. }) => {
            (delta_descriptor.logical_rank, delta_descriptor.check())
        }
        Message::Data(Data::Description { description, .. }) => (description.logical_rank, description.check()),
        Message::Data(Data::WriteSet { logical_rank, changed, held, .. }) => {
            (*logical_rank, check_write_set(changed, held))
        }
        Message::Data(Data::Part(part)) => return check_part(part),
        _ => return Ok(()),
    };
    if !plan.is_member(logical_rank) {
        return senseless(format!("logical rank {} belongs to no member", logical_rank.0));
    }
    checked.or_else(|error| senseless(error.to_string()))
}

fn check_write_set(changed: &SlotSet, held: &SlotSet) -> Result<(), SlotError> {
    match changed.iter().all(|slot| held.contains(slot)) {
        true => Ok(()),
        false => Err(SlotError::Senseless("slots have changed that the member has not")),
    }
}

/// Checks the lengths of a part. Raw pages have exactly the length that stripes and sums require; pages in word form are
/// shorter, or one byte a page longer.
fn check_part(part: &Part) -> Result<(), MessageError> {
    let pages = u64::from(part.stripes.count_ones()) * u64::from(part.sums);
    let raw = pages * standfast_core::PAGE_BYTES as u64;
    let right = if part.words { part.bytes.len() as u64 <= raw + pages } else { part.bytes.len() as u64 == raw };
    if right && pages > 0 && part.syndromes.len() as u64 == pages {
        return Ok(());
    }
    let (bytes, syndromes) = (part.bytes.len(), part.syndromes.len());
    Err(MessageError::Senseless(format!("{bytes} bytes and {syndromes} syndromes stand for {pages} pages")))
}

/// Returns the epoch of the message that has the life and number of `here` and is another, if the two have the same term.
pub(crate) fn other_epoch(message: &Message, here: EpochId) -> Option<EpochId> {
    // Reports and restore decisions may name epochs of any history.
    let of_any = matches!(message, Message::Control(Control::Report(_) | Control::Restore(..)));
    let same_place = |epoch: &EpochId| (epoch.life, epoch.number) == (here.life, here.number) && *epoch != here;
    epochs(message).into_iter().filter(|_| !of_any).find(same_place)
}

fn epochs(message: &Message) -> Vec<EpochId> {
    match message {
        Message::Control(Control::Report(report)) => {
            report.holdings.iter().flat_map(|holding| [Some(holding.epoch), base(holding.level)]).flatten().collect()
        }
        Message::Control(Control::Restore(restore, _)) => {
            [restore.epoch, base(restore.level)].into_iter().flatten().collect()
        }
        Message::Control(Control::Refuse(_) | Control::Phase(Phase::Arrived(_))) => Vec::new(),
        Message::Control(Control::Phase(phase)) => match phase {
            Phase::Prepare(epoch, base, ..) => base.iter().chain([epoch]).copied().collect(),
            Phase::PrepareLocal(epoch, base) => vec![*base, *epoch],
            Phase::Sealed(epoch) | Phase::Commit(epoch) | Phase::Acknowledged(epoch) | Phase::Stable(epoch) => {
                vec![*epoch]
            }
            Phase::Failed(epoch, _) | Phase::Abandon(epoch, _) => vec![*epoch],
            Phase::Damaged(epoch, piece) => vec![*epoch, piece.epoch],
            Phase::Arrived(_) => Vec::new(),
        },
        Message::Data(data) => vec![data.epoch()],
    }
}

fn base(level: EpochLevel) -> Option<EpochId> {
    match level {
        EpochLevel::Encoded => None,
        EpochLevel::Local(base) => base,
    }
}

fn logical_ranks(message: &Message) -> Vec<LogicalRank> {
    match message {
        Message::Control(Control::Report(report)) => {
            report.holdings.iter().map(|holding| holding.logical_rank).chain(report.prefers).collect()
        }
        Message::Control(Control::Restore(restore, _)) => {
            restore.logical_ranks.iter().chain(&restore.sources).map(|(logical_rank, _)| *logical_rank).collect()
        }
        Message::Control(Control::Phase(Phase::Damaged(_, piece))) => vec![piece.logical_rank],
        Message::Data(Data::DeltaDescriptor { delta_descriptor, .. }) => vec![delta_descriptor.logical_rank],
        Message::Data(Data::Description { description, .. }) => vec![description.logical_rank],
        Message::Data(Data::WriteSet { logical_rank, .. }) => vec![*logical_rank],
        _ => Vec::new(),
    }
}

impl Data {
    /// Returns the group of the message.
    pub fn group(&self, plan: &Plan) -> usize {
        match self {
            Self::DeltaDescriptor { delta_descriptor, .. } => plan.place(delta_descriptor.logical_rank).0,
            Self::Description { description, .. } => plan.place(description.logical_rank).0,
            Self::WriteSet { logical_rank, .. } => plan.place(*logical_rank).0,
            Self::LowWaterMark { group, .. } | Self::Part(Part { group, .. }) => *group as usize,
        }
    }

    /// Returns the epoch of the message.
    pub fn epoch(&self) -> EpochId {
        match self {
            Self::DeltaDescriptor { epoch, .. }
            | Self::WriteSet { epoch, .. }
            | Self::Description { epoch, .. }
            | Self::LowWaterMark { epoch, .. } => *epoch,
            Self::Part(part) => part.epoch,
        }
    }
}
