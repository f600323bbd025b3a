//! The census of what the processes of a job are to each other: parents, groups, sessions, what they share; and of
//! children that have ended and not been asked for.

use crate::freeze::{Frozen, FrozenProcess, kernel};
use crate::tree::Member;
use crate::{EngineError, Obstacle};
use standfast_format::records::{Bytes, Kinship, ProcessState, ThreadState};
use standfast_linux::proc::{self, Stat, Status};
use standfast_linux::sys::process::{self, Common};
use std::io;
use std::os::unix::fs::MetadataExt;

/// What was found.
#[derive(Debug)]
pub(super) struct Relations {
    /// Of each living process, in their order.
    pub(super) living: Vec<Kinship>,
    /// The zombies, as far as they are recorded.
    pub(super) zombies: Vec<ProcessState>,
}

/// The job's own process and what it was started in.
struct Home {
    /// Every process of the job, as we see it.
    pids: Vec<i32>,
    process_group: i32,
    session: i32,
}

impl Relations {
    pub(super) fn of(frozen: &Frozen, obstacles: &mut Vec<Obstacle>) -> Result<Self, EngineError> {
        let looking = |source| kernel("looking at the job's processes", source);
        let main = Stat::of(frozen.processes[0].pid).map_err(|_| EngineError::Ended)?;
        let pids: Vec<i32> =
            frozen.processes.iter().map(|it| it.pid).chain(frozen.zombies.iter().map(|it| it.pid)).collect();
        let home = Home { pids, process_group: main.process_group, session: main.session };
        let mut living = Vec::new();
        for process in &frozen.processes {
            let mut kinship = home.place(process.pid, process.parent).map_err(looking)?;
            kinship.stopped_by = process.stopped_by.map(|signal| signal as u8);
            kinship.shares_descriptors = shares_descriptors(frozen, process, obstacles);
            living.push(kinship);
        }
        let zombies = frozen.zombies.iter().map(|zombie| home.zombie(zombie)).collect::<io::Result<_>>();
        Ok(Self { living, zombies: zombies.map_err(looking)? })
    }
}

impl Home {
    fn place(&self, pid: i32, parent: Option<i32>) -> io::Result<Kinship> {
        let (stat, status) = (Stat::of(pid)?, Status::of(pid)?);
        let parent = parent.and_then(|parent| self.pids.iter().position(|pid| *pid == parent));
        // What the main process was started in and does not lead lies outside.
        let inside = |outer: i32, home: i32, inner: &[i32]| match outer == home && !self.pids.contains(&home) {
            true => 0,
            false => inner.last().copied().unwrap_or(outer),
        };
        Ok(Kinship {
            parent: parent.map(|parent| parent as u32),
            process_group: inside(stat.process_group, self.process_group, &status.process_groups),
            session: inside(stat.session, self.session, &status.sessions),
            ..Kinship::default()
        })
    }

    fn zombie(&self, zombie: &Member) -> io::Result<ProcessState> {
        let name = proc::read(zombie.pid, "comm")?;
        let pid = Status::of(zombie.pid)?.process_ids.last().copied().unwrap_or(zombie.pid);
        let thread = ThreadState {
            tid: pid,
            name: Bytes::from(name.strip_suffix(b"\n").unwrap_or(&name)),
            ..ThreadState::default()
        };
        Ok(ProcessState {
            pid,
            threads: vec![thread],
            kinship: Kinship { wait_status: zombie.wait_status, ..self.place(zombie.pid, zombie.parent)? },
            ..ProcessState::default()
        })
    }
}

/// What a process executes, by device and inode.
fn program(pid: i32) -> Option<(u64, u64)> {
    std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| (file.dev(), file.ino()))
}

/// Whether a process shares its table of descriptors with its parent. What else processes may share is refused.
fn shares_descriptors(frozen: &Frozen, process: &FrozenProcess, obstacles: &mut Vec<Obstacle>) -> bool {
    let mut shares_with_parent = false;
    let others = frozen.processes.iter().take_while(|other| other.pid != process.pid);
    for other in others {
        let share = |what| process::share(process.pid, other.pid, what).unwrap_or(false);
        let is_parent = process.parent == Some(other.pid);
        let mut refuse = |what: &str| {
            obstacles.push(Obstacle {
                what: format!("processes {} and {}", other.pid, process.pid),
                why: format!("they share {what}, which cannot be brought back yet"),
                remedy: String::new(),
                passing: false,
            });
        };
        if share(Common::Memory) {
            refuse("their memory");
        }
        if share(Common::Directory) {
            refuse("their working directory");
        }
        match share(Common::Descriptors) {
            true if is_parent && program(process.pid) == program(frozen.processes[0].pid) => shares_with_parent = true,
            true if is_parent => refuse("their descriptors and execute another program than the main process"),
            true => refuse("their descriptors without being parent and child"),
            false => {}
        }
    }
    shares_with_parent
}
