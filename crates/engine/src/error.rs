//! What can go wrong with a job, sorted by what a caller can do about it.

use standfast_format::BoxError;
use std::fmt;
use std::time::Duration;

/// Why a checkpoint or a restart did not happen. In no case was a running program harmed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The program ended meanwhile.
    #[error("the program ended")]
    Ended,
    /// The program holds things that could not be brought back. Nothing was written.
    #[error("{}", Blocker::list(.0))]
    Refused(Vec<Blocker>),
    /// The program does not stop; it runs on.
    #[error(
        "thread {tid} of the program does not stop: it hangs in the kernel (on a disk or a network file system that does not answer), or waits for a child of vfork that has executed no program yet"
    )]
    Unstoppable {
        /// The thread.
        tid: i32,
        /// How long the others have stood still for that.
        stood_still: Duration,
    },
    /// The program may not be looked at.
    #[error("process {pid} may not be looked at: {reason}")]
    Forbidden {
        /// The process.
        pid: i32,
        /// Why, and what to do.
        reason: String,
    },
    /// The other side of [`standfast_format::ImageSink`] or [`standfast_format::ImageSource`] failed.
    #[error(transparent)]
    Image(BoxError),
    /// What was to be cut off a file could not be kept, so nothing was cut off.
    #[error("the end of {path}, written since the checkpoint, was to be cut off and could not be kept: {source}")]
    Tail {
        /// The file.
        path: String,
        /// Why.
        source: BoxError,
    },
    /// The kernel refused something that should have worked.
    #[error("{action}: {source}")]
    Kernel {
        /// What was being done.
        action: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

/// The kernel's refusal of `action`.
pub(crate) fn kernel(action: &str, source: std::io::Error) -> EngineError {
    EngineError::Kernel { action: action.to_owned(), source }
}

/// One thing that stands in the way of a checkpoint or a restart, by name, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The thing: `descriptor 5 (TCP socket)`.
    pub what: String,
    /// Why it cannot be carried over.
    pub why: String,
    /// What the user can do.
    pub remedy: String,
    /// Whether it may well be gone in a moment (a child process): worth trying again soon.
    pub passing: bool,
}

impl Blocker {
    /// The first few, each once: processes of a job may have the same open.
    fn list(blockers: &[Self]) -> String {
        const SHOWN: usize = 5;
        let mut different: Vec<&Self> = Vec::new();
        for blocker in blockers {
            if !different.contains(&blocker) {
                different.push(blocker);
            }
        }
        let mut list = different.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if different.len() > SHOWN {
            list += &format!("; and {} more", different.len() - SHOWN);
        }
        list
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, " ({})", self.remedy) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_processes_have_in_common_is_said_once() {
        let blocker = |what: &str| Blocker {
            what: what.to_owned(),
            why: "it is in the way".to_owned(),
            remedy: String::new(),
            passing: false,
        };
        let said = Blocker::list(&[blocker("a"), blocker("b"), blocker("a"), blocker("b")]);
        assert_eq!(said, "a: it is in the way; b: it is in the way");
        let many: Vec<_> = ('a'..='h').map(|name| blocker(&name.to_string())).collect();
        assert!(Blocker::list(&many).ends_with("; and 3 more"));
    }
}
