//! Commands of the user's that the supervisor runs. They are no processes of the job.

use standfast_linux::{Pid, made_here_is_gone, spawn_made_here};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};

/// Runs a command of the shell to its end, with these variables in its environment. It has no input, and its output is
/// dropped.
pub(crate) fn run_in_shell(text: &str, environment: &[(&str, &OsStr)]) -> io::Result<ExitStatus> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", text]).process_group(0).envs(environment.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = spawn_made_here(&mut command)?;
    let pid = Pid::new(child.id() as i32);
    let status = child.wait();
    made_here_is_gone(pid);
    status
}
