//! The process that holds the master of a job's terminal. It passes on input from the attached user and shows the
//! output there. It keeps the last output for users who attach later. It ends when no process has the terminal open any
//! more and the supervisor has closed its end.

use super::frames::{Frame, Senseless};
use super::modes::Modes;
use crate::control::is_trusted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use standfast_linux::sys::descriptors::set_waiting;
use standfast_linux::sys::terminal;
use standfast_linux::{close_all_but, lead_session};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Request of the supervisor to pause. The number of the question follows, which is also the answer.
pub(super) const KEEP_STILL: u8 = b's';
/// Request to continue, which has no answer.
pub(super) const GO_ON: u8 = b'g';

/// First message of the holder.
const READY: u8 = b'r';

/// Bytes of recent output that are shown again to a user who attaches: some screens full.
const BACKLOG_BYTES: usize = 64 << 10;
/// Bytes that may wait for the attached user. While there are more, the program waits as with any slow terminal.
const UNSHOWN_BYTES_MAX: usize = 64 << 10;
/// Bytes that may wait for the program. While there are more, no input is read.
const UNTYPED_BYTES_MAX: usize = 4 << 10;
/// Time after which an attachment that accepts no data counts as gone, so that a dead connection blocks nobody.
const STUCK_MAX: Duration = Duration::from_secs(5);
/// Time for the foreground process to redraw until it is asked again, and number of requests. A program that has just
/// been restarted may check its signals before it waits, and not again.
const REDRAWN_WITHIN: Duration = Duration::from_millis(200);
const REDRAWS_MAX: u32 = 4;
/// Time for which the window gets another size for that: a shell does not redraw if its size has not changed.
const RESIZED_FOR: Duration = Duration::from_millis(50);
/// Pause between checks whether a process has opened the terminal again.
const DESERTED_PAUSE: Duration = Duration::from_millis(50);
/// Time for showing the last output.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// Turns this process, which was made for it, into the holder.
pub(super) fn hold(connection: UnixStream, listener: UnixListener, master: OwnedFd) -> ! {
    let held = prepare(&connection, &listener, &master).map(|()| Holder {
        connection: Some(connection),
        listener,
        master: master.into(),
        attached: None,
        untyped: Vec::new(),
        redraw: None,
        backlog: Backlog::default(),
        is_still: false,
        is_deserted: false,
    });
    // The other processes see errors here as the end of their connection.
    let outcome = held.and_then(|mut holder| holder.serve());
    std::process::exit(i32::from(outcome.is_err()))
}

/// Releases everything that was the supervisor's.
fn prepare(mut connection: &UnixStream, listener: &UnixListener, master: &OwnedFd) -> io::Result<()> {
    lead_session()?;
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    close_all_but(&[0, 1, 2, connection.as_raw_fd(), listener.as_raw_fd(), master.as_raw_fd()]);
    // `nothing` is closed by now, and must not be closed again.
    std::mem::forget(nothing);
    // Leave the directory of the program, which may be about to be removed.
    rustix::process::chdir("/")?;
    connection.write_all(&[READY])?;
    connection.set_nonblocking(true)?;
    set_waiting(master.as_fd(), false).map(drop)
}

struct Holder {
    /// Connection to the supervisor; `None` once the supervisor is gone.
    connection: Option<UnixStream>,
    listener: UnixListener,
    master: File,
    attached: Option<Attached>,
    /// Input that the program has not read yet.
    untyped: Vec<u8>,
    redraw: Option<Redraw>,
    backlog: Backlog,
    /// Whether the holder pauses because the supervisor reads the terminal.
    is_still: bool,
    /// Whether no process has the terminal open.
    is_deserted: bool,
}

/// A request to the foreground process to redraw, which has not begun.
struct Redraw {
    /// Intended size of the window, which may have another one at the moment.
    size: [u16; 4],
    due: Instant,
    times: u32,
}

/// The attached user.
struct Attached {
    stream: UnixStream,
    received: Vec<u8>,
    unshown: VecDeque<u8>,
    /// Since when none of that was accepted.
    stuck_since: Option<Instant>,
}

