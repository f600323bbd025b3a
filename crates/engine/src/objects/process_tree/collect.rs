//! Collects the relations between the processes of a job: parents, groups, sessions and what they share. Also collects
//! children that have ended but have not been reaped.

use crate::EngineError;
use crate::error::kernel;
use crate::freeze::Frozen;
use crate::remote_caller::RemoteCaller;
use crate::tree::Member;
use standfast_format::records::{Bytes, JobState, ProcessState, ProcessSwitches, ProcessTree, ThreadState, Unreported};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::{self, Stat, Status};
use standfast_linux::sys::process::{self, Common};
use std::collections::BTreeSet;
use std::io;

/// The relations that were found.
#[derive(Debug)]
pub(crate) struct Relations {
    /// The relations of each living process, in their order.
    pub(crate) living: Vec<ProcessTree>,
    /// The zombies, with as much as is recorded of them.
    pub(crate) zombies: Vec<ProcessState>,
}

/// What `/proc` reports about a living process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownProcess<'a> {
    pub(crate) stat: &'a Stat,
    pub(crate) status: &'a Status,
}

/// The job's own processes, and the group and session in which it was started.
struct Home {
    /// Every process of the job, with the pids that this process sees.
    pids: Vec<Pid>,
    process_group: i32,
    session: i32,
}

