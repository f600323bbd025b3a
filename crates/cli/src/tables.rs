//! Answers as text for people: tables for lists, otherwise one line for each fact.

mod advice;
mod cleaning;
mod core_files;
pub(crate) mod distributed;
mod overhead;
mod stop;

pub(crate) use advice::{advice, advice_facts, expected_time, input_value};
use bytesize::ByteSize;
pub(crate) use cleaning::cleaning;
use comfy_table::{CellAlignment, Table, presets};
pub(crate) use core_files::core_files;
use humantime::{format_duration, format_rfc3339_seconds};
pub(crate) use overhead::{overhead, percent, time};
use standfast::doctor::Finding;
use standfast::report::{
    CheckpointReport, CoalescingReport, GenerationReport, InspectionReport, JobStatus, LastRehearsal, LiveReport,
    OverheadReport, ProcessReport, RehearsalReport, StatusReport, VerificationReport,
};
use standfast::{Ending, FlushMode, FlushReport, ForShell, Interval, message_lines, printable};
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

/// Size of a huge page on this architecture.
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Describes a job.
pub(crate) fn status(status: &StatusReport) -> String {
    let words = std::iter::once(&status.program).chain(&status.arguments);
    let mut facts = vec![
        ("saved", last_durable(status)),
        ("job", words.map(String::as_str).collect::<Vec<_>>().join(" ")),
        ("started", format!("{} in {}", moment(status.started_nanoseconds), status.working_directory)),
        ("state", job_state(status)),
    ];
    if let Some(live) = &status.live {
        facts.extend(live_facts(live, status.options.interval));
    }
    facts.extend(status.overhead.as_ref().and_then(overhead).map(|text| ("overhead", text)));
    facts.extend(durability(status));
    let text = facts_as_lines(&facts);
    if status.generations.is_empty() {
        return format!("{text}no checkpoint yet\n");
    }
    format!("{text}\n{}", generations(&status.generations))
}

/// Describes how much would be lost if the machine failed now.
fn last_durable(status: &StatusReport) -> String {
    match &status.durable {
        Some(durable) => {
            let age = span(Duration::from_secs(durable.age_seconds as u64));
            format!("{age} ago: checkpoint {} is durable", durable.generation)
        }
        None => "nothing yet: no durable checkpoint".to_owned(),
    }
}

/// Describes which checkpoints survive what, if they differ in that.
fn durability(status: &StatusReport) -> Vec<(&'static str, String)> {
    let Some(memory) = &status.memory else { return Vec::new() };
    let Some(place) = &memory.place else {
        let why = memory.missing.as_deref().unwrap_or_default();
        return vec![("memory", format!("lost, the checkpoints on disk are used: {why}"))];
    };
    let newest = |is_there: fn(&GenerationReport) -> bool| {
        let found = status.generations.iter().rev().find(|it| !it.is_superseded && is_there(it));
        found.map_or("none yet".to_owned(), |it| {
            format!("checkpoint {} of {}", it.generation, moment(it.taken_nanoseconds))
        })
    };
    vec![
        (
            "memory",
            format!(
                "{} in {}: survives the program and its supervisor, but not a reboot, the end of a container or, often, of a batch job or login",
                newest(|it| it.is_in_memory),
                ForShell(place)
            ),
        ),
        ("disk", format!("{}: survives whatever its file system survives", newest(|it| it.is_on_disk))),
    ]
}

