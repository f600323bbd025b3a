//! In which order the processes of a job are made, by which process, and in which sessions and groups. The same steps
//! serve real processes and those of a rehearsal, which knows the kernel's rules and reports in advance what the kernel
//! would refuse.
//!
//! A process is always born into the session of its maker, and a process that has lost its parent gets the job's reaper
//! as parent. So processes are made in this order: first the children that a later session leader had before it became
//! one, then the leader becomes it, then its other children. For a stray whose session is not that of the main process,
//! a *stand-in* is made, which makes the stray and ends. Another one stands in for the leader of a session or group that
//! has ended, or makes a process that its parent has adopted from another session. Such a process can be made only when
//! the leader of its session exists; its younger siblings are made after it, since wait(2) finds the oldest child first.

mod rehearsed;

use crate::{Blocker, EngineError, RefusalCode};
pub(crate) use rehearsed::{rehearse_births, settle_births};
use standfast_format::records::{JobState, ProcessState, ProcessTree};
use standfast_linux::abi;
use std::collections::BTreeMap;

const CLONE_FILES: i32 = abi::CLONE_FILES;
const CLONE_PARENT: i32 = abi::CLONE_PARENT;
/// The signal that reports the end of ordinary children.
const SIGCHLD: i32 = abi::SIGCHLD;

/// A process that is made, really or in a rehearsal.
pub(crate) trait Relative: Sized {
    /// Makes a child of it, or with CLONE_PARENT a sibling, under this id.
    fn fork(&self, flags: i32, id: i32) -> Result<Self, EngineError>;
    /// Calls setsid(2).
    fn begin_session(&self) -> Result<(), EngineError>;
    /// Gives it the terminal of the session that it leads, if that has one.
    fn take_terminal(&self, session: i32) -> Result<(), EngineError>;
    /// Calls setpgid(2); 0 means a group of its own.
    fn join_group(&self, group: i32) -> Result<(), EngineError>;
    /// Makes it adopt descendants that lose their parent, from now on.
    fn take_orphans(&self) -> Result<(), EngineError>;
    /// Reaps a child that has ended.
    fn forget_child(&self, id: i32) -> Result<(), EngineError>;
    /// Ends it at once.
    fn end(&self);
    /// Reports whether it is a child of another one.
    fn is_child_of(&self, parent: &Self) -> bool;
}

/// A process that exists for a while in place of one that has ended.
#[derive(Debug)]
pub(crate) struct StandIn<R> {
    pub(crate) process: R,
    /// The place of its parent, if the parent belongs to the job and must not find it.
    pub(crate) parent: Option<usize>,
}

/// The births of all processes of a job, in progress.
pub(crate) struct Birth<'a, R> {
    job: &'a JobState,
    /// By place; the main process exists from the start.
    pub(crate) born: BTreeMap<usize, R>,
    /// By id.
    pub(crate) stand_ins: BTreeMap<i32, StandIn<R>>,
    /// The present session of each; 0 is the session in which the job was started.
    sessions: BTreeMap<usize, i32>,
    /// The place of each, by id.
    places: BTreeMap<i32, usize>,
    /// The children of each, by place, oldest first.
    children: BTreeMap<u32, Vec<usize>>,
    next_free_id: i32,
}

impl<'a, R: Relative> Birth<'a, R> {
    pub(crate) fn new(job: &'a JobState, main: R) -> Self {
        let (born, sessions) = (BTreeMap::from([(0, main)]), BTreeMap::from([(0, 0)]));
        let places = job.processes.iter().enumerate().map(|(place, process)| (process.pid, place)).collect();
        let mut children: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (place, process) in job.processes.iter().enumerate().skip(1) {
            process.process_tree.parent.into_iter().for_each(|parent| children.entry(parent).or_default().push(place));
        }
        children.values_mut().for_each(|of_one| of_one.sort_by_key(|child| job.processes[*child].process_tree.birth));
        let next_free_id = highest_id(job) + 1;
        Self { job, born, stand_ins: BTreeMap::new(), sessions, places, children, next_free_id }
    }

    pub(crate) fn make_all(&mut self) -> Result<(), EngineError> {
        self.make_strays(|session| session == 0)?;
        self.make_children(0)?;
        loop {
            let before = self.born.len();
            self.make_strays(|_| true)?;
            if let Some(place) = self.next_adopted() {
                self.make_adopted(place)?;
            } else if let Some(place) = self.next_out_of_order() {
                self.make_child(place)?;
            }
            if self.born.len() == before {
                break;
            }
        }
        self.set_groups()
    }

