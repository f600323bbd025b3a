//! Receives that are posted before their messages arrive: a message then lands in its final place, and is copied once
//! less.
//!
//! While a call of the library waits, a few receives for messages from any process are posted. They are matched in the
//! order in which they were posted, so they hold the messages of each process in order. A message that is too long for
//! one is announced there, and its body is received on a separate channel, from that process only. A message waits for
//! earlier messages of its sender, and for earlier receives that are not matched yet.

use crate::table::{Calls, Channel, Ended, Request};
use standfast_group::Buffers;
use standfast_member::TransportError;
use std::collections::VecDeque;

/// Longest message that is sent directly, with its kind in the last byte: a piece of a transfer is. MPI over TCP sends at
/// once what is shorter than 64 KiB.
const WHOLE_BYTES_MAX: usize = 61 << 10;
/// Longest message that is copied, so that the buffer in which it arrived is free.
const SHORT_BYTES_MAX: usize = 4 << 10;
/// Number of receives posted at first, for messages of the protocol. For a transfer there are more: the number doubles
/// with each message that arrives, up to the maximum.
const ASKED_FIRST: usize = 4;
const ASKED_MAX: usize = 8;

/// Last byte of a message: the message is complete, or it states the length of the body that follows. No earlier version
/// had these.
const WHOLE: u8 = 2;
const ANNOUNCED: u8 = 3;

/// Makes a message of some bytes. If they are too many for one, returns the announcement instead and leaves them as they
/// are.
pub(crate) fn announcement(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    if bytes.len() < WHOLE_BYTES_MAX {
        bytes.push(WHOLE);
        return None;
    }
    let mut words = (bytes.len() as u64).to_le_bytes().to_vec();
    words.push(ANNOUNCED);
    Some(words)
}

/// A posted receive.
#[derive(Debug)]
struct Asked {
    /// The sender; `None` until a message has been matched.
    from: Option<u32>,
    request: Request,
    /// Buffer for the message; its first `length` bytes have been received.
    bytes: Vec<u8>,
    length: usize,
    /// Whether it receives a body that was announced.
    is_body: bool,
    /// Whether it has ended; its request is then invalid.
    is_done: bool,
}

/// All receives, in the order in which they were posted.
#[derive(Debug)]
pub(crate) struct Arriving {
    asked: VecDeque<Asked>,
    /// Number of receives to be posted for messages from any process. It grows as messages arrive.
    wanted: usize,
    buffers: Buffers,
}

impl Arriving {
    pub(crate) fn new(buffers: Buffers) -> Self {
        Self { asked: VecDeque::new(), wanted: ASKED_FIRST, buffers }
    }

    /// Posts receives for messages.
    pub(crate) fn ask(&mut self, calls: &Calls) -> Result<(), TransportError> {
        let here = self.asked.iter().filter(|it| it.from.is_none()).count();
        for _ in here..self.wanted {
            let mut bytes = self.buffers.take(WHOLE_BYTES_MAX);
            let request = calls.receive(None, Channel::Messages, &mut bytes)?;
            self.asked.push_back(Asked { from: None, request, bytes, length: 0, is_body: false, is_done: false });
        }
        Ok(())
    }

    /// Returns the requests that have not ended.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = Request> {
        self.asked.iter().filter(|it| !it.is_done).map(|it| it.request)
    }

    /// Records the results of the requests, in their order. Reports whether a message has arrived.
    pub(crate) fn note(&mut self, ended: &[Ended]) -> bool {
        let mut ended = ended.iter();
        let mut has_come = false;
        self.asked.retain_mut(|it| {
            let ended = if it.is_done { None } else { ended.next() };
            match ended {
                Some(Ended { how: Ended::DONE, from, length }) => {
                    (it.from, it.length, it.is_done, has_come) = (Some(*from), *length, true, true);
                }
                Some(Ended { how: Ended::CANCELLED, .. }) => {
                    self.buffers.put(std::mem::take(&mut it.bytes));
                    return false;
                }
                _ => {}
            }
            true
        });
        has_come
    }

    /// Returns the next message that is complete, with its sender.
    pub(crate) fn next(&mut self, calls: &Calls) -> Result<Option<(u32, Vec<u8>)>, TransportError> {
        let mut waited_for = Vec::new();
        for at in 0..self.asked.len() {
            let it = &mut self.asked[at];
            let Some(from) = it.from else { return Ok(None) };
            if !it.is_done || waited_for.contains(&from) {
                waited_for.push(from);
                continue;
            }
            match &it.bytes[..it.length] {
                _ if it.is_body => return Ok(Some((from, self.take(at, 0)))),
                [.., WHOLE] => return Ok(Some((from, self.take(at, 1)))),
                &[a, b, c, d, e, f, g, h, ANNOUNCED] => {
                    self.ask_for_body(at, from, u64::from_le_bytes([a, b, c, d, e, f, g, h]), calls)?;
                    waited_for.push(from);
                }
                _ => {
                    let reason = format!("process {from} sent a message of no known kind: all must use one version");
                    return Err(TransportError(reason));
                }
            }
        }
        Ok(None)
    }

    /// Posts the receive of a body in the place of its announcement.
    fn ask_for_body(&mut self, at: usize, from: u32, length: u64, calls: &Calls) -> Result<(), TransportError> {
        let (mut bytes, length) = (self.buffers.take(length as usize), length as usize);
        let request = calls.receive(Some(from), Channel::Bodies, &mut bytes)?;
        let body = Asked { from: Some(from), request, bytes, length, is_body: true, is_done: false };
        self.buffers.put(std::mem::replace(&mut self.asked[at], body).bytes);
        Ok(())
    }

    /// Removes a message and returns its bytes, except the last `without` ones; a short message is copied to a buffer of
    /// its own.
    fn take(&mut self, at: usize, without: usize) -> Vec<u8> {
        self.wanted = ASKED_MAX.min(2 * self.wanted);
        let Asked { mut bytes, length, .. } = self.asked.remove(at).expect("it has just been looked at");
        let length = length - without;
        if length > SHORT_BYTES_MAX {
            bytes.truncate(length);
            return bytes;
        }
        let short = bytes[..length].to_vec();
        // Put it back with its full length: a buffer that must become longer has to be filled.
        self.buffers.put(bytes);
        short
    }

    /// Cancels the receives that are not matched. Messages that arrive meanwhile are kept for the next call.
    pub(crate) fn give_up(&mut self, calls: &Calls) -> Result<(), TransportError> {
        self.wanted = ASKED_FIRST;
        let nobodys = self.asked.iter().filter(|it| it.from.is_none());
        nobodys.map(|it| it.request).try_for_each(|request| calls.cancel(request))
    }

    /// Reports whether a receive for a message from any process is posted.
    pub(crate) fn asks(&self) -> bool {
        self.asked.iter().any(|it| it.from.is_none())
    }
}

impl Drop for Arriving {
    /// Does not free buffers to which data may still be written.
    fn drop(&mut self) {
        self.asked.drain(..).filter(|it| !it.is_done).for_each(|it| std::mem::forget(it.bytes));
    }
}
