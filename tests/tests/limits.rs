//! Every line in the list of refusals in `docs/limits.md` has a victim or a test that proves it: Standfast refuses the
//! thing by name before it writes anything, and the program continues. If no proof is possible, the reason is given here.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::features::{Expectation, Feature};
use std::fs;
use std::path::Path;

/// The proof of a line.
enum Proof {
    /// Victims in `tests/victims/features`.
    Victims(&'static [&'static str]),
    /// A test, by file and name. The file is one of `tests/tests`, or a source file with tests in it.
    Test(&'static str, &'static str),
    /// No proof, and the reason.
    None(&'static str),
}
use Proof::{Test, Victims};

/// The beginning of a line's first cell, words of the line that the proof covers, and the proof.
const PROOFS: &[(&str, &str, Proof)] = &[
    (
        "processes that share",
        "without being threads",
        Victims(&[
            "tree-processes-that-share-their-memory-are-refused",
            "tree-processes-that-share-their-directory-are-refused",
        ]),
    ),
    (
        "processes that share",
        "without being parent and child",
        Victims(&["tree-siblings-that-share-descriptors-are-refused"]),
    ),
    ("processes that share", "vfork", Victims(&["tree-vfork-child-that-lingers-delays-the-checkpoint"])),
    (
        "processes apart",
        "in namespaces",
        Victims(&["tree-child-in-namespaces-of-its-own-is-refused", "namespaces-of-its-own-are-refused"]),
    ),
    ("processes apart", "about to make a child", Victims(&["namespaces-for-children-to-come-are-refused"])),
    ("processes apart", "root directory", Victims(&["tree-child-with-another-root-is-refused"])),
    ("processes apart", "user or groups", Victims(&["tree-child-of-another-user-is-refused"])),
    ("threads apart", "table of descriptors", Victims(&["thread-with-descriptors-of-its-own-is-refused"])),
    ("threads apart", "working directory", Victims(&["thread-with-a-directory-of-its-own-is-refused"])),
    ("threads apart", "user, groups or namespaces", Victims(&["thread-that-is-another-user-is-refused"])),
    ("a child that asked for a signal", "PR_SET_PDEATHSIG", Victims(&["tree-signal-at-a-threads-end-is-refused"])),
    ("zombies", "core file", Victims(&["tree-zombie-that-dumped-core-is-refused"])),
    ("an epoll instance that watches", "pidfd", Victims(&["pidfd-in-a-shared-epoll-is-refused"])),
    (
        "a session that its process's parent",
        "is its sibling",
        Victims(&["tree-orphan-in-a-session-of-others-is-refused"]),
    ),
    ("connections to others", "TCP", Test("outside.rs", "an_outside_tcp_connection_is_refused_with_its_address")),
    ("connections to others", "Unix sockets", Test("outside.rs", "an_outside_unix_connection_is_refused")),
    ("what is on its way", "no bytes", Victims(&["datagram-without-bytes-is-refused-for-now"])),
    (
        "what is on its way",
        "being put together",
        Victims(&[
            "datagram-that-is-put-together-is-refused-for-now",
            "datagram-that-is-begun-with-msg_more-is-refused-for-now",
        ]),
    ),
    ("what is on its way", "urgent data", Victims(&["urgent-data-that-waits-is-refused-for-now"])),
    ("what is on its way", "closed by now", Victims(&["datagram-of-a-sender-that-is-gone-is-refused-for-now"])),
    ("what is on its way", "not been accepted yet", Victims(&["connection-with-data-that-waits-is-refused-for-now"])),
    (
        "what is on its way",
        "behind bytes of another message",
        Victims(&["descriptors-behind-other-bytes-of-a-stream-are-refused-for-now"]),
    ),
    ("what is on its way", "files of `/proc/PID` on their way", Victims(&["proc-file-on-its-way-is-refused-for-now"])),
    ("what is on its way", "SO_PASSCRED", Victims(&["credentials-on-their-way-in-plenty-are-refused-for-now"])),
    (
        "what a restart could not open",
        "files, named pipes and directories of other users",
        Test("other_users.rs", "an_open_file_that_the_user_may_not_reopen_is_refused"),
    ),
    (
        "what a restart could not open",
        "working directory",
        Test("other_users.rs", "a_working_directory_that_cannot_be_entered_is_refused"),
    ),
    ("other sockets", "answer unread", Victims(&["netlink-answer-that-waits-is-refused-for-now"])),
    ("other sockets", "all other families", Victims(&["raw-and-other-sockets-are-refused"])),
    ("other sockets", "packet filter", Victims(&["packet-filter-on-a-socket-is-refused"])),
    ("other sockets", "multicast", Victims(&["multicast-group-is-refused"])),
    ("other sockets", "TLS of the kernel's", Victims(&["encryption-by-the-kernel-is-refused"])),
    ("other sockets", "another network namespace", Victims(&["socket-of-another-network-is-refused"])),
    ("other sockets", "cannot set again", Victims(&["socket-option-that-cannot-be-set-again-is-refused"])),
    ("other sockets", "connected to itself", Victims(&["tcp-socket-connected-to-itself-is-refused"])),
    (
        "System V objects (segments, semaphores, message queues)",
        "were there before the job began",
        Test("outside.rs", "system_v_objects_older_than_the_job_are_refused_by_name"),
    ),
    (
        "System V objects (segments, semaphores, message queues)",
        "they have them attached",
        Test("outside.rs", "a_segment_attached_outside_is_refused"),
    ),
    ("POSIX message queues", "somebody else has open", Test("outside.rs", "a_message_queue_open_outside_is_refused")),
    ("POSIX message queues", "announced", Victims(&["message-queue-that-announces-is-refused-for-now"])),
    ("a private mapping of a memfd", "closed", Victims(&["private-mapping-of-a-closed-memfd-is-refused"])),
    ("guarded pages", "no other mapping shows", Victims(&["shared-memory-beneath-a-guard-is-refused"])),
    ("pipes to other programs", "pipes", Test("outside.rs", "a_pipe_open_outside_is_refused")),
    ("pipes to other programs", "Named pipes", Test("outside.rs", "a_named_pipe_open_outside_is_refused")),
    (
        "pipes to other programs",
        "wait for the next writer",
        Victims(&["named-pipe-whose-readers-disagree-is-refused-for-now"]),
    ),
    ("other descriptors", "userfaultfd", Victims(&["userfaultfd-is-refused"])),
    ("other descriptors", "io_uring", Victims(&["io_uring-is-refused"])),
    ("other descriptors", "fanotify", Victims(&["fanotify-is-refused"])),
    ("other descriptors", "BPF", Victims(&["bpf-map-is-refused"])),
    ("other descriptors", "performance counters", Victims(&["perf-counter-is-refused"])),
    ("other descriptors", "serve a file system", Victims(&["file-system-of-its-own-is-refused"])),
    ("other descriptors", "KVM", Victims(&["virtual-machine-is-refused"])),
    (
        "other descriptors",
        "GPU and RDMA devices",
        Test("../../crates/engine/src/objects/refused.rs", "hardware_devices_are_refused_with_a_hint"),
    ),
    ("other descriptors", "other nodes", Victims(&["device-node-is-refused", "network-device-is-refused"])),
    ("other descriptors", "pidfds of processes and threads outside", Victims(&["pidfd-of-another-process-is-refused"])),
    ("other descriptors", "the run was started with", Test("outside.rs", "inherited_files_without_a_name_are_refused")),
    ("pseudo-terminals", "outside the job", Test("outside.rs", "a_terminal_of_the_job_open_outside_is_refused")),
    ("pseudo-terminals", "nobody has opened yet", Victims(&["terminal-that-is-not-open-yet-waits"])),
    ("pseudo-terminals", "packet mode", Victims(&["terminal-with-news-of-packets-waits"])),
    ("a session", "controlling terminal", Test("outside.rs", "a_session_on_an_outside_terminal_is_refused")),
    ("inotify", "events", Victims(&["inotify-with-unread-events-waits"])),
    ("inotify", "path cannot be found", Victims(&["inotify-watch-whose-path-is-unknown-is-refused"])),
    ("leases on files", "F_SETLEASE", Victims(&["lease-on-a-file-is-refused"])),
    ("signal-driven I/O", "only in a message", Victims(&["signal-driven-io-of-a-file-on-its-way-is-refused-for-now"])),
    ("signal-driven I/O", "another thread", Victims(&["signal-driven-io-for-another-thread-is-refused"])),
    (
        "epoll instances",
        "no descriptor leads",
        Test("outside.rs", "an_epoll_watch_of_an_outside_descriptor_is_refused"),
    ),
    ("epoll instances", "EPOLLONESHOT", Victims(&["epoll-entry-that-fired-and-is-not-ready-is-refused-for-now"])),
    ("deleted or replaced files", "no copy of them", Victims(&["library-replaced-before-it-was-seen-is-refused"])),
    ("deleted or replaced files", "1 GiB", Victims(&["deleted-file-that-is-too-large-is-refused"])),
    ("deleted or replaced files", "open directories", Victims(&["directory-that-was-removed-is-refused"])),
    ("files of the kernel's", "not part of the program", Victims(&["proc-file-of-another-program-is-refused"])),
    ("files of the kernel's", "number of a thread", Victims(&["proc-file-by-the-number-of-a-thread-is-refused"])),
    ("files of the kernel's", "threshold", Victims(&["pressure-threshold-is-refused"])),
    (
        "files of the kernel's",
        "debugfs",
        Proof::None("only root reads it, and only where it is mounted: what the kernel calls the file system decides"),
    ),
    ("files of the kernel's", "fdinfo", Victims(&["proc-file-about-a-descriptor-is-refused-for-now"])),
    ("files of the kernel's", "has ended", Victims(&["proc-file-of-an-ended-process-is-refused-for-now"])),
    ("files of the kernel's", "being listed", Victims(&["directory-of-a-process-is-refused"])),
    ("huge pages", "shared", Victims(&["shared-huge-pages-of-the-pool-are-refused"])),
    (
        "huge pages",
        "MFD_HUGETLB",
        Victims(&["memfd-on-huge-pages-is-refused", "mapping-of-a-closed-memfd-on-huge-pages-is-refused"]),
    ),
    (
        "huge pages",
        "SHM_HUGETLB",
        Victims(&[
            "system-v-segment-on-huge-pages-is-refused",
            "system-v-segment-on-huge-pages-that-nobody-has-attached-is-refused",
        ]),
    ),
    ("restrictions", "seccomp", Victims(&["seccomp-filter-of-one-thread-is-refused"])),
    ("restrictions", "Landlock", Victims(&["landlock-sandbox-is-refused"])),
    ("restrictions", "security bits", Victims(&["security-bits-are-refused"])),
    (
        "restrictions",
        "shadow stacks",
        Test(
            "../../crates/engine/src/collect/restrictions.rs",
            "seccomp_filters_and_shadow_stacks_of_a_thread_are_reported",
        ),
    ),
    ("pinned memory", "no descriptor", Victims(&["memory-pinned-by-a-ring-without-a-descriptor-is-refused"])),
    ("kernel asynchronous I/O", "io_setup", Victims(&["asynchronous-io-is-refused"])),
    ("threads that handle", "", Victims(&["thread-that-handles-its-own-system-calls-is-refused"])),
    ("programs with segments", "", Victims(&["segments-of-its-own-are-refused"])),
    ("32-bit programs", "", Victims(&["code-of-32-bits-is-refused"])),
    ("programs that may not be traced", "undumpable", Victims(&["program-that-hides-itself-is-refused"])),
    ("programs that may not be traced", "debugger", Victims(&["tree-child-under-a-debugger-is-refused"])),
    (
        "programs that may not be traced",
        "set-uid",
        Test("other_users.rs", "a_set_uid_program_is_refused_and_continues"),
    ),
];

