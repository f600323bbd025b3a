//! The relatives of the main process: each made by its parent, in the right session and group, under its old id; and the
//! zombies. While they are made there is nothing in any of them but the scratch.
//!
//! A process can only be born into the session of its maker, and whoever has lost its parent has the job's reaper for one.
//! So processes are made in this order: first those that a later session leader had before it became one, then the
//! leader becomes it, then its other children. For a stray whose session is not that of the main process, a *stand-in*
//! is made, which makes the stray and ends. Another one stands in for the leader of a session or group that has ended, or
//! beside a process that its parent has adopted from another session.

use super::construction::{Construction, building, end_processes};
use super::descriptors::Parked;
use super::family::Family;
use super::ids::highest_id;
use super::plan::JobPlan;
use crate::freeze::kernel;
use crate::{EngineError, Obstacle};
use standfast_format::records::{Kinship, ProcessState};
use standfast_linux::proc::Stat;
use standfast_linux::sys::process;
use standfast_linux::{Stop, TaskError};
use std::collections::BTreeMap;

const CLONE_FILES: i32 = libc::CLONE_FILES;
const CLONE_PARENT: i32 = libc::CLONE_PARENT;
/// Tells of the end of ordinary children.
const SIGCHLD: i32 = libc::SIGCHLD;
const PR_SET_NAME: u64 = libc::PR_SET_NAME as u64;
const SIGNAL_SET_BYTES: u64 = 8;

/// Processes that are not to live on.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// Zombies to be, by their place in the image.
    zombies: BTreeMap<usize, Construction>,
    /// Stand-ins, by id.
    stand_ins: BTreeMap<i32, StandIn>,
}

/// A process that is there for a while, in place of one that has ended.
#[derive(Debug)]
struct StandIn {
    process: Construction,
    /// The place of its parent, where that belongs to the job and must not find it.
    parent: Option<usize>,
}

impl Remains {
    /// Those that have not ended yet.
    pub(super) fn pids(&self) -> Vec<i32> {
        let stand_ins = self.stand_ins.values().map(|stand_in| &stand_in.process);
        self.zombies.values().chain(stand_ins).map(Construction::pid).collect()
    }
}

/// Making a family, under way.
struct Birth<'a, 'p> {
    family: &'a mut Family,
    plan: &'a JobPlan<'p>,
    /// By place; the main process's is there from the start.
    born: BTreeMap<usize, Construction>,
    /// The session that each has at the moment; 0 is that which the job was started in.
    sessions: BTreeMap<usize, i32>,
    next_free_id: i32,
    /// The terminals that session leaders are to have.
    parked: &'a Parked,
}

impl Family {
    /// Makes everybody else, and ends those that are to be zombies.
    pub(super) fn make_relatives(&mut self, plan: &JobPlan<'_>, parked: &Parked) -> Result<(), EngineError> {
        if plan.job.processes.len() == 1 && plan.job.processes[0].kinship == Kinship::default() {
            return Ok(());
        }
        self.main().forget_disposition_of_children()?;
        let next_free_id = highest_id(plan.job) + 1;
        let main = self.processes.remove(0);
        let mut birth = Birth {
            family: self,
            plan,
            born: BTreeMap::from([(0, main)]),
            sessions: BTreeMap::from([(0, 0)]),
            next_free_id,
            parked,
        };
        let made = birth.make_all();
        let Birth { born, .. } = birth;
        for (place, process) in born {
            match plan.job.processes[place].kinship.wait_status {
                None => self.processes.push(process),
                Some(_) => drop(self.remains.zombies.insert(place, process)),
            }
        }
        made?;
        self.end_remains(plan)?;
        for (place, process) in self.processes.iter_mut().enumerate() {
            let state = &plan.job.processes[place];
            match place {
                0 => {}
                // What the main process executes, all that it has made execute as well.
                _ if state.executable == plan.job.processes[0].executable => process.begin_anew(&plan.of(place))?,
                _ => process.execute(&plan.of(place))?,
            }
        }
        Ok(())
    }

