//! One descriptor as the kernel shows it, before anybody knows what it means.

use crate::files::FileId;
use standfast_linux::proc::{self, DescriptorInformation, ShownLockKind};
use standfast_linux::sys::descriptors::HeldDescriptor;
use standfast_linux::sys::process;
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Device nodes that mean the same to everybody: null, zero, full, random, urandom, and one's own terminal.
const DEVICES: [(u32, u32); 6] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0)];

/// A process that holds descriptors.
pub(super) struct Holder {
    pub(super) pid: i32,
    process: OwnedFd,
}

impl Holder {
    pub(super) fn of(pid: i32) -> io::Result<Self> {
        Ok(Self { pid, process: process::pidfd_open(pid)? })
    }

    /// The numbers of its descriptors and where they lead, which no file system is asked for. One that a running program
    /// closes while it is looked at is left out.
    pub(super) fn links(&self) -> io::Result<Vec<(i32, Vec<u8>)>> {
        let numbers = proc::numbers(self.pid, "fd")?;
        Ok(numbers.into_iter().filter_map(|number| Some((number, self.link(number).ok()?))).collect())
    }

    /// These of its descriptors; `holder` is its own place among the holders. As above.
    pub(super) fn show(&self, holder: usize, links: Vec<(i32, Vec<u8>)>) -> Vec<Shown> {
        links.into_iter().filter_map(|(number, target)| self.show_link(holder, number, target).ok()).collect()
    }

    /// One of its descriptors.
    pub(super) fn show_one(&self, holder: usize, number: i32) -> io::Result<Shown> {
        self.show_link(holder, number, self.link(number)?)
    }

    fn link(&self, number: i32) -> io::Result<Vec<u8>> {
        proc::link(self.pid, &format!("fd/{number}"))
    }

    fn show_link(&self, holder: usize, number: i32, target: Vec<u8>) -> io::Result<Shown> {
        Ok(Shown {
            holder,
            number,
            target,
            file: std::fs::metadata(format!("/proc/{}/fd/{number}", self.pid))?,
            information: DescriptorInformation::of(self.pid, number)?,
        })
    }
}

/// One descriptor as the kernel shows it.
pub(super) struct Shown {
    /// Place of the process that holds it.
    pub(super) holder: usize,
    pub(super) number: i32,
    pub(super) target: Vec<u8>,
    pub(super) file: Metadata,
    pub(super) information: DescriptorInformation,
}

impl Shown {
    /// Which inode it leads to.
    pub(super) fn identity(&self) -> FileId {
        FileId::of(&self.file)
    }

    /// Whether two descriptors share an open file description, and so an offset and flags. Where the kernel cannot
    /// compare, only what must be shared to be right counts: nothing does, and offsets are restored one by one.
    pub(super) fn is_same_file(&self, other: &Self, holders: &[Holder]) -> bool {
        let alike = self.identity() == other.identity() && self.target == other.target;
        // A socket has one open file only.
        if alike && self.file.file_type().is_socket() {
            return true;
        }
        alike && process::same_open_file(self.holding(holders), other.holding(holders)).unwrap_or(false)
    }

    /// The process that holds it, and its number there.
    pub(super) fn holding(&self, holders: &[Holder]) -> HeldDescriptor {
        HeldDescriptor { pid: holders[self.holder].pid, number: self.number }
    }

    /// The same open file as a descriptor of our own.
    pub(super) fn own(&self, holders: &[Holder]) -> io::Result<OwnedFd> {
        process::pidfd_getfd(holders[self.holder].process.as_fd(), self.number)
    }

    /// Where the kernel leads to the same file, whatever has become of its name.
    pub(super) fn link(&self, holders: &[Holder]) -> String {
        format!("/proc/{}/fd/{}", holders[self.holder].pid, self.number)
    }

    pub(super) fn has_lease(&self) -> bool {
        self.information.locks.iter().any(|lock| lock.kind == ShownLockKind::Other)
    }

    /// Whether it is a regular file to which the kernel shows a path, valid or not.
    pub(super) fn is_file_of_a_tree(&self) -> bool {
        self.file.is_file() && self.target.starts_with(b"/")
    }

    /// Whether no path leads to a regular file.
    pub(super) fn is_nameless(&self) -> bool {
        self.file.nlink() == 0 || self.target.starts_with(b"/memfd:")
    }

    /// Whether it is a pidfd.
    pub(super) fn is_process_handle(&self) -> bool {
        self.target == b"anon_inode:[pidfd]" || self.target.starts_with(b"pidfd:")
    }

    pub(super) fn is_common_device(&self) -> bool {
        let number = self.file.rdev();
        // makedev(3) for the small numbers concerned.
        let (major, minor) = ((number >> 8 & 0xfff) as u32, (number & 0xff) as u32);
        self.file.file_type().is_char_device() && DEVICES.contains(&(major, minor))
    }

    /// What it is, for people.
    pub(super) fn describe(&self, holders: &[Holder]) -> String {
        let target = String::from_utf8_lossy(&self.target).into_owned();
        if self.file.file_type().is_socket() {
            let kind = self.own(holders).and_then(|own| process::socket_kind(own.as_fd()));
            return match kind {
                Ok((1, _)) => "unix socket".to_owned(),
                Ok((2 | 10, 1)) => "TCP socket".to_owned(),
                Ok((2 | 10, 2)) => "UDP socket".to_owned(),
                Ok((16, _)) => "netlink socket".to_owned(),
                _ => target,
            };
        }
        let anonymous = target.strip_prefix("anon_inode:").map(|name| name.trim_matches(['[', ']']).to_owned());
        anonymous.unwrap_or(if self.file.is_dir() { format!("directory {target}") } else { target })
    }
}
