//! The page of `report`: the whole past of a job.

use super::Page;
use super::plot::{Axis, Plot, Point, Scale};
use crate::tables::{moment, overhead, size, time};
use standfast::report::{CheckpointReport, StatusReport};
use standfast::{JobHistory, JobLife, LifeEnd};

/// Most lives that the table shows.
const LIVES_MAX: usize = 50;

/// Most checkpoints that a plot shows: more dots than there are places for them.
const POINTS_MAX: usize = 1500;

/// Makes the page.
pub(crate) fn job(status: &StatusReport, history: &JobHistory) -> Page {
    let words = std::iter::once(&status.program).chain(&status.arguments);
    let mut page = Page::new(&words.map(String::as_str).collect::<Vec<_>>().join(" "));
    let mut facts = vec![
        ("state", status.phase.to_string()),
        ("started", format!("{} in {}", moment(status.started_nanoseconds), status.working_directory)),
        ("lives", history.lives.len().to_string()),
    ];
    facts.extend(status.overhead.as_ref().and_then(overhead).map(|text| ("overhead", text)));
    page.facts(&facts);
    let all: Vec<&CheckpointReport> = history.lives.iter().flat_map(|life| &life.checkpoints).collect();
    // Every nth, so that what is left shows the same course.
    let shown: Vec<&CheckpointReport> = all.iter().copied().step_by(all.len().div_ceil(POINTS_MAX).max(1)).collect();
    let began = history.lives.first().map_or(0, |life| life.began_nanoseconds);
    let plot = |page: &mut Page, heading: &str, format: fn(f64) -> String, of: fn(&CheckpointReport) -> f64| {
        let since = |report: &CheckpointReport| report.taken_nanoseconds.saturating_sub(began) as f64 / 1e9;
        let points: Vec<Point> = shown.iter().map(|report| Point { x: since(report), y: of(report) }).collect();
        let plot = Plot {
            scale: Scale::Linear,
            x: Axis { label: "time since the job began", format: time },
            y: Axis { label: heading, format },
            line: &[],
            points: &points,
        };
        if let Some(svg) = plot.draw() {
            page.heading(heading);
            page.figure(&svg, "Each dot is a checkpoint.");
        }
    };
    plot(&mut page, "pause", time, |report| report.pause_nanoseconds as f64 / 1e9);
    plot(&mut page, "size", |bytes| size(bytes as u64), |report| report.file_bytes as f64);
    plot(&mut page, "time until durable", time, |report| report.durable_nanoseconds as f64 / 1e9);
    page.heading("Lives");
    let rows = history.lives.iter().rev().take(LIVES_MAX).map(|life| {
        let number = life.checkpoints.len() + life.failed_checkpoints as usize;
        let checkpoints = match life.failed_checkpoints {
            0 => number.to_string(),
            failed => format!("{number}, {failed} of them failed"),
        };
        [moment(life.began_nanoseconds), beginning(life), time(life.seconds()), checkpoints, ending(life)]
    });
    page.table(["began", "from", "lasted", "checkpoints", "ended"], rows);
    page
}

fn beginning(life: &JobLife) -> String {
    life.restart.as_ref().map_or_else(|| "the start".to_owned(), |it| format!("checkpoint {}", it.generation))
}

fn ending(life: &JobLife) -> String {
    match life.end {
        None => "not recorded".to_owned(),
        Some(LifeEnd::Exited { status }) => format!("status {status}"),
        Some(LifeEnd::Killed { signal }) => format!("signal {signal}"),
        Some(LifeEnd::Stopped) => "stopped".to_owned(),
    }
}
