//! Checkpoints in memory first: how much sooner a checkpoint is usable than on a slow disk, and how much of the disk
//! another program keeps during a flush (D16).
//!
//! No disk here can be throttled without privileges. A disk of 100 MB/s writes the bytes of the image at 100 MB/s at
//! most, whatever else it does. The first promise is compared with that by arithmetic.

use crate::figures::{Verdict, median, milliseconds};
use crate::pause::checkpoint;
use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::running::{PATIENCE, until};
use standfast_tests::victims::DIRTIER;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The slow disk's speed, in bytes per second.
const SLOW_DISK: f64 = 100e6;
const SOONER_MIN: f64 = 10.0;
/// The minimum fraction of the disk's speed that another program keeps while a checkpoint is flushed.
const KEPT_MIN: f64 = 0.8;
/// The number of bytes that the third party writes and syncs at a time.
const PIECE_BYTES: usize = 8 << 20;

/// A place in memory that is removed when dropped.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn new() -> Result<Self> {
        let path = PathBuf::from(format!("/dev/shm/standfast-bench-{}", std::process::id()));
        fs::create_dir(&path).context("a folder in /dev/shm")?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Measures full checkpoints of incompressible memory. Each is usable once it is in memory.
pub(crate) fn memory_first(megabytes: u64, repeats: usize) -> Result<[Verdict; 2]> {
    let (arena, place) = (Arena::new()?, Place::new()?);
    let standfast = Standfast::new(&arena)?;
    let memory = place.0.display().to_string();
    // Each checkpoint is flushed once the previous one has been.
    let words = ["--memory", &memory, "--incremental", "off", "--flush-every", "1"].map(str::to_owned);
    let program = DIRTIER.with(&[&megabytes.to_string(), "small", "asked", "10"])?;
    let running = standfast.run_with(&words, Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    let (mut usable, mut sooner, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=repeats as u64 {
        // A virtual machine may first have to get memory from its host, at the speed of a disk (seen: 0.5 GB/s).
        let bytes = place.0.join("memory");
        fill(&bytes, 2 * megabytes)?;
        fs::remove_file(&bytes)?;
        let taken = checkpoint(standfast, &arena)?;
        usable.push(taken.durable);
        sooner.push(taken.file_bytes as f64 / SLOW_DISK / taken.durable.as_secs_f64());
        let party = arena.folder().join("third-party");
        let is_flushed = || is_on_disk(standfast, &arena, number);
        let (pieces, during) = third_party(&party, is_flushed)?;
        until(PATIENCE, "the flush", || Ok(is_on_disk(standfast, &arena, number)?.then_some(())))?;
        let mut left = pieces;
        let (_, alone) = third_party(&party, || {
            left -= 1;
            Ok(left == 0)
        })?;
        kept.push(alone.as_secs_f64() / during.as_secs_f64());
    }
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    let middle = |of: &mut Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let (sooner, kept) = (middle(&mut sooner), middle(&mut kept));
    Ok([
        Verdict {
            promise: format!(
                "{megabytes} MB, in memory first: usable at least {SOONER_MIN} times sooner than at 100 MB/s"
            ),
            measured: format!("{sooner:.1} times ({})", milliseconds(median(&usable))),
            holds: sooner >= SOONER_MIN,
        },
        Verdict {
            promise: format!("what a third party keeps of the disk during a flush: at least {KEPT_MIN}"),
            measured: format!("{kept:.2}"),
            holds: kept >= KEPT_MIN,
        },
    ])
}

fn is_on_disk(standfast: Standfast<'_>, arena: &Arena, number: u64) -> Result<bool> {
    let status = standfast.status(&arena.images())?;
    let all = status["generations"].as_array().context("status has generations")?;
    Ok(all.iter().any(|it| it["generation"] == number && it["is_on_disk"] == true))
}

/// Writes a file of `megabytes`.
fn fill(path: &Path, megabytes: u64) -> Result<()> {
    let piece = vec![0x5a; 1 << 20];
    let mut file = File::create(path)?;
    for _ in 0..megabytes {
        file.write_all(&piece)?;
    }
    Ok(())
}

/// Writes and syncs pieces until `is_enough` says so. Returns their number and the time that writing took.
fn third_party(path: &Path, mut is_enough: impl FnMut() -> Result<bool>) -> Result<(usize, Duration)> {
    let piece = vec![0x5a; PIECE_BYTES];
    let (mut pieces, mut took) = (0, Duration::ZERO);
    loop {
        let begin = Instant::now();
        let mut file = File::create(path)?;
        file.write_all(&piece)?;
        file.sync_all()?;
        took += begin.elapsed();
        pieces += 1;
        if is_enough()? {
            return Ok((pieces, took));
        }
    }
}