/// Describes the state of a job, and what the user can do about it.
pub(crate) fn job_state(status: &StatusReport) -> String {
    let directory = ForShell(&status.directory);
    let can_continue = status.generations.iter().any(|generation| !generation.is_superseded);
    let next = if can_continue { format!("; continue with: standfast restart {directory}") } else { String::new() };
    let repeat = if can_continue {
        format!("; to repeat it from its last checkpoint: standfast restart {directory}")
    } else {
        String::new()
    };
    match status.state {
        JobStatus::Running => match status.program_pid {
            Some(pid) => format!("runs as process {pid}, protected"),
            None => "is being started".to_owned(),
        },
        JobStatus::Unprotected => {
            let pid = status.program_pid.map_or_else(String::new, |pid| format!(" as process {pid}"));
            format!(
                "runs{pid}, but its supervisor is gone; save it once more with: standfast checkpoint --stop {directory}"
            )
        }
        JobStatus::Elsewhere => "held by another host or container".to_owned(),
        JobStatus::Crashed => format!("crashed{next}"),
        JobStatus::Killed { signal } => {
            let ending = Ending::Killed { signal };
            format!("was {ending}{}", if ending.is_own_failure() { repeat } else { next })
        }
        JobStatus::Stopped => format!("was stopped after a checkpoint{next}"),
        JobStatus::Exited { status: 0 } if can_continue => {
            format!("finished; remove its checkpoints with: standfast clean {directory}")
        }
        JobStatus::Exited { status: 0 } => "finished".to_owned(),
        JobStatus::Exited { status } => format!("ended with status {status}{repeat}"),
    }
}

fn live_facts(live: &LiveReport, interval: Interval) -> Vec<(&'static str, String)> {
    let next = match live.next_due_seconds {
        _ if live.disabled_seconds.is_some() => "as soon as the program enables it".to_owned(),
        _ if live.is_checkpointing => "being taken now".to_owned(),
        Some(seconds) => {
            let every = live.chosen_interval.as_ref().map_or_else(|| format!("every {interval}"), overhead::interval);
            format!("in {} ({every})", span(Duration::from_secs_f64(seconds.max(0.0))))
        }
        None => "on request only".to_owned(),
    };
    let mut facts = vec![("supervisor", format!("process {}", live.supervisor_pid)), ("next", next)];
    facts.extend(live.last_checkpoint.as_ref().map(|report| ("last", checkpoint(report))));
    facts.extend(live.flush.as_ref().map(|report| ("flushes", flush(report))));
    facts.extend(live.stop.as_ref().map(|report| ("stop", stop::stop(report))));
    facts.extend(live.rehearsal.as_ref().map(|last| ("restart", last_rehearsal(last))));
    facts.extend(
        live.last_failure.as_ref().map(|reason| ("failed", message_lines(reason).collect::<Vec<_>>().join("; "))),
    );
    facts
}

/// Describes the last rehearsal in a line.
fn last_rehearsal(last: &LastRehearsal) -> String {
    match last {
        LastRehearsal::Passed(RehearsalReport { generation, not_rebuilt: None, left_out, .. }) => {
            let except = if left_out.is_empty() { String::new() } else { format!(", without {}", left_out.join(", ")) };
            format!("proven at checkpoint {generation}{except}")
        }
        LastRehearsal::Passed(RehearsalReport { generation, not_rebuilt: Some(why), .. }) => {
            format!("checked at checkpoint {generation}, not rebuilt: {}", printable(why))
        }
        LastRehearsal::Failed { reason } => {
            format!("would fail: {}", message_lines(reason).collect::<Vec<_>>().join("; "))
        }
    }
}

/// Describes where checkpoints in memory are flushed to the disk, and why.
fn flush(report: &FlushReport) -> String {
    let place = match report.flush_mode {
        FlushMode::Background => "while the program runs",
        FlushMode::Foreground => "while the program is paused",
    };
    let why = if report.is_asked { ", as requested" } else { "" };
    let number = report.every.map_or_else(String::new, |every| format!(", one checkpoint of {every}"));
    let costs = match (report.background_nanoseconds_per_mib, report.foreground_nanoseconds_per_mib) {
        (Some(beside), Some(still)) => format!(
            ": per MiB it loses {} of processor time; a pause would take {}",
            nanoseconds(beside),
            nanoseconds(still)
        ),
        (None, Some(still)) => format!(": per MiB a pause of {}", nanoseconds(still)),
        (_, None) => "; its cost is not measured yet".to_owned(),
    };
    format!("{place}{why}{number}{costs}")
}

