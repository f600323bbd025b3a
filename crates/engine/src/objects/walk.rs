//! Collects descriptors: which open files there are, who shares them, and what each needs to be opened again.
//!
//! This file walks and finds out who shares what. The file of each kind knows what to record about it. Tables of the
//! job hold each shared thing once. What the kernel says about an open file (kcmp(2), inode) identifies it, never the
//! process or the number under which the walk first met it.

use super::event_counter::SilentCounter;
use super::message_queue::Queues;
use super::pipe::Pipes;
use super::shown::{Holder, Shown};
use super::signal_owner::SignalOwner;
use super::socket::{Found, Unread, Usual};
use super::terminal::FoundTerminal;
use super::{CREATION_FLAGS, KINDS, O_CLOEXEC, O_DIRECTORY, O_TMPFILE, io_uring, memory::MemoryObjects, refused};
use crate::capture_options::ExternalSockets;
use crate::endpoint::TerminalHolder;
use crate::files::FileId;
use crate::freeze::Frozen;
use crate::inheritance::Inheritance;
use crate::outputs::Output;
use crate::partners::CutPartners;
use crate::reused_ports::ReusedPorts;
use crate::shared::Kept;
use crate::taken_descriptors::TakenDescriptors;
use crate::{Blocker, RefusalCode, error::Reason, pool};
use standfast_format::records::{
    ClosedEnd, Descriptor, OpenFile, OpenFileKind, PipeContents, PosixQueue, PseudoTerminal, Socket,
};
use standfast_linux::Pid;
use standfast_linux::proc::Endpoint;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;

/// A process that has this open serves a file system (FUSE). While it is frozen, nobody may ask for a file there, not
/// even for its length: the answer would never come.
const SERVED_FILE_SYSTEM: &[u8] = b"/dev/fuse";

/// The state in which the walk looks at the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Motion {
    /// It runs. Data in flight in sockets is left out, since looking at it makes the kernel move it on.
    Running,
    /// It is frozen.
    Stopped,
}

/// The terms on which the walk looks at a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) motion: Motion,
    pub(crate) external_sockets: ExternalSockets,
    /// The other parts, if the job is a part of a distributed one.
    pub(crate) partners: Option<&'a dyn CutPartners>,
    /// Whether they are frozen as well, and look at the same time.
    pub(crate) meets_partners: bool,
    /// The job, if it is frozen.
    pub(crate) frozen: Option<&'a Frozen>,
    /// Files with code that have a copy.
    pub(crate) kept: &'a Kept,
    /// The holder of the job's terminal master, if it is held outside.
    pub(crate) terminal: Option<&'a dyn TerminalHolder>,
    /// Sockets that share their ports because we made them share, if that is known.
    pub(crate) reused_ports: Option<&'a ReusedPorts>,
    /// Files that the job has been seen to write through shared mappings.
    pub(crate) written: &'a BTreeSet<FileId>,
    /// Copies of the descriptors of a frozen job, if they were taken before.
    pub(crate) taken: Option<&'a TakenDescriptors>,
}

/// The descriptors of a job.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    /// The descriptors of each process, ascending by number.
    pub(crate) descriptors: Vec<Vec<Descriptor>>,
    pub(crate) open_files: Vec<OpenFile>,
    pub(crate) pipes: Vec<PipeContents>,
    pub(crate) sockets: Vec<Socket>,
    /// Ends of connections to other parts that have been closed here, but not there.
    pub(crate) closed_ends: Vec<ClosedEnd>,
    pub(crate) terminals: Vec<PseudoTerminal>,
    pub(crate) posix_queues: Vec<PosixQueue>,
    /// Event counters that the kernel does not describe completely.
    pub(super) silent_counters: Vec<SilentCounter>,
    /// Regular files open for writing.
    pub(crate) outputs: Vec<Output>,
    /// TCP sockets whose ports a restart needs, as descriptors of our own.
    pub(crate) with_ports: Vec<OwnedFd>,
}

/// What an open file is, or why it cannot be carried over.
pub(super) type Known = Result<OpenFileKind, Unsupported>;

/// Why an open file could not be recorded.
pub(super) enum Unsupported {
    /// It cannot be restored, or not as it is at this moment.
    Refused(Reason),
    /// The kernel did not report it.
    Unknown(io::Error),
}

impl Unsupported {
    pub(super) fn because(code: RefusalCode, why: impl Into<String>) -> Self {
        Self::Refused(Reason::new(code, why))
    }

    pub(super) fn for_now(code: RefusalCode, why: impl Into<String>) -> Self {
        Self::Refused(Reason::new(code, why).for_now())
    }

    pub(super) fn with_hint(code: RefusalCode, why: impl Into<String>, hint: &'static str) -> Self {
        Self::Refused(Reason::new(code, why).with_hint(hint))
    }
}

