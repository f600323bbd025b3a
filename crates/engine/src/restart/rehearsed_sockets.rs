//! Sockets of a rehearsed job. They are made in a network namespace that has this machine's addresses and nobody else in
//! it, so that no port, no peer and no file of others is touched.

use crate::socket_paths::path_in;
use standfast_format::records::{Bytes, Socket, SocketState};
use standfast_linux::abi;
use std::collections::BTreeMap;

const FAMILIES: [i32; 4] = [abi::AF_UNIX, abi::AF_INET, abi::AF_INET6, abi::AF_NETLINK];
/// Protocols for which the groups count that may use them. The namespace may not have these groups.
const PINGS: [i32; 2] = [abi::IPPROTO_ICMP, abi::IPPROTO_ICMPV6];
/// Options that name a network device. The namespace has none but the loopback device.
const OF_DEVICES: [(i32, i32); 5] = [
    (abi::SOL_SOCKET, abi::SO_BINDTODEVICE),
    (abi::IPPROTO_IP, abi::IP_MULTICAST_IF),
    (abi::IPPROTO_IP, abi::IP_UNICAST_IF),
    (abi::IPPROTO_IPV6, abi::IPV6_MULTICAST_IF),
    (abi::IPPROTO_IPV6, abi::IPV6_UNICAST_IF),
];
/// Where `struct sockaddr_in6` has the number of a device, for an address that is valid on that device only.
const SCOPE: std::ops::Range<usize> = 24..28;
/// The longest path that fits in an address behind a zero.
const PATH_MAX: usize = 107;
const FAMILY_BYTES: usize = size_of::<abi::sa_family_t>();

/// Reports whether all these sockets can be made in such a namespace.
pub(super) fn can_be_made_apart(sockets: &[Socket]) -> bool {
    let mut named: BTreeMap<&[u8], Vec<&Socket>> = BTreeMap::new();
    for socket in sockets.iter().filter(|socket| socket.family == abi::AF_UNIX) {
        named.entry(path_in(&socket.name.0).unwrap_or_default()).or_default().push(socket);
    }
    named.iter().all(|(path, sharing)| path.is_empty() || may_share_name(sharing)) && sockets.iter().all(can_be_alone)
}

/// Reports whether sockets can have one name at once that is no path: a listening one, and those that it has accepted.
fn may_share_name(sockets: &[&Socket]) -> bool {
    let listens = |socket: &&&Socket| matches!(socket.state, SocketState::Listening { .. });
    let is_connection = |socket: &&&Socket| {
        let has_peer = matches!(
            socket.state,
            SocketState::Paired { .. } | SocketState::Waiting { .. } | SocketState::PeerClosed { .. }
        );
        has_peer && socket.kind != abi::SOCK_DGRAM
    };
    let (listening, connections) =
        (sockets.iter().filter(listens).count(), sockets.iter().filter(is_connection).count());
    sockets.len() == 1 || listening == 1 && connections == sockets.len() - 1
}

fn can_be_alone(socket: &Socket) -> bool {
    let names_device = socket.options.iter().any(|option| OF_DEVICES.contains(&(option.level, option.name)));
    let is_plain = |address: &Bytes| match socket.family {
        abi::AF_INET6 => address.0.get(SCOPE).is_none_or(|scope| scope.iter().all(|byte| *byte == 0)),
        abi::AF_UNIX => path_in(&address.0).is_none_or(|path| path.len() <= PATH_MAX),
        _ => true,
    };
    let is_distant = matches!(socket.state, SocketState::Distant { .. });
    let is_known = FAMILIES.contains(&socket.family) && !PINGS.contains(&socket.protocol);
    is_known && !is_distant && !names_device && is_plain(&socket.name) && other_addresses(socket).all(is_plain)
}

