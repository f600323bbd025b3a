//! Plays the signals of batch systems and service managers, exactly as they send them, against what `standfast batch`
//! prints for them. No scheduler is needed. A stand-in for `scontrol` notes which job is to be queued again.

use crate::arena::Arena;
use crate::command::{Standfast, standfast_binary};
use crate::result::RunResult;
use crate::running::{Ended, Output, PATIENCE, Running, until};
use crate::victims::Program;
use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Notes the jobs that are to be queued again.
const SCONTROL: &str = "#!/bin/sh\n[ \"$1\" = requeue ] && echo \"$2\" >> \"$REQUEUED\"\n";

/// The number of the job in Slurm.
const SLURM_JOB: &str = "4711";

/// A batch system or service manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// Signals the script alone; the script queues the job again.
    Slurm,
    /// Signals the process group of the script; 99 queues the job again.
    GridEngine,
    /// Signals the script alone; 85 queues the job again.
    Condor,
    /// Signals the first process of the container; 75 makes another pod.
    Kubernetes,
    /// Signals the command; asks a condition before each start.
    Systemd,
}

impl Scheduler {
    fn word(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::GridEngine => "sge",
            Self::Condor => "condor",
            Self::Kubernetes => "kubernetes",
            Self::Systemd => "systemd",
        }
    }

    /// Returns the signals that announce the end of a job.
    fn signals(self) -> &'static [Signal] {
        match self {
            Self::Slurm => &[Signal::SIGUSR1, Signal::SIGTERM],
            Self::GridEngine => &[Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGXCPU],
            Self::Condor | Self::Kubernetes | Self::Systemd => &[Signal::SIGTERM],
        }
    }

    /// Returns the exit status by which a job asks to be queued again.
    fn again(self) -> Option<i32> {
        match self {
            Self::Slurm | Self::Systemd => None,
            Self::GridEngine => Some(99),
            Self::Condor => Some(85),
            Self::Kubernetes => Some(75),
        }
    }
}

/// A job under a scheduler that is played.
#[derive(Debug)]
pub struct PlayedJob<'a> {
    scheduler: Scheduler,
    arena: &'a Arena,
    text: String,
    starts: u32,
}

/// How one run of a job ended.
#[derive(Debug)]
pub struct PlayedRun {
    /// What the script said, and its status.
    pub ended: Ended,
    /// Whether the scheduler runs the job again.
    pub is_again: bool,
    /// The time from the signal to the end, if it was signalled.
    pub stopping: Option<Duration>,
}

impl<'a> PlayedJob<'a> {
    /// Prints the script for a program, with options of `run`.
    ///
    /// # Errors
    /// When the script cannot be printed.
    pub fn new(scheduler: Scheduler, arena: &'a Arena, options: &[&str], program: &Program) -> Result<Self> {
        let mut command =
            Standfast::new(arena)?.command(&["batch", scheduler.word(), "--image", "image", "--standfast"]);
        command.arg(standfast_binary()?).arg("-d").arg(arena.images()).args(options).arg("--");
        command.arg(&program.path).args(&program.arguments);
        let text = Running::complete(arena, "batch", &mut command)?.well("batch")?.output;
        let tools = arena.folder().join("tools");
        fs::create_dir_all(&tools)?;
        let scontrol = tools.join("scontrol");
        fs::write(&scontrol, SCONTROL)?;
        fs::set_permissions(&scontrol, fs::Permissions::from_mode(0o755))?;
        Ok(Self { scheduler, arena, text, starts: 0 })
    }

    fn requeued(&self) -> PathBuf {
        self.arena.folder().join("requeued")
    }

