//! What happens to a feature's victim at each of its moments.
//!
//! ```text
//! survive         at every moment: two checkpoints, SIGKILL, restart from the second, continue to the next; at the end,
//!                 another restart from a copy of the last of these images, or of each of them if files or folders are
//!                 the point or `STANDFAST_EVERY_IMAGE=1` is set
//! refuse          at every moment: the checkpoint is refused by name, nothing is written, the program continues
//! refuse-restart  at every moment: checkpoint, SIGKILL, and the restart is refused by name
//! ```
//!
//! If the program can finish, its result must equal that of an undisturbed run.

use crate::Lacking;
use crate::arena::{Arena, KEEP_EVIDENCE};
use crate::command::{Checkpoints, ROLLBACK, Standfast, copy_folder};
use crate::features::{Expectation, Feature, Prepared};
use crate::moments::{FOLDER_VARIABLE, Moment, Moments};
use crate::result::{OUTPUT, RunResult};
use crate::running::{Ended, Output, PATIENCE, Running, until};
use crate::skip::note_retry;
use crate::survival::was_killed;
use crate::victims::{CROWD, Program};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

/// The exit status of a victim on a machine that lacks the feature under test.
const LACKING: i32 = 77;

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The promise held.
    Kept,
    /// The promise could not be tried here.
    Skipped(Lacking),
}

/// How often a victim runs again that was refused because of what another one has made.
const RETRIES_MAX: usize = 3;
/// The code of that refusal. Known: what another victim has made in System V, and not used yet, counts as the job's
/// (docs/states.md).
const MADE_BY_ANOTHER: &str = "(SF0710)";

/// Tests whether the promise of `feature` holds.
///
/// # Errors
/// When the promise is broken. The error contains all output.
pub fn judge(feature: &Feature) -> Result<Verdict> {
    let program = match feature.prepare()? {
        Prepared::Program(program) => program,
        Prepared::Lacking(what) => return Ok(Verdict::Skipped(what)),
    };
    let native = match undisturbed(&program)? {
        Ok(native) => native,
        Err(lacking) => return Ok(Verdict::Skipped(Lacking::System(lacking))),
    };
    let mut arena = Arena::new()?;
    let mut outcome = Trial::new(&arena, feature, &program, &native).and_then(|trial| trial.hold());
    for _ in 0..RETRIES_MAX {
        if !outcome.as_ref().is_err_and(|problem| format!("{problem:#}").contains(MADE_BY_ANOTHER)) {
            break;
        }
        let reason = format!("a System V object that another victim made was taken for the job's {MADE_BY_ANOTHER}");
        note_retry(&feature.name, &reason);
        arena = Arena::new()?;
        outcome = Trial::new(&arena, feature, &program, &native).and_then(|trial| trial.hold());
    }
    if outcome.is_err() && std::env::var_os(KEEP_EVIDENCE).is_some() {
        arena.keep();
    }
    outcome.with_context(|| arena.evidence()).with_context(|| format!("promised: {}", feature.header.promise))?;
    Ok(Verdict::Kept)
}

/// Returns the result without Standfast, or the victim's explanation of what this machine lacks.
fn undisturbed(program: &Program) -> Result<Result<RunResult, String>> {
    let arena = Arena::new()?;
    let mut command = arena.command(&program.path);
    command.env_remove(FOLDER_VARIABLE).stdin(Stdio::null());
    let output = Output::File(arena.work().join(OUTPUT));
    let ended = Running::start(&arena, "native", output, &mut command)?.wait(PATIENCE)?;
    if ended.exited(LACKING) {
        return Ok(Err(ended.errors));
    }
    ended.well("the undisturbed run")?;
    RunResult::read(&arena.work()).map(Ok)
}

struct Trial<'a> {
    arena: &'a Arena,
    standfast: Standfast<'a>,
    feature: &'a Feature,
    program: &'a Program,
    native: &'a RunResult,
    moments: Moments,
}

