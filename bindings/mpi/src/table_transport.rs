//! The transport over a table of C functions.
//!
//! # Safety
//! Bytes in flight stay in place until their request has ended. If the end cannot be determined, they are never freed.

use crate::arriving::{Arriving, announcement};
use crate::table::{CallTable, Calls, Channel, Ended, LOOKED_AT_MAX, Request};
use crate::watchdog::Pulse;
use standfast_group::Buffers;
use standfast_linux::sys::schedule::rest;
use standfast_member::{Patience, Transport, TransportError};
use std::collections::VecDeque;
use std::time::Duration;

/// Polls without result before the process rests longer: a process on the same processor needs time to answer.
const LOOKS: u32 = 3;
/// Hardly longer than going to sleep and waking up takes. With 20 us, an epoch in which one page in a hundred has changed
/// takes a sixth longer.
const REST: Duration = Duration::from_micros(6);
/// The same while much data is on its way: a poll takes time from the processes that work.
const REST_IN_BULK: Duration = Duration::from_micros(120);
/// A rest grows to this fraction of the time rested so far, up to the maximum. So a long wait for a process that still
/// computes takes hardly any processor time, and delays the message by no more than that fraction.
const REST_PART: u32 = 16;
const REST_MAX: Duration = Duration::from_millis(20);

/// Polls for cancelled receives. A message that arrives just then may take longer: its receive stays posted.
const LAST_LOOKS: usize = 8;

/// A message on its way to a process.
#[derive(Debug)]
struct Sending {
    request: Request,
    bytes: Vec<u8>,
    /// Whether it has ended; its request is then invalid.
    is_done: bool,
}

/// One process's end of the program's message passing.
#[derive(Debug)]
pub(crate) struct TableTransport {
    rank: u32,
    ranks: u32,
    calls: Calls,
    sending: VecDeque<Sending>,
    arriving: Arriving,
    /// Requests that are polled together; kept for its capacity.
    requests: Vec<Request>,
    buffers: Buffers,
    looks: u32,
    /// Time rested since the last message arrived.
    rested: Duration,
    pulse: Pulse,
}

impl TableTransport {
    /// Checks the table and creates the transport.
    pub(crate) fn new(table: &CallTable, pulse: Pulse) -> Result<Self, String> {
        let (calls, buffers) = (table.calls()?, Buffers::default());
        let (sending, arriving) = (VecDeque::new(), Arriving::new(buffers.clone()));
        let (rank, ranks, rested) = (table.rank, table.ranks, Duration::ZERO);
        Ok(Self { rank, ranks, calls, sending, arriving, requests: Vec::new(), buffers, looks: 0, rested, pulse })
    }

    fn send_on(&mut self, to: u32, channel: Channel, bytes: Vec<u8>) -> Result<(), TransportError> {
        let request = self.calls.send(to, channel, &bytes)?;
        self.sending.push_back(Sending { request, bytes, is_done: false });
        Ok(())
    }

    /// Polls the requests in flight, mostly the oldest first, and forgets messages that have been sent. Reports whether a
    /// message has arrived.
    fn look(&mut self) -> Result<bool, TransportError> {
        let Self { requests, arriving, sending, .. } = self;
        requests.clear();
        requests.extend(arriving.under_way().take(LOOKED_AT_MAX));
        let asked = requests.len();
        let sending = sending.iter().filter(|it| !it.is_done).map(|it| it.request);
        requests.extend(sending.take(LOOKED_AT_MAX - asked));
        if requests.is_empty() {
            return Ok(false);
        }
        let ended = self.calls.test(requests)?;
        let (arrived, sent) = ended[..requests.len()].split_at(asked);
        let sending = self.sending.iter_mut().filter(|it| !it.is_done);
        sent.iter().zip(sending).for_each(|(sent, it)| it.is_done = sent.how != Ended::UNDER_WAY);
        while let Some(sent) = self.sending.pop_front_if(|it| it.is_done) {
            self.buffers.put(sent.bytes);
        }
        Ok(self.arriving.note(arrived))
    }
}

impl Transport for TableTransport {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn send(&mut self, to: u32, mut bytes: Vec<u8>) -> Result<(), TransportError> {
        let Some(words) = announcement(&mut bytes) else { return self.send_on(to, Channel::Messages, bytes) };
        self.send_on(to, Channel::Messages, words)?;
        self.send_on(to, Channel::Bodies, bytes)
    }

    fn receive(&mut self) -> Result<Option<(u32, Vec<u8>)>, TransportError> {
        let mut arrived = self.arriving.next(&self.calls)?;
        if arrived.is_none() {
            self.arriving.ask(&self.calls)?;
            // The next poll mostly finds what the first has brought in.
            let _ = self.look()? || self.look()?;
            arrived = self.arriving.next(&self.calls)?;
        }
        if arrived.is_some() {
            (self.looks, self.rested) = (0, Duration::ZERO);
            self.pulse.beat();
        }
        Ok(arrived)
    }

    fn pause(&mut self) -> Result<(), TransportError> {
        self.arriving.give_up(&self.calls)?;
        (0..LAST_LOOKS).try_for_each(|_| if self.arriving.asks() { self.look().map(drop) } else { Ok(()) })
    }

    fn buffers(&self) -> Buffers {
        self.buffers.clone()
    }

    fn idle(&mut self, patience: Patience) {
        if self.looks < LOOKS {
            self.looks += 1;
            return std::thread::yield_now();
        }
        let first = match patience {
            Patience::Answer => REST,
            Patience::Bulk => REST_IN_BULK,
        };
        let next = first.max(self.rested / REST_PART).min(REST_MAX);
        rest(next);
        self.rested += next;
    }
}

impl Drop for TableTransport {
    /// Waits for the requests in flight. If that is impossible, their bytes are never freed.
    fn drop(&mut self) {
        let is_under_way = |transport: &Self| {
            transport.arriving.under_way().next().is_some() || transport.sending.iter().any(|it| !it.is_done)
        };
        let given_up = self.arriving.give_up(&self.calls).is_ok();
        while given_up && self.look().is_ok() && is_under_way(self) && !std::thread::panicking() {
            std::thread::yield_now();
        }
        self.sending.drain(..).filter(|it| !it.is_done).for_each(|it| std::mem::forget(it.bytes));
    }
}

#[cfg(test)]
mod tests;