/// Returns the lines of the list: what is refused, and the remark.
fn lines() -> Result<Vec<(String, String)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/limits.md");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let (_, section) = text.split_once("\n## What is refused\n").context("there is no list of refusals")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")).skip(1);
    rows.map(|row| {
        let (thing, remark) = row.split_once(" | ").with_context(|| format!("not a line of two cells: {row}"))?;
        Ok((thing.trim().to_owned(), remark.trim().trim_end_matches('|').to_owned()))
    })
    .collect()
}

#[test]
fn every_listed_refusal_has_a_proof_or_a_reason() -> Result<()> {
    for (thing, _) in lines()? {
        let is_proved = PROOFS.iter().any(|(start, ..)| is_of(start, &thing));
        ensure!(is_proved, "nothing proves the line {thing:?}; name a victim for it in tests/tests/limits.rs");
    }
    Ok(())
}

#[test]
fn every_proof_exists_and_matches_its_line() -> Result<()> {
    let (lines, features) = (lines()?, Feature::all()?);
    for (start, words, proof) in PROOFS {
        let mut of_line = lines.iter().filter(|(thing, _)| is_of(start, thing));
        let line = of_line.next().with_context(|| format!("no line begins with {start:?}"))?;
        ensure!(line.0.contains(words) || line.1.contains(words), "the line {start:?} does not say {words:?}");
        match proof {
            Victims(names) => names.iter().try_for_each(|name| {
                let victim = features.iter().find(|(other, _)| other == name);
                let (_, victim) = victim.with_context(|| format!("there is no victim {name}"))?;
                let expect = victim.as_ref().ok().map(|victim| &victim.header.expect);
                ensure!(expect.is_some_and(|expect| *expect != Expectation::Survive), "{name} is not refused");
                Ok(())
            })?,
            Test(file, name) => {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
                let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                ensure!(is_run(&text, name), "{file} has no test {name} that is run");
            }
            Proof::None(reason) => ensure!(!reason.is_empty(), "{start:?}, {words:?}: no reason"),
        }
    }
    Ok(())
}

/// Reports whether a source file has a test of this name that is run.
pub(super) fn is_run(source: &str, name: &str) -> bool {
    source.split_once(&format!("fn {name}(")).is_some_and(|(before, _)| before.trim_end().ends_with("#[test]"))
}

/// Reports whether a line is the one that begins with `start`. Only the longest matching beginning counts, since one
/// thing may be named like the beginning of another.
fn is_of(start: &str, thing: &str) -> bool {
    let longest =
        PROOFS.iter().map(|(start, ..)| *start).filter(|start| thing.starts_with(start)).max_by_key(|it| it.len());
    longest == Some(start)
}
