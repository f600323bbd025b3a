//! Advice on the interval of a job, as text.

use super::overhead::{percent, time};
use super::{align_right, bare_table, facts_as_lines, lines_of, size};
use standfast::report::{
    AdviceInput, AdviceReport, AdvisedDisk, AdvisedInterval, AdvisedLevels, InputSource, InputUnit,
};

/// Describes advice: first the interval, then what is expected, then what that is based on.
pub(crate) fn advice(report: &AdviceReport) -> String {
    let mut text = facts_as_lines(&advice_facts(report)) + "\n";
    text += &alternatives(&report.alternatives);
    text += "\nbased on\n";
    for input in &report.inputs {
        text += &format!("  {}: {}\n", input.name, input_value(input));
    }
    text + &format!("  equation: {}\n", report.equation)
}

/// Describes the interval and what is expected with it, a line each.
pub(crate) fn advice_facts(report: &AdviceReport) -> Vec<(&'static str, String)> {
    let mut facts = vec![("interval", interval(report)), ("expected", expected(report)), ("worth it", worth(report))];
    facts.extend(report.levels.as_ref().map(|levels| ("memory", memory(levels))));
    facts.extend(report.disk.as_ref().map(|it| ("disk", disk(it))));
    facts
}

fn worth(report: &AdviceReport) -> String {
    match report.pays_from_seconds {
        Some(from) if report.is_worth => format!("yes: checkpoints pay for jobs of {} and longer", time(from)),
        Some(from) => {
            format!("no: checkpoints cost more than they save here; they pay for jobs of {} and longer", time(from))
        }
        None if report.is_worth => "yes".to_owned(),
        None => "no: checkpoints cost more than they save here".to_owned(),
    }
}

fn memory(levels: &AdvisedLevels) -> String {
    let AdvisedLevels { interval_seconds, flush_every, local_share, .. } = levels;
    let (interval, share) = (time(*interval_seconds), percent(*local_share));
    format!(
        "with --memory auto: every {interval}, and one of {flush_every} to the disk (--flush-every {flush_every}), if memory \
         survives {share} of the failures"
    )
}

fn disk(disk: &AdvisedDisk) -> String {
    let AdvisedDisk { bytes_per_second, busy_share, shortest_interval_seconds } = disk;
    let mut text = format!("{}/s on average", size(*bytes_per_second as u64));
    if let Some(share) = busy_share {
        text += &format!(", {} of its speed", percent(*share));
    }
    match shortest_interval_seconds {
        Some(seconds) if *seconds >= 1.0 => {
            text += &format!("; with less than {} between checkpoints it is too slow", time(*seconds));
        }
        _ => {}
    }
    text
}

fn interval(report: &AdviceReport) -> String {
    match report.mean_time_seconds {
        Some(seconds) => format!("{}, for a failure each {}", time(report.interval_seconds), time(seconds)),
        None => "none is needed: nothing fails".to_owned(),
    }
}

fn expected(report: &AdviceReport) -> String {
    let base = time(report.base_seconds);
    let ends =
        |it: Option<&AdvisedInterval>| it.and_then(|it| it.expected_seconds).map_or_else(|| "no end".to_owned(), time);
    let (best, without) = (report.alternatives.first(), report.alternatives.last());
    let longer = best.and_then(|best| best.overhead_ratio).map_or_else(|| "for ever".to_owned(), percent);
    format!("{} instead of {base}: {longer} longer; without checkpoints {}", ends(best), ends(without))
}

fn alternatives(alternatives: &[AdvisedInterval]) -> String {
    let mut table = bare_table(["alternative", "interval", "longer by", "expected"]);
    for it in alternatives {
        table.add_row([
            it.name.clone(),
            it.interval_seconds.map_or_else(|| "never".to_owned(), time),
            it.overhead_ratio.map_or_else(String::new, percent),
            expected_time(it),
        ]);
    }
    for column in [1, 2, 3] {
        align_right(&mut table, column);
    }
    lines_of(&table)
}

/// Formats an expected time, and how far a simulated one may be off.
pub(crate) fn expected_time(it: &AdvisedInterval) -> String {
    let around = it.standard_error_seconds.map_or_else(String::new, |error| format!(" ± {}", time(error)));
    it.expected_seconds.map_or_else(|| "no end".to_owned(), |seconds| time(seconds) + &around)
}

/// Formats an input of the advice, and says how it is known.
pub(crate) fn input_value(input: &AdviceInput) -> String {
    let value = match (input.value, input.unit) {
        (None, _) => "infinite".to_owned(),
        (Some(seconds), InputUnit::Seconds) if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        (Some(seconds), InputUnit::Seconds) => time(seconds),
        (Some(bytes), InputUnit::Bytes) => size(bytes as u64),
        (Some(bytes), InputUnit::BytesPerSecond) => format!("{}/s", size(bytes as u64)),
    };
    let from = match input.from {
        InputSource::Told => "",
        InputSource::Measured => " (measured)",
        InputSource::Assumed => " (assumed)",
    };
    format!("{value}{from}")
}
