//! Fields that differ in a rebuilt job and may. Above each stand the reason and a victim that shows it.

use super::Difference;

const EXCEPTIONS: &[&str] = &[
    // Time goes on.
    // Victim: waits-keep-their-remaining-time
    "processes.threads.wait.remaining_nanoseconds",
    // Time goes on.
    // Victim: timer-expired-timer-gives-one-signal
    "processes.timers.posix.has_expired",
    // Time goes on.
    // Victim: timerfd-keeps-its-remaining-time
    "open_files.kind.timer.remaining_nanoseconds",
    // It is computed from the time that is left, and two clocks are read one after the other.
    // Victim: timerfd-with-an-absolute-deadline-fires-at-it
    "open_files.kind.timer.deadline_nanoseconds",
    // Time goes on.
    // Victim: timerfd-keeps-unread-expirations
    "open_files.kind.timer.ticks",
    // A timer that has expired has no deadline any more.
    // Victim: timerfd-with-an-absolute-deadline-fires-at-it
    "open_files.kind.timer.flags",
    // It is set when nothing writes to the object any more.
    // Victim: file-shows-when-it-was-modified
    "objects.modified_nanoseconds",
    // A file that was deleted is made again without a name.
    // Victim: deleted-file-that-is-mapped-is-still-shared
    "objects.kind.path",
    // A copy that was kept takes the place of a program that was replaced.
    // Victim: library-replaced-under-a-running-program-is-kept
    "processes.executable.path",
    // A copy that was kept takes the place of a library that was replaced.
    // Victim: library-replaced-under-a-running-program-is-kept
    "processes.mappings.backing.file.path",
    // The kernel does not report it while we trace the process.
    // Victim: tree-stopped-child-stays-stopped
    "processes.process_tree.stopped_by",
    // A queue that is made again is a new file.
    // Victim: message-queue-of-posix-keeps-messages-and-who-waits
    "posix_queues.inode",
    // A directory that is made again is a new file.
    // Victim: inotify-watches-a-directory-that-was-made-again
    "open_files.kind.watches.inode",
    // The job has a /proc of its own in namespaces of its own.
    // Victim: kernel-files-that-are-nobodys-are-opened-again
    "open_files.kind.device",
];

/// Reports whether a difference is an allowed one.
pub(super) fn allow(difference: &Difference) -> bool {
    EXCEPTIONS.contains(&difference.field.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_exception_has_its_victim() {
        let victims = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/victims/features");
        let named = include_str!("exceptions.rs").lines().filter_map(|line| line.trim().strip_prefix("// Victim: "));
        let named: Vec<&str> = named.collect();
        for victim in &named {
            assert!(victims.join(victim).with_extension("c").exists(), "{victim}");
        }
        assert_eq!(named.len(), EXCEPTIONS.len());
    }
}
