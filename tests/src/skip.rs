//! Promises that cannot be tested here. A skipped promise is listed at the end of `scripts/test`; where every program that the
//! tests want is installed, one that is skipped for want of a program fails.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Set where all programs that the tests want are installed: nothing may be missing.
const NO_SKIPS: &str = "STANDFAST_NO_SKIPS";
/// Names the file that lists what was skipped.
const LIST: &str = "STANDFAST_SKIPPED";

/// What a test would need and this run does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lacking {
    /// A program or a library, which `scripts/install-needs test` installs.
    Program(String),
    /// Another user: root, or anybody but root.
    User(String),
    /// Something of the kernel or of its configuration.
    System(String),
}

impl Lacking {
    /// A program or a library by this name.
    #[must_use]
    pub fn program(name: &str) -> Self {
        Self::Program(name.to_owned())
    }

    /// Another user, with the reason.
    #[must_use]
    pub fn user(reason: &str) -> Self {
        Self::User(reason.to_owned())
    }

    /// Something of the kernel, with the reason.
    #[must_use]
    pub fn system(reason: &str) -> Self {
        Self::System(reason.to_owned())
    }

    /// Whether a run with all programs installed must not lack it.
    fn must_be_here(&self) -> bool {
        matches!(self, Self::Program(_))
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(name) => write!(f, "{name} is not installed"),
            Self::User(reason) | Self::System(reason) => f.write_str(reason),
        }
    }
}

/// Reports that a promise cannot be tested here. Written straight to standard error, past the capture of the test runner.
///
/// # Panics
/// When a program is missing and `STANDFAST_NO_SKIPS` says that all are installed.
pub fn skip(promise: &str, lacking: &Lacking) {
    if let Some(error) = note(promise, lacking) {
        panic!("{error}");
    }
}

/// The same for tests with a report of their own. Returns the failure where the promise must not be skipped.
pub fn note(promise: &str, lacking: &Lacking) -> Option<String> {
    if lacking.must_be_here() && std::env::var_os(NO_SKIPS).is_some_and(|value| value == "1") {
        return Some(format!("{promise} was not tested: {lacking}, although {NO_SKIPS}=1 says that everything is"));
    }
    let line = format!("skipped: {promise}: {lacking}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    let list = std::env::var_os(LIST).map(|path| OpenOptions::new().append(true).open(path));
    // One write per line, since several tests share the file. Without the list the line above remains.
    if let Some(Ok(mut list)) = list {
        let _ = list.write_all(line.as_bytes());
    }
    None
}
