//! Files in memory, and the parts of files that hold data: lseek(2) with SEEK_DATA and SEEK_HOLE, seals, huge pages.

use rustix::fs::{
    MemfdFlags, SealFlags, SeekFrom, Timespec, Timestamps, UTIME_OMIT, fstat, fstatfs, memfd_create, seek,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;

/// `F_SEAL_SEAL`: no more seals.
pub const SEAL_SEAL: u32 = SealFlags::SEAL.bits();
/// `F_SEAL_EXEC`: the permission to execute cannot be changed (Linux 6.3).
pub const SEAL_EXEC: u32 = 0x20;
/// `F_SEAL_FUTURE_WRITE`: writes are possible only through mappings that already exist.
pub const SEAL_FUTURE_WRITE: u32 = SealFlags::FUTURE_WRITE.bits();

/// The kind of a file's file system, which determines the source of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// `/proc`: the kernel makes the contents when they are read.
    Processes,
    /// `/sys`, control groups: likewise.
    Devices,
    /// debugfs, tracefs, securityfs and the like: likewise, and each open file may have state of its own.
    Inner,
    /// Any other: the writers of the file make the contents.
    Ordinary,
}

impl FileSystem {
    /// Returns the kind for an open file.
    pub fn of(file: BorrowedFd<'_>) -> io::Result<Self> {
        const CONFIGFS_MAGIC: i64 = 0x6265_6570;
        Ok(match fstatfs(file)?.f_type {
            libc::PROC_SUPER_MAGIC => Self::Processes,
            libc::SYSFS_MAGIC | libc::CGROUP_SUPER_MAGIC | libc::CGROUP2_SUPER_MAGIC => Self::Devices,
            libc::DEBUGFS_MAGIC
            | libc::TRACEFS_MAGIC
            | libc::SECURITYFS_MAGIC
            | libc::SELINUX_MAGIC
            | CONFIGFS_MAGIC => Self::Inner,
            _ => Self::Ordinary,
        })
    }
}

/// Reports whether a file is on a file system of this machine. There, looking up a name costs about a microsecond, and
/// writes of other processes show at once. Neither holds on a network file system, or on one that a process serves.
pub fn is_local(file: BorrowedFd<'_>) -> io::Result<bool> {
    const EXT4_MAGIC: i64 = 0xef53;
    const XFS_MAGIC: i64 = 0x5846_5342;
    const BTRFS_MAGIC: i64 = 0x9123_683e;
    const OVERLAY_MAGIC: i64 = 0x794c_7630;
    const F2FS_MAGIC: i64 = 0xf2f5_2010;
    const ZFS_MAGIC: i64 = 0x2fc1_2fc1;
    const BCACHEFS_MAGIC: i64 = 0xca45_1a4e;
    Ok(matches!(
        fstatfs(file)?.f_type,
        EXT4_MAGIC
            | XFS_MAGIC
            | BTRFS_MAGIC
            | OVERLAY_MAGIC
            | libc::TMPFS_MAGIC
            | F2FS_MAGIC
            | ZFS_MAGIC
            | BCACHEFS_MAGIC
    ))
}

