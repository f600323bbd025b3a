//! Promises that cannot be tested here. `scripts/test` lists the skipped promises at its end. If all required programs
//! are installed, a skipped promise is a failure, unless it is on one of the lists below.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;

/// The first words of promises that may be skipped, and the reasons why not every machine can test them.
pub const NOT_EVERYWHERE: &[(&str, &str)] = &[
    ("bpf-map-is-refused", "where the kernel lets only root make one, no other job can have one"),
    ("datagrams on their way over the loopback", "the kernel may lack sch_tbf"),
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

/// The first words of promises that only root, or only other users, can test, and the reasons. If root starts
/// `scripts/test`, it tests them as both.
pub const ONLY_SOME_USERS: &[(&str, &str)] = &[
    ("capabilities-that-were-given-up-stay-so", ONLY_ROOT_HAS_CAPABILITIES),
    ("file-system-of-its-own-is-refused", "only root may mount a file system everywhere"),
    ("memfd-that-may-not-be-read-is-refused", ROOT_SEES_ALL),
    ("namespaces-for-children-to-come-are-refused", "only root may make namespaces everywhere"),
    ("network-device-is-refused", "only root may open the device"),
    ("private-mapping-of-a-closed-memfd-is-refused", ROOT_SEES_ALL),
    ("program-that-hides-from-others-still-does", "only root may inspect such a program"),
    ("program-that-hides-itself-is-refused", ROOT_SEES_ALL),
    ("security-bits-are-refused", "only root may change them"),
    ("shared-memory-beneath-a-guard-is-refused", ROOT_SEES_ALL),
    ("socket-buffers-above-the-limit-are-kept", "only root may exceed the limit"),
    ("socket-of-another-network-is-refused", "only root may make namespaces everywhere"),
    ("system-v-segment-on-huge-pages", "only root may make one everywhere"),
    ("terminal-exclusive-that-nobody-has-open-is-kept-by-root", "only root may open such a terminal"),
    ("terminal-exclusive-that-nobody-has-open-is-refused", ROOT_SEES_ALL),
    ("thread-that-is-another-user-is-refused", ONLY_ROOT_CHANGES_USERS),
    ("tree-child-of-another-user-is-refused", ONLY_ROOT_CHANGES_USERS),
    ("tree-child-with-another-root-is-refused", "only root may change its root directory"),
    ("tree-child-with-less-capabilities-stays-without-them", ONLY_ROOT_HAS_CAPABILITIES),
    ("virtual-machine-is-refused", "only root may open the device everywhere"),
    ("another user cannot read a job", ONLY_ROOT_CHANGES_USERS),
    ("a directory behind a link of another user is refused", ONLY_ROOT_CHANGES_USERS),
    ("a supervisor does not answer another user", ONLY_ROOT_CHANGES_USERS),
    ("another user cannot impersonate a supervisor", ONLY_ROOT_CHANGES_USERS),
    ("a set-uid program is refused", ONLY_ROOT_GIVES_FILES),
    ("an open file that the user may not reopen is refused", ONLY_ROOT_CHANGES_USERS),
    ("an output that cannot be reopened continues elsewhere", ONLY_ROOT_CHANGES_USERS),
    ("a working directory that cannot be entered is refused", ONLY_ROOT_CHANGES_USERS),
    ("root inspects a user's job", ONLY_ROOT_CHANGES_USERS),
    ("a saved folder with a file of another user refuses the checkpoint", ONLY_ROOT_GIVES_FILES),
    ("an image of another user is skipped", ONLY_ROOT_GIVES_FILES),
    ("a directory without write permission fails the checkpoint", "root may write everywhere"),
    ("postgres", "its servers refuse to run as root"),
    ("rust", "rustup installs Rust for one user, often for root"),
];

const ONLY_ROOT_CHANGES_USERS: &str = "only root can run programs as several users";
const ONLY_ROOT_GIVES_FILES: &str = "only root can give files to other users";
const ONLY_ROOT_HAS_CAPABILITIES: &str = "only root has capabilities to give up";
const ROOT_SEES_ALL: &str = "root can read what the checkpoint of another user is refused for";
const ONLY_ROOT_FILLS_THE_POOL: &str = "scripts/test fills the pool of huge pages where root has started it";

/// Set if all programs that the tests need are installed, so that nothing may be missing.
const NO_SKIPS: &str = "STANDFAST_NO_SKIPS";
/// Names the file that lists what was skipped or retried.
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
        let listed: &[(&str, &str)] = match self {
            Self::Program(_) => &[],
            Self::User(_) => ONLY_SOME_USERS,
            Self::System(_) => NOT_EVERYWHERE,
        };
        !listed.iter().any(|(beginning, _)| promise.starts_with(beginning))
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
            "{promise} was not tested: {lacking}; with {NO_SKIPS}=1 it must be, or be on a list of tests/src/skip.rs"
        ));
    }
    report(&format!("skipped: {promise}: {lacking}\n"));
    None
}

/// Reports that a promise is tried once more, for this reason. `scripts/test` counts the retries at its end.
pub fn note_retry(promise: &str, reason: &str) {
    report(&format!("retried: {promise}: {reason}\n"));
}

fn report(line: &str) {
    let _ = std::io::stderr().write_all(line.as_bytes());
    let list = std::env::var_os(LIST).map(|path| OpenOptions::new().append(true).open(path));
    // One write per line, since several tests share the file. Without the list, the line above is the only report.
    if let Some(Ok(mut list)) = list {
        let _ = list.write_all(line.as_bytes());
    }
}
