//! The options that a program has set on a socket: every option that differs from that of a new socket.

use super::Unsupported;
use crate::RefusalCode;
use standfast_format::records::SocketOption;
use standfast_linux::abi;
use standfast_linux::proc::{Endpoint, MulticastGroup};
use standfast_linux::sys::socket::{self, SO_BUF_LOCK};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

const WORD: usize = 4;
const PAIR: usize = 8;
const TIME: usize = 16;
const NAME: usize = 16;

const SO_MAX_PACING_RATE: i32 = 47;
const SO_TXTIME: i32 = 61;
const SO_TIMESTAMP_NEW: i32 = 63;
const SO_TIMESTAMPNS_NEW: i32 = 64;
const SO_TIMESTAMPING_NEW: i32 = 65;
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;
const SO_RESERVE_MEM: i32 = 73;
const SO_TXREHASH: i32 = 74;
const SO_RCVMARK: i32 = 75;
const SO_PASSPIDFD: i32 = 76;
const SO_RCVPRIORITY: i32 = 82;
const SO_PASSRIGHTS: i32 = 83;
const SO_INQ: i32 = 84;
/// Longest options of an IPv4 header.
const IP_OPTIONS_MAX: usize = 40;
const IP_CHECKSUM: i32 = 23;
const IP_RECVFRAGSIZE: i32 = 25;
const IP_RECVERR_RFC4884: i32 = 26;
const IP_LOCAL_PORT_RANGE: i32 = 51;
const IPV6_MULTICAST_ALL: i32 = 29;
const IPV6_ROUTER_ALERT_ISOLATE: i32 = 30;
const IPV6_RECVERR_RFC4884: i32 = 31;
const TCP_FASTOPEN_NO_COOKIE: i32 = 34;
const TCP_INQ: i32 = 36;
const TCP_TX_DELAY: i32 = 37;
const TCP_RTO_MAX_MS: i32 = 44;
const TCP_RTO_MIN_US: i32 = 45;
const TCP_DELACK_MAX_US: i32 = 46;
const UDP_CORK: i32 = 1;
const UDP_ENCAP: i32 = 100;
const UDP_NO_CHECK6_TX: i32 = 101;
const UDP_NO_CHECK6_RX: i32 = 102;
const UDP_SEGMENT: i32 = 103;
const UDP_GRO: i32 = 104;
const NETLINK_EXT_ACK: i32 = 11;
const NETLINK_GET_STRICT_CHK: i32 = 12;
const NETLINK_LIST_MEMBERSHIPS: i32 = 9;
/// Longest classic packet filter, in instructions, and the size of one.
const FILTER_MAX: usize = 4096;
const FILTER_BYTES: usize = 8;

/// Buffer sizes, which matter only if the program has chosen them.
const BUFFERS: [i32; 2] = [abi::SO_SNDBUF, abi::SO_RCVBUF];

