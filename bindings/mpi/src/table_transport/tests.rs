//! A transport over a connection under the control of these tests: they decide what arrives, and when.

use super::*;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};

/// The receives that were posted, and the messages that were sent.
#[derive(Default)]
struct Connection {
    asked: Vec<Asked>,
    sent: Vec<(u32, u32, Vec<u8>)>,
    looks: usize,
}

/// A receive; its index is its request.
struct Asked {
    from: u32,
    channel: u32,
    into: *mut u8,
    room: usize,
    matched: bool,
    ended: Option<Ended>,
}

const ANYBODY: u32 = u32::MAX;
/// Request of a message that was sent: it has ended at once.
const SENT: usize = usize::MAX;

impl Connection {
    /// A message arrives, begun or complete. The first matching receive takes it.
    fn come(&mut self, from: u32, channel: Channel, bytes: &[u8], is_whole: bool) -> usize {
        let fits = |it: &Asked| !it.matched && it.channel == channel as u32 && [from, ANYBODY].contains(&it.from);
        let at = self.asked.iter().position(|it| fits(it) && it.ended.is_none()).expect("it was asked for");
        let it = &mut self.asked[at];
        assert!(bytes.len() <= it.room);
        // SAFETY: the buffer is that long, and its owner keeps it until the request has ended.
        unsafe { std::slice::from_raw_parts_mut(it.into, bytes.len()) }.copy_from_slice(bytes);
        (it.matched, it.from, it.room) = (true, from, bytes.len());
        if is_whole {
            self.end(at);
        }
        at
    }

    fn end(&mut self, at: usize) {
        let it = &mut self.asked[at];
        it.ended = Some(Ended { how: Ended::DONE, from: it.from, length: it.room });
    }

    fn is_asked(&self) -> bool {
        self.asked.iter().any(|it| it.ended.is_none())
    }

    /// # Safety
    /// The tests below use no other context, and calls do not overlap.
    unsafe fn of<'c>(context: *mut c_void) -> &'c mut Self {
        // SAFETY: as the caller promises.
        unsafe { &mut *context.cast() }
    }
}

extern "C" fn send(
    context: *mut c_void,
    to: u32,
    channel: u32,
    bytes: *const c_void,
    length: usize,
    request: *mut *mut c_void,
) -> c_int {
    // SAFETY: all are what the header says.
    let (connection, bytes) =
        unsafe { (Connection::of(context), std::slice::from_raw_parts(bytes.cast::<u8>(), length)) };
    connection.sent.push((to, channel, bytes.to_vec()));
    // SAFETY: as above.
    unsafe { *request = without_provenance_mut(SENT) };
    0
}

extern "C" fn receive(
    context: *mut c_void,
    from: u32,
    channel: u32,
    into: *mut c_void,
    room: usize,
    request: *mut *mut c_void,
) -> c_int {
    // SAFETY: all are what the header says.
    let (connection, request) = unsafe { (Connection::of(context), &mut *request) };
    *request = without_provenance_mut(connection.asked.len());
    connection.asked.push(Asked { from, channel, into: into.cast(), room, matched: false, ended: None });
    0
}

extern "C" fn cancel(context: *mut c_void, request: *mut c_void) -> c_int {
    // SAFETY: it is one.
    let it = &mut unsafe { Connection::of(context) }.asked[request.addr()];
    if !it.matched {
        it.ended = Some(Ended { how: Ended::CANCELLED, ..Ended::default() });
    }
    0
}

extern "C" fn test(context: *mut c_void, count: usize, requests: *const *mut c_void, ended: *mut Ended) -> c_int {
    // SAFETY: both have the stated lengths.
    let (connection, requests, ended) = unsafe {
        let requests = std::slice::from_raw_parts(requests, count);
        (Connection::of(context), requests, std::slice::from_raw_parts_mut(ended, count))
    };
    connection.looks += 1;
    for (request, ended) in requests.iter().zip(ended) {
        let sent = Ended { how: Ended::DONE, ..Ended::default() };
        let found = if request.addr() == SENT { Some(sent) } else { connection.asked[request.addr()].ended };
        found.into_iter().for_each(|found| *ended = found);
    }
    0
}

extern "C" fn quiescent(_: *mut c_void, _: *mut c_char, _: usize) -> c_int {
    1
}

fn table(context: *mut c_void) -> CallTable {
    CallTable {
        size: size_of::<CallTable>(),
        version: 3,
        rank: 1,
        ranks: 4,
        context,
        send: Some(send),
        receive: Some(receive),
        cancel: Some(cancel),
        test: Some(test),
        quiescent: Some(quiescent),
    }
}

/// Returns the transport and the connection below it, which a test uses between calls of the transport.
fn transport() -> (TableTransport, impl Fn() -> &'static mut Connection) {
    let context = Box::into_raw(Box::<Connection>::default());
    let transport = TableTransport::new(&table(context.cast()), Pulse::new()).unwrap();
    // SAFETY: no other reference exists; a test's few bytes stay until it ends.
    (transport, move || unsafe { Connection::of(context.cast()) })
}