    /// Lets zombies and stand-ins end, and has their parents forget that they were told.
    fn end_remains(&mut self, plan: &JobPlan<'_>) -> Result<(), EngineError> {
        for (id, StandIn { process, parent }) in std::mem::take(&mut self.remains.stand_ins) {
            end_processes(&[process.pid()], &[], None);
            if let Some(parent) = parent.and_then(|parent| self.processes.get(parent)) {
                parent.forget_child(id)?;
            }
        }
        for (place, zombie) in std::mem::take(&mut self.remains.zombies) {
            zombie.end_as(&plan.job.processes[place])?;
        }
        self.processes.iter().try_for_each(Construction::forget_signals)
    }
}

impl Birth<'_, '_> {
    fn make_all(&mut self) -> Result<(), EngineError> {
        self.make_strays(|session| session == 0)?;
        self.make_children(0)?;
        self.make_strays(|_| true)?;
        self.make_adopted()?;
        self.set_groups()
    }

    fn state(&self, place: usize) -> &ProcessState {
        &self.plan.job.processes[place]
    }

    /// Makes the strays that are not there yet and whose session satisfies `which`, with all their descendants.
    fn make_strays(&mut self, which: impl Fn(i32) -> bool) -> Result<(), EngineError> {
        for place in 1..self.plan.job.processes.len() {
            let Kinship { parent, session, .. } = self.state(place).kinship;
            let leads = session == self.state(place).pid;
            if parent.is_some() || self.born.contains_key(&place) || !(which(session) || leads) {
                continue;
            }
            let pid = self.state(place).pid;
            let main_session = self.sessions[&0];
            let stray = if leads || session == main_session {
                self.born[&0].fork(CLONE_PARENT | SIGCHLD, Some(pid))?
            } else {
                let (id, process) = self.stand_in_for_leader(session)?;
                let stray = process.fork(CLONE_PARENT | SIGCHLD, Some(pid));
                self.family.remains.stand_ins.insert(id, StandIn { process, parent: None });
                stray?
            };
            let born_into = if leads || session == main_session { main_session } else { session };
            self.sessions.insert(place, born_into);
            self.born.insert(place, stray);
            self.make_children(place)?;
        }
        Ok(())
    }

    /// Somebody in a session who has the reaper for a parent: a stand-in for the leader if that has ended, else one made
    /// by a stand-in that the living leader makes and that ends at once.
    fn stand_in_for_leader(&mut self, session: i32) -> Result<(i32, Construction), EngineError> {
        if let Some(known) = self.family.remains.stand_ins.remove(&session) {
            return Ok((session, known.process));
        }
        let Some(leader) = self.living_leader(session) else {
            let stand_in = self.born[&0].fork(CLONE_PARENT | SIGCHLD, Some(session))?;
            stand_in.call("beginning a session", libc::SYS_setsid, [0; 6])?;
            return Ok((session, stand_in));
        };
        self.make_grandchild(leader)
    }

    /// The place of the leader of a session, if it is there.
    fn living_leader(&self, session: i32) -> Option<usize> {
        let leads = |place: &usize| self.state(*place).pid == session && self.sessions.get(place) == Some(&session);
        self.born.keys().copied().find(leads)
    }

    /// Makes a grandchild that loses its parent at once: with its id.
    fn make_grandchild(&mut self, place: usize) -> Result<(i32, Construction), EngineError> {
        let (between, id) = (self.next_free_id, self.next_free_id + 1);
        self.next_free_id += 2;
        let parent = self.born[&place].fork(SIGCHLD, Some(between))?;
        let made = parent.fork(SIGCHLD, Some(id));
        end_processes(&[parent.pid()], &[], None);
        self.born[&place].forget_child(between)?;
        Ok((id, made?))
    }

    /// Makes the children of a process and their descendants, and makes it a session leader in between if it is one.
    fn make_children(&mut self, place: usize) -> Result<(), EngineError> {
        let kinship = self.state(place).kinship;
        let leads = kinship.session == self.state(place).pid && self.sessions[&place] != kinship.session;
        let mut children: Vec<usize> = (1..self.plan.job.processes.len())
            .filter(|child| self.state(*child).kinship.parent == Some(place as u32))
            .collect();
        children.sort_by_key(|child| self.state(*child).kinship.birth);
        if leads {
            let before = self.sessions[&place];
            for child in &children {
                if self.state(*child).kinship.session == before {
                    self.make_child(place, *child)?;
                }
            }
            self.born[&place].call("beginning a session", libc::SYS_setsid, [0; 6])?;
            self.born[&place].take_terminal(self.plan, self.parked, kinship.session)?;
            self.sessions.insert(place, kinship.session);
        }
        for child in children {
            if !self.born.contains_key(&child) {
                self.make_child(place, child)?;
            }
        }
        Ok(())
    }

