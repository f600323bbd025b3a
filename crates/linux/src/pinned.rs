//! Ring 2: detects writers that may change the memory of this process past its page tables, which write tracking cannot
//! see. Such a writer is a device, or the kernel on behalf of one, that has pinned pages and writes to them later.
//!
//! Pinning a page for writing removes its protection, so a later scan reports it as written; writes after *that* scan
//! are missed. The kernel reports how much memory is pinned (`VmPin`: RDMA, registered buffers of io_uring) but not
//! where. It does not count the memory of some devices (xpmem, KNEM, VFIO, video and graphics, AF_XDP), of which only
//! their open descriptors are known. A device that is not known to be harmless counts as a possible writer.
//!
//! Other writers are seen and not covered here: process_vm_writev(2), ptrace, futexes and everything else that writes
//! through the page tables, and devices that follow the page tables (KVM, RDMA on demand).

use crate::Pid;
use crate::proc::{Map, Status, link, numbers, read};
use rustix::fs::{major, minor};
use std::fs::metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Character devices that write to a process's memory only during a call: null, zero, full, random, urandom, kmsg.
const MEMORY_DEVICES: (u32, [u32; 6]) = (1, [3, 5, 7, 8, 9, 11]);
/// Terminals: the controlling one, and both sides of pseudo-terminals.
const TERMINALS: [std::ops::RangeInclusive<u32>; 2] = [4..=5, 128..=143];
const RING: &[u8] = b"anon_inode:[io_uring]";
const SOCKET: &[u8] = b"socket:";
const AF_XDP: i32 = 44;

/// Returns a description of a possible unseen writer to the memory of this process, or `None` if none is known.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn unseen_writer() -> io::Result<Option<String>> {
    let own = Pid::own();
    let pinned = Status::of(own)?.pinned_kib;
    if pinned > 0 {
        return Ok(Some(format!("{pinned} KiB are pinned for a device or for io_uring")));
    }
    for number in numbers(own, "fd")? {
        // Ignore a descriptor that another thread closes meanwhile.
        let Ok(target) = link(own, &format!("fd/{number}")) else { continue };
        if let Some(writer) = writer_behind(number, &target) {
            return Ok(Some(writer));
        }
    }
    // A closed descriptor may have left a mapping. The filter is cheap, since hardly any of some hundreds of lines is
    // suspect.
    let text = read(own, "maps")?;
    let is_suspect = |line: &&[u8]| [RING, b" /dev/"].iter().any(|part| line.windows(part.len()).any(|at| at == *part));
    let suspects: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(is_suspect).collect();
    let mappings = Map::parse(&suspects.join(&b'\n'))?;
    let writer = mappings.iter().find(|mapping| mapping.path == RING || is_device(&mapping.path));
    Ok(writer.map(|mapping| String::from_utf8_lossy(&mapping.path).into_owned()))
}

fn writer_behind(number: i32, target: &[u8]) -> Option<String> {
    let name = || String::from_utf8_lossy(target).into_owned();
    if target == RING {
        return Some(name());
    }
    if target.starts_with(SOCKET) {
        return (family(number) == Some(AF_XDP)).then(|| "an AF_XDP socket".to_owned());
    }
    let is_file = target.starts_with(b"/");
    let found = is_file.then(|| metadata(format!("/proc/self/fd/{number}")).ok()).flatten()?;
    (found.file_type().is_char_device() && !is_harmless(found.rdev())).then(name)
}

fn is_device(path: &[u8]) -> bool {
    let is_at = path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/") && !path.starts_with(b"/dev/zero");
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    is_at && metadata(path).is_ok_and(|found| found.file_type().is_char_device() && !is_harmless(found.rdev()))
}

fn is_harmless(device: u64) -> bool {
    let (major, minor) = (major(device), minor(device));
    (major == MEMORY_DEVICES.0 && MEMORY_DEVICES.1.contains(&minor)) || TERMINALS.iter().any(|all| all.contains(&major))
}

fn family(socket: i32) -> Option<i32> {
    let (mut family, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the value and its length are live during the call; the number may be any descriptor, or none.
    let asked = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut family).cast(), &raw mut length)
    };
    (asked == 0).then_some(family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_write_within_a_call_are_harmless() {
        for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"] {
            if let Ok(found) = metadata(device) {
                assert!(is_harmless(found.rdev()), "{device}");
            }
        }
        // uverbs0, xpmem and others of misc, nvidia0, renderD128, video0, vfio, mem.
        for (major, minor) in [(231, 192), (10, 120), (195, 0), (226, 128), (81, 0), (245, 0), (1, 1)] {
            assert!(!is_harmless(rustix::fs::makedev(major, minor)), "{major}:{minor}");
        }
    }
}