impl Relations {
    /// Collects the relations; `shown` are its living processes.
    pub(crate) fn of(frozen: &Frozen, shown: &[ShownProcess<'_>]) -> Result<Self, EngineError> {
        let home = Home::of(frozen.processes.iter().map(|it| it.pid), &frozen.zombies, shown);
        let mut living = Vec::new();
        for (process, ShownProcess { stat: own, status }) in frozen.processes.iter().zip(shown) {
            let mut process_tree = home.place(process.parent, own, status);
            process_tree.stopped_by = process.stopped_by.map(|signal| signal as u8);
            let leads_to_one = || Stat::of(Pid::new(own.session)).is_ok_and(|leader| leader.terminal != 0);
            process_tree.without_terminal = own.terminal == 0 && process_tree.session != 0 && leads_to_one();
            let main = process.pid.main_thread();
            let shares = |parent: Pid| process::share(main, parent.main_thread(), Common::Descriptors).unwrap_or(false);
            process_tree.shares_descriptors = process.parent.is_some_and(shares);
            living.push(process_tree);
        }
        let zombies = frozen.zombies.iter().map(|zombie| home.zombie(zombie)).collect::<io::Result<_>>();
        let zombies = zombies.map_err(|source| kernel("looking at children that have ended", source))?;
        let mut this = Self { living, zombies };
        this.note_births(&home.pids).map_err(|source| kernel("looking who has which children", source))?;
        Ok(this)
    }

    /// Notes the order in which each parent has its children, living and dead, since wait(2) finds them in that order:
    /// first those of the main thread. A restart makes all of them in that thread.
    fn note_births(&mut self, pids: &[Pid]) -> io::Result<()> {
        let zombies = self.zombies.iter_mut().map(|zombie| &mut zombie.process_tree);
        let mut process_trees: Vec<&mut ProcessTree> = self.living.iter_mut().chain(zombies).collect();
        let parents: BTreeSet<u32> = process_trees.iter().filter_map(|process_tree| process_tree.parent).collect();
        for parent in parents {
            let children = proc::children(pids[parent as usize])?;
            let places = children.iter().filter_map(|child| pids.iter().position(|pid| pid == child));
            for (birth, place) in (0..).zip(places.collect::<Vec<_>>()) {
                process_trees[place].birth = birth;
            }
        }
        Ok(())
    }
}

/// Returns enough of a running job to tell whether its tree could be rebuilt: ids, parents, sessions and groups. Only a
/// process itself can tell whether it adopts orphans, so all are assumed to do so.
pub(crate) fn outline_of_tree(
    living: &[Member],
    zombies: &[Member],
    shown: &[ShownProcess<'_>],
) -> io::Result<JobState> {
    let home = Home::of(living.iter().map(|it| it.pid), zombies, shown);
    let mut processes = Vec::new();
    for (member, ShownProcess { stat, status }) in living.iter().zip(shown) {
        processes.push(ProcessState {
            pid: status.process_ids.last().copied().unwrap_or(member.pid).get(),
            process_tree: home.place(member.parent, stat, status),
            switches: ProcessSwitches { subreaper: true, ..ProcessSwitches::default() },
            ..ProcessState::default()
        });
    }
    for zombie in zombies {
        processes.push(home.zombie(zombie)?);
    }
    Ok(JobState { processes, ..JobState::default() })
}

impl Home {
    fn of(living: impl Iterator<Item = Pid>, zombies: &[Member], shown: &[ShownProcess<'_>]) -> Self {
        let main = shown[0].stat;
        let pids = living.chain(zombies.iter().map(|it| it.pid)).collect();
        Self { pids, process_group: main.process_group, session: main.session }
    }

    fn place(&self, parent: Option<Pid>, stat: &Stat, status: &Status) -> ProcessTree {
        let parent = parent.and_then(|parent| self.pids.iter().position(|pid| *pid == parent));
        // The group and session in which the main process was started, and which it does not lead, lie outside the job.
        let inside = |outer: i32, home: i32, inner: &[i32]| match outer == home && !self.pids.contains(&Pid::new(home))
        {
            true => 0,
            false => inner.last().copied().unwrap_or(outer),
        };
        ProcessTree {
            parent: parent.map(|parent| parent as u32),
            process_group: inside(stat.process_group, self.process_group, &status.process_groups),
            session: inside(stat.session, self.session, &status.sessions),
            exit_signal: if parent.is_some() { stat.exit_signal as u8 } else { 0 },
            ..ProcessTree::default()
        }
    }

    fn zombie(&self, zombie: &Member) -> io::Result<ProcessState> {
        let name = proc::read(zombie.pid, "comm")?;
        let (stat, status) = (Stat::of(zombie.pid)?, Status::of(zombie.pid)?);
        let pid = status.process_ids.last().copied().unwrap_or(zombie.pid).get();
        let thread = ThreadState {
            tid: pid,
            name: Bytes::from(name.strip_suffix(b"\n").unwrap_or(&name)),
            ..ThreadState::default()
        };
        Ok(ProcessState {
            pid,
            threads: vec![thread],
            process_tree: ProcessTree { wait_status: zombie.wait_status, ..self.place(zombie.parent, &stat, &status) },
            ..ProcessState::default()
        })
    }
}

/// Returns what wait(2) would report to a process about living children, by their ids as the process sees them. The
/// reports remain available to the process.
pub(crate) fn unreported(remote_caller: &RemoteCaller<'_>, pid: Pid) -> Result<Vec<(Pid, Unreported)>, EngineError> {
    const SCAN: i32 = abi::WSTOPPED | abi::WCONTINUED | abi::WNOHANG | abi::WNOWAIT | abi::__WALL;
    let children = proc::children(pid).map_err(|_| EngineError::Ended)?;
    let news = |whose: abi::idtype_t, id: i32| {
        let arguments = |output| [whose.into(), id as u64, output, SCAN as u64];
        // siginfo_t: signal, error; code; process, user. The signal is 0 if there is nothing to report. The call fails
        // if all children that could be reported have ended.
        match remote_caller.ask::<3>(abi::SYS_waitid, arguments) {
            Ok([0, ..]) | Err(EngineError::Kernel { .. }) => Ok(None),
            Ok([_, code, _]) if code as i32 == abi::CLD_CONTINUED => Ok(Some(Unreported::Continued)),
            Ok(_) => Ok(Some(Unreported::Stopped)),
            Err(error) => Err(error),
        }
    };
    let mut unreported = Vec::new();
    if children.is_empty() || news(abi::P_ALL, 0)?.is_none() {
        return Ok(unreported);
    }
    for child in children {
        let Ok(Some(id)) = Status::of(child).map(|status| status.process_ids.last().copied()) else { continue };
        unreported.extend(news(abi::P_PID, id.get())?.map(|news| (id, news)));
    }
    Ok(unreported)
}
