//! What the cost model predicts, compared with what happens. Programs that the model knows nothing of run to their end while
//! everything is killed at random moments and continued. `standfast advise` has said before how long that takes.
//!
//! ```text
//! calibration   one run with one failure: what checkpoints and restarts cost, and so the advice
//! overhead      runs without failures, in turns with the program alone, at the advised interval
//! completion    runs with some three failures each
//! ```

mod record;

pub use record::record;

use crate::arena::Arena;
use crate::command::Standfast;
use crate::mpi::MPIS;
use crate::running::{Output, PATIENCE, Running, patience_for_a_whole_run};
use crate::victims::Program;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use serde_json::Value;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Expected number of failures in the running time that the program has alone.
const FAILURES: f64 = 2.5;
/// Turns of the program alone and under checkpoints.
const TURNS: usize = 5;
/// A run of this many seconds tells how much work a second takes.
const TELLING_SECONDS: f64 = 2.0;
/// The file that each program leaves.
const RESULT: &str = "result";

/// Programs by name. `UNITS` stands for the amount of work, `MPI` for the launcher of three ranks. Each writes its result to
/// the file `result`.
const SUBJECTS: [(&str, &str); 4] = [
    ("compressor", "seq 1 UNITS00000 > numbers && exec xz -T1 -6 -c numbers > result"),
    (
        "objects",
        "exec python3 -c 'import hashlib
table, x = {}, 1
for i in range(UNITS * 100000):
    x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
    table[x >> 45] = (i, str(x))
print(hashlib.sha256(repr(sorted(table.items())).encode()).hexdigest())' > result",
    ),
    (
        "database",
        "exec python3 -c 'import sqlite3
rows, x = sqlite3.connect(\":memory:\"), 1
rows.execute(\"create table t (k integer primary key, v text)\")
for i in range(UNITS * 20000):
    x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
    rows.execute(\"insert or replace into t values (?, ?)\", (x >> 46, str(x) * 8))
print(*rows.execute(\"select count(*), sum(k), sum(length(v)) from t\").fetchone())' > result",
    ),
    ("ranks", "exec MPI UNITS0 > result"),
];

/// How long, how often, and which.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Running time of each program alone, in seconds.
    pub seconds: f64,
    /// Number of runs with failures.
    pub runs: usize,
    /// Seed of the failures.
    pub seed: u64,
    /// The only program to run.
    pub only: Option<String>,
}

/// What was predicted of one program, and what happened. Times are in seconds, overheads fractions of `base`.
#[derive(Debug, Clone)]
pub struct Comparison {
    name: &'static str,
    base: f64,
    interval: f64,
    predicted_overhead: f64,
    measured_overhead: f64,
    expected: f64,
    mean: f64,
    standard_error: f64,
    failures: f64,
}

impl Comparison {
    /// Reports whether the overhead is within 15 % of what was predicted where it is at least 5 % of the running time, or
    /// within 0.5 % of the running time.
    pub fn has_overhead_as_predicted(&self) -> bool {
        let allowed = if self.measured_overhead >= 0.05 { 0.15 * self.measured_overhead } else { 0.005 };
        (self.measured_overhead - self.predicted_overhead).abs() <= allowed
    }

    /// Reports whether the mean running time is within 5 % and two standard errors of the expected one.
    pub fn ends_as_predicted(&self) -> bool {
        (self.mean - self.expected).abs() <= 0.05 * self.expected + 2.0 * self.standard_error
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = |is_well: bool| if is_well { "as predicted" } else { "NOT AS PREDICTED" };
        write!(
            f,
            "{}: {:.2} s alone, -i {:.2}s; overhead {:.2} %, predicted {:.2} %: {}; with {:.1} failures {:.2} s +- {:.2} s, \
             expected {:.2} s: {}",
            self.name,
            self.base,
            self.interval,
            self.measured_overhead * 100.0,
            self.predicted_overhead * 100.0,
            verdict(self.has_overhead_as_predicted()),
            self.failures,
            self.mean,
            self.standard_error,
            self.expected,
            verdict(self.ends_as_predicted()),
        )
    }
}

/// Compares each program of the plan, and gives the comparisons to `each`.
///
/// # Errors
/// When a program cannot be run, is refused, or has another result than alone.
pub fn compare(plan: &Plan, each: &mut dyn FnMut(&Comparison)) -> Result<()> {
    for (name, script) in SUBJECTS {
        if plan.only.as_deref().is_none_or(|only| only == name) {
            each(&Subject::calibrated(name, script, plan)?.compared(plan)?);
        }
    }
    Ok(())
}

/// A program with an amount of work.
struct Subject {
    name: &'static str,
    program: Program,
    result: Vec<u8>,
    mean_time: f64,
}

/// How a run ended.
struct Course {
    seconds: f64,
    failures: u32,
}

impl Subject {
    /// Makes the program with as much work as takes about `plan.seconds`.
    fn calibrated(name: &'static str, script: &str, plan: &Plan) -> Result<Self> {
        let mut units = 1;
        loop {
            let program = program(script, units)?;
            let (seconds, _) = alone(&program)?;
            if seconds >= TELLING_SECONDS {
                let units = (f64::from(units) * plan.seconds / seconds).ceil() as u32;
                let program = self::program(script, units)?;
                let (seconds, result) = alone(&program)?;
                return Ok(Self { name, program, result, mean_time: seconds / FAILURES });
            }
            units *= 2;
        }
    }

    fn compared(&self, plan: &Plan) -> Result<Comparison> {
        let mut random = Rng::with_seed(plan.seed);
        let calibration = Arena::new()?;
        self.run(&calibration, "auto", &mut [self.mean_time].into_iter())?;
        let advice = self.advice(&calibration, &format!("{:.0}ms", self.mean_time * 1000.0))?;
        let interval = number(&advice["interval_seconds"])?;
        let quiet = self.advice(&calibration, "never")?;
        let option = format!("{}ms", (interval * 1000.0).round());

        let (mut natives, mut protecteds) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            natives.push(alone(&self.program)?.0);
            protecteds.push(self.run(&Arena::new()?, &option, &mut std::iter::empty())?.seconds);
        }
        let base = median(natives);

        let mut courses = Vec::new();
        for _ in 0..plan.runs {
            let mut gaps = std::iter::repeat_with(|| -random.f64().max(f64::MIN_POSITIVE).ln() * self.mean_time);
            courses.push(self.run(&Arena::new()?, &option, &mut gaps)?);
        }
        let times: Vec<f64> = courses.iter().map(|course| course.seconds).collect();
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        Ok(Comparison {
            name: self.name,
            base,
            interval,
            predicted_overhead: value_at(&quiet["curve"], interval)?,
            measured_overhead: median(protecteds) / base - 1.0,
            expected: base * (1.0 + number(&advice["overhead_ratio"])?),
            mean,
            standard_error: (variance / count).sqrt(),
            failures: courses.iter().map(|course| f64::from(course.failures)).sum::<f64>() / count,
        })
    }

    /// Runs the program to its end. Kills everything after each of these times in seconds, and continues it at once. The
    /// result must be that of the program alone.
    fn run(&self, arena: &Arena, interval: &str, gaps: &mut dyn Iterator<Item = f64>) -> Result<Course> {
        let standfast = Standfast::new(arena)?;
        let begun = Instant::now();
        let mut failures = 0;
        loop {
            let mut command = standfast.command(&["run", "--resume", "-i", interval, "--rehearse", "off", "-d"]);
            command.arg(arena.images()).arg("--mtbf").arg(format!("{:.0}ms", self.mean_time * 1000.0));
            command.arg("--").arg(&self.program.path).args(&self.program.arguments);
            let running = Running::start(arena, &format!("life-{failures}"), Output::Nowhere, &mut command)?;
            let limit = gaps.next().map_or(patience_for_a_whole_run(), Duration::from_secs_f64);
            match ended_within(running, limit)? {
                true => break,
                false => arena.clear(),
            }
            failures += 1;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let found = fs::read(arena.work().join(RESULT)).context("the result")?;
        ensure!(found == self.result, "{}: another result than alone; {}", self.name, arena.evidence());
        Ok(Course { seconds, failures })
    }

    fn advice(&self, arena: &Arena, mean_time: &str) -> Result<Value> {
        let standfast = Standfast::new(arena)?;
        let said = standfast.ask("advise", &arena.images(), &["--mtbf", mean_time, "--json"])?.well("advise")?;
        serde_json::from_str(&said.output).context("the advice")
    }
}

/// Waits for the end of a run, which must be a good one. Returns whether it came within the limit.
fn ended_within(mut running: Running, limit: Duration) -> Result<bool> {
    let until = Instant::now() + limit;
    while !running.has_ended()? {
        if Instant::now() >= until {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    running.wait(PATIENCE)?.well("the job")?;
    Ok(true)
}

fn program(script: &str, units: u32) -> Result<Program> {
    let mut script = script.replace("UNITS", &units.to_string());
    if script.contains("MPI") {
        // Open MPI's launcher cleans up after a failure what a restart needs.
        let mpich = MPIS.iter().find(|mpi| mpi.name == "MPICH").context("MPICH is known")?;
        let mut words = mpich.unmodified(0)?.context("MPICH is not installed")?.words();
        words.pop();
        script = script.replace("MPI", &words.join(" "));
    }
    Ok(Program { path: PathBuf::from("/bin/sh"), arguments: vec!["-c".into(), script.into()] })
}

/// Runs a program without Standfast. Returns its running time in seconds, and its result.
fn alone(program: &Program) -> Result<(f64, Vec<u8>)> {
    let arena = Arena::new()?;
    let mut command = arena.command(&program.path);
    command.args(&program.arguments).stdin(Stdio::null());
    let begun = Instant::now();
    let running = Running::start(&arena, "alone", Output::Nowhere, &mut command)?;
    ensure!(ended_within(running, patience_for_a_whole_run())?, "the program alone takes too long");
    Ok((begun.elapsed().as_secs_f64(), fs::read(arena.work().join(RESULT))?))
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().with_context(|| format!("{value} is no number"))
}

/// Returns the value of a curve at an interval, between its two nearest points.
fn value_at(curve: &Value, interval: f64) -> Result<f64> {
    let points = curve.as_array().context("a curve")?;
    let points: Vec<(f64, f64)> = points
        .iter()
        .map(|point| Ok((number(&point["interval_seconds"])?, number(&point["value"])?)))
        .collect::<Result<_>>()?;
    let after = points.iter().position(|(at, _)| *at >= interval).context("the curve ends before the interval")?;
    let (right, value) = points[after];
    let Some((left, before)) = after.checked_sub(1).map(|at| points[at]) else { return Ok(value) };
    Ok(before + (value - before) * (interval - left) / (right - left))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
