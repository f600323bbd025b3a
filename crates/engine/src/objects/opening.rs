//! Opens the descriptors of a job under construction. The main process makes all open files while it is the only
//! process. It parks them above every number that the job uses, and the other processes inherit them. Then each process
//! puts its descriptors in their places and closes the parking area, so that what was shared is shared again.
//!
//! This file parks and places. The file of each kind knows how to make its members.

use super::pipe::PipeEnds;
use super::regular::RegularPlan;
use super::socket::{Connecting, Made, Names, Renamed, SocketName};
use super::terminal::TerminalSides;
use super::{F_DUPFD, F_SETFL, KINDS, O_ASYNC, O_CLOEXEC};
use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use crate::partners::{RestartPartners, RestartStep};
use standfast_core::Address;
use standfast_format::BoxError;
use standfast_format::records::{JobState, OpenFile, OpenFileKind, ProcessState};
use standfast_linux::abi;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// An address that the previous life still occupies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressWait {
    /// Address and port.
    pub address: String,
    /// How long the restart has waited for it.
    pub waited: Duration,
    /// The longest time that the restart still waits for it.
    pub rest: Duration,
}

/// Called repeatedly during a wait. An error ends the wait and the restart.
pub(crate) type OnWait<'a> = dyn Fn(&AddressWait) -> Result<(), BoxError> + 'a;

/// Those outside a job with whom its restart has to do.
#[derive(Clone, Copy)]
pub(crate) struct OutsideWorld<'a> {
    pub(crate) on_wait: &'a OnWait<'a>,
    /// The other parts, if the job is a part of a distributed one.
    pub(crate) partners: Option<&'a dyn RestartPartners>,
}

impl OutsideWorld<'_> {
    /// Waits until all parts have come this far, if there are others.
    ///
    /// # Errors
    /// When another part has given up, or does not answer.
    pub(crate) fn arrive(&self, step: RestartStep) -> Result<(), EngineError> {
        self.partners.map_or(Ok(()), |partners| partners.arrive(step).map_err(EngineError::Image))
    }
}

/// How an open file is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilePlan {
    /// As the record says.
    AsRecorded,
    /// The restart's own descriptor of this number takes its place.
    Own(i32),
    /// As above, and the descriptor leads to the recorded file, which is cut back and positioned as the record says.
    /// This user need not be able to open its path (a log that root has redirected).
    OwnFile(i32),
    /// A pipe or socket whose other side is gone.
    PeerClosed,
}

/// How the open files of a job are restored, as one of its processes needs to know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenFilesPlan<'a> {
    pub(crate) process: &'a ProcessState,
    pub(crate) job: &'a JobState,
    /// What to do about each open file.
    pub(crate) files: &'a [FilePlan],
    /// Where each open regular file continues.
    pub(crate) regular: &'a [RegularPlan],
    /// For each socket, whether its name leads to it.
    pub(crate) socket_names: &'a [SocketName],
}

/// A recorded open file that is to be opened again.
pub(super) struct Recorded<'a> {
    /// Its position in the job's table.
    pub(super) place: usize,
    pub(super) kind: &'a OpenFileKind,
    /// Status flags and access mode. O_ASYNC is set once the signal's target is known: the kernel heeds it only when it
    /// changes.
    pub(super) flags: u32,
    pub(super) how: FilePlan,
}

/// The open files of a job, made and parked in its main process. Every process that it makes later has them too.
#[derive(Debug)]
pub(crate) struct Parked {
    /// The first number above all that the job uses.
    pub(crate) from: u64,
    /// The parked numbers by position in the job's table. A file that stands for a process of the job, or describes
    /// one, can be opened only once that process exists.
    pub(super) files: Vec<Option<u64>>,
    /// Files that stand for processes or describe them, by the place of the process that holds them and their position
    /// in the job's table.
    pub(super) of_processes: BTreeMap<(usize, usize), u64>,
    /// The terminals of the job.
    pub(super) terminals: Vec<TerminalSides>,
    /// The master that a holder outside the job is to keep.
    pub(crate) held: Option<OwnedFd>,
    /// What the job continues without.
    pub(crate) notes: Vec<String>,
    /// See [`Names::renamed`].
    pub(crate) renamed: Renamed,
    /// Sockets, by their cookies, that share their addresses because we made them share.
    pub(crate) sharing: Vec<u64>,
    /// Sockets that are to be connected when all else is done.
    pub(crate) connecting: Vec<Connecting>,
}

