//! Bytes from one descriptor to another, until the first one ends or the second one is closed. Never blocks: whoever waits
//! for several relays asks each what it waits for.

use crate::RemoteError;
use crate::error::system;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

const BUFFER_BYTES: usize = 1 << 16;
/// A pipe or a terminal that is ready for writing takes at least this much at once (PIPE_BUF).
const PIPE_BYTES: usize = 4096;

/// One direction of a stream.
#[derive(Debug)]
pub(crate) struct Relay {
    from: Option<OwnedFd>,
    to: Option<OwnedFd>,
    buffer: Vec<u8>,
    written: usize,
    /// How much is written at once.
    piece: usize,
}

impl Relay {
    /// Relays to a connection or pipe that no other process writes to.
    pub(crate) fn new(from: OwnedFd, to: OwnedFd) -> Result<Self, RemoteError> {
        rustix::io::ioctl_fionbio(&to, true).map_err(|error| system("setting up a stream")(error.into()))?;
        Ok(Self { piece: BUFFER_BYTES, ..Self::to_shared(from, to) })
    }

    /// Relays to an open file of other processes, which stays blocking for them.
    pub(crate) fn to_shared(from: OwnedFd, to: OwnedFd) -> Self {
        Self { from: Some(from), to: Some(to), buffer: Vec::new(), written: 0, piece: PIPE_BYTES }
    }

    /// Reports whether everything has been passed on, or nobody wants it.
    pub(crate) fn is_done(&self) -> bool {
        self.to.is_none()
    }

    /// Returns what it waits for: to read if it holds nothing, else to write.
    fn wish(&self) -> Option<PollFd<'_>> {
        match (&self.from, &self.to) {
            (_, Some(to)) if self.holds() => Some(PollFd::from_borrowed_fd(to.as_fd(), PollFlags::OUT)),
            (Some(from), Some(_)) => Some(PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)),
            _ => None,
        }
    }

    /// Does what it waited for.
    fn step(&mut self) {
        if self.holds() { self.write() } else { self.read() }
    }

    fn holds(&self) -> bool {
        self.written < self.buffer.len()
    }

    fn read(&mut self) {
        let Some(from) = &self.from else { return };
        self.buffer.resize(BUFFER_BYTES, 0);
        self.written = 0;
        match rustix::io::read(from, &mut self.buffer) {
            Ok(0) => self.end(),
            Ok(got) => self.buffer.truncate(got),
            Err(Errno::INTR | Errno::AGAIN) => self.buffer.clear(),
            // A terminal that hangs up, or a connection that is reset.
            Err(_) => self.end(),
        }
    }

    fn write(&mut self) {
        let Some(to) = &self.to else { return };
        let rest = &self.buffer[self.written..];
        match rustix::io::write(to, &rest[..rest.len().min(self.piece)]) {
            Ok(got) => self.written += got,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.end(),
        }
    }

    /// Closes both ends: the reader sees the end, and the writer that nobody reads any more.
    fn end(&mut self) {
        self.buffer.clear();
        (self.from, self.to) = (None, None);
    }
}

/// Waits until a relay can do something, and has it do that, or until one of the other descriptors is readable. Reports which
/// of those are.
pub(crate) fn await_any<const N: usize>(
    relays: &mut [Relay],
    others: [Option<BorrowedFd<'_>>; N],
) -> Result<[bool; N], RemoteError> {
    let places: Vec<usize> = (0..N).filter(|at| others[*at].is_some()).collect();
    let waiting: Vec<usize> = (0..relays.len()).filter(|at| relays[*at].wish().is_some()).collect();
    let readable = others.iter().flatten().map(|other| PollFd::from_borrowed_fd(*other, PollFlags::IN));
    let mut polled: Vec<PollFd<'_>> = readable.chain(relays.iter().filter_map(Relay::wish)).collect();
    loop {
        match rustix::event::poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(system("waiting for a stream")(error.into())),
            Ok(_) => break,
        }
    }
    let is_ready: Vec<bool> = polled.iter().map(|it| !it.revents().is_empty()).collect();
    drop(polled);
    let (of_others, of_relays) = is_ready.split_at(places.len());
    waiting.iter().zip(of_relays).filter(|(_, is_ready)| **is_ready).for_each(|(at, _)| relays[*at].step());
    let mut found = [false; N];
    places.iter().zip(of_others).for_each(|(at, is_ready)| found[*at] = *is_ready);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    fn pipe() -> (OwnedFd, File) {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        (read, File::from(write))
    }

    #[test]
    fn a_relay_passes_all_bytes_and_the_end() {
        let (from, mut source) = pipe();
        let (sink, to) = pipe();
        let mut relay = Relay::new(from, to.into()).unwrap();
        let sent: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected = sent.clone();
        let writer = std::thread::spawn(move || source.write_all(&sent).unwrap());
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            File::from(sink).read_to_end(&mut got).unwrap();
            got
        });
        while !relay.is_done() {
            await_any(std::slice::from_mut(&mut relay), []).unwrap();
        }
        writer.join().unwrap();
        assert_eq!(reader.join().unwrap(), expected);
    }

    #[test]
    fn a_relay_ends_when_nobody_reads() {
        let (from, mut source) = pipe();
        let (sink, to) = pipe();
        let mut relay = Relay::to_shared(from, to.into());
        drop(sink);
        source.write_all(b"lost").unwrap();
        relay.step();
        relay.step();
        assert!(relay.is_done());
        assert_eq!(source.write(b"more").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }
}
