//! The room that stays free in the send queues of connections between parts. A checkpoint may have to empty both queues of a
//! connection, and then what was in them must fit again. How much they take differs by some percent from time to time, with the
//! sizes of the packets. So a program may leave half as much unsent as its queue takes (TCP_NOTSENT_LOWAT). What is sent and not
//! yet acknowledged does not count: the network is as busy as before. It may be sent again after a receive queue has dropped it,
//! so that a smaller reserve can be used up.

use standfast_linux::abi;
use standfast_linux::sys::socket;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

/// The largest size of a send queue, in bytes, is the last of these numbers.
const SIZES: &str = "/proc/sys/net/ipv4/tcp_wmem";
/// The part of the send queue that the program may fill with what is unsent: one in this many.
const FILLED: i64 = 2;
/// As if there were no limit (`u32::MAX`).
const UNLIMITED: i32 = -1;

/// How much a program may leave unsent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnsentLimit {
    bytes: i32,
}

impl UnsentLimit {
    /// Returns the limit of this node.
    pub(super) fn of_node() -> io::Result<Self> {
        let sizes = fs::read_to_string(SIZES)?;
        Self::beneath(&sizes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{SIZES} is {sizes:?}")))
    }

    fn beneath(sizes: &str) -> Option<Self> {
        let largest: i64 = sizes.split_whitespace().last()?.parse().ok()?;
        Some(Self { bytes: (largest / FILLED).try_into().ok()? })
    }

    /// Sets it, unless the program has a lower limit.
    pub(super) fn set(self, own: BorrowedFd<'_>) -> io::Result<()> {
        let now = socket::number(own, abi::IPPROTO_TCP, abi::TCP_NOTSENT_LOWAT)?;
        // 0 stands for the limit of the system, which is usually none.
        if now <= 0 || now > self.bytes {
            socket::set_number(own, abi::IPPROTO_TCP, abi::TCP_NOTSENT_LOWAT, self.bytes)?;
        }
        Ok(())
    }

    /// Lifts the limit of a connection. Returns what it was.
    pub(super) fn lift(own: BorrowedFd<'_>) -> io::Result<Self> {
        let bytes = socket::number(own, abi::IPPROTO_TCP, abi::TCP_NOTSENT_LOWAT)?;
        socket::set_number(own, abi::IPPROTO_TCP, abi::TCP_NOTSENT_LOWAT, UNLIMITED)?;
        Ok(Self { bytes })
    }

    /// Sets what it was.
    pub(super) fn set_again(self, own: BorrowedFd<'_>) -> io::Result<()> {
        socket::set_number(own, abi::IPPROTO_TCP, abi::TCP_NOTSENT_LOWAT, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    fn filled(stream: &mut TcpStream) -> usize {
        let mut bytes = 0;
        while let Ok(written) = stream.write(&[0; 1 << 16]) {
            bytes += written;
        }
        bytes
    }

    #[test]
    fn a_program_leaves_room_that_is_there_when_the_limit_is_lifted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _other = listener.accept().unwrap();
        own.set_nonblocking(true).unwrap();
        let limit = UnsentLimit { bytes: 100_000 };
        limit.set(own.as_fd()).unwrap();
        filled(&mut own);
        // What was on its way has arrived.
        while socket::unsent_bytes(own.as_fd()).unwrap() > 200_000 || filled(&mut own) > 0 {}
        assert_eq!(UnsentLimit::lift(own.as_fd()).unwrap(), limit);
        assert!(filled(&mut own) > 0, "no room was left");
        limit.set_again(own.as_fd()).unwrap();
        assert_eq!(filled(&mut own), 0);
    }

    #[test]
    fn a_lower_limit_of_the_program_stays() {
        let own = socket::create(abi::AF_INET, abi::SOCK_STREAM, 0).unwrap();
        let now = || socket::number(own.as_fd(), abi::IPPROTO_TCP, abi::TCP_NOTSENT_LOWAT).unwrap();
        let limit = UnsentLimit::of_node().unwrap();
        limit.set(own.as_fd()).unwrap();
        assert_eq!(now(), limit.bytes);
        socket::set_number(own.as_fd(), abi::IPPROTO_TCP, abi::TCP_NOTSENT_LOWAT, 1000).unwrap();
        limit.set(own.as_fd()).unwrap();
        assert_eq!(now(), 1000);
    }

    #[test]
    fn half_of_the_largest_send_queue_stays_free() {
        assert_eq!(UnsentLimit::beneath("4096\t16384\t4194304\n"), Some(UnsentLimit { bytes: 2_097_152 }));
        assert_eq!(UnsentLimit::beneath("4096 16384 many"), None);
    }
}
