//! What the checkpoints of each program cost, and what that becomes when they are further apart: a table by which automatic
//! intervals can be judged.

use super::{Plan, SUBJECTS, Subject, median, number};
use crate::arena::Arena;
use crate::command::Standfast;
use anyhow::{Context as _, Result};
use serde_json::Value;

/// Intervals at which each program runs, in seconds.
const INTERVALS: [f64; 3] = [0.5, 2.0, 8.0];
/// Parts of a program's work of which each has its own costs.
const PARTS: usize = 6;
/// A program that changes its phase twice: it fills its memory, writes all of it once more, and then a little of it.
const CHANGING: (&str, &str) = (
    "phases",
    "exec python3 -c 'import hashlib
def worked(block):
    for _ in range(60):
        block = hashlib.sha512(block).digest() * 1024
    return block
table, x = [], b\"begin\"
for i in range(UNITS * 100):
    table.append(worked(str(i).encode()))
for i in range(UNITS * 100):
    table[i] = worked(table[i])
for i in range(UNITS * 100):
    x = worked(x)
print(hashlib.sha256(x + b\"\".join(table)).hexdigest())' > result",
);

/// A checkpoint of a run, in seconds.
struct Cost {
    work: f64,
    overhead: f64,
    latency: f64,
}

/// Runs each program of the plan at each interval, without failures, and gives the lines of the table to `each`.
///
/// # Errors
/// When a program cannot be run, is refused, or has another result than alone.
pub fn record(plan: &Plan, each: &mut dyn FnMut(&str)) -> Result<()> {
    each("program,part,interval_seconds,overhead_seconds,latency_seconds");
    for (name, script) in SUBJECTS.into_iter().chain([CHANGING]) {
        if plan.only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let subject = Subject::calibrated(name, script, plan)?;
        for interval in INTERVALS {
            let costs = costs_of(&subject, interval)?;
            for part in 0..PARTS {
                let Some(cost) = median_of_part(&costs, part) else { continue };
                each(&format!("{name},{part},{:.3},{:.5},{:.5}", cost.work, cost.overhead, cost.latency));
            }
        }
    }
    Ok(())
}

/// Runs a program with this interval, and returns what each of its checkpoints cost.
fn costs_of(subject: &Subject, interval: f64) -> Result<Vec<Cost>> {
    let arena = Arena::new()?;
    subject.run(&arena, &format!("{}ms", interval * 1000.0), &mut std::iter::empty())?;
    let said = Standfast::new(&arena)?.ask("report", &arena.images(), &["--json"])?.well("report")?;
    let history: Value = serde_json::from_str(&said.output).context("the history")?;
    let life = &history["lives"][0];
    let mut since = number(&life["began_nanoseconds"])?;
    let mut costs = Vec::new();
    for checkpoint in life["checkpoints"].as_array().context("the checkpoints")? {
        let value = |name: &str| number(&checkpoint[name]);
        let beside = value("processor_nanoseconds")? / value("processors")?;
        let overhead = value("pause_nanoseconds")? + value("first_writes_nanoseconds")? + beside;
        let taken = value("taken_nanoseconds")?;
        costs.push(Cost {
            work: (taken - since - overhead).max(0.0) / 1e9,
            overhead: overhead / 1e9,
            latency: value("durable_nanoseconds")? / 1e9,
        });
        since = taken;
    }
    Ok(costs)
}

/// Returns the usual cost in one part of the work; `None` if no checkpoint was taken there.
fn median_of_part(costs: &[Cost], part: usize) -> Option<Cost> {
    let whole: f64 = costs.iter().map(|cost| cost.work).sum();
    let mut done = 0.0;
    let of_part: Vec<&Cost> = costs
        .iter()
        .filter(|cost| {
            done += cost.work;
            (((done / whole) * PARTS as f64).ceil() as usize).saturating_sub(1) == part
        })
        .collect();
    let median = |value: fn(&Cost) -> f64| median(of_part.iter().map(|cost| value(cost)).collect());
    (!of_part.is_empty()).then(|| Cost {
        work: median(|cost| cost.work),
        overhead: median(|cost| cost.overhead),
        latency: median(|cost| cost.latency),
    })
}
