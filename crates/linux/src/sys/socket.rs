//! Sockets: options, names, and messages, including those that carry descriptors.
//!
//! # Safety
//! Each block passes plain numbers, or addresses and lengths of live local buffers, to the call that it names.

use super::check;
use crate::Pid;
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, socket_with};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Room for the largest address of any family.
const ADDRESS_BYTES: usize = 128;
/// Room for control messages: the most descriptors that a message can carry (253), credentials, and others.
const CONTROL_BYTES: usize = 4096;
/// Maximum number of descriptors in one message (SCM_MAX_FD).
const DESCRIPTORS_MAX: usize = 253;

/// socket(2), with `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
pub fn create(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // No family has a number that is too large: the kernel refuses the largest one likewise.
    let family = AddressFamily::from_raw(u16::try_from(family).unwrap_or(u16::MAX));
    let kind = SocketType::from_raw(kind as u32);
    let protocol = NonZeroU32::new(protocol as u32).map(Protocol::from_raw);
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, protocol)?)
}

/// getsockopt(2): returns the value of an option, at most `bytes` long.
pub fn option(socket: BorrowedFd<'_>, level: i32, name: i32, bytes: usize) -> io::Result<Vec<u8>> {
    option_of(socket, level, name, vec![0u8; bytes])
}

/// Does the same for an option that reads its value first, as a parameter of the request.
pub fn option_of(socket: BorrowedFd<'_>, level: i32, name: i32, mut value: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut length = value.len() as libc::socklen_t;
    let (into, room) = (value.as_mut_ptr().cast(), &raw mut length);
    // SAFETY: both live, and the length is that of the buffer.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, into, room) }.into())?;
    value.truncate(length as usize);
    Ok(value)
}

/// getsockopt(2) of an option that is a number.
pub fn number(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let value = option(socket, level, name, size_of::<i32>())?;
    let bytes: [u8; 4] = value.as_slice().try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(i32::from_le_bytes(bytes))
}

/// `SO_COOKIE`: returns a number that no other socket of this network namespace has or will have.
pub fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::net::sockopt::socket_cookie(socket)?)
}

/// setsockopt(2).
pub fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let (from, length) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: `value` is live and has the length passed.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, from, length) }.into()).map(drop)
}

/// setsockopt(2) of an option that is a number.
pub fn set_number(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_option(socket, level, name, &value.to_le_bytes())
}

/// An address of any family, as the kernel keeps it.
struct Address<'a>(&'a [u8]);

// SAFETY: the pointer and the length are those of a live slice, and the kernel checks the content.
unsafe impl SocketAddrArg for Address<'_> {
    unsafe fn with_sockaddr<R>(&self, call: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R) -> R {
        call(self.0.as_ptr().cast(), self.0.len() as SocketAddrLen)
    }
}

/// bind(2).
pub fn bind(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    Ok(rustix::net::bind(socket, &Address(address))?)
}

/// connect(2).
pub fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    Ok(rustix::net::connect(socket, &Address(address))?)
}

/// getsockname(2): returns the socket's own address, as the kernel keeps it.
pub fn name(socket: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    address(|into, room| {
        // SAFETY: both point to live values, and the length is that of the buffer.
        unsafe { libc::getsockname(socket.as_raw_fd(), into, room) }
    })
}

/// getpeername(2): returns the address of the other side, or `None` if the socket is not connected.
pub fn peer_name(socket: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
    let found = address(|into, room| {
        // SAFETY: both point to live values, and the length is that of the buffer.
        unsafe { libc::getpeername(socket.as_raw_fd(), into, room) }
    });
    match found {
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Ok(None),
        found => found.map(Some),
    }
}

fn address(ask: impl Fn(*mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; ADDRESS_BYTES];
    let mut length = ADDRESS_BYTES as libc::socklen_t;
    check(ask(bytes.as_mut_ptr().cast(), &raw mut length).into())?;
    bytes.truncate(length as usize);
    Ok(bytes)
}

/// shutdown(2).
pub fn shut_down(socket: BorrowedFd<'_>, how: i32) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), how) }.into()).map(drop)
}

/// `SIOCOUTQ`: returns the bytes that have been sent and not been acknowledged (TCP), or the memory that they take up
/// (other families).
pub fn unsent_bytes(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes = 0i32;
    // SAFETY: `bytes` is live.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) }.into())?;
    Ok(bytes as usize)
}

