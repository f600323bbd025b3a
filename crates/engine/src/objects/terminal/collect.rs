//! Pseudo-terminals whose two sides are the job's, since the program has made them itself, and the one whose master is
//! held for the job. All others belong to other programs, and only standard streams may lead there.

use crate::endpoint::Still;
use crate::files::other_holder;
use crate::objects::shown::Shown;
use crate::objects::{Known, Motion, O_ACCMODE, O_PATH, O_RDWR, Unsupported, Walk};
use crate::terminals::{InFlight, Sides, Unreported};
use crate::{Blocker, RefusalCode};
use standfast_format::records::{OpenFileKind, PseudoTerminal, TerminalControl, TerminalSettings, WindowSize};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::{Stat, Status};
use standfast_linux::sys::descriptors::{HeldDescriptor, ready_events};
use standfast_linux::sys::process;
use standfast_linux::sys::terminal::{self, Termios};
use std::cell::Cell;
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PERMISSIONS: u32 = 0o7777;
const HUNG_UP: i16 = abi::POLLHUP;
/// There is no answer from the other side: a slave reports this only when it has been hung up.
const DEAD: i16 = abi::POLLERR;

/// How long a scan for other users of the job's terminals stays valid: with thousands of processes it costs 100 ms.
const SCAN_LASTS: Duration = Duration::from_secs(60);

/// The last scan that found nobody.
static SCAN: Mutex<Option<Scan>> = Mutex::new(None);

struct Scan {
    at: Instant,
    at_terminals: Vec<(u64, u32)>,
}

/// The three kinds of node that lead to a pseudo-terminal.
enum Node {
    Master,
    Slave {
        number: u32,
    },
    /// `/dev/tty`: the controlling terminal of the process that opened it.
    Own,
}

impl Node {
    fn of(file: &Metadata) -> Option<Self> {
        let number = file.rdev();
        match (file.file_type().is_char_device(), abi::major(number), abi::minor(number)) {
            (true, 5, 2) => Some(Self::Master),
            (true, 136, number) => Some(Self::Slave { number }),
            (true, 5, 0) => Some(Self::Own),
            _ => None,
        }
    }
}

/// A terminal of the job.
pub(in crate::objects) struct FoundTerminal {
    /// Place of a descriptor of its master.
    pub(super) place: usize,
    number: u32,
    /// Device of the file system that contains its slave.
    device: u64,
    /// Whether its master is held outside.
    held: bool,
    pub(in crate::objects) record: PseudoTerminal,
}

