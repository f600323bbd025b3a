//! Descriptors of a job under construction. All open files are made in the main process, while it is the only one, and
//! parked above every number that the job uses; the other processes inherit them. Then each process puts its
//! descriptors in their places and closes the parking area: what was shared is shared again.
//!
//! This file parks and places; a file for each family of open files knows how its members are made.

mod anonymous;
mod external;
mod kernel_file;
mod locks;
mod message_queue;
mod pipe;
mod regular;
mod socket;
mod terminal;
mod watching;

use super::construction::Construction;
use super::plan::{FilePlan, Plan};
use crate::EngineError;
use crate::error::kernel;
pub(super) use message_queue::unlink_leftovers;
use pipe::PipeEnds;
use socket::{Made, Names};
use standfast_core::Address;
use standfast_format::BoxError;
use standfast_format::records::{OpenFile, OpenFileKind};
use standfast_linux::sys::process;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use terminal::TerminalSides;
pub(super) use terminal::makes_terminals;

const F_SETFL: u64 = libc::F_SETFL as u64;
const F_DUPFD: u64 = libc::F_DUPFD as u64;
const O_ACCMODE: u32 = libc::O_ACCMODE as u32;
const O_WRONLY: u32 = libc::O_WRONLY as u32;
const O_NONBLOCK: u32 = libc::O_NONBLOCK as u32;
const O_ASYNC: u32 = libc::O_ASYNC as u32;
const O_CLOEXEC: u64 = libc::O_CLOEXEC as u64;

/// An address that is still taken by the life before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressWait {
    /// Address and port.
    pub address: String,
    /// How long it has been waited for.
    pub waited: Duration,
    /// For how long it is waited for at most.
    pub rest: Duration,
}

/// Called again and again during a wait; an error ends it, and the restart.
pub(crate) type OnWait<'a> = dyn Fn(&AddressWait) -> Result<(), BoxError> + 'a;

/// The open files of a job, made and parked in its main process; every process made by it later has them too.
#[derive(Debug)]
pub(super) struct Parked {
    /// The first number above all that the job uses.
    pub(super) from: u64,
    /// By position in the job's table. What stands for a process of the job, or tells of it, can only be had once that is
    /// there.
    files: Vec<Option<u64>>,
    /// Files that tell of processes: by place of the process that holds them and position in the job's table.
    of_processes: BTreeMap<(usize, usize), u64>,
    /// The terminals of the job.
    terminals: Vec<TerminalSides>,
    /// The master that is to be held outside.
    pub(super) held: Option<OwnedFd>,
    /// What the job goes on without.
    pub(super) notes: Vec<String>,
    /// Sockets, by their cookies, that share their addresses by our doing.
    pub(super) sharing: Vec<u64>,
}

impl Construction {
    /// Makes the open files of the job.
    pub(super) fn open_files(&self, plan: &Plan<'_>, from: u64, on_wait: &OnWait<'_>) -> Result<Parked, EngineError> {
        let mut opening = Opening { on_wait, ..Opening::new(self, plan, from) };
        opening.make_pipes()?;
        opening.make_terminals()?;
        opening.make_sockets()?;
        opening.make_queues()?;
        let files = opening.open_files()?;
        opening.finish_queues()?;
        opening.finish_terminals()?;
        opening.finish_sockets(&files)?;
        opening.watch(&files)?;
        let held = opening.held_master()?;
        let Opening { terminals, sharing, names, .. } = opening;
        let notes = names.into_inner().notes;
        Ok(Parked { from, files, of_processes: BTreeMap::new(), terminals, held, notes, sharing })
    }

    /// Gives each descriptor of this process its number, and closes everything else.
    pub(super) fn place_descriptors(&self, plan: &Plan<'_>, place: usize, parked: &Parked) -> Result<(), EngineError> {
        let opening = Opening::new(self, plan, parked.from);
        let files = opening.open_own(parked, place)?;
        opening.place(&files)?;
        let all = [parked.from, u32::MAX.into(), 0, 0, 0, 0];
        self.call("closing what was parked", libc::SYS_close_range, all)?;
        opening.tell()?;
        // The last, since a process loses its locks on a file whenever it closes any descriptor of it.
        opening.lock()
    }