/// Reports whether a datagram is being put together on a UDP socket (`MSG_MORE`, `UDP_CORK`). No option tells. A message
/// to port 0 that is only to be probed fails, except as a part of such a datagram: its address does not count then, and
/// nothing is added.
pub fn is_assembling(socket: BorrowedFd<'_>, family: i32) -> io::Result<bool> {
    const MSG_PROBE: SendFlags = SendFlags::from_bits_retain(0x10);
    // What has been sent and is still on its way takes up memory, too. What takes up none has begun no datagram, and a
    // probe would give a socket without a port one.
    if unsent_bytes(socket)? == 0 {
        return Ok(false);
    }
    // sockaddr_in6 of an address that is not that of an IPv4 host; sockaddr_in needs its beginning only.
    let mut nowhere = [0u8; size_of::<libc::sockaddr_in6>()];
    nowhere[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    nowhere[23] = 1;
    let flags = MSG_PROBE | SendFlags::MORE | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(rustix::net::sendto(socket, &[], flags, &Address(&nowhere)).is_ok())
}

/// A message that was read and left in the queue.
#[derive(Debug)]
pub struct Peeked {
    /// Its length, or the length of the buffer if the message is longer.
    pub bytes: usize,
    /// Whether the buffer was too short for it.
    pub is_cut: bool,
    /// The address of its sender; empty if there is none.
    pub from: Vec<u8>,
    /// Copies of the descriptors that it carries.
    pub descriptors: Vec<OwnedFd>,
    /// Process id and user of its sender, if the receiver has requested them.
    pub credentials: Option<(Pid, u32)>,
    /// Whether the kernel has joined several UDP datagrams into it (`UDP_GRO`).
    pub is_joined: bool,
}

/// recvmsg(2) with `MSG_PEEK` and without waiting: leaves the message in the queue. Returns `None` if there is none.
pub fn peek(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<Peeked>> {
    let mut from = vec![0u8; ADDRESS_BYTES];
    // u64 words, so that control messages are aligned.
    let mut control = [0u64; CONTROL_BYTES / 8];
    let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: a msghdr is plain data for which all zeros is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = from.as_mut_ptr().cast();
    message.msg_namelen = ADDRESS_BYTES as libc::socklen_t;
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: everything to which `message` points is live and has the length that it states.
    let received = check(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) } as i64);
    let bytes = match received {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        received => received? as usize,
    };
    let (mut descriptors, mut credentials, mut is_joined) = (Vec::new(), None, false);
    // SAFETY: the kernel has filled in control messages and their length; each is read within its own length.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            let length = (*header).cmsg_len - (data as usize - header as usize);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    let numbers = (0..length / 4).map(|place| data.cast::<i32>().add(place).read_unaligned());
                    descriptors.extend(numbers.map(|number| OwnedFd::from_raw_fd(number)));
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                    let sender = data.cast::<libc::ucred>().read_unaligned();
                    credentials = Some((Pid::new(sender.pid), sender.uid));
                }
                (libc::SOL_UDP, libc::UDP_GRO) => is_joined = true,
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(io::Error::other("a message carries more than there is room for"));
    }
    from.truncate(message.msg_namelen as usize);
    let is_cut = message.msg_flags & libc::MSG_TRUNC != 0;
    Ok(Some(Peeked { bytes, is_cut, from, descriptors, credentials, is_joined }))
}

/// sendmsg(2) without waiting: returns how many bytes were taken. An empty `to` means the peer.
pub fn send(socket: BorrowedFd<'_>, contents: &[u8], to: &[u8], with: &[BorrowedFd<'_>]) -> io::Result<usize> {
    assert!(with.len() <= DESCRIPTORS_MAX, "a message carries no more descriptors than the kernel lets it");
    let numbers: Vec<u8> = with.iter().flat_map(|descriptor| descriptor.as_raw_fd().to_ne_bytes()).collect();
    send_with(socket, contents, to, libc::SOL_SOCKET, libc::SCM_RIGHTS, &numbers)
}

/// Does the same with a datagram of the internet, from the address in `source`. That is a `struct sockaddr` of the
/// socket's own family.
pub fn send_from(socket: BorrowedFd<'_>, contents: &[u8], to: &[u8], source: &[u8]) -> io::Result<usize> {
    let short = || io::Error::from(io::ErrorKind::InvalidInput);
    let part = |from: usize, to: usize| source.get(from..to).ok_or_else(short);
    if part(0, 2)? == (libc::AF_INET as u16).to_ne_bytes() {
        // struct in_pktinfo: interface, source, destination.
        let information = [&[0; 4], part(4, 8)?, &[0; 4]].concat();
        return send_with(socket, contents, to, libc::IPPROTO_IP, libc::IP_PKTINFO, &information);
    }
    // struct in6_pktinfo: source, interface.
    let information = [part(8, 24)?, part(24, 28)?].concat();
    send_with(socket, contents, to, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &information)
}

