//! What a supervisor does about checkpoints: an event in, effects out. There is no descriptor, clock or thread in here. The
//! present moment comes with each event; the supervisor carries the effects out, and says by events what came of them.
//!
//! ```text
//! asked, due ──> BeginCheckpoint ──> CheckpointEnded ──> due again, told, answered
//!                                        └─ in memory ──> BeginFlush ──> FlushEnded
//!                                        └─ a chain   ──> BeginCoalescing ──> CoalescingEnded
//! ```
//!
//! Of each kind of work at most one is under way. While the program is stopped for a flush no checkpoint begins, since
//! there is nothing new to save; one behind which the program is to stop has such a flush given up.

mod outcomes;
#[cfg(test)]
mod storm;
mod told;

use crate::GenerationNumber;
use crate::checkpoint::{Order, Past, Purpose};
use crate::control::{ClientId, Reply};
use crate::event::JobEvent;
use crate::report::{CheckpointReport, CoalescingReport, LiveReport};
use crate::settings::{Flush, FlushCosts, FlushMode, Incremental, Interval, JobOptions, MinInterval, tracking};
use crate::supervisor::flushing::FlushSchedule;
use crate::supervisor::schedule::{AttemptEnd, Schedule};
pub(super) use outcomes::{Failed, FlushOutcome, TakenFacts};
use standfast_engine::Tracking;
use standfast_store::Level;
use std::time::{Duration, Instant};
use told::{Condition, Told};

/// What has happened.
#[derive(Debug)]
pub(super) enum Event {
    /// Time has passed: what is due is begun.
    Tick,
    /// Somebody asks for a checkpoint, and perhaps that the program stops behind it.
    Asked { client: ClientId, stop: bool },
    /// Somebody asks that all that can be coalesced is.
    CoalescingAsked { client: ClientId },
    /// The program asks for a checkpoint where it stands, for the first time or since it was too early.
    AskedHere { client: ClientId, again: bool },
    /// The program has enabled checkpoints.
    Enabled { client: ClientId },
    /// The program is to stop behind a checkpoint (SIGTERM).
    StopAsked,
    /// A look at the program, without touching it, has shown that no checkpoint could be taken.
    Unprotectable { reason: String },
    /// The checkpoint under way has come to its end, or could not begin.
    CheckpointEnded(Result<TakenFacts, Failed>),
    /// So has the flush.
    FlushEnded(FlushOutcome),
    /// The coalescing under way has come to its end.
    CoalescingEnded(Result<CoalescingReport, String>),
    /// It could not begin.
    CoalescingNotBegun(String),
    /// The job has ended: nothing is begun any more.
    JobEnded,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Effect {
    /// Begin a checkpoint, and report its end.
    BeginCheckpoint(Order),
    /// Begin to bring a checkpoint from memory to the disk, and report its end.
    BeginFlush(FlushOrder),
    /// Give up the flush for which the program is stopped, wait until it may run on, and report the end of the flush.
    GiveUpFlush,
    /// Begin to coalesce the newest chain of a level; without one, as far as possible on the disk. Report its end.
    BeginCoalescing(Option<Level>),
    /// Make another level in memory if there is none any more.
    RenewMemory,
    /// Answer a client, and let it go.
    Answer(ClientId, Reply),
    /// Tell the user.
    Say(JobEvent),
}

/// Which checkpoint is to be flushed, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlushOrder {
    pub(super) number: GenerationNumber,
    pub(super) mode: FlushMode,
    /// What flushes cost, where one beside the program may be given up in favour of one in the foreground.
    pub(super) costs: Option<FlushCosts>,
    pub(super) gentle_until: Instant,
}

/// What is set for the whole life of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    interval: Interval,
    min_interval: MinInterval,
    flush: Flush,
    is_tracking: bool,
    builds_chains: bool,
    has_memory: bool,
    /// Whether memory is used where there is room, and nothing is said where there is not.
    memory_is_automatic: bool,
}

impl Settings {
    pub(super) fn of(options: &JobOptions, has_memory: bool, memory_is_automatic: bool) -> Self {
        Self {
            interval: options.interval,
            min_interval: options.min_interval,
            flush: options.flush,
            is_tracking: tracking(options.incremental, options.track) != Tracking::Off,
            builds_chains: options.incremental != Incremental::Off,
            has_memory,
            memory_is_automatic,
        }
    }
}

/// How far a request to stop the program behind a checkpoint has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// No signal has come.
    NotAsked,
    /// A signal has come, and its checkpoint has not ended.
    Wanted,
    /// The checkpoint of the signal failed.
    Failed,
    /// The program was stopped behind this generation, for a signal or a client.
    Behind(u64),
}

/// A checkpoint under way.
#[derive(Debug)]
struct Running {
    purpose: Purpose,
    /// Who waits for it.
    served: Vec<ClientId>,
}

