//! The kernel's directory of sockets (sock_diag(7)): requests, and the parts of the answers common to all families.

use crate::sys::socket;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const HEADER_BYTES: usize = 16;
/// The kernel's messages are no longer than this.
const BUFFER_BYTES: usize = 1 << 16;
/// `struct inet_diag_msg`: its length, and the offset of the inode.
const INET_MESSAGE_BYTES: usize = 72;
const INET_INODE: usize = 68;
const INET_DIAG_SHUTDOWN: u16 = 8;

/// Asks for sockets, and calls `each` with the body of each message of the answer.
///
/// # Errors
/// When the kernel reports an error.
pub(crate) fn dump(request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let directory = socket::directory()?;
    // struct nlmsghdr: length, type, flags, sequence, port.
    let mut message = Vec::new();
    message.extend(((HEADER_BYTES + request.len()) as u32).to_le_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_le_bytes());
    message.extend(REQUEST_DUMP.to_le_bytes());
    message.extend([0; 8]);
    message.extend(request);
    socket::send(directory.as_fd(), &message, &[], &[])?;
    let mut buffer = vec![0u8; BUFFER_BYTES];
    loop {
        let bytes = socket::receive(directory.as_fd(), &mut buffer)?;
        if parse(&buffer[..bytes], &mut each)? {
            return Ok(());
        }
    }
}

/// Parses some messages of an answer. Returns whether the last one was among them.
fn parse(mut messages: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    while messages.len() >= HEADER_BYTES {
        let (length, kind) = (word(messages, 0).unwrap_or_default(), half(messages, 4).unwrap_or_default());
        let length = (length as usize).clamp(HEADER_BYTES, messages.len());
        let body = &messages[HEADER_BYTES..length];
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let error = word(body, 0).unwrap_or_default() as i32;
                return Err(io::Error::from_raw_os_error(-error));
            }
            _ => each(body),
        }
        messages = &messages[length.next_multiple_of(4).min(messages.len())..];
    }
    Ok(false)
}

/// Returns the attributes after the fixed part of a message: kind and value.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = half(rest, 0).zip(half(rest, 2))?;
        let length = (length as usize).clamp(4, rest.len());
        let value = &rest[4..length];
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        Some((kind, value))
    })
}

/// Returns, by inode, which directions of each UDP socket of this network namespace are shut down: 1 receiving, 2
/// sending.
///
/// # Errors
/// When the kernel reports an error.
pub fn udp_shut_down() -> io::Result<HashMap<u64, u8>> {
    let mut found = HashMap::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        // struct inet_diag_req_v2: family, protocol, extensions, padding, states, identity of one socket.
        let mut request = vec![family as u8, libc::IPPROTO_UDP as u8, 0, 0];
        request.extend(u32::MAX.to_le_bytes());
        request.resize(56, 0);
        dump(&request, |body| {
            let attributes = attributes(body.get(INET_MESSAGE_BYTES..).unwrap_or_default());
            let told = attributes.filter(|(kind, _)| *kind == INET_DIAG_SHUTDOWN).find_map(|(_, value)| value.first());
            found.extend(word(body, INET_INODE).map(u64::from).zip(told.copied()));
        })?;
    }
    Ok(found)
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn truncated_messages_are_skipped() {
        for length in 0..40u8 {
            let message = [length, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 9, 0, 0, 0];
            let cut = &message[..usize::from(length).min(message.len())];
            let is_last = parse(cut, &mut |body: &[u8]| assert!(attributes(body).count() <= 2));
            assert!(!is_last.unwrap());
        }
    }

    #[test]
    fn shut_down_directions_of_udp_sockets_are_read() {
        let inode =
            |socket: &OwnedFd| std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino();
        let bound = || OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap());
        let (open, shut) = (bound(), bound());
        // It is not connected, so the kernel returns an error, but shuts it down nevertheless.
        assert!(socket::shut_down(shut.as_fd(), libc::SHUT_WR).is_err());
        let told = udp_shut_down().unwrap();
        assert_eq!((told.get(&inode(&open)), told.get(&inode(&shut))), (Some(&0), Some(&2)));
    }
}
