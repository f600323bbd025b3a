//! Memory of another process: process_vm_readv(2), process_vm_writev(2), the PAGEMAP_SCAN ioctl.
//!
//! # Safety
//! Local vectors point to live slices; the kernel checks remote addresses in the other process.

use super::check;
use crate::Pid;
use standfast_core::{Address, PageRange};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The kernel's limit on vectors in one call (`UIO_MAXIOV`).
pub const VECTORS_MAX: usize = 1024;

/// One range of memory in the other process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Address of the first byte.
    pub start: Address,
    /// Length in bytes.
    pub bytes: usize,
}

fn vectors(remotes: &[Remote]) -> Vec<libc::iovec> {
    let vector =
        |remote: &Remote| libc::iovec { iov_base: remote.start.get() as usize as *mut _, iov_len: remote.bytes };
    remotes.iter().map(vector).collect()
}

/// process_vm_readv(2): fills `into` from the ranges, one after the other. Returns how many bytes were read.
pub fn read(pid: Pid, remotes: &[Remote], into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let there = vectors(remotes);
    // SAFETY: `local` describes `into`, which is live during the call; the kernel checks the remote side.
    let got = unsafe { libc::process_vm_readv(pid.get(), &local, 1, there.as_ptr(), there.len() as u64, 0) };
    Ok(check(got as i64)? as usize)
}

/// process_vm_writev(2): writes `from` to the ranges, one after the other. Returns how many bytes were written.
pub fn write(pid: Pid, remotes: &[Remote], from: &[u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let there = vectors(remotes);
    // SAFETY: `local` describes `from`, which is only read.
    let put = unsafe { libc::process_vm_writev(pid.get(), &local, 1, there.as_ptr(), there.len() as u64, 0) };
    Ok(check(put as i64)? as usize)
}

/// `struct page_region` of `linux/fs.h`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct PageRegion {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// The requested categories that all its pages have.
    pub categories: u64,
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_max: u64,
    pages_max: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// Page categories of PAGEMAP_SCAN.
pub mod category {
    /// The page has been written since it was write-protected, or was never protected.
    pub const WRITTEN: u64 = 1 << 1;
    /// The page belongs to a file (or shared memory), and is not anonymous.
    pub const FILE: u64 = 1 << 2;
    /// The page is in memory.
    pub const PRESENT: u64 = 1 << 3;
    /// The page is in swap.
    pub const SWAPPED: u64 = 1 << 4;
    /// The page is the kernel's page of zeros.
    pub const ZERO: u64 = 1 << 5;
    /// The page is, or is part of, a huge page mapped as one.
    pub const HUGE: u64 = 1 << 6;
    /// The page must not be touched (`MADV_GUARD_INSTALL`); Linux 6.15.
    pub const GUARD: u64 = 1 << 8;
}

/// The pages that a scan selects.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection {
    /// Categories none of which a page may have.
    pub none_of: u64,
    /// Categories all of which a page must have.
    pub all_of: u64,
    /// Categories of which a page must have at least one, unless this is empty.
    pub any_of: u64,
    /// As an alternative to `any_of`, categories one of which the page must lack; none of them may be in `none_of`.
    pub or_lacking: u64,
    /// Categories reported of the selected pages. Adjoining pages that differ in none of them form one region.
    pub reported: u64,
}

/// The PAGEMAP_SCAN ioctl (Linux 6.7). Fills `regions`; returns their number, and where the walk ended.
pub fn scan_pages(
    pagemap: BorrowedFd<'_>,
    range: PageRange,
    selection: Selection,
    regions: &mut [PageRegion],
) -> io::Result<(usize, Address)> {
    walk(pagemap, range, selection, Afterwards::Leave, regions)
}

/// Does the same, and write-protects the pages that it returns, reporting [`category::WRITTEN`] as it was before. EPERM
/// if the mapping is not registered with an asynchronous userfaultfd. Not for selections that pages without any content
/// can meet: the kernel would make page tables for all of the range.
pub fn scan_and_protect_pages(
    pagemap: BorrowedFd<'_>,
    range: PageRange,
    selection: Selection,
    regions: &mut [PageRegion],
) -> io::Result<(usize, Address)> {
    walk(pagemap, range, selection, Afterwards::Protect, regions)
}

/// The treatment of the pages that a scan returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    Leave,
    Protect,
}

fn walk(
    pagemap: BorrowedFd<'_>,
    range: PageRange,
    selection: Selection,
    afterwards: Afterwards,
    regions: &mut [PageRegion],
) -> io::Result<(usize, Address)> {
    /// `PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC`
    const PROTECT_AND_CHECK: u64 = 1 | 2;
    let flags = match afterwards {
        Afterwards::Leave => 0,
        Afterwards::Protect => PROTECT_AND_CHECK,
    };
    let mut arguments = ScanArguments {
        size: size_of::<ScanArguments>() as u64,
        flags,
        start: range.start().get(),
        end: range.end().get(),
        walk_end: 0,
        regions: regions.as_mut_ptr() as u64,
        regions_max: regions.len() as u64,
        pages_max: 0,
        inverted: selection.none_of | selection.or_lacking,
        all_of: selection.none_of | selection.all_of,
        any_of: selection.any_of | selection.or_lacking,
        returned: selection.reported,
    };
    // SAFETY: `arguments` and `regions` are live during the call and have the sizes that they state.
    let found = check(unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments) }.into())?;
    Ok((found as usize, Address::new(arguments.walk_end)))
}
