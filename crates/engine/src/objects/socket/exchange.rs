//! What both ends of an empty connection between two parts do before their programs get it: each sends what it had received,
//! and gets it back. So nothing but the connection itself is needed between the parts, and in the end each receive queue
//! holds what it held.
//!
//! ```text
//! one end                                   other end
//! lengths, what A had received        --->  reads it ...
//!               ... reads it          <---  lengths, what B had received
//! GO: its receive queue is empty     <-->  GO
//! what B had received                 --->  stays in the receive queue of B
//! stays in the receive queue of A     <---  what A had received
//! ```
//!
//! Where not all of it had fitted into a receive queue, what does not fit now stays in the send queue of the other end. How much
//! both take together differs a little from time to time: a receive queue takes most when it was empty, since the packets are
//! then as large as they can be. If it is less than before, both ends read what has come once more, and send each other's again.

use super::spare_room::UnsentLimit;
use standfast_linux::abi;
use standfast_linux::sys::{descriptors, socket};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The length in bytes of what follows, and how many of these bytes had not fitted into the receive queue. If some had not,
/// it does not matter how many fit now.
const HEADER_BYTES: usize = 16;
/// What an end says when it has read all that came, so that its receive queue is empty.
const GO: u8 = b'g';
/// The largest receive queue that is believed. The kernel's own limit is 32 MiB at most systems.
const CONTENTS_BYTES_MAX: u64 = 1 << 30;
/// How long nothing may happen on any connection.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// How long nothing may happen where both queues of a connection are full.
const FULL_MAX: Duration = Duration::from_millis(30);
/// How long nothing may come that the other end has: it may be busy with other connections, and the kernel may wait before
/// it sends something again.
const LATE_MAX: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_micros(200);
/// The pause between two announcements of room while other parts are waited for.
const ROOM_PAUSE: Duration = Duration::from_millis(1);
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
    /// The header of the other end, and what that had received.
    incoming: Vec<u8>,
    /// How many bytes are to be read that have stayed here at the last attempt.
    to_discard: usize,
    go: Go,
    room: Room<'a>,
}

/// Which ends of a connection have read all that came, so that their receive queues are empty.
#[derive(Default)]
struct Go {
    /// This one, which has said so.
    was_said: bool,
    /// The other one.
    was_heard: bool,
}

/// What the other end of a connection had received, as it was sent back.
pub(super) struct SentBack {
    incoming: Vec<u8>,
    /// How many bytes of it the send queue has not taken.
    unsent: usize,
    /// Whether the receive queue of this end holds what it must.
    is_all_here: bool,
    /// Whether that was not the first attempt.
    is_again: bool,
}

impl SentBack {
    /// Reports whether the queues of both directions have taken all that they had to.
    pub(super) fn is_complete(&self) -> bool {
        self.unsent == 0 && self.is_all_here
    }
}

/// The room in a receive queue for what is to stay there.
pub(super) struct Room<'a> {
    own: BorrowedFd<'a>,
    bytes: usize,
    /// How often room was made.
    scans: usize,
    /// Whether a fixed size is exceeded for now. On some devices the kernel then takes long for each segment.
    is_wide: bool,
    /// The size that the program has chosen (SO_RCVBUF), which is set again.
    chosen: Option<i32>,
}

impl<'a> Room<'a> {
    /// Returns the room for this number of bytes, after an attempt.
    pub(super) fn after(own: BorrowedFd<'a>, bytes: usize, before: &SentBack) -> Self {
        Self { own, bytes, scans: 0, is_wide: before.is_again, chosen: None }
    }

    /// Lets a receive queue of a fixed size take more for now. What it holds when the size is set again, stays.
    fn widen(&mut self) -> io::Result<()> {
        if self.is_wide && self.chosen.is_none() && socket::has_fixed_receive_buffer(self.own) {
            // The kernel returns twice what was set.
            self.chosen = Some(socket::number(self.own, abi::SOL_SOCKET, abi::SO_RCVBUF)? / 2);
            let wanted = i32::try_from(2 * self.bytes + ROOM_SPARE).unwrap_or(i32::MAX);
            socket::set_number(self.own, abi::SOL_SOCKET, abi::SO_RCVBUF, wanted)?;
        }
        Ok(())
    }

    /// Makes room, and announces it to the other end.
    fn make(&mut self) -> io::Result<()> {
        self.widen()?;
        if self.scans.is_multiple_of(SCANS_FOR_MORE_ROOM) {
            let bytes = (2 * self.bytes + ROOM_SPARE).saturating_mul(1 + self.scans / SCANS_FOR_MORE_ROOM);
            socket::make_room(self.own, i32::try_from(bytes).unwrap_or(i32::MAX))?;
        }
        self.scans += 1;
        socket::peek(self.own, &mut [0; 1])?;
        socket::set_number(self.own, abi::IPPROTO_TCP, abi::TCP_QUICKACK, 2)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if let Some(bytes) = self.chosen {
            // It could be set before.
            let _ = socket::set_number(self.own, abi::SOL_SOCKET, abi::SO_RCVBUF, bytes);
        }
    }
}

