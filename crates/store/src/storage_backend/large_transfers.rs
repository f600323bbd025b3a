//! Large reads and writes go around the page cache where it is slow. Usually it takes a byte in 0.2 ns of processor time, and
//! a restart reads from it. A virtual machine that gives its free memory back to the host takes 1.2 ns and more, since the
//! host has to find memory for each page of the cache, and the program waits for its processor meanwhile. Beside a busy
//! program, the writing threads took 2 to 2.7 ns for a byte there, and 0.6 ns with direct writes.
//!
//! Only whole blocks are written directly. The two ends of a piece may share a block with its neighbours, and go through the
//! page cache.

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::time::ClockId;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The least number of bytes in a large transfer.
const LARGE_BYTES: usize = 256 << 10;
/// This many transfers tell how fast the page cache is. The fastest counts: others may have waited for each other.
const TELLING_TRANSFERS: u32 = 8;
/// Processor time for a byte, in nanoseconds, from which the page cache is slow.
const SLOW: f64 = 0.6;
/// Bytes of aligned memory that direct transfers go through.
const COPIED_BYTES: usize = 1 << 20;
/// Limits of the alignment of direct transfers. Blocks beyond the upper one are left to the page cache.
const GRAIN_MIN: u64 = 4096;
const GRAIN_MAX: u64 = 64 << 10;

/// How large pieces of one file are read and written.
#[derive(Debug, Default)]
pub(super) struct LargeTransfers {
    observed: Mutex<Observed>,
    /// Set once the page cache has been found slow: the way around it, if the file system has one.
    direct: OnceLock<Option<DirectFile>>,
}

impl LargeTransfers {
    /// Writes all of `bytes` at `offset`.
    pub(super) fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.direct.get().and_then(Option::as_ref) {
            Some(direct) if bytes.len() >= LARGE_BYTES => direct.write_at(file, bytes, offset),
            _ => self.observing(file, bytes.len(), || file.write_all_at(bytes, offset)),
        }
    }

    /// Fills `bytes` with the content from `offset` on.
    pub(super) fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match self.direct.get().and_then(Option::as_ref) {
            Some(direct) if bytes.len() >= LARGE_BYTES => direct.read_at(file, bytes, offset),
            _ => self.observing(file, bytes.len(), || file.read_exact_at(bytes, offset)),
        }
    }

    /// Makes a transfer through the page cache, and takes its cost into account.
    fn observing(&self, file: &File, bytes: usize, transfer: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if bytes < LARGE_BYTES || self.direct.get().is_some() {
            return transfer();
        }
        let begun = processor_time();
        transfer()?;
        let time = processor_time().saturating_sub(begun);
        let is_slow = self.observed.lock().unwrap_or_else(PoisonError::into_inner).is_slow(bytes, time);
        if is_slow {
            self.direct.get_or_init(|| DirectFile::of(file));
        }
        Ok(())
    }
}

/// What has been observed of the page cache since the last judgement.
#[derive(Debug, Default)]
struct Observed {
    transfers: u32,
    /// Processor time for a byte in the fastest of them, in nanoseconds.
    fastest: f64,
}

impl Observed {
    /// Takes a transfer into account, and reports whether the page cache turns out to be slow.
    fn is_slow(&mut self, bytes: usize, time: Duration) -> bool {
        let per_byte = time.as_nanos() as f64 / bytes as f64;
        self.fastest = if self.transfers == 0 { per_byte } else { self.fastest.min(per_byte) };
        self.transfers += 1;
        let is_slow = self.transfers >= TELLING_TRANSFERS && self.fastest > SLOW;
        if self.transfers >= TELLING_TRANSFERS {
            *self = Self::default();
        }
        is_slow
    }
}

/// A file that was opened for direct transfers as well.
#[derive(Debug)]
struct DirectFile {
    file: File,
    /// Offsets, lengths and memory of direct transfers are multiples of it. It is a power of two.
    grain: u64,
    is_refused: AtomicBool,
}

