//! What a restart does about files that have changed since the checkpoint, and what it says if it may not continue with
//! one.

/// What a restart does about files that have changed since the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FilePolicy {
    /// Cuts off what only the job can have written since; any other difference refuses the restart.
    #[default]
    Auto,
    /// Cuts off all that a file has grown by, whoever wrote it. Changes to its older contents still refuse the restart.
    Rollback,
    /// Leaves files as they are. A file that was written at its end continues at its present end.
    Keep,
    /// Refuses the restart on any difference.
    Refuse,
}

/// Why a restart may not continue with a file, and what the user can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Objection {
    pub(crate) why: String,
    pub(crate) hint: String,
    /// Whether the file's contents at the checkpoint are unchanged, and others have only appended to it since.
    pub(crate) is_addition: bool,
}

impl Objection {
    pub(crate) fn new(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { why: why.into(), hint: hint.into(), is_addition: false }
    }
}
