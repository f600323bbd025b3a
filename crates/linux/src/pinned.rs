//! Ring 2: whether somebody may write to the memory of this process past its page tables, which write tracking cannot see:
//! a device, or the kernel on behalf of one, that has pinned pages beforehand and writes to them later.
//!
//! To pin a page for writing takes its protection off, so a look after that finds it written; what is written after *that* look
//! is what is missed. The kernel says how much memory is pinned (`VmPin`: RDMA, registered buffers of io_uring) and not where,
//! and of some devices it does not count it (xpmem, KNEM, VFIO, video and graphics, AF_XDP): of these it is known only that they
//! are open. A device that is not known to be harmless counts as one that may.
//!
//! Not here, since they are seen: process_vm_writev(2), ptrace, futexes and everything else that writes by way of the page
//! tables; devices that follow the page tables (KVM, RDMA on demand).

use crate::proc::{Map, Status, link, numbers, read};
use std::fs::metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Character devices that write to nobody's memory but within a call: null, zero, full, random, urandom, kmsg.
const MEMORY_DEVICES: (u32, [u32; 6]) = (1, [3, 5, 7, 8, 9, 11]);
/// Terminals: one's own, and both sides of pseudo-terminals.
const TERMINALS: [std::ops::RangeInclusive<u32>; 2] = [4..=5, 128..=143];
const RING: &[u8] = b"anon_inode:[io_uring]";
const SOCKET: &[u8] = b"socket:";
const AF_XDP: i32 = 44;

/// Who may write to memory of this process unseen; `None` where nobody is known to.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn unseen_writer() -> io::Result<Option<String>> {
    let own = std::process::id() as i32;
    let pinned = Status::of(own)?.pinned_kib;
    if pinned > 0 {
        return Ok(Some(format!("{pinned} KiB are pinned for a device or for io_uring")));
    }
    for number in numbers(own, "fd")? {
        // One that another thread closes meanwhile is none.
        let Ok(target) = link(own, &format!("fd/{number}")) else { continue };
        if let Some(writer) = writer_behind(number, &target) {
            return Ok(Some(writer));
        }
    }
    // Of what is closed a mapping may be left. Of some hundreds of lines hardly any is worth more than a glance.
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
    let (major, minor) = (libc::major(device), libc::minor(device));
    (major == MEMORY_DEVICES.0 && MEMORY_DEVICES.1.contains(&minor)) || TERMINALS.iter().any(|all| all.contains(&major))
}

fn family(socket: i32) -> Option<i32> {
    let (mut family, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the value and its length live through the call; the number may be that of anything, or of nothing.
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
        // uverbs0, xpmem and other ones of misc, nvidia0, renderD128, video0, vfio, mem.
        for (major, minor) in [(231, 192), (10, 120), (195, 0), (226, 128), (81, 0), (245, 0), (1, 1)] {
            assert!(!is_harmless(libc::makedev(major, minor)), "{major}:{minor}");
        }
    }
}
