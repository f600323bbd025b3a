//! Checkpoints that cost only what has changed: how long they freeze the program, how much they write, how much longer
//! the program runs.

use crate::figures::{Choice, Verdict, median, milliseconds, ratio};
use crate::pause::{Taken, checkpoint};
use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::papers::STSWM;
use standfast_tests::result::open_gate;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::victims::{ARRAYS, DIRTIER, HEAT, Program};
use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

const PAUSE_MAX: Duration = Duration::from_millis(10);
/// The minimum ratio of a full sequential pause to the incremental pause.
const GAIN_MIN: f64 = 30.0;
const MEGABYTE: u64 = 1 << 20;
const PAGE_BYTES: u64 = 4096;

/// Returns the options that protect a run.
fn options(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Measures checkpoints with one page in a hundred dirty: the pause, compared with that of a full sequential checkpoint,
/// and the size of the image.
pub(crate) fn at_one_percent(megabytes: u64, repeats: usize) -> Result<[Verdict; 3]> {
    let program = DIRTIER.with(&[&megabytes.to_string(), "small", "asked", "10"])?;
    let full = repeated(&program, &["--incremental", "off", "--snapshot", "sequential"], repeats)?;
    let small = repeated(&program, &["--incremental", "on", "--snapshot", "copy"], repeats + 1)?;
    // The first checkpoint saves everything.
    let small = &small[1..];
    let pauses = |taken: &[Taken]| median(&taken.iter().map(|it| it.pause).collect::<Vec<_>>());
    let (pause, full_pause) = (pauses(small), pauses(&full));
    let scanning = median(&small.iter().map(|it| it.scanning).collect::<Vec<_>>());
    let gain = ratio(full_pause, pause);
    let is_small =
        |it: &Taken| (it.file_bytes.saturating_sub(MEGABYTE)) as f64 <= it.pages_read as f64 * PAGE_BYTES as f64 * 1.2;
    let largest = small.iter().max_by_key(|it| it.file_bytes).context("there were some")?;
    let what = format!("1 % of {megabytes} MB dirty");
    Ok([
        Verdict {
            promise: format!("{what}, copied: pause at most {}", milliseconds(PAUSE_MAX)),
            measured: format!("{} (of that {} to scan)", milliseconds(pause), milliseconds(scanning)),
            holds: pause <= PAUSE_MAX,
        },
        Verdict {
            promise: format!("{what}: full sequential pause against that at least {GAIN_MIN}"),
            measured: format!("{gain:.0} ({} against {})", milliseconds(full_pause), milliseconds(pause)),
            holds: gain >= GAIN_MIN,
        },
        Verdict {
            promise: format!("{what}: image at most 1.2 times the dirty bytes and 1 MB"),
            measured: format!("{} bytes for {} pages", largest.file_bytes, largest.pages_read),
            holds: small.iter().all(is_small),
        },
    ])
}

/// Takes checkpoints, with a fraction of the pages written before each.
fn repeated(program: &Program, words: &[&str], repeats: usize) -> Result<Vec<Taken>> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run_with(&options(words), Checkpoints::OnRequest, program)?;
    standfast.await_gate()?;
    let mut taken = Vec::new();
    for _ in 0..repeats {
        let go = arena.work().join("go");
        fs::write(&go, "")?;
        until(PATIENCE, "the program to write", || Ok((!go.exists()).then_some(())))?;
        taken.push(checkpoint(standfast, &arena)?);
    }
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    Ok(taken)
}

/// Measures the image when one word in each page has changed and pages are stored as deltas. Compares its size with the
/// words and a bitmap for each page.
pub(crate) fn scattered_words(megabytes: u64) -> Result<Verdict> {
    const BOUND: f64 = 1.2;
    const WORD_AND_BITMAP: u64 = 8 + 64;
    let program = DIRTIER.with(&[&megabytes.to_string(), "small", "asked", "1000"])?;
    let taken = repeated(&program, &["--incremental", "on", "--delta", "previous", "--compress", "none"], 3)?;
    let last = taken.last().context("there were some")?;
    let found = last.file_bytes as f64 / (last.pages_read * WORD_AND_BITMAP) as f64;
    Ok(Verdict {
        promise: format!("{megabytes} MB, a word in each page: image at most {BOUND} times words and bitmaps"),
        measured: format!("{found:.2} ({} bytes for {} pages)", last.file_bytes, last.pages_read),
        holds: found <= BOUND,
    })
}