/// Sends a message with a control message of this level and kind, unless `data` is empty.
fn send_with(
    socket: BorrowedFd<'_>,
    contents: &[u8],
    to: &[u8],
    level: i32,
    kind: i32,
    data: &[u8],
) -> io::Result<usize> {
    let mut control = [0u64; CONTROL_BYTES / 8];
    let mut piece = libc::iovec { iov_base: contents.as_ptr().cast_mut().cast(), iov_len: contents.len() };
    // SAFETY: a msghdr is plain data for which all zeros is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    if !to.is_empty() {
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len() as libc::socklen_t;
    }
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    if !data.is_empty() {
        assert!(data.len() <= CONTROL_BYTES / 2, "there is room for a header and the data");
        let length = data.len() as u32;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the buffer has room for a header and the data.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(length) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(length) as usize;
            libc::CMSG_DATA(header).copy_from_nonoverlapping(data.as_ptr(), data.len());
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: everything to which `message` points is live and has the length that it states; the call only reads it.
    check(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) } as i64).map(|bytes| bytes as usize)
}

/// The option that says which buffer sizes the program has chosen (Linux 5.14).
pub const SO_BUF_LOCK: i32 = 72;

/// `SO_BUF_LOCK`: reports whether the program has chosen the size of a receive buffer. Kernels before Linux 5.14 do not tell.
pub fn has_fixed_receive_buffer(socket: BorrowedFd<'_>) -> bool {
    const SOCK_RCVBUF_LOCK: i32 = 2;
    number(socket, libc::SOL_SOCKET, SO_BUF_LOCK).is_ok_and(|locks| locks & SOCK_RCVBUF_LOCK != 0)
}

/// Makes a TCP socket accept more data than it would by itself, up to `bytes`, as it does when its program reads much
/// at a time. It raises the limit from which on a reader wakes (`SO_RCVLOWAT`), which makes room, and restores it. A
/// child of ours makes both calls, so that the limit is restored even if we are killed in between.
pub fn make_room(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    let before = number(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT)?;
    let set = |value: i32| {
        let (from, length) = ((&raw const value).cast(), size_of::<i32>() as libc::socklen_t);
        // SAFETY: `value` is live.
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, from, length) }
    };
    // SAFETY: a plain clone without flags, and without a signal at its end that others might handle. The child makes
    // two calls on values that it has, and ends; it touches nothing that a lock of another thread might guard.
    match unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } {
        0 => {
            let raised = set(bytes);
            let lowered = set(before);
            // SAFETY: ends the child.
            unsafe { libc::_exit(raised | lowered) }
        }
        child => {
            let child = check(child)? as i32;
            match super::process::wait(Pid::new(child).main_thread(), 0)? {
                Some(0) => Ok(()),
                _ => Err(io::Error::other("the child that was to make room failed")),
            }
        }
    }
}

/// socket(2): opens a descriptor of the kernel's directory of sockets (`NETLINK_SOCK_DIAG`).
pub fn directory() -> io::Result<OwnedFd> {
    let protocol = Some(netlink::SOCK_DIAG);
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?)
}

/// recv(2) without waiting.
pub fn receive_at_once(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let (bytes, _) = rustix::net::recv(socket, into, RecvFlags::DONTWAIT)?;
    Ok(bytes)
}

/// recv(2): waits for a message.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let (bytes, _) = rustix::net::recv(socket, into, RecvFlags::empty())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// The third socket is of IPv6 and sends to an IPv4 host.
    #[test]
    fn a_datagram_under_assembly_is_detected_and_unchanged() {
        for (family, own, other) in [
            (libc::AF_INET, "127.0.0.1:0", "127.0.0.1:0"),
            (libc::AF_INET6, "[::1]:0", "[::1]:0"),
            (libc::AF_INET6, "[::]:0", "127.0.0.1:0"),
        ] {
            let (Ok(from), Ok(to)) = (UdpSocket::bind(own), UdpSocket::bind(other)) else { continue };
            let at = to.local_addr().unwrap();
            let at = if own == "[::]:0" { format!("[::ffff:127.0.0.1]:{}", at.port()) } else { at.to_string() };
            from.connect(at).unwrap();
            let asks = || is_assembling(from.as_fd(), family).unwrap();
            assert!(!asks());
            assert_eq!(rustix::net::send(&from, b"one ", SendFlags::MORE), Ok(4));
            assert!(asks() && asks(), "{own}");
            assert_eq!(rustix::net::send(&from, b"two", SendFlags::empty()), Ok(3));
            assert!(!asks());
            let mut room = [0; 16];
            assert_eq!(to.recv(&mut room).unwrap(), 7);
            assert_eq!(&room[..7], b"one two");
        }
    }

    #[test]
    fn a_socket_that_is_asked_for_its_datagram_gets_no_port() {
        let fresh = create(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
        assert!(!is_assembling(fresh.as_fd(), libc::AF_INET).unwrap());
        assert_eq!(name(fresh.as_fd()).unwrap()[2..4], [0, 0]);
    }
}
