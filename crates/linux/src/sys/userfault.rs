//! userfaultfd(2), only for asynchronous write protection, and to see which mappings are still the ones that they were.
//!
//! # Safety
//! Arguments of the ioctls are live during the call and have the layout of `linux/userfaultfd.h`.

use super::check;
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use standfast_core::PageRange;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Flags for userfaultfd(2): only faults in user mode, which needs no privilege; closed on exec.
pub const CREATION_FLAGS: u64 = USER_MODE_ONLY | libc::O_CLOEXEC as u64 | libc::O_NONBLOCK as u64;

const USER_MODE_ONLY: u64 = 1;
const API_VERSION: u64 = 0xaa;
/// `UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_WP_UNPOPULATED | UFFD_FEATURE_WP_ASYNC`
const FEATURES: u64 = 1 | 1 << 12 | 1 << 13 | 1 << 15;
/// `UFFD_FEATURE_PAGEFAULT_FLAG_WP`, Linux 5.7
const FEATURES_BEFORE: u64 = 1;
const MODE_WRITE_PROTECT: u64 = 1 << 1;
/// `_IOWR(0xaa, 0x3f, struct uffdio_api)`
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
/// `_IOWR(0xaa, 0x00, struct uffdio_register)`
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
/// `_IOR(0xaa, 0x01, struct uffdio_range)`
const UFFDIO_UNREGISTER: libc::c_ulong = 0x8010_aa01;

/// `_IOWR(0xaa, 0x06, struct uffdio_writeprotect)`
const UFFDIO_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;
const PROTECT: u64 = 1;
/// `_IOWR(0xaa, 0x04, struct uffdio_zeropage)`
const UFFDIO_ZEROPAGE: libc::c_ulong = 0xc020_aa04;

/// userfaultfd(2) with [`CREATION_FLAGS`]: makes a descriptor of this process's own address space.
pub fn create() -> io::Result<OwnedFd> {
    // SAFETY: a plain number. The descriptor has no effect on memory until ranges are registered with it.
    Ok(unsafe { userfaultfd(UserfaultfdFlags::from_bits_retain(CREATION_FLAGS as u32)) }?)
}

#[repr(C)]
struct WriteProtect {
    range: Range,
    mode: u64,
}

#[repr(C)]
struct ZeroPage {
    range: Range,
    mode: u64,
    done: i64,
}

#[repr(C)]
struct Api {
    version: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Range {
    start: u64,
    bytes: u64,
}

#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

impl Range {
    fn of(range: PageRange) -> Self {
        Self { start: range.start().get(), bytes: range.bytes() }
    }
}

/// UFFDIO_API: requests asynchronous write protection.
pub fn introduce(userfault: BorrowedFd<'_>) -> io::Result<()> {
    request(userfault, FEATURES)
}

/// UFFDIO_API: requests only that mappings can be registered. The first request may have failed.
pub fn introduce_for_marks(userfault: BorrowedFd<'_>) -> io::Result<()> {
    request(userfault, FEATURES_BEFORE)
}

fn request(userfault: BorrowedFd<'_>, features: u64) -> io::Result<()> {
    let mut api = Api { version: API_VERSION, features, ioctls: 0 };
    // SAFETY: `api` is live and of the layout that the request names.
    check(unsafe { libc::ioctl(userfault.as_raw_fd(), UFFDIO_API, &raw mut api) }.into()).map(drop)
}

/// UFFDIO_REGISTER for write protection: pages of these mappings can be protected from now on.
pub fn register(userfault: BorrowedFd<'_>, range: PageRange) -> io::Result<()> {
    let mut register = Register { range: Range::of(range), mode: MODE_WRITE_PROTECT, ioctls: 0 };
    // SAFETY: as above.
    check(unsafe { libc::ioctl(userfault.as_raw_fd(), UFFDIO_REGISTER, &raw mut register) }.into()).map(drop)
}

/// UFFDIO_UNREGISTER: restores the mappings to their earlier state.
pub fn unregister(userfault: BorrowedFd<'_>, range: PageRange) -> io::Result<()> {
    let mut range = Range::of(range);
    // SAFETY: as above.
    check(unsafe { libc::ioctl(userfault.as_raw_fd(), UFFDIO_UNREGISTER, &raw mut range) }.into()).map(drop)
}

/// UFFDIO_WRITEPROTECT: protects pages of a registered mapping, whatever their state.
pub fn protect(userfault: BorrowedFd<'_>, range: PageRange) -> io::Result<()> {
    write_protect(userfault, range, PROTECT)
}

/// UFFDIO_WRITEPROTECT: removes the protection, as a write would.
pub fn unprotect(userfault: BorrowedFd<'_>, range: PageRange) -> io::Result<()> {
    write_protect(userfault, range, 0)
}

/// UFFDIO_ZEROPAGE for a page that is in memory or swap: EEXIST if its mapping is registered, ENOENT if not.
pub fn put_zeros(userfault: BorrowedFd<'_>, page: PageRange) -> io::Result<()> {
    let mut zeros = ZeroPage { range: Range::of(page), mode: 0, done: 0 };
    // SAFETY: as above.
    check(unsafe { libc::ioctl(userfault.as_raw_fd(), UFFDIO_ZEROPAGE, &raw mut zeros) }.into()).map(drop)
}

fn write_protect(userfault: BorrowedFd<'_>, range: PageRange, mode: u64) -> io::Result<()> {
    let mut protect = WriteProtect { range: Range::of(range), mode };
    // SAFETY: as above.
    check(unsafe { libc::ioctl(userfault.as_raw_fd(), UFFDIO_WRITEPROTECT, &raw mut protect) }.into()).map(drop)
}
