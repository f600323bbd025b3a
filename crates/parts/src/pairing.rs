//! Pairs the ends of connections. Two ends are one connection if each has the other's address. A loopback address exists on
//! every node, so an end with one never has its partner in another part.

use crate::{ConnectionEnd, PartIndex, PartnerEnd};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;

/// What is known of all ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing {
    /// For each part, the other ends of those that it has reported.
    pub partners: Vec<Vec<Option<PartnerEnd>>>,
    /// A connection on which something is still on its way.
    pub unsettled: Option<Unpaired>,
}

/// An end, as people are told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpaired {
    /// The part that has it.
    pub part: PartIndex,
    /// Its address.
    pub local: SocketAddr,
    /// The address of its other end.
    pub remote: SocketAddr,
}

impl fmt::Display for Unpaired {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the connection from {} to {}", self.local, self.remote)
    }
}

/// Pairs the ends that the parts have reported. `ends[part]` are those of a part.
pub fn pair(ends: &[Vec<ConnectionEnd>]) -> Pairing {
    let mut by_address: HashMap<(SocketAddr, SocketAddr), Vec<(PartIndex, &ConnectionEnd)>> = HashMap::new();
    for (part, end) in each(ends) {
        by_address.entry((end.local, end.remote)).or_default().push((part, end));
    }
    let partner = |part: PartIndex, end: &ConnectionEnd| {
        if end.remote.ip().is_loopback() {
            return None;
        }
        let others = by_address.get(&(end.remote, end.local))?;
        // If several nodes have this address, nobody knows which one is meant.
        match others.iter().filter(|(other, _)| *other != part).collect::<Vec<_>>()[..] {
            [(_, other)] => Some(**other),
            _ => None,
        }
    };
    let mut unsettled = None;
    let mut partners = Vec::with_capacity(ends.len());
    for (part, of_part) in ends.iter().enumerate() {
        let mut found = Vec::with_capacity(of_part.len());
        for end in of_part {
            let other = partner(part, end);
            if let Some(other) = &other
                && !is_settled(end, other)
            {
                unsettled.get_or_insert(Unpaired { part, local: end.local, remote: end.remote });
            }
            found.push(other.map(|other| PartnerEnd {
                unsent: other.unsent,
                has_ended: other.has_ended,
                has_connected: has_connected(&other, end),
            }));
        }
        partners.push(found);
    }
    Pairing { partners, unsettled }
}

fn each(ends: &[Vec<ConnectionEnd>]) -> impl Iterator<Item = (PartIndex, &ConnectionEnd)> {
    ends.iter().enumerate().flat_map(|(part, ends)| ends.iter().map(move |end| (part, end)))
}

/// Reports whether nothing is on its way between two ends: everything sent is acknowledged, and the counters of both ends
/// agree. The packet that opened the connection is acknowledged, and does not count as received.
fn is_settled(one: &ConnectionEnd, other: &ConnectionEnd) -> bool {
    let is_acknowledged = one.unsent == 0 && other.unsent == 0;
    is_acknowledged && has_connected(one, other) != has_connected(other, one) && {
        let opening = |end, other| u64::from(has_connected(end, other));
        one.acknowledged == other.received + opening(one, other)
            && other.acknowledged == one.received + opening(other, one)
    }
}

/// Reports whether `end` opened its connection to `other`, once nothing is on its way.
fn has_connected(end: &ConnectionEnd, other: &ConnectionEnd) -> bool {
    end.acknowledged == other.received + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn end(local: &str, remote: &str, acknowledged: u64, received: u64) -> ConnectionEnd {
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        ConnectionEnd { local, remote, has_ended: false, unsent: 0, acknowledged, received }
    }

    const A: &str = "10.0.0.1:4000";
    const B: &str = "10.0.0.2:80";

    #[test]
    fn the_ends_of_a_connection_find_each_other_and_know_who_connected() {
        let pairing = pair(&[vec![end(A, B, 8, 100)], vec![end(B, A, 100, 7)]]);
        assert_eq!(pairing.unsettled, None);
        let partner = |has_connected| Some(PartnerEnd { unsent: 0, has_ended: false, has_connected });
        assert_eq!(pairing.partners, [vec![partner(false)], vec![partner(true)]]);
    }

    #[test]
    fn what_is_on_its_way_is_not_settled() {
        let sending = ConnectionEnd { unsent: 5, ..end(A, B, 8, 100) };
        let lost = end(A, B, 9, 100);
        for one in [sending, lost] {
            let pairing = pair(&[vec![one], vec![end(B, A, 100, 7)]]);
            assert_eq!(pairing.unsettled.map(|it| it.part), Some(0), "{one:?}");
        }
        let pairing = pair(&[vec![end(A, B, 7, 100)], vec![end(B, A, 100, 7)]]);
        assert!(pairing.unsettled.is_some(), "one of them must have connected");
    }

    #[test]
    fn an_end_without_a_partner_has_none() {
        let pairing = pair(&[vec![end(A, B, 8, 100)], vec![end("10.0.0.2:81", A, 100, 7)], vec![]]);
        assert_eq!(pairing.partners, [vec![None], vec![None], vec![]]);
    }

    #[test]
    fn loopback_addresses_of_two_nodes_are_two_addresses() {
        let (here, there) = ("127.0.0.1:4000", "127.0.0.1:80");
        let pairing = pair(&[vec![end(here, there, 8, 100)], vec![end(there, here, 100, 7)]]);
        assert_eq!(pairing.partners, [vec![None], vec![None]]);
    }

    #[test]
    fn an_address_that_two_nodes_have_is_not_believed() {
        let twice = || vec![end(B, A, 100, 7)];
        let pairing = pair(&[vec![end(A, B, 8, 100)], twice(), twice()]);
        assert_eq!(pairing.partners[0], [None]);
    }
}