impl<'a> Trial<'a> {
    fn new(arena: &'a Arena, feature: &'a Feature, program: &'a Program, native: &'a RunResult) -> Result<Self> {
        let (standfast, moments) = (Standfast::new(arena)?, Moments::new(arena)?);
        Ok(Self { arena, standfast, feature, program, native, moments })
    }

    fn hold(&self) -> Result<()> {
        let mut job = self.run()?;
        let mut reached = 0;
        while let Some(moment) = self.moments.reached(reached + 1, &mut job)? {
            reached = moment.number;
            let next = match &self.feature.header.expect {
                Expectation::Survive => self.struck(&moment, job).map(Some),
                Expectation::Refuse(words) => self.refused(&moment, words).map(|()| Some(job)),
                Expectation::RefuseRestart(words) => self.restart_refused(&moment, words, job).map(|()| None),
            };
            match next.with_context(|| format!("at moment {} ({})", moment.number, moment.name))? {
                Some(next) => job = next,
                None => return Ok(()),
            }
            self.moments.open(&moment)?;
        }
        self.ended_well(job)?;
        ensure!(reached > 0, "the victim has no moment at which it could be struck");
        if self.feature.header.expect == Expectation::Survive && self.feature.header.no_rollback.is_none() {
            self.moments.open_all()?;
            let first = if self.feature.rolls_back_from_each() || asks_for_each() { 1 } else { reached };
            for number in first..=reached {
                self.rolled_back(number).with_context(|| format!("from the image of moment {number}, at the end"))?;
            }
        }
        self.arena.wait_until_empty(PATIENCE)
    }

    fn run(&self) -> Result<Running> {
        let crowded = || CROWD.with(&[self.program.path.to_str().context("a path in UTF-8")?]);
        let program = if self.feature.crowded { crowded()? } else { self.program.clone() };
        let mut command = self.standfast.run_command_with(&self.feature.header.run, self.feature.checkpoints, &program);
        command.env(FOLDER_VARIABLE, self.moments.folder());
        Running::start(self.arena, "run", Output::File(self.arena.work().join(OUTPUT)), &mut command)
    }

    fn restart(&self, directory: &std::path::Path, name: &str, more: &[String]) -> Result<Running> {
        if let Some(meanwhile) = &self.feature.header.meanwhile {
            let mut command = self.arena.command("sh");
            Running::complete(self.arena, "meanwhile", command.args(["-c", meanwhile]))?
                .well("what happens meanwhile")?;
        }
        let mut command = self.standfast.restart_command(directory);
        Running::start(self.arena, name, Output::Nowhere, command.args(&self.feature.header.restart).args(more))
    }

    fn ended_well(&self, job: Running) -> Result<()> {
        job.wait(PATIENCE)?.well("the job")?;
        RunResult::read(&self.arena.work())?.must_equal(self.native)
    }

    /// Takes checkpoints, kills the job, and starts the next life.
    fn struck(&self, moment: &Moment, job: Running) -> Result<Running> {
        if moment.number == 1 && self.stands_alone() {
            let findings = self.diagnosis()?;
            ensure!(findings.is_empty(), "doctor warns of what does no harm: {findings}");
        }
        // The restart uses an incremental checkpoint and the full one that it builds upon.
        self.checkpoint()?.well("the first checkpoint")?;
        self.standfast.rehearse_if_asked()?;
        self.saved_and_killed(job)?;
        copy_folder(&self.arena.images(), &self.copy(moment.number))?;
        self.restart(&self.arena.images(), &format!("restart-{}", moment.number), &[])
    }

    fn copy(&self, number: u32) -> PathBuf {
        self.arena.folder().join(format!("images-{number}"))
    }

    /// Rolls back to an image that the program has already run past.
    fn rolled_back(&self, number: u32) -> Result<()> {
        // Another copy of this job has written what the files have grown by since.
        let says = self.feature.header.restart.iter().any(|word| word == ROLLBACK[0]);
        let more = if says { Vec::new() } else { ROLLBACK.map(str::to_owned).to_vec() };
        self.ended_well(self.restart(&self.copy(number), &format!("rollback-{number}"), &more)?)
    }