/// A flush under way.
#[derive(Debug, Clone, Copy)]
struct RunningFlush {
    number: GenerationNumber,
    mode: FlushMode,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Machine {
    settings: Settings,
    schedule: Schedule,
    /// Which checkpoints in memory go on to the disk, and when.
    flushes: FlushSchedule,
    flush_costs: FlushCosts,
    checkpoint: Option<Running>,
    flush: Option<RunningFlush>,
    /// Who waits for the coalescing under way.
    coalescing: Option<Vec<ClientId>>,
    /// Who waits for a coalescing that has not begun.
    coalescing_asked: Vec<ClientId>,
    /// Who waits for a checkpoint that has not begun, and whether the program is to stop behind it.
    asked: Vec<(ClientId, bool)>,
    /// Whether a program has asked for a checkpoint that has not begun.
    here_asked: bool,
    /// Since when checkpoints have been wanted that a program has disabled.
    disabled_since: Option<Instant>,
    stop: Stop,
    /// Who waits until the job that was stopped can be restarted.
    stopped_for: Vec<ClientId>,
    last_checkpoint: Option<CheckpointReport>,
    past: Past,
    /// Whether the program promises not to change memory: then checkpoints build on earlier ones whatever the options say.
    has_promises: bool,
    told: Told,
}

impl Machine {
    pub(super) fn new(settings: Settings, flushes: FlushSchedule, now: Instant) -> Self {
        Self {
            schedule: Schedule::new(settings.interval, settings.min_interval, now),
            settings,
            flushes,
            flush_costs: FlushCosts::default(),
            checkpoint: None,
            flush: None,
            coalescing: None,
            coalescing_asked: Vec::new(),
            asked: Vec::new(),
            here_asked: false,
            disabled_since: None,
            stop: Stop::NotAsked,
            stopped_for: Vec::new(),
            last_checkpoint: None,
            past: Past::default(),
            has_promises: false,
            told: Told::default(),
        }
    }

    /// Takes note of what has happened, and says what is to be done about it, in this order.
    pub(super) fn on(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Tick => {
                self.begin_checkpoint(now, &mut effects);
                self.coalesce_as_asked(&mut effects);
                self.begin_flush(now, &mut effects);
            }
            Event::Asked { client, stop } => self.asked.push((client, stop)),
            Event::CoalescingAsked { client } => self.coalescing_asked.push(client),
            Event::AskedHere { client, again } => effects.push(self.answer_program(client, again, now)),
            Event::Enabled { client } => {
                if self.disabled_since.is_some() {
                    self.schedule.hasten(now);
                }
                effects.push(Effect::Answer(client, Reply::Noted));
            }
            Event::StopAsked if self.stopped_behind().is_none() => self.stop = Stop::Wanted,
            Event::StopAsked => {}
            Event::Unprotectable { reason } => {
                if let Some(reason) = self.told.note(Condition::NotTaken, Some(reason)) {
                    effects.push(Effect::Say(JobEvent::Unprotectable { reason }));
                }
            }
            Event::CheckpointEnded(outcome) => self.end_checkpoint(outcome, now, &mut effects),
            Event::FlushEnded(outcome) => self.end_flush(outcome, now, &mut effects),
            Event::CoalescingEnded(outcome) => self.end_coalescing(outcome, &mut effects),
            Event::CoalescingNotBegun(reason) => self.miss_coalescing(reason, &mut effects),
            Event::JobEnded => self.disappoint(&mut effects),
        }
        effects
    }

    /// When the next [`Event::Tick`] finds something to begin; `None` if never.
    pub(super) fn due(&self) -> Option<Instant> {
        let is_held = self.checkpoint.is_some() || self.stands_still_for_flush();
        let checkpoint = if is_held { None } else { self.schedule.due() };
        let flush = if self.flush.is_some() { None } else { self.flushes.due() };
        checkpoint.into_iter().chain(flush).min()
    }

    /// Whether the program has been told to stop behind a checkpoint by a signal.
    pub(super) fn has_heard_stop(&self) -> bool {
        matches!(self.stop, Stop::Wanted | Stop::Failed)
    }

    /// The generation behind which the program was stopped.
    pub(super) fn stopped_behind(&self) -> Option<u64> {
        match self.stop {
            Stop::Behind(generation) => Some(generation),
            Stop::NotAsked | Stop::Wanted | Stop::Failed => None,
        }
    }

    /// What is answered when the job that was stopped can be restarted.
    pub(super) fn stopped_answers(&mut self) -> Vec<(ClientId, Reply)> {
        let Some(report) = self.last_checkpoint else { return Vec::new() };
        self.stopped_for.drain(..).map(|client| (client, Reply::Taken(report))).collect()
    }