fn message(words: &str) -> Vec<u8> {
    let mut bytes = words.as_bytes().to_vec();
    assert_eq!(announcement(&mut bytes), None);
    bytes
}

fn words(transport: &mut TableTransport) -> Option<(u32, String)> {
    transport.receive().unwrap().map(|(from, bytes)| (from, String::from_utf8(bytes).unwrap()))
}

fn some(from: u32, words: &str) -> Option<(u32, String)> {
    Some((from, words.into()))
}

#[test]
fn messages_of_a_sender_arrive_in_order() {
    let (mut transport, connection) = transport();
    assert_eq!(words(&mut transport), None);
    connection().come(2, Channel::Messages, &message("one"), true);
    assert_eq!(words(&mut transport), some(2, "one"));
    assert_eq!(words(&mut transport), None);
    // The more messages arrive, the more receives are posted. The sender of the first is not known yet.
    let first = connection().come(3, Channel::Messages, &message("two"), false);
    connection().come(3, Channel::Messages, &message("three"), true);
    assert_eq!(words(&mut transport), None);
    connection().end(first);
    assert_eq!(
        [words(&mut transport), words(&mut transport), words(&mut transport)],
        [some(3, "two"), some(3, "three"), None]
    );
}

#[test]
fn a_long_message_is_announced_and_does_not_delay_other_senders() {
    let (mut transport, connection) = transport();
    let long: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    transport.send(2, long.clone()).unwrap();
    transport.send(2, b"short".to_vec()).unwrap();
    let sent = std::mem::take(&mut connection().sent);
    let channels: Vec<u32> = sent.iter().map(|(_, channel, _)| *channel).collect();
    assert_eq!(channels, [Channel::Messages, Channel::Bodies, Channel::Messages].map(|it| it as u32));
    assert_eq!(sent[1].2, long);
    // The same messages come back.
    assert_eq!(words(&mut transport), None);
    connection().come(2, Channel::Messages, &sent[0].2, true);
    assert_eq!([words(&mut transport), words(&mut transport)], [None, None]);
    connection().come(2, Channel::Messages, &sent[2].2, true);
    assert_eq!([words(&mut transport), words(&mut transport)], [None, None]);
    connection().come(3, Channel::Messages, &message("mine"), true);
    assert_eq!(words(&mut transport), some(3, "mine"));
    let body = connection().come(2, Channel::Bodies, &sent[1].2, false);
    assert_eq!(words(&mut transport), None);
    connection().end(body);
    assert_eq!(transport.receive().unwrap(), Some((2, long)));
    assert_eq!(words(&mut transport), some(2, "short"));
}

#[test]
fn a_pause_cancels_all_receives_and_loses_no_message() {
    let (mut transport, connection) = transport();
    assert_eq!(words(&mut transport), None);
    assert!(connection().is_asked());
    transport.pause().unwrap();
    assert!(!connection().is_asked());
    assert_eq!(words(&mut transport), None);
    // One message arrives just then, and one is on its way.
    connection().come(2, Channel::Messages, &message("early"), true);
    transport.pause().unwrap();
    assert_eq!(words(&mut transport), some(2, "early"));
    assert_eq!(words(&mut transport), None);
    let late = connection().come(3, Channel::Messages, &message("late"), false);
    transport.pause().unwrap();
    connection().end(late);
    assert_eq!(words(&mut transport), some(3, "late"));
    drop(transport);
    assert!(!connection().is_asked());
}

#[test]
fn one_poll_collects_all_messages_that_have_arrived() {
    let (mut transport, connection) = transport();
    (0..2).for_each(|_| assert_eq!(words(&mut transport), None));
    connection().come(2, Channel::Messages, &message("one"), true);
    assert_eq!(words(&mut transport), some(2, "one"));
    assert_eq!(words(&mut transport), None);
    for words in ["two", "three"] {
        connection().come(2, Channel::Messages, &message(words), true);
    }
    let looks = connection().looks;
    assert_eq!([words(&mut transport), words(&mut transport)], [some(2, "two"), some(2, "three")]);
    assert_eq!(connection().looks, looks + 1);
}

#[test]
fn a_message_of_unknown_kind_is_refused_with_its_sender() {
    for bytes in [&[][..], &[0], &[1, 1], &[7, 3], &[1; 9]] {
        let (mut transport, connection) = transport();
        assert_eq!(words(&mut transport), None);
        connection().come(2, Channel::Messages, bytes, true);
        let refused = transport.receive().err().map(|error| error.0).unwrap_or_default();
        assert!(refused.contains("process 2 sent a message of no known kind"), "{bytes:?}: {refused}");
    }
}

#[test]
fn a_program_built_with_another_header_is_refused() {
    let refused = |table: CallTable| TableTransport::new(&table, Pulse::new()).err().unwrap_or_default();
    let table = table(null_mut());
    assert_eq!(refused(table), "");
    assert!(refused(CallTable { version: 2, ..table }).contains("compile it again"));
    assert!(refused(CallTable { size: 8, ..table }).contains("compile it again"));
    assert!(refused(CallTable { cancel: None, ..table }).contains("lacks a function"));
    assert!(refused(CallTable { rank: 4, ..table }).contains("no process 4 among 4"));
}
