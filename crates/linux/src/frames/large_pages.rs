//! Parts of a file in memory on large pages, if the kernel gives them (Linux 6.1; of the settings of transparent huge
//! pages only "deny" forbids it). For 512 MB this takes half the time of small pages. Entering large pages in page
//! tables, or taking them out again, costs hardly anything, against 100 to 170 ns for each small page (measured in a
//! virtual machine).
//!
//! # Safety
//! The kernel reserves address space wherever it has room, and mappings lie within it. The space reserved around them
//! is given back.

use crate::sys::check;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::ptr::{NonNull, null_mut};

/// Size of a large page of x86-64.
const LARGE_BYTES: usize = 2 << 20;

/// Maps a part of a file, aligned so that it can be on large pages. Offset and length are multiples of their size.
pub(super) fn map(file: &File, offset: u64, bytes: usize) -> io::Result<NonNull<u8>> {
    let reserved_bytes = bytes + LARGE_BYTES;
    let kind = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, anywhere.
    let reserved = unsafe { mmap_anonymous(null_mut(), reserved_bytes, ProtFlags::empty(), kind) }?;
    let before = reserved.addr().next_multiple_of(LARGE_BYTES) - reserved.addr();
    let (protection, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    // SAFETY: the place lies within the space that has just been reserved, and nothing uses the space around it.
    let mapped = unsafe {
        let place = reserved.byte_add(before);
        let mapped = mmap(place, bytes, protection, kind, file, offset);
        unmap(reserved, before);
        unmap(place.byte_add(bytes), LARGE_BYTES - before);
        mapped.inspect_err(|_| unmap(place, bytes))?
    };
    Ok(NonNull::new(mapped.cast()).expect("the kernel maps nothing at zero unasked"))
}

/// Takes memory for a part of a file that nothing maps yet, and extends the file to the end of the part if it is
/// shorter.
///
/// # Errors
/// If there are no large pages, now or at all; a part of the memory may have been taken then.
pub(super) fn take(file: &File, offset: u64, bytes: usize) -> io::Result<()> {
    file.set_len(file.metadata()?.len().max(offset + bytes as u64))?;
    // The kernel collapses small pages into a large one. At least one of them must be present; the others are zeros.
    let mut firsts = (0..bytes).step_by(LARGE_BYTES).map(|at| offset + at as u64);
    firsts.try_for_each(|at| file.write_all_at(&[0], at))?;
    let mapped = map(file, offset, bytes)?.as_ptr().cast();
    // SAFETY: the mapping has just been made, and nothing else knows of it.
    unsafe {
        // rustix does not have this advice.
        let done = check(libc::madvise(mapped, bytes, libc::MADV_COLLAPSE).into());
        unmap(mapped, bytes);
        done.map(drop)
    }
}

/// Unmaps memory. If the kernel would have to divide a mapping and this process has too many, the memory stays mapped.
///
/// # Safety
/// Nothing uses the memory mapped there.
pub(super) unsafe fn unmap(place: *mut c_void, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller promises it.
        let _ = unsafe { munmap(place, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::tests::open_again;
    use crate::frames::{BYTES_MAPPED, FrameFile};
    use std::path::Path;

    fn file(path: &Path) -> File {
        File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }

    #[test]
    fn frames_use_large_pages_if_the_kernel_provides_them() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        if take(&file(&folder.path().join("tried")), 0, BYTES_MAPPED).is_err() {
            return;
        }
        let path = folder.path().join("frames");
        let mut frames = FrameFile::open(&path).unwrap();
        frames.grow().unwrap();
        frames.write(1, &[7; 4096]);
        drop(frames);
        let frames = open_again(&path);
        assert_eq!((frames.frame(0), frames.frame(1)), (&[0; 4096], &[7; 4096]));
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let of_frames = maps.split_once(path.to_str().unwrap()).expect("it is mapped").1;
        let entered = of_frames.lines().find_map(|line| line.strip_prefix("ShmemPmdMapped:")).unwrap();
        assert_eq!(entered.trim(), "4096 kB", "both large pages are entered as such");
    }

    #[test]
    fn a_file_is_made_longer_and_never_shorter() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = file(&folder.path().join("frames"));
        let length = || file.metadata().unwrap().len() as usize;
        let _ = take(&file, BYTES_MAPPED as u64, BYTES_MAPPED);
        assert_eq!(length(), 2 * BYTES_MAPPED);
        let _ = take(&file, 0, BYTES_MAPPED);
        assert_eq!(length(), 2 * BYTES_MAPPED);
    }
}
