//! Strategies that make sockets.

use super::bytes;
use proptest::prelude::*;
use standfast_format::records::*;

prop_compose! {
    pub(super) fn closed_end()(name in bytes(), peer in bytes(), is_accepted in any::<bool>()) -> ClosedEnd {
        ClosedEnd { name, peer, is_accepted }
    }
}

prop_compose! {
    pub(super) fn socket()(
        [name, peer, value, contents] in [bytes(), bytes(), bytes(), bytes()],
        (family, kind, protocol, shut_down) in any::<(i32, i32, i32, u32)>(),
        (number, sender) in any::<(u32, Option<u32>)>(),
        state in 0..10,
    ) -> Socket {
        let state = match state {
            0 => SocketState::Unconnected,
            1 => SocketState::Listening { backlog: number },
            2 => SocketState::Paired { peer: number },
            3 => SocketState::PeerClosed { peer },
            4 => SocketState::Waiting { listener: number, place: number },
            5 => SocketState::Towards { address: peer, peer: sender },
            6 => SocketState::Reset,
            7 => SocketState::Ended,
            8 => SocketState::Connecting { peer },
            _ => SocketState::Distant { peer, is_accepted: number & 1 != 0, has_peer_ended: number & 2 != 0, held_back: sender.map(u64::from) },
        };
        let credentials = sender.map(|process| Credentials { process });
        let (error, opened_with, from) = (sender.map(|_| family), sender, sender.map(|_| value.clone()));
        let received = vec![SocketMessage { contents, sender, open_files: vec![number], credentials, from }];
        let options = vec![SocketOption { level: family, name: kind, value }];
        Socket { family, kind, protocol, name, file_mode: sender, state, options, shut_down, received, error, opened_with }
    }
}