impl Holder {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            self.handle_line();
            if self.is_still {
                continue;
            }
            self.accept();
            self.receive();
            self.type_in();
            self.read_written();
            if self.is_deserted && self.connection.is_none() {
                self.take_leave();
                return Ok(());
            }
            self.ask_again(Instant::now());
            self.show(Instant::now());
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&self) -> io::Result<()> {
        let mut fds: Vec<PollFd<'_>> =
            self.connection.iter().map(|connection| PollFd::new(connection, PollFlags::IN)).collect();
        let mut timeout = None;
        if !self.is_still {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
            let shows = self.attached.as_ref().is_none_or(|attached| attached.unshown.len() < UNSHOWN_BYTES_MAX);
            let mut of_master = PollFlags::empty();
            of_master.set(PollFlags::IN, shows);
            of_master.set(PollFlags::OUT, !self.untyped.is_empty());
            if self.is_deserted {
                timeout = Some(DESERTED_PAUSE);
            } else if !of_master.is_empty() {
                fds.push(PollFd::new(&self.master, of_master));
            }
            if let Some(attached) = &self.attached {
                let mut of_attached = PollFlags::RDHUP;
                of_attached.set(PollFlags::IN, self.untyped.len() < UNTYPED_BYTES_MAX);
                of_attached.set(PollFlags::OUT, !attached.unshown.is_empty());
                fds.push(PollFd::new(&attached.stream, of_attached));
                let stuck = attached.stuck_since.map(|since| STUCK_MAX.saturating_sub(since.elapsed()));
                let redraw = self.redraw.as_ref().map(|redraw| redraw.due.saturating_duration_since(Instant::now()));
                timeout = [timeout, stuck, redraw].into_iter().flatten().min();
            }
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn handle_line(&mut self) {
        let mut words = [0; 64];
        let Some(mut connection) = self.connection.as_ref() else { return };
        match connection.read(&mut words) {
            Ok(0) => (self.connection, self.is_still) = (None, false),
            Ok(length) => {
                for word in words[..length].chunks_exact(2) {
                    self.is_still = word[0] == KEEP_STILL;
                    // The socket's buffer has room for a byte. If the supervisor is gone, the next read shows it.
                    let _ = if self.is_still { connection.write_all(&word[1..]) } else { Ok(()) };
                }
            }
            Err(error) if is_passing(&error) => {}
            Err(_) => (self.connection, self.is_still) = (None, false),
        }
    }

    /// Accepts new attachments, each of which replaces the previous one.
    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if !is_trusted(&stream).unwrap_or(false) || stream.set_nonblocking(true).is_err() {
                continue;
            }
            if let Some(mut before) = self.attached.take() {
                before.send(&Frame::TakenOver);
                before.flush(FAREWELL_MAX.min(DESERTED_PAUSE));
            }
            let mut attached = Attached { stream, received: Vec::new(), unshown: VecDeque::new(), stuck_since: None };
            attached.send(&Frame::Data(self.backlog.shown_again()));
            self.attached = Some(attached);
        }
    }

    fn receive(&mut self) {
        let Some(attached) = &mut self.attached else { return };
        let mut buffer = [0; 4096];
        while self.untyped.len() < UNTYPED_BYTES_MAX {
            let is_there = match attached.stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(length) => {
                    attached.received.extend(&buffer[..length]);
                    true
                }
                Err(error) if is_passing(&error) => break,
                Err(_) => false,
            };
            match is_there.then(|| take_frames(&mut attached.received, &mut self.untyped)) {
                Some(Ok(None)) => {}
                Some(Ok(Some(size))) => self.redraw = Some(Redraw::ask(&self.master, size, Instant::now())),
                None | Some(Err(Senseless)) => {
                    self.attached = None;
                    return;
                }
            }
        }
    }

    fn type_in(&mut self) {
        while !self.untyped.is_empty() {
            match self.master.write(&self.untyped) {
                Ok(length) => drop(self.untyped.drain(..length)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if self.is_deserted {
            self.untyped.clear();
        }
    }

    fn read_written(&mut self) {
        let mut buffer = [0; 4096];
        while self.attached.as_ref().is_none_or(|attached| attached.unshown.len() < UNSHOWN_BYTES_MAX) {
            match self.master.read(&mut buffer) {
                Ok(length @ 1..) => {
                    self.is_deserted = false;
                    self.redraw.take().into_iter().for_each(|redraw| resize(&self.master, redraw.size));
                    self.backlog.keep(&buffer[..length]);
                    if let Some(attached) = &mut self.attached {
                        attached.send(&Frame::Data(buffer[..length].to_vec()));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_deserted = false;
                    break;
                }
                // EIO: no process has it open.
                Ok(0) | Err(_) => {
                    self.is_deserted = true;
                    break;
                }
            }
        }
    }

    /// Asks the foreground process to redraw again, if there was no output since the user attached.
    fn ask_again(&mut self, now: Instant) {
        if self.redraw.as_ref().is_some_and(|redraw| redraw.due <= now) {
            self.redraw = self.redraw.take().and_then(|redraw| redraw.again(&self.master, now));
        }
    }

    fn show(&mut self, now: Instant) {
        let Some(attached) = &mut self.attached else { return };
        let goes_on = attached.write(now);
        if !goes_on || attached.stuck_since.is_some_and(|since| now - since >= STUCK_MAX) {
            self.attached = None;
        }
    }

    fn take_leave(&mut self) {
        if let Some(mut attached) = self.attached.take() {
            attached.send(&Frame::Ended);
            attached.flush(FAREWELL_MAX);
        }
    }
}

/// Takes the input out of the received data. Returns the size of the window if it was sent.
fn take_frames(received: &mut Vec<u8>, untyped: &mut Vec<u8>) -> Result<Option<[u16; 4]>, Senseless> {
    let mut window = None;
    loop {
        match Frame::take(received)? {
            Some(Frame::Data(typed)) => untyped.extend(typed),
            Some(Frame::Window(size)) => window = Some(size),
            None => return Ok(window),
            Some(Frame::TakenOver | Frame::Ended) => return Err(Senseless),
        }
    }
}

impl Redraw {
    /// Gives the window this size. If it has the size already, gives it another size first.
    fn ask(master: &File, size: [u16; 4], now: Instant) -> Self {
        if terminal::window(master.as_fd()).is_ok_and(|before| before != size) {
            resize(master, size);
            Self { size, due: now + REDRAWN_WITHIN, times: 1 }
        } else {
            resize(master, another(size));
            Self { size, due: now + RESIZED_FOR, times: 1 }
        }
    }

    fn again(self, master: &File, now: Instant) -> Option<Self> {
        let asked = Self::ask(master, self.size, now);
        if self.times < REDRAWS_MAX {
            return Some(Self { times: self.times + 1, ..asked });
        }
        resize(master, self.size);
        None
    }
}

fn another([rows, columns, width, height]: [u16; 4]) -> [u16; 4] {
    [rows.saturating_sub(1).max(1), columns.saturating_add(u16::from(rows < 2)), width, height]
}

/// Sets the size of the window. The kernel tells the foreground process if it changes.
fn resize(master: &File, size: [u16; 4]) {
    // A terminal that nobody has open needs no size.
    let _ = terminal::set_window(master.as_fd(), size);
}

impl Attached {
    fn send(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.unshown.extend(bytes);
    }

    /// Writes what the socket accepts without blocking. Returns whether the user is still attached.
    fn write(&mut self, now: Instant) -> bool {
        while !self.unshown.is_empty() {
            match self.stream.write(self.unshown.as_slices().0) {
                Ok(length) => {
                    self.unshown.drain(..length);
                    self.stuck_since = None;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stuck_since.get_or_insert(now);
                    return true;
                }
                Err(_) => return false,
            }
        }
        self.stuck_since = None;
        true
    }

    /// Writes the rest of the output, for `limit` at most.
    fn flush(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.write(Instant::now()) && !self.unshown.is_empty() {
            let rest = deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.stream, PollFlags::OUT)];
            let timeout = Timespec::try_from(rest).ok();
            if rest.is_zero() || poll(&mut fds, timeout.as_ref()).is_err() {
                return;
            }
        }
    }
}

/// The most recent output.
#[derive(Default)]
struct Backlog {
    bytes: VecDeque<u8>,
    /// Whether there was more before it.
    is_cut: bool,
    modes: Modes,
}

impl Backlog {
    fn keep(&mut self, written: &[u8]) {
        self.modes.note(written);
        self.bytes.extend(written);
        let too_many = self.bytes.len().saturating_sub(BACKLOG_BYTES);
        self.bytes.drain(..too_many);
        self.is_cut |= too_many > 0;
    }

    /// Returns the output from the beginning of a line, followed by the modes of the screen.
    fn shown_again(&self) -> Vec<u8> {
        let from =
            if self.is_cut { self.bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1) } else { 0 };
        self.bytes.iter().skip(from).copied().chain(self.modes.enter()).collect()
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backlog_keeps_whole_lines_and_the_modes_of_dropped_ones() {
        let mut backlog = Backlog::default();
        backlog.keep(b"\x1b[?1049hfirst\n");
        assert!(backlog.shown_again().ends_with(b"first\n\x1b[?1049h"));
        let line = [&[b'x'; 99][..], b"\n"].concat();
        (0..BACKLOG_BYTES / 100 + 1).for_each(|_| backlog.keep(&line));
        let shown = backlog.shown_again();
        assert!(shown.len() <= BACKLOG_BYTES + 8 && shown.starts_with(&line) && shown.ends_with(b"\x1b[?1049h"));
    }
}
