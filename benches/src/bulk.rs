//! Checkpoint and restart of much memory, compared with the minimum work: writing the bytes and syncing them; reading
//! them back into fresh memory and checking them.

use crate::figures::{Verdict, milliseconds, within};
use crate::pause::checkpoint;
use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, ROLLBACK, Standfast};
use standfast_tests::result::{OUTPUT, open_gate};
use standfast_tests::running::{PATIENCE, Running};
use standfast_tests::victims::{BULK, FILL};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use twox_hash::XxHash3_128;

const BOUND: f64 = 1.3;
const MEGABYTE: usize = 1 << 20;

/// The kind of pages that the program requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// 4 KiB.
    Small,
    /// 2 MiB, if the kernel has them.
    Huge,
}

impl Pages {
    /// Returns the victims' name for it.
    fn word(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Huge => "huge",
        }
    }
}

/// A program with much memory that waits at its gate.
pub(crate) struct Job {
    arena: Arena,
    running: Running,
    megabytes: u64,
    pages: Pages,
}

impl Job {
    /// Starts the program.
    pub(crate) fn start(megabytes: u64, pages: Pages) -> Result<Self> {
        let program = BULK.with(&[&megabytes.to_string(), pages.word()])?;
        let arena = Arena::new()?;
        // Copies of the job are restarted in turn, and each life writes to the same output file.
        let options = ["--incremental", "off", ROLLBACK[0], ROLLBACK[1]].map(str::to_owned);
        let running = Standfast::new(&arena)?.run_with(&options, Checkpoints::OnRequest, &program)?;
        Standfast::new(&arena)?.await_gate()?;
        Ok(Self { arena, running, megabytes, pages })
    }

    /// Measures checkpoints, then restarts, each alternating with its reference.
    pub(crate) fn measure(self, repeats: usize) -> Result<(Verdict, Verdict)> {
        let standfast = Standfast::new(&self.arena)?;
        let source = self.arena.folder().join("source");
        write_source(&source, self.megabytes)?;
        let (mut taken, mut written, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repeats {
            let report = checkpoint(standfast, &self.arena)?;
            taken.push(report.durable);
            pauses.push(report.pause);
            written.push(write_fresh(&source, &self.arena.images().with_file_name("fresh"))?);
        }
        let what = format!("{} MB on {:?} pages", self.megabytes, self.pages).to_lowercase();
        let mut saved = within(format!("checkpoint of {what} against write and fsync:"), &taken, &written, BOUND);
        saved.measured.push_str(&format!(", pause {}", milliseconds(crate::figures::median(&pauses))));
        let (restarts, reads) = self.restarts(&source, repeats)?;
        let brought_back = within(format!("restart of {what} against fill and checksum:"), &restarts, &reads, BOUND);
        Ok((saved, brought_back))
    }

    fn restarts(self, source: &Path, repeats: usize) -> Result<(Vec<Duration>, Vec<Duration>)> {
        let standfast = Standfast::new(&self.arena)?;
        let program = standfast.await_program()?;
        kill(program, Signal::SIGKILL)?;
        self.running.wait(PATIENCE)?;
        open_gate(&self.arena)?;
        let (mut restarts, mut reads) = (Vec::new(), Vec::new());
        let pristine = self.arena.folder().join("pristine");
        fs::rename(self.arena.images(), &pristine)?;
        for turn in 0..repeats {
            link_folder(&pristine, &self.arena.images())?;
            let begin = SystemTime::now().duration_since(UNIX_EPOCH)?;
            standfast.restart(&self.arena.images(), &format!("restart-{turn}"))?.wait(PATIENCE)?.well("restart")?;
            let said = fs::read_to_string(self.arena.work().join(OUTPUT))?;
            let seen = said.trim().parse().with_context(|| format!("the program said {said:?}"))?;
            restarts.push(Duration::from_nanos(seen).saturating_sub(begin));
            reads.push(fill_fresh(&self.arena, source, self.pages)?);
        }
        Ok((restarts, reads))
    }
}

/// Makes a copy of the directory `from` without copying a gigabyte: files are linked. A restart allows that, since it
/// never writes to an image.
fn link_folder(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let done = std::process::Command::new("cp").args(["-al"]).args([from, to]).output()?;
    ensure!(done.status.success(), "cp -al: {}", String::from_utf8_lossy(&done.stderr));
    let manifest = to.join("manifest");
    let own = fs::read(&manifest)?;
    let mode = fs::metadata(&manifest)?.permissions();
    fs::remove_file(&manifest)?;
    fs::write(&manifest, own)?;
    fs::set_permissions(&manifest, mode).context("setting the manifest's mode")
}

/// Writes bytes like those that the program holds, which no disk can compress.
fn write_source(path: &Path, megabytes: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let mut state = 1_u64;
    let mut piece = vec![0; MEGABYTE];
    for _ in 0..megabytes {
        for word in piece.chunks_exact_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&(state ^ (state >> 29)).to_le_bytes());
        }
        file.write_all(&piece)?;
    }
    file.sync_all().context("syncing the source")
}

/// Writes the bytes to a fresh file and syncs it. Reads them into memory beforehand, since a checkpoint has them there,
/// too.
fn write_fresh(source: &Path, path: &Path) -> Result<Duration> {
    let bytes = fs::read(source)?;
    let begin = Instant::now();
    let mut file = File::create(path)?;
    for piece in bytes.chunks(MEGABYTE) {
        file.write_all(piece)?;
    }
    file.sync_all()?;
    let took = begin.elapsed();
    fs::remove_file(path)?;
    Ok(took)
}

/// Fills fresh memory with the bytes, then checks them. The two steps do not overlap, since both keep one processor
/// busy.
fn fill_fresh(arena: &Arena, source: &Path, pages: Pages) -> Result<Duration> {
    let program = FILL.with(&[source.to_str().context("a path in UTF-8")?, pages.word()])?;
    let mut command = arena.command(&program.path);
    let ended = Running::complete(arena, "fill", command.args(&program.arguments))?.well("filling memory")?;
    let filled = Duration::from_nanos(ended.output.trim().parse().context("the filling program prints a time")?);
    let bytes = fs::read(source)?;
    let begin = Instant::now();
    std::hint::black_box(XxHash3_128::oneshot(&bytes));
    Ok(filled + begin.elapsed())
}
