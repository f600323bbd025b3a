//! The supervisor's side of the control socket. It is part of the event loop, so nothing here ever waits.

use super::protocol::{LINE_BYTES_MAX, Reply, Request, decode, encode};
use super::{SOCKET_NAME, SocketPlace, is_trusted};
use rustix::event::{PollFd, PollFlags};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Most clients served at the same time. They are people and scripts; more than a few would be a runaway loop.
const CLIENTS_MAX: usize = 16;

/// Time for a client to send its request.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Longest message in a refusal. The reply stays below the limit of a line however the message is escaped.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// Identifies a client as long as it waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientId(u64);

#[cfg(test)]
impl ClientId {
    /// Makes the id of a client that does not exist.
    pub(crate) fn imagined(number: u64) -> Self {
        Self(number)
    }
}

/// The listening socket and its clients.
pub(crate) struct ControlSocket {
    place: SocketPlace,
    /// The listener; `None` once no more clients are accepted.
    listener: Option<UnixListener>,
    clients: Vec<Client>,
    next: u64,
}

struct Client {
    id: ClientId,
    stream: UnixStream,
    received: Vec<u8>,
    /// What came behind the request: the beginning of a conversation.
    rest: Vec<u8>,
    connected: Instant,
    has_asked: bool,
}

impl ControlSocket {
    /// Listens in `directory`. The caller holds the job's lease, so an existing socket belongs to a dead supervisor.
    pub(crate) fn bind(directory: &Path) -> io::Result<Self> {
        let place = SocketPlace::open(directory, SOCKET_NAME)?;
        let listener = place.listen()?;
        Ok(Self { place, listener: Some(listener), clients: Vec::new(), next: 0 })
    }

