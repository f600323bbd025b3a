//! The data in flight in a pseudo-terminal: typed and not read, written and not shown. The kernel offers no way to peek
//! at it, so it is taken out and put back while every user of the terminal is stopped. A restart puts it into a new one.
//!
//! ```text
//!            master --- input ---> line discipline (echo, lines, signals) ---> slave
//!            master <-------------- line discipline (CR LF) <---- output ---- slave
//! ```
//!
//! This data has already passed through the line discipline. So it is put back unchanged: echo, signals and translations
//! are off meanwhile, and characters with a meaning within a line are quoted (`VLNEXT`).

use standfast_format::records::{Bytes, OutputStop};
use standfast_linux::abi;
use standfast_linux::sys::descriptors::{ready_events, set_waiting, unread_bytes};
use standfast_linux::sys::terminal::{self, Termios};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

const INPUT: i16 = abi::POLLIN;
const OUTPUT: i16 = abi::POLLOUT;
const URGENT: i16 = abi::POLLPRI;
/// What a reader can be given at a time. The kernel does not report how much is queued beyond that.
const QUEUE_BYTES: usize = 4095;
/// How much may be typed ahead if the line discipline may not have processed all of it, since the queue is full.
const TYPED_AHEAD_MAX: usize = 2048;
/// How much may be left to read when the kernel tells the writer that there is room (TTY_THRESHOLD_UNTHROTTLE).
const LITTLE_BYTES: usize = 128;
/// The sizes of the pieces with which a side is filled, so that it accepts no less than it ever held. A reader is given
/// 4095 bytes. What is queued beyond that is kept in buffers as large as a piece, at most 1792, each of which takes
/// another piece of its size. The kernel allocates a new buffer while all together do not exceed 8192, and reuses old
/// buffers of 256. So we fill the reader's share to the byte, then 8192 in large buffers with the largest on top, and
/// then small ones. (Linux 6.18, `drivers/tty/tty_buffer.c` and `pty.c`; measured: 15 to 40 KiB, and never a byte less
/// than before.)
const READERS_SHARE: [usize; 4] = [1792, 1792, 256, 255];
const LARGE_PIECES: [usize; 12] = [1792, 1792, 1792, 1792, 1792, 1792, 1792, 1792, 1024, 1024, 1792, 1792];
const SMALL_PIECE: usize = 256;
/// After so many refusals a side is full, not only waiting for the kernel's worker.
const REFUSALS: u32 = 40;
/// How long we wait until the kernel's worker has made room in a queue that was not full before.
const ROOM_WITHIN: Duration = Duration::from_secs(5);
const ROOM_PAUSE: Duration = Duration::from_micros(50);
/// How long the line discipline gets to process what was typed after unread input. The kernel's worker takes
/// microseconds, and we wait for it only if nothing can be read.
const SETTLING: Duration = Duration::from_millis(2);

/// The two sides of a pseudo-terminal.
pub(crate) struct Sides {
    master: File,
    slave: File,
}

/// The data in flight.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Typed data, divided as reads return it.
    pub(crate) input: Vec<Bytes>,
    /// Typed data of an unfinished line.
    pub(crate) unfinished: Bytes,
    /// Written data.
    pub(crate) output: Bytes,
    /// What holds the output back.
    pub(crate) stop: Option<OutputStop>,
    /// Echo that waits for that output to go on: characters that the line discipline has yet to process as output.
    pub(crate) echo: Bytes,
}

/// Why the data in flight cannot be determined.
#[derive(Debug)]
pub(crate) enum Unreported {
    /// Not possible at this moment, with the reason.
    NotNow(&'static str),
    /// The kernel refused.
    Failed(io::Error),
}

impl From<io::Error> for Unreported {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Sides {
    /// Takes both sides, which must be open for reading and writing.
    pub(crate) fn new(master: OwnedFd, slave: OwnedFd) -> Self {
        Self { master: master.into(), slave: slave.into() }
    }

    pub(crate) fn slave(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }

