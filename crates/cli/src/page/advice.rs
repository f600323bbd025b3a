//! The page of `advise`.

use super::Page;
use super::plot::{Axis, Plot, Point, Scale};
use crate::tables::{advice_facts, expected_time, input_value, percent, time};
use standfast::report::{AdvicePoint, AdviceReport};

/// Makes the page.
pub(crate) fn advice(report: &AdviceReport) -> Page {
    let mut page = Page::new("Which interval between checkpoints?");
    page.facts(&advice_facts(report));
    let points = |all: &[AdvicePoint]| -> Vec<Point> {
        all.iter().map(|point| Point { x: point.interval_seconds, y: point.value }).collect()
    };
    // Far from the best interval the overhead has no bound, and would leave nothing to see of the rest.
    let highest = report.overhead_ratio.unwrap_or_default() * 8.0;
    let near: Vec<Point> = points(&report.curve).into_iter().filter(|point| point.y <= highest).collect();
    let best: Vec<Point> =
        report.overhead_ratio.iter().map(|ratio| Point { x: report.interval_seconds, y: *ratio }).collect();
    let interval = || Axis { label: "time between checkpoints", format: time };
    let expected = Plot {
        scale: Scale::Logarithmic,
        x: interval(),
        y: Axis { label: "longer by", format: percent },
        line: &near,
        points: &best,
    };
    if let Some(svg) = expected.draw() {
        page.heading("What is expected");
        page.figure(
            &svg,
            "How much longer the job runs than without failures and checkpoints. The dot is the best interval.",
        );
    }
    page.heading("Alternatives");
    page.table(
        ["alternative", "interval", "longer by", "expected"],
        report.alternatives.iter().map(|it| {
            [
                it.name.clone(),
                it.interval_seconds.map_or_else(|| "never".to_owned(), time),
                it.overhead_ratio.map_or_else(String::new, percent),
                expected_time(it),
            ]
        }),
    );
    let measured = points(&report.measured);
    let costs = Plot {
        scale: Scale::Logarithmic,
        x: interval(),
        y: Axis { label: "overhead", format: time },
        line: &[],
        points: &measured,
    };
    if let Some(svg) = costs.draw() {
        page.heading("What was measured");
        page.figure(&svg, "What each checkpoint has cost, at the time since the one before.");
    }
    page.heading("Based on");
    page.facts(&report.inputs.iter().map(|input| (input.name.as_str(), input_value(input))).collect::<Vec<_>>());
    page.paragraph(&report.equation);
    page
}
