//! The report about a checkpoint.

use super::job::CaptureNews;
use super::phases::{CaptureFacts, Durations};
use super::shortfall::Shortfall;
use crate::report::CheckpointReport;
use crate::settings::{Method, Why};
use standfast_format::manifest::{Generation, GenerationNumber};
use standfast_store::Level;
use std::sync::OnceLock;
use std::time::Duration;

impl<F> CaptureFacts<'_, F> {
    /// Returns the report about a checkpoint that is durable.
    pub(super) fn report(&self, news: &CaptureNews, generation: &Generation, durations: Durations) -> CheckpointReport {
        let (method, why) = if news.shortfalls.contains_key(&Shortfall::Uncloned) {
            (Method::Copy, Why::NoClone)
        } else if self.choice.method == Method::Precopy && self.is_untracked {
            (Method::Copy, Why::Untracked)
        } else {
            (self.choice.method, self.choice.why)
        };
        CheckpointReport {
            generation: generation.number.get(),
            tasks: news.tasks as u64,
            processes: news.processes as u64,
            parent: generation.parent.map(GenerationNumber::get),
            pages_scanned: news.pages + news.unchanged,
            pages_read: news.pages,
            pages_stored: generation.stored_pages,
            huge_pages_split: news.huge_pages_split,
            first_writes: news.first_writes,
            first_writes_nanoseconds: news.first_writes.saturating_mul(first_write_nanoseconds()),
            file_bytes: generation.file_bytes,
            taken_nanoseconds: generation.taken_nanoseconds,
            pause_nanoseconds: nanoseconds(durations.pause),
            scanning_nanoseconds: nanoseconds(news.scanning),
            durable_nanoseconds: nanoseconds(durations.durable),
            // It is known when the thread is done.
            processor_nanoseconds: 0,
            processors: std::thread::available_parallelism().map_or(1, |number| number.get() as u64),
            method,
            why,
            expected_pause_nanoseconds: self.choice.pause.map(nanoseconds),
            is_in_memory: self.request.level == Level::Memory,
        }
    }
}

/// Returns the cost of a first write to a tracked page, measured once when it is first needed.
fn first_write_nanoseconds() -> u64 {
    static COST: OnceLock<u64> = OnceLock::new();
    // Without tracking there are no such writes.
    *COST.get_or_init(|| standfast_linux::first_write_cost().map_or(0, nanoseconds))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
