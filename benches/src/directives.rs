//! What the papers' directives save (L19 to L21, M9, M11): the sizes of checkpoints of their programs, with directives
//! and without, and how long the checkpoints freeze the programs.

use crate::figures::{Verdict, median, milliseconds, ratio};
use anyhow::{Context as _, Result};
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::papers::{CELL, MAT, NNET, PAPERS, Paper, SOLVE, STSWM};
use standfast_tests::parallel::checksum;
use standfast_tests::result::RunResult;
use standfast_tests::running::PATIENCE;
use standfast_tests::victims::{Program, Victim};
use std::ffi::OsString;
use std::time::Duration;

/// The interval of timed checkpoints, or the minimum time between two checkpoints that the program requests.
const INTERVAL_MILLISECONDS: u64 = 200;
/// Keeps all checkpoints of a run, so that all can be examined.
const KEPT: [&str; 4] = ["--keep", "1000", "--max-files", "1000"];
const TOO_FEW: &str = "it ended before its second checkpoint";
const WHOLE: [&str; 4] = ["--incremental", "off", "--snapshot", "sequential"];
const INCREMENTAL: [&str; 4] = ["--incremental", "on", "--snapshot", "sequential"];

/// When a run takes checkpoints.
#[derive(Debug, Clone, Copy)]
enum Moments {
    /// At the intervals of a timer.
    Timer,
    /// When the program requests them.
    Directed,
}

/// The number of runs with and without directives, in turns. A run has about ten checkpoints, so a single one at a busy
/// moment would count too much.
const TURNS: usize = 3;

/// How much the median of equal pauses of some milliseconds varies between runs on a quiet machine.
const SPREAD: Duration = Duration::from_micros(500);

/// The sizes and pauses of all checkpoints after the first.
#[derive(Debug, Clone, Default)]
struct Course {
    bytes: Vec<u64>,
    pauses: Vec<Duration>,
}

impl Course {
    /// Returns the median size of the images.
    fn bytes(&self) -> u64 {
        let mut bytes = self.bytes.clone();
        bytes.sort_unstable();
        bytes[bytes.len() / 2]
    }

    /// Returns the median pause.
    fn pause(&self) -> Duration {
        median(&self.pauses)
    }

    /// Adds the results of another run.
    fn and(mut self, more: Self) -> Self {
        self.bytes.extend(more.bytes);
        self.pauses.extend(more.pauses);
        self
    }
}

/// Measures the promises for the papers' programs, at sizes of ten to ninety megabytes.
pub(crate) fn promises() -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    // 46 MB, so that the fixed cost of a checkpoint, three milliseconds, does not matter.
    if let Some((plain, directed)) = pair(SOLVE, &["3400", "3"], &WHOLE, &WHOLE, Moments::Directed)? {
        verdicts.push(smaller("SOLVE: image with directives against whole", &directed, &plain, 0.10));
        // Two of five milliseconds are for attributes of memory. At a checkpoint that the program asks for, they are read
        // while it is stopped: it is told then that the checkpoint was taken, so that cannot be repeated later.
        verdicts.push(shorter("SOLVE: pause with directives against whole", &directed, &plain, 0.20));
    }
    if let Some((plain, directed)) = pair(CELL, &["2850", "300"], &WHOLE, &WHOLE, Moments::Directed)? {
        verdicts.push(smaller("CELL: image with directives against whole", &directed, &plain, 0.55));
    }
    let nnet = &["22500", "40", "800"];
    if let Some((plain, directed)) = pair(NNET, nnet, &INCREMENTAL, &INCREMENTAL, Moments::Timer)? {
        verdicts.push(smaller("NNET: image with directives against incremental", &directed, &plain, 1.0 / 3.0));
        // Nearly a million regions must not cost what they save.
        verdicts.push(shorter("NNET: pause with directives against incremental", &directed, &plain, 1.10));
    }
    if let Some((plain, directed)) = pair(MAT, &["1700"], &INCREMENTAL, &WHOLE, Moments::Timer)? {
        verdicts.push(smaller("MAT: image with directives alone against incremental", &directed, &plain, 1.10));
        verdicts.push(shorter("MAT: pause with directives alone against incremental", &directed, &plain, 1.10));
    }
    if let Some(program) = sized(STSWM.victim, &["170", "8"])? {
        let whole = timed(&program, &WHOLE)?.context(TOO_FEW)?;
        let incremental = timed(&program, &INCREMENTAL)?.context(TOO_FEW)?;
        verdicts.push(smaller("STSWM: incremental image against whole", &incremental, &whole, 0.40));
    }
    Ok(verdicts)
}

