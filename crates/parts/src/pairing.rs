//! Pairs the ends of connections. Two ends are one connection if each has the other's address. A loopback address exists on
//! every node, so an end with one never has its partner in another part.
//!
//! An end without a partner may lead to one that was closed. The nodes are asked: only that with the address knows.

use crate::{AskedEnd, AskedEndFate, ClosedConnectionEnd, ConnectionEnd, EndName, OppositeEnd, PartIndex, PartnerEnd};
use std::collections::{HashMap, HashSet};

/// What is known of a part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PartReport {
    /// Its ends of connections that lead out of it.
    pub ends: Vec<ConnectionEnd>,
    /// What has become of the ends that were asked for, as far as its node has their addresses.
    pub found: Vec<AskedEnd>,
}

/// What is known of all ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing {
    /// For each part, the other ends of those that it has reported.
    pub others: Vec<Vec<OppositeEnd>>,
    /// For each part, the ends of its node that have been closed, though their other ends have not.
    pub closed: Vec<Vec<ClosedConnectionEnd>>,
    /// Ends that no part has, and for which the nodes are asked.
    pub asked: Vec<EndName>,
    /// A connection on which something is still on its way, or of which not enough is known.
    pub unsettled: Option<EndName>,
}

/// Pairs the ends that the parts have reported. `asked` are the ends for which the reports say what has become of them.
/// `are_full` says that nothing moves any more: then receive queues are emptied where something is on its way.
pub fn pair(reports: &[PartReport], asked: &[EndName], are_full: bool) -> Pairing {
    let known = Known::of(reports, asked);
    let mut pairing = Pairing {
        others: Vec::with_capacity(reports.len()),
        closed: vec![Vec::new(); reports.len()],
        asked: Vec::new(),
        unsettled: None,
    };
    for (part, report) in reports.iter().enumerate() {
        let mut others = Vec::with_capacity(report.ends.len());
        for end in &report.ends {
            let other = known.other(part, end);
            if !is_settled(end, &other) {
                pairing.unsettled.get_or_insert(end.name);
            }
            let name = end.name.of_other_end();
            if let Other::Closed { at, .. } = other {
                pairing.closed[at].push(ClosedConnectionEnd { name, is_accepted: !end.seems_accepted });
            }
            let is_loose = matches!(other, Other::Closed { .. } | Other::Unknown);
            pairing.asked.extend(is_loose.then_some(name));
            others.push(other.as_told(end, are_full));
        }
        pairing.others.push(others);
    }
    if pairing.unsettled.is_none() {
        pairing.asked.clear();
    }
    pairing
}

/// What all parts have reported, by the names of the ends.
struct Known<'a> {
    open: HashMap<EndName, Vec<(PartIndex, &'a ConnectionEnd)>>,
    found: HashMap<EndName, Vec<(PartIndex, &'a AskedEnd)>>,
    asked: HashSet<EndName>,
}

/// The other end of an end.
enum Other<'a> {
    Open(&'a ConnectionEnd),
    Closed { at: PartIndex, unsent: u64 },
    Unknown,
    Outside,
}

impl<'a> Known<'a> {
    fn of(reports: &'a [PartReport], asked: &[EndName]) -> Self {
        let asked = asked.iter().copied().collect();
        let mut known = Self { open: HashMap::new(), found: HashMap::new(), asked };
        for (part, report) in reports.iter().enumerate() {
            for end in &report.ends {
                known.open.entry(end.name).or_default().push((part, end));
            }
            for end in &report.found {
                known.found.entry(end.name).or_default().push((part, end));
            }
        }
        known
    }

    fn other(&self, part: PartIndex, end: &ConnectionEnd) -> Other<'a> {
        let name = end.name.of_other_end();
        if name.local.ip().is_loopback() {
            return Other::Outside;
        }
        let open = self.open.get(&name).into_iter().flatten().filter(|(other, _)| *other != part);
        // If several nodes have this address, nobody knows which one is meant.
        match open.collect::<Vec<_>>()[..] {
            [(_, other)] => return Other::Open(other),
            [] => {}
            _ => return Other::Outside,
        }
        match self.found.get(&name).map(Vec::as_slice) {
            Some([(at, AskedEnd { fate: AskedEndFate::Closed, .. })]) => Other::Closed { at: *at, unsent: 0 },
            Some([(at, AskedEnd { fate: AskedEndFate::Closing { unsent }, .. })]) => {
                Other::Closed { at: *at, unsent: *unsent }
            }
            Some(_) => Other::Outside,
            None if self.asked.contains(&name) => Other::Outside,
            None => Other::Unknown,
        }
    }
}

