//! Options of sockets: those of the record, and those that are set only during construction.

use super::{describe, is_internet};
use crate::EngineError;
use crate::error::kernel;
use standfast_format::records::{Socket, SocketOption, SocketState};
use standfast_linux::abi;
use standfast_linux::sys::socket::{self, SO_BUF_LOCK};
use std::io;
use std::os::fd::BorrowedFd;

/// IFNAMSIZ
const DEVICE_NAME_BYTES: usize = 16;
/// Options that the construction changes, to be restored if the record does not have them.
const PASSING: [(i32, i32); 4] = [
    (abi::SOL_SOCKET, abi::SO_REUSEADDR),
    (abi::IPPROTO_TCP, abi::TCP_NODELAY),
    (abi::IPPROTO_IP, abi::IP_BIND_ADDRESS_NO_PORT),
    (abi::IPPROTO_IP, IP_LOCAL_PORT_RANGE),
];
const IP_LOCAL_PORT_RANGE: i32 = 51;
const UDP_ENCAP: i32 = 100;
const UDP_NO_CHECK6_TX: i32 = 101;
const UDP_SEGMENT: i32 = 103;
const SO_PASSPIDFD: i32 = 76;
/// Options that decide which socket gets a message, what becomes of it, or when a connection is there. Data in flight is
/// sent again, and connections are made, without them.
const LAST: [(i32, i32); 7] = [
    (abi::SOL_SOCKET, abi::SO_INCOMING_CPU),
    (abi::IPPROTO_UDP, UDP_ENCAP),
    (abi::IPPROTO_UDP, UDP_SEGMENT),
    (abi::IPPROTO_UDP, UDP_NO_CHECK6_TX),
    (abi::IPPROTO_TCP, abi::TCP_DEFER_ACCEPT),
    (abi::IPPROTO_IP, abi::IP_MINTTL),
    (abi::IPPROTO_IPV6, abi::IPV6_MINHOPCOUNT),
];

/// Options with which a Unix socket gets a name when it sends, and its messages get credentials. Only a socket that listens
/// has them at once, for those that it accepts.
const WITH_CREDENTIALS: [(i32, i32); 2] = [(abi::SOL_SOCKET, abi::SO_PASSCRED), (abi::SOL_SOCKET, SO_PASSPIDFD)];

/// Sets the recorded options, except for those in [`LAST`] and for a receive buffer that is smaller than a new one: it may
/// not have room for what came when it was larger.
pub(super) fn set(own: BorrowedFd<'_>, record: &Socket) -> Result<(), EngineError> {
    // What a listening socket has, those that it accepts have too.
    let listens = matches!(record.state, SocketState::Listening { .. });
    let is_late = |option: &SocketOption| {
        let it = (option.level, option.name);
        LAST.contains(&it) || !listens && (WITH_CREDENTIALS.contains(&it) || makes_smaller(own, option))
    };
    record.options.iter().filter(|option| !is_late(option)).try_for_each(|option| set_one(own, option))
}

fn makes_smaller(own: BorrowedFd<'_>, option: &SocketOption) -> bool {
    let bytes = <[u8; 4]>::try_from(option.value.0.as_slice()).map(i32::from_le_bytes);
    let is_smaller = |bytes| socket::number(own, option.level, option.name).is_ok_and(|now| bytes < now);
    (option.level, option.name) == (abi::SOL_SOCKET, abi::SO_RCVBUF) && bytes.is_ok_and(is_smaller)
}

/// Sets all of them once more, now that nothing more is to be sent to the socket. Returns what is not as it was.
pub(super) fn set_last(own: BorrowedFd<'_>, record: &Socket) -> Result<Vec<String>, EngineError> {
    let has = |level, name| record.options.iter().any(|option| (option.level, option.name) == (level, name));
    let setting = |source| kernel("setting an option of a socket", source);
    // A socket that listens or is connected continues to share its address, so that its next life finds it free.
    let keeps = |name| name == abi::SO_REUSEADDR && keeps_sharing(record);
    for (level, name) in PASSING.into_iter().filter(|(level, name)| !has(*level, *name) && !keeps(*name)) {
        let is_changed = || socket::number(own, level, name).is_ok_and(|now| now != 0);
        if is_internet(record.family) && record.kind == abi::SOCK_STREAM && is_changed() {
            socket::set_number(own, level, name, 0).map_err(setting)?;
        }
    }
    for (level, name) in hop_options(record.family).iter().filter(|(level, name)| !has(*level, *name)) {
        if record.kind == abi::SOCK_STREAM {
            // As with a new socket.
            socket::set_number(own, *level, *name, -1).map_err(setting)?;
        }
    }
    if record.family == abi::AF_UNIX && !has(abi::SOL_SOCKET, abi::SO_SNDBUF) {
        usual_send_buffer(own, record).map_err(setting)?;
    }
    record.options.iter().try_for_each(|option| set_one(own, option))?;
    Ok(record.options.iter().filter_map(|option| shortfall(own, record, option)).collect())
}

