//! What both ends of an empty connection between two parts do before their programs get it: each sends what it had received,
//! and gets it back. So nothing but the connection itself is needed between the parts, and in the end each receive queue
//! holds what it held.
//!
//! ```text
//! one end                                   other end
//! lengths, what A had received        --->  reads it ...
//!               ... reads it          <---  lengths, what B had received
//! what B had received                 --->  stays in the receive queue of B
//! stays in the receive queue of A     <---  what A had received
//! ```
//!
//! Where not all of it had fitted into a receive queue, what does not fit now stays in the send queue of the other end.

use standfast_linux::abi;
use standfast_linux::sys::{descriptors, socket};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The length in bytes of what follows, and how many of these bytes had not fitted into the receive queue. If some had not,
/// it does not matter how many fit now.
const HEADER_BYTES: usize = 16;
/// The largest receive queue that is believed. The kernel's own limit is 32 MiB at most systems.
const CONTENTS_BYTES_MAX: u64 = 1 << 30;
/// How long nothing may happen on any connection.
const SILENCE_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_micros(200);
/// Room beyond twice the bytes that are to stay: the kernel's own bookkeeping takes some of it.
const ROOM_SPARE: usize = 128 << 10;
const PIECE_BYTES: usize = 64 << 10;
/// After this many looks more room is made: how much of it the kernel's own bookkeeping takes is not known.
const SCANS_FOR_MORE_ROOM: usize = 100;

/// One end of a connection in this exchange.
pub(super) struct Exchange<'a> {
    own: BorrowedFd<'a>,
    /// How many bytes of the contents had not fitted into the receive queue.
    held_back: u64,
    /// What is to lie in its receive queue at the end.
    contents: &'a [u8],
    outgoing: Vec<u8>,
    sent: usize,
    incoming: Vec<u8>,
    /// How often room was made for what is to stay.
    scans: usize,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(own: BorrowedFd<'a>, contents: &'a [u8], held_back: u64) -> Self {
        let outgoing = [&(contents.len() as u64).to_le_bytes(), &held_back.to_le_bytes(), contents].concat();
        Self { own, held_back, contents, outgoing, sent: 0, incoming: Vec::new(), scans: 0 }
    }

    /// Returns how many bytes the other end is still to send before what stays in the queue, as far as that is known.
    fn wanted(&self) -> io::Result<usize> {
        let Some(header) = self.incoming.get(..HEADER_BYTES) else { return Ok(HEADER_BYTES - self.incoming.len()) };
        let length = number_in(&header[..8]);
        if length > CONTENTS_BYTES_MAX {
            return Err(io::Error::other("another part announced more than a receive queue holds"));
        }
        Ok(HEADER_BYTES + length as usize - self.incoming.len())
    }

    /// Does what is possible without waiting. Returns whether anything has happened.
    fn go_on(&mut self) -> io::Result<bool> {
        let sent = self.send()?;
        let received = self.receive()?;
        Ok(sent || received)
    }

    fn send(&mut self) -> io::Result<bool> {
        let rest = &self.outgoing[self.sent..];
        if rest.is_empty() {
            return Ok(false);
        }
        match socket::send(self.own, rest, &[], &[]) {
            Ok(bytes) => {
                self.sent += bytes;
                Ok(bytes > 0)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads what the other end had received, and queues it to be sent back once all of it is here.
    fn receive(&mut self) -> io::Result<bool> {
        let mut has_received = false;
        loop {
            let wanted = self.wanted()?;
            if wanted == 0 {
                return Ok(has_received);
            }
            let mut piece = vec![0; wanted.min(PIECE_BYTES)];
            match socket::receive_at_once(self.own, &mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    has_received = true;
                    self.incoming.extend_from_slice(&piece[..bytes]);
                    if self.wanted()? == 0 {
                        self.outgoing.extend_from_slice(&self.incoming[HEADER_BYTES..]);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(has_received),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reports whether everything has been sent and acknowledged, and everything that is to stay has arrived.
    fn is_done(&mut self) -> io::Result<bool> {
        if self.wanted()? > 0 {
            return Ok(false);
        }
        // The other end may be able to send what it still has to only when there is room for it here.
        if descriptors::unread_bytes(self.own)? < self.contents.len() {
            self.make_room()?;
            if self.held_back == 0 {
                return Ok(false);
            }
        }
        let is_held_back_there = number_in(&self.incoming[8..HEADER_BYTES]) > 0;
        Ok(self.sent == self.outgoing.len() && (is_held_back_there || socket::unsent_bytes(self.own)? == 0))
    }

    /// Makes room for what is to stay, and announces it to the other end.
    fn make_room(&mut self) -> io::Result<()> {
        if self.scans.is_multiple_of(SCANS_FOR_MORE_ROOM) {
            let bytes = (2 * self.contents.len() + ROOM_SPARE).saturating_mul(1 + self.scans / SCANS_FOR_MORE_ROOM);
            socket::make_room(self.own, i32::try_from(bytes).unwrap_or(i32::MAX))?;
        }
        self.scans += 1;
        socket::peek(self.own, &mut [0; 1])?;
        socket::set_number(self.own, abi::IPPROTO_TCP, abi::TCP_QUICKACK, 2)
    }

    fn verify(&self) -> io::Result<()> {
        let mut found = vec![0; self.contents.len() + 1];
        let bytes = socket::peek(self.own, &mut found)?.map_or(0, |peeked| peeked.bytes);
        let is_enough = bytes == self.contents.len() || self.held_back > 0;
        if is_enough && self.contents.starts_with(&found[..bytes]) {
            return Ok(());
        }
        Err(io::Error::other("another part has sent back something else"))
    }
}

fn number_in(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Describes the exchanges that go on no more.
fn stuck(ends: &mut [Exchange<'_>]) -> io::Result<String> {
    let mut connections = Vec::new();
    for end in ends {
        if !end.is_done()? {
            let (own, incoming, here) = (end.own, end.incoming.len(), descriptors::unread_bytes(end.own)?);
            let (sent, outgoing, unsent) = (end.sent, end.outgoing.len(), socket::unsent_bytes(own)?);
            let contents = end.contents.len();
            connections.push(format!(
                "{sent} of {outgoing} bytes sent, {unsent} of them not acknowledged; {incoming} received, {here} of \
                 {contents} sent back"
            ));
        }
    }
    Ok(format!("nothing has moved for {} s: {}", SILENCE_MAX.as_secs(), connections.join("; ")))
}

/// Carries all exchanges of this part to their end, side by side: the other ends do so too, in any order.
pub(super) fn exchange(mut ends: Vec<Exchange<'_>>) -> io::Result<()> {
    let nodelay = |end: &Exchange<'_>| socket::number(end.own, abi::IPPROTO_TCP, abi::TCP_NODELAY);
    let before = ends.iter().map(nodelay).collect::<io::Result<Vec<_>>>()?;
    let set = |end: &Exchange<'_>, value| socket::set_number(end.own, abi::IPPROTO_TCP, abi::TCP_NODELAY, value);
    ends.iter().try_for_each(|end| set(end, 1))?;
    let mut last = Instant::now();
    loop {
        let (mut has_happened, mut is_done) = (false, true);
        for end in &mut ends {
            has_happened |= end.go_on()?;
            is_done &= end.is_done()?;
        }
        if is_done {
            ends.iter().zip(before).try_for_each(|(end, before)| set(end, before))?;
            return ends.iter().try_for_each(Exchange::verify);
        }
        if has_happened {
            last = Instant::now();
        } else if last.elapsed() > SILENCE_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, stuck(&mut ends)?));
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}