/// Name and length, in the order in which they are set.
const GENERAL: &[(i32, usize)] = &[
    (abi::SO_DEBUG, WORD),
    (abi::SO_REUSEADDR, WORD),
    (abi::SO_REUSEPORT, WORD),
    (abi::SO_BINDTODEVICE, NAME),
    (abi::SO_BROADCAST, WORD),
    (abi::SO_DONTROUTE, WORD),
    (abi::SO_KEEPALIVE, WORD),
    (abi::SO_LINGER, PAIR),
    (abi::SO_OOBINLINE, WORD),
    (abi::SO_PRIORITY, WORD),
    (abi::SO_MARK, WORD),
    (abi::SO_NO_CHECK, WORD),
    (abi::SO_RCVTIMEO, TIME),
    (abi::SO_SNDTIMEO, TIME),
    (abi::SO_RCVLOWAT, WORD),
    (abi::SO_PASSCRED, WORD),
    (abi::SO_PASSSEC, WORD),
    (SO_PASSPIDFD, WORD),
    (abi::SO_PEEK_OFF, WORD),
    (abi::SO_TIMESTAMP, WORD),
    (abi::SO_TIMESTAMPNS, WORD),
    (abi::SO_TIMESTAMPING, WORD),
    (abi::SO_RXQ_OVFL, WORD),
    (abi::SO_BUSY_POLL, WORD),
    (abi::SO_SELECT_ERR_QUEUE, WORD),
    (abi::SO_ZEROCOPY, WORD),
    (abi::SO_WIFI_STATUS, WORD),
    (abi::SO_NOFCS, WORD),
    (SO_MAX_PACING_RATE, PAIR),
    (SO_TXTIME, PAIR),
    (SO_TIMESTAMP_NEW, WORD),
    (SO_TIMESTAMPNS_NEW, WORD),
    (SO_TIMESTAMPING_NEW, WORD),
    (SO_PREFER_BUSY_POLL, WORD),
    (SO_BUSY_POLL_BUDGET, WORD),
    (SO_RESERVE_MEM, WORD),
    (SO_TXREHASH, WORD),
    (SO_RCVMARK, WORD),
    (SO_RCVPRIORITY, WORD),
    (SO_PASSRIGHTS, WORD),
    (SO_INQ, WORD),
    (abi::SO_SNDBUF, WORD),
    (abi::SO_RCVBUF, WORD),
    (SO_BUF_LOCK, WORD),
];
const IPV4: &[(i32, usize)] = &[
    (abi::IP_TOS, WORD),
    (abi::IP_TTL, WORD),
    (abi::IP_MTU_DISCOVER, WORD),
    (abi::IP_RECVERR, WORD),
    (abi::IP_PKTINFO, WORD),
    (abi::IP_RECVTTL, WORD),
    (abi::IP_RECVTOS, WORD),
    (abi::IP_RECVOPTS, WORD),
    (abi::IP_RECVORIGDSTADDR, WORD),
    (abi::IP_FREEBIND, WORD),
    (abi::IP_TRANSPARENT, WORD),
    (abi::IP_BIND_ADDRESS_NO_PORT, WORD),
    (abi::IP_MINTTL, WORD),
    (abi::IP_OPTIONS, IP_OPTIONS_MAX),
    (abi::IP_RETOPTS, WORD),
    (abi::IP_PASSSEC, WORD),
    (IP_CHECKSUM, WORD),
    (IP_RECVFRAGSIZE, WORD),
    (IP_RECVERR_RFC4884, WORD),
    (abi::IP_UNICAST_IF, WORD),
    (IP_LOCAL_PORT_RANGE, WORD),
];
const IPV6: &[(i32, usize)] = &[
    (abi::IPV6_V6ONLY, WORD),
    (abi::IPV6_UNICAST_HOPS, WORD),
    (abi::IPV6_MTU_DISCOVER, WORD),
    (abi::IPV6_RECVERR, WORD),
    (abi::IPV6_RECVPKTINFO, WORD),
    (abi::IPV6_RECVHOPLIMIT, WORD),
    (abi::IPV6_RECVTCLASS, WORD),
    (abi::IPV6_TCLASS, WORD),
    (abi::IPV6_FREEBIND, WORD),
    (abi::IPV6_TRANSPARENT, WORD),
    (abi::IPV6_2292PKTINFO, WORD),
    (abi::IPV6_2292HOPOPTS, WORD),
    (abi::IPV6_2292DSTOPTS, WORD),
    (abi::IPV6_2292RTHDR, WORD),
    (abi::IPV6_2292HOPLIMIT, WORD),
    (abi::IPV6_FLOWINFO, WORD),
    (abi::IPV6_FLOWINFO_SEND, WORD),
    (IPV6_ROUTER_ALERT_ISOLATE, WORD),
    (IPV6_RECVERR_RFC4884, WORD),
    (abi::IPV6_RECVHOPOPTS, WORD),
    (abi::IPV6_RECVRTHDR, WORD),
    (abi::IPV6_RECVDSTOPTS, WORD),
    (abi::IPV6_RECVPATHMTU, WORD),
    (abi::IPV6_DONTFRAG, WORD),
    (abi::IPV6_AUTOFLOWLABEL, WORD),
    (abi::IPV6_ADDR_PREFERENCES, WORD),
    (abi::IPV6_MINHOPCOUNT, WORD),
    (abi::IPV6_ORIGDSTADDR, WORD),
    (abi::IPV6_UNICAST_IF, WORD),
    (abi::IPV6_RECVFRAGSIZE, WORD),
];
/// Without traffic that the kernel counts for it, a socket has the processor that the program has chosen. Otherwise it
/// has that of its last packet.
const SERVERS: &[(i32, usize)] = &[(abi::SO_INCOMING_CPU, WORD)];
/// Streams have their own values for some of these, which nobody can set.
const GROUPS_IPV4: &[(i32, usize)] = &[
    (abi::IP_MULTICAST_TTL, WORD),
    (abi::IP_MULTICAST_LOOP, WORD),
    (abi::IP_MULTICAST_ALL, WORD),
    (abi::IP_MULTICAST_IF, WORD),
];
const GROUPS_IPV6: &[(i32, usize)] = &[
    (abi::IPV6_MULTICAST_HOPS, WORD),
    (abi::IPV6_MULTICAST_LOOP, WORD),
    (abi::IPV6_MULTICAST_IF, WORD),
    (IPV6_MULTICAST_ALL, WORD),
];
const GROUPS_OF_STREAMS_IPV4: &[(i32, usize)] = &[(abi::IP_MULTICAST_LOOP, WORD), (abi::IP_MULTICAST_ALL, WORD)];
const GROUPS_OF_STREAMS_IPV6: &[(i32, usize)] = &[(abi::IPV6_MULTICAST_LOOP, WORD), (IPV6_MULTICAST_ALL, WORD)];
const TCP: &[(i32, usize)] = &[
    (abi::TCP_NODELAY, WORD),
    (abi::TCP_CORK, WORD),
    (abi::TCP_KEEPIDLE, WORD),
    (abi::TCP_KEEPINTVL, WORD),
    (abi::TCP_KEEPCNT, WORD),
    (abi::TCP_SYNCNT, WORD),
    (abi::TCP_LINGER2, WORD),
    (abi::TCP_DEFER_ACCEPT, WORD),
    (abi::TCP_USER_TIMEOUT, WORD),
    (abi::TCP_NOTSENT_LOWAT, WORD),
    (abi::TCP_FASTOPEN, WORD),
    (abi::TCP_CONGESTION, NAME),
    (TCP_INQ, WORD),
    (abi::TCP_THIN_LINEAR_TIMEOUTS, WORD),
    (TCP_FASTOPEN_NO_COOKIE, WORD),
    (TCP_TX_DELAY, WORD),
    (TCP_RTO_MAX_MS, WORD),
    (TCP_RTO_MIN_US, WORD),
    (TCP_DELACK_MAX_US, WORD),
];
/// Options that the kernel sets for a connection, and that must not be set while it is made.
const TCP_ALONE: &[(i32, usize)] = &[
    (abi::TCP_MAXSEG, WORD),
    (abi::TCP_WINDOW_CLAMP, WORD),
    (abi::TCP_SAVE_SYN, WORD),
    (abi::TCP_FASTOPEN_CONNECT, WORD),
];
const UDP: &[(i32, usize)] = &[
    (UDP_CORK, WORD),
    (UDP_ENCAP, WORD),
    (UDP_SEGMENT, WORD),
    (UDP_GRO, WORD),
    (UDP_NO_CHECK6_TX, WORD),
    (UDP_NO_CHECK6_RX, WORD),
];
const NETLINK: &[(i32, usize)] = &[
    (abi::NETLINK_PKTINFO, WORD),
    (abi::NETLINK_BROADCAST_ERROR, WORD),
    (abi::NETLINK_NO_ENOBUFS, WORD),
    (abi::NETLINK_CAP_ACK, WORD),
    (NETLINK_EXT_ACK, WORD),
    (NETLINK_GET_STRICT_CHK, WORD),
];

