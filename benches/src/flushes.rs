//! Where checkpoints in memory are flushed to disk (H6, H7). The benchmark compares how long a program runs with flushes
//! in the background, in the foreground, and where the measurement says. Each is measured with a spare processor and
//! without one.

use crate::figures::{Choice, Verdict};
use crate::levels::Place;
use crate::pause::checkpoint;
use anyhow::{Context as _, Result};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::{Output, Running};
use standfast_tests::victims::{DIRTIER, Program};
use std::process::Stdio;
use std::time::Duration;

const FLUSH_MODES: [&str; 3] = ["auto", "background", "foreground"];
/// The maximum time of the choice relative to the better of the two. The choice includes the cost of measuring them.
const WORSE_MAX: f64 = 1.03;
const INTERVAL_MILLISECONDS: u64 = 1000;
/// The number of rounds of a tenth of a second each. The program writes this many thousandths of its pages in each.
const ROUNDS: &str = "60";
const PERMILLE: &str = "10";
/// A limit that no run reaches.
const PATIENCE: Duration = Duration::from_secs(120);

/// Reports one verdict for a program that leaves a processor free, and one for a program that shares its only processor
/// with its flushes.
pub(crate) fn where_they_cost_less(
    megabytes: u64,
    repeats: usize,
    steps: &str,
    say: &mut dyn FnMut(Verdict),
) -> Result<()> {
    let program = DIRTIER.with(&[&megabytes.to_string(), "small", "rounds", PERMILLE, ROUNDS, steps])?;
    for (processors, what) in [(None, "a processor to spare"), (Some("0"), "none to spare")] {
        let choice = Choice {
            what: format!("{megabytes} MB, flushes, {what}"),
            values: FLUSH_MODES,
            methods: ["in the background", "in the foreground"],
            bound: WORSE_MAX,
        };
        say(choice.judge(repeats, |flush_mode| timed(&program, flush_mode, processors))?);
    }
    Ok(())
}

/// Returns how long the program computes by its own measurement, on these processors.
fn timed(program: &Program, flush_mode: &str, processors: Option<&str>) -> Result<Duration> {
    let (arena, place) = (Arena::new()?, Place::new()?);
    let standfast = Standfast::new(&arena)?;
    let memory = place.path().display().to_string();
    let options = ["--memory", &memory, "--flush-every", "1", "--flush", flush_mode].map(str::to_owned);
    let checkpoints = Checkpoints::EveryMilliseconds(INTERVAL_MILLISECONDS);
    let mut command = standfast.run_command_with(&options, checkpoints, program);
    if let Some(processors) = processors {
        let mut pinned = arena.command("taskset");
        pinned.args(["-c", processors]).arg(command.get_program()).args(command.get_args());
        command = pinned;
    }
    let running = Running::start(&arena, "timed", Output::Log, command.stdin(Stdio::null()))?;
    standfast.await_gate()?;
    // The first checkpoint saves everything.
    checkpoint(standfast, &arena)?;
    open_gate(&arena)?;
    let ended = running.wait(PATIENCE)?.well("the program")?;
    let nanoseconds = ended.output.split_whitespace().next().context("a figure")?;
    Ok(Duration::from_nanos(nanoseconds.parse().with_context(|| format!("it said {:?}", ended.output))?))
}
