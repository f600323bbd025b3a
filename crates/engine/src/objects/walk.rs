//! Collects descriptors: which open files there are, who shares them, and what each needs to be opened again.
//!
//! This file walks and finds out who shares what; the file of each kind knows what is recorded of it.
//! What descriptors share stands once, in tables of the job: an open file is known by what the kernel says of it
//! (kcmp(2), inode), never by the process or the number under which it was met first.

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
use crate::inheritance::Inheritance;
use crate::outputs::Output;
use crate::reused_ports::ReusedPorts;
use crate::shared::Kept;
use crate::{Blocker, RefusalCode, error::Reason, pool};
use standfast_format::records::{Descriptor, OpenFile, OpenFileKind, PipeContents, PosixQueue, PseudoTerminal, Socket};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;

/// Whoever has this open answers for a file system (FUSE). While it stands still, nobody may ask for a file there, be it
/// for its length: the answer would never come.
const SERVED_FILE_SYSTEM: &[u8] = b"/dev/fuse";

/// In which state the job is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Motion {
    /// It runs: what is in flight in sockets is left out, since to look at it makes the kernel move it on.
    Running,
    /// It stands still.
    Stopped,
}

/// On which terms a job is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) motion: Motion,
    pub(crate) external_sockets: ExternalSockets,
    /// Files with code of which there is a copy.
    pub(crate) kept: &'a Kept,
    /// Who holds the master of the job's terminal, where that is outside.
    pub(crate) terminal: Option<&'a dyn TerminalHolder>,
    /// Sockets that share their ports by our doing, where that is known.
    pub(crate) reused_ports: Option<&'a ReusedPorts>,
    /// Files that the job has been seen to write through shared mappings.
    pub(crate) written: &'a BTreeSet<FileId>,
}

/// The descriptors of a job.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    /// Of each process, ascending by number.
    pub(crate) descriptors: Vec<Vec<Descriptor>>,
    pub(crate) open_files: Vec<OpenFile>,
    pub(crate) pipes: Vec<PipeContents>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) terminals: Vec<PseudoTerminal>,
    pub(crate) posix_queues: Vec<PosixQueue>,
    /// Regular files open for writing.
    pub(crate) outputs: Vec<Output>,
    /// TCP sockets, as descriptors of our own, whose ports a restart needs.
    pub(crate) with_ports: Vec<OwnedFd>,
}

/// What an open file is, or why that cannot be carried over.
pub(super) type Known = Result<OpenFileKind, Unsupported>;

/// Why an open file could not be recorded.
pub(super) enum Unsupported {
    /// It cannot be brought back, or not as it is at this moment.
    Refused(Reason),
    /// The kernel did not tell.
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
    /// Of the processes `pids`, which are one job, as `zombies` are. Files that no path leads to become `objects`. `None` where
    /// nothing more must be looked at, and the reason stands among the blockers.
    pub(crate) fn of(
        pids: &[i32],
        zombies: &[i32],
        terms: Terms<'_>,
        inheritance: &Inheritance,
        objects: &mut MemoryObjects,
        blockers: &mut Vec<Blocker>,
    ) -> io::Result<Option<Self>> {
        let holders = pids.iter().enumerate().map(|(place, pid)| Ok((place, Holder::of(*pid)?)));
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
        // We ourselves hold what is on its way in messages.
        holders.push(Holder::of(std::process::id() as i32)?);
        let found = Self { descriptors: vec![Vec::new(); pids.len()], ..Self::default() };
        let mut walk = Walk {
            holders,
            zombies,
            motion: terms.motion,
            external_sockets: terms.external_sockets,
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
    /// Descriptors of the process at a place that may survive an exec, whatever the kernel shows: a slave that was opened by
    /// way of its master (TIOCGPTPEER) to be closed on exec shows that for all descriptors that it gets (Linux 6.18), also
    /// where a terminal emulator did so before the program began. Ask the process with fcntl(2), and
    /// [`Descriptors::keep_inherited`] which do.
    pub(crate) fn doubtful(&self, place: usize) -> Vec<i32> {
        let is_slave = |open: u32| {
            matches!(self.open_files[open as usize].kind, OpenFileKind::Slave { .. } | OpenFileKind::Stream { .. })
        };
        let shown = self.descriptors[place].iter().filter(|it| it.close_on_exec && is_slave(it.open_file));
        shown.map(|descriptor| descriptor.number).collect()
    }

    /// Takes note of those that survive an exec.
    pub(crate) fn keep_inherited(&mut self, place: usize, numbers: &[i32]) {
        let inherited = self.descriptors[place].iter_mut().filter(|descriptor| numbers.contains(&descriptor.number));
        inherited.for_each(|descriptor| descriptor.close_on_exec = false);
    }
}

/// A collection of descriptors under way.
pub(super) struct Walk<'a> {
    /// The processes of the job, and behind them ourselves.
    pub(super) holders: Vec<Holder>,
    /// Those of the job that have ended and hold nothing any more.
    pub(super) zombies: &'a [i32],
    pub(super) motion: Motion,
    pub(super) external_sockets: ExternalSockets,
    pub(super) reused_ports: Option<&'a ReusedPorts>,
    pub(super) inheritance: &'a Inheritance,
    /// Every descriptor of every process.
    pub(super) shown: Vec<Shown>,
    /// For each open file found, the place of a descriptor of it.
    pub(super) known: Vec<usize>,
    pub(super) found: Descriptors,
    pub(super) pipes: Pipes,
    pub(super) sockets: Vec<Found>,
    pub(super) usual_options: Usual,
    pub(super) terminals: Vec<FoundTerminal>,
    pub(super) held_terminal: Option<&'a dyn TerminalHolder>,
    pub(super) queues: Queues,
    /// What Unix sockets have received, by inode.
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

    /// The position of the open file that a descriptor leads to; `None` where it stands among the blockers.
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

    /// How many processes the job has.
    pub(super) fn processes(&self) -> usize {
        self.found.descriptors.len()
    }

    /// The processes of the job, without us.
    pub(super) fn job(&self) -> &[Holder] {
        &self.holders[..self.processes()]
    }

    /// The process of the job that holds a descriptor; for what is on its way in a message, the first.
    pub(super) fn process_of(&self, shown: &Shown) -> i32 {
        self.job().get(shown.holder).unwrap_or(&self.holders[0]).pid
    }

    /// The position of an open file among those found so far.
    pub(super) fn position(&self, shown: &Shown) -> Option<usize> {
        self.known.iter().position(|known| self.shown[*known].is_same_file(shown, &self.holders))
    }

    pub(super) fn blocker(&self, place: usize, unsupported: Unsupported) -> io::Result<Blocker> {
        let shown = &self.shown[place];
        let blocker = blocker(shown.number, &shown.describe(&self.holders), unsupported)?;
        let hint = (blocker.code == RefusalCode::IoUring).then(|| io_uring::hint(self.process_of(shown)));
        Ok(hint.into_iter().fold(blocker, Blocker::with_hint))
    }

    /// Which kind an open file is of, and what that kind says of it.
    fn kind(&mut self, place: usize) -> Known {
        if self.shown[place].has_lease() {
            return Err(Unsupported::with_hint(
                RefusalCode::FileLease,
                "the program has a lease on it (F_SETLEASE)",
                "give the lease up",
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
