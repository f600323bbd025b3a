//! The kernel's directory of sockets (sock_diag(7)): requests, and the parts of the answers common to all families.

use crate::proc::{Endpoint, TcpConnection};
use crate::sys::socket;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const REQUEST_ONE: u16 = 1;
const HEADER_BYTES: usize = 16;
/// The kernel's messages are no longer than this.
const BUFFER_BYTES: usize = 1 << 16;
/// `struct inet_diag_msg`: its length, and the offsets of the state, the ports and addresses of both ends, the bytes that have
/// not been acknowledged, and the inode.
const INET_MESSAGE_BYTES: usize = 72;
const INET_STATE: usize = 1;
const INET_OWN_PORT: usize = 4;
const INET_PEER_PORT: usize = 6;
const INET_OWN: usize = 8;
const INET_PEER: usize = 24;
const INET_UNSENT: usize = 60;
const INET_INODE: usize = 68;
/// The state of a UDP socket that is connected (TCP_ESTABLISHED).
const CONNECTED: u8 = 1;
const INET_DIAG_SHUTDOWN: u16 = 8;
/// `struct inet_diag_req_v2`: its length, and a cookie that means any socket.
const INET_REQUEST_BYTES: usize = 56;
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// Asks for sockets, and calls `each` with the body of each message of the answer.
///
/// # Errors
/// When the kernel reports an error.
pub(crate) fn dump(request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let directory = ask(REQUEST_DUMP, request)?;
    let mut buffer = vec![0u8; BUFFER_BYTES];
    loop {
        let bytes = socket::receive(directory.as_fd(), &mut buffer)?;
        if parse(&buffer[..bytes], &mut each)? {
            return Ok(());
        }
    }
}

/// Sends a request. Returns the socket that gets the answer.
fn ask(flags: u16, request: &[u8]) -> io::Result<OwnedFd> {
    let directory = socket::directory()?;
    // struct nlmsghdr: length, type, flags, sequence, port.
    let mut message = Vec::new();
    message.extend(((HEADER_BYTES + request.len()) as u32).to_le_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_le_bytes());
    message.extend(flags.to_le_bytes());
    message.extend([0; 8]);
    message.extend(request);
    socket::send(directory.as_fd(), &message, &[], &[])?;
    Ok(directory)
}

/// Parses some messages of an answer. Returns whether the last one was among them.
fn parse(mut messages: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    while messages.len() >= HEADER_BYTES {
        let (length, kind) = (word(messages, 0).unwrap_or_default(), half(messages, 4).unwrap_or_default());
        let length = (length as usize).clamp(HEADER_BYTES, messages.len());
        let body = &messages[HEADER_BYTES..length];
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let error = word(body, 0).unwrap_or_default() as i32;
                return Err(io::Error::from_raw_os_error(-error));
            }
            _ => each(body),
        }
        messages = &messages[length.next_multiple_of(4).min(messages.len())..];
    }
    Ok(false)
}

/// Returns the attributes after the fixed part of a message: kind and value.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = half(rest, 0).zip(half(rest, 2))?;
        let length = (length as usize).clamp(4, rest.len());
        let value = &rest[4..length];
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        Some((kind, value))
    })
}

/// What the kernel reports about a UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpSocket {
    /// Which directions are shut down: 1 receiving, 2 sending.
    pub shut_down: Option<u8>,
    /// Its peer, if it is connected.
    pub peer: Option<Endpoint>,
}

impl UdpSocket {
    /// Returns the UDP sockets of this network namespace, by inode.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn all() -> io::Result<HashMap<u64, Self>> {
        let mut found = HashMap::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut request = inet_request(family, libc::IPPROTO_UDP);
            request.resize(INET_REQUEST_BYTES, 0);
            dump(&request, |body| {
                found.extend(word(body, INET_INODE).map(|inode| (inode.into(), Self::parse(body, family))));
            })?;
        }
        Ok(found)
    }

    fn parse(body: &[u8], family: i32) -> Self {
        let mut attributes = attributes(body.get(INET_MESSAGE_BYTES..).unwrap_or_default());
        let shut_down = attributes.find(|(kind, _)| *kind == INET_DIAG_SHUTDOWN).and_then(|(_, value)| value.first());
        let is_connected = body.get(INET_STATE) == Some(&CONNECTED);
        let peer = || endpoint(body, family, INET_PEER, INET_PEER_PORT);
        Self { shut_down: shut_down.copied(), peer: if is_connected { peer() } else { None } }
    }
}

