//! The first bytes of a connection between two parts: both ends prove that they belong to this restart, and the end that
//! connects says which connection it is, since it may have had to take another port.

use crate::partners::{EndAddresses, RestartToken};
use standfast_linux::abi;
use standfast_linux::proc::Endpoint;
use standfast_linux::sys::{descriptors, socket};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

const TOKEN_BYTES: usize = 16;
/// An IPv6 address, or an IPv4 address in that form, and a port.
const ENDPOINT_BYTES: usize = 18;
const GREETING_BYTES: usize = TOKEN_BYTES + 2 * ENDPOINT_BYTES;
/// How long a stranger may be silent. The greeting of another part follows the connection at once.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How long the answer may take: its part may be waiting for others.
const ANSWER_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_micros(200);

/// Sends the greeting of the end that has connected. `addresses` are those that it had.
pub(super) fn greet(own: BorrowedFd<'_>, token: RestartToken, addresses: EndAddresses) -> io::Result<()> {
    send(own, &[&token.0[..], &encode(addresses.local), &encode(addresses.remote)].concat())
}

/// Waits for the greeting of the other end, and returns the addresses that it had. Returns `None` for a stranger.
pub(super) fn await_greeting(own: BorrowedFd<'_>, token: RestartToken) -> io::Result<Option<EndAddresses>> {
    let mut greeting = [0; GREETING_BYTES];
    if !hears(own, token, &mut greeting, SILENCE_MAX)? {
        return Ok(None);
    }
    let (local, remote) = greeting[TOKEN_BYTES..].split_at(ENDPOINT_BYTES);
    Ok(Some(EndAddresses { local: decode(local), remote: decode(remote) }))
}

/// Sends the answer of the end that has accepted.
pub(super) fn answer(own: BorrowedFd<'_>, token: RestartToken) -> io::Result<()> {
    send(own, &token.0)
}

/// Waits for that answer.
pub(super) fn await_answer(own: BorrowedFd<'_>, token: RestartToken) -> io::Result<()> {
    match hears(own, token, &mut [0; TOKEN_BYTES], ANSWER_MAX)? {
        true => Ok(()),
        false => Err(io::Error::other("another program has answered in the place of another part")),
    }
}

fn send(own: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    match socket::send(own, bytes, &[], &[])? {
        sent if sent == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Fills `into` with what the other end sends. Returns `false` for a stranger: one that does not begin with the token, or is
/// silent.
fn hears(own: BorrowedFd<'_>, token: RestartToken, into: &mut [u8], limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    let mut length = 0;
    while length < into.len() {
        match socket::receive_at_once(own, &mut into[length..]) {
            Ok(0) => return Ok(false),
            Ok(bytes) => length += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                if descriptors::ready_events(own, abi::POLLIN)? == 0 {
                    std::thread::sleep(PAUSE);
                }
            }
            Err(_) => return Ok(false),
        }
        let so_far = length.min(TOKEN_BYTES);
        if into[..so_far] != token.0[..so_far] {
            return Ok(false);
        }
    }
    Ok(true)
}

fn encode(endpoint: Endpoint) -> [u8; ENDPOINT_BYTES] {
    let address = match endpoint.address {
        IpAddr::V4(four) => four.to_ipv6_mapped(),
        IpAddr::V6(six) => six,
    };
    let mut bytes = [0; ENDPOINT_BYTES];
    bytes[..16].copy_from_slice(&address.octets());
    bytes[16..].copy_from_slice(&endpoint.port.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Endpoint {
    let address: [u8; 16] = bytes[..16].try_into().expect("the length is fixed");
    Endpoint { address: Ipv6Addr::from(address).to_canonical(), port: u16::from_be_bytes([bytes[16], bytes[17]]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    const TOKEN: RestartToken = RestartToken([7; TOKEN_BYTES]);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        server.set_nonblocking(true).unwrap();
        (client, server)
    }

    fn endpoint(address: &str) -> Endpoint {
        let address: SocketAddr = address.parse().unwrap();
        Endpoint { address: address.ip(), port: address.port() }
    }

    #[test]
    fn a_greeting_names_the_addresses_of_old() {
        let (client, server) = pair();
        let addresses = EndAddresses { local: endpoint("10.0.0.1:4000"), remote: endpoint("[fd00::2]:80") };
        greet(client.as_fd(), TOKEN, addresses).unwrap();
        assert_eq!(await_greeting(server.as_fd(), TOKEN).unwrap(), Some(addresses));
        client.set_nonblocking(true).unwrap();
        answer(server.as_fd(), TOKEN).unwrap();
        await_answer(client.as_fd(), TOKEN).unwrap();
        answer(server.as_fd(), RestartToken([8; TOKEN_BYTES])).unwrap();
        assert!(await_answer(client.as_fd(), TOKEN).is_err());
    }

    #[test]
    fn strangers_are_known_by_their_first_byte() {
        for said in [&b"GET / HTTP/1.1"[..], b""] {
            let (mut client, server) = pair();
            client.write_all(said).unwrap();
            drop(client);
            assert_eq!(await_greeting(server.as_fd(), TOKEN).unwrap(), None);
        }
    }
}