    /// Returns the command that the scheduler executes; `None` if a condition of it does not hold.
    fn command(&self) -> Result<Option<Command>> {
        let mut command = match self.scheduler {
            Scheduler::Slurm | Scheduler::GridEngine | Scheduler::Condor => {
                let script = self.arena.folder().join("job.sh");
                fs::write(&script, &self.text)?;
                let mut command = self.arena.command("bash");
                command.arg(script);
                command
            }
            Scheduler::Kubernetes => self.words_as_command(&kubernetes_words(&self.text)?)?,
            Scheduler::Systemd => {
                let condition = systemd_words(&self.text, "ExecCondition=")?;
                if !Running::complete(self.arena, "condition", &mut self.words_as_command(&condition)?)?.exited(0) {
                    return Ok(None);
                }
                self.words_as_command(&systemd_words(&self.text, "ExecStart=")?)?
            }
        };
        let path = std::env::var_os("PATH").context("there is a PATH")?;
        let tools = self.arena.folder().join("tools");
        let path = std::env::join_paths(std::iter::once(tools).chain(std::env::split_paths(&path)))?;
        command.env("PATH", path).env("REQUEUED", self.requeued()).env("SLURM_JOB_ID", SLURM_JOB);
        command.env("_CONDOR_SCRATCH_DIR", self.arena.folder()).stdin(Stdio::null()).process_group(0);
        Ok(Some(command))
    }

    fn words_as_command(&self, words: &[String]) -> Result<Command> {
        let (program, arguments) = words.split_first().context("a command has a word")?;
        let mut command = self.arena.command(program);
        command.args(arguments);
        Ok(command)
    }

    /// Runs the job once. After `moment`, if it is given, the scheduler announces the job's end, and kills it when
    /// `notice` is over. Returns `None` if the scheduler does not start it.
    ///
    /// # Errors
    /// When the job can neither be run nor killed.
    pub fn run(&mut self, moment: Option<Duration>, notice: Duration, random: &mut Rng) -> Result<Option<PlayedRun>> {
        self.starts += 1;
        let _ = fs::remove_file(self.requeued());
        let Some(mut command) = self.command()? else { return Ok(None) };
        let name = format!("life-{}", self.starts);
        let mut running = Running::start(self.arena, &name, Output::Log, &mut command)?;
        let mut stopping = None;
        if self.scheduler != Scheduler::Systemd {
            self.await_traps(&mut running)?;
        }
        if let Some(moment) = moment
            && !ends_within(&mut running, moment)?
        {
            let signal = random.choice(self.scheduler.signals()).copied().context("there is a signal")?;
            let begun = Instant::now();
            self.signal(&running, signal)?;
            if ends_within(&mut running, notice)? {
                stopping = Some(begun.elapsed());
            } else {
                stopping = Some(notice);
                self.arena.clear();
            }
        }
        let ended = running.wait(PATIENCE)?;
        let is_again = match self.scheduler {
            Scheduler::Slurm => fs::read_to_string(self.requeued()).is_ok_and(|jobs| jobs.trim() == SLURM_JOB),
            Scheduler::Systemd => true,
            _ => ended.status.code() == self.scheduler.again(),
        };
        Ok(Some(PlayedRun { ended, is_again, stopping }))
    }

    /// Waits until the script catches the scheduler's signals. No script can do anything about an earlier one.
    fn await_traps(&self, running: &mut Running) -> Result<()> {
        let signals = self.scheduler.signals().iter().fold(0, |mask, signal| mask | 1_u64 << (*signal as i32 - 1));
        until(PATIENCE, "the traps of the script", || {
            if running.has_ended()? {
                return Ok(Some(()));
            }
            let status = fs::read_to_string(format!("/proc/{}/status", running.pid()))?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).context("a mask of signals")?;
            Ok((u64::from_str_radix(caught.trim(), 16)? & signals == signals).then_some(()))
        })
    }

    fn signal(&self, running: &Running, signal: Signal) -> Result<()> {
        let pid = match self.scheduler {
            Scheduler::GridEngine => Pid::from_raw(-running.pid().as_raw()),
            _ => running.pid(),
        };
        // It may have ended just now; it has not been waited for.
        kill(pid, signal).with_context(|| format!("sending {signal}"))
    }
}

fn ends_within(running: &mut Running, time: Duration) -> Result<bool> {
    let begun = Instant::now();
    while begun.elapsed() < time {
        if running.has_ended()? {
            return Ok(true);
        }
        sleep(Duration::from_millis(1).min(time));
    }
    running.has_ended()
}

