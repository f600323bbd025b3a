//! How a checkpoint captures the memory of a job: the option, and the choice that [`Snapshot::Auto`] makes. The choice
//! is a pure function of the cost of earlier checkpoints and of the available memory.

use crate::report::CheckpointReport;
use crate::settings::{Method, Snapshot, Why};
use standfast_core::PAGE_BYTES;
use standfast_core::estimate::{Estimate, Weight};
use standfast_linux::proc::Room;
use standfast_store::Writing;
use std::time::Duration;

/// Most bytes that [`Snapshot::Auto`] holds back.
const HELD_BYTES_MAX: u64 = 512 << 20;
/// Divisor of the system's spare memory, which also limits this. Twice that may be copied while a clone's original
/// writes.
const HELD_SHARE: u64 = 8;
/// Divisor of the job's memory, and the most bytes, for which there is room in any case. The expected bytes are an estimate,
/// and each process has a buffer of its own. To make room while the program is stopped takes milliseconds for each MiB.
const ROOM_SHARE: u64 = 16;
const ROOM_BYTES_MAX: u64 = 32 << 20;
/// Divisor of the spare memory for a method that the user asked for.
const FORCED_SHARE: u64 = 2;

/// How a checkpoint captures memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) method: Method,
    pub(crate) why: Why,
    /// How long the program is expected to be frozen, if that is known.
    pub(crate) pause: Option<Duration>,
    /// Most bytes that may be held back until the program continues.
    pub(crate) held_bytes_max: u64,
    /// Bytes for which there is room before the program is stopped.
    pub(crate) held_bytes: u64,
}

impl Choice {
    /// Returns the choice for a checkpoint after which the program ends.
    pub(crate) fn stop() -> Self {
        Self { method: Method::Sequential, why: Why::Stop, pause: None, held_bytes_max: 0, held_bytes: 0 }
    }

    /// Returns how many bytes may be precopied.
    pub(crate) fn precopy_bytes_max(&self) -> u64 {
        self.held_bytes_max / PRECOPY_SHARE
    }

    /// Returns when the store writes.
    pub(crate) fn writing(&self) -> Writing {
        match self.method {
            Method::Sequential => Writing::AtOnce,
            Method::Copy | Method::Fork | Method::Precopy => {
                Writing::Held { bytes_max: self.held_bytes_max, bytes_expected: self.held_bytes }
            }
        }
    }
}

/// What is known when a checkpoint is about to be taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Situation {
    /// Expected bytes to read.
    to_read: u64,
    /// Bytes that all processes hold.
    held: u64,
    /// Number of processes.
    processes: usize,
    /// Share of its memory that the program writes per second, while that share is small.
    rewriting: f64,
    /// Whether the kernel tracks its writes.
    is_tracked: bool,
    /// Available memory.
    room: Room,
    /// Costs of earlier checkpoints.
    experience: Experience,
    trials: Trials,
}

/// When each method was measured last.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Trials {
    /// Number of checkpoints since: by copy, sequential, by clones, by precopy.
    since: [u32; MEASURED.len()],
    /// Seconds since the last trial.
    idle: f64,
}

/// Methods with a figure of their own.
const MEASURED: [Method; 4] = [Method::Copy, Method::Sequential, Method::Fork, Method::Precopy];

/// A method is tried again after this many checkpoints without it, to learn its present cost...
const TRIAL_EVERY: u32 = 32;
/// ...if that costs no more than this part of the time since the last trial.
const TRIAL_SHARE: f64 = 0.002;

/// Costs of checkpoints of this job on this machine. It begins with the figures of an ordinary one (a virtual machine
/// of 2024), and follows the measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Experience {
    /// Pause before anything is read, in seconds: for stopping the job and examining what it holds.
    look: Estimate,
    /// Pause in seconds for each byte that is read and handed to the file system.
    sequential: Estimate,
    /// Pause in seconds for each byte that is copied.
    copy: Estimate,
    /// Pause in seconds for each byte that the job holds, to clone it.
    clone: Estimate,
    /// Pause in seconds for each byte that is precopied, once that has been measured. Before that it is estimated.
    precopy: Estimate,
}

/// Cost of each clone apart from page tables, in seconds: for injecting the code that makes it, and for setting it
/// aside.
const CLONE: f64 = 2e-3;
/// Cost of the first write to a page that a clone shares, in seconds for each byte: 2 us a page.
const SHARED_WRITE: f64 = 2e-6 / 4096.0;
/// Time to read and write a clone while the program runs, in seconds for each byte: 1 GB/s.
const READ_ON: f64 = 1e-9;
/// Time to read a program while it runs, in seconds for each byte: 2 GB/s.
const PRECOPY_READ: f64 = 0.5e-9;
/// Cost of the first write to a page that has been scanned again, in seconds for each byte: 1 us a page.
const NOTED_WRITE: f64 = 1e-6 / 4096.0;
/// Rate if all pages had changed: it is not known how often each page is written, but it is often.
const REWRITING_MAX: f64 = 1e6;
/// Half of the memory that may be held is for precopy, the rest for what is read at the freeze.
const PRECOPY_SHARE: u64 = 2;