    /// Reports whether only requested checkpoints happen to the victim.
    fn stands_alone(&self) -> bool {
        self.feature.checkpoints == Checkpoints::OnRequest
    }

    fn refused(&self, moment: &Moment, words: &[String]) -> Result<()> {
        if moment.number == 1 && self.feature.header.doctor_blind.is_none() && self.stands_alone() {
            names_all(words, &self.diagnosis()?).context("doctor does not foresee it")?;
        }
        let said = self.checkpoint()?.refusal("a checkpoint")?;
        names_all(words, &said)?;
        if !self.stands_alone() {
            // An earlier checkpoint exists, and rightly so.
            return Ok(());
        }
        let files = fs::read_dir(self.arena.images())?.flatten().map(|entry| entry.file_name());
        let is_image = |name: &std::ffi::OsString| {
            let name = name.to_string_lossy();
            name.contains("generation") || name.contains("image")
        };
        let images: Vec<_> = files.filter(is_image).collect();
        ensure!(images.is_empty(), "a refused checkpoint left {images:?}");
        let newest = self.standfast.newest_generation(&self.arena.images())?;
        ensure!(newest.is_none(), "a refused checkpoint became generation {newest:?}");
        Ok(())
    }

    fn restart_refused(&self, moment: &Moment, words: &[String], job: Running) -> Result<()> {
        self.saved_and_killed(job)?;
        let before = RunResult::read(&self.arena.work())?;
        self.moments.open(moment)?;
        let said = self.restart(&self.arena.images(), "restart", &[])?.wait(PATIENCE)?.refusal("a restart")?;
        names_all(words, &said)?;
        self.arena.wait_until_empty(PATIENCE)?;
        if self.feature.header.meanwhile.is_none() {
            RunResult::read(&self.arena.work())?.must_equal(&before).context("a refused restart touched files")?;
        }
        self.standfast.verify(&self.arena.images())
    }

    fn saved_and_killed(&self, job: Running) -> Result<()> {
        self.checkpoint()?.well("the checkpoint")?;
        ensure!(self.standfast.kill_job()?, "the program has ended at its gate");
        was_killed(&job.wait(PATIENCE)?)
    }

    /// Requests a checkpoint. Retries, since a restarted program can reach its next gate before its supervisor listens.
    fn checkpoint(&self) -> Result<Ended> {
        until(PATIENCE, "a supervisor that takes a checkpoint", || {
            let ended = self.standfast.ask("checkpoint", &self.arena.images(), &[])?;
            let is_too_early = ended.errors.contains("could not be asked") || ended.errors.contains("nothing runs in");
            Ok((!is_too_early).then_some(ended))
        })
    }

    /// Returns what `doctor` finds in the program.
    fn diagnosis(&self) -> Result<String> {
        let pid = self.standfast.await_program()?.to_string();
        let mut command = self.standfast.command(&["doctor", "--json", &pid]);
        let said = Running::complete(self.arena, "doctor", &mut command)?;
        if said.output.is_empty() {
            // Some blockers prevent the inspection itself.
            return said.refusal("a look at the program");
        }
        let diagnosis: Value = serde_json::from_str(&said.output).with_context(|| format!("doctor said {said:?}"))?;
        let Some(findings) = diagnosis["process"].as_array() else {
            bail!("doctor did not look at {pid}: {diagnosis}")
        };
        let bad = findings.iter().filter(|finding| finding["is_fine"] != Value::Bool(true));
        Ok(bad.map(Value::to_string).collect::<Vec<_>>().join("\n"))
    }
}

fn asks_for_each() -> bool {
    std::env::var_os("STANDFAST_EVERY_IMAGE").is_some()
}

fn names_all(words: &[String], said: &str) -> Result<()> {
    let lower = said.to_lowercase();
    let missing: Vec<_> = words.iter().filter(|word| !lower.contains(word.as_str())).collect();
    ensure!(missing.is_empty(), "{missing:?} is not named in: {said}");
    Ok(())
}