/// Interrupts a job again and again at random moments. Its result must be that of an undisturbed run, no stop may take
/// longer than `notice`, and nothing may be left. Returns how often it was interrupted, and the longest stop.
///
/// # Errors
/// When any of that does not hold.
pub fn survives_interruptions(
    job: &mut PlayedJob<'_>,
    native: &RunResult,
    times: u32,
    notice: Duration,
    random: &mut Rng,
) -> Result<(u32, Duration)> {
    /// Longest time that a job runs before it is interrupted.
    const LIFE_MAX: f64 = 0.6;
    let (mut interrupted, mut longest) = (0, Duration::ZERO);
    while interrupted < times {
        let moment = Duration::from_secs_f64(LIFE_MAX * random.f64());
        let Some(run) = job.run(Some(moment), notice, random)? else { break };
        let Some(stopping) = run.stopping else {
            ensure!(run.ended.exited(0), "it ended with {}: {}", run.ended.status, run.ended.errors);
            break;
        };
        ensure!(stopping < notice, "interruption {interrupted}: no stop within {notice:?}: {}", run.ended.errors);
        longest = longest.max(stopping);
        if !run.is_again {
            ensure!(run.ended.exited(0), "not queued again: {}; {}", run.ended.status, run.ended.errors);
            break;
        }
        interrupted += 1;
        job.arena.wait_until_empty(PATIENCE)?;
    }
    if let Some(last) = job.run(None, notice, random)? {
        let last = last.ended.well("the last run")?;
        ensure!(last.exited(0), "{}", last.errors);
    }
    ensure!(
        job.run(None, notice, random)?.is_none_or(|run| run.ended.exited(0) && is_queue_empty(job)),
        "it ran again"
    );
    RunResult::read(&job.arena.work())?.must_equal(native).with_context(|| job.arena.evidence())?;
    job.arena.wait_until_empty(PATIENCE)?;
    Ok((interrupted, longest))
}

/// Reports whether no job is waiting in the queue.
fn is_queue_empty(job: &PlayedJob<'_>) -> bool {
    !job.requeued().exists()
}

/// Returns the command of the container in a manifest that `standfast batch kubernetes` has printed.
fn kubernetes_words(text: &str) -> Result<Vec<String>> {
    let (_, rest) = text.split_once("- |\n").context("a script in the manifest")?;
    let (script, arguments) = rest.split_once("\n            - sh\n          args:\n").context("arguments")?;
    let script: Vec<&str> = script.lines().map(|line| line.strip_prefix("              ").unwrap_or(line)).collect();
    let mut words = vec!["/bin/sh".to_owned(), "-c".to_owned(), script.join("\n"), "sh".to_owned()];
    for line in arguments.lines() {
        let word = line.trim_start().strip_prefix("- ").context("an argument")?;
        words.push(serde_json::from_str(word)?);
    }
    Ok(words.into_iter().map(|word| word.replace("$$(", "$(")).collect())
}

/// Returns the words of a setting in a unit, as systemd reads them.
fn systemd_words(unit: &str, setting: &str) -> Result<Vec<String>> {
    let line = unit.lines().find_map(|line| line.strip_prefix(setting)).context("the unit has this setting")?;
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            (' ', None) => words.extend(word.take()),
            ('"' | '\'', None) => (quote, word) = (Some(character), Some(word.unwrap_or_default())),
            (end, Some(begin)) if end == begin => quote = None,
            ('\\', _) => word.get_or_insert_default().push(match characters.next() {
                Some('x') => {
                    let digits: String = characters.by_ref().take(2).collect();
                    char::from(u8::from_str_radix(&digits, 16)?)
                }
                Some(escaped) => escaped,
                None => bail!("a backslash at the end of {line}"),
            }),
            ('%' | '$', _) => {
                ensure!(characters.next() == Some(character), "a single {character} in {line}");
                word.get_or_insert_default().push(character);
            }
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}
