//! Ring 2: takes descriptors of another process where pidfd_getfd(2) is forbidden, as by the seccomp profile that
//! containers usually have. The process sends them to us, by calls that are injected into it.
//!
//! ```text
//!  we                                   the process
//!  | socket, with a name of the kernel's |
//!  |                                     | socket(2): the lowest free number
//!  | <------------------- SCM_RIGHTS --- | sendmsg(2)
//!  | recvmsg(2)                          | close(2)
//! ```

use crate::inject::Call;
use crate::sys::{process, socket};
use crate::{ParasiteArea, Pid};
use standfast_core::Address;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;

/// Lengths of `struct msghdr`, `struct iovec` and `struct cmsghdr`.
const MESSAGE_BYTES: u64 = 56;
const PIECE_BYTES: u64 = 16;
const CONTROL_HEADER_BYTES: u64 = 16;
const KIND: u64 = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64;
const _: () = assert!(DescriptorPassage::BYTES_MAX <= ParasiteArea::OUTPUT_BYTES, "a message fits there");
const FLAGS: u64 = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u64;

/// A way for the descriptors of a process to this process. Each is for one message.
#[derive(Debug)]
pub struct DescriptorPassage {
    socket: OwnedFd,
    /// Its name, a `struct sockaddr_un`.
    name: Vec<u8>,
}

impl DescriptorPassage {
    /// Maximum number of descriptors in one message, so that it fits into the buffer of a parasite area.
    pub const DESCRIPTORS_MAX: usize = 200;
    /// Maximum length of [`Self::message`].
    pub const BYTES_MAX: usize = 1024;

    /// Reports whether there is no shorter way: whether pidfd_getfd(2) is forbidden. Checked only once.
    pub fn is_needed() -> bool {
        static SEEN: OnceLock<bool> = OnceLock::new();
        *SEEN.get_or_init(|| {
            let tried =
                process::pidfd_open(Pid::own()).and_then(|own| process::pidfd_getfd(own.as_fd(), own.as_raw_fd()));
            tried.is_err_and(|error| matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)))
        })
    }

    /// Opens our end.
    ///
    /// # Errors
    /// When the kernel allows no further socket.
    pub fn open() -> io::Result<Self> {
        let socket = socket::create(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
        // An address without a name asks the kernel for one that is free.
        socket::bind(socket.as_fd(), &(libc::AF_UNIX as u16).to_ne_bytes())?;
        let name = socket::name(socket.as_fd())?;
        Ok(Self { socket, name })
    }

    /// Returns what the process must have at this address to send these descriptors.
    ///
    /// # Panics
    /// When there are more than [`Self::DESCRIPTORS_MAX`].
    pub fn message(&self, at: Address, descriptors: &[i32]) -> Vec<u8> {
        assert!(descriptors.len() <= Self::DESCRIPTORS_MAX, "too many descriptors for one message");
        let numbers: Vec<u8> = descriptors.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let control_bytes = CONTROL_HEADER_BYTES + numbers.len() as u64;
        let piece = at.get() + MESSAGE_BYTES;
        let control = piece + PIECE_BYTES;
        let name = control + control_bytes.next_multiple_of(8);
        let name_bytes = self.name.len() as u64;
        // struct msghdr, struct iovec for one byte, which may be any, and struct cmsghdr.
        let level_and_kind = libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32;
        let words = [name, name_bytes, piece, 1, control, control_bytes, 0, name, 1, control_bytes, level_and_kind];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(numbers);
        bytes.resize((name - at.get()) as usize, 0);
        bytes.extend(&self.name);
        bytes
    }

    /// Returns the calls by which the process sends that message. `number` is the lowest that is free in it.
    pub fn calls(at: Address, number: i32) -> [Call; 3] {
        let number = number as u64;
        [
            Call { number: libc::SYS_socket, arguments: [libc::AF_UNIX as u64, KIND, 0, 0, 0, 0] },
            Call { number: libc::SYS_sendmsg, arguments: [number, at.get(), FLAGS, 0, 0, 0] },
            Call { number: libc::SYS_close, arguments: [number, 0, 0, 0, 0, 0] },
        ]
    }

    /// Returns the descriptors that the process has sent, in the same order.
    ///
    /// # Errors
    /// When it has sent none, or this process may not have more descriptors.
    pub fn receive(self) -> io::Result<Vec<OwnedFd>> {
        let received = socket::peek(self.socket.as_fd(), &mut [0])?;
        Ok(received.ok_or_else(|| io::Error::other("the process has sent nothing"))?.descriptors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn a_message_carries_descriptors_in_order() {
        let (reader, mut writer) = io::pipe().unwrap();
        let null = File::open("/dev/null").unwrap();
        let passage = DescriptorPassage::open().unwrap();
        let mut room = [0u64; DescriptorPassage::BYTES_MAX / 8];
        let at = Address::new(room.as_ptr() as u64);
        let message = passage.message(at, &[null.as_raw_fd(), reader.as_raw_fd()]);
        for (word, bytes) in room.iter_mut().zip(message.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        let sender = socket::create(libc::AF_UNIX, libc::SOCK_DGRAM, 0).unwrap();
        let [_, send, _] = DescriptorPassage::calls(at, sender.as_raw_fd());
        let [descriptor, header, flags, ..] = send.arguments;
        // SAFETY: the header is live, and all that it points to.
        assert_eq!(unsafe { libc::sendmsg(descriptor as i32, header as *const libc::msghdr, flags as i32) }, 1);
        let received = passage.receive().unwrap();
        writer.write_all(b"!").unwrap();
        let mut byte = [0];
        File::from(received.into_iter().nth(1).expect("two were sent")).read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"!");
    }

    #[test]
    fn the_longest_message_fits_into_a_parasite_area() {
        let passage = DescriptorPassage::open().unwrap();
        let numbers = vec![3; DescriptorPassage::DESCRIPTORS_MAX];
        assert!(passage.message(Address::new(4096), &numbers).len() <= DescriptorPassage::BYTES_MAX);
    }
}
