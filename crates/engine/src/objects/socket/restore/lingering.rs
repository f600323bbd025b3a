//! Connections of the previous life that linger at a port of the job, in TIME-WAIT. The kernel lets nobody bind the
//! port for a minute, unless the program had set SO_REUSEADDR before they ended. A connection whose ends were both on
//! this machine has no late segments to wait for, so it may end at once.
//!
//! Its other end can end it without privileges. TIME-WAIT answers a SYN from there with an ACK. A connecting socket
//! answers that with a reset, and a reset ends TIME-WAIT (RFC 1337, section 2; `net.ipv4.tcp_rfc1337` prevents it if it
//! is 1). If that fails, the restart waits for the port.

use standfast_linux::abi;
use standfast_linux::proc::tcp_state::{LISTENING, TIME_WAIT};
use standfast_linux::proc::{Endpoint, TcpConnection};
use standfast_linux::sys::socket;
use std::io;
use std::os::fd::AsFd;

/// Ends the connections that keep a TCP socket from this address.
pub(super) fn end_lingering(address: &[u8]) {
    let (Some(wanted), Ok(all)) = (Endpoint::of(address), TcpConnection::all()) else { return };
    // A SYN to a port where another program listens would be a connection to it.
    if all.iter().any(|it| it.state == LISTENING && it.local.port == wanted.port) {
        return;
    }
    let lingering = all.iter().filter(|it| it.state == TIME_WAIT && wanted.serves(&it.local));
    lingering.for_each(|connection| _ = end(connection));
}

/// Takes the place of the connection's other end, and connects to it. The kernel refuses the address of another
/// machine.
fn end(connection: &TcpConnection) -> io::Result<()> {
    let family = if connection.local.address.is_ipv4() { abi::AF_INET } else { abi::AF_INET6 };
    let other_end = socket::create(family, abi::SOCK_STREAM, 0)?;
    socket::set_number(other_end.as_fd(), abi::SOL_SOCKET, abi::SO_REUSEADDR, 1)?;
    socket::bind(other_end.as_fd(), &connection.remote.to_address(family))?;
    // It does not block; on the loopback device the segments have mostly been exchanged when it returns.
    socket::connect(other_end.as_fd(), &connection.local.to_address(family))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    /// Returns a port at which a connection lingers that had no SO_REUSEADDR.
    fn lingering(address: &str) -> Vec<u8> {
        let listener = TcpListener::bind(address).unwrap();
        socket::set_number(listener.as_fd(), abi::SOL_SOCKET, abi::SO_REUSEADDR, 0).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "whoever closes first lingers");
        socket::name(listener.as_fd()).unwrap()
    }

    #[test]
    fn a_port_with_a_lingering_local_connection_can_be_freed() {
        let is_strict = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rfc1337").is_ok_and(|it| it.trim() == "1");
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(probe) = TcpListener::bind(address) else { continue };
            drop(probe);
            let port = lingering(address);
            let family = i32::from(u16::from_le_bytes([port[0], port[1]]));
            let bound = || {
                let fresh = socket::create(family, abi::SOCK_STREAM, 0)?;
                socket::set_number(fresh.as_fd(), abi::SOL_SOCKET, abi::SO_REUSEADDR, 1)?;
                socket::bind(fresh.as_fd(), &port)
            };
            assert_eq!(bound().unwrap_err().raw_os_error(), Some(abi::EADDRINUSE));
            let deadline = Instant::now() + Duration::from_secs(10);
            // On a busy machine the last segment of the connection, or of what ends it, may not have arrived yet. A
            // restart tries again as well.
            let freed = loop {
                end_lingering(&port);
                let freed = bound();
                if freed.is_ok() || Instant::now() > deadline {
                    break freed;
                }
            };
            assert!(freed.is_ok() || is_strict, "{address}: {freed:?}");
        }
    }
}
