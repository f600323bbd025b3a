//! How to make a program run without io_uring. Most use it only if it is available, and have their own setting for it.

use standfast_linux::Pid;
use standfast_linux::proc;

/// What to do about programs, by the names of their executables.
const HINTS: [(&str, &str); 3] = [
    ("node", "set UV_USE_IO_URING=0"),
    ("mariadbd", "start it with --innodb-use-native-aio=0"),
    ("mysqld", "start it with --innodb-use-native-aio=0"),
];
const UNKNOWN: &str = "run the program without io_uring: most have a setting for that";

/// Returns what to do about the io_uring of a process.
pub(super) fn hint(pid: Pid) -> &'static str {
    hint_for(&proc::link(pid, "exe").unwrap_or_default())
}

fn hint_for(executable: &[u8]) -> &'static str {
    let name = executable.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    HINTS.iter().find(|(program, _)| program.as_bytes() == name).map_or(UNKNOWN, |(_, setting)| setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_io_uring_hint_depends_on_the_program() {
        assert!(hint_for(b"/usr/bin/node").contains("UV_USE_IO_URING"));
        assert!(hint_for(b"/usr/sbin/mariadbd").contains("innodb"));
        assert_eq!([hint_for(b"/usr/bin/anode"), hint_for(b"")], [UNKNOWN, UNKNOWN]);
    }
}
