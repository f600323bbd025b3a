//! How long each phase of a restart takes.

use std::time::{Duration, Instant};

/// A phase of a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPhase {
    /// What was done, in one word.
    pub name: &'static str,
    /// How long it took.
    pub took: Duration,
}

/// Measures phases that follow each other.
#[derive(Debug, Clone)]
pub struct Stopwatch {
    last: Instant,
    phases: Vec<RestartPhase>,
}

impl Stopwatch {
    /// Begins the first phase.
    pub fn start() -> Self {
        Self { last: Instant::now(), phases: Vec::new() }
    }

    /// Ends a phase and begins the next one.
    pub fn lap(&mut self, name: &'static str) {
        let now = Instant::now();
        self.phases.push(RestartPhase { name, took: now.saturating_duration_since(self.last) });
        self.last = now;
    }

    /// Adds phases that another stopwatch has measured. The next phase begins now.
    pub fn add(&mut self, phases: Vec<RestartPhase>) {
        self.phases.extend(phases);
        self.last = Instant::now();
    }

    /// Returns the phases that have ended.
    pub fn phases(self) -> Vec<RestartPhase> {
        self.phases
    }
}