impl Walk<'_> {
    /// Finds the masters that the job holds.
    pub(in crate::objects) fn find_terminals(&mut self) -> io::Result<()> {
        if let Some(holder) = self.held_terminal {
            let supervisor_baseline = self.processes();
            let shown = self.holders[supervisor_baseline].show_one(supervisor_baseline, holder.master().as_raw_fd())?;
            self.shown.push(shown);
            self.note_terminal(self.shown.len() - 1, true)?;
        }
        for place in 0..self.shown.len() {
            let shown = &self.shown[place];
            let is_master = matches!(Node::of(&shown.file), Some(Node::Master));
            let is_known = |found: &FoundTerminal| self.shown[found.place].is_same_file(shown, &self.holders);
            if !is_master || shown.information.flags & O_PATH != 0 || self.terminals.iter().any(is_known) {
                continue;
            }
            self.note_terminal(place, false)?;
        }
        Ok(())
    }

    fn note_terminal(&mut self, place: usize, held: bool) -> io::Result<()> {
        let shown = &self.shown[place];
        let number = terminal::number(shown.own(&self.holders)?.as_fd())?;
        let there = std::fs::metadata(format!("/proc/{}/root/dev/pts", self.process_of(shown)))?;
        let record = PseudoTerminal { held, ..PseudoTerminal::default() };
        self.terminals.push(FoundTerminal { place, number, device: there.dev(), held, record });
        Ok(())
    }

    /// Reports whether the descriptor at a place is a master that is held outside, and so no descriptor of the job.
    pub(in crate::objects) fn is_held_master(&self, place: usize) -> bool {
        self.terminals.iter().any(|found| found.held && found.place == place)
    }

    /// Returns what an open terminal is, if the file is one that can belong to the job.
    pub(in crate::objects) fn terminal(&self, place: usize) -> Option<Known> {
        let shown = &self.shown[place];
        let node = Node::of(&shown.file)?;
        let known = || {
            let own = shown.own(&self.holders)?;
            if !matches!(node, Node::Master) && ready_events(own.as_fd(), 0)? & DEAD != 0 {
                let mode = Some(shown.file.mode() & PERMISSIONS);
                return Ok(Some(OpenFileKind::HungUp { mode }));
            }
            let slave = self.slave(shown, &own)?.map(|terminal| OpenFileKind::Slave { terminal });
            match node {
                Node::Master => {
                    let is_it = |found: &FoundTerminal| self.shown[found.place].is_same_file(shown, &self.holders);
                    let at = self.terminals.iter().position(is_it);
                    at.map(|at| Some(OpenFileKind::Master { terminal: at as u32 })).ok_or_else(|| {
                        Unsupported::for_now(RefusalCode::Terminal, "it was opened during the checkpoint")
                    })
                }
                Node::Slave { .. } if slave.is_none() => Err(Unsupported::with_hint(
                    RefusalCode::Terminal,
                    "the other side of this terminal is outside the program",
                    "start the program with it as a standard stream, or both under one standfast run",
                )),
                Node::Slave { .. } | Node::Own => Ok(slave),
            }
        };
        known().transpose()
    }

    /// Returns the terminal of the job whose slave a descriptor leads to.
    pub(super) fn slave(&self, shown: &Shown, own: &OwnedFd) -> Result<Option<u32>, Unsupported> {
        let is_it = |found: &FoundTerminal| match Node::of(&shown.file) {
            Some(Node::Slave { number }) => Ok(found.number == number && found.device == shown.file.dev()),
            Some(Node::Own) => {
                // A terminal outside may have the same number as well, so the session must match: it is the terminal of
                // the holder's session.
                let same = abi::minor(terminal::device(own.as_fd())?.into()) == found.number;
                let master = self.shown[found.place].own(&self.holders)?;
                let session = Stat::of(self.process_of(shown)).map(|stat| stat.session)?;
                Ok::<_, io::Error>(same && terminal::session(master.as_fd())? == Some(session))
            }
            _ => Ok(false),
        };
        for (at, found) in self.terminals.iter().enumerate() {
            if is_it(found)? {
                return Ok(Some(at as u32));
            }
        }
        Ok(None)
    }

    /// Examines all terminals of the job. Reads the data in flight last, once nothing else blocks.
    pub(in crate::objects) fn examine_terminals(&mut self, blockers: &mut Vec<Blocker>) -> io::Result<()> {
        self.refuse_terminals_outside(blockers)?;
        for at in 0..self.terminals.len() {
            match self.examine_terminal(at) {
                Ok(record) => self.terminals[at].record = record,
                Err(unsupported) => blockers.push(self.blocker(self.terminals[at].place, unsupported)?),
            }
        }
        for at in 0..self.terminals.len() {
            if !blockers.is_empty() || self.motion == Motion::Running {
                break;
            }
            match self.take_in_flight(at) {
                Ok(record) => self.terminals[at].record = record,
                Err(unsupported) => blockers.push(self.blocker(self.terminals[at].place, unsupported)?),
            }
        }
        Ok(())
    }

    fn examine_terminal(&self, at: usize) -> Result<PseudoTerminal, Unsupported> {
        let found = &self.terminals[at];
        let shown = &self.shown[found.place];
        if shown.information.flags & O_ACCMODE != O_RDWR {
            return Err(Unsupported::because(RefusalCode::Terminal, "it is open for only one direction"));
        }
        let master = shown.own(&self.holders)?;
        let slaves: Vec<&Shown> = self.slaves(found).collect();
        let deserted = ready_events(master.as_fd(), 0)? & HUNG_UP != 0;
        let locked = terminal::is_locked(master.as_fd())?;
        if slaves.is_empty() && (!deserted || locked) {
            return Err(Unsupported::for_now(RefusalCode::Terminal, "its other side has not been opened yet"));
        }
        let mut exclusive = false;
        for slave in &slaves {
            let own = slave.own(&self.holders)?;
            exclusive |= terminal::is_exclusive(own.as_fd())?;
            if terminal::line_discipline(own.as_fd())? != 0 {
                return Err(Unsupported::because(
                    RefusalCode::Terminal,
                    "it has a line discipline of its own (TIOCSETD)",
                ));
            }
        }
        let [rows, columns, width, height] = terminal::window(master.as_fd())?;
        Ok(PseudoTerminal {
            number: found.number,
            settings: record(&terminal::settings(master.as_fd())?),
            size: WindowSize { rows, columns, width, height },
            locked,
            held: found.held,
            packets: terminal::tells_packets(master.as_fd())?,
            exclusive,
            deserted,
            master_exclusive: terminal::is_exclusive(master.as_fd())?.then_some(true),
            controls: self.control(&master)?,
            mode: slaves.first().map(|slave| slave.file.mode() & PERMISSIONS),
            ..PseudoTerminal::default()
        })
    }

    /// Returns the descriptors of a terminal's slave.
    fn slaves(&self, found: &FoundTerminal) -> impl Iterator<Item = &Shown> {
        let (number, device) = (found.number, found.device);
        self.shown.iter().filter(move |shown| {
            let is_open = shown.information.flags & O_PATH == 0;
            is_open
                && shown.file.dev() == device
                && matches!(Node::of(&shown.file), Some(Node::Slave { number: its }) if its == number)
        })
    }

    /// Returns the session that a terminal controls, by the ids that the program sees.
    fn control(&self, master: &OwnedFd) -> Result<Option<TerminalControl>, Unsupported> {
        let Some(session) = terminal::session(master.as_fd())? else { return Ok(None) };
        let foreground = terminal::foreground(master.as_fd())?;
        let mut control = None;
        let mut inner_group = 0;
        for pid in self.job().iter().map(|holder| holder.pid).chain(self.zombies.iter().copied()) {
            let (stat, status) = (Stat::of(pid)?, Status::of(pid)?);
            if pid.get() == session {
                control = Some(status.sessions.last().copied().unwrap_or(session));
            }
            if Some(stat.process_group) == foreground {
                inner_group = status.process_groups.last().copied().unwrap_or(stat.process_group);
            } else if inner_group == 0 && Some(pid.get()) == foreground {
                // The kernel accepts the id of a process that leads no group.
                inner_group = status.process_ids.last().copied().unwrap_or(pid).get();
            }
        }
        match control {
            Some(session) => Ok(Some(TerminalControl { session, foreground: inner_group })),
            None => Err(Unsupported::because(
                RefusalCode::Terminal,
                "it is the controlling terminal of a session outside the program",
            )),
        }
    }

    /// Returns the record with the data in flight. The job is frozen.
    fn take_in_flight(&self, at: usize) -> Result<PseudoTerminal, Unsupported> {
        let found = &self.terminals[at];
        let slave = match self.slaves(found).find(|slave| slave.information.flags & O_ACCMODE == O_RDWR) {
            Some(slave) => slave.own(&self.holders)?,
            None => open_again(&self.shown[found.place].own(&self.holders)?)?,
        };
        let exclusive = terminal::is_exclusive(slave.as_fd())?;
        let InFlight { input, unfinished, output, stop, echo } = self.in_flight(at, slave)?;
        let echo = Some(echo).filter(|echo| !echo.0.is_empty());
        Ok(PseudoTerminal { exclusive, input, unfinished, output, output_stop: stop, echo, ..found.record.clone() })
    }

    fn in_flight(&self, at: usize, slave: OwnedFd) -> Result<InFlight, Unsupported> {
        let found = &self.terminals[at];
        let master = self.shown[found.place].own(&self.holders)?;
        let holder = self.held_terminal.filter(|_| found.held);
        let still = holder.map(Still::hold).transpose();
        let _still = still.map_err(|error| {
            Unsupported::for_now(RefusalCode::Terminal, format!("its holder could not be paused: {error}"))
        })?;
        let not_seen = |unreported| match unreported {
            Unreported::NotNow(why) => Unsupported::for_now(RefusalCode::Terminal, why),
            Unreported::Failed(error) => Unsupported::Unknown(error),
        };
        let sides = Sides::new(master, slave);
        let silence = self.silence(at, found)?;
        sides.check_signals(silence.master, silence.slave).map_err(not_seen)?;
        sides.scan().map_err(not_seen)
    }

    /// Refuses terminals of the job that another program uses, and sessions of the job whose terminal is not the job's.
    fn refuse_terminals_outside(&self, blockers: &mut Vec<Blocker>) -> io::Result<()> {
        let mut sessions = Vec::new();
        for found in &self.terminals {
            sessions.extend(terminal::session(self.shown[found.place].own(&self.holders)?.as_fd())?);
        }
        for holder in self.job() {
            let stat = Stat::of(holder.pid)?;
            if stat.session == holder.pid.get() && stat.terminal != 0 && !sessions.contains(&stat.session) {
                blockers.push(Blocker::new(
                    RefusalCode::Terminal,
                    format!("process {}", holder.pid),
                    "it leads a session whose controlling terminal is outside the program",
                ));
            }
        }
        if self.terminals.is_empty() {
            return Ok(());
        }
        let mut last = SCAN.lock().unwrap_or_else(PoisonError::into_inner);
        let scanned: Vec<_> = self.terminals.iter().map(|found| (found.device, found.number)).collect();
        if last.as_ref().is_some_and(|scan| scan.at.elapsed() < SCAN_LASTS && scan.at_terminals == scanned) {
            return Ok(());
        }
        *last = None;
        match self.somebody_else() {
            None => *last = Some(Scan { at: Instant::now(), at_terminals: scanned }),
            Some((who, place)) => {
                let why = format!("{who}, which is outside the program, uses this terminal as well");
                blockers.push(self.blocker(place, Unsupported::because(RefusalCode::Terminal, why))?);
            }
        }
        Ok(())
    }

    /// Returns a process outside the job that uses one of its terminals, and the place of that terminal's master.
    fn somebody_else(&self) -> Option<(String, usize)> {
        let job: Vec<Pid> = self.holders.iter().map(|holder| holder.pid).collect();
        let used = Cell::new(0);
        let uses = |pid: Pid, number: i32, file: &Metadata| {
            let node = Node::of(file);
            let is_it = |found: &&FoundTerminal| match node {
                Some(Node::Slave { number }) => found.number == number && found.device == file.dev(),
                Some(Node::Master) => {
                    if found.held {
                        return false;
                    }
                    let holding = self.shown[found.place].holding(&self.holders);
                    process::same_open_file(holding, HeldDescriptor { pid, number }).unwrap_or(false)
                }
                _ => false,
            };
            let found = self.terminals.iter().find(is_it);
            used.set(found.map_or(used.get(), |found| found.place));
            found.is_some()
        };
        other_holder(&job, uses).map(|who| (who, used.get()))
    }
}

/// Reports whether a descriptor leads to a pseudo-terminal.
pub(super) fn is_terminal(shown: &Shown) -> bool {
    Node::of(&shown.file).is_some()
}

/// Opens the slave of a terminal that no descriptor reads and writes. The kernel lets only root of the machine open one
/// that is exclusive, and that only the slave shows.
fn open_again(master: &OwnedFd) -> Result<OwnedFd, Unsupported> {
    terminal::open_slave(master.as_fd()).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => Unsupported::with_hint(
            RefusalCode::Terminal,
            "its slave is closed and may not be opened again (TIOCEXCL), so what is in flight there cannot be seen",
            "keep the slave open, undo it before the slave is closed (TIOCNXCL), or run standfast as root",
        ),
        _ => error.into(),
    })
}

fn record(settings: &Termios) -> TerminalSettings {
    TerminalSettings {
        input: settings.input,
        output: settings.output,
        control: settings.control,
        local: settings.local,
        line: settings.line,
        characters: settings.characters.as_slice().into(),
        input_speed: settings.input_speed,
        output_speed: settings.output_speed,
    }
}
