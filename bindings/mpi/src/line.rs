//! The transport behind a table of C functions.
//!
//! # Safety
//! The functions of the table do what the header says, for as long as the context lives, which is until the program ends.
//! Bytes that are on their way stay where they are until their request is done; where that is never known they are not given
//! back.

use crate::watchdog::Pulse;
use standfast_group::Buffers;
use standfast_member::{Transport, TransportError};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::time::Duration;

/// Looks in vain after which the processor is left to others for longer: those take about a third of a rest. Who waits
/// for a process on the same processor takes its time else.
const LOOKS: u32 = 8;
const REST: Duration = Duration::from_micros(50);
/// After so many rests they become twice as long, up to the longest: who waits for long, for a process that computes still,
/// takes hardly any processor time.
const RESTS: u32 = 32;
const REST_MAX: Duration = Duration::from_millis(20);

const VERSION: u32 = 1;

type Send = extern "C" fn(*mut c_void, u32, *const c_void, usize, *mut *mut c_void) -> c_int;
type Test = extern "C" fn(*mut c_void, *mut c_void) -> c_int;
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
        match quiescent(self.context, words.as_mut_ptr().cast(), WORDS_BYTES) {
            0 => {
                let said = CStr::from_bytes_until_nul(&words).unwrap_or_default();
                Ok(Some(said.to_string_lossy().into_owned()))
            }
            1 => Ok(None),
            _ => Err("messages under way cannot be counted".into()),
        }
    }
}

/// Messages that are being taken at once.
const ARRIVING_MAX: usize = 16;

/// A message on its way, to or from a process.
#[derive(Debug)]
struct OnItsWay {
    peer: u32,
    request: *mut c_void,
    bytes: Vec<u8>,
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
            pulse,
        })
    }

    /// Forgets what has been sent. The oldest are done first, mostly.
    fn sweep(&mut self) -> Result<(), TransportError> {
        while let Some(sending) = self.sending.front() {
            match (self.functions.1)(self.context, sending.request) {
                0 => break,
                1 => {
                    let sent = self.sending.pop_front();
                    sent.into_iter().for_each(|sent| self.buffers.put(sent.bytes));
                }
                _ => return Err(TransportError("a message cannot be sent".into())),
            }
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
        self.arriving.push_back(OnItsWay { peer, request, bytes });
        Ok(true)
    }

    /// A message that is there, and none before the last one of the same process.
    fn arrived(&mut self) -> Result<Option<(u32, Vec<u8>)>, TransportError> {
        let mut waited_for = Vec::new();
        for at in 0..self.arriving.len() {
            let arriving = &mut self.arriving[at];
            if waited_for.contains(&arriving.peer) {
                continue;
            }
            match (self.functions.1)(self.context, arriving.request) {
                0 => waited_for.push(arriving.peer),
                1 => return Ok(self.arriving.remove(at).map(|arrived| (arrived.peer, arrived.bytes))),
                _ => return Err(TransportError(format!("a message of process {} cannot be received", arriving.peer))),
            }
        }
        Ok(None)
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
        self.sending.push_back(OnItsWay { peer: to, request, bytes });
        self.sweep()
    }

    fn receive(&mut self) -> Result<Option<(u32, Vec<u8>)>, TransportError> {
        while self.arriving.len() < ARRIVING_MAX && self.begin_one()? {}
        let arrived = self.arrived()?;
        if arrived.is_some() {
            self.looks = 0;
            self.pulse.beat();
        }
        Ok(arrived)
    }

    fn buffers(&self) -> Buffers {
        self.buffers.clone()
    }

    fn idle(&mut self) {
        // Errors show at the next call.
        let _ = self.sweep();
        self.looks += 1;
        match self.looks.checked_sub(LOOKS) {
            None => std::thread::yield_now(),
            Some(rests) => std::thread::sleep(REST_MAX.min(REST * 2_u32.pow((rests / RESTS).min(10)))),
        }
    }
}

impl Drop for Line {
    /// Waits for what is still on its way; what cannot be waited for keeps its bytes for good.
    fn drop(&mut self) {
        for it in self.sending.drain(..).chain(self.arriving.drain(..)) {
            loop {
                match (self.functions.1)(self.context, it.request) {
                    0 if !std::thread::panicking() => std::thread::yield_now(),
                    1 => break,
                    _ => {
                        std::mem::forget(it.bytes);
                        break;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    extern "C" fn send(_: *mut c_void, _: u32, _: *const c_void, _: usize, _: *mut *mut c_void) -> c_int {
        0
    }
    extern "C" fn test(_: *mut c_void, _: *mut c_void) -> c_int {
        1
    }
    extern "C" fn probe(_: *mut c_void, _: *mut u32, _: *mut usize) -> c_int {
        0
    }
    extern "C" fn receive(_: *mut c_void, _: u32, _: *mut c_void, _: usize, _: *mut *mut c_void) -> c_int {
        0
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