/// Says by how much a buffer is smaller than it was: without privileges no buffer exceeds the system's limit.
fn shortfall(own: BorrowedFd<'_>, record: &Socket, option: &SocketOption) -> Option<String> {
    let (kind, limit) = match (option.level, option.name) {
        (abi::SOL_SOCKET, abi::SO_SNDBUF) => ("send", "wmem_max"),
        (abi::SOL_SOCKET, abi::SO_RCVBUF) => ("receive", "rmem_max"),
        _ => return None,
    };
    let bytes = i32::from_le_bytes(option.value.0.as_slice().try_into().ok()?);
    let now = socket::number(own, option.level, option.name).ok().filter(|now| *now < bytes)?;
    let name = describe(&record.name);
    let of = if name.is_empty() { "of a socket".to_owned() } else { format!("of the socket {name}") };
    Some(format!("the {kind} buffer {of} has {now} bytes instead of {bytes} (net.core.{limit})"))
}

/// Reports whether a socket continues to share its address whatever the program has set. Otherwise its next life would
/// have to wait for connections that linger there, if this life is killed before its first checkpoint.
pub(super) fn keeps_sharing(record: &Socket) -> bool {
    let is_in_use = matches!(
        record.state,
        SocketState::Listening { .. }
            | SocketState::Paired { .. }
            | SocketState::PeerClosed { .. }
            | SocketState::Waiting { .. }
            | SocketState::Distant { .. }
            | SocketState::Connecting { .. }
    );
    super::is_tcp(record) && is_in_use
}

/// Makes a socket open its connection with the time to live that was recorded for the accepted end.
pub(super) fn open_with(own: BorrowedFd<'_>, family: i32, hops: Option<u32>) -> Result<(), EngineError> {
    let setting = |source| kernel("setting an option of a socket", source);
    let Some(hops) = hops.and_then(|hops| i32::try_from(hops).ok()).filter(|hops| *hops > 0) else { return Ok(()) };
    hop_options(family)
        .iter()
        .try_for_each(|(level, name)| socket::set_number(own, *level, *name, hops))
        .map_err(setting)
}

/// The time to live of packets, and the hops, in so far as sockets of a family have them.
fn hop_options(family: i32) -> &'static [(i32, i32)] {
    const BOTH: [(i32, i32); 2] = [(abi::IPPROTO_IP, abi::IP_TTL), (abi::IPPROTO_IPV6, abi::IPV6_UNICAST_HOPS)];
    match family {
        abi::AF_INET => &BOTH[..1],
        abi::AF_INET6 => &BOTH,
        _ => &[],
    }
}

/// Lets several sockets have one address, as a listening socket and those that it has accepted do.
pub(super) fn share_address(own: BorrowedFd<'_>) -> Result<(), EngineError> {
    let setting = |source| kernel("setting an option of a socket", source);
    socket::set_number(own, abi::SOL_SOCKET, abi::SO_REUSEADDR, 1).map_err(setting)
}

/// Reports whether the program has set this option.
pub(super) fn shares_address(record: &Socket) -> bool {
    let is_it = |option: &&SocketOption| (option.level, option.name) == (abi::SOL_SOCKET, abi::SO_REUSEADDR);
    record.options.iter().find(is_it).is_some_and(|option| option.value.0.iter().any(|byte| *byte != 0))
}