/// Makes room for this number of bytes in a receive queue to which nothing large has come. The kernel still expects that a
/// segment takes twice its length in memory, and so the queue may get its largest size. Once it has seen large segments, half
/// as much is the most that can be had.
pub(super) fn make_first_room(own: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    if bytes == 0 { Ok(()) } else { Room { own, bytes, scans: 0, is_wide: false, chosen: None }.make() }
}

/// Makes room in these receive queues until `wait` has returned. This part has sent all that it had to, and waits for others
/// that may still have to send what stays here: what their send queues do not take must fit here.
pub(super) fn with_room<T>(mut rooms: Vec<Room<'_>>, wait: impl FnOnce() -> T) -> T {
    if rooms.is_empty() {
        return wait();
    }
    // The thread ends when this end of the channel is gone.
    let (waiting, is_over) = channel::<()>();
    thread::scope(move |scope| {
        scope.spawn(move || {
            while is_over.recv_timeout(ROOM_PAUSE) == Err(RecvTimeoutError::Timeout) {
                // A connection that has failed is seen by whoever reads it next.
                rooms.iter_mut().for_each(|room| drop(room.make()));
            }
        });
        let answer = wait();
        drop(waiting);
        answer
    })
}

impl<'a> Exchange<'a> {
    pub(super) fn new(own: BorrowedFd<'a>, contents: &'a [u8], held_back: u64) -> Self {
        let outgoing = [&(contents.len() as u64).to_le_bytes(), &held_back.to_le_bytes(), contents].concat();
        let room = Room { own, bytes: contents.len(), scans: 0, is_wide: false, chosen: None };
        let (incoming, go) = (Vec::new(), Go::default());
        Self { own, held_back, contents, outgoing, sent: 0, incoming, to_discard: 0, go, room }
    }

    /// Returns another attempt, after one at which not all was taken at this end or at the other one.
    pub(super) fn again(own: BorrowedFd<'a>, contents: &'a [u8], held_back: u64, before: SentBack) -> Self {
        let SentBack { incoming, unsent, .. } = before;
        let outgoing = incoming[incoming.len() - unsent..].to_vec();
        let room = Room { own, bytes: contents.len(), scans: 0, is_wide: true, chosen: None };
        let (to_discard, go) = (contents.len(), Go::default());
        Self { own, held_back, contents, outgoing, sent: 0, incoming, to_discard, go, room }
    }

    /// Returns how long nothing may happen until it is another attempt's turn.
    fn patience(&self) -> io::Result<Duration> {
        // Until both ends have all that the other one had received, no other attempt can begin.
        if !self.go.was_heard {
            return Ok(SILENCE_MAX);
        }
        Ok(if self.is_full()? { FULL_MAX } else { LATE_MAX })
    }

    /// Reports whether the other end has all that this one had received, and has no room for more of its own.
    fn is_full(&self) -> io::Result<bool> {
        let is_sending = self.sent < self.outgoing.len() && self.is_held_back_there();
        let unsent = self.outgoing.len() - self.sent + socket::unsent_bytes(self.own)?;
        Ok(is_sending && unsent <= self.theirs_bytes() && has_no_room_there(self.own)?)
    }

    /// Returns the length of what the other end had received, once all of it is here.
    fn theirs_bytes(&self) -> usize {
        self.incoming.len() - HEADER_BYTES
    }

