//! What can go wrong with a job, sorted by what a caller can do about it.

use crate::refusal_code::RefusalCode;
use standfast_core::{HINT, printable};
use standfast_format::BoxError;
use standfast_linux::Tid;
use std::fmt;
use std::time::Duration;

/// Why a checkpoint or a restart did not happen. No running program was harmed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The program ended meanwhile.
    #[error("the program ended")]
    Ended,
    /// The program holds things that could not be restored. Nothing was written.
    #[error("{}", Blocker::list(.0))]
    Refused(Vec<Blocker>),
    /// The program does not stop; it continues.
    #[error(
        "thread {tid} of the program cannot be stopped: it is blocked in the kernel (by a disk or a network file system that does not answer), or waits for a child of vfork that has not executed a program yet"
    )]
    Unstoppable {
        /// The thread.
        tid: Tid,
        /// How long the other threads were frozen for that.
        stood_still: Duration,
    },
    /// The [`standfast_format::ImageSink`] or [`standfast_format::ImageSource`] failed.
    #[error(transparent)]
    Image(BoxError),
    /// The end of a file that was to be cut off could not be kept, so nothing was cut off.
    #[error("the end of {path}, written since the checkpoint, could not be kept, so nothing was cut off: {source}")]
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

/// Returns the error for the kernel's refusal of `action`.
pub(crate) fn kernel(action: &str, source: std::io::Error) -> EngineError {
    EngineError::Kernel { action: action.to_owned(), source }
}

/// Why something prevents a checkpoint or a restart, before the thing is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) code: RefusalCode,
    pub(crate) why: String,
    /// What the user can do; empty if there is nothing.
    pub(crate) hint: String,
    /// Whether it may well be gone in a moment.
    pub(crate) passing: bool,
}

impl Reason {
    pub(crate) fn new(code: RefusalCode, why: impl Into<String>) -> Self {
        Self { code, why: why.into(), hint: String::new(), passing: false }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Marks it as temporary, so that it is worth trying again soon.
    pub(crate) fn for_now(self) -> Self {
        Self { passing: true, ..self }
    }
}

/// One thing that prevents a checkpoint or a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Which kind of refusal it is.
    pub code: RefusalCode,
    /// The thing: `descriptor 5 (TCP socket)`.
    pub what: String,
    /// Why it cannot be carried over.
    pub why: String,
    /// What the user can do; empty if there is nothing.
    pub hint: String,
    /// Whether it may well be gone in a moment (a child process), so that it is worth trying again soon.
    pub passing: bool,
}

impl Blocker {
    pub(crate) fn new(code: RefusalCode, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::of(what, Reason::new(code, why))
    }

    /// Names the thing that a reason is about.
    pub(crate) fn of(what: impl Into<String>, reason: Reason) -> Self {
        let Reason { code, why, hint, passing } = reason;
        Self { code, what: what.into(), why, hint, passing }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Marks it as temporary, so that it is worth trying again soon.
    pub(crate) fn for_now(self) -> Self {
        Self { passing: true, ..self }
    }

    /// Formats the first few, each once, since processes of a job may have the same open; then their hints, one on each
    /// line.
    fn list(blockers: &[Self]) -> String {
        const SHOWN: usize = 5;
        let different = distinct(blockers.iter());
        let shown = &different[..different.len().min(SHOWN)];
        let mut list = shown.iter().map(|it| it.cause()).collect::<Vec<_>>().join("; ");
        if different.len() > SHOWN {
            list += &format!("; and {} more", different.len() - SHOWN);
        }
        for hint in distinct(shown.iter().map(|it| it.hint.as_str()).filter(|hint| !hint.is_empty())) {
            list += HINT;
            list += hint;
        }
        list
    }

    fn cause(&self) -> String {
        printable(&format!("{}: {} ({})", self.what, self.why, self.code)).into_owned()
    }
}

/// Returns each item once, in order.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Self::list(std::slice::from_ref(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a change: `INSTA_UPDATE=always cargo test -p standfast-engine`, then read the difference.
    #[test]
    fn error_texts_match_the_reviewed_snapshot() {
        let connection = Blocker::new(
            RefusalCode::ConnectionOutside,
            "descriptor 5 (TCP socket)",
            "its other end is outside the program",
        )
        .with_hint("start both under one standfast run");
        let timers = Blocker::new(RefusalCode::SignalsArriving, "timers", "signals kept arriving").for_now();
        let full = || Box::new(std::io::Error::from(std::io::ErrorKind::StorageFull));
        let errors = [
            EngineError::Ended,
            EngineError::Refused(vec![connection.clone()]),
            EngineError::Refused(vec![connection, timers]),
            EngineError::Unstoppable { tid: Tid::new(7), stood_still: Duration::ZERO },
            EngineError::Image(full()),
            EngineError::Tail { path: "/work/output".to_owned(), source: full() },
            kernel("scanning the program's pages", std::io::Error::from(std::io::ErrorKind::OutOfMemory)),
        ];
        insta::assert_snapshot!(errors.map(|error| error.to_string()).join("\n\n"));
    }

    #[test]
    fn blockers_of_several_processes_are_reported_once() {
        let blocker = |what: &str| Blocker::new(RefusalCode::PinnedMemory, what, "it is in the way");
        let said = Blocker::list(&[blocker("a"), blocker("b"), blocker("a"), blocker("b")]);
        assert_eq!(said, "a: it is in the way (SF0201); b: it is in the way (SF0201)");
        let many: Vec<_> = ('a'..='h').map(|name| blocker(&name.to_string())).collect();
        assert!(Blocker::list(&many).ends_with("; and 3 more"));
    }
}
