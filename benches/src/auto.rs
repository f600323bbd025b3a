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

/// One verdict for each program that can be had here.
pub(crate) fn against_the_best(repeats: usize, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    for paper in PAPERS {
        let Some(program) = paper.victim.program()? else { continue };
        let mut native = Vec::new();
        let mut ways: Vec<(&str, Vec<Duration>)> =
            HAND_PICKED.iter().chain(&["auto"]).map(|way| (*way, Vec::new())).collect();
        for _ in 0..repeats {
            native.push(timed(&program, None)?);
            for (way, times) in &mut ways {
                times.push(timed(&program, Some(way))?);
            }
        }
        let native = median(&native);
        let added = |times: &[Duration]| median(times).saturating_sub(native);
        let (auto, picked) = (added(&ways[HAND_PICKED.len()].1), &ways[..HAND_PICKED.len()]);
        let (best, way) = picked.iter().map(|(way, times)| (added(times), *way)).min().unwrap_or_default();
        let most = best.mul_f64(WORSE_MAX).max(best + native.mul_f64(SHARE_MAX));
        say(Verdict {
            promise: format!("{}: auto at most {WORSE_MAX} times the best way's overhead", paper.victim.name),
            measured: format!(
                "{} against {} ({way}) of {}",
                milliseconds(auto),
                milliseconds(best),
                milliseconds(native)
            ),
            holds: auto <= most,
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