impl Default for Experience {
    fn default() -> Self {
        // Pages are copied into memory that was prepared before, by two threads or more. Into fresh memory it would be
        // 2 GB/s.
        Self {
            look: Estimate::expecting(2e-3),
            sequential: Estimate::expecting(1.0 / 1.5e9),
            copy: Estimate::expecting(1.0 / 5e9),
            clone: Estimate::expecting(25e-3 / 1e9),
            precopy: Estimate::default(),
        }
    }
}

/// What earlier checkpoints of this life say about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Past {
    experience: Experience,
    trials: Trials,
    last: Option<Last>,
}

/// Figures of the last checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Last {
    read: u64,
    held: u64,
    rewriting: f64,
    taken_nanoseconds: u64,
}

impl Past {
    /// Records a checkpoint. `tells_changes`: whether a checkpoint that saves everything does so because most of it has
    /// changed.
    pub(crate) fn note(&mut self, report: &CheckpointReport, tells_changes: bool) {
        let bytes = |pages: u64| pages * PAGE_BYTES as u64;
        let (read, held) = (bytes(report.pages_read), bytes(report.pages_scanned));
        let (checking, pause) =
            (Duration::from_nanos(report.scanning_nanoseconds), Duration::from_nanos(report.pause_nanoseconds));
        let (method, processes) = (report.method, report.processes as usize);
        let has_learnt = self.experience.learn(Measured { method, processes, checking, pause, read, held });
        let since = self.last.map_or(0, |last| report.taken_nanoseconds.saturating_sub(last.taken_nanoseconds));
        let seconds = Duration::from_nanos(since).as_secs_f64();
        self.trials.idle = if report.why == Why::Trial { 0.0 } else { self.trials.idle + seconds };
        for (measured, since) in std::iter::zip(MEASURED, &mut self.trials.since) {
            *since = if has_learnt && measured == method { 0 } else { since.saturating_add(1) };
        }
        let is_known = report.parent.is_some() || tells_changes;
        let rewriting = if is_known { rewriting(read, held, seconds) } else { 0.0 };
        self.last = Some(Last { read, held, rewriting, taken_nanoseconds: report.taken_nanoseconds });
    }

    /// Returns how many pages the last checkpoint has read.
    pub(crate) fn last_read(&self) -> u64 {
        self.last.map_or(0, |last| last.read / PAGE_BYTES as u64)
    }

    /// Returns the situation for the next checkpoint. It saves everything or `builds` upon the last one. `expected` is
    /// how much it will read, if that is known. The job has `processes` processes and `resident` bytes, and may be
    /// tracked.
    pub(crate) fn situation(
        &self,
        builds: bool,
        is_tracked: bool,
        expected: Option<u64>,
        processes: usize,
        resident: u64,
        room: Room,
    ) -> Situation {
        let (read, held, rewriting) = match self.last {
            Some(last) => (last.read, last.held, last.rewriting),
            None => (resident, resident, 0.0),
        };
        let to_read = if builds { expected.unwrap_or(read) } else { held };
        Situation {
            to_read,
            held,
            processes,
            rewriting,
            is_tracked,
            room,
            experience: self.experience,
            trials: self.trials,
        }
    }
}

/// Returns the share of its memory that a program writes per second, given how much had changed after some seconds.
/// Pages are assumed to be written at random, so that some have been written many times by then. If all have changed,
/// the rate cannot be known.
fn rewriting(changed: u64, held: u64, seconds: f64) -> f64 {
    if held == 0 || seconds <= 0.0 {
        return 0.0;
    }
    let unchanged = 1.0 - (changed as f64 / held as f64).min(1.0);
    (-unchanged.ln() / seconds).min(REWRITING_MAX)
}

/// Measurements of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured {
    method: Method,
    processes: usize,
    checking: Duration,
    pause: Duration,
    /// Bytes read from the program.
    read: u64,
    /// Bytes that the processes hold.
    held: u64,
}

impl Experience {
    /// Least bytes read or cloned for a meaningful figure. With fewer, other costs would dominate it.
    const TELLING_BYTES: u64 = 4 << 20;

    /// Adds a measurement. Returns whether it changed a figure.
    fn learn(&mut self, it: Measured) -> bool {
        let look = it.checking.as_secs_f64();
        let after_look = (it.pause.as_secs_f64() - look).max(0.0);
        self.look.add(look, Weight::RARE);
        let (figure, seconds, bytes) = match it.method {
            Method::Sequential => (&mut self.sequential, after_look, it.read),
            Method::Copy => (&mut self.copy, after_look, it.read),
            Method::Fork => (&mut self.clone, (after_look - CLONE * it.processes as f64).max(0.0), it.held),
            Method::Precopy => (&mut self.precopy, after_look, it.read),
        };
        if bytes >= Self::TELLING_BYTES {
            figure.add(seconds / bytes as f64, Weight::RARE);
        }
        bytes >= Self::TELLING_BYTES
    }
}

