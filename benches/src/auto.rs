//! The ways to take memory on the papers' programs: what each costs them, and that `auto` is as good as the best hand-picked
//! one, or costs no more than a hundredth of the running time. What it costs is the time that the program stands still and what
//! the page faults take that it would not have had otherwise, each counted: how long the same computation takes differs by
//! a third between two runs on a virtual machine, and by more than all checkpoints together on any.

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
/// All checkpoints are kept, to be counted.
const KEPT: [&str; 4] = ["--keep", "1000", "--max-files", "1000"];
/// What the choice may cost more than the best.
const WORSE_MAX: f64 = 1.15;
/// Or so much of the running time, if that is more: of an interval, since that is how often it costs that.
const SHARE_MAX: f64 = 0.01;

/// What a page fault takes, on which the kernel notes or lets a page be written to; `chains` measures it.
const FAULT: Duration = Duration::from_micros(1);
/// And one on which it copies the page for a clone.
const COPYING_FAULT: Duration = Duration::from_micros(2);

/// A run of a program.
#[derive(Debug, Clone)]
struct Run {
    faults: u64,
    pauses: Vec<Duration>,
}

impl Run {
    /// What each checkpoint has cost by itself, in this way, of a program that has so many faults without. Where a checkpoint
    /// takes longer there are fewer of them, so that they are not to be added up.
    fn cost(&self, way: &str, faults: u64) -> Duration {
        let fault = if way == "fork" { COPYING_FAULT } else { FAULT };
        let checkpoints = self.pauses.len() as f64;
        let more = self.faults.saturating_sub(faults) as f64;
        (self.pauses.iter().sum::<Duration>() + fault.mul_f64(more)).div_f64(checkpoints)
    }
}

/// One verdict for each program that can be had here. The best of four is not found and measured by the same runs, or chance
/// would make it better than it is: one run each leaves two, which are measured in turns with the choice.
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

/// The program by itself or protected in this way.
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