impl DirectFile {
    /// Returns `None` if the file system does not support direct transfers, or does not say how they must be aligned.
    fn of(file: &File) -> Option<Self> {
        let status = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
        let grain = GRAIN_MIN.max(status.stx_blksize.into()).max(status.stx_dio_mem_align.into());
        let grain = grain.max(status.stx_dio_offset_align.into());
        if status.stx_dio_offset_align == 0 || !grain.is_power_of_two() || grain > GRAIN_MAX {
            return None;
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let access = rustix::fs::fcntl_getfl(file).ok()? & OFlags::RWMODE;
        let file = rustix::fs::open(path, access | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()).ok()?.into();
        Some(Self { file, grain, is_refused: AtomicBool::new(false) })
    }

    fn write_at(&self, cached: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (start, end) = (offset.next_multiple_of(self.grain), offset + bytes.len() as u64);
        let end = end - end % self.grain;
        if end <= start || self.is_refused.load(Ordering::Relaxed) {
            return cached.write_all_at(bytes, offset);
        }
        let (head, rest) = bytes.split_at((start - offset) as usize);
        let (blocks, tail) = rest.split_at((end - start) as usize);
        cached.write_all_at(head, offset)?;
        cached.write_all_at(tail, end)?;
        match self.write_blocks(blocks, start) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.is_refused.store(true, Ordering::Relaxed);
                cached.write_all_at(blocks, start)
            }
            written => written,
        }
    }

    /// Writes whole blocks.
    fn write_blocks(&self, blocks: &[u8], start: u64) -> io::Result<()> {
        let grain = self.grain as usize;
        if blocks.as_ptr().addr().is_multiple_of(grain) {
            return self.file.write_all_at(blocks, start);
        }
        with_aligned(grain, |aligned| {
            for (piece, at) in blocks.chunks(COPIED_BYTES).zip((start..).step_by(COPIED_BYTES)) {
                aligned[..piece.len()].copy_from_slice(piece);
                self.file.write_all_at(&aligned[..piece.len()], at)?;
            }
            Ok(())
        })
    }

    fn read_at(&self, cached: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let read = match self.is_refused.load(Ordering::Relaxed) {
            false => self.read_blocks(bytes, offset),
            true => return cached.read_exact_at(bytes, offset),
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.is_refused.store(true, Ordering::Relaxed);
                cached.read_exact_at(bytes, offset)
            }
            read => read,
        }
    }

    /// Reads the blocks in which the bytes lie.
    fn read_blocks(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        with_aligned(self.grain as usize, |aligned| {
            let mut filled = 0;
            while filled < bytes.len() {
                let at = offset + filled as u64;
                let start = at - at % self.grain;
                let skipped = (at - start) as usize;
                let wanted = (skipped + bytes.len() - filled).next_multiple_of(self.grain as usize);
                // The file may end within a block.
                let read = match self.file.read_at(&mut aligned[..wanted.min(COPIED_BYTES)], start) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read?,
                };
                let piece = aligned[..read].get(skipped..).filter(|piece| !piece.is_empty());
                let piece = piece.ok_or(io::ErrorKind::UnexpectedEof)?;
                let count = piece.len().min(bytes.len() - filled);
                bytes[filled..filled + count].copy_from_slice(&piece[..count]);
                filled += count;
            }
            Ok(())
        })
    }
}

