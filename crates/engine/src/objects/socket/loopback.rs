//! Datagrams that were sent over the loopback interface and have not arrived yet. send(2) returns before they have: they may
//! wait in a queue of the processor (before Linux 6.5 until a thread of the kernel has its turn on a busy machine), or in one
//! of the interface (tc(8)). Each of these queues keeps its order. So a datagram of our own, sent last, arrives last.

use standfast_linux::abi;
use standfast_linux::on_each_cpu;
use standfast_linux::proc::Endpoint;
use standfast_linux::sys::{descriptors, socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const ARRIVAL_MAX: Duration = Duration::from_millis(500);
const ARRIVAL_PAUSE: Duration = Duration::from_micros(100);
/// The least number of looks: on a busy machine each may take as long as many pauses.
const SCANS_MIN: usize = 20;

/// Waits until all datagrams have arrived that were sent over the loopback interface before. On a machine without one there
/// are none.
///
/// # Errors
/// `TimedOut` if they take long.
pub(super) fn await_datagrams() -> io::Result<()> {
    match send_on_each_cpu() {
        Err(error) if matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::NetworkUnreachable) => {
            Ok(())
        }
        sent => sent,
    }
}

fn send_on_each_cpu() -> io::Result<()> {
    let own = socket::create(abi::AF_INET, abi::SOCK_DGRAM, 0)?;
    let any_port = Endpoint { address: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 0 };
    socket::bind(own.as_fd(), &any_port.to_address(abi::AF_INET))?;
    let name = socket::name(own.as_fd())?;
    on_each_cpu(|| {
        socket::send(own.as_fd(), &[0], &name, &[])?;
        let (deadline, mut scans) = (Instant::now() + ARRIVAL_MAX, 0);
        while descriptors::ready_events(own.as_fd(), abi::POLLIN)? == 0 {
            scans += 1;
            if scans > SCANS_MIN && Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(ARRIVAL_PAUSE);
        }
        socket::receive_at_once(own.as_fd(), &mut [0]).map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_has_arrived() {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        for number in 0..20 {
            receiver.send_to(&[number], receiver.local_addr().unwrap()).unwrap();
        }
        await_datagrams().unwrap();
        for number in 0..20 {
            let mut received = [0];
            receiver.recv(&mut received).unwrap();
            assert_eq!(received, [number]);
        }
    }
}
