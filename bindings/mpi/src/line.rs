//! The transport behind a table of C functions.
//!
//! # Safety
//! The functions of the table do what the header says, for as long as the context lives, which is until the program ends.
//! Bytes that are on their way stay where they are until their request is done; where that is never known they are not given
//! back.

use crate::watchdog::Pulse;
use standfast_group::Buffers;
use standfast_linux::sys::schedule::rest;
use standfast_member::{Patience, Transport, TransportError};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::time::Duration;

/// Looks in vain after which the processor is left to others for longer: who waits for a process on the same processor takes
/// its time.
const LOOKS: u32 = 3;
const REST: Duration = Duration::from_micros(20);
/// The same while much is on its way: a look takes from the time of those who have work.
const REST_IN_BULK: Duration = Duration::from_micros(120);
/// A rest becomes as long as this part of all before it, up to the longest: who waits for long, for a process that computes
/// still, takes hardly any processor time, and what comes at last is late by no more than that part.
const REST_PART: u32 = 16;
const REST_MAX: Duration = Duration::from_millis(20);

const VERSION: u32 = 2;

type Send = extern "C" fn(*mut c_void, u32, *const c_void, usize, *mut *mut c_void) -> c_int;
type Test = extern "C" fn(*mut c_void, usize, *const *mut c_void, *mut u8) -> c_int;
type Probe = extern "C" fn(*mut c_void, *mut u32, *mut usize) -> c_int;
type Receive = extern "C" fn(*mut c_void, u32, *mut c_void, usize, *mut *mut c_void) -> c_int;
type Quiescent = extern "C" fn(*mut c_void, *mut c_char, usize) -> c_int;

/// Room for what is said about messages under way.
const WORDS_BYTES: usize = 512;

/// `standfast_transport`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Table {
    size: usize,
    version: u32,
    rank: u32,
    ranks: u32,
    context: *mut c_void,
    send: Option<Send>,
    test: Option<Test>,
    probe: Option<Probe>,
    receive: Option<Receive>,
    quiescent: Option<Quiescent>,
}

impl Table {
    /// Which process this is.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// What of the program's messages is under way, in words, where the program counts them. Collective.
    pub(crate) fn under_way(&self) -> Result<Option<String>, String> {
        let Some(quiescent) = self.quiescent else { return Ok(None) };
        let mut words = [0_u8; WORDS_BYTES];
        let answer = quiescent(self.context, words.as_mut_ptr().cast(), WORDS_BYTES);
        let said = CStr::from_bytes_until_nul(&words).unwrap_or_default().to_string_lossy();
        match answer {
            0 => Ok(Some(said.into_owned())),
            1 => Ok(None),
            _ if said.is_empty() => Err("messages under way cannot be counted".into()),
            _ => Err(said.into_owned()),
        }
    }
}

/// Messages that are being taken at once.
const ARRIVING_MAX: usize = 16;
/// `STANDFAST_REQUESTS`: so many are looked at at once. Each look costs a walk over all connections.
const LOOKED_AT_MAX: usize = 64;

/// A message on its way, to or from a process.
#[derive(Debug)]
struct OnItsWay {
    peer: u32,
    request: *mut c_void,
    bytes: Vec<u8>,
    /// The request is gone then.
    is_done: bool,
}

impl OnItsWay {
    fn new(peer: u32, request: *mut c_void, bytes: Vec<u8>) -> Self {
        Self { peer, request, bytes, is_done: false }
    }
}

/// One process's end of the program's messages.
#[derive(Debug)]
pub(crate) struct Line {
    rank: u32,
    ranks: u32,
    context: *mut c_void,
    functions: (Send, Test, Probe, Receive),
    sending: VecDeque<OnItsWay>,
    arriving: VecDeque<OnItsWay>,
    buffers: Buffers,
    looks: u32,
    /// Since the last message that came.
    rested: Duration,
    pulse: Pulse,
}

