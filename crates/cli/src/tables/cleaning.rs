//! What was or would be removed.

use super::size;
use standfast::printable;
use standfast::report::CleaningReport;
use std::fmt::Write;

/// Most names shown of files that stay when a job is removed.
const LEFT_SHOWN: usize = 5;

/// Describes what was or would be removed.
pub(crate) fn cleaning(report: &CleaningReport) -> String {
    let checkpoints = match report.checkpoints {
        1 => "1 checkpoint".to_owned(),
        number => format!("{number} checkpoints"),
    };
    let (verb, stays) = if report.is_dry_run { ("would remove", "would stay") } else { ("removed", "stays") };
    let mut text = format!("{verb} {checkpoints}, {}, of {}\n", size(report.bytes), report.directory.display());
    if !report.left.is_empty() {
        let shown: Vec<&str> = report.left.iter().take(LEFT_SHOWN).map(String::as_str).collect();
        let more = if report.left.len() > LEFT_SHOWN { ", ..." } else { "" };
        let _ = writeln!(
            text,
            "the directory {stays}, with files that are not Standfast's: {}{more}",
            printable(&shown.join(", "))
        );
    }
    text
}
