//! `/proc/net/igmp` and `igmp6`: the multicast groups that somebody in this network namespace has joined.

use super::{parse, parse_hex, words};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A multicast group that has members here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MulticastGroup {
    /// Number of the interface on which it was joined.
    pub interface: i32,
    /// Its address.
    pub address: IpAddr,
}

impl MulticastGroup {
    /// Returns all groups, first those of IPv4. A kernel without multicast has no such files.
    pub fn all() -> Vec<Self> {
        let read = |name: &str| std::fs::read(format!("/proc/self/net/{name}")).unwrap_or_default();
        let mut groups = Self::parse(&read("igmp"));
        groups.extend(Self::parse_six(&read("igmp6")));
        groups
    }

    /// Parses `igmp`: a heading, then `2 eth0 : 1 V3` for each interface, and below it for each group an indented
    /// `010000E0 1 0:00000000 0`.
    fn parse(text: &[u8]) -> Vec<Self> {
        let (mut groups, mut interface) = (Vec::new(), 0);
        for line in text.split(|byte| *byte == b'\n').skip(1) {
            let Some(first) = words(line).next() else { continue };
            if !line[0].is_ascii_whitespace() {
                interface = parse(first).unwrap_or_default();
            } else if let Some(address) = four(first) {
                groups.push(Self { interface, address });
            }
        }
        groups
    }

    /// Parses `igmp6`: `2 eth0 ff020000000000000000000000000001 1 0000000C 0` for each group.
    fn parse_six(text: &[u8]) -> Vec<Self> {
        let group = |line: &[u8]| {
            let mut fields = words(line);
            Some(Self { interface: parse(fields.next()?)?, address: six(fields.nth(1)?)? })
        };
        text.split(|byte| *byte == b'\n').filter_map(group).collect()
    }
}

/// Parses `010000E0`, a word in the byte order of this machine.
fn four(word: &[u8]) -> Option<IpAddr> {
    let word = u32::try_from(parse_hex(word)?).ok()?;
    Some(Ipv4Addr::from(word.to_ne_bytes()).into())
}

/// Parses the 32 digits of an address of IPv6.
fn six(digits: &[u8]) -> Option<IpAddr> {
    let address = u128::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    (digits.len() == 32).then(|| Ipv6Addr::from(address).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_families_are_found_among_unknown_lines() {
        let text = b"Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n1\tlo        :     1      V3\n\
            \t\t\t\t010000E0     1 0:00000000\t\t0 future\n3\t\xff:     2      V9 future\n\t\t\t\tfuture\n\n\
            \t\t\t\tFB0000E0     1 0:00000000\t\t0\n";
        let found: Vec<_> = MulticastGroup::parse(text).iter().map(|it| (it.interface, it.address)).collect();
        assert_eq!(found, [(1, IpAddr::from([224, 0, 0, 1])), (3, IpAddr::from([224, 0, 0, 251]))]);

        let text = b"1    lo      ff020000000000000000000000000001     1 0000000C 0 future\nfuture\n\
            2    eth0    ff02     1 0000000C 0\n2    \xff    ff050000000000000000000000000002     1 0000000C 0\n";
        let found: Vec<_> = MulticastGroup::parse_six(text).iter().map(|it| (it.interface, it.address)).collect();
        let group = |scope, last| IpAddr::from([scope, 0, 0, 0, 0, 0, 0, last]);
        assert_eq!(found, [(1, group(0xff02, 1)), (2, group(0xff05, 2))]);
    }

    #[test]
    fn a_group_that_we_join_is_found() {
        let group = Ipv4Addr::new(239, 1, 2, 3);
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).is_ok() {
            assert!(MulticastGroup::all().iter().any(|it| it.address == IpAddr::from(group)));
        }
    }
}
