//! Ring 2: the memory of a process that stands still.

use crate::sys::memory::{self, Remote, VECTORS_MAX};
use standfast_core::{Address, PageRange};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads and writes a process's memory: by process_vm_readv and process_vm_writev, the fastest way (9 GB/s at 64 KiB and
/// more), and through `/proc/PID/mem` (6 GB/s) where the program itself may not reach (PROT_NONE, code) or its stack must
/// grow, and where pages are shared with another process since a fork: process_vm_readv(2) pins what it reads, and since Linux
/// 5.19 the kernel copies a page that is shared so before it pins it. Measured: to read a clone once made all of it a copy.
#[derive(Debug)]
pub struct ProcessMemory {
    pid: i32,
    file: File,
    is_shared: bool,
}

impl ProcessMemory {
    /// Opens the memory of a process.
    ///
    /// # Errors
    /// When it is gone or may not be looked at.
    pub fn open(pid: i32) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Self { pid, file, is_shared: false })
    }

    /// From now on pages that another process shares since a fork stay shared when they are read.
    pub fn leave_shared(&mut self) {
        self.is_shared = true;
    }

    /// Whether they do.
    pub fn leaves_shared(&self) -> bool {
        self.is_shared
    }

    /// Fills `into` from `start` on.
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

    /// Writes `from` to `start` on.
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
                let (piece, behind) = rest.split_at_mut(remote.bytes);
                self.file.read_exact_at(piece, remote.start.get())?;
                rest = behind;
            }
            Ok(())
        })
    }

    /// Writes the pages of all `ranges` from `from`, one after the other, also where the process itself may not write.
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
                let (piece, behind) = rest.split_at(remote.bytes);
                self.file.write_all_at(piece, remote.start.get())?;
                rest = behind;
            }
            Ok(())
        })
    }
}

/// Cuts `ranges`, which together are `bytes` long, into calls of at most [`VECTORS_MAX`] stretches.
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
