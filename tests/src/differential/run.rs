//! Runs a program twice without Standfast and once under it, with checkpoints, kills and restarts, and compares what it
//! observes. If that seems to differ, it runs more often without Standfast, to see whether it differs there, too.
//!
//! The names of its moments say what happens there:
//!
//! ```text
//! checkpoint  a checkpoint; the program continues
//! kill        a checkpoint, SIGKILL, a restart from it
//! twice       two checkpoints, so that the second one builds upon the first, SIGKILL, a restart
//! back        a checkpoint, to which a later moment returns
//! return      a checkpoint, SIGKILL, a restart from the one of the last moment `back`
//! ```
//!
//! If a checkpoint is refused, the program continues, and must observe the same as ever.

use super::interpreter::interpreter;
use super::leftovers::remove_shared_objects;
use super::script::Script;
use crate::arena::{Arena, KEEP_EVIDENCE};
use crate::command::{Checkpoints, Standfast};
use crate::moments::{FOLDER_VARIABLE, Moment, Moments};
use crate::running::{Ended, Output, PATIENCE, Running, until};
use crate::survival::was_killed;
use crate::victims::Program;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// How long a program may take without Standfast.
const NATIVE_PATIENCE: Duration = Duration::from_secs(20);
/// How long the moments of a program that seems to differ last without Standfast, to see whether it differs there, too.
/// Time passes during checkpoints as well: the kernel sends what it has held back on a TCP connection, say.
const MOMENTS: [Duration; 12] = {
    const NONE: Duration = Duration::ZERO;
    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_millis(200);
    [LONG, NONE, NONE, SHORT, NONE, LONG, NONE, NONE, SHORT, NONE, NONE, NONE]
};
/// Tells the interpreter how long moments last when nothing intervenes.
const MOMENT_VARIABLE: &str = "MOMENT_MILLISECONDS";

/// What came of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It observed the same, with no checkpoint or restart refused.
    Same,
    /// It observed the same; these refusals were among its checkpoints and restarts.
    Refused(BTreeSet<String>),
    /// It observes something else whenever it runs, without Standfast, too.
    Unstable(String),
    /// It observed something else, or something failed that should not have. The text says what.
    Different(String),
}

/// What a run under Standfast left.
struct Protected {
    log: String,
    refusals: BTreeSet<String>,
}

/// Names to the command the fault that it plants, if it was built with `planted-faults`.
const FAULT_VARIABLE: &str = "STANDFAST_PLANTED_FAULT";

/// Runs a program in all ways.
///
/// # Errors
/// When the harness fails.
pub fn judge(script: &Script) -> Result<Outcome> {
    judge_with(script, None)
}

/// Does the same with a planted fault.
pub(super) fn judge_with(script: &Script, fault: Option<&str>) -> Result<Outcome> {
    let (native, again) = match run_natively_twice(script) {
        Ok(both) => both,
        Err(problem) => return Ok(Outcome::Unstable(format!("{problem:#}"))),
    };
    if let Some(difference) = first_difference(&native, &again) {
        return Ok(Outcome::Unstable(difference));
    }
    let protected = match run_protected(script, fault) {
        Ok(protected) => protected,
        Err(problem) => {
            let what = format!("{problem:#}");
            // Known: what another program of the same user has made in System V, and not used yet, counts as the job's.
            if what.contains("(SF0710)") && script.options.iter().any(|option| option == "--ids") {
                return Ok(Outcome::Refused(BTreeSet::from(["SF0710 at a restart".to_owned()])));
            }
            return Ok(Outcome::Different(what));
        }
    };
    let difference = first_difference(&native, &protected.log);
    if difference.is_some() {
        // A program that seldom differs by itself has differed from the second run by chance only.
        for moment in MOMENTS {
            if let Some(difference) = first_difference(&native, &run_natively(script, moment)?) {
                return Ok(Outcome::Unstable(difference));
            }
        }
    }
    Ok(match difference {
        Some(difference) => Outcome::Different(difference),
        None if protected.refusals.is_empty() => Outcome::Same,
        None => Outcome::Refused(protected.refusals),
    })
}

