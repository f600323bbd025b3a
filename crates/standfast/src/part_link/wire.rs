//! What a part says at a meeting, and hears there, between the engine's form and that of the conversation.

use standfast_engine::{self as engine, CutReport, DistantEnd, EndAddresses, Meeting, Partner};
use standfast_format::manifest::Epoch;
use standfast_linux::proc::Endpoint;
use standfast_parts::{
    AskedEnd, AskedEndFate, ClosedConnectionEnd, ConnectionEnd, EndName, OppositeEnd, PartnerEnd, PartsEpoch,
};
use std::net::SocketAddr;

pub(super) fn epoch(PartsEpoch { number, cut }: PartsEpoch) -> Epoch {
    Epoch { number, cut }
}

/// What a part says at a meeting, in the form of the conversation.
pub(super) struct SaidAtMeeting {
    pub(super) ends: Vec<ConnectionEnd>,
    pub(super) found: Vec<AskedEnd>,
    pub(super) udp: Vec<SocketAddr>,
}

pub(super) fn report(report: &CutReport) -> SaidAtMeeting {
    SaidAtMeeting {
        ends: report.ends.iter().map(connection_end).collect(),
        found: report.found.iter().map(found_end).collect(),
        udp: report.udp.iter().copied().map(address).collect(),
    }
}

pub(super) fn meeting(
    others: &[OppositeEnd],
    asked: &[EndName],
    closed: &[ClosedConnectionEnd],
    is_settled: bool,
) -> Meeting {
    let closed =
        closed.iter().map(|end| engine::ClosedHere { addresses: addresses(end.name), is_accepted: end.is_accepted });
    Meeting {
        others: others.iter().map(|other| other_end(*other)).collect(),
        asked: asked.iter().map(|name| addresses(*name)).collect(),
        closed: closed.collect(),
        udp: Vec::new(),
        is_settled,
    }
}

fn connection_end(end: &DistantEnd) -> ConnectionEnd {
    ConnectionEnd {
        name: name(end.addresses),
        seems_accepted: end.seems_accepted,
        has_ended: end.has_ended,
        has_received_all: end.has_received_all,
        may_be_emptied: end.may_be_emptied,
        was_emptied: end.was_emptied,
        was_refilled: end.was_refilled,
        unsent: end.traffic.unsent,
        acknowledged: end.traffic.acknowledged,
        received: end.traffic.received,
    }
}

fn found_end(end: &engine::FoundEnd) -> AskedEnd {
    let fate = match end.fate {
        engine::EndFate::Closed => AskedEndFate::Closed,
        engine::EndFate::Closing { unsent } => AskedEndFate::Closing { unsent },
        engine::EndFate::Outside => AskedEndFate::Outside,
    };
    AskedEnd { name: name(end.addresses), fate }
}

fn other_end(other: OppositeEnd) -> engine::OtherEnd {
    match other {
        OppositeEnd::Open(PartnerEnd { unsent, has_ended, has_connected, empty_until, is_to_refill }) => {
            engine::OtherEnd::Open(Partner { unsent, has_ended, has_connected, empty_until, is_to_refill })
        }
        OppositeEnd::Closed { unsent } => engine::OtherEnd::Closed { unsent },
        OppositeEnd::Unknown => engine::OtherEnd::Unknown,
        OppositeEnd::Outside => engine::OtherEnd::Outside,
    }
}

fn name(addresses: EndAddresses) -> EndName {
    EndName { local: address(addresses.local), remote: address(addresses.remote) }
}

fn addresses(name: EndName) -> EndAddresses {
    EndAddresses { local: endpoint(name.local), remote: endpoint(name.remote) }
}

pub(super) fn address(endpoint: Endpoint) -> SocketAddr {
    SocketAddr::new(endpoint.address, endpoint.port)
}

pub(super) fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint { address: address.ip(), port: address.port() }
}