/// Makes the close of a TCP socket a reset of its connection.
pub(super) fn reset_when_closed(own: BorrowedFd<'_>) -> io::Result<()> {
    // struct linger: on, for no time.
    let linger = [1i32, 0].map(i32::to_le_bytes);
    socket::set_option(own, abi::SOL_SOCKET, abi::SO_LINGER, linger.as_flattened())
}

/// Makes the kernel choose this port when the socket is connected; kernels before 6.3 cannot.
pub(super) fn choose_port(own: BorrowedFd<'_>, port: u16) -> bool {
    let range = i32::from_le_bytes([port.to_le_bytes(), port.to_le_bytes()].concat().try_into().expect("four bytes"));
    let set = |name, value| socket::set_number(own, abi::IPPROTO_IP, name, value).is_ok();
    set(IP_LOCAL_PORT_RANGE, range) && set(abi::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Restores the send buffer, which was made larger while messages were sent again.
fn usual_send_buffer(own: BorrowedFd<'_>, record: &Socket) -> io::Result<()> {
    let fresh = socket::create(record.family, record.kind, record.protocol)?;
    let usual = socket::number(std::os::fd::AsFd::as_fd(&fresh), abi::SOL_SOCKET, abi::SO_SNDBUF)?;
    if socket::number(own, abi::SOL_SOCKET, abi::SO_SNDBUF)? != usual {
        socket::set_number(own, abi::SOL_SOCKET, abi::SO_SNDBUF, usual / 2)?;
        // Kernels before 5.15 do not have this option, and keep the size as if the program had chosen it.
        let _ = socket::set_number(own, abi::SOL_SOCKET, SO_BUF_LOCK, 0);
    }
    Ok(())
}

fn set_one(own: BorrowedFd<'_>, option: &SocketOption) -> Result<(), EngineError> {
    let SocketOption { level, name, value } = option;
    // Without privileges an option with a device name may be set only once. It is returned if the buffer fits any name.
    if socket::option(own, *level, *name, value.0.len().max(DEVICE_NAME_BYTES)).is_ok_and(|now| now == value.0) {
        return Ok(());
    }
    // The kernel doubles the buffer sizes that it is given.
    let is_doubled = *level == abi::SOL_SOCKET && matches!(*name, abi::SO_SNDBUF | abi::SO_RCVBUF);
    let set = match <[u8; 4]>::try_from(value.0.as_slice()) {
        Ok(bytes) if is_doubled => set_size(own, *name, i32::from_le_bytes(bytes)),
        _ => socket::set_option(own, *level, *name, &value.0),
    };
    set.map_err(|source| kernel(&format!("setting option {name} (level {level}) of a socket"), source))
}

/// Sets the size of a buffer, if need be beyond the system's limit.
fn set_size(own: BorrowedFd<'_>, name: i32, bytes: i32) -> io::Result<()> {
    socket::set_number(own, abi::SOL_SOCKET, name, bytes / 2)?;
    if socket::number(own, abi::SOL_SOCKET, name)? < bytes {
        let beyond = if name == abi::SO_SNDBUF { abi::SO_SNDBUFFORCE } else { abi::SO_RCVBUFFORCE };
        // It needs privileges. Without them the buffer stays at the limit, which is reported.
        let _ = socket::set_number(own, abi::SOL_SOCKET, beyond, bytes / 2);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_buffer_that_may_not_be_as_large_again_is_reported() {
        let own = socket::create(abi::AF_INET, abi::SOCK_DGRAM, 0).unwrap();
        let option = |name, bytes: i32| {
            let value = bytes.to_le_bytes().to_vec().into();
            SocketOption { level: abi::SOL_SOCKET, name, value }
        };
        let options = vec![option(abi::SO_RCVBUF, 1 << 30), option(abi::SO_SNDBUF, 8192)];
        let record = Socket { family: abi::AF_INET, kind: abi::SOCK_DGRAM, options, ..Socket::default() };
        let notes = set_last(own.as_fd(), &record).unwrap();
        let now = socket::number(own.as_fd(), abi::SOL_SOCKET, abi::SO_RCVBUF).unwrap();
        let is_as_it_was = now == 1 << 30;
        assert_eq!(notes.is_empty(), is_as_it_was, "{notes:?}");
        let told = format!("the receive buffer of a socket has {now} bytes instead of 1073741824 (net.core.rmem_max)");
        assert!(is_as_it_was || notes == [told]);
    }
}
