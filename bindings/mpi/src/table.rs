//! The table of C functions that carry messages, as the program passes it, and calls of them.
//!
//! # Safety
//! The functions follow the header as long as the context lives, which is until the program ends. Callers keep the bytes
//! of a request in place until it has ended.

use standfast_member::TransportError;
use std::ffi::{CStr, c_char, c_int, c_void};

const VERSION: u32 = 3;
/// `STANDFAST_REQUESTS`: most requests polled at once. Each poll costs a walk over all connections.
pub(crate) const LOOKED_AT_MAX: usize = 64;
/// `STANDFAST_ANYBODY`.
const ANYBODY: u32 = u32::MAX;
/// Size of the text about messages in flight.
const WORDS_BYTES: usize = 512;

type Send = extern "C" fn(*mut c_void, u32, u32, *const c_void, usize, *mut *mut c_void) -> c_int;
type Receive = extern "C" fn(*mut c_void, u32, u32, *mut c_void, usize, *mut *mut c_void) -> c_int;
type Cancel = extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Test = extern "C" fn(*mut c_void, usize, *const *mut c_void, *mut Ended) -> c_int;
type Quiescent = extern "C" fn(*mut c_void, *mut c_char, usize) -> c_int;

/// `standfast_transport`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CallTable {
    pub(crate) size: usize,
    pub(crate) version: u32,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) context: *mut c_void,
    pub(crate) send: Option<Send>,
    pub(crate) receive: Option<Receive>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) test: Option<Test>,
    pub(crate) quiescent: Option<Quiescent>,
}

/// `standfast_ended`: the result of a request.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Ended {
    pub(crate) how: c_int,
    pub(crate) from: u32,
    pub(crate) length: usize,
}

impl Ended {
    /// `STANDFAST_UNDER_WAY`.
    pub(crate) const UNDER_WAY: c_int = 0;
    /// `STANDFAST_DONE`.
    pub(crate) const DONE: c_int = 1;
    /// `STANDFAST_CANCELLED`.
    pub(crate) const CANCELLED: c_int = 2;
}

/// `enum standfast_channel`: messages keep their order within one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Channel {
    /// For receives from any process.
    Messages = 0,
    /// For bodies that were announced.
    Bodies = 1,
}

/// An operation in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request(*mut c_void);

/// The functions, all of them present.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    context: *mut c_void,
    send: Send,
    receive: Receive,
    cancel: Cancel,
    test: Test,
}

impl CallTable {
    /// Checks that the table is the one that this library expects.
    pub(crate) fn calls(&self) -> Result<Calls, String> {
        if self.size != size_of::<Self>() || self.version != VERSION {
            return Err(format!(
                "the program was compiled with another version of standfast_group.h ({}, {} bytes) than this library's \
                 ({VERSION}, {} bytes): compile it again",
                self.version,
                self.size,
                size_of::<Self>()
            ));
        }
        let (Some(send), Some(receive), Some(cancel), Some(test)) = (self.send, self.receive, self.cancel, self.test)
        else {
            return Err("the transport lacks a function".into());
        };
        if self.rank >= self.ranks {
            return Err(format!("there is no process {} among {}", self.rank, self.ranks));
        }
        Ok(Calls { context: self.context, send, receive, cancel, test })
    }

    /// Returns the rank of this process.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// Describes the program's messages in flight, if the program counts them. Collective.
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

impl Calls {
    /// Begins to send these bytes.
    pub(crate) fn send(&self, to: u32, channel: Channel, bytes: &[u8]) -> Result<Request, TransportError> {
        let mut request = std::ptr::null_mut();
        match (self.send)(self.context, to, channel as u32, bytes.as_ptr().cast(), bytes.len(), &raw mut request) {
            0 => Ok(Request(request)),
            _ => Err(TransportError(format!("nothing can be sent to process {to}"))),
        }
    }

    /// Begins to receive the next message of a process, or of any process, into these bytes.
    pub(crate) fn receive(
        &self,
        from: Option<u32>,
        channel: Channel,
        into: &mut [u8],
    ) -> Result<Request, TransportError> {
        let (mut request, who) = (std::ptr::null_mut(), from.unwrap_or(ANYBODY));
        match (self.receive)(self.context, who, channel as u32, into.as_mut_ptr().cast(), into.len(), &raw mut request)
        {
            0 => Ok(Request(request)),
            _ => Err(TransportError("messages cannot be received".into())),
        }
    }

    /// Cancels a request: it ends as cancelled, or with the message that has arrived.
    pub(crate) fn cancel(&self, request: Request) -> Result<(), TransportError> {
        match (self.cancel)(self.context, request.0) {
            0 => Ok(()),
            _ => Err(TransportError("a message that was asked for cannot be given up".into())),
        }
    }

    /// Polls requests, [`LOOKED_AT_MAX`] at most, and returns their states. Requests that have ended become invalid.
    pub(crate) fn test(&self, requests: &[Request]) -> Result<[Ended; LOOKED_AT_MAX], TransportError> {
        let (mut pointers, mut ended) = ([std::ptr::null_mut(); LOOKED_AT_MAX], [Ended::default(); LOOKED_AT_MAX]);
        pointers.iter_mut().zip(requests).for_each(|(pointer, request)| *pointer = request.0);
        let count = requests.len().min(LOOKED_AT_MAX);
        match (self.test)(self.context, count, pointers.as_ptr(), ended.as_mut_ptr()) {
            0 => Ok(ended),
            _ => Err(TransportError("a message cannot be sent or received".into())),
        }
    }
}
