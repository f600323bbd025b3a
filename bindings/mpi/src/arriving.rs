//! Messages that are asked for before they come: what comes finds its place, and is copied once less.
//!
//! A few receives of anybody's next message are under way while a call of the library waits. They are matched in the order in
//! which they began, so one process's messages lie in them in their order. What does not fit in one is announced in its place,
//! and its body is received on a channel of its own, from just that process. A message waits for those of its sender before
//! it, and for whatever is before it and nobody's yet.

use crate::table::{Calls, Channel, Ended, Request};
use standfast_group::Buffers;
use standfast_member::TransportError;
use std::collections::VecDeque;

/// A message up to so long goes as it is, a byte of kind behind it: a piece of a transfer does. MPI over TCP sends at once what
/// is shorter than 64 KiB.
const WHOLE_BYTES_MAX: usize = 61 << 10;
/// What is no longer than this is not worth the buffer that it came in.
const SHORT_BYTES_MAX: usize = 4 << 10;
/// So many receives are under way at first, for messages of the protocol; of a transfer there are more, and twice as many with
/// each that comes, up to the most.
const ASKED_FIRST: usize = 4;
const ASKED_MAX: usize = 8;

/// The last byte of a message: it is all of it, or it tells the length of the body that follows. No version before had these.
const WHOLE: u8 = 2;
const ANNOUNCED: u8 = 3;

/// Makes a message of some bytes; where they are too many for one, what announces them, and they stay as they are.
pub(crate) fn announcement(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    if bytes.len() < WHOLE_BYTES_MAX {
        bytes.push(WHOLE);
        return None;
    }
    let mut words = (bytes.len() as u64).to_le_bytes().to_vec();
    words.push(ANNOUNCED);
    Some(words)
}

/// A receive that has begun.
#[derive(Debug)]
struct Asked {
    /// Nobody's, until a message has come.
    from: Option<u32>,
    request: Request,
    /// Room for it; so many of them are what has come.
    bytes: Vec<u8>,
    length: usize,
    /// It has been announced.
    is_body: bool,
    /// The request is gone then.
    is_done: bool,
}

/// All of them, in the order in which they began.
#[derive(Debug)]
pub(crate) struct Arriving {
    asked: VecDeque<Asked>,
    /// So many are to be under way for anybody's messages: the more come, the more.
    wanted: usize,
    buffers: Buffers,
}

impl Arriving {
    pub(crate) fn new(buffers: Buffers) -> Self {
        Self { asked: VecDeque::new(), wanted: ASKED_FIRST, buffers }
    }

    /// Asks for messages.
    pub(crate) fn ask(&mut self, calls: &Calls) -> Result<(), TransportError> {
        let here = self.asked.iter().filter(|it| it.from.is_none()).count();
        for _ in here..self.wanted {
            let mut bytes = self.buffers.take(WHOLE_BYTES_MAX);
            let request = calls.receive(None, Channel::Messages, &mut bytes)?;
            self.asked.push_back(Asked { from: None, request, bytes, length: 0, is_body: false, is_done: false });
        }
        Ok(())
    }

    /// Those that have not ended.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = Request> {
        self.asked.iter().filter(|it| !it.is_done).map(|it| it.request)
    }

    /// Notes what has become of them, in their order; says whether something has come.
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

    /// The next message that is there, with its sender.
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

    /// Receives a body in the place of what announced it.
    fn ask_for_body(&mut self, at: usize, from: u32, length: u64, calls: &Calls) -> Result<(), TransportError> {
        let (mut bytes, length) = (self.buffers.take(length as usize), length as usize);
        let request = calls.receive(Some(from), Channel::Bodies, &mut bytes)?;
        let body = Asked { from: Some(from), request, bytes, length, is_body: true, is_done: false };
        self.buffers.put(std::mem::replace(&mut self.asked[at], body).bytes);
        Ok(())
    }

    /// What has come, without so many bytes at its end; in room of its own where that is little.
    fn take(&mut self, at: usize, without: usize) -> Vec<u8> {
        self.wanted = ASKED_MAX.min(2 * self.wanted);
        let Asked { mut bytes, length, .. } = self.asked.remove(at).expect("it has just been looked at");
        let length = length - without;
        if length > SHORT_BYTES_MAX {
            bytes.truncate(length);
            return bytes;
        }
        let short = bytes[..length].to_vec();
        // As long as it is: what is longer than before would have to be filled.
        self.buffers.put(bytes);
        short
    }

    /// Gives up what has been asked for and has not come. What has come meanwhile is there for the next time.
    pub(crate) fn give_up(&mut self, calls: &Calls) -> Result<(), TransportError> {
        self.wanted = ASKED_FIRST;
        let nobodys = self.asked.iter().filter(|it| it.from.is_none());
        nobodys.map(|it| it.request).try_for_each(|request| calls.cancel(request))
    }

    /// Whether somebody's next message is asked for.
    pub(crate) fn asks(&self) -> bool {
        self.asked.iter().any(|it| it.from.is_none())
    }
}

impl Drop for Arriving {
    /// What may still be written to is not given back.
    fn drop(&mut self) {
        self.asked.drain(..).filter(|it| !it.is_done).for_each(|it| std::mem::forget(it.bytes));
    }
}