impl Other<'_> {
    /// Returns what the part of `end` hears of it.
    fn as_told(&self, end: &ConnectionEnd, are_full: bool) -> OppositeEnd {
        match self {
            Self::Open(other) => OppositeEnd::Open(PartnerEnd {
                unsent: other.unsent,
                has_ended: other.has_ended,
                has_connected: has_connected(other, end),
                empty_until: (are_full && is_full(end, other)).then(|| end.received.saturating_add(other.unsent)),
                is_to_refill: end.was_emptied && other.was_emptied && !agree(end, other),
            }),
            Self::Closed { unsent, .. } => OppositeEnd::Closed { unsent: *unsent },
            Self::Unknown => OppositeEnd::Unknown,
            Self::Outside => OppositeEnd::Outside,
        }
    }
}

/// Reports whether all is known of a connection, and nothing is on its way.
fn is_settled(end: &ConnectionEnd, other: &Other<'_>) -> bool {
    match other {
        Other::Open(other) => agree(end, other),
        Other::Closed { unsent, .. } => *unsent == 0 && end.unsent == 0 && end.has_received_all,
        Other::Unknown => false,
        // Its part refuses it, or lets it go.
        Other::Outside => true,
    }
}

/// Reports whether nothing is on its way between two ends: everything sent is acknowledged, and the counters of both ends
/// agree. The packet that opened the connection is acknowledged, and does not count as received.
fn agree(one: &ConnectionEnd, other: &ConnectionEnd) -> bool {
    if one.was_emptied || other.was_emptied {
        // What each has received is known once both queues are filled again.
        return one.was_refilled && other.was_refilled;
    }
    one.unsent == 0 && other.unsent == 0 && counters_agree(one, other)
}

/// Reports whether each has received what the other one knows to have arrived.
fn counters_agree(one: &ConnectionEnd, other: &ConnectionEnd) -> bool {
    let knows =
        |end: &ConnectionEnd, other: &ConnectionEnd| has_connected(end, other) || end.acknowledged == other.received;
    has_connected(one, other) != has_connected(other, one) && knows(one, other) && knows(other, one)
}

/// Reports whether something is on its way, and the receive queues of both ends can be emptied and filled again: nothing else
/// is on its way than what waits in their send queues, and both can send.
fn is_full(one: &ConnectionEnd, other: &ConnectionEnd) -> bool {
    let can = |end: &ConnectionEnd| end.may_be_emptied && !end.was_emptied;
    !agree(one, other) && can(one) && can(other) && counters_agree(one, other)
}