impl From<io::Error> for Unsupported {
    fn from(error: io::Error) -> Self {
        Self::Unknown(error)
    }
}

impl Descriptors {
    /// Collects the descriptors of the processes `pids`, which together with `zombies` are one job. Files that no path
    /// leads to become `objects`. Returns `None` if nothing more may be looked at; the blockers then contain the
    /// reason.
    pub(crate) fn of(
        pids: &[Pid],
        zombies: &[Pid],
        terms: Terms<'_>,
        inheritance: &Inheritance,
        objects: &mut MemoryObjects,
        blockers: &mut Vec<Blocker>,
    ) -> io::Result<Option<Self>> {
        let copies = |pid| terms.taken.and_then(|taken| taken.of_process(pid));
        let holders = pids.iter().enumerate().map(|(place, pid)| Ok((place, Holder::of(*pid, copies(*pid))?)));
        let holders = holders.collect::<io::Result<Vec<_>>>()?;
        let links = pool::each(&holders, |(_, holder)| holder.links());
        let links = links.into_iter().collect::<io::Result<Vec<_>>>()?;
        if let Some((number, target)) = links.iter().flatten().find(|(_, target)| target == SERVED_FILE_SYSTEM) {
            blockers.push(blocker(*number, &String::from_utf8_lossy(target), refused::reason(target))?);
            return Ok(None);
        }
        let holders: Vec<_> = holders.into_iter().zip(links).collect();
        let shown = pool::each(&holders, |((place, holder), links)| holder.show(*place, links.clone()));
        let shown: Vec<Shown> = shown.into_iter().flatten().collect();
        let mut holders: Vec<Holder> = holders.into_iter().map(|((_, holder), _)| holder).collect();
        // We hold the descriptors that are in flight in messages.
        holders.push(Holder::of(Pid::own(), copies(Pid::own()))?);
        let found = Self { descriptors: vec![Vec::new(); pids.len()], ..Self::default() };
        let mut walk = Walk {
            holders,
            zombies,
            motion: terms.motion,
            external_sockets: terms.external_sockets,
            partners: terms.partners,
            meets_partners: terms.meets_partners,
            distant_udp: Vec::new(),
            frozen: terms.frozen,
            reused_ports: terms.reused_ports,
            inheritance,
            shown,
            known: Vec::new(),
            found,
            pipes: Pipes::default(),
            sockets: Vec::new(),
            usual_options: Usual::default(),
            terminals: Vec::new(),
            held_terminal: terms.terminal,
            queues: Queues::default(),
            unread: HashMap::new(),
            on_their_way: Vec::new(),
            objects,
        };
        walk.read_unix_messages();
        walk.find_terminals()?;
        walk.walk(blockers)?;
        walk.examine_sockets(blockers)?;
        walk.watched(blockers)?;
        walk.note_locks();
        walk.examine_terminals(blockers)?;
        walk.found.pipes = walk.pipes.into_records();
        for socket in walk.sockets {
            walk.found.with_ports.extend(socket.keeps_its_port().then_some(socket.own));
            walk.found.sockets.push(socket.record);
        }
        walk.found.posix_queues = walk.queues.records;
        walk.found.terminals = walk.terminals.into_iter().map(|terminal| terminal.record).collect();
        Ok(Some(walk.found))
    }
}

impl Descriptors {
    /// Returns descriptors of the process at a place that may survive an exec, whatever the kernel shows. If a slave
    /// was opened by way of its master (TIOCGPTPEER) with close-on-exec, the kernel shows that flag for all its
    /// descriptors (Linux 6.18). A terminal emulator may have done so before the program began. Ask the process with
    /// fcntl(2), and report those that survive to [`Descriptors::keep_inherited`].
    pub(crate) fn doubtful(&self, place: usize) -> Vec<i32> {
        let is_slave = |open: u32| {
            matches!(self.open_files[open as usize].kind, OpenFileKind::Slave { .. } | OpenFileKind::Stream { .. })
        };
        let shown = self.descriptors[place].iter().filter(|it| it.close_on_exec && is_slave(it.open_file));
        shown.map(|descriptor| descriptor.number).collect()
    }

    /// Records the descriptors that survive an exec.
    pub(crate) fn keep_inherited(&mut self, place: usize, numbers: &[i32]) {
        let inherited = self.descriptors[place].iter_mut().filter(|descriptor| numbers.contains(&descriptor.number));
        inherited.for_each(|descriptor| descriptor.close_on_exec = false);
    }
}