/// Checks that `--delta auto` computes deltas only if that is faster than writing the pages. Measures how long a
/// checkpoint takes until it is durable. In one case, one word in each page has changed, and deltas shrink the image to
/// a fiftieth. In the other case, everything has changed, and deltas do not help.
pub(crate) fn differences_by_measurement(megabytes: u64, repeats: usize, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    const WORSE_MAX: f64 = 1.2;
    for (what, rewritten) in [("a word in each page", "1000"), ("pages all over", "all")] {
        let program = DIRTIER.with(&[&megabytes.to_string(), "small", "asked", rewritten])?;
        let choice = Choice {
            what: format!("{megabytes} MB, {what} changed, kept as differences or not"),
            values: ["auto", "none", "previous"],
            methods: ["without", "with"],
            bound: WORSE_MAX,
        };
        say(choice.judge(repeats, |delta| {
            let words = ["--incremental", "on", "--snapshot", "copy", "--compress", "none", "--delta", delta];
            // One full checkpoint, two to measure the methods, and one that counts.
            let taken = repeated(&program, &words, 4)?;
            Ok(taken.last().context("there were some")?.durable)
        })?);
    }
    Ok(())
}

/// Measures a first write after a checkpoint, compared with one detected by mprotect and a signal handler.
pub(crate) fn first_write(repeats: usize) -> Result<Verdict> {
    const GAIN_MIN: f64 = 2.5;
    let (mut noted, mut handled) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        let arena = Arena::new()?;
        let standfast = Standfast::new(&arena)?;
        let program = DIRTIER.with(&["128", "small", "first"])?;
        let running = standfast.run_with(&options(&["--incremental", "on"]), Checkpoints::OnRequest, &program)?;
        standfast.await_gate()?;
        checkpoint(standfast, &arena)?;
        open_gate(&arena)?;
        let said = running.wait(PATIENCE)?.well("the first writes")?.output;
        let mut times = said.split_whitespace().map(|word| word.parse().map(Duration::from_nanos));
        noted.push(times.next().context("two figures")??);
        handled.push(times.next().context("two figures")??);
    }
    let gain = ratio(median(&handled), median(&noted));
    Ok(Verdict {
        promise: format!("first write to a page: mprotect and SIGSEGV against it at least {GAIN_MIN}"),
        measured: format!("{gain:.1} ({} ns against {} ns)", median(&handled).as_nanos(), median(&noted).as_nanos()),
        holds: gain >= GAIN_MIN,
    })
}

/// Measures how much longer a program runs that writes to a tenth of its pages between two checkpoints. A first, full
/// checkpoint precedes the measurement, for the others to build upon.
pub(crate) fn added(kind: &str, interval: Duration, bound: f64, megabytes: u64, repeats: usize) -> Result<Verdict> {
    // A round takes a tenth of a second. This is its fraction of the pages, so that an interval writes a tenth of them.
    let permille = (10_000 / interval.as_millis()).max(1).to_string();
    let rounds = (interval.as_millis() * 25 / 1000).max(80).to_string();
    let program = DIRTIER.with(&[&megabytes.to_string(), kind, "rounds", &permille, &rounds, &steps_of_a_round()?])?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        without.push(timed(&program, None)?);
        with.push(timed(&program, Some(interval))?);
    }
    let wall = |runs: &[Timed]| median(&runs.iter().map(|run| run.wall).collect::<Vec<_>>());
    let processor = |runs: &[Timed]| median(&runs.iter().map(|run| run.processor).collect::<Vec<_>>());
    let (found, of_program) = (ratio(wall(&with), wall(&without)), ratio(processor(&with), processor(&without)));
    let (with, without) = (milliseconds(wall(&with)), milliseconds(wall(&without)));
    Ok(Verdict {
        promise: format!("{megabytes} MB on {kind} pages, 10 % dirty every {} s: at most {bound}", interval.as_secs()),
        measured: format!("{found:.3} ({with} against {without}; its own processor time {of_program:.3})"),
        holds: found <= bound,
    })
}