    /// Reports whether not all had fitted into the receive queue of the other end, which has said so.
    fn is_held_back_there(&self) -> bool {
        number_in(&self.incoming[8..HEADER_BYTES]) > 0
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

    /// Reads what the other end had received, and queues it to be sent back once the other end has read all as well.
    fn receive(&mut self) -> io::Result<bool> {
        let mut has_received = self.discard()?;
        if self.to_discard > 0 {
            return Ok(has_received);
        }
        loop {
            let wanted = self.wanted()?;
            if wanted == 0 {
                return Ok(self.agree_to_go()? || has_received);
            }
            let mut piece = vec![0; wanted.min(PIECE_BYTES)];
            let Some(bytes) = received(self.own, &mut piece)? else { return Ok(has_received) };
            has_received = true;
            self.incoming.extend_from_slice(&piece[..bytes]);
        }
    }

    /// Says that all has been read here. Once the other end has said so, what it had received is queued to be sent back.
    fn agree_to_go(&mut self) -> io::Result<bool> {
        if !self.go.was_said {
            self.room.make()?;
            self.outgoing.push(GO);
            self.go.was_said = true;
        }
        let mut said = [0];
        if self.go.was_heard || received(self.own, &mut said)?.is_none() {
            return Ok(false);
        }
        if said != [GO] {
            return Err(io::Error::other("another part has sent back something else"));
        }
        self.go.was_heard = true;
        self.outgoing.extend_from_slice(&self.incoming[HEADER_BYTES..]);
        Ok(true)
    }

    /// Reads what has stayed here at the last attempt.
    fn discard(&mut self) -> io::Result<bool> {
        let before = self.to_discard;
        let mut piece = vec![0; PIECE_BYTES.min(before)];
        while self.to_discard > 0 {
            let room = self.to_discard.min(piece.len());
            let Some(bytes) = received(self.own, &mut piece[..room])? else { break };
            self.to_discard -= bytes;
        }
        Ok(self.to_discard < before)
    }

    /// Reports whether everything has been sent and acknowledged, and everything that is to stay has arrived.
    fn is_done(&mut self) -> io::Result<bool> {
        if !self.go.was_heard {
            return Ok(false);
        }
        // The other end may be able to send what it still has to only when there is room for it here.
        if descriptors::unread_bytes(self.own)? < self.contents.len() {
            self.room.make()?;
            if self.held_back == 0 {
                return Ok(false);
            }
        }
        let has_arrived = self.is_held_back_there() || socket::unsent_bytes(self.own)? == 0;
        Ok(self.sent == self.outgoing.len() && has_arrived)
    }

    /// Returns what was sent back. If all was, what has stayed here is compared: it must be what had been received.
    fn finish(self) -> io::Result<SentBack> {
        let is_all_here = self.held_back > 0 || descriptors::unread_bytes(self.own)? == self.contents.len();
        let unsent = self.outgoing.len() - self.sent;
        if is_all_here && unsent == 0 {
            self.verify()?;
        }
        Ok(SentBack { incoming: self.incoming, unsent, is_all_here, is_again: self.room.is_wide })
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

/// Reads what has come. Returns `None` if nothing has.
fn received(own: BorrowedFd<'_>, piece: &mut [u8]) -> io::Result<Option<usize>> {
    match socket::receive_at_once(own, piece) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn number_in(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Reports whether the other end has announced less room than a segment takes, if the kernel tells (Linux 5.4). The kernel then
/// sends a little each time that its timer ends, which may go on for seconds.
fn has_no_room_there(own: BorrowedFd<'_>) -> io::Result<bool> {
    // `tcpi_snd_mss` and `tcpi_snd_wnd` of struct tcp_info.
    const SEGMENT: usize = 16;
    const WINDOW: usize = 228;
    let information = socket::option(own, abi::IPPROTO_TCP, abi::TCP_INFO, WINDOW + size_of::<u32>())?;
    let word = |at: usize| Some(u32::from_le_bytes(*information.get(at..)?.first_chunk()?));
    Ok(word(SEGMENT).zip(word(WINDOW)).is_some_and(|(segment, window)| window < segment))
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

/// Options of a connection that are others during the exchange.
struct OwnOptions {
    nodelay: i32,
    unsent: UnsentLimit,
}

impl OwnOptions {
    /// Has everything be sent at once, and lets the send queue take as much as it can.
    fn replace(own: BorrowedFd<'_>) -> io::Result<Self> {
        let nodelay = socket::number(own, abi::IPPROTO_TCP, abi::TCP_NODELAY)?;
        socket::set_number(own, abi::IPPROTO_TCP, abi::TCP_NODELAY, 1)?;
        Ok(Self { nodelay, unsent: UnsentLimit::lift(own)? })
    }

    fn set_again(self, own: BorrowedFd<'_>) -> io::Result<()> {
        socket::set_number(own, abi::IPPROTO_TCP, abi::TCP_NODELAY, self.nodelay)?;
        self.unsent.set_again(own)
    }
}

/// Carries all exchanges of this part to their end, side by side: the other ends do so too, in any order. Returns for each what
/// was sent back, which may not be all of it.
pub(super) fn exchange(mut ends: Vec<Exchange<'_>>) -> io::Result<Vec<SentBack>> {
    let before = ends.iter().map(|end| OwnOptions::replace(end.own)).collect::<io::Result<Vec<_>>>()?;
    let mut last = Instant::now();
    loop {
        let (mut has_happened, mut is_done, mut patience) = (false, true, Duration::ZERO);
        for end in &mut ends {
            has_happened |= end.go_on()?;
            if !end.is_done()? {
                is_done = false;
                patience = patience.max(end.patience()?);
            }
        }
        let is_short = !has_happened && patience < SILENCE_MAX && last.elapsed() > patience;
        if is_done || is_short {
            ends.iter().zip(before).try_for_each(|(end, before)| before.set_again(end.own))?;
            return ends.into_iter().map(Exchange::finish).collect();
        }
        if has_happened {
            last = Instant::now();
        } else if last.elapsed() > SILENCE_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, stuck(&mut ends)?));
        } else {
            thread::sleep(PAUSE);
        }
    }
}
