//! Connections between parts on which more is on its way than the receive queue takes. It is in the send queue of the other
//! end, where nobody can read it. So both ends empty their receive queues until everything has come. When both have done so,
//! they exchange that over the connection as in a restart: in the end the queues hold what they held.
//!
//! Meanwhile only we know what was sent. If we end, the kernel kills the job; if anything fails, we do. It can be continued
//! from its last checkpoint.

use super::distant::{Gathering, other_parts};
use super::internet::TcpInformation;
use super::{Found, Walk};
use crate::freeze::Frozen;
use crate::objects::socket::exchange::{Exchange, Room, SentBack, exchange};
use standfast_format::records::{SocketMessage, SocketState};
use standfast_linux::sys::{descriptors, socket};
use std::io;
use std::time::{Duration, Instant};

const PIECE_BYTES: usize = 64 << 10;
const PAUSE: Duration = Duration::from_micros(200);
/// How long nothing may come.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// An end whose receive queue is full.
pub(super) struct FullEnd {
    /// Its place among the sockets.
    pub(super) at: usize,
    /// How many bytes it has received in all when everything has come.
    pub(super) received: u64,
}

/// What was in a receive queue.
pub(super) struct Emptied {
    contents: Vec<u8>,
    /// What the other end had received, once that is known.
    sent_back: Option<SentBack>,
    pub(super) is_refilled: bool,
}

impl Walk<'_> {
    /// Empties the receive queues of these ends. From now on the job dies with us.
    pub(super) fn empty(&mut self, full: &[FullEnd]) -> io::Result<()> {
        if full.is_empty() {
            return Ok(());
        }
        self.frozen()?.die_with_us(true).map_err(io::Error::other)?;
        for end in full {
            let mut contents = Vec::new();
            let read = self.sockets[end.at].read_out(end.received, &mut contents);
            // Even if that has failed, something may have been read.
            self.sockets[end.at].emptied = Some(Emptied { contents, sent_back: None, is_refilled: false });
            read?;
        }
        Ok(())
    }

    /// Fills the receive queues of these ends again, whose other ends have been emptied as well. It is called once more if
    /// not all has fitted.
    pub(super) fn refill(&mut self, ends: &[usize]) -> io::Result<()> {
        if ends.is_empty() {
            return Ok(());
        }
        self.frozen()?.die_with_us(true).map_err(io::Error::other)?;
        let mut before = Vec::new();
        for at in ends {
            let emptied = self.sockets[*at].emptied.as_mut().ok_or(io::ErrorKind::InvalidData)?;
            emptied.is_refilled = false;
            before.push(emptied.sent_back.take());
        }
        let exchanges = ends.iter().zip(before).filter_map(|(at, before)| {
            let (own, contents) = (self.sockets[*at].own(), &self.sockets[*at].emptied.as_ref()?.contents);
            Some(match before {
                // All of it may stay where it was.
                None => Exchange::new(own, contents, contents.len() as u64),
                Some(sent_back) => Exchange::again(own, contents, contents.len() as u64, sent_back),
            })
        });
        let sent_back = exchange(exchanges.collect())?;
        for (at, sent_back) in ends.iter().zip(sent_back) {
            if let Some(emptied) = &mut self.sockets[*at].emptied {
                emptied.is_refilled = sent_back.is_complete();
                emptied.sent_back = Some(sent_back);
            }
        }
        if self.holds_bytes() { Ok(()) } else { self.frozen()?.die_with_us(false).map_err(io::Error::other) }
    }

    /// Returns the receive queues that are being filled again.
    pub(super) fn refilled(&self) -> Vec<Room<'_>> {
        let rooms = self.sockets.iter().filter_map(|socket| {
            let emptied = socket.emptied.as_ref()?;
            Some(Room::after(socket.own(), emptied.contents.len(), emptied.sent_back.as_ref()?))
        });
        rooms.collect()
    }

    /// Ends the job if the parts could not agree while we hold bytes of its connections.
    pub(super) fn unless_bytes_are_held<T>(&self, met: Result<T, Gathering>) -> Result<T, Gathering> {
        if !self.holds_bytes() {
            return met;
        }
        let why = match met {
            Err(Gathering::Others(why)) => why,
            Err(Gathering::End { .. }) => "a connection has ended".to_owned(),
            Ok(_) => "the other parts go on without it".to_owned(),
        };
        self.frozen().map_err(other_parts)?.end();
        Err(Gathering::Others(format!("what was on its way could not be sent again, so this part was ended: {why}")))
    }

    fn holds_bytes(&self) -> bool {
        self.sockets.iter().any(|socket| socket.emptied.as_ref().is_some_and(|it| !it.is_refilled))
    }

    fn frozen(&self) -> io::Result<&Frozen> {
        self.frozen.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Records all that such an end has received. `bytes` of it are in its receive queue.
    pub(super) fn note_refilled(&mut self, at: usize, emptied: Emptied, bytes: usize) {
        let record = &mut self.sockets[at].record;
        let rest = emptied.contents.len().saturating_sub(bytes) as u64;
        if let SocketState::Distant { held_back, .. } = &mut record.state {
            *held_back = (rest > 0).then_some(rest);
        }
        if !emptied.contents.is_empty() {
            record.received.push(SocketMessage { contents: emptied.contents.into(), ..SocketMessage::default() });
        }
    }
}

impl Found {
    /// Reads everything that has been sent to this socket, which has then received this many bytes in all. Nothing beyond
    /// that: the other end may have begun to send it again.
    fn read_out(&self, received: u64, all: &mut Vec<u8>) -> io::Result<()> {
        let wanted = received.checked_sub(self.read_so_far()?).ok_or(io::ErrorKind::InvalidData)? as usize;
        let mut last = Instant::now();
        let mut piece = vec![0; PIECE_BYTES];
        while all.len() < wanted {
            let room = piece.len().min(wanted - all.len());
            match socket::receive_at_once(self.own(), &mut piece[..room]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    all.extend_from_slice(&piece[..bytes]);
                    last = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && last.elapsed() < SILENCE_MAX => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns how many bytes the program has read.
    fn read_so_far(&self) -> io::Result<u64> {
        loop {
            let before = TcpInformation::of(self.own())?.traffic.received;
            let unread = descriptors::unread_bytes(self.own())? as u64;
            if TcpInformation::of(self.own())?.traffic.received == before {
                return before.checked_sub(unread).ok_or(io::ErrorKind::InvalidData.into());
            }
        }
    }
}