/// Describes one checkpoint.
pub(crate) fn checkpoint(report: &CheckpointReport) -> String {
    format!(
        "checkpoint {}{}: {}, paused {} ({} of it scanning the state of {}), {} after {}; {} pages scanned, {} \
         changed, {} stored; method {}, {}{}{}{}",
        report.generation,
        report.parent.map_or_else(String::new, |parent| format!(" based on {parent}")),
        size(report.file_bytes),
        nanoseconds(report.pause_nanoseconds),
        nanoseconds(report.scanning_nanoseconds),
        threads(report.tasks),
        if report.is_in_memory { "in memory" } else { "durable" },
        nanoseconds(report.durable_nanoseconds),
        report.pages_scanned,
        report.pages_read,
        report.pages_stored,
        report.method,
        report.why,
        report
            .expected_pause_nanoseconds
            .map_or_else(String::new, |it| format!(" (pause of {} expected)", nanoseconds(it))),
        match report.first_writes {
            0 => String::new(),
            writes => format!(
                "; {writes} first writes to tracked pages since the previous one cost about {}",
                nanoseconds(report.first_writes_nanoseconds)
            ),
        },
        match report.huge_pages_split {
            0 => String::new(),
            split => format!(
                "; tracking has split {split} huge pages ({}) into small ones (--track hash avoids that)",
                size(split * HUGE_PAGE_BYTES)
            ),
        },
    )
}

fn threads(number: u64) -> String {
    if number == 1 { "1 thread".to_owned() } else { format!("{number} threads") }
}

/// Describes what was coalesced.
pub(crate) fn coalescing(report: &CoalescingReport) -> String {
    match report.generation {
        None => "nothing to coalesce: every kept checkpoint is full\n".to_owned(),
        Some(generation) => format!(
            "checkpoint {generation} is full now: {}; {} older ones removed\n",
            size(report.file_bytes),
            report.removed
        ),
    }
}

/// Lists the generations of a job.
pub(crate) fn generations(generations: &[GenerationReport]) -> String {
    if generations.is_empty() {
        return "no checkpoint yet\n".to_owned();
    }
    let mut table = bare_table(["checkpoint", "based on", "taken", "pause", "pages", "size", ""]);
    for generation in generations {
        table.add_row([
            generation.generation.to_string(),
            generation.parent.map_or_else(String::new, |parent| parent.to_string()),
            moment(generation.taken_nanoseconds),
            nanoseconds(generation.pause_nanoseconds),
            generation.pages_stored.to_string(),
            size(generation.file_bytes),
            remarks(generation),
        ]);
    }
    for column in [0, 1, 3, 4, 5] {
        align_right(&mut table, column);
    }
    lines_of(&table)
}

/// Lists the generations of a job, and what they have cost it.
pub(crate) fn list(listed: &[GenerationReport], cost: Option<&OverheadReport>) -> String {
    let cost = cost.and_then(overhead).map(|cost| format!("\n{}", facts_as_lines(&[("overhead", cost)])));
    generations(listed) + &cost.unwrap_or_default()
}

/// Describes where a generation is, unless it is only in the directory, and whether it is superseded.
fn remarks(generation: &GenerationReport) -> String {
    let level = match (generation.is_in_memory, generation.is_on_disk) {
        (true, true) => Some("memory and disk"),
        (true, false) => Some("memory only"),
        (false, _) => None,
    };
    let superseded = generation.is_superseded.then_some("set aside");
    [level, superseded].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Describes the result of a verification.
pub(crate) fn verification(reports: &[VerificationReport]) -> String {
    let line = |report: &VerificationReport| match &report.damage {
        None => {
            format!("checkpoint {}{}: good, all {} verified", report.generation, place(report), size(report.file_bytes))
        }
        Some(damage) => format!("checkpoint {}{}: DAMAGED, {damage}", report.generation, place(report)),
    };
    fn place(report: &VerificationReport) -> &'static str {
        if report.is_in_memory { " in memory" } else { "" }
    }
    reports.iter().map(|report| printable(&line(report)).into_owned() + "\n").collect()
}

