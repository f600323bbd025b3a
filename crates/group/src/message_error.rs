//! Why some bytes are not a message to this process.

use crate::identity::EpochId;
use standfast_format::manifest::JobId;

/// Longest message. The delta descriptor of a tebibyte of which everything has changed takes 96 MiB, its slot map a little
/// more; parts are far below it. Every process refuses longer messages, and the epoch is abandoned.
pub const MESSAGE_BYTES_MAX: usize = 128 << 20;

/// The version of messages. All processes of a job run the same build, so there is no other.
pub const MESSAGE_VERSION: u16 = 6;

/// Why bytes are not a message for this process.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// Not a message at all.
    #[error("it is not a message of a Standfast group")]
    Foreign,
    /// From another build.
    #[error("it has version {0}, and this build uses {MESSAGE_VERSION}: run the same build everywhere")]
    Version(u16),
    /// From another job.
    #[error("it belongs to job {0}, not to this one")]
    ForeignJob(JobId),
    /// About another epoch with the same number as the local one, from another history of the job.
    #[error("it belongs to epoch {found}, and here that number is {here}: another life of this job is still running")]
    OtherEpoch {
        /// The epoch of the message.
        found: EpochId,
        /// The epoch that has this number here.
        here: EpochId,
    },
    /// From another plan.
    #[error("it belongs to another plan of this job: start all processes with the same groups")]
    ForeignPlan,
    /// Longer than any message.
    #[error("it has {0} bytes, at most {MESSAGE_BYTES_MAX} are taken")]
    TooLong(usize),
    /// Its length is not the one that it states.
    #[error("it has {found} bytes and claims {claimed}")]
    Length {
        /// Bytes received.
        found: usize,
        /// Bytes stated in its foot.
        claimed: usize,
    },
    /// Not the bytes that were sent.
    #[error("its checksum does not match")]
    Damaged,
    /// Intact, but it makes no sense.
    #[error("it makes no sense: {0}")]
    Senseless(String),
}
