//! Ring 2: the memory of a stopped process.

use crate::Pid;
use crate::sys::memory::{self, Remote, VECTORS_MAX};
use standfast_core::{Address, PageRange};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads and writes a process's memory. The fastest way is process_vm_readv and process_vm_writev (9 GB/s at 64 KiB and
/// more). `/proc/PID/mem` (6 GB/s) is used if the program itself has no access (PROT_NONE, code), if its stack must
/// grow, and if pages are shared with another process since a fork: process_vm_readv(2) pins the pages that it reads,
/// and since Linux 5.19 the kernel copies a page shared in this way before it pins it. Measured: reading a clone once
/// copied all of it.
#[derive(Debug)]
pub struct ProcessMemory {
    pid: Pid,
    file: File,
    is_shared: bool,
}

impl ProcessMemory {
    /// Opens the memory of a process.
    ///
    /// # Errors
    /// When the process is gone or may not be inspected.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Self { pid, file, is_shared: false })
    }

    /// From now on, reads leave pages shared that another process shares since a fork.
    pub fn leave_shared(&mut self) {
        self.is_shared = true;
    }

    /// Reports whether reads leave such pages shared.
    pub fn leaves_shared(&self) -> bool {
        self.is_shared
    }

    /// Fills `into` with the memory from `start` on.
    ///
    /// # Errors
    /// When not all of it is mapped.
    pub fn read(&self, start: Address, into: &mut [u8]) -> io::Result<()> {
        let whole = [Remote { start, bytes: into.len() }];
        if !self.is_shared && memory::read(self.pid, &whole, into).is_ok_and(|got| got == into.len()) {
            return Ok(());
        }
        self.file.read_exact_at(into, start.get())
    }

    /// Writes `from` to the memory from `start` on.
    ///
    /// # Errors
    /// When not all of it is mapped.
    pub fn write(&self, start: Address, from: &[u8]) -> io::Result<()> {
        let whole = [Remote { start, bytes: from.len() }];
        match memory::write(self.pid, &whole, from) {
            Ok(put) if put == from.len() => Ok(()),
            Ok(_) | Err(_) => self.file.write_all_at(from, start.get()),
        }
    }

    /// Fills `into` with the pages of all `ranges`, one after the other.
    ///
    /// # Errors
    /// When not all of it is mapped.
    pub fn read_pages(&self, ranges: &[PageRange], into: &mut [u8]) -> io::Result<()> {
        each_call(ranges, into.len(), |remotes, from, to| {
            let part = &mut into[from..to];
            if !self.is_shared && memory::read(self.pid, remotes, part).is_ok_and(|got| got == to - from) {
                return Ok(());
            }
            let mut rest = part;
            for remote in remotes {
                let (piece, after) = rest.split_at_mut(remote.bytes);
                self.file.read_exact_at(piece, remote.start.get())?;
                rest = after;
            }
            Ok(())
        })
    }

    /// Writes the pages of all `ranges` from `from`, one after the other, even if the process itself may not write
    /// there.
    ///
    /// # Errors
    /// When not all of it is mapped.
    pub fn write_pages(&self, ranges: impl IntoIterator<Item = PageRange>, from: &[u8]) -> io::Result<()> {
        let ranges: Vec<_> = ranges.into_iter().collect();
        each_call(&ranges, from.len(), |remotes, start, end| {
            let mut rest = &from[start..end];
            if memory::write(self.pid, remotes, rest).is_ok_and(|put| put == end - start) {
                return Ok(());
            }
            for remote in remotes {
                let (piece, after) = rest.split_at(remote.bytes);
                self.file.write_all_at(piece, remote.start.get())?;
                rest = after;
            }
            Ok(())
        })
    }
}

/// Splits `ranges`, which together are `bytes` long, into calls of at most [`VECTORS_MAX`] ranges.
fn each_call(
    ranges: &[PageRange],
    bytes: usize,
    mut call: impl FnMut(&[Remote], usize, usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut from = 0;
    for part in ranges.chunks(VECTORS_MAX) {
        let remotes: Vec<_> =
            part.iter().map(|range| Remote { start: range.start(), bytes: range.bytes() as usize }).collect();
        let to = from + remotes.iter().map(|remote| remote.bytes).sum::<usize>();
        call(&remotes, from, to)?;
        from = to;
    }
    assert_eq!(from, bytes, "ranges and buffer are of one length");
    Ok(())
}