impl Line {
    /// Checks the table.
    pub(crate) fn new(table: &Table, pulse: Pulse) -> Result<Self, String> {
        if table.size != size_of::<Table>() || table.version != VERSION {
            return Err(format!(
                "the program was compiled with another version of standfast_group.h ({}, {} bytes) than this library's \
                 ({VERSION}, {} bytes): compile it again",
                table.version,
                table.size,
                size_of::<Table>()
            ));
        }
        let (Some(send), Some(test), Some(probe), Some(receive)) = (table.send, table.test, table.probe, table.receive)
        else {
            return Err("the transport lacks a function".into());
        };
        if table.rank >= table.ranks {
            return Err(format!("there is no process {} among {}", table.rank, table.ranks));
        }
        Ok(Self {
            rank: table.rank,
            ranks: table.ranks,
            context: table.context,
            functions: (send, test, probe, receive),
            sending: VecDeque::new(),
            arriving: VecDeque::new(),
            buffers: Buffers::default(),
            looks: 0,
            rested: Duration::ZERO,
            pulse,
        })
    }

    /// Sees what is done of all that is on its way, and forgets what has been sent. The oldest are done first, mostly.
    fn look(&mut self) -> Result<(), TransportError> {
        let (mut requests, mut done) = ([std::ptr::null_mut(); LOOKED_AT_MAX], [0; LOOKED_AT_MAX]);
        let mut count = 0;
        let under_way = self.arriving.iter().chain(&self.sending).filter(|it| !it.is_done);
        for (request, it) in requests.iter_mut().zip(under_way) {
            *request = it.request;
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        if (self.functions.1)(self.context, count, requests.as_ptr(), done.as_mut_ptr()) != 0 {
            return Err(TransportError("a message cannot be sent or received".into()));
        }
        let under_way = self.arriving.iter_mut().chain(&mut self.sending).filter(|it| !it.is_done);
        done[..count].iter().zip(under_way).for_each(|(done, it)| it.is_done = *done != 0);
        while let Some(sent) = self.sending.pop_front_if(|it| it.is_done) {
            self.buffers.put(sent.bytes);
        }
        Ok(())
    }

    /// Begins to take a message; says whether there was one.
    fn begin_one(&mut self) -> Result<bool, TransportError> {
        let (mut peer, mut length) = (0, 0);
        match (self.functions.2)(self.context, &raw mut peer, &raw mut length) {
            0 => return Ok(false),
            1 => {}
            _ => return Err(TransportError("messages cannot be looked for".into())),
        }
        let mut bytes = self.buffers.take(length);
        let mut request = std::ptr::null_mut();
        if (self.functions.3)(self.context, peer, bytes.as_mut_ptr().cast(), length, &raw mut request) != 0 {
            return Err(TransportError(format!("a message of process {peer} cannot be received")));
        }
        self.arriving.push_back(OnItsWay::new(peer, request, bytes));
        Ok(true)
    }

    /// A message that is there, and none before the last one of the same process.
    fn arrived(&mut self) -> Option<(u32, Vec<u8>)> {
        let is_first = |at: usize| !self.arriving.range(..at).any(|before| before.peer == self.arriving[at].peer);
        let at = (0..self.arriving.len()).find(|at| self.arriving[*at].is_done && is_first(*at))?;
        self.arriving.remove(at).map(|arrived| (arrived.peer, arrived.bytes))
    }
}

impl Transport for Line {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<(), TransportError> {
        let mut request = std::ptr::null_mut();
        if (self.functions.0)(self.context, to, bytes.as_ptr().cast(), bytes.len(), &raw mut request) != 0 {
            return Err(TransportError(format!("nothing can be sent to process {to}")));
        }
        self.sending.push_back(OnItsWay::new(to, request, bytes));
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<(u32, Vec<u8>)>, TransportError> {
        let mut arrived = self.arrived();
        if arrived.is_none() {
            while self.arriving.len() < ARRIVING_MAX && self.begin_one()? {}
            self.look()?;
            arrived = self.arrived();
        }
        if arrived.is_some() {
            (self.looks, self.rested) = (0, Duration::ZERO);
            self.pulse.beat();
        }
        Ok(arrived)
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

impl Drop for Line {
    /// Waits for what is still on its way; what cannot be waited for keeps its bytes for good.
    fn drop(&mut self) {
        let is_under_way = |line: &Self| line.arriving.iter().chain(&line.sending).any(|it| !it.is_done);
        while self.look().is_ok() && is_under_way(self) && !std::thread::panicking() {
            std::thread::yield_now();
        }
        let left = self.arriving.drain(..).chain(self.sending.drain(..)).filter(|it| !it.is_done);
        left.for_each(|it| std::mem::forget(it.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    extern "C" fn send(_: *mut c_void, _: u32, _: *const c_void, _: usize, _: *mut *mut c_void) -> c_int {
        0
    }
    extern "C" fn test(_: *mut c_void, _: usize, _: *const *mut c_void, _: *mut u8) -> c_int {
        0
    }
    extern "C" fn probe(_: *mut c_void, _: *mut u32, _: *mut usize) -> c_int {
        0
    }
    extern "C" fn receive(_: *mut c_void, _: u32, _: *mut c_void, _: usize, _: *mut *mut c_void) -> c_int {
        0
    }

    /// What of a connection is to come: messages as sender and request, and the requests that are done.
    #[derive(Default)]
    struct Connection {
        to_come: VecDeque<(u32, usize)>,
        done: Vec<usize>,
        looks: usize,
    }

    impl Connection {
        /// # Safety
        /// The tests below hand out no other context.
        unsafe fn of<'c>(context: *mut c_void) -> &'c mut Self {
            // SAFETY: as the caller promises, and one call comes after the other.
            unsafe { &mut *context.cast() }
        }
    }

    extern "C" fn next(context: *mut c_void, from: *mut u32, length: *mut usize) -> c_int {
        // SAFETY: it is one, and these are the caller's own.
        let (connection, from, length) = unsafe { (Connection::of(context), &mut *from, &mut *length) };
        let Some((sender, _)) = connection.to_come.front() else { return 0 };
        (*from, *length) = (*sender, 8);
        1
    }
    extern "C" fn take(context: *mut c_void, _: u32, _: *mut c_void, _: usize, request: *mut *mut c_void) -> c_int {
        // SAFETY: as above.
        let (connection, request) = unsafe { (Connection::of(context), &mut *request) };
        let (_, number) = connection.to_come.pop_front().expect("it has been told of");
        *request = std::ptr::without_provenance_mut(number);
        0
    }
    extern "C" fn look(context: *mut c_void, count: usize, requests: *const *mut c_void, done: *mut u8) -> c_int {
        // SAFETY: as above, and both are as long as they are said to be.
        let (connection, requests, done) = unsafe {
            let requests = std::slice::from_raw_parts(requests, count);
            (Connection::of(context), requests, std::slice::from_raw_parts_mut(done, count))
        };
        connection.looks += 1;
        for (request, done) in requests.iter().zip(done) {
            *done = connection.done.contains(&request.addr()).into();
        }
        0
    }

    #[test]
    fn a_message_waits_for_those_of_its_sender_before_it_and_for_no_other() {
        let to_come = [(1, 10), (1, 11), (2, 20)].into();
        let mut connection = Connection { to_come, done: vec![11, 20], looks: 0 };
        let context = (&raw mut connection).cast();
        let table = Table { context, test: Some(look), probe: Some(next), receive: Some(take), ..table() };
        let mut line = Line::new(&table, Pulse::new()).unwrap();
        let mut sender = || line.receive().unwrap().map(|(from, bytes)| (from, bytes.len()));
        assert_eq!([sender(), sender()], [Some((2, 8)), None]);
        // SAFETY: the line does not look meanwhile.
        unsafe { Connection::of(context) }.done.push(10);
        assert_eq!([sender(), sender(), sender()], [Some((1, 8)), Some((1, 8)), None]);
        drop(line);
        // One look for all of them, none for what is known to be there, and none where nothing is under way.
        assert_eq!(connection.looks, 3);
    }

    fn table() -> Table {
        Table {
            size: size_of::<Table>(),
            version: VERSION,
            rank: 1,
            ranks: 2,
            context: null_mut(),
            send: Some(send),
            test: Some(test),
            probe: Some(probe),
            receive: Some(receive),
            quiescent: None,
        }
    }

    #[test]
    fn a_program_of_another_header_is_refused_by_name() {
        let refused = |table: Table| Line::new(&table, Pulse::new()).err().unwrap_or_default();
        assert_eq!(refused(table()), "");
        assert!(refused(Table { version: VERSION + 1, ..table() }).contains("compile it again"));
        assert!(refused(Table { size: 8, ..table() }).contains("compile it again"));
        assert!(refused(Table { probe: None, ..table() }).contains("lacks a function"));
        assert!(refused(Table { rank: 2, ..table() }).contains("no process 2 among 2"));
    }
}