    /// Moves a descriptor to the lowest free number from `parking` on.
    pub(super) fn park(&self, descriptor: u64, parking: u64) -> Result<u64, EngineError> {
        let parked = self.copy_to_parking(descriptor, parking)?;
        self.call("closing a descriptor", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
        Ok(parked)
    }

    fn copy_to_parking(&self, descriptor: u64, parking: u64) -> Result<u64, EngineError> {
        self.call("parking a descriptor", libc::SYS_fcntl, [descriptor, F_DUPFD, parking, 0, 0, 0])
    }
}

/// The opening of a job's files, or the placing of a process's descriptors, under way.
struct Opening<'a> {
    process: &'a Construction,
    plan: &'a Plan<'a>,
    /// The first number above all that the job uses.
    parking: u64,
    /// The pipes of the job, parked.
    pipes: Vec<PipeEnds>,
    /// The sockets of the job, parked.
    sockets: Vec<Made>,
    /// What leads to sockets while they are made.
    names: RefCell<Names>,
    /// The terminals of the job, parked.
    terminals: Vec<TerminalSides>,
    /// The message queues of the job, parked.
    queues: Vec<u64>,
    /// See [`Parked::sharing`].
    sharing: Vec<u64>,
    on_wait: &'a OnWait<'a>,
}

impl<'a> Opening<'a> {
    fn new(process: &'a Construction, plan: &'a Plan<'a>, parking: u64) -> Self {
        let (pipes, sockets, names, terminals, queues, sharing) = Default::default();
        Self { process, plan, parking, pipes, sockets, names, terminals, queues, sharing, on_wait: &|_| Ok(()) }
    }
}