    /// Returns the data in flight, which stays there. If we are killed between taking it out and putting it back, it is
    /// lost.
    pub(crate) fn scan(&self) -> Result<InFlight, Unreported> {
        let settings = terminal::settings(self.slave())?;
        self.settle()?;
        self.check(&settings)?;
        let mut found = InFlight::default();
        let mut touched = self.take_input(&settings, &mut found)?;
        touched |= self.take_output(&mut found)?;
        self.let_go(&settings, &mut found)?;
        if touched || found.stop.is_some() {
            self.put(&settings, &found)?;
        }
        Ok(found)
    }

    /// Checks whether a side sends a signal as soon as there is room on the other one, and may be about to: taking the data
    /// out makes room, and the kernel would count the signal as sent. It does not report whether it is to send one; that
    /// begins when there is no room, and lasts until little is left to read.
    pub(crate) fn check_signals(&self, by_master: bool, by_slave: bool) -> Result<(), Unreported> {
        let sides = [(by_master, &self.master, &self.slave), (by_slave, &self.slave, &self.master)];
        for (_, writer, reader) in sides.into_iter().filter(|(is_signalled, ..)| *is_signalled) {
            let has_room = ready_events(writer.as_fd(), OUTPUT)? & OUTPUT != 0;
            if !has_room || unread_bytes(reader.as_fd())? > LITTLE_BYTES {
                return Err(Unreported::NotNow("a signal is to tell its program when more can be written (O_ASYNC)"));
            }
        }
        Ok(())
    }

    /// Puts the data into a new terminal.
    pub(crate) fn fill(&self, settings: &Termios, in_flight: &InFlight) -> io::Result<()> {
        terminal::set_settings(self.slave(), &Quiet::without_lines(settings))?;
        for (bytes, to, from) in [
            (in_flight.input.iter().map(|piece| piece.0.len()).sum(), &self.master, &self.slave),
            (in_flight.output.0.len(), &self.slave, &self.master),
        ] {
            if bytes > QUEUE_BYTES {
                make_room(to, from)?;
            }
        }
        self.put(settings, in_flight)
    }

    /// Puts the data there, under the settings that will then apply.
    fn put(&self, settings: &Termios, in_flight: &InFlight) -> io::Result<()> {
        let InFlight { input, unfinished, output, stop, echo } = in_flight;
        let quiet = Quiet::of(settings, in_flight);
        terminal::set_settings(self.slave(), &quiet.settings)?;
        let typed: Vec<u8> = match settings.local & abi::ICANON {
            0 => input.iter().flat_map(|piece| piece.0.iter().copied()).collect(),
            _ => input.iter().flat_map(|line| quiet.line(&line.0)).chain(quiet.quoted(&unfinished.0)).collect(),
        };
        write(&self.slave, &output.0, &self.master)?;
        if let Some(stop) = stop {
            self.stop(*stop, settings)?;
            self.put_echo(&echo.0, settings)?;
            terminal::set_settings(self.slave(), &quiet.settings)?;
        }
        write(&self.master, &typed, &self.slave)?;
        terminal::set_settings(self.slave(), settings)
    }

    /// Holds the output back.
    fn stop(&self, stop: OutputStop, settings: &Termios) -> io::Result<()> {
        match stop {
            OutputStop::Call => terminal::suspend_output(self.slave()),
            OutputStop::Key => {
                terminal::set_settings(self.slave(), &Quiet::without_lines(settings))?;
                write(&self.master, &[settings.characters[abi::VSTOP]], &self.slave)
            }
        }
    }

    /// Has the line discipline echo these characters while the output is held back. They are typed for that, and read.
    fn put_echo(&self, echo: &[u8], settings: &Termios) -> io::Result<()> {
        if echo.is_empty() {
            return Ok(());
        }
        let mut echoing = Quiet::without_lines(settings);
        echoing.local = echoing.local & !abi::ECHOCTL | abi::ECHO;
        (echoing.characters[abi::VSTART], echoing.characters[abi::VSTOP]) = (0, 0);
        terminal::set_settings(self.slave(), &echoing)?;
        write(&self.master, echo, &self.slave)?;
        let mut buffer = vec![0; QUEUE_BYTES];
        let mut rest = echo.len();
        while rest > 0 && ready_events(self.slave(), INPUT)? & INPUT != 0 {
            rest -= (&self.slave).read(&mut buffer)?.min(rest);
        }
        if rest == 0 { Ok(()) } else { Err(io::Error::other("a terminal has not taken what it is to echo")) }
    }