impl Construction {
    /// Makes the open files of the job.
    pub(crate) fn open_files(
        &self,
        plan: OpenFilesPlan<'_>,
        from: u64,
        outside: OutsideWorld<'_>,
    ) -> Result<Parked, EngineError> {
        let OutsideWorld { on_wait, partners } = outside;
        let mut opening = Opening { on_wait, partners, ..Opening::new(self, plan, from) };
        opening.make_pipes()?;
        opening.make_terminals()?;
        opening.make_sockets()?;
        opening.make_queues()?;
        let files = opening.open_files()?;
        opening.finish_queues()?;
        opening.finish_terminals()?;
        opening.lock_those_on_their_way(&files)?;
        opening.finish_sockets(&files)?;
        opening.fill_inotifies(&files)?;
        opening.fill_epolls(&files)?;
        let held = opening.held_master()?;
        let Opening { terminals, sharing, connecting, names, .. } = opening;
        let Names { notes, renamed, .. } = names.into_inner();
        let of_processes = BTreeMap::new();
        Ok(Parked { from, files, of_processes, terminals, held, notes, renamed, sharing, connecting })
    }

    /// Gives each descriptor of this process its number, and closes everything else.
    pub(crate) fn place_descriptors(
        &self,
        plan: OpenFilesPlan<'_>,
        place: usize,
        parked: &Parked,
    ) -> Result<(), EngineError> {
        let opening = Opening::new(self, plan, parked.from);
        let files = opening.open_own(parked, place)?;
        opening.place(&files)?;
        let all = [parked.from, u32::MAX.into(), 0, 0, 0, 0];
        self.call("closing what was parked", abi::SYS_close_range, all).map(drop)
    }

    /// Sets again who gets the signals of open files, and takes the locks of this process. It comes when all processes have
    /// only their own descriptors: the last close of the other end of a pipe would send a signal, and a process loses its
    /// locks on a file whenever it closes any descriptor of that file.
    pub(crate) fn finish_descriptors(&self, plan: OpenFilesPlan<'_>, parked: &Parked) -> Result<(), EngineError> {
        let opening = Opening::new(self, plan, parked.from);
        opening.restore_signal_owners()?;
        opening.lock()
    }

    /// Moves a descriptor to the lowest free number from `parking` on.
    pub(crate) fn park(&self, descriptor: u64, parking: u64) -> Result<u64, EngineError> {
        let parked = self.copy_to_parking(descriptor, parking)?;
        self.call("closing a descriptor", abi::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
        Ok(parked)
    }

    pub(super) fn copy_to_parking(&self, descriptor: u64, parking: u64) -> Result<u64, EngineError> {
        self.call("parking a descriptor", abi::SYS_fcntl, [descriptor, F_DUPFD, parking, 0, 0, 0])
    }
}

/// The opening of a job's files, or the placing of a process's descriptors, in progress.
pub(super) struct Opening<'a> {
    pub(super) process: &'a Construction,
    pub(super) plan: OpenFilesPlan<'a>,
    /// The first number above all that the job uses.
    pub(super) parking: u64,
    /// The pipes of the job, parked.
    pub(super) pipes: Vec<PipeEnds>,
    /// The sockets of the job, parked.
    pub(super) sockets: Vec<Made>,
    /// The names and addresses that lead to sockets while they are made.
    pub(super) names: RefCell<Names>,
    /// The terminals of the job, parked.
    pub(super) terminals: Vec<TerminalSides>,
    /// The message queues of the job, parked.
    pub(super) queues: Vec<u64>,
    /// See [`Parked::sharing`].
    pub(super) sharing: Vec<u64>,
    /// See [`Parked::connecting`].
    pub(super) connecting: Vec<Connecting>,
    pub(super) on_wait: &'a OnWait<'a>,
    pub(super) partners: Option<&'a dyn RestartPartners>,
}

impl<'a> Opening<'a> {
    pub(super) fn new(process: &'a Construction, plan: OpenFilesPlan<'a>, parking: u64) -> Self {
        let (pipes, sockets, names, terminals, queues, sharing, connecting) = Default::default();
        let (on_wait, partners): (&OnWait<'_>, _) = (&|_| Ok(()), None);
        Self {
            process,
            plan,
            parking,
            pipes,
            sockets,
            names,
            terminals,
            queues,
            sharing,
            connecting,
            on_wait,
            partners,
        }
    }
}

impl Opening<'_> {
    /// Makes and parks every open file. Returns their numbers by position in the job's table.
    fn open_files(&self) -> Result<Vec<Option<u64>>, EngineError> {
        let open_files = self.plan.job.open_files.iter().zip(self.plan.files);
        let parked = open_files.enumerate().map(|(place, (file, how))| {
            if file.needs_process() {
                return Ok(None);
            }
            let opened = self.open_file(place, file, *how)?;
            match (how, &file.kind) {
                // Our own stream stays open where it was.
                (FilePlan::Own(_) | FilePlan::OwnFile(_), _) => self.process.copy_to_parking(opened, self.parking),
                (_, OpenFileKind::Socket { .. } | OpenFileKind::Master { .. }) => Ok(opened),
                _ => self.park(opened),
            }
            .map(Some)
        });
        parked.collect()
    }