/// Prints whole and incremental checkpoints of all the papers' programs, as a table without a promise (L20).
pub(crate) fn picture() -> Result<()> {
    println!("      the papers' programs without directives: whole and incremental images");
    for paper in PAPERS {
        let Some(program) = paper.victim.program()? else { continue };
        let courses = (timed(&program, &WHOLE)?, timed(&program, &INCREMENTAL)?);
        let (Some(whole), Some(incremental)) = courses else {
            println!("        {:<8} ended before its second checkpoint", paper.victim.name);
            continue;
        };
        let share = incremental.bytes() as f64 / whole.bytes() as f64 * 100.0;
        println!(
            "        {:<8} {:>11} bytes  {:>11} bytes  {share:>5.1} %  pauses {} and {}",
            paper.victim.name,
            whole.bytes(),
            incremental.bytes(),
            milliseconds(whole.pause()),
            milliseconds(incremental.pause())
        );
    }
    Ok(())
}

/// Measures a program without directives and with them. Returns `None` if the machine cannot build it.
fn pair(
    paper: Paper,
    arguments: &[&str],
    plain: &[&str],
    directed: &[&str],
    moments: Moments,
) -> Result<Option<(Course, Course)>> {
    let twin = paper.directed.context("it has directives")?;
    let (Some(program), Some(twin)) = (sized(paper.victim, arguments)?, sized(twin, arguments)?) else {
        return Ok(None);
    };
    let (mut without, mut with) = (Course::default(), Course::default());
    for _ in 0..TURNS {
        without = without.and(timed(&program, plain)?.context(TOO_FEW)?);
        with = with.and(course(&twin, directed, moments)?.context(TOO_FEW)?);
    }
    Ok(Some((without, with)))
}

fn sized(victim: Victim, arguments: &[&str]) -> Result<Option<Program>> {
    let arguments = arguments.iter().map(OsString::from).collect();
    Ok(victim.program()?.map(|program| Program { arguments, ..program }))
}

fn timed(program: &Program, words: &[&str]) -> Result<Option<Course>> {
    course(program, words, Moments::Timer)
}

/// Runs a program to its end and examines its checkpoints after the first, which saves everything. Returns `None` if
/// there were none.
fn course(program: &Program, words: &[&str], moments: Moments) -> Result<Option<Course>> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let least = format!("{INTERVAL_MILLISECONDS}ms");
    let (checkpoints, least) = match moments {
        Moments::Timer => (Checkpoints::EveryMilliseconds(INTERVAL_MILLISECONDS), ["--min-interval", "never"]),
        Moments::Directed => (Checkpoints::OnRequest, ["--min-interval", least.as_str()]),
    };
    let options: Vec<_> = words.iter().chain(&KEPT).chain(&least).map(|word| (*word).to_owned()).collect();
    // What earlier runs have written may be gigabytes, for which the first checkpoint would wait to the end of this one.
    nix::unistd::sync();
    standfast.run_with(&options, checkpoints, program)?.wait(PATIENCE)?.well("the program")?;
    // The program has checked its result itself.
    checksum(&RunResult::read(&arena.work())?.output())?;
    let after = checkpoints_left(&standfast, &arena)?.into_iter().skip(1);
    let (bytes, pauses): (Vec<_>, Vec<_>) = after.map(|taken| (taken.bytes, taken.pause)).unzip();
    Ok((!bytes.is_empty()).then_some(Course { bytes, pauses }))
}

/// A checkpoint that is still there.
pub(crate) struct Taken {
    /// The size of its image.
    pub(crate) bytes: u64,
    pub(crate) pause: Duration,
}

/// Returns the checkpoints of a job, the oldest first.
pub(crate) fn checkpoints_left(standfast: &Standfast<'_>, arena: &Arena) -> Result<Vec<Taken>> {
    let said = standfast.ask("list", &arena.images(), &["--json"])?.well("list")?.output;
    let generations: Vec<Value> = serde_json::from_str(&said).with_context(|| format!("list said {said:?}"))?;
    let number = |of: &Value, name: &str| of[name].as_u64().with_context(|| format!("no {name} in {of}"));
    let taken = |of: &Value| {
        let pause = Duration::from_nanos(number(of, "pause_nanoseconds")?);
        Ok(Taken { bytes: number(of, "file_bytes")?, pause })
    };
    generations.iter().map(taken).collect()
}

fn smaller(what: &str, course: &Course, reference: &Course, bound: f64) -> Verdict {
    let found = course.bytes() as f64 / reference.bytes() as f64;
    Verdict {
        promise: format!("{what}: at most {bound:.2}"),
        measured: format!("{found:.3} ({} bytes against {})", course.bytes(), reference.bytes()),
        holds: found <= bound,
    }
}

fn shorter(what: &str, course: &Course, reference: &Course, bound: f64) -> Verdict {
    let (found, limit) = (ratio(course.pause(), reference.pause()), reference.pause().mul_f64(bound) + SPREAD);
    Verdict {
        promise: format!("{what}: at most {bound:.2} and {}", milliseconds(SPREAD)),
        measured: format!("{found:.3} ({} against {})", milliseconds(course.pause()), milliseconds(reference.pause())),
        holds: course.pause() <= limit,
    }
}
