//! The arguments of `advise` and `report`.

use super::{Form, Place};
use clap::{Args, ValueHint};
use standfast::{ByteCount, ByteRate, JobDescriptionForAdvice, MeanTime};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  standfast advise heat.standfast     from what this job's checkpoints have cost, and how often it has failed
  standfast advise heat.standfast --mtbf 12h
  standfast advise --size 10G --changes 50M/s --disk 500M/s --mtbf 30days --base 3days
  standfast advise --size 64G --nodes 1000 --mtbf 5years --weibull 0.7 --base 2days
                                      a job that does not exist yet, on a machine of 1000 nodes

What you say takes precedence over what was measured. What is neither said nor measured is assumed, and the answer \
says so. standfast run --interval auto follows the same advice while the job runs.";

/// Show the best interval for a job, and what is expected with it and with others
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Advise {
    /// Directory of the checkpoints [default: none; describe the job with the options]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Memory that the job uses, on each node
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteCount>,
    /// Memory that it changes in a second, on each node [default: all of it between two checkpoints]
    #[arg(long, value_name = "RATE", requires = "size")]
    changes: Option<ByteRate>,
    /// How fast each node writes checkpoints [default: 500 MB/s]
    #[arg(long, value_name = "RATE", requires = "size")]
    disk: Option<ByteRate>,
    /// Mean time between failures of a node: a time, 'never', or 'auto': what the job's run was given, or as the job has
    /// failed so far, or a day
    #[arg(long, value_name = "TIME", default_value_t)]
    mtbf: MeanTime,
    /// Number of nodes; the job fails if one of them does [default: 1]
    #[arg(long, value_name = "N")]
    nodes: Option<NonZeroU32>,
    /// The times between failures of a node have Weibull's distribution of this shape, from 0.01 to 100; real machines have
    /// 0.7 to 0.8. The job is then simulated [default: failures at a constant rate]
    #[arg(long, value_name = "SHAPE")]
    weibull: Option<f64>,
    /// File with the times of past failures of the whole job, one on each line, as 2026-01-31T12:00:00Z or in seconds. The
    /// simulated job fails at such distances
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["mtbf", "nodes", "weibull"])]
    failures: Option<PathBuf>,
    /// Running time of the job without failures and checkpoints [default: a week]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    base: Option<Duration>,
    /// Time from a failure until a machine is there again [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    repair: Option<Duration>,
    /// Percentage of the failures that leave checkpoints in memory usable [default: 61.3]
    #[arg(long, value_name = "PERCENT")]
    local: Option<f64>,
    /// Also write a page with plots to FILE, which needs nothing else
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: Form,
}

impl Advise {
    /// Returns what is said of the job.
    pub(crate) fn described(&self) -> JobDescriptionForAdvice {
        JobDescriptionForAdvice {
            size: self.size,
            changes: self.changes,
            disk: self.disk,
            mtbf: self.mtbf,
            nodes: self.nodes,
            weibull: self.weibull,
            failures: self.failures.clone(),
            base: self.base,
            repair: self.repair,
            local_percent: self.local,
        }
    }
}

const REPORT_EXAMPLES: &str = "\
Examples:
  standfast report heat.standfast     writes heat-report.html; the job may be running
  standfast report heat.standfast --json
                                      all that is known of its lives and checkpoints";

/// Write a page about the whole past of a job: its lives, and the pauses and sizes of its checkpoints
#[derive(Args, Debug)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) place: Place,
    /// File to write; it needs nothing else [default: PROGRAM-report.html in the current directory]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
}
