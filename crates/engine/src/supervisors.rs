//! Which processes are supervisors, of this job or another one. What a supervisor does to processes and objects lasts
//! only a moment, and says nothing about who owns them.

use crate::files::FileId;
use standfast_linux::proc;
use standfast_linux::{Pid, Tid};

/// Reports whether a process or thread executes our executable, or one of the same name: another build of it, or one
/// that an upgrade has replaced since.
pub(super) fn is_supervisor(task: Tid) -> bool {
    let executes = |task: Tid| std::fs::metadata(format!("/proc/{task}/exe")).map(|exe| FileId::of(&exe));
    let own = Pid::own().main_thread();
    let is_same = || executes(task).is_ok_and(|theirs| executes(own).is_ok_and(|own| own == theirs));
    let is_namesake = || proc::link(task.as_process(), "exe").is_ok_and(|path| is_executable_of_ours(&path));
    task == own || is_namesake() || is_same()
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
    fn our_threads_belong_to_a_supervisor_and_other_programs_do_not() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let childs = is_supervisor(Pid::new(child.id() as i32).main_thread());
        child.kill().unwrap();
        child.wait().unwrap();
        let threads = std::thread::spawn(|| is_supervisor(Tid::own())).join().unwrap();
        assert_eq!((threads, childs), (true, false));
    }
}
