//! Images with a flipped bit. The command must notice the damage and must never run a corrupted program.

use crate::command::Standfast;
use crate::disaster::KilledJob;
use crate::result::RunResult;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// [`flip_bits_throughout`] flips a bit between each two of this many parts of a file.
const FLIPPED_PARTS: u64 = 40;

/// The place of a flipped bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flip {
    /// The file.
    pub file: PathBuf,
    /// The byte.
    pub at: usize,
    /// The bit.
    pub bit: u8,
}

/// Returns the files of a job's directory that a restart needs.
///
/// # Errors
/// When the directory cannot be read.
pub fn precious_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_image = path.extension().is_some_and(|extension| extension == "image");
        if is_image || path.file_name().is_some_and(|name| name == "manifest") {
            files.push(path);
        }
    }
    files.sort();
    ensure!(files.len() >= 2, "expected a manifest and images in {}", directory.display());
    Ok(files)
}

/// Flips a random bit of a random precious file.
///
/// # Errors
/// When the file cannot be changed.
pub fn flip_random_bit(directory: &Path, random: &mut Rng) -> Result<Flip> {
    let files = precious_files(directory)?;
    let file = files[random.usize(..files.len())].clone();
    let mut bytes = fs::read(&file)?;
    let (at, bit) = (random.usize(..bytes.len()), random.u8(..8));
    bytes[at] ^= 1 << bit;
    fs::write(&file, bytes)?;
    Ok(Flip { file, at, bit })
}

/// Flips bits throughout a file. Doing it twice puts the file back as it was.
///
/// # Errors
/// When the file cannot be changed.
pub fn flip_bits_throughout(path: &Path) -> Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    for place in (1..FLIPPED_PARTS).map(|part| length * part / FLIPPED_PARTS) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, place)?;
        file.write_all_at(&[byte[0] ^ 1], place)?;
    }
    Ok(())
}

/// Flips one bit. `verify` must report it, and `restart` must refuse or fall back to an intact generation, with a
/// reason.
///
/// # Errors
/// When the damage goes unnoticed.
pub fn one_flipped_bit_is_noticed(job: &KilledJob, random: &mut Rng) -> Result<()> {
    let images = job.refresh()?;
    let flip = flip_random_bit(&images, random)?;
    noticed(job, &images).with_context(|| format!("{flip:?}; {}", job.arena().evidence()))
}

fn noticed(job: &KilledJob, images: &Path) -> Result<()> {
    let standfast = Standfast::new(job.arena())?;
    let verified = standfast.ask("verify", images, &[])?;
    ensure!(verified.exited(1), "verify ended with {}: {}{}", verified.status, verified.output, verified.errors);
    let said = format!("{}{}", verified.output, verified.errors);
    ensure!(!said.trim().is_empty() && !said.contains("panicked"), "verify said {said:?}");
    let restarted = job.restart(images, "damaged")?;
    if restarted.exited(0) {
        // An older generation replaced the damaged one, or the damage was in a generation that the restart did not need.
        return RunResult::read(&job.arena().work())?.must_equal(job.native());
    }
    restarted.refusal("a restart from damaged files").map(drop)
}