    /// Returns what to poll: the listener and all clients that have not sent their request.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let asking = self.clients.iter().filter(|client| !client.has_asked);
        let clients = asking.map(|client| PollFd::new(&client.stream, PollFlags::IN));
        let accepts = self.clients.len() < CLIENTS_MAX;
        let listener =
            self.listener.iter().filter(move |_| accepts).map(|listener| PollFd::new(listener, PollFlags::IN));
        listener.chain(clients)
    }

    /// Returns when the time of the next client for sending its request is over.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.clients.iter().filter(|client| !client.has_asked).map(|client| client.connected + SILENCE_MAX).min()
    }

    /// Accepts new clients, reads their data and returns complete requests. Clients that send an invalid message get an
    /// error; clients that send nothing are dropped.
    pub(crate) fn take_requests(&mut self, now: Instant) -> Vec<(ClientId, Request)> {
        self.accept(now);
        let mut requests = Vec::new();
        let mut refusals = Vec::new();
        self.clients.retain_mut(|client| {
            if client.has_asked {
                return true;
            }
            match client.read_line() {
                Progress::Line => {
                    client.has_asked = true;
                    match decode(&client.received) {
                        Ok(request) => requests.push((client.id, request)),
                        Err(error) => refusals.push((client.id, error.to_string())),
                    }
                    true
                }
                Progress::More => now < client.connected + SILENCE_MAX,
                Progress::Gone => false,
            }
        });
        for (client, message) in refusals {
            self.answer(client, &Reply::Failed { message });
        }
        requests
    }

    /// Returns another descriptor of a client's connection, on which calls block, and what the client has said behind its
    /// request. The client is answered as usual in the end.
    pub(crate) fn conversation(&mut self, id: ClientId) -> io::Result<(UnixStream, Vec<u8>)> {
        let client = self.clients.iter_mut().find(|client| client.id == id).ok_or(ErrorKind::NotConnected)?;
        client.stream.set_nonblocking(false)?;
        Ok((client.stream.try_clone()?, std::mem::take(&mut client.rest)))
    }

    /// Answers a client and closes its connection. Ignores clients that are gone.
    pub(crate) fn answer(&mut self, id: ClientId, reply: &Reply) {
        let Some(position) = self.clients.iter().position(|client| client.id == id) else { return };
        let mut client = self.clients.swap_remove(position);
        let line = match reply {
            Reply::Failed { message } => encode(Reply::Failed { message: shortened(message) }),
            whole => encode(whole),
        };
        // The line fits into an empty socket buffer, so this does not wait. A client that is gone needs no answer.
        drop(client.stream.write_all(&line));
    }

    /// Stops accepting clients and removes the socket's name, which the job's next supervisor will use. Waiting clients
    /// can still be answered. Call it before the lease is released.
    pub(crate) fn close(&mut self) {
        if self.listener.take().is_some() {
            // The next supervisor removes the name if this fails.
            drop(self.place.remove());
        }
    }

    fn accept(&mut self, now: Instant) {
        while self.clients.len() < CLIENTS_MAX {
            let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else { return };
            let is_welcome = is_trusted(&stream).unwrap_or(false) && stream.set_nonblocking(true).is_ok();
            if is_welcome {
                let id = ClientId(self.next);
                self.next += 1;
                let (received, rest) = Default::default();
                self.clients.push(Client { id, stream, received, rest, connected: now, has_asked: false });
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.close();
    }
}

fn shortened(message: &str) -> String {
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
    message[..end].to_owned()
}

enum Progress {
    Line,
    More,
    Gone,
}

impl Client {
    fn read_line(&mut self) -> Progress {
        let mut piece = [0; 4096];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Progress::Gone,
                Ok(length) => {
                    self.received.extend_from_slice(&piece[..length]);
                    if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                        self.rest = self.received.split_off(end + 1);
                        return Progress::Line;
                    }
                    if self.received.len() > LINE_BYTES_MAX {
                        return Progress::Gone;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::More,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Progress::Gone,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::{ControlError, ask};
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Serves until `count` requests have been answered with `answer`.
    fn serve(socket: &mut ControlSocket, count: usize, answer: &Reply) -> Vec<Request> {
        let mut seen = Vec::new();
        while seen.len() < count {
            let mut fds: Vec<_> = socket.poll_fds().collect();
            rustix::event::poll(&mut fds, None).unwrap();
            drop(fds);
            for (client, request) in socket.take_requests(Instant::now()) {
                socket.answer(client, answer);
                seen.push(request);
            }
        }
        seen
    }

    #[test]
    fn a_request_is_answered_even_in_a_directory_with_a_long_name() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("long".repeat(50));
        std::fs::create_dir(&directory).unwrap();
        let mut socket = ControlSocket::bind(&directory).unwrap();
        let answer = Reply::Failed { message: "no space left: remove something".into() };
        let asked = std::thread::scope(|scope| {
            let client = scope.spawn(|| ask(&directory, Request::Checkpoint { stop: true }));
            let seen = serve(&mut socket, 1, &answer);
            assert_eq!(client.join().unwrap().unwrap(), answer);
            seen
        });
        assert_eq!(asked, [Request::Checkpoint { stop: true }]);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_the_own_one_removed_on_drop() {
        let scratch = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(scratch.path().join(SOCKET_NAME)).unwrap());
        assert!(matches!(ask(scratch.path(), Request::Status), Err(ControlError::Nobody)));
        let socket = ControlSocket::bind(scratch.path()).unwrap();
        let mode = std::fs::metadata(scratch.path().join(SOCKET_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(socket);
        assert!(!scratch.path().join(SOCKET_NAME).exists());
    }

    #[test]
    fn a_user_file_at_the_place_of_the_socket_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join(SOCKET_NAME);
        std::fs::write(&file, "theirs").unwrap();
        assert!(ControlSocket::bind(scratch.path()).is_err());
        assert_eq!(std::fs::read_to_string(file).unwrap(), "theirs");
    }

    #[test]
    fn a_silent_client_is_dropped_and_a_malformed_request_answered() {
        let scratch = tempfile::tempdir().unwrap();
        let mut socket = ControlSocket::bind(scratch.path()).unwrap();
        let mut silent = UnixStream::connect(scratch.path().join(SOCKET_NAME)).unwrap();
        let mut noisy = UnixStream::connect(scratch.path().join(SOCKET_NAME)).unwrap();
        noisy.write_all(b"hello\n").unwrap();
        let now = Instant::now();
        assert_eq!(socket.take_requests(now), []);
        let mut told = String::new();
        noisy.read_to_string(&mut told).unwrap();
        assert!(told.contains("does not use the control protocol"), "{told}");
        assert_eq!(socket.deadline(), Some(now + SILENCE_MAX));
        socket.take_requests(now + SILENCE_MAX);
        assert_eq!(silent.read(&mut [0]).unwrap(), 0, "hung up");
    }

    #[test]
    fn waiting_clients_are_answered_after_the_socket_is_closed() {
        let scratch = tempfile::tempdir().unwrap();
        let mut socket = ControlSocket::bind(scratch.path()).unwrap();
        let mut client = UnixStream::connect(scratch.path().join(SOCKET_NAME)).unwrap();
        client.write_all(&encode(Request::Checkpoint { stop: true })).unwrap();
        let [(id, _)] = socket.take_requests(Instant::now())[..] else { panic!("one has asked") };
        socket.close();
        let next = ControlSocket::bind(scratch.path()).unwrap();
        socket.answer(id, &Reply::Noted);
        drop(socket);
        let mut told = Vec::new();
        client.read_to_end(&mut told).unwrap();
        assert_eq!(decode(&told), Ok(Reply::Noted));
        assert!(scratch.path().join(SOCKET_NAME).exists(), "it is the next one's");
        drop(next);
    }

    #[test]
    fn no_more_than_the_maximum_of_clients_are_accepted() {
        let scratch = tempfile::tempdir().unwrap();
        let mut socket = ControlSocket::bind(scratch.path()).unwrap();
        let connect = || UnixStream::connect(scratch.path().join(SOCKET_NAME)).unwrap();
        let _crowd: Vec<_> = std::iter::repeat_with(connect).take(CLIENTS_MAX + 2).collect();
        socket.take_requests(Instant::now());
        assert_eq!(socket.clients.len(), CLIENTS_MAX);
    }
}