/// Returns the offset of the first byte from `offset` on that may be data, or `None` if only a hole follows. Moves the
/// position of the open file description.
pub fn seek_data(file: BorrowedFd<'_>, offset: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(offset)) {
        Err(Errno::NXIO) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Returns the offset of the first byte from `offset` on that is in a hole; the end of the file counts as one. Also
/// moves the position.
pub fn seek_hole(file: BorrowedFd<'_>, offset: u64) -> io::Result<u64> {
    Ok(seek(file, SeekFrom::Hole(offset))?)
}

/// futimens(2): sets the time of the last modification, in nanoseconds since 1970, and no other time.
pub fn set_modified(file: BorrowedFd<'_>, nanoseconds: i64) -> io::Result<()> {
    const SECOND: i64 = 1_000_000_000;
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let (tv_sec, tv_nsec) = (nanoseconds.div_euclid(SECOND), nanoseconds.rem_euclid(SECOND));
    let times = Timestamps { last_access, last_modification: Timespec { tv_sec, tv_nsec } };
    Ok(rustix::fs::futimens(file, &times)?)
}

/// `F_GET_SEALS`.
pub fn seals(file: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(rustix::fs::fcntl_get_seals(file)?.bits())
}

/// `F_ADD_SEALS`.
pub fn add_seals(file: BorrowedFd<'_>, seals: u32) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, SealFlags::from_bits_retain(seals))?)
}

/// Reports whether a file is a message queue of POSIX (`mq_open(3)`).
pub fn is_message_queue(file: BorrowedFd<'_>) -> io::Result<bool> {
    const MQUEUE_MAGIC: i64 = 0x1980_0202;
    Ok(fstatfs(file)?.f_type == MQUEUE_MAGIC)
}

/// Reports whether a file is in memory (tmpfs): pages that are not present are zeros, or in swap.
pub fn is_in_memory(file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(fstatfs(file)?.f_type == libc::TMPFS_MAGIC)
}

/// Reports whether the first write through a mapping to a clean page of a file sets the file's times. This holds for
/// file systems on a disk that update the times at the fault (`file_update_time`), and has no effect on those that
/// cannot be written. In memory file systems no page is ever clean. File systems whose times a server or a library
/// keeps update them later or not at all. Overlays do what the file system below them does.
pub fn notes_mapped_writes(file: BorrowedFd<'_>) -> io::Result<bool> {
    const BCACHEFS_MAGIC: i64 = 0xca45_1a4e;
    const EROFS_MAGIC: i64 = 0xe0f5_e1e2;
    const EXFAT_MAGIC: i64 = 0x2011_bab0;
    const SQUASHFS_MAGIC: i64 = 0x7371_7368;
    // ext2 and ext3 have the number of ext4. A client of NFS writes dirty pages to the server before it reports the
    // times.
    Ok(matches!(
        fstatfs(file)?.f_type,
        libc::EXT4_SUPER_MAGIC
            | libc::XFS_SUPER_MAGIC
            | libc::BTRFS_SUPER_MAGIC
            | libc::F2FS_SUPER_MAGIC
            | libc::NILFS_SUPER_MAGIC
            | libc::MSDOS_SUPER_MAGIC
            | libc::NFS_SUPER_MAGIC
            | libc::OVERLAYFS_SUPER_MAGIC
            | libc::ISOFS_SUPER_MAGIC
            | BCACHEFS_MAGIC
            | EROFS_MAGIC
            | EXFAT_MAGIC
            | SQUASHFS_MAGIC
    ))
}

/// Returns the devices of memfds and segments on huge pages from the system's pool: the kernel has one for each size of
/// page, and `/proc/PID/maps` shows them.
pub fn huge_page_devices() -> Vec<u64> {
    /// `MFD_HUGE_SHIFT`: the flag holds the base-2 logarithm of the size above this bit.
    const SIZE_SHIFT: u32 = 26;
    let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?.checked_mul(1 << 10)
    });
    let device = |bytes: u64| {
        let flags = MemfdFlags::HUGETLB | MemfdFlags::from_bits_retain(bytes.checked_ilog2()? << SIZE_SHIFT);
        // An empty file takes nothing from the pool.
        let file = memfd_create("device", flags | MemfdFlags::CLOEXEC).ok()?;
        Some(fstat(file).ok()?.st_dev)
    };
    sizes.filter_map(device).collect()
}

/// Returns the size of a file's pages if they are huge pages from the system's pool, else 0.
pub fn huge_page_bytes(file: BorrowedFd<'_>) -> io::Result<u64> {
    let system = fstatfs(file)?;
    Ok(if system.f_type == libc::HUGETLBFS_MAGIC { system.f_bsize as u64 } else { 0 })
}