    /// Nobody who has been adopted from another session.
    fn make_child(&mut self, parent: usize, place: usize) -> Result<(), EngineError> {
        let state = self.state(place);
        let (pid, kinship) = (state.pid, state.kinship);
        let session = self.sessions[&parent];
        if kinship.session != session && kinship.session != pid {
            return Ok(());
        }
        let flags = if kinship.shares_descriptors { CLONE_FILES } else { 0 };
        let child = self.born[&parent].fork(flags | i32::from(kinship.exit_signal), Some(pid))?;
        self.take_up(place, child, session)
    }

    fn take_up(&mut self, place: usize, process: Construction, session: i32) -> Result<(), EngineError> {
        self.born.insert(place, process);
        self.sessions.insert(place, session);
        self.make_children(place)
    }

    /// Makes those who have been adopted from another session, once all others are there.
    fn make_adopted(&mut self) -> Result<(), EngineError> {
        let of_born = |this: &Self, place: usize| {
            let parent = this.state(place).kinship.parent.map(|parent| parent as usize);
            parent.filter(|parent| !this.born.contains_key(&place) && this.born.contains_key(parent))
        };
        let next =
            |this: &Self| (1..this.plan.job.processes.len()).find_map(|place| Some((place, of_born(this, place)?)));
        while let Some((place, parent)) = next(self) {
            let (pid, session) = (self.state(place).pid, self.state(place).kinship.session);
            let sibling = self.sibling_in_session(parent, session, pid)?;
            let child = self.family.remains.stand_ins[&sibling].process.fork(CLONE_PARENT | SIGCHLD, Some(pid))?;
            self.take_up(place, child, session)?;
        }
        Ok(())
    }

    /// The id of a stand-in that is a child of the process at `parent`, and in `session`; `pid` is for whom.
    fn sibling_in_session(&mut self, parent: usize, session: i32, pid: i32) -> Result<i32, EngineError> {
        let leader = self.living_leader(session);
        let (id, process) = match (self.family.remains.stand_ins.get(&session), leader) {
            (Some(known), _) if known.parent == Some(parent) => return Ok(session),
            (None, None) => {
                let stand_in = self.born[&parent].fork(SIGCHLD, Some(session))?;
                stand_in.call("beginning a session", libc::SYS_setsid, [0; 6])?;
                (session, stand_in)
            }
            (None, Some(leader)) if self.state(parent).switches.subreaper => {
                self.born[&parent].take_orphans()?;
                self.make_grandchild(leader)?
            }
            _ => return Err(not_put_back(pid)),
        };
        let is_child = Stat::of(process.pid()).is_ok_and(|stat| stat.parent == self.born[&parent].pid());
        self.family.remains.stand_ins.insert(id, StandIn { process, parent: Some(parent) });
        if is_child { Ok(id) } else { Err(not_put_back(pid)) }
    }

    /// Leaders first, then those who follow them; where a leader has ended, somebody stands in.
    fn set_groups(&mut self) -> Result<(), EngineError> {
        let places: Vec<usize> = self.born.keys().copied().collect();
        for place in &places {
            let state = self.state(*place);
            if state.kinship.process_group == state.pid && state.kinship.session != state.pid {
                self.born[place].call("leading a group", libc::SYS_setpgid, [0; 6])?;
            }
        }
        for place in places {
            let state = self.state(place);
            let (pid, group) = (state.pid, state.kinship.process_group);
            if group == 0 || group == pid {
                continue;
            }
            let has_leader = self.born.keys().any(|place| self.state(*place).pid == group);
            if !has_leader && !self.family.remains.stand_ins.contains_key(&group) {
                let stand_in = self.born[&place].fork(SIGCHLD, Some(group))?;
                let leads = stand_in.call("leading a group", libc::SYS_setpgid, [0; 6]);
                let stand_in = StandIn { process: stand_in, parent: Some(place) };
                self.family.remains.stand_ins.insert(group, stand_in);
                leads?;
            }
            self.born[&place].call("joining a group", libc::SYS_setpgid, [0, group as u64, 0, 0, 0, 0])?;
        }
        Ok(())
    }
}

