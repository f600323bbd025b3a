//! The ways to take memory on the papers' programs: how much longer each makes them run, and that `auto` is as good as the best
//! hand-picked one, or costs no more than a hundredth of the running time.

use crate::figures::{Verdict, median, milliseconds};
use anyhow::Result;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::papers::PAPERS;
use standfast_tests::running::{Output, PATIENCE, Running};
use standfast_tests::victims::Program;
use std::process::Stdio;
use std::time::{Duration, Instant};

const HAND_PICKED: [&str; 4] = ["sequential", "copy", "fork", "precopy"];
const INTERVAL_MILLISECONDS: u64 = 500;
/// What the choice may cost more than the best.
const WORSE_MAX: f64 = 1.15;
/// Or so much of the running time, if that is more.
const SHARE_MAX: f64 = 0.01;

/// One verdict for each program that can be had here. The best of four is not found and measured by the same runs, or chance
/// would make it better than it is: one run each leaves two, which are measured in turns with the choice.
pub(crate) fn against_the_best(repeats: usize, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    for paper in PAPERS {
        let Some(program) = paper.victim.program()? else { continue };
        let mut tried = Vec::new();
        for way in HAND_PICKED {
            tried.push((timed(&program, Some(way))?, way));
        }
        tried.sort_unstable();
        let ways = [None, Some("auto"), Some(tried[0].1), Some(tried[1].1)];
        let mut times = ways.map(|_| Vec::new());
        for _ in 0..repeats {
            for (way, times) in ways.iter().zip(&mut times) {
                times.push(timed(&program, *way)?);
            }
        }
        let [native, auto, first, second] = times.map(|times| median(&times));
        let (best, way) = (first, tried[0].1).min((second, tried[1].1));
        let added = |time: Duration| time.saturating_sub(native);
        let most = added(best).mul_f64(WORSE_MAX).max(added(best) + native.mul_f64(SHARE_MAX));
        say(Verdict {
            promise: format!("{}: auto at most {WORSE_MAX} times the best way's overhead", paper.victim.name),
            measured: format!(
                "{} against {} ({way}) of {}",
                milliseconds(added(auto)),
                milliseconds(added(best)),
                milliseconds(native)
            ),
            holds: added(auto) <= most,
        });
    }
    Ok(())
}

/// How long the program runs, by itself or protected in this way.
fn timed(program: &Program, way: Option<&str>) -> Result<Duration> {
    let arena = Arena::new()?;
    let mut command = match way {
        None => {
            let mut command = arena.command(&program.path);
            command.args(&program.arguments);
            command
        }
        Some(way) => {
            let options = ["--snapshot".to_owned(), way.to_owned()];
            Standfast::new(&arena)?.run_command_with(
                &options,
                Checkpoints::EveryMilliseconds(INTERVAL_MILLISECONDS),
                program,
            )
        }
    };
    let begin = Instant::now();
    Running::start(&arena, "timed", Output::Log, command.stdin(Stdio::null()))?.wait(PATIENCE)?.well("the program")?;
    Ok(begin.elapsed())
}