    /// Adds the files that could be opened only once there were processes.
    fn open_own(&self, parked: &Parked, holder: usize) -> Result<Vec<Option<u64>>, EngineError> {
        let mut files = parked.files.clone();
        for ((_, file), number) in parked.of_processes.range((holder, 0)..(holder + 1, 0)) {
            files[*file] = Some(*number);
        }
        self.watch_processes(&files)?;
        Ok(files)
    }

    pub(super) fn open_file(&self, place: usize, file: &OpenFile, how: FilePlan) -> Result<u64, EngineError> {
        if let FilePlan::Own(number) = how {
            return self.take_over(number, file.flags);
        }
        let opened = self.restored(place, file, how);
        opened.unwrap_or_else(|| Err(kernel("opening what is not of this job", std::io::ErrorKind::InvalidData.into())))
    }

    /// Lets the kind of an open file restore it. Returns `None` if no kind opens it.
    fn restored(&self, place: usize, file: &OpenFile, how: FilePlan) -> Option<Result<u64, EngineError>> {
        let recorded = Recorded { place, kind: &file.kind, flags: file.flags & !O_ASYNC, how };
        KINDS.iter().find_map(|kind| (kind.restore)(self, &recorded))
    }

    /// Gives each descriptor its number.
    fn place(&self, files: &[Option<u64>]) -> Result<(), EngineError> {
        self.call("closing streams", abi::SYS_close_range, [0, self.parking - 1, 0, 0, 0, 0])?;
        for descriptor in &self.plan.process.descriptors {
            let missing = || kernel("placing descriptors", std::io::ErrorKind::InvalidData.into());
            let file = files.get(descriptor.open_file as usize).copied().flatten().ok_or_else(missing)?;
            let flags = if descriptor.close_on_exec { O_CLOEXEC } else { 0 };
            let number = descriptor.number as u64;
            self.call(&format!("placing descriptor {number}"), abi::SYS_dup3, [file, number, flags.into(), 0, 0, 0])?;
        }
        Ok(())
    }

    /// Returns a descriptor of this process for an open file.
    pub(super) fn number_of(&self, place: usize) -> Option<u64> {
        let mut descriptors = self.plan.process.descriptors.iter();
        descriptors.find(|descriptor| descriptor.open_file as usize == place).map(|descriptor| descriptor.number as u64)
    }

    pub(super) fn call(&self, action: &str, number: i64, arguments: [u64; 6]) -> Result<u64, EngineError> {
        self.process.call(action, number, arguments)
    }

    pub(super) fn park(&self, descriptor: u64) -> Result<u64, EngineError> {
        self.process.park(descriptor, self.parking)
    }

    pub(super) fn close(&self, descriptor: u64) -> Result<(), EngineError> {
        self.call("closing a descriptor", abi::SYS_close, [descriptor, 0, 0, 0, 0, 0]).map(drop)
    }

    pub(super) fn open_path(&self, path: &[u8], flags: u32) -> Result<u64, EngineError> {
        let action = format!("opening {}", String::from_utf8_lossy(path));
        self.process.open(&action, path, flags)
    }

    pub(super) fn set_flags(&self, descriptor: u64, flags: u32) -> Result<(), EngineError> {
        let arguments = [descriptor, F_SETFL, flags.into(), 0, 0, 0];
        self.call("setting a descriptor's flags", abi::SYS_fcntl, arguments).map(drop)
    }

    /// Returns our own copy of a descriptor of the new process.
    pub(super) fn own(&self, descriptor: u64) -> Result<OwnedFd, EngineError> {
        self.process.copy_of(descriptor)
    }

    pub(super) fn position(&self, opened: u64, offset: u64) -> Result<u64, EngineError> {
        self.call("positioning a file", abi::SYS_lseek, [opened, offset, 0, 0, 0, 0])?;
        Ok(opened)
    }

    /// Returns the two descriptors that a call has left in the scratch memory.
    pub(super) fn two_descriptors(&self) -> Result<[u64; 2], EngineError> {
        let mut ends = [[0u8; 4]; 2];
        let reading = |source| kernel("reading the new process", source);
        self.process.memory.read(Address::new(self.process.scratch), ends.as_flattened_mut()).map_err(reading)?;
        Ok(ends.map(|end| u32::from_le_bytes(end).into()))
    }
}
