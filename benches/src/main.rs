//! `make bench`: the promises about speed. Each is a ratio of two things measured alternately within one run, so that it
//! means the same on fast and slow machines. Absolute records do not belong here.
//!
//! ```text
//! standfast-bench [--megabytes N] [--repeats N] [--only SECTION]
//!     codes pauses trees chains intervals huge-pages sizes snapshots levels flushes auto bulk directives groups
//!     distributed parallel
//! ```
//!
//! Each section takes at most four minutes on a machine of ordinary speed, and the last one twelve, unless it measures a missed
//! promise again.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to people")]
#![forbid(unsafe_code)]

mod auto;
mod bulk;
mod calls;
mod chains;
mod delta;
mod directives;
mod distributed;
mod erasure;
mod figures;
mod flushes;
mod groups;
mod levels;
mod overhead;
mod parallel;
mod pause;
mod ranks;
mod reservation;
mod snapshots;
mod tree;

use anyhow::{Context as _, Result, bail};
use figures::Verdict;
use std::env;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "standfast-bench [--megabytes N] [--repeats N] [--only SECTION]";

struct Settings {
    megabytes: u64,
    repeats: usize,
    /// The only section to measure, if one is given.
    only: Option<String>,
}

fn main() -> ExitCode {
    match settings() {
        Ok(settings) if measure(&settings) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("bench: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn settings() -> Result<Settings> {
    let mut settings = Settings { megabytes: 1024, repeats: 7, only: None };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--megabytes" => settings.megabytes = value.parse().context("--megabytes takes a whole number")?,
            "--repeats" => settings.repeats = value.parse().context("--repeats takes a whole number")?,
            "--only" if SECTIONS.iter().any(|(name, _)| *name == value) => settings.only = Some(value),
            "--only" => bail!("--only takes one of {}", SECTIONS.map(|(name, _)| name).join(", ")),
            _ => bail!("unknown option {argument}; usage: {USAGE}"),
        }
    }
    if settings.repeats == 0 || settings.megabytes == 0 {
        bail!("nothing to measure: --megabytes and --repeats start at 1");
    }
    Ok(settings)
}

/// Measures some promises and reports each.
type Section = fn(&Settings, &mut dyn FnMut(Verdict)) -> Result<()>;

/// The sections that can be measured by themselves, by name.
const SECTIONS: [(&str, Section); 16] = [
    ("codes", codes),
    ("pauses", pauses),
    ("trees", trees),
    ("chains", incremental),
    ("intervals", long_intervals),
    ("huge-pages", huge_pages),
    ("sizes", sizes),
    ("snapshots", ways),
    ("levels", in_memory),
    ("flushes", flushed),
    ("auto", chosen),
    ("bulk", whole),
    ("directives", directed),
    ("groups", in_each_other),
    ("distributed", on_four_nodes),
    ("parallel", unmodified),
];

/// Measures every requested section, and returns whether all promises hold. A section that fails counts as missed, since
/// its other promises were not measured. The sections after it are still measured.
fn measure(settings: &Settings) -> bool {
    let mut holds = true;
    let wanted = |name: &str| settings.only.as_ref().is_none_or(|only| only == name);
    for (name, section) in SECTIONS.iter().filter(|(name, _)| wanted(name)) {
        let mut say = |verdict: Verdict| {
            println!("{verdict}");
            holds &= verdict.holds;
        };
        if let Err(problem) = section(settings, &mut say) {
            println!("MISSED  the rest of section {name:<46}  not measured: {problem:#}");
            holds = false;
        }
    }
    holds
}

/// Measures differences and erasure codes.
fn codes(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    delta::speed(settings.repeats).into_iter().for_each(&mut *say);
    erasure::speed(settings.repeats).into_iter().for_each(say);
    Ok(())
}

/// Measures what protection costs without checkpoints, and the shortest pauses.
fn pauses(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    for kind in overhead::LOOPS {
        say(overhead::with_checkpoints_off(kind, settings.repeats)?);
    }
    say(pause::of_a_tiny_process(settings.repeats)?);
    say(reservation::of_a_terabyte(settings.repeats)?);
    Ok(())
}

/// Measures jobs of many processes.
fn trees(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    for processes in [10, 200] {
        tree::pause_and_restart(processes, settings.repeats)?.into_iter().for_each(&mut *say);
    }
    Ok(())
}

/// Measures checkpoints that cost only what changed.
fn incremental(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    chains::at_one_percent(settings.megabytes, settings.repeats)?.into_iter().for_each(&mut *say);
    say(chains::first_write(settings.repeats)?);
    say(chains::added("small", Duration::from_secs(1), 1.10, settings.megabytes, settings.repeats)?);
    Ok(())
}

/// Returns a third of the repeats, for measurements that take most of a minute each.
fn few(settings: &Settings) -> usize {
    settings.repeats.div_ceil(3)
}

/// Measures what rare checkpoints add to the running time.
fn long_intervals(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    say(chains::added("small", Duration::from_secs(10), 1.03, settings.megabytes, few(settings))?);
    Ok(())
}

/// Measures the same for a program on huge pages.
fn huge_pages(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    say(chains::added("huge", Duration::from_secs(10), 1.05, settings.megabytes, few(settings))?);
    Ok(())
}

/// Shows the sizes of incremental checkpoints, without a promise.
fn sizes(settings: &Settings, _: &mut dyn FnMut(Verdict)) -> Result<()> {
    chains::sizes(settings.megabytes)
}

/// Measures the methods of capture.
fn ways(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    say(snapshots::clone_against_fork(settings.megabytes, settings.repeats)?);
    say(snapshots::best_of_a_writing_program(settings.megabytes, settings.repeats)?);
    Ok(())
}

/// Measures deltas, and checkpoints that go to memory first.
fn in_memory(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    say(chains::scattered_words(settings.megabytes)?);
    chains::differences_by_measurement(settings.megabytes, few(settings), say)?;
    levels::memory_first(settings.megabytes, few(settings))?.into_iter().for_each(say);
    Ok(())
}

/// Measures flushes to disk.
fn flushed(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    flushes::where_they_cost_less(settings.megabytes, few(settings), &chains::steps_of_a_round()?, say)
}

/// Measures whether the choice between the methods of capture is a good one.
fn chosen(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    auto::against_the_best(settings.repeats.div_ceil(2) + 1, say)
}

/// Measures whole checkpoints of much memory, and restarts.
fn whole(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    for pages in [bulk::Pages::Small, bulk::Pages::Huge] {
        let job = bulk::Job::start(settings.megabytes, pages)?;
        let (checkpoint, restart) = job.measure(settings.repeats)?;
        say(checkpoint);
        say(restart);
    }
    Ok(())
}

/// Measures what programs save by directing their own checkpoints.
fn directed(_: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    calls::promises()?.into_iter().for_each(&mut *say);
    directives::promises()?.into_iter().for_each(say);
    directives::picture()
}

/// Measures what the ranks of a program pay for keeping each other's state. Each has a quarter of the megabytes.
fn in_each_other(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    groups::of_four_ranks(settings.megabytes.div_ceil(4), settings.repeats, say)
}

/// Measures what it costs a program on four nodes that its parts agree. Each has a quarter of the megabytes.
fn on_four_nodes(settings: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    distributed::of_four_nodes(settings.megabytes.div_ceil(4), settings.repeats, say)
}

/// Measures what protection costs MPI programs that know nothing of it.
fn unmodified(_: &Settings, say: &mut dyn FnMut(Verdict)) -> Result<()> {
    parallel::on_nodes(say)
}