/// Gives Unix sockets names that are no paths: only their network namespace knows these.
pub(super) fn hide_paths(sockets: &mut [Socket]) {
    for socket in sockets.iter_mut().filter(|socket| socket.family == abi::AF_UNIX) {
        socket.file_mode = None;
        hide_path(&mut socket.name);
        match &mut socket.state {
            SocketState::PeerClosed { peer: address } | SocketState::Towards { address, .. } => hide_path(address),
            _ => {}
        }
        socket.received.iter_mut().filter_map(|message| message.from.as_mut()).for_each(hide_path);
    }
}

fn hide_path(address: &mut Bytes) {
    if let Some(path) = path_in(&address.0) {
        *address = [&address.0[..FAMILY_BYTES], b"\0", path].concat().into();
    }
}

fn other_addresses(socket: &Socket) -> impl Iterator<Item = &Bytes> {
    let peer = match &socket.state {
        SocketState::PeerClosed { peer: address } | SocketState::Towards { address, .. } => Some(address),
        _ => None,
    };
    peer.into_iter().chain(socket.received.iter().filter_map(|message| message.from.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::SocketOption;

    fn unix(path: &str) -> Bytes {
        [&(abi::AF_UNIX as u16).to_ne_bytes()[..], path.as_bytes(), b"\0"].concat().into()
    }

    #[test]
    fn paths_become_names_that_lead_to_the_same_sockets() {
        let listening = Socket {
            family: abi::AF_UNIX,
            name: unix("/run/here"),
            file_mode: Some(0o600),
            state: SocketState::Listening { backlog: 1 },
            ..Socket::default()
        };
        let towards = SocketState::Towards { address: unix("/run/here"), peer: Some(0) };
        let mut sockets = [listening, Socket { family: abi::AF_UNIX, state: towards, ..Socket::default() }];
        assert!(can_be_made_apart(&sockets));
        hide_paths(&mut sockets);
        let SocketState::Towards { address, .. } = &sockets[1].state else { panic!("it still is") };
        assert_eq!((address, sockets[0].file_mode), (&sockets[0].name, None));
        assert_eq!(sockets[0].name.0[FAMILY_BYTES..], *b"\0/run/here");
        assert!(sockets[1].name.0.is_empty());
    }

    #[test]
    fn two_sockets_of_one_name_are_made_apart_only_if_one_has_accepted_the_other() {
        let named = |state| Socket {
            family: abi::AF_UNIX,
            kind: abi::SOCK_STREAM,
            name: unix("/run/here"),
            state,
            ..Socket::default()
        };
        let listening = || named(SocketState::Listening { backlog: 1 });
        assert!(can_be_made_apart(&[listening(), named(SocketState::Paired { peer: 2 })]));
        assert!(!can_be_made_apart(&[listening(), named(SocketState::Unconnected)]));
        assert!(!can_be_made_apart(&[named(SocketState::Paired { peer: 3 }), named(SocketState::Paired { peer: 4 })]));
    }

    #[test]
    fn sockets_that_need_a_device_or_much_room_are_not_made_apart() {
        let mut scoped = vec![0; 28];
        scoped[24] = 2;
        let internet = |name: Vec<u8>| Socket { family: abi::AF_INET6, name: name.into(), ..Socket::default() };
        assert!(can_be_made_apart(&[internet(vec![0; 28])]));
        assert!(!can_be_made_apart(&[internet(scoped)]));
        let device = SocketOption { level: abi::SOL_SOCKET, name: abi::SO_BINDTODEVICE, value: b"eth0"[..].into() };
        assert!(!can_be_made_apart(&[Socket { options: vec![device], ..internet(Vec::new()) }]));
        assert!(!can_be_made_apart(&[Socket { protocol: abi::IPPROTO_ICMP, ..internet(Vec::new()) }]));
        assert!(!can_be_made_apart(&[Socket {
            family: abi::AF_UNIX,
            name: unix(&"x".repeat(108)),
            ..Socket::default()
        }]));
    }
}