/// Returns the first lines that differ.
fn first_difference(native: &str, other: &str) -> Option<String> {
    let (mut before, mut step) = (native.lines(), String::new());
    let mut after = other.lines();
    loop {
        let (one, two) = (before.next(), after.next());
        if one.is_some_and(|line| !line.starts_with(' ')) {
            step = one.unwrap_or_default().to_owned();
        }
        match (one, two) {
            (None, None) => return None,
            (one, two) if one == two => {}
            (one, two) => {
                let show = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
                return Some(format!("in the step: {step}\nwithout: {}\nwith:    {}", show(one), show(two)));
            }
        }
    }
}

/// Where a program runs, with its script.
struct Stage {
    arena: Arena,
    program: Program,
    log: PathBuf,
}

impl Stage {
    fn new(script: &Script) -> Result<Self> {
        let arena = Arena::new()?;
        let place = arena.folder().join("script");
        fs::write(&place, script.text()).context("writing the script")?;
        // The log lies in a folder of its own, since steps may list and watch the working folder.
        let log = arena.folder().join("log");
        fs::create_dir(&log).context("making the folder for the log")?;
        let program = Program { path: interpreter()?, arguments: vec![place.into()] };
        Ok(Self { arena, program, log: log.join("log") })
    }

    fn log(&self) -> Result<String> {
        let bytes = fs::read(&self.log).context("reading what the program observed")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.arena.clear();
        remove_shared_objects(&self.arena.work());
        if std::env::var_os(KEEP_EVIDENCE).is_some() {
            self.arena.keep();
        }
        // A step may have taken the rights that removing needs.
        super::leftovers::open_directories(&self.arena.work());
    }
}

fn run_natively_twice(script: &Script) -> Result<(String, String)> {
    Ok((run_natively(script, Duration::ZERO)?, run_natively(script, Duration::ZERO)?))
}

fn run_natively(script: &Script, moment: Duration) -> Result<String> {
    let stage = Stage::new(script)?;
    let Program { path, arguments } = &stage.program;
    // Under Standfast, too, it leads a group, and its orphans are reaped at once.
    let mut command = stage.arena.command(path);
    command.arg("--reap").arg(path).args(arguments).env_remove(FOLDER_VARIABLE).stdin(Stdio::null());
    command.env(MOMENT_VARIABLE, moment.as_millis().to_string());
    let running = Running::start(&stage.arena, "native", Output::File(stage.log.clone()), &mut command)?;
    let ended = running.wait(NATIVE_PATIENCE).with_context(|| format!("it hangs:\n{}", script.text()))?;
    ensure!(ended.status.success(), "{} without Standfast, of:\n{}\n{}", ended.status, script.text(), ended.errors);
    stage.log()
}

fn run_protected(script: &Script, fault: Option<&str>) -> Result<Protected> {
    let stage = Stage::new(script)?;
    let watched = Watched::new(&stage, script, fault)?;
    watched.run().map_err(|problem| anyhow!("{problem:#}\n{}", stage.arena.evidence()))
}

/// A program under Standfast.
struct Watched<'a> {
    stage: &'a Stage,
    standfast: Standfast<'a>,
    script: &'a Script,
    fault: Option<&'a str>,
    moments: Moments,
}

/// How far a run has come.
#[derive(Default)]
struct Progress {
    reached: u32,
    /// The checkpoint to which a later moment returns.
    back: Option<u64>,
    refusals: BTreeSet<String>,
}

impl<'a> Watched<'a> {
    fn new(stage: &'a Stage, script: &'a Script, fault: Option<&'a str>) -> Result<Self> {
        let (standfast, moments) = (Standfast::new(&stage.arena)?, Moments::new(&stage.arena)?);
        Ok(Self { stage, standfast, script, fault, moments })
    }