/// Describes the result of a rehearsal.
pub(crate) fn rehearsal(report: &RehearsalReport) -> String {
    let generation = report.generation;
    let mut text = match &report.not_rebuilt {
        None => format!("checkpoint {generation} can be restarted here: the job was rebuilt, compared and discarded\n"),
        Some(why) => format!(
            "checkpoint {generation} can be restarted here, as far as can be told without rebuilding the job: all it \
             needs is here, and its pages verify\nnot rebuilt: {}\n",
            printable(why)
        ),
    };
    if !report.left_out.is_empty() {
        text += &format!("left out: {}\n", report.left_out.join(", "));
    }
    report.notes.iter().for_each(|note| text += &format!("note: {}\n", printable(note)));
    text
}

/// Describes what an image holds.
pub(crate) fn inspection(report: &InspectionReport) -> String {
    let machine = &report.machine;
    let mut text = facts_as_lines(&[
        ("checkpoint", report.generation.generation.to_string()),
        ("taken", moment(report.generation.taken_nanoseconds)),
        ("machine", format!("{}, {}, Linux {}", machine.host, machine.architecture, machine.kernel_release)),
        ("image", format!("{} ({} pages)", size(report.generation.file_bytes), report.generation.pages_stored)),
    ]);
    for (number, bytes) in report.pipes_bytes_waiting.iter().enumerate() {
        text += &facts_as_lines(&[("pipe", format!("{number}, {bytes} bytes waiting"))]);
    }
    for object in &report.objects {
        let (whole, stored) = (size(object.bytes), size(object.stored_bytes));
        text += &facts_as_lines(&[("object", format!("{}, {whole}, {stored} in the image", object.what))]);
    }
    for process in &report.processes {
        text += "\n";
        text += &describe_process(process);
    }
    text
}

fn describe_process(process: &ProcessReport) -> String {
    let memory = &process.memory;
    let mut text = facts_as_lines(&[
        ("process", format!("{} {}", process.pid, process.arguments.join(" "))),
        ("executable", process.executable.clone()),
        ("directory", process.working_directory.clone()),
        (
            "memory",
            format!(
                "{} mapped in {} mappings ({} anonymous, {} of files), {} stored",
                size(memory.mapped_bytes),
                memory.mappings,
                memory.anonymous_mappings,
                memory.file_mappings,
                size(memory.stored_bytes)
            ),
        ),
        ("signals", waiting(&process.pending_signals)),
    ]);
    let mut threads = bare_table(["thread", "name", "signals waiting"]);
    for thread in &process.threads {
        threads.add_row([thread.tid.to_string(), printable(&thread.name).into(), waiting(&thread.pending_signals)]);
    }
    align_right(&mut threads, 0);
    let mut descriptors = bare_table(["descriptor", "what", ""]);
    for descriptor in &process.descriptors {
        let closes = if descriptor.close_on_exec { "closed by exec" } else { "" };
        descriptors.add_row([descriptor.number.to_string(), printable(&descriptor.what).into(), closes.to_owned()]);
    }
    align_right(&mut descriptors, 0);
    let _ = write!(text, "\n{}\n{}", lines_of(&threads), lines_of(&descriptors));
    text
}

