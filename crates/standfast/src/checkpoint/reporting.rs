//! What is reported of a checkpoint.

use super::phases::Moments;
use crate::report::CheckpointReport;
use crate::snapshot_method::{Method, Why};
use standfast_engine::Captured;
use standfast_format::manifest::{Generation, GenerationNumber};
use standfast_store::Level;
use std::sync::OnceLock;
use std::time::Duration;

impl Moments<'_> {
    /// What is reported of a checkpoint that is durable now.
    pub(super) fn report(&self, captured: &Captured, generation: &Generation, pause: Duration) -> CheckpointReport {
        let durable = self.started.elapsed();
        let (method, why) = match &captured.uncloned {
            Some(_) => (Method::Copy, Why::NoClone),
            None if self.choice.method == Method::Precopy && self.is_untracked => (Method::Copy, Why::Untracked),
            None => (self.choice.method, self.choice.why),
        };
        CheckpointReport {
            generation: generation.number.get(),
            tasks: captured.tasks as u64,
            processes: captured.processes as u64,
            parent: generation.parent.map(GenerationNumber::get),
            pages_scanned: captured.pages + captured.unchanged,
            pages_read: captured.pages,
            pages_stored: generation.stored_pages,
            huge_pages_split: captured.huge_pages_split,
            first_writes: captured.first_writes,
            first_writes_nanoseconds: captured.first_writes.saturating_mul(first_write_nanoseconds()),
            file_bytes: generation.file_bytes,
            taken_nanoseconds: generation.taken_nanoseconds,
            pause_nanoseconds: nanoseconds(pause),
            scanning_nanoseconds: nanoseconds(captured.scanning),
            durable_nanoseconds: nanoseconds(durable),
            method,
            why,
            expected_pause_nanoseconds: self.choice.pause.map(nanoseconds),
            is_in_memory: self.site.level == Level::Memory,
        }
    }
}

/// What a first write to a tracked page takes, as it was when that was of interest for the first time.
fn first_write_nanoseconds() -> u64 {
    static COST: OnceLock<u64> = OnceLock::new();
    // Where nothing can be tracked there are no such writes.
    *COST.get_or_init(|| standfast_linux::first_write_cost().map_or(0, nanoseconds))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