    fn run(&self) -> Result<Protected> {
        let program = &self.stage.program;
        let mut command = self.standfast.run_command_with(&self.script.options, Checkpoints::OnRequest, program);
        command.env(FOLDER_VARIABLE, self.moments.folder());
        let mut job = Running::start(&self.stage.arena, "run", Output::File(self.stage.log.clone()), &mut command)?;
        let mut progress = Progress::default();
        while let Some(moment) = self.moments.reached(progress.reached + 1, &mut job)? {
            progress.reached = moment.number;
            let next = self.intervene(&moment, job, &mut progress);
            job = next.with_context(|| format!("at moment {} ({})", moment.number, moment.name))?;
            self.moments.open(&moment)?;
        }
        let ended = job.wait(PATIENCE)?;
        ensure!(ended.status.success(), "the program ended with {}: {}", ended.status, ended.errors);
        Ok(Protected { log: self.stage.log()?, refusals: progress.refusals })
    }

    /// Does what the moment's name says. Returns the life that continues.
    fn intervene(&self, moment: &Moment, job: Running, progress: &mut Progress) -> Result<Running> {
        let takes = if moment.name == "twice" { 2 } else { 1 };
        for _ in 0..takes {
            if let Some(code) = self.refused_checkpoint()? {
                progress.refusals.insert(code);
                return Ok(job);
            }
        }
        let at = match moment.name.as_str() {
            "checkpoint" => return Ok(job),
            "back" => {
                progress.back = self.standfast.newest_generation(&self.stage.arena.images())?;
                return Ok(job);
            }
            "return" => progress.back.take(),
            _ => None,
        };
        ensure!(self.standfast.kill_job()?, "the program has ended at its gate");
        was_killed(&job.wait(PATIENCE)?)?;
        self.restart(moment.number, at)
    }

    fn restart(&self, number: u32, at: Option<u64>) -> Result<Running> {
        let mut command = self.standfast.restart_command(&self.stage.arena.images());
        if let Some(generation) = at {
            command.args(["--at", &generation.to_string()]);
        }
        command.envs(self.fault.map(|fault| (FAULT_VARIABLE, fault)));
        Running::start(&self.stage.arena, &format!("restart-{number}"), Output::Nowhere, &mut command)
    }

    /// Takes a checkpoint. Returns the codes of the refusal, if it is refused.
    fn refused_checkpoint(&self) -> Result<Option<String>> {
        let ended: Ended = until(PATIENCE, "a supervisor that takes a checkpoint", || {
            let ended = self.standfast.ask("checkpoint", &self.stage.arena.images(), &[])?;
            let is_too_early = ended.errors.contains("could not be asked") || ended.errors.contains("nothing runs in");
            Ok((!is_too_early).then_some(ended))
        })?;
        if ended.status.success() {
            self.standfast.rehearse_if_asked()?;
            return Ok(None);
        }
        // On a busy machine a thread may take longer than a checkpoint waits for it.
        if ended.errors.contains("cannot be stopped") {
            return Ok(Some("a thread that cannot be stopped".to_owned()));
        }
        let codes = codes_in(&ended.errors);
        if codes.is_empty() {
            bail!("the checkpoint failed: {}", ended.errors);
        }
        Ok(Some(codes.join("+")))
    }
}

/// Returns the codes of refusals in a message.
fn codes_in(message: &str) -> Vec<String> {
    let words = message.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_code = |word: &&str| word.len() == 6 && word.starts_with("SF") && word[2..].parse::<u32>().is_ok();
    let codes: BTreeSet<&str> = words.filter(is_code).collect();
    codes.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_names_the_step() {
        let native = "0 pipe 1 2 0: = 0\n0 observe 0:\n  descriptor 1: a\n  descriptor 2: b\n";
        assert_eq!(first_difference(native, native), None);
        let found = first_difference(native, &native.replace("2: b", "2: c")).unwrap();
        assert!(found.contains("0 observe 0:") && found.contains("2: b") && found.contains("2: c"), "{found}");
        assert!(first_difference(native, &native[..18]).unwrap().contains("(nothing)"));
    }

    #[test]
    fn codes_are_found_once() {
        assert_eq!(codes_in("a: no (SF0401); b: no (SF0316); c (SF0401)"), ["SF0316", "SF0401"]);
        assert!(codes_in("SF, SF12, SFabcd").is_empty());
    }
}