/// A collection of descriptors in progress.
pub(super) struct Walk<'a> {
    /// The processes of the job, followed by ourselves.
    pub(super) holders: Vec<Holder>,
    /// Processes of the job that have ended and hold nothing any more.
    pub(super) zombies: &'a [Pid],
    pub(super) motion: Motion,
    pub(super) external_sockets: ExternalSockets,
    pub(super) partners: Option<&'a dyn CutPartners>,
    pub(super) meets_partners: bool,
    /// The addresses of the UDP sockets of other parts.
    pub(super) distant_udp: Vec<Endpoint>,
    pub(super) frozen: Option<&'a Frozen>,
    pub(super) reused_ports: Option<&'a ReusedPorts>,
    pub(super) inheritance: &'a Inheritance,
    /// Every descriptor of every process.
    pub(super) shown: Vec<Shown>,
    /// For each open file found, the place of one of its descriptors.
    pub(super) known: Vec<usize>,
    pub(super) found: Descriptors,
    pub(super) pipes: Pipes,
    pub(super) sockets: Vec<Found>,
    pub(super) usual_options: Usual,
    pub(super) terminals: Vec<FoundTerminal>,
    pub(super) held_terminal: Option<&'a dyn TerminalHolder>,
    pub(super) queues: Queues,
    /// Data that Unix sockets have received, by inode.
    pub(super) unread: HashMap<u64, Unread>,
    /// Copies of the descriptors that were found in messages.
    pub(super) on_their_way: Vec<OwnedFd>,
    pub(super) objects: &'a mut MemoryObjects,
}

impl Walk<'_> {
    fn walk(&mut self, blockers: &mut Vec<Blocker>) -> io::Result<()> {
        for place in 0..self.shown.len() {
            if self.is_held_master(place) {
                continue;
            }
            let Some(open_file) = self.open_file(place, blockers)? else { continue };
            let shown = &self.shown[place];
            if shown.holder == self.processes() {
                continue;
            }
            let close_on_exec = shown.information.flags & O_CLOEXEC != 0;
            let descriptor = Descriptor { number: shown.number, close_on_exec, open_file };
            self.found.descriptors[shown.holder].push(descriptor);
        }
        Ok(())
    }

    /// Returns the position of the open file that a descriptor leads to, or `None` if it was added to the blockers.
    fn open_file(&mut self, place: usize, blockers: &mut Vec<Blocker>) -> io::Result<Option<u32>> {
        if let Some(known) = self.position(&self.shown[place]) {
            return Ok(Some(known as u32));
        }
        let described = self.kind(place).and_then(|kind| Ok((kind, self.signal_owner(place)?)));
        match described {
            Ok((kind, SignalOwner { target: signal_target, signal })) => {
                let mut flags = self.shown[place].information.flags;
                if flags & O_TMPFILE != 0 {
                    flags &= !O_DIRECTORY;
                }
                flags &= !CREATION_FLAGS;
                self.known.push(place);
                self.found.open_files.push(OpenFile { flags, kind, signal_target, locks: Vec::new(), signal });
                Ok(Some(self.known.len() as u32 - 1))
            }
            Err(unsupported) => {
                blockers.push(self.blocker(place, unsupported)?);
                Ok(None)
            }
        }
    }

    /// Returns how many processes the job has.
    pub(super) fn processes(&self) -> usize {
        self.found.descriptors.len()
    }

    /// Returns the processes of the job, without us.
    pub(super) fn job(&self) -> &[Holder] {
        &self.holders[..self.processes()]
    }

    /// Returns the process of the job that holds a descriptor. For a descriptor in flight in a message, this is the
    /// first one.
    pub(super) fn process_of(&self, shown: &Shown) -> Pid {
        self.job().get(shown.holder).unwrap_or(&self.holders[0]).pid
    }

    /// Returns the position of an open file among those found so far.
    pub(super) fn position(&self, shown: &Shown) -> Option<usize> {
        self.known.iter().position(|known| self.shown[*known].is_same_file(shown, &self.holders))
    }

    pub(super) fn blocker(&self, place: usize, unsupported: Unsupported) -> io::Result<Blocker> {
        let shown = &self.shown[place];
        let blocker = blocker(shown.number, &shown.describe(&self.holders), unsupported)?;
        let hint = (blocker.code == RefusalCode::IoUring).then(|| io_uring::hint(self.process_of(shown)));
        Ok(hint.into_iter().fold(blocker, Blocker::with_hint))
    }

    /// Finds the kind of an open file and returns what that kind records.
    fn kind(&mut self, place: usize) -> Known {
        if self.shown[place].has_lease() {
            return Err(Unsupported::with_hint(
                RefusalCode::FileLease,
                "the program has a lease on it (F_SETLEASE)",
                "release the lease (F_UNLCK)",
            ));
        }
        let known = KINDS.iter().find_map(|kind| (kind.collect)(self, place));
        known.unwrap_or_else(|| Err(refused::reason(&self.shown[place].target)))
    }
}

fn blocker(number: i32, what: &str, unsupported: Unsupported) -> io::Result<Blocker> {
    match unsupported {
        Unsupported::Refused(reason) => Ok(Blocker::of(format!("descriptor {number} ({what})"), reason)),
        Unsupported::Unknown(error) => Err(error),
    }
}