impl TcpConnection {
    /// Returns the connection with these ends, seen from the first one. Unlike [`TcpConnection::all`] it takes no longer if
    /// there are many. It does not find connections whose socket is bound to a device, and finds none where the kernel
    /// lacks its directory of TCP sockets (CONFIG_INET_TCP_DIAG).
    ///
    /// # Errors
    /// When the kernel reports another error.
    pub fn between(local: Endpoint, remote: Endpoint) -> io::Result<Option<Self>> {
        let family = if local.address.is_ipv4() && remote.address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // struct inet_diag_sockid: both ports, both addresses, device, cookie.
        let mut request = inet_request(family, libc::IPPROTO_TCP);
        request.extend([local, remote].iter().flat_map(|end| end.port.to_be_bytes()));
        request.extend([local, remote].iter().flat_map(|end| address_bytes(end.address, family)));
        request.extend([0; 4]);
        request.extend(NO_COOKIE);
        let directory = ask(REQUEST_ONE, &request)?;
        let mut buffer = vec![0u8; BUFFER_BYTES];
        let bytes = socket::receive(directory.as_fd(), &mut buffer)?;
        let mut found = None;
        match parse(&buffer[..bytes], &mut |body| found = Self::of_message(body)) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            // A listener may be found in its place.
            parsed => parsed.map(|_| found.filter(|it| (it.local, it.remote) == (local, remote))),
        }
    }

    fn of_message(body: &[u8]) -> Option<Self> {
        let family = i32::from(*body.first()?);
        Some(Self {
            local: endpoint(body, family, INET_OWN, INET_OWN_PORT)?,
            remote: endpoint(body, family, INET_PEER, INET_PEER_PORT)?,
            state: *body.get(INET_STATE)?,
            unsent: word(body, INET_UNSENT)?.into(),
            inode: word(body, INET_INODE)?.into(),
        })
    }
}

/// Returns the beginning of a `struct inet_diag_req_v2`: family, protocol, extensions, padding, states. The identity of one
/// socket follows.
fn inet_request(family: i32, protocol: i32) -> Vec<u8> {
    let mut request = vec![family as u8, protocol as u8, 0, 0];
    request.extend(u32::MAX.to_le_bytes());
    request
}

fn address_bytes(address: IpAddr, family: i32) -> [u8; 16] {
    match address {
        IpAddr::V4(four) if family == libc::AF_INET => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&four.octets());
            bytes
        }
        IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
        IpAddr::V6(six) => six.octets(),
    }
}

/// Returns one end of the socket that a `struct inet_diag_msg` describes.
fn endpoint(body: &[u8], family: i32, address: usize, port: usize) -> Option<Endpoint> {
    let port = u16::from_be_bytes(body.get(port..port + 2)?.try_into().ok()?);
    let address = body.get(address..address + 16)?;
    let address = match family {
        libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(&address[..4]).ok()?),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).to_canonical(),
    };
    Some(Endpoint { address, port })
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_connection_is_found_as_it_stands_in_the_table_of_all() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let end =
                |address: std::net::SocketAddr| Endpoint { address: address.ip().to_canonical(), port: address.port() };
            let (own, other) = (end(client.local_addr().unwrap()), end(client.peer_addr().unwrap()));
            let accepted = listener.accept().unwrap().0;
            let both = [(own, other), (other, own)];
            let by_table = |(local, remote)| {
                let all = TcpConnection::all().unwrap();
                all.into_iter().find(|it| (it.local, it.remote) == (local, remote))
            };
            for (local, remote) in both {
                let found = TcpConnection::between(local, remote).unwrap();
                assert!(found.is_some_and(|it| it.inode != 0), "{address}");
                assert_eq!(found, by_table((local, remote)), "{address}");
            }
            let nobody = Endpoint { port: 1, ..own };
            assert_eq!(TcpConnection::between(other, nobody).unwrap(), None, "a listener is no connection");
            // What the other end never reads stays unsent when this end is closed.
            client.set_nonblocking(true).unwrap();
            while std::io::Write::write(&mut client, &[0; 1 << 16]).is_ok() {}
            drop(client);
            let closing = TcpConnection::between(own, other).unwrap().unwrap();
            assert!(closing.inode == 0 && closing.unsent > 0, "{closing:?}");
            drop(accepted);
        }
    }

    #[test]
    fn truncated_messages_are_skipped() {
        for length in 0..40u8 {
            let message = [length, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 9, 0, 0, 0];
            let cut = &message[..usize::from(length).min(message.len())];
            let is_last = parse(cut, &mut |body: &[u8]| assert!(attributes(body).count() <= 2));
            assert!(!is_last.unwrap());
        }
    }

    #[test]
    fn shut_down_directions_of_udp_sockets_are_read() {
        let inode =
            |socket: &OwnedFd| std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino();
        let bound = || OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let (open, shut) = (bound(), bound());
        // It is not connected, so the kernel returns an error, but shuts it down nevertheless.
        assert!(socket::shut_down(shut.as_fd(), libc::SHUT_WR).is_err());
        let told = UdpSocket::all().unwrap();
        let shut_down = |socket| told.get(&inode(socket)).and_then(|it| it.shut_down);
        assert_eq!((shut_down(&open), shut_down(&shut)), (Some(0), Some(2)));
    }

    #[test]
    fn a_peer_without_a_port_is_read() {
        let inode =
            |socket: &OwnedFd| std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino();
        for (family, own, address) in [
            (libc::AF_INET, "127.0.0.1:0", IpAddr::from([127, 0, 0, 9])),
            (libc::AF_INET6, "[::1]:0", IpAddr::from(Ipv6Addr::LOCALHOST)),
        ] {
            let Ok(made) = std::net::UdpSocket::bind(own).map(OwnedFd::from) else { continue };
            assert_eq!(UdpSocket::all().unwrap()[&inode(&made)].peer, None);
            let peer = Endpoint { address, port: 0 };
            socket::connect(made.as_fd(), &peer.to_address(family)).unwrap();
            assert_eq!(UdpSocket::all().unwrap()[&inode(&made)].peer, Some(peer));
        }
    }
}