fn waiting(signals: &[u8]) -> String {
    if signals.is_empty() {
        return "none".to_owned();
    }
    signals.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

/// Describes the findings of `doctor` about the machine, and about a process if one was named.
pub(crate) fn findings(machine: &[Finding], process: Option<&[Finding]>) -> String {
    let mut text: String = machine.iter().map(finding).collect();
    match process {
        Some([]) => text += "ok    process: it can be checkpointed\n",
        Some(blockers) => text.extend(blockers.iter().map(finding)),
        None => {}
    }
    text
}

fn finding(finding: &Finding) -> String {
    let verdict = if finding.is_fine { "ok  " } else { "FAIL" };
    let means = if finding.means.is_empty() { String::new() } else { format!(": {}", finding.means) };
    let code = finding.code.as_ref().map_or_else(String::new, |code| format!(" ({code})"));
    let hint =
        if finding.hint.is_empty() { String::new() } else { format!("      hint: {}\n", printable(&finding.hint)) };
    format!("{verdict}  {}\n{hint}", printable(&format!("{}{means}{code}", finding.what)))
}

fn facts_as_lines(facts: &[(&str, String)]) -> String {
    facts.iter().map(|(name, fact)| format!("{name:<11} {}\n", printable(fact))).collect()
}

fn bare_table<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

fn align_right(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn lines_of(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

pub(crate) fn moment(nanoseconds_since_1970: u64) -> String {
    format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(nanoseconds_since_1970)).to_string()
}

pub(crate) fn nanoseconds(nanoseconds: u64) -> String {
    span(Duration::from_nanos(nanoseconds))
}

/// Formats a time: milliseconds with one digit below a second, tenths of a second below ten, then whole seconds.
fn span(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        _ => format_duration(Duration::from_secs(duration.as_secs())).to_string(),
    }
}

pub(crate) fn size(bytes: u64) -> String {
    ByteSize::b(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(number: u64, is_superseded: bool) -> GenerationReport {
        GenerationReport {
            generation: number,
            parent: None,
            taken_nanoseconds: 1_700_000_000_000_000_000,
            pause_nanoseconds: 4_200_000,
            pages_stored: 300,
            pages_inherited: 0,
            file_bytes: 1 << 20,
            is_superseded,
            is_in_memory: false,
            is_on_disk: true,
            root: String::new(),
        }
    }

    #[test]
    fn generations_have_a_line_each_and_set_aside_ones_are_marked() {
        let text = generations(&[generation(7, false), generation(8, true)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].contains("2023-11-14T22:13:20Z") && lines[1].contains("4.2 ms"), "{text}");
        assert!(!lines[1].contains("set aside") && lines[2].ends_with("set aside"), "{text}");
    }

    #[test]
    fn the_flush_line_names_the_mode_and_the_measurements() {
        let report = |flush_mode, is_asked, beside, still| FlushReport {
            every: std::num::NonZeroU32::new(16),
            flush_mode,
            is_asked,
            background_nanoseconds_per_mib: beside,
            foreground_nanoseconds_per_mib: still,
        };
        let learnt = flush(&report(FlushMode::Foreground, false, Some(2_500_000), Some(400_000)));
        assert!(learnt.starts_with("while the program is paused, one checkpoint of 16:"), "{learnt}");
        assert!(learnt.contains("loses 2.5 ms") && learnt.contains("take 0.4 ms"), "{learnt}");
        let asked = flush(&report(FlushMode::Background, true, None, None));
        assert!(asked.starts_with("while the program runs, as requested") && asked.contains("not measured"), "{asked}");
    }

    #[test]
    fn damage_is_named_and_the_rest_is_good() {
        let report =
            |generation, damage| VerificationReport { generation, is_in_memory: false, file_bytes: 8192, damage };
        let text = verification(&[report(1, None), report(2, Some("block 3 is not what was written".into()))]);
        assert!(text.starts_with("checkpoint 1: good"), "{text}");
        assert!(text.contains("checkpoint 2: DAMAGED, block 3"), "{text}");
    }

    #[test]
    fn durations_are_printed_in_readable_units() {
        let told = |milliseconds| span(Duration::from_millis(milliseconds));
        assert_eq!([told(4), told(1500), told(90_500)], ["4.0 ms", "1.5 s", "1m 30s"]);
    }
}
