//! Reasons for which a checkpoint fails.

use crate::settings::Reserve;
use bytesize::ByteSize;
use standfast_engine::EngineError;
use standfast_format::BoxError;
use standfast_store::StoreError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why a checkpoint failed. The program continues to run, or had ended.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the engine.
    Engine(EngineError),
    /// An error of the store.
    Store(StoreError),
    /// A file that the program writes could not be made durable.
    Output(io::Error),
    /// The checkpoint would leave less free space on the disk than the user wants.
    TooLittleSpace {
        /// Directory of the checkpoint.
        directory: PathBuf,
        /// Bytes that the checkpoint may take.
        image_bytes: u64,
        /// Space that must stay free.
        reserve: Reserve,
    },
    /// A thread could not be started.
    Thread(io::Error),
    /// The program's statements about its memory differed from those that were read ahead. Another attempt follows.
    Outdated,
    /// The program has disabled checkpoints for now, and will report when it has enabled them.
    Disabled,
    /// The other parts of the distributed job have given up.
    OtherParts(String),
    /// The thread panicked, which is a fault of Standfast itself.
    Broken,
}

impl Failure {
    /// Reports whether the reason may soon be gone.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Engine(EngineError::Refused(blockers)) => blockers.iter().all(|it| it.passing),
            Self::Engine(EngineError::Unstoppable { .. }) | Self::Disabled | Self::Outdated => true,
            _ => false,
        }
    }

    /// Returns how long the program was stopped in vain, if one of its threads did not stop.
    pub(crate) fn stood_still(&self) -> Option<Duration> {
        match self {
            Self::Engine(EngineError::Unstoppable { stood_still, .. }) => Some(*stood_still),
            _ => None,
        }
    }

    /// Reports whether the program has ended, so that no checkpoint is possible.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::Engine(EngineError::Ended))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::TooLittleSpace { directory, image_bytes, reserve } => write!(
                f,
                "it may take {} and would leave less than {reserve} free for {}\nhint: free some space, or choose another directory with -d",
                ByteSize::b(*image_bytes),
                directory.display()
            ),
            Self::Thread(error) => write!(
                f,
                "cannot start a thread for it: {}\nhint: lower the load, or raise ulimit -u",
                crate::InWords(error)
            ),
            Self::Output(error) => write!(
                f,
                "a file that the program writes cannot be made durable: {}\nhint: check its disk",
                crate::InWords(error)
            ),
            Self::Outdated => f.write_str("the program changed attributes of its memory during the checkpoint"),
            Self::Disabled => f.write_str(
                "the program has disabled checkpoints (standfast_disable); one is taken as soon as it enables them",
            ),
            Self::OtherParts(reason) => write!(f, "the distributed job has no checkpoint: {reason}"),
            Self::Broken => f.write_str("an internal error, described above; please report it"),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<EngineError> for Failure {
    /// Unwraps an error of the store that the engine passed on.
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Image(boxed) => match boxed.downcast::<StoreError>() {
                Ok(error) => Self::Store(*error),
                Err(boxed) => Self::Engine(EngineError::Image(boxed as BoxError)),
            },
            other => Self::Engine(other),
        }
    }
}