    /// Whether a checkpoint has been taken in this life.
    pub(super) fn has_taken(&self) -> bool {
        self.last_checkpoint.is_some()
    }

    /// Whether the program is stopped for a flush, or is about to.
    pub(super) fn stands_still_for_flush(&self) -> bool {
        self.flush.is_some_and(|flush| flush.mode == FlushMode::Foreground)
    }

    /// No further checkpoint is due by itself, nor honoured if the program asks for it.
    pub(super) fn take_no_more(&mut self, now: Instant) {
        self.schedule = Schedule::new(Interval::Off, MinInterval::Never, now);
    }

    /// How things stand, for whoever asks.
    pub(super) fn report(&self, supervisor_pid: i32, program_pid: i32, now: Instant) -> LiveReport {
        let until = |due: Instant| due.saturating_duration_since(now).as_secs_f64();
        LiveReport {
            supervisor_pid,
            program_pid,
            is_checkpointing: self.checkpoint.is_some(),
            is_coalescing: self.coalescing.is_some(),
            flush: self.settings.has_memory.then(|| self.flush_costs.report(self.settings.flush)),
            disabled_seconds: self.disabled_since.map(|since| now.saturating_duration_since(since).as_secs_f64()),
            next_due_seconds: self.schedule.due().map(until),
            last_checkpoint: self.last_checkpoint,
            last_failure: self.told.reason(Condition::NotTaken).cloned(),
        }
    }

    /// Begins a checkpoint if one is wanted and none is under way.
    fn begin_checkpoint(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let is_due = self.schedule.due().is_some_and(|due| due <= now);
        let is_put_off = self.disabled_since.is_some() && !is_due;
        let is_wanted = is_due || self.stop == Stop::Wanted || self.here_asked || !self.asked.is_empty();
        if self.checkpoint.is_some() || self.stopped_behind().is_some() || !is_wanted || is_put_off {
            return;
        }
        let stops = self.stop == Stop::Wanted || self.asked.iter().any(|(_, stop)| *stop);
        if self.stands_still_for_flush() {
            effects.extend(stops.then_some(Effect::GiveUpFlush));
            return;
        }
        let purpose = if stops { Purpose::Stop } else { Purpose::Protect };
        self.here_asked = false;
        self.checkpoint = Some(Running { purpose, served: self.asked.drain(..).map(|(client, _)| client).collect() });
        effects.push(Effect::BeginCheckpoint(Order {
            purpose,
            past: self.past,
            behind_success: self.schedule.advised(AttemptEnd::Taken, now),
            behind_failure: self.schedule.advised(AttemptEnd::Failed, now),
        }));
    }

    /// Begins to bring a checkpoint from memory to the disk if one is due and none is on its way.
    fn begin_flush(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.flush.is_some() || self.checkpoint.is_some() || !self.settings.has_memory {
            return;
        }
        let Some(number) = self.flushes.take_due(now) else { return };
        let mode = self.flush_costs.flush_mode(self.settings.flush);
        let may_change = mode == FlushMode::Background && self.settings.flush == Flush::Auto;
        self.flush = Some(RunningFlush { number, mode });
        effects.push(Effect::BeginFlush(FlushOrder {
            number,
            mode,
            costs: may_change.then_some(self.flush_costs),
            gentle_until: self.flushes.gentle_until(now),
        }));
    }

    /// Coalesces the chain of the newest checkpoint while the program runs and checkpoints are taken.
    fn coalesce(&mut self, level: Level, effects: &mut Vec<Effect>) {
        if self.coalescing.is_none() && (self.settings.builds_chains || self.has_promises) {
            self.coalescing = Some(Vec::new());
            effects.push(Effect::BeginCoalescing(Some(level)));
        }
    }

    /// Coalesces as far as possible for whoever has asked for it, once nothing is being coalesced.
    fn coalesce_as_asked(&mut self, effects: &mut Vec<Effect>) {
        if self.coalescing.is_none() && !self.coalescing_asked.is_empty() {
            self.coalescing = Some(std::mem::take(&mut self.coalescing_asked));
            effects.push(Effect::BeginCoalescing(None));
        }
    }

    /// A program asks for a checkpoint where it stands.
    fn answer_program(&mut self, client: ClientId, again: bool, now: Instant) -> Effect {
        let wait = self.schedule.honoured_in(now);
        let reply = if again && self.told.reason(Condition::NotTaken).is_some() {
            // It could not be told by the checkpoint itself.
            Reply::Failed { message: "the checkpoint failed".to_owned() }
        } else if again || wait == Some(Duration::ZERO) {
            self.here_asked = true;
            Reply::Noted
        } else {
            let nanoseconds = wait.and_then(|wait| u64::try_from(wait.as_nanos()).ok()).unwrap_or(u64::MAX);
            Reply::NotDue { nanoseconds }
        };
        Effect::Answer(client, reply)
    }
}