    /// Makes the kernel pass on what has been written.
    fn settle(&self) -> io::Result<()> {
        ready_events(self.slave(), INPUT)?;
        ready_events(self.master.as_fd(), INPUT)?;
        if unread_bytes(self.slave())? > 0 {
            std::thread::sleep(SETTLING);
        }
        Ok(())
    }

    /// Checks whether taking the data out would change more than can be put back.
    fn check(&self, settings: &Termios) -> Result<(), Unreported> {
        let (typed, shown) = (unread_bytes(self.slave())?, unread_bytes(self.master.as_fd())?);
        let is_writable = |side: &File| Ok::<_, io::Error>(ready_events(side.as_fd(), OUTPUT)? & OUTPUT != 0);
        let packets = terminal::tells_packets(self.master.as_fd())?;
        if ready_events(self.master.as_fd(), URGENT)? & URGENT != 0 {
            return Err(Unreported::NotNow("it has unread packets about the other side (TIOCPKT)"));
        }
        if settings.local & abi::EXTPROC != 0 {
            return Err(Unreported::NotNow("its input is processed by another program (EXTPROC)"));
        }
        if shown < QUEUE_BYTES && packets && !is_writable(&self.slave)? {
            return Err(Unreported::NotNow("its output is held back (Ctrl-S)"));
        }
        if typed < QUEUE_BYTES && !is_writable(&self.master)? {
            return Err(Unreported::NotNow("what is typed is held back (tcflow)"));
        }
        if typed > TYPED_AHEAD_MAX && !passes_unchanged(settings) {
            return Err(Unreported::NotNow("more was typed ahead than the terminal has processed"));
        }
        Ok(())
    }

    /// Takes the typed data; reports whether the settings were changed for that.
    fn take_input(&self, settings: &Termios, found: &mut InFlight) -> Result<bool, Unreported> {
        let has_lines = settings.local & abi::ICANON != 0;
        if !has_lines && unread_bytes(self.slave())? == 0 {
            return Ok(false);
        }
        let mut buffer = vec![0; 2 * QUEUE_BYTES];
        while has_lines && ready_events(self.slave(), INPUT)? & INPUT != 0 {
            let length = (&self.slave).read(&mut buffer)?;
            found.input.push(Bytes::from(&buffer[..length]));
        }
        // An unfinished line can be read only in noncanonical mode.
        terminal::set_settings(self.slave(), &Quiet::without_lines(settings))?;
        let mut rest = Vec::new();
        while unread_bytes(self.slave())? > 0 || ready_events(self.slave(), INPUT)? & INPUT != 0 {
            let length = (&self.slave).read(&mut buffer)?;
            rest.extend(&buffer[..length]);
        }
        if has_lines {
            found.unfinished = rest.into();
        } else if !rest.is_empty() {
            found.input.push(rest.into());
        }
        Ok(true)
    }

    /// Takes the written data, with the echo that waits for room after it; reports whether there was any.
    fn take_output(&self, found: &mut InFlight) -> io::Result<bool> {
        let mut output = Vec::new();
        loop {
            let more = self.take_shown()?;
            let any = !more.is_empty();
            output.extend(more);
            // Unless the output is held back, echo can have waited only for a queue that was full.
            if !any || output.len() < QUEUE_BYTES {
                break;
            }
            self.send_echo();
        }
        let any = !output.is_empty();
        found.output = output.into();
        Ok(any)
    }

