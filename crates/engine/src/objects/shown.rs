//! One descriptor as the kernel shows it, before its meaning is known.

use crate::files::FileId;
use crate::taken_descriptors::CopiedDescriptors;
use standfast_linux::Pid;
use standfast_linux::proc::{self, DescriptorInformation, ShownLockKind};
use standfast_linux::sys::descriptors::{self, HeldDescriptor};
use standfast_linux::sys::process;
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::Arc;

/// Device nodes that mean the same to every process: null, zero, full, random, urandom, and the controlling terminal.
const DEVICES: [(u32, u32); 6] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0)];

/// A process that holds descriptors.
pub(super) struct Holder {
    pub(super) pid: Pid,
    process: OwnedFd,
    /// Copies of them, if they cannot be taken one by one.
    copies: Option<Arc<CopiedDescriptors>>,
}

impl Holder {
    pub(super) fn of(pid: Pid, copies: Option<Arc<CopiedDescriptors>>) -> io::Result<Self> {
        Ok(Self { pid, process: process::pidfd_open(pid)?, copies })
    }

    /// Returns one of its descriptors as one of our own.
    fn own(&self, number: i32) -> io::Result<OwnedFd> {
        match &self.copies {
            None => process::pidfd_getfd(self.process.as_fd(), number),
            Some(_) if self.pid == Pid::own() => descriptors::duplicate(number),
            Some(copies) => copies.get(&number).ok_or(io::ErrorKind::NotFound)?.try_clone(),
        }
    }

    /// Returns the numbers of its descriptors and where they lead, without asking any file system. If a running program
    /// closes one meanwhile, that one is left out.
    pub(super) fn links(&self) -> io::Result<Vec<(i32, Vec<u8>)>> {
        let numbers = proc::numbers(self.pid, "fd")?;
        Ok(numbers.into_iter().filter_map(|number| Some((number, self.link(number).ok()?))).collect())
    }

    /// Returns these of its descriptors, with the same exception; `holder` is its own place among the holders.
    pub(super) fn show(&self, holder: usize, links: Vec<(i32, Vec<u8>)>) -> Vec<Shown> {
        links.into_iter().filter_map(|(number, target)| self.show_link(holder, number, target).ok()).collect()
    }

    /// Returns one of its descriptors.
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
    /// Returns the inode that it leads to.
    pub(super) fn identity(&self) -> FileId {
        FileId::of(&self.file)
    }

    /// Reports whether two descriptors share an open file description, and so an offset and flags. If the kernel cannot
    /// compare, only what must be shared counts as shared. Nothing must be, so offsets are restored one by one.
    pub(super) fn is_same_file(&self, other: &Self, holders: &[Holder]) -> bool {
        let alike = self.identity() == other.identity() && self.target == other.target;
        // A socket has only one open file.
        if alike && self.file.file_type().is_socket() {
            return true;
        }
        let compared = || process::same_open_file(self.holding(holders), other.holding(holders));
        alike && compared().or_else(|_| self.shares_flags(other, holders)).unwrap_or(false)
    }

    /// Does the same by the flags of the open files of a frozen job, if the kernel may not be asked to compare.
    fn shares_flags(&self, other: &Self, holders: &[Holder]) -> io::Result<bool> {
        if [self, other].iter().any(|it| holders[it.holder].copies.is_none()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let [one, other] = [self, other].map(|it| it.own(holders));
        descriptors::share_flags(one?.as_fd(), other?.as_fd())
    }

    /// Returns the process that holds it, and its number there.
    pub(super) fn holding(&self, holders: &[Holder]) -> HeldDescriptor {
        HeldDescriptor { pid: holders[self.holder].pid, number: self.number }
    }

    /// Returns the same open file as a descriptor of our own.
    pub(super) fn own(&self, holders: &[Holder]) -> io::Result<OwnedFd> {
        holders[self.holder].own(self.number)
    }

    /// Returns a path at which the kernel leads to the same file, whatever has become of its name.
    pub(super) fn link(&self, holders: &[Holder]) -> String {
        format!("/proc/{}/fd/{}", holders[self.holder].pid, self.number)
    }

    pub(super) fn has_lease(&self) -> bool {
        self.information.locks.iter().any(|lock| lock.kind == ShownLockKind::Other)
    }

    /// Reports whether it is a regular file to which the kernel shows a path, valid or not.
    pub(super) fn is_file_of_a_tree(&self) -> bool {
        self.file.is_file() && self.target.starts_with(b"/")
    }

    /// Reports whether it is a regular file without a path.
    pub(super) fn is_nameless(&self) -> bool {
        self.file.nlink() == 0 || self.target.starts_with(b"/memfd:")
    }

    /// Reports whether it is a pidfd.
    pub(super) fn is_process_handle(&self) -> bool {
        self.target == b"anon_inode:[pidfd]" || self.target.starts_with(b"pidfd:")
    }

    pub(super) fn is_common_device(&self) -> bool {
        let number = self.file.rdev();
        // makedev(3) for these small numbers.
        let (major, minor) = ((number >> 8 & 0xfff) as u32, (number & 0xff) as u32);
        self.file.file_type().is_char_device() && DEVICES.contains(&(major, minor))
    }

    /// Describes it for people.
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