/// Calls `transfer` with [`COPIED_BYTES`] of memory that begin at a multiple of `grain`.
fn with_aligned(grain: usize, transfer: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<()> {
    thread_local! {
        static COPY: RefCell<Vec<u8>> = RefCell::default();
    }
    COPY.with_borrow_mut(|copy| {
        copy.resize(COPIED_BYTES + grain, 0);
        let skipped = copy.as_ptr().align_offset(grain);
        transfer(&mut copy[skipped..skipped + COPIED_BYTES])
    })
}

/// Returns the processor time that this thread has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const MIB: usize = 1 << 20;

    /// Bytes that differ from their neighbours far and near.
    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
    }

    /// Writes `wanted` in pieces of these lengths, each from a thread of its own, and reads the file.
    fn written(direct: &DirectFile, cached: &File, wanted: &[u8], piece: usize) -> Vec<u8> {
        thread::scope(|scope| {
            for (at, bytes) in wanted.chunks(piece).enumerate() {
                scope.spawn(move || direct.write_at(cached, bytes, (at * piece) as u64).unwrap());
            }
        });
        cached.sync_data().unwrap();
        let mut read = vec![0; wanted.len()];
        cached.read_exact_at(&mut read, 0).unwrap();
        read
    }

    /// Opens a file for direct transfers. Where the file system has none, pieces are divided all the same.
    fn direct_file(cached: &File) -> DirectFile {
        let usual =
            DirectFile { file: cached.try_clone().unwrap(), grain: GRAIN_MIN, is_refused: AtomicBool::new(false) };
        DirectFile::of(cached).unwrap_or(usual)
    }

    #[test]
    fn pieces_that_share_blocks_are_written_whole() {
        let wanted = pattern(5 * MIB + 77);
        for piece in [GRAIN_MIN as usize, 300_001, MIB, MIB + 5, 3 * MIB] {
            let cached = tempfile::tempfile().unwrap();
            let direct = direct_file(&cached);
            assert!(written(&direct, &cached, &wanted, piece) == wanted, "pieces of {piece}");
            assert!(!direct.is_refused.into_inner(), "pieces of {piece} are aligned");
        }
    }

    #[test]
    fn pieces_at_any_place_are_read_whole() {
        let wanted = pattern(3 * MIB + 77);
        let cached = tempfile::tempfile().unwrap();
        cached.write_all_at(&wanted, 0).unwrap();
        let direct = direct_file(&cached);
        for (offset, length) in [(0, wanted.len()), (1, MIB), (4095, 2), (4096, MIB + 1), (2 * MIB - 5, MIB + 82)] {
            let mut read = vec![0; length];
            direct.read_at(&cached, &mut read, offset as u64).unwrap();
            assert!(read == wanted[offset..offset + length], "{length} at {offset}");
        }
        for offset in [wanted.len() - 10, wanted.len(), wanted.len() + MIB] {
            let beyond = direct.read_at(&cached, &mut [0; 11], offset as u64).unwrap_err();
            assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof, "at {offset}");
        }
        assert!(!direct.is_refused.into_inner());
    }

    #[test]
    fn a_file_that_refuses_direct_transfers_is_read_and_written_all_the_same() {
        let cached = tempfile::tempfile().unwrap();
        let wanted = pattern(MIB);
        let direct = DirectFile { file: cached.try_clone().unwrap(), grain: GRAIN_MIN, is_refused: true.into() };
        assert!(written(&direct, &cached, &wanted, MIB) == wanted);
        let mut read = vec![0; MIB];
        direct.read_at(&cached, &mut read, 0).unwrap();
        assert!(read == wanted);
    }

    #[test]
    fn the_fastest_of_some_transfers_tells_whether_the_page_cache_is_slow() {
        let slow = Duration::from_micros(1200);
        let fast = Duration::from_micros(200);
        let judged = |times: &[Duration]| {
            let mut observed = Observed::default();
            times.iter().map(|time| observed.is_slow(MIB, *time)).collect::<Vec<_>>()
        };
        let mut times = [slow; 2 * TELLING_TRANSFERS as usize];
        times[3] = fast;
        let first = judged(&times).iter().position(|is_slow| *is_slow);
        assert_eq!(first, Some(times.len() - 1), "one fast transfer is enough, and is forgotten");
        assert!(judged(&[fast; 40]).iter().all(|is_slow| !is_slow));
    }
}