    /// Reads everything that the master has to read.
    fn take_shown(&self) -> io::Result<Vec<u8>> {
        let packets = terminal::tells_packets(self.master.as_fd())?;
        let mut buffer = vec![0; 2 * QUEUE_BYTES];
        let mut shown = Vec::new();
        while ready_events(self.master.as_fd(), INPUT)? & INPUT != 0 {
            let length = (&self.master).read(&mut buffer)?;
            // Each packet begins with its type.
            shown.extend(&buffer[usize::from(packets).min(length)..length]);
        }
        Ok(shown)
    }

    /// Sends echo that waits, as every write does.
    fn send_echo(&self) {
        let _ = (&self.slave).write(&[]);
    }

    /// Releases output that is held back, if it is, and takes the echo that has waited for it.
    fn let_go(&self, settings: &Termios, found: &mut InFlight) -> io::Result<()> {
        let is_stopped = || Ok::<_, io::Error>(ready_events(self.slave(), OUTPUT)? & OUTPUT == 0);
        if !is_stopped()? {
            return Ok(());
        }
        // The echo is taken as it waits, with no line end translated.
        terminal::set_settings(self.slave(), &Quiet::without_lines(settings))?;
        terminal::resume_output(self.slave())?;
        found.stop = Some(OutputStop::Call);
        if is_stopped()? {
            found.stop = Some(OutputStop::Key);
            if settings.input & abi::IXON != 0 && settings.characters[abi::VSTART] != 0 {
                write(&self.master, &[settings.characters[abi::VSTART]], &self.slave)?;
            }
            if is_stopped()? {
                return Err(io::Error::other("its output is not held back"));
            }
        }
        self.send_echo();
        found.echo = self.take_shown()?.into();
        Ok(())
    }
}

/// Reports whether the line discipline passes typed data unchanged, so that it does not matter how much it has
/// processed.
fn passes_unchanged(settings: &Termios) -> bool {
    let Termios { input, local, .. } = settings;
    input & (TRANSLATIONS | abi::IXON) == 0 && local & (abi::ICANON | abi::ECHO | abi::ISIG) == 0
}

/// Settings by which typed data changes on the way to the reader, or acquires a meaning.
const TRANSLATIONS: u32 = abi::IGNBRK
    | abi::BRKINT
    | abi::PARMRK
    | abi::INPCK
    | abi::ISTRIP
    | abi::INLCR
    | abi::IGNCR
    | abi::ICRNL
    | abi::IUCLC
    | abi::IXANY;
const LOCAL_EFFECTS: u32 = abi::ISIG | abi::ECHO | abi::ECHONL | abi::IEXTEN | abi::XCASE;

/// Settings under which all data passes unchanged.
struct Quiet {
    settings: Termios,
    end_of_file: u8,
    quote: u8,
    /// Characters that have a meaning unless quoted.
    special: BTreeSet<u8>,
    /// Characters that end a line.
    ends: BTreeSet<u8>,
}

impl Quiet {
    /// Returns the settings to put this back: in canonical mode, if it was in use.
    fn of(original: &Termios, in_flight: &InFlight) -> Self {
        let mut settings = Termios {
            input: original.input & !TRANSLATIONS,
            output: original.output & !abi::OPOST,
            local: original.local & !LOCAL_EFFECTS,
            ..*original
        };
        let of = |place: usize| Some(original.characters[place]).filter(|character| *character != 0);
        let ends: BTreeSet<u8> = [Some(b'\n'), of(abi::VEOL), of(abi::VEOL2)].into_iter().flatten().collect();
        let flow: BTreeSet<u8> = [of(abi::VSTART), of(abi::VSTOP)].into_iter().flatten().collect();
        let mut free = (1..=u8::MAX).filter(|character| !ends.contains(character) && !flow.contains(character));
        let (end_of_file, quote) = (free.next().unwrap_or(1), free.next().unwrap_or(2));
        if original.local & abi::ICANON != 0 {
            settings.local |= abi::IEXTEN;
            for place in [abi::VERASE, abi::VKILL, abi::VWERASE, abi::VREPRINT] {
                settings.characters[place] = 0;
            }
            settings.characters[abi::VEOF] = end_of_file;
            settings.characters[abi::VLNEXT] = quote;
        } else if in_flight.input.iter().any(|piece| piece.0.iter().any(|byte| flow.contains(byte))) {
            settings.characters[abi::VSTART] = 0;
            settings.characters[abi::VSTOP] = 0;
        }
        let special = ends.iter().chain(&flow).copied().chain([end_of_file, quote]).collect();
        Self { settings, end_of_file, quote, special, ends }
    }