/// Returns the number of steps that a program computes in a tenth of a second.
pub(crate) fn steps_of_a_round() -> Result<String> {
    let program = DIRTIER.with(&["1", "small", "pace"])?;
    let arena = Arena::new()?;
    let mut command = arena.command(&program.path);
    command.args(&program.arguments).stdin(Stdio::null());
    let ended = Running::start(&arena, "pace", Output::Log, &mut command)?.wait(PATIENCE)?.well("the program")?;
    Ok(ended.output.trim().to_owned())
}

/// The times of a run.
struct Timed {
    wall: Duration,
    /// The program's own processor time, including its page faults.
    processor: Duration,
}

fn timed(program: &Program, interval: Option<Duration>) -> Result<Timed> {
    const PATIENCE: Duration = Duration::from_secs(300);
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = match interval {
        Some(interval) => {
            let milliseconds = u64::try_from(interval.as_millis())?;
            standfast.run(Checkpoints::EveryMilliseconds(milliseconds), program)?
        }
        None => {
            let mut command = arena.command(&program.path);
            command.args(&program.arguments).stdin(Stdio::null());
            Running::start(&arena, "native", Output::Log, &mut command)?
        }
    };
    standfast.await_gate()?;
    if interval.is_some() {
        checkpoint(standfast, &arena)?;
    }
    open_gate(&arena)?;
    let ended = running.wait(PATIENCE)?.well("the program")?;
    let mut times = ended.output.split_whitespace().map(|word| word.parse().map(Duration::from_nanos));
    let mut next = || times.next().with_context(|| format!("it said {:?}", ended.output))?.context("a number");
    Ok(Timed { wall: next()?, processor: next()? })
}

/// Seconds between two checkpoints.
const INTERVALS: [f64; 7] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0];

/// Prints the size of an incremental checkpoint against the interval between two (H8, H9), as tables without a promise.
/// Two programs run at a time, with a thread each, since the measurement mostly waits.
pub(crate) fn sizes(megabytes: u64) -> Result<()> {
    let dirtier = DIRTIER.with(&[&megabytes.to_string(), "small", "rounds", "10", "100000", &steps_of_a_round()?])?;
    let heat = HEAT.with(&["result.txt", "100000000", "3000", "1"])?;
    let mut pairs = vec![
        [(format!("{megabytes} MB, 1 % of the pages written every 0.1 s"), dirtier)].to_vec(),
        vec![("examples/heat.c, two plates of 3000 by 3000 in turns".to_owned(), heat)],
    ];
    if let Some(arrays) = ARRAYS.program()? {
        let arrays = Program { arguments: [arrays.arguments, vec!["1000000".into()]].concat(), ..arrays };
        pairs[0].push(("numpy".to_owned(), arrays));
    }
    // Only if a compiler for it is installed.
    if let Some(water) = STSWM.victim.program()? {
        let water = Program { arguments: ["170", "1000"].map(Into::into).to_vec(), ..water };
        pairs[1].push(("examples/stswm.f90, 170 waves".to_owned(), water));
    }
    for pair in pairs {
        let tables: Vec<Result<String>> = std::thread::scope(|scope| {
            let measured: Vec<_> = pair.iter().map(|(what, program)| scope.spawn(|| sizes_of(what, program))).collect();
            measured.into_iter().map(|measured| measured.join().expect("no panic")).collect()
        });
        for table in tables {
            print!("{}", table?);
        }
    }
    Ok(())
}

fn sizes_of(what: &str, program: &Program) -> Result<String> {
    let mut table = format!("      incremental size against interval: {what}\n");
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run_with(&options(&["--incremental", "on"]), Checkpoints::OnRequest, program)?;
    open_gate(&arena)?;
    standfast.await_program()?;
    // The program fills its memory first.
    std::thread::sleep(Duration::from_secs(5));
    for seconds in INTERVALS {
        checkpoint(standfast, &arena)?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let taken = checkpoint(standfast, &arena)?;
        let rate = taken.file_bytes as f64 / seconds / MEGABYTE as f64;
        let share = taken.file_bytes as f64 / (taken.pages_scanned * PAGE_BYTES) as f64 * 100.0;
        let pause = milliseconds(taken.pause);
        writeln!(
            table,
            "        {seconds:>4} s  {:>11} bytes  {share:>5.1} % of its memory  {rate:>7.1} MB/s  pause {pause}",
            taken.file_bytes
        )?;
    }
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    Ok(table)
}
