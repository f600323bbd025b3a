//! Which processes belong to a job at this moment: its main process and all its descendants, even if the processes
//! between them have ended. This module only looks; [`crate::freeze`] stops them.

use crate::ProcessIdentity;
use standfast_linux::abi;
use standfast_linux::proc::{self, Stat};
use standfast_linux::sys::process::{self, Common};
use standfast_linux::{Pid, Tid};
use std::collections::{HashSet, VecDeque};

/// Where to find a job's processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Roots {
    /// The main process.
    pub(crate) main: ProcessIdentity,
    /// The process that adopts descendants that lose their parent: ours, or the init of the job's namespaces. `None` if
    /// they cannot be distinguished from other processes or are out of sight.
    pub(crate) reaper: Option<Pid>,
}

/// One process of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its pid as this process sees it.
    pub(crate) pid: Pid,
    /// Its parent, if the parent belongs to the job too.
    pub(crate) parent: Option<Pid>,
    /// How it ended, in the format of `waitpid(2)`, if it is a zombie.
    pub(crate) wait_status: Option<i32>,
    /// Number of its threads at the time of the look.
    pub(crate) threads: usize,
}

impl Roots {
    /// Returns the processes of the job, parents before their children, the main process first. A process that ends
    /// meanwhile may be listed or not. Zombies that only wait for the reaper are left out.
    pub(crate) fn members(&self) -> Vec<Member> {
        let mut members = Vec::new();
        let mut open = VecDeque::from([(self.main.pid, None)]);
        let strays = self.reaper.map(proc::children).and_then(Result::ok).unwrap_or_default();
        let is_stray = |pid: &Pid| *pid != self.main.pid && !standfast_linux::is_made_here(*pid);
        open.extend(strays.into_iter().filter(is_stray).map(|pid| (pid, None)));
        while let Some((pid, parent)) = open.pop_front() {
            let Ok(stat) = Stat::of(pid) else { continue };
            // A process whose main thread has ended may still live.
            let is_zombie = matches!(stat.state, b'Z' | b'X') && !has_other_threads(pid);
            if is_zombie && (parent.is_none() || stat.state == b'X') {
                continue;
            }
            members.push(Member {
                pid,
                parent,
                wait_status: is_zombie.then_some(stat.wait_status),
                threads: stat.threads,
            });
            let children = match stat.threads {
                1 => proc::children_of_thread(pid, pid.main_thread()),
                _ => proc::children(pid),
            };
            open.extend(children.unwrap_or_default().into_iter().map(|child| (child, Some(pid))));
        }
        members
    }

    /// Reports whether `members` are all processes of the job, given that none of them runs. When a process ends, its
    /// children move to another one, which the walk may have passed already. So this walks once more, in the opposite
    /// direction.
    pub(crate) fn are_all(&self, members: &[Member]) -> bool {
        let known: HashSet<Pid> = members.iter().map(|member| member.pid).collect();
        let children = |pid: Pid| proc::children(pid).unwrap_or_default().into_iter();
        // It does not run, so it still has the same number of threads.
        let children_of = |member: &Member| match member.threads {
            1 => proc::children_of_thread(member.pid, member.pid.main_thread()).unwrap_or_default().into_iter(),
            _ => children(member.pid),
        };
        let living = members.iter().rev().filter(|member| member.wait_status.is_none());
        let no_orphan = |pid: Pid| {
            let is_zombie = Stat::of(pid).is_ok_and(|stat| matches!(stat.state, b'Z' | b'X'));
            known.contains(&pid) || standfast_linux::is_made_here(pid) || is_zombie && !has_other_threads(pid)
        };
        living.flat_map(children_of).all(|child| known.contains(&child))
            && self.reaper.into_iter().flat_map(children).all(no_orphan)
    }

    /// Reaps descendants that have become our children and ended, so that they do not remain as zombies.
    pub(crate) fn reap_strays(&self) {
        let own = Pid::own();
        if self.reaper != Some(own) {
            return;
        }
        for pid in proc::children(own).unwrap_or_default() {
            let is_zombie = Stat::of(pid).is_ok_and(|stat| stat.state == b'Z');
            if pid != self.main.pid && is_zombie && !standfast_linux::is_made_here(pid) {
                // The status of a stray is not needed.
                let _ = process::wait(pid.main_thread(), abi::WNOHANG);
            }
        }
    }
}

/// Reports whether a process has living threads besides its main thread.
pub(crate) fn has_other_threads(pid: Pid) -> bool {
    let lives = |tid: &Tid| Stat::of_task(pid, *tid).is_ok_and(|stat| !matches!(stat.state, b'Z' | b'X'));
    proc::threads(pid).unwrap_or_default().iter().any(lives)
}

/// Reports whether a process lives in the memory of its parent. If it comes from vfork(2), the parent does not run, and
/// cannot be stopped, before the child executes a program or ends.
pub(crate) fn borrows_memory(member: &Member) -> bool {
    let main = member.pid.main_thread();
    let shares = |parent: Pid| process::share(main, parent.main_thread(), Common::Memory).unwrap_or(false);
    member.parent.is_some_and(shares)
}