/// The properties of a socket that determine which options it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Class {
    pub(super) family: i32,
    pub(super) kind: i32,
    pub(super) protocol: i32,
    /// Whether it is not connected and, if it is a stream, never has been.
    pub(super) is_alone: bool,
}

/// The options of new sockets, read once for all sockets of a class.
#[derive(Debug, Default)]
pub(in crate::objects) struct Usual(HashMap<Class, Vec<Option<Vec<u8>>>>);

impl Usual {
    fn of(&mut self, class: Class) -> io::Result<&[Option<Vec<u8>>]> {
        Ok(match self.0.entry(class) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let fresh = socket::create(class.family, class.kind, class.protocol)?;
                let options = options_of(class).map(|(level, name, bytes)| value(fresh.as_fd(), level, name, bytes));
                unknown.insert(options.collect::<io::Result<_>>()?)
            }
        })
    }
}

/// Returns level, name and length of the options of a class.
fn options_of(class: Class) -> impl Iterator<Item = (i32, i32, usize)> {
    let levels = levels(class.family, class.kind, class.is_alone).into_iter();
    levels.flat_map(|(level, names)| names.iter().map(move |(name, bytes)| (level, *name, *bytes)))
}

/// Returns `None` if this kernel, or this kind of socket, has no such option.
fn value(of: BorrowedFd<'_>, level: i32, name: i32, bytes: usize) -> io::Result<Option<Vec<u8>>> {
    match socket::option(of, level, name, bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.raw_os_error(), Some(abi::ENOPROTOOPT | abi::EOPNOTSUPP | abi::EINVAL)) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the options of a socket that differ from the kernel's defaults.
pub(super) fn set_options(
    own: BorrowedFd<'_>,
    class: Class,
    usual: &mut Usual,
) -> Result<Vec<SocketOption>, Unsupported> {
    refuse_hidden(own, class.family, class.kind)?;
    let locked = value(own, abi::SOL_SOCKET, SO_BUF_LOCK, WORD)?;
    let mut options = Vec::new();
    for ((level, name, bytes), usual) in options_of(class).zip(usual.of(class)?) {
        // The kernel is to choose a size again that it had chosen by itself.
        let is_buffer = level == abi::SOL_SOCKET && BUFFERS.contains(&name);
        let is_chosen = !is_buffer || is_locked(locked.as_deref(), name);
        if let Some(value) = value(own, level, name, bytes)?.filter(|now| is_chosen && Some(now) != usual.as_ref()) {
            options.push(SocketOption { level, name, value: value.into() });
        }
    }
    if !options.is_empty() {
        let fresh = socket::create(class.family, class.kind, class.protocol)?;
        options.iter().try_for_each(|option| rehearse(fresh.as_fd(), option))?;
    }
    Ok(options)
}

/// Sets an option of a new socket, as a restart will. Some options need privileges that the program had when it set
/// them, or another state of the socket.
fn rehearse(fresh: BorrowedFd<'_>, option: &SocketOption) -> Result<(), Unsupported> {
    let SocketOption { level, name, value } = option;
    socket::set_option(fresh, *level, *name, &value.0).map_err(|error| {
        let why = format!("its option {name} (level {level}) could not be set again by a restart ({error})");
        Unsupported::because(RefusalCode::SocketOption, why)
    })
}

/// Reports whether the program has set the size of a buffer; kernels before 5.15 do not report it.
fn is_locked(locked: Option<&[u8]>, name: i32) -> bool {
    let bit = if name == abi::SO_SNDBUF { 1 } else { 2 };
    locked.is_none_or(|locked| locked.first().is_some_and(|bits| bits & bit != 0))
}

/// Returns the levels of options; see [`Class::is_alone`].
fn levels(family: i32, kind: i32, is_alone: bool) -> Vec<(i32, &'static [(i32, usize)])> {
    let mut levels = vec![(abi::SOL_SOCKET, GENERAL)];
    match family {
        abi::AF_INET => levels.push((abi::IPPROTO_IP, IPV4)),
        abi::AF_INET6 => levels.extend([(abi::IPPROTO_IPV6, IPV6), (abi::IPPROTO_IP, IPV4)]),
        abi::AF_NETLINK => levels.push((abi::SOL_NETLINK, NETLINK)),
        _ => {}
    }
    match (family, kind) {
        (abi::AF_INET, abi::SOCK_STREAM) => {
            levels.extend([(abi::IPPROTO_TCP, TCP), (abi::IPPROTO_IP, GROUPS_OF_STREAMS_IPV4)]);
        }
        (abi::AF_INET6, abi::SOCK_STREAM) => {
            levels.extend([(abi::IPPROTO_TCP, TCP), (abi::IPPROTO_IPV6, GROUPS_OF_STREAMS_IPV6)]);
            levels.push((abi::IPPROTO_IP, GROUPS_OF_STREAMS_IPV4));
        }
        (abi::AF_INET, abi::SOCK_DGRAM) => levels.extend([(abi::IPPROTO_UDP, UDP), (abi::IPPROTO_IP, GROUPS_IPV4)]),
        (abi::AF_INET6, abi::SOCK_DGRAM) => {
            levels.extend([(abi::IPPROTO_UDP, UDP), (abi::IPPROTO_IPV6, GROUPS_IPV6), (abi::IPPROTO_IP, GROUPS_IPV4)])
        }
        _ => {}
    }
    let is_internet = matches!(family, abi::AF_INET | abi::AF_INET6);
    if is_alone && is_internet {
        levels.push((abi::SOL_SOCKET, SERVERS));
    }
    if is_alone && is_internet && kind == abi::SOCK_STREAM {
        levels.push((abi::IPPROTO_TCP, TCP_ALONE));
    }
    levels
}

/// Refuses state that options show to exist, but do not return.
fn refuse_hidden(own: BorrowedFd<'_>, family: i32, kind: i32) -> Result<(), Unsupported> {
    let filter = socket::option(own, abi::SOL_SOCKET, abi::SO_GET_FILTER, FILTER_MAX * FILTER_BYTES);
    let is_filtered = match filter {
        Ok(instructions) => !instructions.is_empty(),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    if is_filtered {
        return Err(Unsupported::because(
            RefusalCode::SocketOption,
            "it has a packet filter (SO_ATTACH_FILTER), which cannot be restored",
        ));
    }
    let is_internet = matches!(family, abi::AF_INET | abi::AF_INET6);
    if is_internet && kind == abi::SOCK_STREAM {
        let upper = socket::option(own, abi::IPPROTO_TCP, abi::TCP_ULP, NAME).unwrap_or_default();
        if upper.first().is_some_and(|byte| *byte != 0) {
            return Err(Unsupported::because(
                RefusalCode::SocketOption,
                "it has an upper layer protocol such as kernel TLS (TCP_ULP), which cannot be restored",
            ));
        }
    }
    if is_internet && kind == abi::SOCK_DGRAM {
        if socket::number(own, abi::IPPROTO_UDP, UDP_CORK).is_ok_and(|corked| corked != 0) {
            return Err(Unsupported::for_now(
                RefusalCode::UnreadMessage,
                "a datagram is being put together (UDP_CORK)",
            ));
        }
        if socket::is_assembling(own, family)? {
            return Err(Unsupported::for_now(
                RefusalCode::UnreadMessage,
                "a datagram is being put together (MSG_MORE)",
            ));
        }
        if listens_to_a_group(own) {
            return Err(Unsupported::because(
                RefusalCode::SocketOption,
                "it has joined a multicast group, which cannot be restored",
            ));
        }
    }
    if family == abi::AF_NETLINK {
        let groups = socket::option(own, abi::SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, 64).unwrap_or_default();
        // The first 32 are part of its address.
        if groups.iter().skip(WORD).any(|byte| *byte != 0) {
            return Err(Unsupported::because(RefusalCode::SocketOption, "it listens to groups beyond the first 32"));
        }
    }
    Ok(())
}

/// Reports whether a socket is a member of any multicast group. The kernel answers only for a given group, so this
/// tries all groups that somebody on this machine has joined.
fn listens_to_a_group(own: BorrowedFd<'_>) -> bool {
    MulticastGroup::all().iter().any(|group| is_member(own, group))
}

/// Reports membership by `MCAST_MSFILTER`, which succeeds for members only. `struct group_filter`: interface, address
/// (128 bytes, aligned), mode, count.
fn is_member(own: BorrowedFd<'_>, group: &MulticastGroup) -> bool {
    const MCAST_MSFILTER: i32 = 48;
    const ADDRESS_BYTES: usize = 128;
    let (level, family) = match group.address {
        IpAddr::V4(_) => (abi::IPPROTO_IP, abi::AF_INET),
        IpAddr::V6(_) => (abi::IPPROTO_IPV6, abi::AF_INET6),
    };
    let address = Endpoint { address: group.address, port: 0 }.to_address(family);
    let mut filter = vec![0u8; 8 + ADDRESS_BYTES + 8];
    filter[..4].copy_from_slice(&group.interface.to_le_bytes());
    filter[8..8 + address.len()].copy_from_slice(&address);
    socket::option_of(own, level, MCAST_MSFILTER, filter).is_ok()
}
