//! The first bytes of a connection between two parts: the end that connects proves that it belongs to this restart, and
//! says which connection it is, since it may have had to take another port.

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
const PAUSE: Duration = Duration::from_micros(200);

/// Sends the greeting of the end that has connected. `addresses` are those that it had.
pub(super) fn greet(own: BorrowedFd<'_>, token: RestartToken, addresses: EndAddresses) -> io::Result<()> {
    let greeting = [&token.0[..], &encode(addresses.local), &encode(addresses.remote)].concat();
    match socket::send(own, &greeting, &[], &[])? {
        sent if sent == greeting.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Waits for the greeting of the other end, and returns the addresses that it had. Returns `None` for a stranger.
pub(super) fn await_greeting(own: BorrowedFd<'_>, token: RestartToken) -> io::Result<Option<EndAddresses>> {
    let deadline = Instant::now() + SILENCE_MAX;
    let mut greeting = [0; GREETING_BYTES];
    let mut length = 0;
    while length < GREETING_BYTES {
        match socket::receive_at_once(own, &mut greeting[length..]) {
            Ok(0) => return Ok(None),
            Ok(bytes) => length += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                if descriptors::ready_events(own, abi::POLLIN)? == 0 {
                    std::thread::sleep(PAUSE);
                }
            }
            Err(_) => return Ok(None),
        }
        let so_far = length.min(TOKEN_BYTES);
        if greeting[..so_far] != token.0[..so_far] {
            return Ok(None);
        }
    }
    let (local, remote) = greeting[TOKEN_BYTES..].split_at(ENDPOINT_BYTES);
    Ok(Some(EndAddresses { local: decode(local), remote: decode(remote) }))
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