    fn state(&self, place: usize) -> &'a ProcessState {
        &self.job.processes[place]
    }

    /// Makes the missing strays whose session satisfies `which`, with all their descendants. Those whose leader is still to be
    /// made have to wait.
    fn make_strays(&mut self, which: impl Fn(i32) -> bool) -> Result<(), EngineError> {
        for place in 1..self.job.processes.len() {
            let ProcessTree { parent, session, .. } = self.state(place).process_tree;
            let leads = session == self.state(place).pid;
            let may_be_made = leads || which(session) && !self.awaits_leader(place);
            if parent.is_some() || self.born.contains_key(&place) || !may_be_made {
                continue;
            }
            let pid = self.state(place).pid;
            let main_session = self.sessions[&0];
            let stray = if leads || session == main_session {
                self.born[&0].fork(CLONE_PARENT | SIGCHLD, pid)?
            } else {
                let (id, process) = self.stand_in_for_leader(session)?;
                let stray = process.fork(CLONE_PARENT | SIGCHLD, pid);
                self.stand_ins.insert(id, StandIn { process, parent: None });
                stray?
            };
            let born_into = if leads || session == main_session { main_session } else { session };
            self.sessions.insert(place, born_into);
            self.born.insert(place, stray);
            self.make_children(place)?;
        }
        Ok(())
    }

    /// Returns a process in a session whose parent is the reaper. This is a stand-in for the leader if that has ended.
    /// Otherwise the living leader makes a stand-in that makes this process and ends at once.
    fn stand_in_for_leader(&mut self, session: i32) -> Result<(i32, R), EngineError> {
        if let Some(known) = self.stand_ins.remove(&session) {
            return Ok((session, known.process));
        }
        let Some(leader) = self.living_leader(session) else {
            let stand_in = self.born[&0].fork(CLONE_PARENT | SIGCHLD, session)?;
            stand_in.begin_session()?;
            return Ok((session, stand_in));
        };
        self.make_grandchild(leader)
    }

    /// Returns the place of the leader of a session, if it exists.
    fn living_leader(&self, session: i32) -> Option<usize> {
        let place = self.places.get(&session).filter(|place| self.born.contains_key(place));
        place.copied().filter(|place| self.sessions.get(place) == Some(&session))
    }

    /// Reports whether the leader of a process's session, another process of the job, is still to be made.
    fn awaits_leader(&self, place: usize) -> bool {
        let session = self.state(place).process_tree.session;
        let leader = self.places.get(&session).filter(|leader| self.state(**leader).process_tree.session == session);
        leader.is_some_and(|leader| *leader != place && !self.born.contains_key(leader))
    }

    /// Makes a grandchild that loses its parent at once; returns it with its id.
    fn make_grandchild(&mut self, place: usize) -> Result<(i32, R), EngineError> {
        let (between, id) = (self.next_free_id, self.next_free_id + 1);
        self.next_free_id += 2;
        let parent = self.born[&place].fork(SIGCHLD, between)?;
        let made = parent.fork(SIGCHLD, id);
        parent.end();
        self.born[&place].forget_child(between)?;
        Ok((id, made?))
    }

    /// Makes the children of a process and their descendants, and makes it a session leader in between if it is one. Stops
    /// at a child that it has adopted from another session.
    fn make_children(&mut self, place: usize) -> Result<(), EngineError> {
        let process_tree = self.state(place).process_tree;
        let leads = process_tree.session == self.state(place).pid && self.sessions[&place] != process_tree.session;
        if leads {
            let before = self.sessions[&place];
            for child in self.missing_children(place) {
                if self.state(child).process_tree.session == before {
                    self.make_child(child)?;
                }
            }
            self.born[&place].begin_session()?;
            self.born[&place].take_terminal(process_tree.session)?;
            self.sessions.insert(place, process_tree.session);
        }
        for child in self.missing_children(place) {
            if self.is_adopted(child) {
                break;
            }
            self.make_child(child)?;
        }
        Ok(())
    }

    /// Returns the children of a process that are still to be made, oldest first.
    fn missing_children(&self, place: usize) -> Vec<usize> {
        let children = self.children.get(&(place as u32)).into_iter().flatten().copied();
        children.filter(|child| !self.born.contains_key(child)).collect()
    }

    /// Returns the place of a process's parent, if the parent belongs to the job.
    fn parent_of(&self, place: usize) -> Option<usize> {
        self.state(place).process_tree.parent.map(|parent| parent as usize)
    }

    /// Reports whether a process, whose parent exists, can only be an adopted child of it: it belongs to another session, and
    /// does not lead that.
    fn is_adopted(&self, place: usize) -> bool {
        let session = self.state(place).process_tree.session;
        session != self.state(place).pid && self.parent_of(place).is_some_and(|it| self.sessions[&it] != session)
    }

    /// Makes a process as a child of its parent, into whose session it is born.
    fn make_child(&mut self, place: usize) -> Result<(), EngineError> {
        let (Some(parent), process_tree) = (self.parent_of(place), self.state(place).process_tree) else {
            return Ok(());
        };
        let flags = if process_tree.shares_descriptors { CLONE_FILES } else { 0 };
        let child = self.born[&parent].fork(flags | i32::from(process_tree.exit_signal), self.state(place).pid)?;
        self.take_up(place, child, self.sessions[&parent])
    }

    fn take_up(&mut self, place: usize, process: R, session: i32) -> Result<(), EngineError> {
        self.born.insert(place, process);
        self.sessions.insert(place, session);
        self.make_children(place)
    }

    /// Returns the next process that its parent has adopted and that can be made now: the oldest missing child.
    fn next_adopted(&self) -> Option<usize> {
        let oldest = self.born.keys().filter_map(|parent| self.missing_children(*parent).first().copied());
        oldest.filter(|place| self.is_adopted(*place) && !self.awaits_leader(*place)).min()
    }

    /// Returns a process that must be made before an older sibling, since that one awaits a leader that does not come
    /// otherwise.
    fn next_out_of_order(&self) -> Option<usize> {
        let mut missing = self.born.keys().flat_map(|parent| self.missing_children(*parent));
        missing.find(|place| !self.is_adopted(*place))
    }

    /// Makes a process that its parent has adopted from another session, and then its younger siblings.
    fn make_adopted(&mut self, place: usize) -> Result<(), EngineError> {
        let Some(parent) = self.parent_of(place) else { return Ok(()) };
        let (pid, session) = (self.state(place).pid, self.state(place).process_tree.session);
        let sibling = self.sibling_in_session(parent, session, pid)?;
        let child = self.stand_ins[&sibling].process.fork(CLONE_PARENT | SIGCHLD, pid)?;
        self.take_up(place, child, session)?;
        self.make_children(parent)
    }

    /// Returns the id of a stand-in that is a child of the process at `parent`, and in `session`; `pid` is the process
    /// to be made.
    fn sibling_in_session(&mut self, parent: usize, session: i32, pid: i32) -> Result<i32, EngineError> {
        let leader = self.living_leader(session);
        let (id, process) = match (self.stand_ins.get(&session), leader) {
            (Some(known), _) if known.parent == Some(parent) => return Ok(session),
            (None, None) => {
                let stand_in = self.born[&parent].fork(SIGCHLD, session)?;
                stand_in.begin_session()?;
                (session, stand_in)
            }
            (None, Some(leader)) if self.state(parent).switches.subreaper => {
                self.born[&parent].take_orphans()?;
                self.make_grandchild(leader)?
            }
            _ => return Err(not_put_back(pid)),
        };
        let is_child = process.is_child_of(&self.born[&parent]);
        self.stand_ins.insert(id, StandIn { process, parent: Some(parent) });
        if is_child { Ok(id) } else { Err(not_put_back(pid)) }
    }

    /// Sets the groups: leaders first, then their followers. If a leader has ended, a stand-in replaces it.
    fn set_groups(&mut self) -> Result<(), EngineError> {
        let places: Vec<usize> = self.born.keys().copied().collect();
        for place in &places {
            let state = self.state(*place);
            if state.process_tree.process_group == state.pid && state.process_tree.session != state.pid {
                self.born[place].join_group(0)?;
            }
        }
        for place in places {
            let state = self.state(place);
            let (pid, group) = (state.pid, state.process_tree.process_group);
            if group == 0 || group == pid {
                continue;
            }
            let has_leader = self.places.get(&group).is_some_and(|place| self.born.contains_key(place));
            if !has_leader && !self.stand_ins.contains_key(&group) {
                let stand_in = self.born[&place].fork(SIGCHLD, group)?;
                let leads = stand_in.join_group(0);
                let stand_in = StandIn { process: stand_in, parent: Some(place) };
                self.stand_ins.insert(group, stand_in);
                leads?;
            }
            self.born[&place].join_group(group)?;
        }
        Ok(())
    }
}

fn not_put_back(pid: i32) -> EngineError {
    EngineError::Refused(vec![Blocker::new(
        RefusalCode::ProcessTree,
        format!("process {pid}"),
        "it belongs to a session that its parent does not belong to, and cannot be made there again",
    )])
}

/// Returns the highest id of processes, threads, groups and sessions. The leaders of groups and sessions may have ended.
pub(crate) fn highest_id(job: &JobState) -> i32 {
    let ids = |process: &ProcessState| {
        let outer = process.pid.max(process.process_tree.process_group).max(process.process_tree.session);
        process.threads.iter().map(|thread| thread.tid).fold(outer, i32::max)
    };
    job.processes.iter().map(ids).max().unwrap_or_default()
}