impl Opening<'_> {
    /// Makes every open file, and parks it; by position in the job's table.
    fn open_files(&self) -> Result<Vec<Option<u64>>, EngineError> {
        let open_files = self.plan.job.open_files.iter().zip(self.plan.files);
        let parked = open_files.enumerate().map(|(place, (file, how))| {
            if file.needs_process() {
                return Ok(None);
            }
            let opened = self.open_file(place, file, *how)?;
            match (how, &file.kind) {
                // A stream of our own stays open where it was.
                (FilePlan::Own(_) | FilePlan::OwnFile(_), _) => self.process.copy_to_parking(opened, self.parking),
                (_, OpenFileKind::Socket { .. } | OpenFileKind::Master { .. }) => Ok(opened),
                _ => self.park(opened),
            }
            .map(Some)
        });
        parked.collect()
    }

    /// Adds what could only be had once there were processes.
    fn open_own(&self, parked: &Parked, holder: usize) -> Result<Vec<Option<u64>>, EngineError> {
        let mut files = parked.files.clone();
        for ((_, file), number) in parked.of_processes.range((holder, 0)..(holder + 1, 0)) {
            files[*file] = Some(*number);
        }
        for descriptor in &self.plan.process.descriptors {
            let place = descriptor.open_file as usize;
            let Some(file) = self.plan.job.open_files.get(place) else { continue };
            if let (OpenFileKind::Process { process }, Some(None)) = (&file.kind, files.get(place)) {
                let pid = self.plan.job.processes[*process as usize].pid;
                files[place] = Some(self.park(self.make_process_handle(pid, file.flags)?)?);
            }
        }
        self.watch_processes(&files)?;
        Ok(files)
    }

    fn open_file(&self, place: usize, file: &OpenFile, how: FilePlan) -> Result<u64, EngineError> {
        if let FilePlan::Own(number) = how {
            return self.take_over(number, file.flags);
        }
        // Set when it is known who is told: the kernel heeds it only where it changes.
        let flags = file.flags & !O_ASYNC;
        match &file.kind {
            OpenFileKind::Regular { file: reference, offset, .. } => {
                let planned = self.plan.regular.iter().find(|planned| planned.place == place);
                let offset = planned.map_or(*offset, |planned| planned.offset);
                self.open_regular(reference, offset, flags, how)
            }
            OpenFileKind::Device { path, .. } => self.open_path(&path.0, flags),
            OpenFileKind::Pipe { pipe } => self.open_pipe_end(*pipe as usize, flags),
            OpenFileKind::EventCounter { count, semaphore } => self.make_counter(*count, *semaphore, flags),
            OpenFileKind::Epoll { .. } => self.call("making an epoll instance", libc::SYS_epoll_create1, [0; 6]),
            OpenFileKind::Inherited { was, .. } => self.make_widow(was.0.starts_with(b"socket:"), flags),
            OpenFileKind::Timer { timer } => self.make_timer(timer, flags),
            OpenFileKind::Signals { mask } => self.make_signal_descriptor(*mask, flags),
            OpenFileKind::Watches { .. } => self.make_inotify(),
            OpenFileKind::KernelFile { subject: None, path, offset } => {
                let opened = self.open_path(&path.0, flags)?;
                self.position(opened, *offset)
            }
            OpenFileKind::Process { .. } | OpenFileKind::KernelFile { .. } => {
                unreachable!("those are opened when there are processes")
            }
            OpenFileKind::Directory { path, position, .. } => self.open_directory(path, *position, flags),
            OpenFileKind::Place { path, mode, .. } => self.open_place(path, *mode, flags),
            OpenFileKind::Object { object, offset } => self.open_object(place, *object as usize, *offset, flags),
            OpenFileKind::Socket { socket } => Ok(self.sockets[*socket as usize].number),
            OpenFileKind::Master { terminal } => self.master(*terminal, flags),
            OpenFileKind::Slave { terminal } => self.open_slave(*terminal, flags),
            OpenFileKind::MessageQueue { queue } => self.open_queue(*queue as usize, flags),
            OpenFileKind::HungUp => self.make_hung_up(flags),
            OpenFileKind::Stream { .. } => unreachable!("a stream is planned to be one of our own"),
        }
    }

    /// Gives each descriptor its number.
    fn place(&self, files: &[Option<u64>]) -> Result<(), EngineError> {
        self.call("closing streams", libc::SYS_close_range, [0, self.parking - 1, 0, 0, 0, 0])?;
        for descriptor in &self.plan.process.descriptors {
            let missing = || kernel("placing descriptors", std::io::ErrorKind::InvalidData.into());
            let file = files.get(descriptor.open_file as usize).copied().flatten().ok_or_else(missing)?;
            let flags = if descriptor.close_on_exec { O_CLOEXEC } else { 0 };
            let number = descriptor.number as u64;
            self.call(&format!("placing descriptor {number}"), libc::SYS_dup3, [file, number, flags, 0, 0, 0])?;
        }
        Ok(())
    }

    fn call(&self, action: &str, number: i64, arguments: [u64; 6]) -> Result<u64, EngineError> {
        self.process.call(action, number, arguments)
    }

    fn park(&self, descriptor: u64) -> Result<u64, EngineError> {
        self.process.park(descriptor, self.parking)
    }

    fn close(&self, descriptor: u64) -> Result<(), EngineError> {
        self.call("closing a descriptor", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]).map(drop)
    }

    fn open_path(&self, path: &[u8], flags: u32) -> Result<u64, EngineError> {
        let action = format!("opening {}", String::from_utf8_lossy(path));
        self.process.open(&action, path, flags)
    }

    fn set_flags(&self, descriptor: u64, flags: u32) -> Result<(), EngineError> {
        let arguments = [descriptor, F_SETFL, flags.into(), 0, 0, 0];
        self.call("setting a descriptor's flags", libc::SYS_fcntl, arguments).map(drop)
    }

    /// A descriptor of ours for one of the new process.
    fn own(&self, descriptor: u64) -> Result<OwnedFd, EngineError> {
        let taking = |source| kernel("sharing a descriptor with the new process", source);
        let process = process::pidfd_open(self.process.pid()).map_err(taking)?;
        process::pidfd_getfd(process.as_fd(), descriptor as i32).map_err(taking)
    }

    /// The two descriptors that a call has left in the scratch memory.
    fn two_descriptors(&self) -> Result<[u64; 2], EngineError> {
        let mut ends = [[0u8; 4]; 2];
        let reading = |source| kernel("reading the new process", source);
        self.process.memory.read(Address::new(self.process.scratch), ends.as_flattened_mut()).map_err(reading)?;
        Ok(ends.map(|end| u32::from_le_bytes(end).into()))
    }
}
