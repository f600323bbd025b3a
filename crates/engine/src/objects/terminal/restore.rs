//! Pseudo-terminals: made under their old numbers, with the data that was in flight, before the open files that lead to
//! them. Each is given to the session that it controls once that session exists.

use super::CONTROL_CHARACTERS;
use crate::births::highest_id;
use crate::construction::{Construction, end_processes};
use crate::error::kernel;
use crate::objects::opening::Parked;
use crate::objects::{O_LARGEFILE, O_NOCTTY, O_NONBLOCK, O_RDWR, Opening};
use crate::terminals::{InFlight, Sides};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{JobState, OpenFileKind, PseudoTerminal, TerminalSettings, WindowSize};
use standfast_linux::abi;
use standfast_linux::sys::terminal::{self, Termios};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

const TIOCGPTPEER: u64 = 0x5441;
const TIOCSCTTY: u64 = abi::TIOCSCTTY;
const TIOCNOTTY: u64 = abi::TIOCNOTTY;
const TIOCSPGRP: u64 = abi::TIOCSPGRP;
const PERMISSIONS: u32 = 0o7777;
const SIGCHLD: i32 = abi::SIGCHLD;

/// The two sides of a pseudo-terminal, parked.
#[derive(Debug, Clone, Copy)]
pub(in crate::objects) struct TerminalSides {
    master: u64,
    slave: u64,
}

impl Opening<'_> {
    /// Makes the terminals of the job, ascending by number.
    pub(in crate::objects) fn make_terminals(&mut self) -> Result<(), EngineError> {
        let terminals = &self.plan.job.terminals;
        let mut order: Vec<usize> = (0..terminals.len()).collect();
        order.sort_by_key(|at| terminals[*at].number);
        let (mut made, mut spare) = (Vec::new(), Vec::new());
        for at in order {
            made.push((at, self.make_terminal(&terminals[at], &mut spare)?));
        }
        spare.into_iter().try_for_each(|master| self.close(master))?;
        made.sort_by_key(|(at, _)| *at);
        self.terminals = made.into_iter().map(|(_, sides)| sides).collect();
        Ok(())
    }

    /// Makes one terminal. The kernel gives out the lowest free number, so lower free numbers are taken first and
    /// released later.
    fn make_terminal(&self, recorded: &PseudoTerminal, spare: &mut Vec<u64>) -> Result<TerminalSides, EngineError> {
        let master = loop {
            let master = self.park(self.open_path(b"/dev/ptmx", O_RDWR | O_NOCTTY)?)?;
            let number = terminal::number(self.own(master)?.as_fd()).map_err(making)?;
            if number == recorded.number {
                break master;
            }
            spare.push(master);
            if number > recorded.number {
                return Err(is_taken(recorded.number));
            }
        };
        let own = self.own(master)?;
        terminal::set_locked(own.as_fd(), false).map_err(making)?;
        let flags = (O_RDWR | O_NOCTTY).into();
        let opened = self.call("opening a terminal", abi::SYS_ioctl, [master, TIOCGPTPEER, flags, 0, 0, 0])?;
        let slave = self.park(opened)?;
        let WindowSize { rows, columns, width, height } = recorded.size;
        let in_flight = InFlight {
            input: recorded.input.clone(),
            unfinished: recorded.unfinished.clone(),
            output: recorded.output.clone(),
            stop: recorded.output_stop,
            echo: recorded.echo.clone().unwrap_or_default(),
        };
        terminal::set_window(own.as_fd(), [rows, columns, width, height]).map_err(making)?;
        let filled = Sides::new(own, self.own(slave)?).fill(&settings(&recorded.settings), &in_flight);
        filled.map_err(|source| kernel("filling a terminal", source))?;
        // Packet mode comes last, so that the program gets no news of what has been done so far.
        terminal::set_packets(self.own(master)?.as_fd(), recorded.packets).map_err(making)?;
        Ok(TerminalSides { master, slave })
    }

    /// Returns the master, which has only one open file.
    pub(in crate::objects) fn master(&self, terminal: u32, flags: u32) -> Result<u64, EngineError> {
        let TerminalSides { master, .. } = self.terminals[terminal as usize];
        self.set_flags(master, flags & O_NONBLOCK)?;
        Ok(master)
    }

    pub(in crate::objects) fn open_slave(&self, terminal: u32, flags: u32) -> Result<u64, EngineError> {
        let TerminalSides { master, slave } = self.terminals[terminal as usize];
        let flags = flags | O_NOCTTY;
        if flags & O_LARGEFILE == 0 {
            return self.call("opening a terminal", abi::SYS_ioctl, [master, TIOCGPTPEER, flags.into(), 0, 0, 0]);
        }
        self.open_path(format!("/proc/self/fd/{slave}").as_bytes(), flags)
    }

    /// Returns the master that is not for the job, as a descriptor of ours.
    pub(in crate::objects) fn held_master(&self) -> Result<Option<OwnedFd>, EngineError> {
        let mut terminals = self.terminals.iter().zip(&self.plan.job.terminals);
        let held = terminals.find(|(_, recorded)| recorded.held);
        held.map(|(sides, _)| self.own(sides.master)).transpose()
    }

    /// Makes the slave of a terminal whose master is gone.
    pub(in crate::objects) fn make_hung_up(&self, mode: Option<u32>, flags: u32) -> Result<u64, EngineError> {
        let master = self.open_path(b"/dev/ptmx", O_RDWR | O_NOCTTY)?;
        terminal::set_locked(self.own(master)?.as_fd(), false).map_err(making)?;
        let flags = (flags | O_NOCTTY).into();
        let slave = self.call("opening a terminal", abi::SYS_ioctl, [master, TIOCGPTPEER, flags, 0, 0, 0])?;
        if let Some(mode) = mode {
            set_mode(&self.own(slave)?.into(), mode).map_err(making)?;
        }
        self.close(master)?;
        Ok(slave)
    }

    /// Sets what would have prevented opening them.
    pub(in crate::objects) fn finish_terminals(&self) -> Result<(), EngineError> {
        for (sides, recorded) in self.terminals.iter().zip(&self.plan.job.terminals) {
            if let Some(mode) = recorded.mode {
                set_mode(&self.own(sides.slave)?.into(), mode).map_err(making)?;
            }
            if recorded.exclusive {
                terminal::set_exclusive(self.own(sides.slave)?.as_fd()).map_err(making)?;
            }
            if recorded.master_exclusive == Some(true) {
                terminal::set_exclusive(self.own(sides.master)?.as_fd()).map_err(making)?;
            }
            if recorded.locked {
                terminal::set_locked(self.own(sides.master)?.as_fd(), true).map_err(making)?;
            }
        }
        Ok(())
    }
}

