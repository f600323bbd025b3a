//! Processes that are about to end. A killed process stays visible while the kernel frees its memory (60 to 80 ms/GB)
//! and closes its files. A new start of the job must neither mistake it for a living process nor run at the same time.
//!
//! This module only looks; the callers decide whether to wait, and for how long.

use crate::ProcessIdentity;
use crate::tree::has_other_threads;
use standfast_linux::abi;
use standfast_linux::proc::{self, Stat, Status};
use standfast_linux::sys::process;
use standfast_linux::{Pid, Tid};

const KILL: u64 = 1 << (abi::SIGKILL - 1);

/// How far a process is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vitality {
    /// There is no such process, or only its exit status is left: its memory and files are free.
    Gone,
    /// It executes no further instruction of its program, but still holds memory or files.
    Exiting,
    /// It runs.
    Alive,
}

impl ProcessIdentity {
    /// Returns how far the process is from its end.
    pub fn vitality(&self) -> Vitality {
        match Stat::of(self.pid) {
            Ok(stat) if stat.start_time == self.start_time => vitality(self.pid, &stat),
            _ => Vitality::Gone,
        }
    }
}

/// Returns the liveliest member of the process group that `leader` led, with its pid; `None` if the group is empty.
pub fn group_vitality(leader: Pid) -> Option<(Pid, Vitality)> {
    let member = |pid: Pid| {
        let stat = Stat::of(pid).ok().filter(|stat| stat.process_group == leader.get())?;
        Some((pid, vitality(pid, &stat))).filter(|(_, vitality)| *vitality != Vitality::Gone)
    };
    proc::all().unwrap_or_default().into_iter().filter_map(member).max_by_key(|(_, vitality)| *vitality)
}

/// Returns the processes of this user (of any user, for root) that are exiting and not older than `first`.
pub fn exiting_since(first: ProcessIdentity) -> Vec<ProcessIdentity> {
    let own = process::effective_user();
    let is_ours = |pid: Pid| own == 0 || Status::of(pid).is_ok_and(|status| status.user == own);
    let exiting = |pid: Pid| {
        let stat = Stat::of(pid).ok().filter(|stat| stat.start_time >= first.start_time)?;
        let is_meant = vitality(pid, &stat) == Vitality::Exiting && is_ours(pid);
        is_meant.then_some(ProcessIdentity { pid, start_time: stat.start_time })
    };
    proc::all().unwrap_or_default().into_iter().filter_map(exiting).collect()
}

fn vitality(pid: Pid, stat: &Stat) -> Vitality {
    // The main thread may have ended before the others.
    if matches!(stat.state, b'Z' | b'X') && !has_other_threads(pid) {
        return Vitality::Gone;
    }
    let Ok(status) = Status::of(pid) else { return Vitality::Gone };
    // A SIGKILL for the process stays pending until it is gone. Other ways of ending show in each thread. An exec by one
    // thread looks the same, but that thread continues.
    if status.shared_pending & KILL != 0 || status.dumps_core {
        return Vitality::Exiting;
    }
    let Ok(tids) = proc::threads(pid) else { return Vitality::Gone };
    let is_exiting = |tid: &Tid| {
        Stat::of_task(pid, *tid).map_or(true, |stat| stat.is_exiting())
            || Status::of_task(pid, *tid).map_or(true, |status| status.pending & KILL != 0)
    };
    if tids.iter().all(is_exiting) { Vitality::Exiting } else { Vitality::Alive }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn sleeper() -> std::process::Child {
        Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep can be started")
    }

    #[test]
    fn a_killed_process_is_never_reported_as_alive() {
        for _ in 0..200 {
            let mut child = sleeper();
            let identity = ProcessIdentity::of(Pid::new(child.id() as i32)).expect("it is our child");
            assert_eq!(identity.vitality(), Vitality::Alive);
            child.kill().expect("it is our child");
            assert_ne!(identity.vitality(), Vitality::Alive);
            child.wait().expect("it is our child");
            assert_eq!(identity.vitality(), Vitality::Gone);
        }
    }

    #[test]
    fn another_process_with_the_same_pid_counts_as_gone() {
        let own = ProcessIdentity::of(Pid::own()).expect("we live");
        assert_eq!(own.vitality(), Vitality::Alive);
        assert_eq!(ProcessIdentity { start_time: own.start_time + 1, ..own }.vitality(), Vitality::Gone);
    }

    #[test]
    fn a_process_group_lives_while_a_member_lives() {
        let own = Stat::of(Pid::own()).expect("we live");
        assert_eq!(group_vitality(Pid::new(own.process_group)).map(|(_, vitality)| vitality), Some(Vitality::Alive));
        assert_eq!(group_vitality(Pid::new(i32::MAX)), None);
    }

    #[test]
    fn an_older_process_is_not_in_the_exiting_list() {
        let own = ProcessIdentity::of(Pid::own()).expect("we live");
        assert_eq!(exiting_since(ProcessIdentity { start_time: u64::MAX, ..own }), []);
    }
}