/// Reports whether `end` opened its connection to `other`, once nothing is on its way.
fn has_connected(end: &ConnectionEnd, other: &ConnectionEnd) -> bool {
    end.acknowledged.checked_sub(other.received) == Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "10.0.0.1:4000";
    const B: &str = "10.0.0.2:80";

    fn name(local: &str, remote: &str) -> EndName {
        EndName { local: local.parse().unwrap(), remote: remote.parse().unwrap() }
    }

    fn end(local: &str, remote: &str, acknowledged: u64, received: u64) -> ConnectionEnd {
        ConnectionEnd { acknowledged, received, ..ConnectionEnd::idle(name(local, remote)) }
    }

    /// Pairs the ends of parts, of which nothing else is known.
    fn pairing<const PARTS: usize>(ends: [Vec<ConnectionEnd>; PARTS]) -> Pairing {
        pair(&ends.map(|ends| PartReport { ends, found: Vec::new() }), &[], false)
    }

    #[test]
    fn the_ends_of_a_connection_find_each_other_and_know_who_connected() {
        let pairing = pairing([vec![end(A, B, 8, 100)], vec![end(B, A, 100, 7)]]);
        assert_eq!(pairing.unsettled, None);
        let other = |has_connected| {
            OppositeEnd::Open(PartnerEnd {
                unsent: 0,
                has_ended: false,
                has_connected,
                empty_until: None,
                is_to_refill: false,
            })
        };
        assert_eq!(pairing.others, [vec![other(false)], vec![other(true)]]);
    }

    #[test]
    fn what_is_on_its_way_is_not_settled() {
        let sending = ConnectionEnd { unsent: 5, ..end(A, B, 8, 100) };
        let lost = end(A, B, 9, 100);
        for one in [sending, lost] {
            let pairing = pairing([vec![one], vec![end(B, A, 100, 7)]]);
            assert_eq!(pairing.unsettled, Some(name(A, B)), "{one:?}");
        }
        let pairing = pairing([vec![end(A, B, 7, 100)], vec![end(B, A, 100, 7)]]);
        assert!(pairing.unsettled.is_some(), "one of them must have connected");
    }

    #[test]
    fn full_receive_queues_are_emptied_where_that_is_safe() {
        let until = |sending: ConnectionEnd, other: ConnectionEnd| {
            let ends = [vec![sending], vec![other]];
            let pairing = pair(&ends.map(|ends| PartReport { ends, found: Vec::new() }), &[], true);
            let until = |it: &OppositeEnd| if let OppositeEnd::Open(it) = it { it.empty_until } else { None };
            pairing.others.concat().iter().map(until).collect::<Vec<_>>()
        };
        let (full, empty) = (ConnectionEnd { unsent: 5, ..end(A, B, 8, 100) }, end(B, A, 100, 7));
        assert_eq!(until(full, empty), [Some(100), Some(12)], "without the packet that has opened the connection");
        let shut = ConnectionEnd { may_be_emptied: false, ..empty };
        let flying = ConnectionEnd { received: 6, ..empty };
        for (sending, other) in [(full, shut), (full, flying), (end(A, B, 8, 100), empty)] {
            assert_eq!(until(sending, other), [None, None], "{other:?}");
        }
    }

    #[test]
    fn queues_are_filled_again_once_both_are_empty() {
        // All has come, so that the counters agree.
        let ends = |is_refilled: [bool; 2]| {
            let end = |end, was_refilled| ConnectionEnd { was_emptied: true, was_refilled, ..end };
            [vec![end(end_of_a(), is_refilled[0])], vec![end(end_of_b(), is_refilled[1])]]
        };
        let refills = |pairing: &Pairing| {
            let refills = |it: &OppositeEnd| matches!(it, OppositeEnd::Open(it) if it.is_to_refill);
            pairing.others.concat().iter().map(refills).collect::<Vec<_>>()
        };
        let emptied = pairing(ends([false, false]));
        assert_eq!((emptied.unsettled, refills(&emptied)), (Some(name(A, B)), vec![true, true]));
        let half = pairing(ends([true, false]));
        assert_eq!((half.unsettled, refills(&half)), (Some(name(A, B)), vec![true, true]), "not all has fitted");
        assert_eq!(pairing(ends([true, true])).unsettled, None);
        let one = ConnectionEnd { was_emptied: true, ..end_of_a() };
        let alone = pairing([vec![one], vec![end_of_b()]]);
        assert_eq!((alone.unsettled, refills(&alone)), (Some(name(A, B)), vec![false, false]));
    }

    fn end_of_a() -> ConnectionEnd {
        end(A, B, 8, 100)
    }

    fn end_of_b() -> ConnectionEnd {
        end(B, A, 100, 7)
    }

    #[test]
    fn the_nodes_are_asked_for_an_end_that_no_part_has() {
        let pairing = pairing([vec![end(A, B, 8, 100)], vec![end("10.0.0.2:81", A, 100, 7)], vec![]]);
        assert_eq!(pairing.others, [vec![OppositeEnd::Unknown], vec![OppositeEnd::Unknown], vec![]]);
        assert_eq!(pairing.asked, [name(B, A), name(A, "10.0.0.2:81")]);
        assert_eq!(pairing.unsettled, Some(name(A, B)));
    }

    #[test]
    fn an_end_that_no_node_has_is_outside() {
        let reports = [PartReport { ends: vec![end(A, B, 8, 100)], found: vec![] }, PartReport::default()];
        assert_eq!(pair(&reports, &[name(B, A)], false).others[0], [OppositeEnd::Outside]);
    }

    #[test]
    fn an_end_whose_partner_was_closed_leads_there_once_it_has_received_all() {
        let of_parts = |fate, end| {
            let found = vec![AskedEnd { name: name(B, A), fate }];
            [PartReport { ends: vec![end], found: vec![] }, PartReport { ends: vec![], found }]
        };
        let received = ConnectionEnd { has_received_all: true, ..end(A, B, 8, 100) };
        let asked = [name(B, A)];
        let settled = pair(&of_parts(AskedEndFate::Closed, received), &asked, false);
        assert_eq!((settled.unsettled, &settled.others[0][..]), (None, &[OppositeEnd::Closed { unsent: 0 }][..]));
        assert_eq!(settled.closed, [vec![], vec![ClosedConnectionEnd { name: name(B, A), is_accepted: true }]]);
        let sending = ConnectionEnd { unsent: 1, ..received };
        let closing = AskedEndFate::Closing { unsent: 5 };
        for (fate, end) in
            [(closing, end(A, B, 8, 95)), (AskedEndFate::Closed, sending), (AskedEndFate::Closed, end(A, B, 8, 9))]
        {
            let pairing = pair(&of_parts(fate, end), &asked, false);
            assert_eq!((pairing.unsettled, &pairing.asked[..]), (Some(name(A, B)), &asked[..]), "{fate:?} {end:?}");
        }
        assert_eq!(pair(&of_parts(AskedEndFate::Outside, received), &asked, false).others[0], [OppositeEnd::Outside]);
    }

    #[test]
    fn loopback_addresses_of_two_nodes_are_two_addresses() {
        let (here, there) = ("127.0.0.1:4000", "127.0.0.1:80");
        let pairing = pairing([vec![end(here, there, 8, 100)], vec![end(there, here, 100, 7)]]);
        assert_eq!(pairing.others, [[OppositeEnd::Outside], [OppositeEnd::Outside]]);
    }

    #[test]
    fn an_address_that_two_nodes_have_is_not_believed() {
        let twice = || vec![end(B, A, 100, 7)];
        assert_eq!(pairing([vec![end(A, B, 8, 100)], twice(), twice()]).others[0], [OppositeEnd::Outside]);
    }
}