/// Restores the foreground process group of each terminal, and takes terminals from processes that had none.
pub(crate) fn bring_to_foreground(
    processes: &[Construction],
    job: &JobState,
    parked: &Parked,
) -> Result<(), EngineError> {
    for (sides, recorded) in parked.terminals.iter().zip(&job.terminals) {
        let Some(control) = recorded.controls else { continue };
        let of_session = || {
            let living = processes.iter().zip(&job.processes);
            living.filter(|(_, state)| state.process_tree.session == control.session)
        };
        if let Some((leader, _)) = of_session().find(|(_, state)| state.pid == control.session) {
            if control.foreground == 0 {
                leader.put_nobody_in_front(sides.slave, highest_id(job) + 1)?;
            } else if control.foreground != control.session {
                leader.put_in_front(sides.slave, control.foreground)?;
            }
        }
        for (process, _) in of_session().filter(|(_, state)| state.process_tree.without_terminal) {
            process.call("giving up a terminal", abi::SYS_ioctl, [sides.slave, TIOCNOTTY, 0, 0, 0, 0])?;
        }
    }
    Ok(())
}

impl Construction {
    /// Takes the terminal that controls a session, as the leader of that session, which has just begun. Only children
    /// made from now on have it as well.
    pub(crate) fn take_terminal(&self, job: &JobState, parked: &Parked, session: i32) -> Result<(), EngineError> {
        let mut terminals = parked.terminals.iter().zip(&job.terminals);
        let is_it = |recorded: &PseudoTerminal| recorded.controls.is_some_and(|control| control.session == session);
        let Some((sides, _)) = terminals.find(|(_, recorded)| is_it(recorded)) else { return Ok(()) };
        self.call("giving a session its terminal", abi::SYS_ioctl, [sides.slave, TIOCSCTTY, 0, 0, 0, 0]).map(drop)
    }

    fn put_in_front(&self, slave: u64, group: i32) -> Result<(), EngineError> {
        let group = self.argument(&group.to_le_bytes())?;
        let arguments = [slave, TIOCSPGRP, group, 0, 0, 0];
        self.call("bringing a process group to the foreground", abi::SYS_ioctl, arguments).map(drop)
    }

    /// Brings a group to the foreground that has no members left.
    fn put_nobody_in_front(&self, slave: u64, id: i32) -> Result<(), EngineError> {
        let passing = self.fork(SIGCHLD, Some(id))?;
        let brought =
            passing.call("leading a group", abi::SYS_setpgid, [0; 6]).and_then(|_| self.put_in_front(slave, id));
        end_processes(&[passing.pid()], &[], None);
        self.forget_child(id)?;
        brought
    }
}

/// Reports whether an image holds terminals that a restart has to make.
pub(crate) fn makes_terminals(job: &JobState) -> bool {
    let is_hung_up = |kind: &OpenFileKind| matches!(kind, OpenFileKind::HungUp { .. });
    !job.terminals.is_empty() || job.open_files.iter().any(|file| is_hung_up(&file.kind))
}

fn settings(recorded: &TerminalSettings) -> Termios {
    let mut characters = [0; CONTROL_CHARACTERS];
    characters.copy_from_slice(&recorded.characters.0);
    Termios {
        input: recorded.input,
        output: recorded.output,
        control: recorded.control,
        local: recorded.local,
        line: recorded.line,
        characters,
        input_speed: recorded.input_speed,
        output_speed: recorded.output_speed,
    }
}

fn set_mode(slave: &File, mode: u32) -> io::Result<()> {
    let differs = slave.metadata()?.permissions().mode() & PERMISSIONS != mode;
    if differs { slave.set_permissions(Permissions::from_mode(mode)) } else { Ok(()) }
}

fn making(source: io::Error) -> EngineError {
    kernel("making a terminal", source)
}

fn is_taken(number: u32) -> EngineError {
    EngineError::Refused(vec![
        Blocker::new(
            RefusalCode::TerminalTaken,
            format!("terminal /dev/pts/{number}"),
            "another program has a terminal of this number, and the job may refer to its own by it",
        )
        .with_hint(
            "allow unprivileged user namespaces, in which the job has terminals of its own; or close the other one",
        )
        .for_now(),
    ])
}