fn not_put_back(pid: i32) -> EngineError {
    EngineError::Refused(vec![Obstacle {
        what: format!("process {pid}"),
        why: "it belongs to a session that its parent does not belong to, and cannot be put back there".to_owned(),
        remedy: String::new(),
        passing: false,
    }])
}

impl Construction {
    /// Descendants that lose their parent come to it, from now on.
    fn take_orphans(&self) -> Result<(), EngineError> {
        let action = "setting a switch of the process";
        self.call(action, libc::SYS_prctl, [libc::PR_SET_CHILD_SUBREAPER as u64, 1, 0, 0, 0, 0]).map(drop)
    }

    /// A program that has been started with SIGCHLD ignored would lose its zombies.
    fn forget_disposition_of_children(&self) -> Result<(), EngineError> {
        let at = self.argument(&[0; 32])?;
        let arguments = [libc::SIGCHLD as u64, at, 0, SIGNAL_SET_BYTES, 0, 0];
        self.call("setting what signal 17 does", libc::SYS_rt_sigaction, arguments).map(drop)
    }

    /// Takes the news of a child that has ended.
    pub(super) fn forget_child(&self, id: i32) -> Result<(), EngineError> {
        let arguments = [id as u64, 0, libc::__WALL as u64, 0, 0, 0];
        self.call("reaping a stand-in", libc::SYS_wait4, arguments)?;
        self.forget_signals()
    }

    /// Takes the signals that building has caused: those that the program is to find are queued later.
    pub(super) fn forget_signals(&self) -> Result<(), EngineError> {
        // The set of signals, then a time limit of nothing.
        let mut bytes = u64::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 16]);
        let at = self.argument(&bytes)?;
        let arguments = [at, 0, at + 8, SIGNAL_SET_BYTES, 0, 0];
        loop {
            match self.call("taking a signal", libc::SYS_rt_sigtimedwait, arguments) {
                Ok(_) => {}
                Err(EngineError::Kernel { source, .. }) if source.kind() == std::io::ErrorKind::WouldBlock => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends as `state` says, and is a zombie then.
    fn end_as(&self, state: &ProcessState) -> Result<(), EngineError> {
        if let Some(thread) = state.threads.first() {
            let name = self.path_argument(&thread.name.0)?;
            self.call("naming a process", libc::SYS_prctl, [PR_SET_NAME, name, 0, 0, 0, 0])?;
        }
        let status = state.kinship.wait_status.unwrap_or_default();
        let ended = if libc::WIFSIGNALED(status) {
            self.die_of(libc::WTERMSIG(status))?
        } else {
            let code = libc::WEXITSTATUS(status) as u64;
            self.main().call(&self.base, self.syscall, libc::SYS_exit_group, [code, 0, 0, 0, 0, 0]).err()
        };
        match ended {
            Some(TaskError::Ended { .. }) => Ok(()),
            Some(error) => Err(building(error)),
            None => Err(kernel("ending a process", std::io::Error::other("it goes on"))),
        }
    }

    /// Dies of a signal, without a core file.
    fn die_of(&self, signal: i32) -> Result<Option<TaskError>, EngineError> {
        let ending = |source| kernel("ending a process", source);
        if signal == libc::SIGKILL {
            end_processes(&[self.pid()], &[], None);
            return Ok(Some(TaskError::Ended { tid: self.pid(), status: None }));
        }
        process::set_limit(self.pid(), libc::RLIMIT_CORE, (0, 0)).map_err(ending)?;
        // What it has inherited may be to ignore it.
        let default = self.argument(&[0; 32])?;
        let arguments = [signal as u64, default, 0, SIGNAL_SET_BYTES, 0, 0];
        self.call("setting what a signal does", libc::SYS_rt_sigaction, arguments)?;
        process::kill(self.pid(), signal).map_err(ending)?;
        let mut pass = 0;
        self.main().set_signal_mask(0).map_err(building)?;
        loop {
            let next = self.main().resume(pass).and_then(|()| self.main().wait());
            match next {
                Ok(Stop::Signal(signal)) => pass = signal,
                Ok(_) => pass = 0,
                Err(error) => return Ok(Some(error)),
            }
        }
    }
}
