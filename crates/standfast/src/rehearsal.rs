//! The rehearsal of a restart in the background. The standfast command does it in a process of its own, which has a single
//! thread and is no member of the job. It gives way to everybody else.

use crate::background::Background;
use crate::quoting::without_numbers;
use crate::report::RehearsalReport;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_parent_process_death_signal};
use standfast_linux::sys::schedule;
use standfast_linux::{Pid, Tid, made_here_is_gone, spawn_made_here};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The command that is running, even if its file has been replaced since.
const OURSELVES: &str = "/proc/self/exe";
/// `SCHED_IDLE`: processors that nobody else wants.
const IDLE_POLICY: u32 = 5;
/// `IOPRIO_CLASS_IDLE`: disks that nobody else wants.
const IDLE_DISKS: u32 = 3 << 13;
/// When memory runs out, the kernel ends a process with this value first.
const FIRST_TO_END: &str = "1000";

/// What a rehearsal has found, or why a restart would fail, or why it could not be rehearsed.
pub(crate) type Outcome = Result<RehearsalReport, String>;

/// A rehearsal under way.
pub(crate) struct Rehearsing {
    work: Background<Option<Outcome>>,
    process: OwnedFd,
}

impl Rehearsing {
    /// Starts to rehearse a restart from the newest checkpoint in `directory`.
    pub(crate) fn begin(directory: &Path) -> io::Result<Self> {
        let mut command = Command::new(OURSELVES);
        command.args(["rehearse", "--background", "--json", "--"]).arg(directory).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = spawn_made_here(&mut command)?;
        let id = rustix::process::Pid::from_child(&child);
        let process = pidfd_open(id, PidfdFlags::empty())?;
        Ok(Self { work: Background::begin("rehearsal", move || outcome(child))?, process })
    }

    /// Ends the rehearsal. Nothing of it remains.
    pub(crate) fn cancel(&self) {
        // An error means that it has ended.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Waits for the end. There is no outcome if the rehearsal was killed, as when memory runs out.
    pub(crate) fn join(self) -> Option<Outcome> {
        let broken = || Some(Err("an internal error, described above; please report it".to_owned()));
        self.work.join().unwrap_or_else(|_| broken())
    }
}

impl AsFd for Rehearsing {
    /// Returns a descriptor that polls as hung up when the rehearsal has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.work.as_fd()
    }
}

fn outcome(child: Child) -> Option<Outcome> {
    let pid = Pid::new(child.id() as i32);
    let output = child.wait_with_output();
    made_here_is_gone(pid);
    match output {
        Ok(output) if output.status.signal().is_some() => None,
        Ok(output) => Some(reported(&output)),
        Err(error) => Some(Err(error.to_string())),
    }
}

fn reported(output: &Output) -> Outcome {
    if output.status.success() {
        return serde_json::from_slice(&output.stdout).map_err(|error| error.to_string());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().map(|line| line.strip_prefix("standfast: ").unwrap_or(line)).collect();
    Err(match lines.is_empty() {
        true => format!("the rehearsal ended early ({})", output.status),
        false => without_numbers(&lines.join("\n")),
    })
}

/// Makes this process yield processors, disks and memory to all others, and end with its parent. What is refused stays
/// as it is.
pub fn give_way() {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let own = Tid::own();
    if let Ok(attributes) = schedule::attributes(own) {
        let _ = schedule::set_attributes(own, &schedule::SchedulingAttributes { policy: IDLE_POLICY, ..attributes });
    }
    let _ = schedule::set_io_priority(own, IDLE_DISKS);
    let _ = std::fs::write("/proc/self/oom_score_adj", FIRST_TO_END);
}
