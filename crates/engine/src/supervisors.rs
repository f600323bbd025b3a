//! Which processes are supervisors, of this job or another one. What a supervisor does to processes and objects lasts
//! only a moment, and says nothing about who owns them.

use crate::files::FileId;
use standfast_linux::proc;

/// Reports whether a process or thread executes our executable, or one of the same name: another build of it, or one
/// that an upgrade has replaced since.
pub(super) fn is_supervisor(tid: i32) -> bool {
    let executes = |tid: i32| std::fs::metadata(format!("/proc/{tid}/exe")).map(|exe| FileId::of(&exe));
    let own = std::process::id() as i32;
    let is_same = || executes(tid).is_ok_and(|theirs| executes(own).is_ok_and(|own| own == theirs));
    let is_namesake = || proc::link(tid, "exe").is_ok_and(|path| is_executable_of_ours(&path));
    tid == own || is_namesake() || is_same()
}

/// Reports whether the target of `/proc/PID/exe` is a supervisor.
fn is_executable_of_ours(path: &[u8]) -> bool {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    path.ends_with(b"/standfast")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn supervisors_of_other_builds_are_known_by_their_name() {
        let paths: [&[u8]; 4] = [b"/usr/bin/standfast", b"/opt/standfast (deleted)", b"/bin/sh", b"/bin/outstandfast"];
        assert_eq!(paths.map(is_executable_of_ours), [true, true, false, false]);
    }

    #[test]
    fn threads_of_ours_are_a_supervisors_and_other_programs_are_not() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let childs = is_supervisor(child.id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        let threads = std::thread::spawn(|| is_supervisor(standfast_linux::sys::process::own_thread())).join().unwrap();
        assert_eq!((threads, childs), (true, false));
    }
}
