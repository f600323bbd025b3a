//! Promises that cannot be tested here. `scripts/test` lists the skipped promises at its end. If all required programs
//! are installed, a skipped promise is a failure. Exceptions are promises that another user tests, and those on the list
//! below.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;

/// The first words of promises that may be skipped, and the reasons why not every machine can test them.
const MAY_BE_SKIPPED: &[(&str, &str)] = &[
    ("bpf-map-is-refused", "where the kernel lets only root make one, no other job can have one"),
    ("device-node-is-refused", "a virtual machine may have no device that a plain user may open"),
    ("encryption-by-the-kernel-is-refused", "the module tls is not part of every kernel"),
    ("huge-pages-only-where-advised", "the kernel can do this since Linux 6.18"),
    ("discarded huge pages hold zeros", ONLY_ROOT_FILLS_THE_POOL),
    ("memory-of-the-pool-that-was-discarded", ONLY_ROOT_FILLS_THE_POOL),
    ("memory-on-huge-pages-of-the-pool", ONLY_ROOT_FILLS_THE_POOL),
    ("shared-huge-pages-of-the-pool", ONLY_ROOT_FILLS_THE_POOL),
    ("pages in place of saved ones", "KSM runs only where an administrator has switched it on"),
    ("library-replaced-before-it-was-seen", "a library deleted from memory (tmpfs) is carried with its contents"),
    ("memory-names-are-kept", "CONFIG_ANON_VMA_NAME is not set in every kernel"),
    ("amx-permission-and-tiles-are-kept", "not every processor has matrix registers"),
    ("memory-protection-keys-are-kept", "not every processor has them"),
    ("memory-protection-key-behind-a-free-one", "not every processor has them"),
    ("restartable-sequences-that-are-hidden", "kernels tell of them since Linux 5.13"),
    ("tcp-writer-that-waits-goes-on", "the receive queue must have room for both, net.ipv4.tcp_rmem limits it"),
    ("stops end in time on a slow disk", "a build with planted-faults knows the speed of the disk"),
    (
        "system-v-segment-and-memfd-of-one-number-stay-apart",
        "on a machine that has run for long the numbers are far apart",
    ),
];

const ONLY_ROOT_FILLS_THE_POOL: &str = "scripts/test fills the pool of huge pages where root has started it";

/// Set if all programs that the tests need are installed, so that nothing may be missing.
const NO_SKIPS: &str = "STANDFAST_NO_SKIPS";
/// Names the file that lists what was skipped.
const LIST: &str = "STANDFAST_SKIPPED";

/// What a test needs and this run lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lacking {
    /// A program or a library, which `scripts/install-needs test` installs.
    Program(String),
    /// Another user: root, or any user except root.
    User(String),
    /// A feature of the kernel or of its configuration.
    System(String),
}

impl Lacking {
    /// Names a missing program or library.
    #[must_use]
    pub fn program(name: &str) -> Self {
        Self::Program(name.to_owned())
    }

    /// Requires another user, for this reason.
    #[must_use]
    pub fn user(reason: &str) -> Self {
        Self::User(reason.to_owned())
    }

    /// Requires a feature of the kernel, for this reason.
    #[must_use]
    pub fn system(reason: &str) -> Self {
        Self::System(reason.to_owned())
    }

    /// Reports whether a run with all programs installed must be able to test this promise.
    fn must_be_here_for(&self, promise: &str) -> bool {
        match self {
            Self::Program(_) => true,
            Self::User(_) => false,
            Self::System(_) => !MAY_BE_SKIPPED.iter().any(|(beginning, _)| promise.starts_with(beginning)),
        }
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

/// Reports that a promise cannot be tested here. Writes directly to standard error, past the capture of the test runner.
///
/// # Panics
/// When `STANDFAST_NO_SKIPS` is set and the promise must not be skipped.
pub fn skip(promise: &str, lacking: &Lacking) {
    if let Some(error) = note(promise, lacking) {
        panic!("{error}");
    }
}

/// Like [`skip`], for tests with their own report. Returns the failure if the promise must not be skipped.
pub fn note(promise: &str, lacking: &Lacking) -> Option<String> {
    if lacking.must_be_here_for(promise) && std::env::var_os(NO_SKIPS).is_some_and(|value| value == "1") {
        return Some(format!(
            "{promise} was not tested: {lacking}; with {NO_SKIPS}=1 it must be, or be on the list of tests/src/skip.rs"
        ));
    }
    let line = format!("skipped: {promise}: {lacking}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    let list = std::env::var_os(LIST).map(|path| OpenOptions::new().append(true).open(path));
    // One write per line, since several tests share the file. Without the list, the line above is the only report.
    if let Some(Ok(mut list)) = list {
        let _ = list.write_all(line.as_bytes());
    }
    None
}
