//! The methods of capture, applied to the papers' programs: their costs, and whether `auto` is good enough. It must be
//! as good as the best hand-picked method, or cost at most a hundredth of the running time. The cost is the time for
//! which the program is frozen, plus the time for additional page faults, which are counted. Running times would not do.
//! On a virtual machine, the same computation differs by a third between two runs. On any machine, it differs by more
//! than all checkpoints together.

use crate::figures::{Verdict, median, milliseconds};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::meter::{faults, metered};
use standfast_tests::papers::PAPERS;
use standfast_tests::running::{Output, PATIENCE, Running};
use standfast_tests::victims::Program;
use std::process::Stdio;
use std::time::Duration;

const HAND_PICKED: [&str; 4] = ["sequential", "copy", "fork", "precopy"];
const INTERVAL: Duration = Duration::from_millis(250);
/// Keeps all checkpoints, so that they can be counted.
const KEPT: [&str; 4] = ["--keep", "1000", "--max-files", "1000"];
/// The maximum cost of the choice relative to the best method.
const WORSE_MAX: f64 = 1.15;
/// Alternatively, the maximum difference as a fraction of the interval between checkpoints.
const SHARE_MAX: f64 = 0.01;

/// The time for a page fault on which the kernel records a write or permits it. `chains` measures it.
const FAULT: Duration = Duration::from_micros(1);
/// The time for a page fault on which the kernel copies the page for a clone.
const COPYING_FAULT: Duration = Duration::from_micros(2);

/// One run of a program.
#[derive(Debug, Clone)]
struct Run {
    faults: u64,
    pauses: Vec<Duration>,
}

impl Run {
    /// Returns the cost of one checkpoint by this method, for a program with `faults` faults without checkpoints. Costs
    /// are not added up, since there are fewer checkpoints if each takes longer.
    fn cost(&self, way: &str, faults: u64) -> Duration {
        let fault = if way == "fork" { COPYING_FAULT } else { FAULT };
        let checkpoints = self.pauses.len() as f64;
        let more = self.faults.saturating_sub(faults) as f64;
        (self.pauses.iter().sum::<Duration>() + fault.mul_f64(more)).div_f64(checkpoints)
    }
}

/// Reports one verdict for each program that is available here. One run each selects the two best methods, which are
/// then measured in turns with `auto`. Finding and measuring the best in the same runs would favor it by chance.
pub(crate) fn against_the_best(repeats: usize, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    for paper in PAPERS {
        let Some(program) = paper.victim.program()? else { continue };
        let native = timed(&program, None)?;
        let cost = |way| timed(&program, Some(way)).map(|run| run.cost(way, native.faults));
        let mut tried = Vec::new();
        for way in HAND_PICKED {
            tried.push((cost(way)?, way));
        }
        tried.sort_unstable();
        let ways = ["auto", tried[0].1, tried[1].1];
        let mut costs = ways.map(|_| Vec::new());
        for _ in 0..repeats {
            for (way, costs) in ways.iter().zip(&mut costs) {
                costs.push(cost(way)?);
            }
        }
        let [auto, first, second] = costs.map(|costs| median(&costs));
        let (best, way) = (first, ways[1]).min((second, ways[2]));
        let most = best.mul_f64(WORSE_MAX).max(best + INTERVAL.mul_f64(SHARE_MAX));
        let [auto_cost, best_cost] = [auto, best].map(milliseconds);
        say(Verdict {
            promise: format!("{}: auto at most {WORSE_MAX} times the best way's overhead", paper.victim.name),
            measured: format!("{auto_cost} against {best_cost} ({way}), each {} ms", INTERVAL.as_millis()),
            holds: auto <= most,
        });
    }
    Ok(())
}

/// Runs the program by itself, or protected by this method.
fn timed(program: &Program, way: Option<&str>) -> Result<Run> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let program = metered(&arena, program)?;
    let mut command = match way {
        None => {
            let mut command = arena.command(&program.path);
            command.args(&program.arguments);
            command
        }
        Some(way) => {
            let options: Vec<_> = ["--snapshot", way].iter().chain(&KEPT).map(|word| (*word).to_owned()).collect();
            let checkpoints = Checkpoints::EveryMilliseconds(u64::try_from(INTERVAL.as_millis())?);
            standfast.run_command_with(&options, checkpoints, &program)
        }
    };
    Running::start(&arena, "timed", Output::Log, command.stdin(Stdio::null()))?.wait(PATIENCE)?.well("the program")?;
    let mut pauses = Vec::new();
    if way.is_some() {
        let said = standfast.ask("list", &arena.images(), &["--json"])?.well("list")?.output;
        let generations: Vec<Value> = serde_json::from_str(&said).with_context(|| format!("list said {said:?}"))?;
        let pause = |of: &Value| of["pause_nanoseconds"].as_u64().map(Duration::from_nanos).context("a pause");
        pauses = generations.iter().map(pause).collect::<Result<_>>()?;
        ensure!(!pauses.is_empty(), "the program ended before its first checkpoint");
    }
    Ok(Run { faults: faults(&arena)?, pauses })
}
