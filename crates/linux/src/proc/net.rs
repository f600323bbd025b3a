//! `/proc/net/tcp` and `udp`, and those of IPv6: the sockets of this network namespace, of all processes.

use super::{parse, parse_hex, words};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address and a port. IPv4-mapped IPv6 addresses count as IPv4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Endpoint {
    /// Address.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
}

/// The states of a TCP socket, as the kernel numbers them (include/net/tcp_states.h).
#[allow(missing_docs, reason = "RFC 9293 names them")]
pub mod tcp_state {
    pub const ESTABLISHED: u8 = 1;
    pub const SYN_SENT: u8 = 2;
    pub const FIN_WAIT_1: u8 = 4;
    pub const FIN_WAIT_2: u8 = 5;
    pub const TIME_WAIT: u8 = 6;
    pub const CLOSED: u8 = 7;
    pub const CLOSE_WAIT: u8 = 8;
    pub const LAST_ACK: u8 = 9;
    pub const LISTENING: u8 = 10;
    pub const CLOSING: u8 = 11;
}

/// One TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpConnection {
    /// This side.
    pub local: Endpoint,
    /// The other side.
    pub remote: Endpoint,
    /// State, one of [`tcp_state`].
    pub state: u8,
    /// Bytes that have been sent and not been acknowledged. The packet that ends a connection counts as one.
    pub unsent: u64,
    /// Inode of the socket; 0 for one without a holder: closed, or not accepted yet.
    pub inode: u64,
}

impl Endpoint {
    /// Parses a `struct sockaddr` of IPv4 or IPv6.
    pub fn of(address: &[u8]) -> Option<Self> {
        let family = i32::from(u16::from_le_bytes(address.get(..2)?.try_into().ok()?));
        let port = u16::from_be_bytes(address.get(2..4)?.try_into().ok()?);
        let address = match family {
            libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(address.get(4..8)?).ok()?),
            libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(address.get(8..24)?).ok()?).to_canonical(),
            _ => return None,
        };
        Some(Self { address, port })
    }

    /// Returns the `struct sockaddr` of a family, either IPv4 or IPv6; an IPv6 address has none of IPv4.
    pub fn to_address(self, family: i32) -> Vec<u8> {
        let (family_bytes, port) = ((family as u16).to_le_bytes(), self.port.to_be_bytes());
        match (family, self.address) {
            (libc::AF_INET, IpAddr::V4(four)) => [&family_bytes[..], &port, &four.octets(), &[0; 8]].concat(),
            (_, address) => {
                let six = match address {
                    IpAddr::V4(four) => four.to_ipv6_mapped(),
                    IpAddr::V6(six) => six,
                };
                [&family_bytes[..], &port, &[0; 4], &six.octets(), &[0; 4]].concat()
            }
        }
    }

    /// Reports whether a socket bound here receives what is sent to `other`.
    pub fn serves(&self, other: &Self) -> bool {
        self.port == other.port && (self.address.is_unspecified() || self.address == other.address)
    }

    /// Parses `0100007F:1F90`, with words in the byte order of this machine.
    fn parse(text: &[u8]) -> Option<Self> {
        let colon = text.iter().position(|byte| *byte == b':')?;
        let (address, port) = (&text[..colon], parse_hex(&text[colon + 1..])? as u16);
        let words = address.chunks(8).map(|word| parse_hex(word).map(|word| (word as u32).to_ne_bytes()));
        let bytes = words.collect::<Option<Vec<_>>>()?.concat();
        let address = match bytes.len() {
            4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
            _ => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
        };
        Some(Self { address, port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::SocketAddr::new(self.address, self.port).fmt(f)
    }
}

impl TcpConnection {
    /// Returns all connections.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn all() -> io::Result<Vec<Self>> {
        let mut found = Self::parse(&std::fs::read("/proc/self/net/tcp")?);
        // A kernel without IPv6 has no such file.
        found.extend(Self::parse(&std::fs::read("/proc/self/net/tcp6").unwrap_or_default()));
        Ok(found)
    }

    /// Parses one of the files.
    pub fn parse(text: &[u8]) -> Vec<Self> {
        text.split(|byte| *byte == b'\n').skip(1).filter_map(Self::line).collect()
    }

    /// Parses `0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 ...`.
    fn line(line: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = words(line).collect();
        Some(Self {
            local: Endpoint::parse(fields.get(1)?)?,
            remote: Endpoint::parse(fields.get(2)?)?,
            state: parse_hex(fields.get(3)?)? as u8,
            unsent: parse_hex(fields.get(4)?.split(|byte| *byte == b':').next()?)?,
            inode: parse(fields.get(9)?)?,
        })
    }
}

/// A UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpPort {
    /// Its address and port.
    pub local: Endpoint,
    /// Inode of the socket.
    pub inode: u64,
}

impl UdpPort {
    /// Returns those of all UDP sockets.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn all() -> io::Result<Vec<Self>> {
        // The files are like those of TCP.
        let mut found = TcpConnection::parse(&std::fs::read("/proc/self/net/udp")?);
        found.extend(TcpConnection::parse(&std::fs::read("/proc/self/net/udp6").unwrap_or_default()));
        Ok(found.into_iter().map(|socket| Self { local: socket.local, inode: socket.inode }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_and_ipv6_lines_are_parsed_among_unknown_ones() {
        let text =
            b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 0200007F:A001 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 new\n\
            future\n\
            1: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000200007F:A001 08 0:0 0:0 0 0 0 0 1\n\
            2: 0100007F:1F90 00000000:0000 2A 0:0 0:0 0 0 0 5\n";
        let found = TcpConnection::parse(text);
        assert_eq!(found.len(), 3, "an unknown state is kept, and an unknown line is left out");
        assert_eq!((found[0].local, found[0].remote), (found[1].local, found[1].remote));
        assert_eq!(found[0].local.to_string(), "127.0.0.1:8080");
        assert_eq!((found[0].state, found[0].inode, found[1].state, found[1].inode), (1, 4711, 8, 0));
        assert_eq!((found[2].state, found[2].inode), (0x2a, 5));
    }

    #[test]
    fn ipv4_and_mapped_ipv6_addresses_are_the_same_endpoint() {
        let four = [2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut six = vec![10, 0, 0x1f, 0x90, 0, 0, 0, 0];
        six.extend(Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        six.extend([0; 4]);
        assert_eq!(Endpoint::of(&four), Endpoint::of(&six));
        assert!(Endpoint::of(&four).unwrap().serves(&Endpoint::of(&six).unwrap()));
        assert_eq!(Endpoint::of(&[1, 0]), None);
        assert_eq!(Endpoint::of(&six).unwrap().to_address(libc::AF_INET), four);
        assert_eq!(Endpoint::of(&four).unwrap().to_address(libc::AF_INET6), six);
    }
}