    /// Returns the settings to read everything that is there.
    fn without_lines(original: &Termios) -> Termios {
        let mut settings = Self::of(original, &InFlight::default()).settings;
        settings.local &= !(abi::ICANON | abi::IEXTEN);
        settings.characters = original.characters;
        settings.characters[abi::VMIN] = 1;
        settings.characters[abi::VTIME] = 0;
        settings
    }

    /// Returns what must be typed to produce a line.
    fn line(&self, line: &[u8]) -> Vec<u8> {
        match line.split_last() {
            Some((end, text)) if self.ends.contains(end) => {
                let mut typed = self.quoted(text);
                typed.push(*end);
                typed
            }
            _ => {
                let mut typed = self.quoted(line);
                typed.push(self.end_of_file);
                typed
            }
        }
    }

    fn quoted(&self, text: &[u8]) -> Vec<u8> {
        let quote = |byte: &u8| if self.special.contains(byte) { vec![self.quote, *byte] } else { vec![*byte] };
        text.iter().flat_map(quote).collect()
    }
}

/// Makes the kernel allocate the small buffers that it keeps for a side which was once full of them.
fn make_room(mut to: &File, mut from: &File) -> io::Result<()> {
    let waits = set_waiting(to.as_fd(), false)?;
    let mut refusals = 0;
    while refusals < REFUSALS {
        match to.write(&[0; SMALL_PIECE]) {
            Ok(_) => {}
            Err(full) if full.kind() == io::ErrorKind::WouldBlock => {
                refusals += 1;
                std::thread::sleep(ROOM_PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
    let mut buffer = vec![0; 2 * QUEUE_BYTES];
    while ready_events(from.as_fd(), INPUT)? & INPUT != 0 {
        let _thrown_away = from.read(&mut buffer)?;
    }
    if waits { set_waiting(to.as_fd(), true).map(drop) } else { Ok(()) }
}

/// Writes all of `bytes` into one side, without ever waiting for a reader on the other.
fn write(mut to: &File, bytes: &[u8], other: &File) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let deadline = Instant::now() + ROOM_WITHIN;
    let patience = || {
        std::thread::sleep(ROOM_PAUSE);
        if Instant::now() < deadline { Ok(()) } else { Err(io::Error::other("a terminal takes less than it held")) }
    };
    // Only then can a write block. This changes the program's own open file, and is set back below.
    let is_much = bytes.len() > QUEUE_BYTES;
    let waits = is_much && set_waiting(to.as_fd(), false)?;
    let mut pieces = READERS_SHARE.into_iter().chain(LARGE_PIECES).chain(std::iter::repeat(SMALL_PIECE));
    let mut write_all = || {
        let mut rest = bytes;
        while let Some(piece) = pieces.next().filter(|_| !rest.is_empty()) {
            let (mut piece, after) = rest.split_at(piece.min(rest.len()));
            rest = after;
            while !piece.is_empty() {
                match to.write(piece) {
                    Ok(written) => piece = &piece[written..],
                    Err(full) if full.kind() == io::ErrorKind::WouldBlock => patience()?,
                    Err(error) => return Err(error),
                }
            }
            while is_much && bytes.len() - rest.len() == QUEUE_BYTES && unread_bytes(other.as_fd())? < QUEUE_BYTES {
                patience()?;
            }
        }
        ready_events(other.as_fd(), INPUT).map(drop)
    };
    let written = write_all();
    if waits {
        set_waiting(to.as_fd(), true)?;
    }
    written
}

#[cfg(test)]
mod tests;