impl Situation {
    /// Returns the expected pause of the program in seconds.
    fn pause(&self, method: Method) -> f64 {
        let of = &self.experience;
        let known = |figure: Estimate| figure.value().unwrap_or_default();
        known(of.look)
            + match method {
                Method::Sequential => self.to_read as f64 * known(of.sequential),
                Method::Copy => self.to_read as f64 * known(of.copy),
                Method::Fork => CLONE * self.processes as f64 + self.held as f64 * known(of.clone),
                Method::Precopy => match of.precopy.value() {
                    Some(precopy) => self.to_read as f64 * precopy,
                    None => known(of.look) + self.written_in(PRECOPY_READ) * known(of.copy),
                },
            }
    }

    /// Returns how many bytes the program writes while it or a clone of it is read, at `seconds` for each byte.
    fn written_in(&self, seconds: f64) -> f64 {
        let untouched = (-self.rewriting * self.to_read as f64 * seconds).exp();
        self.held as f64 * (1.0 - untouched)
    }

    /// Returns for how many bytes to make room before the program is stopped.
    fn held_bytes(&self, method: Method) -> u64 {
        let least = (self.held / ROOM_SHARE).min(ROOM_BYTES_MAX);
        match method {
            Method::Sequential => 0,
            Method::Copy => self.to_read.max(least),
            // Pages that are read after the program continues are written as they are read.
            Method::Fork | Method::Precopy => least,
        }
    }

    /// Returns how much longer the program would run, in seconds.
    fn cost(&self, method: Method) -> f64 {
        let later = match method {
            Method::Sequential | Method::Copy => 0.0,
            Method::Fork => self.written_in(READ_ON) * SHARED_WRITE,
            Method::Precopy => self.written_in(PRECOPY_READ) * NOTED_WRITE,
        };
        self.pause(method) + later
    }

    /// Returns a method to try instead of the cheapest, to learn its cost: the one that was not used for longest, if
    /// the time that has passed pays for it.
    fn trial(&self, cheapest: Method, possible: &[Method]) -> Option<Method> {
        let is_due = |(method, since): &(Method, u32)| {
            let bytes = if *method == Method::Fork { self.held } else { self.to_read };
            *since >= TRIAL_EVERY
                && *method != cheapest
                && possible.contains(method)
                && bytes >= Experience::TELLING_BYTES
                && self.cost(*method) - self.cost(cheapest) <= TRIAL_SHARE * self.trials.idle
        };
        let due = std::iter::zip(MEASURED, self.trials.since).filter(is_due);
        due.max_by_key(|(_, since)| *since).map(|(method, _)| method)
    }

    /// Reports whether there is enough memory for a method. Twice what is written while a clone is read may be needed
    /// at once.
    fn has_room(&self, method: Method) -> bool {
        let spare = self.room.spare_bytes / HELD_SHARE;
        match method {
            Method::Sequential => true,
            Method::Copy => self.to_read <= spare.min(HELD_BYTES_MAX),
            Method::Precopy => self.to_read <= spare.min(HELD_BYTES_MAX) / PRECOPY_SHARE,
            Method::Fork => {
                2.0 * self.written_in(READ_ON) <= spare as f64
                    && self.room.promised_bytes.is_none_or(|promised| self.held <= promised)
            }
        }
    }
}

/// Chooses how the next checkpoint captures memory.
pub(crate) fn choose(asked: Snapshot, now: &Situation) -> Choice {
    let choice = |method, why, held_bytes_max| {
        let pause = Some(Duration::from_secs_f64(now.pause(method)));
        Choice { method, why, pause, held_bytes_max, held_bytes: now.held_bytes(method).min(held_bytes_max) }
    };
    let forced = now.room.spare_bytes / FORCED_SHARE;
    match asked {
        Snapshot::Sequential => choice(Method::Sequential, Why::Asked, 0),
        Snapshot::Copy => choice(Method::Copy, Why::Asked, forced),
        Snapshot::Fork => choice(Method::Fork, Why::Asked, forced),
        Snapshot::Precopy => choice(Method::Precopy, Why::Asked, forced),
        Snapshot::Auto => {
            let cheapest = |methods: &[Method]| {
                let by_cost = |one: &&Method, other: &&Method| now.cost(**one).total_cmp(&now.cost(**other));
                methods.iter().min_by(by_cost).copied().unwrap_or_default()
            };
            // If two methods cost the same, the first one wins.
            let mut all = vec![Method::Copy, Method::Sequential, Method::Fork];
            all.extend(now.is_tracked.then_some(Method::Precopy));
            let possible: Vec<_> = all.iter().copied().filter(|method| now.has_room(*method)).collect();
            let cheapest_here = cheapest(&possible);
            let (method, why) = match now.trial(cheapest_here, &possible) {
                Some(method) => (method, Why::Trial),
                None if cheapest_here == cheapest(&all) => (cheapest_here, Why::Cheapest),
                None => (cheapest_here, Why::Memory),
            };
            // There may be more to read than expected. Pages for which there is no room are written at once.
            choice(method, why, HELD_BYTES_MAX.min(now.room.spare_bytes / HELD_SHARE))
        }
    }
}

#[cfg(test)]
mod tests;
