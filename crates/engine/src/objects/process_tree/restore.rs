//! The relatives of the main process: each made by its parent, in the right session and group, under its old id; and
//! the zombies. While they are made, only the scratch is in their memory.

use crate::EngineError;
use crate::births::{Birth, Relative, StandIn};
use crate::construction::{Construction, building, end_processes};
use crate::error::kernel;
use crate::objects::Parked;
use standfast_format::records::{JobState, ProcessState, ProcessTree};
use standfast_linux::abi;
use standfast_linux::proc::Stat;
use standfast_linux::sys::process;
use standfast_linux::{Pid, Stop, TaskError};
use std::collections::BTreeMap;

const PR_SET_NAME: u64 = abi::PR_SET_NAME as u64;

/// Processes that are not to live on.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// Processes that are to be zombies, by their place in the image.
    zombies: BTreeMap<usize, Construction>,
    /// Stand-ins, by id.
    stand_ins: BTreeMap<i32, StandIn<Construction>>,
}

impl Remains {
    /// Returns those that have not ended yet.
    pub(crate) fn pids(&self) -> Vec<Pid> {
        let stand_ins = self.stand_ins.values().map(|stand_in| &stand_in.process);
        self.zombies.values().chain(stand_ins).map(Construction::pid).collect()
    }

    /// Makes all processes other than the main one, which `processes` holds, and ends those that are to be zombies.
    pub(crate) fn make_relatives(
        &mut self,
        processes: &mut Vec<Construction>,
        job: &JobState,
        parked: &Parked,
    ) -> Result<(), EngineError> {
        if job.processes.len() == 1 && job.processes[0].process_tree == ProcessTree::default() {
            return Ok(());
        }
        // A program that was started with SIGCHLD ignored would lose its zombies.
        processes[0].reset_disposition(abi::SIGCHLD)?;
        let main = Member { process: processes.remove(0), job, parked };
        let mut birth = Birth::new(job, main);
        let made = birth.make_all();
        let Birth { born, stand_ins, .. } = birth;
        for (place, Member { process, .. }) in born {
            match job.processes[place].process_tree.wait_status {
                None => processes.push(process),
                Some(_) => drop(self.zombies.insert(place, process)),
            }
        }
        let stand_ins = stand_ins.into_iter();
        self.stand_ins.extend(
            stand_ins.map(|(id, StandIn { process, parent })| (id, StandIn { process: process.process, parent })),
        );
        made?;
        self.end_all(processes, job)
    }

    /// Ends zombies and stand-ins, and makes their parents forget that they were notified.
    fn end_all(&mut self, processes: &[Construction], job: &JobState) -> Result<(), EngineError> {
        for (id, StandIn { process, parent }) in std::mem::take(&mut self.stand_ins) {
            end_processes(&[process.pid()], &[], None);
            if let Some(parent) = parent.and_then(|parent| processes.get(parent)) {
                parent.forget_child(id)?;
            }
        }
        for (place, zombie) in std::mem::take(&mut self.zombies) {
            zombie.end_as(&job.processes[place])?;
        }
        processes.iter().try_for_each(Construction::forget_signals)
    }
}

/// A process of the family, while it is made.
struct Member<'a> {
    process: Construction,
    job: &'a JobState,
    /// The terminals that session leaders are to have.
    parked: &'a Parked,
}

impl Relative for Member<'_> {
    fn fork(&self, flags: i32, id: i32) -> Result<Self, EngineError> {
        Ok(Self { process: self.process.fork(flags, Some(id))?, ..*self })
    }

    fn begin_session(&self) -> Result<(), EngineError> {
        self.process.call("beginning a session", abi::SYS_setsid, [0; 6]).map(drop)
    }

    fn take_terminal(&self, session: i32) -> Result<(), EngineError> {
        self.process.take_terminal(self.job, self.parked, session)
    }

    fn join_group(&self, group: i32) -> Result<(), EngineError> {
        let action = if group == 0 { "leading a group" } else { "joining a group" };
        self.process.call(action, abi::SYS_setpgid, [0, group as u64, 0, 0, 0, 0]).map(drop)
    }

    fn take_orphans(&self) -> Result<(), EngineError> {
        let action = "setting a switch of the process";
        let arguments = [abi::PR_SET_CHILD_SUBREAPER as u64, 1, 0, 0, 0, 0];
        self.process.call(action, abi::SYS_prctl, arguments).map(drop)
    }

    fn forget_child(&self, id: i32) -> Result<(), EngineError> {
        self.process.forget_child(id)
    }

    fn end(&self) {
        end_processes(&[self.process.pid()], &[], None);
    }

    fn is_child_of(&self, parent: &Self) -> bool {
        Stat::of(self.process.pid()).is_ok_and(|stat| stat.parent == parent.process.pid())
    }
}

impl Construction {
    /// Ends the process as `state` says, after which it is a zombie.
    fn end_as(&self, state: &ProcessState) -> Result<(), EngineError> {
        if let Some(thread) = state.threads.first() {
            let name = self.path_argument(&thread.name.0)?;
            self.call("naming a process", abi::SYS_prctl, [PR_SET_NAME, name, 0, 0, 0, 0])?;
        }
        let status = state.process_tree.wait_status.unwrap_or_default();
        let ended = if abi::WIFSIGNALED(status) {
            self.die_of(abi::WTERMSIG(status))?
        } else {
            let code = abi::WEXITSTATUS(status) as u64;
            self.main().call(&self.base, self.syscall, abi::SYS_exit_group, [code, 0, 0, 0, 0, 0]).err()
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
        if signal == abi::SIGKILL {
            end_processes(&[self.pid()], &[], None);
            return Ok(Some(TaskError::Ended { tid: self.main().tid(), status: None }));
        }
        process::set_limit(self.pid(), abi::RLIMIT_CORE, 0, 0).map_err(ending)?;
        // It may have inherited that the signal is ignored.
        self.reset_disposition(signal)?;
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
