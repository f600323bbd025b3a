//! Decides what a supervisor does about checkpoints: events in, effects out. The machine has no descriptors, clocks or
//! threads. The present time comes with each event. The supervisor carries out the effects, and reports their results
//! as further events.
//!
//! ```text
//! asked, due ──> BeginCheckpoint ──> CheckpointEnded ──> due again, reported, answered
//!                                        └─ in memory ──> BeginFlush ──> FlushEnded
//!                                        ├─ a chain   ──> BeginCoalescing ──> CoalescingEnded
//!                                        └─ as asked  ──> BeginRehearsal ──> RehearsalEnded
//! ```
//!
//! At most one piece of work of each kind is under way. While the program is stopped for a flush no checkpoint begins,
//! since there is nothing new to save. A checkpoint after which the program stops abandons such a flush.

mod conditions;
mod deadlines;
mod ending;
mod flush_ratio;
mod intervals;
mod notifying;
mod outcomes;
mod rehearsals;
mod stops;
#[cfg(test)]
mod storm;

use crate::GenerationNumber;
use crate::checkpoint::{Order, Past, Purpose};
use crate::control::{ClientId, Reply};
use crate::event::JobEvent;
use crate::report::{CheckpointReport, CoalescingReport, LiveReport, RehearsalReport};
use crate::settings::{
    Flush, FlushCosts, FlushEvery, FlushMode, Incremental, Interval, JobOptions, MinInterval, Rehearse, tracking,
};
use crate::supervisor::flush_schedule::FlushSchedule;
use crate::supervisor::schedule::{AttemptEnd, Schedule};
use conditions::{Condition, ReportedConditions};
use flush_ratio::FlushRatio;
use intervals::Intervals;
pub(super) use intervals::PastIntervals;
use notifying::Notifying;
pub(super) use outcomes::{Failed, FlushOutcome, TakenFacts};
use rehearsals::Rehearsals;
use standfast_engine::Tracking;
use standfast_store::Level;
use std::time::{Duration, Instant};
use stops::Stops;

/// What has happened.
#[derive(Debug)]
pub(super) enum Event {
    /// Time has passed, so that work may be due.
    Tick,
    /// A client asks for a checkpoint.
    Asked(CheckpointRequest),
    /// A client asks to coalesce as much as possible.
    CoalescingAsked { client: ClientId },
    /// The program asks for a checkpoint at its present point. `again`: it has asked before and has no outcome yet.
    AskedHere { client: ClientId, again: bool },
    /// The program has enabled checkpoints.
    Enabled { client: ClientId },
    /// A signal asks for a checkpoint.
    CheckpointAsked,
    /// A signal asks to stop the program after a checkpoint.
    StopAsked,
    /// A check that does not touch the program has shown that no checkpoint could be taken.
    Unprotectable { reason: String },
    /// The checkpoint under way has ended, or could not begin.
    CheckpointEnded(Result<TakenFacts, Failed>),
    /// The flush under way has ended.
    FlushEnded(FlushOutcome),
    /// The coalescing under way has ended.
    CoalescingEnded(Result<CoalescingReport, String>),
    /// The coalescing could not begin.
    CoalescingNotBegun(String),
    /// The rehearsal under way has ended: its result, or why a restart would fail, or nothing if it was killed.
    RehearsalEnded(Option<Result<RehearsalReport, String>>),
    /// The job has been looked at: its bytes in memory.
    Sized { resident_bytes: u64 },
    /// The job has ended. From now on, clients are answered and everything else is ignored.
    JobEnded,
}

/// A client that waits for a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckpointRequest {
    pub(super) client: ClientId,
    /// What the program is to do after it.
    pub(super) purpose: Purpose,
}

/// Work for the supervisor.
#[derive(Debug)]
pub(super) enum Effect {
    /// Begin a checkpoint, and report its end.
    BeginCheckpoint(Order),
    /// Begin to flush a checkpoint from memory to the disk, and report its end.
    BeginFlush(FlushOrder),
    /// Abandon the flush for which the program is stopped, wait until the program may continue, and report the end of
    /// the flush.
    GiveUpFlush,
    /// Begin to coalesce the newest chain of a level, and report the end. Without a level, coalesce as much as possible
    /// on the disk.
    BeginCoalescing(Option<Level>),
    /// Begin to rehearse a restart from the newest checkpoint, and report the end.
    BeginRehearsal,
    /// Make another level in memory if there is none any more.
    RenewMemory,
    /// Answer a client, and close its connection.
    Answer(ClientId, Reply),
    /// Tell the user.
    Say(JobEvent),
    /// Run the user's command about checkpoints that fail, or that are taken again.
    Notify { is_protected: bool, reason: String },
}

/// The checkpoint to flush, and how to do it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlushOrder {
    pub(super) number: GenerationNumber,
    pub(super) mode: FlushMode,
    /// Costs of flushes, if a flush beside the program may be abandoned in favour of one in the foreground.
    pub(super) costs: Option<FlushCosts>,
    pub(super) gentle_until: Instant,
}

/// Settings for the whole life of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    interval: Interval,
    min_interval: MinInterval,
    flush: Flush,
    flush_every: FlushEvery,
    is_tracking: bool,
    builds_chains: bool,
    has_memory: bool,
    /// Whether memory is used only if there is room, without a report if there is not.
    memory_is_automatic: bool,
    rehearse: Rehearse,
    /// Time within which a stop must end, if there is a limit.
    deadline: Option<Duration>,
    /// Time without a checkpoint after which somebody is notified, if somebody wants to know.
    notify_after: Option<Duration>,
}

#[cfg(test)]
impl Settings {
    /// Returns the settings of a job in which nothing happens by chance.
    fn imagined() -> Self {
        Self {
            interval: Interval::Every(Duration::from_secs(1)),
            min_interval: MinInterval::Never,
            flush: Flush::Background,
            flush_every: FlushEvery::default(),
            is_tracking: true,
            builds_chains: true,
            has_memory: true,
            memory_is_automatic: false,
            rehearse: Rehearse::Off,
            deadline: None,
            notify_after: None,
        }
    }
}

impl Settings {
    /// Returns the settings with somebody who wants to know of failures that last this long.
    pub(super) fn notifying(self, after: Option<Duration>) -> Self {
        Self { notify_after: after, ..self }
    }

    pub(super) fn of(options: &JobOptions, has_memory: bool, memory_is_automatic: bool) -> Self {
        Self {
            interval: options.interval,
            min_interval: options.min_interval,
            flush: options.flush,
            flush_every: options.flush_every,
            is_tracking: tracking(options.incremental, options.track) != Tracking::Off,
            builds_chains: options.incremental != Incremental::Off,
            has_memory,
            memory_is_automatic,
            rehearse: options.rehearse,
            deadline: options.deadline.get(),
            notify_after: None,
        }
    }
}

/// Progress of a request to stop the program after a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// No signal has come.
    NotAsked,
    /// A signal has come, and its checkpoint has not ended yet.
    Wanted,
    /// The checkpoint of the signal failed.
    Failed,
    /// The program was stopped after this generation, for a signal or a client.
    After(u64),
}

/// A checkpoint under way.
#[derive(Debug)]
struct Running {
    purpose: Purpose,
    /// Clients that wait for it.
    served: Vec<ClientId>,
}

/// A flush under way.
#[derive(Debug, Clone, Copy)]
struct RunningFlush {
    number: GenerationNumber,
    mode: FlushMode,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Machine {
    settings: Settings,
    schedule: Schedule,
    /// Chooses the interval, if that is left to the supervisor.
    intervals: Option<Intervals>,
    /// Which checkpoints in memory are flushed to the disk, and when.
    flushes: FlushSchedule,
    flush_costs: FlushCosts,
    /// Chooses which ones, if that is left to the supervisor.
    flush_ratio: Option<FlushRatio>,
    checkpoint: Option<Running>,
    flush: Option<RunningFlush>,
    /// Clients that wait for the coalescing under way.
    coalescing: Option<Vec<ClientId>>,
    /// Clients that wait for a coalescing that has not begun.
    coalescing_asked: Vec<ClientId>,
    /// Requests for a checkpoint that has not begun.
    asked: Vec<CheckpointRequest>,
    /// Whether a program has asked for a checkpoint that has not begun.
    here_asked: bool,
    /// Whether a signal has asked for a checkpoint that has not begun.
    signal_asked: bool,
    /// When a checkpoint was first wanted that a program has disabled.
    disabled_since: Option<Instant>,
    stop: Stop,
    /// Whether the job has ended.
    has_ended: bool,
    /// Clients that wait until the stopped job can be restarted.
    stopped_for: Vec<ClientId>,
    last_checkpoint: Option<CheckpointReport>,
    past: Past,
    /// Whether the program promises not to change some memory. If so, checkpoints build on earlier ones whatever the
    /// options say.
    has_promises: bool,
    rehearsals: Rehearsals,
    stops: Stops,
    notifying: Notifying,
    reported: ReportedConditions,
}

impl Machine {
    /// Makes the machine of a life. `past`: what the choice of the interval begins with, if that is left to the supervisor.
    pub(super) fn new(settings: Settings, flushes: FlushSchedule, past: Option<PastIntervals>, now: Instant) -> Self {
        let intervals = past.map(|past| Intervals::new(past, now));
        let interval = intervals.as_ref().map_or(settings.interval, |it| Interval::Every(it.chosen()));
        let mut machine = Self {
            schedule: Schedule::new(interval, settings.min_interval, now),
            intervals,
            settings,
            flushes,
            flush_costs: FlushCosts::default(),
            flush_ratio: FlushRatio::of(settings.flush_every),
            checkpoint: None,
            flush: None,
            coalescing: None,
            coalescing_asked: Vec::new(),
            asked: Vec::new(),
            here_asked: false,
            signal_asked: false,
            disabled_since: None,
            stop: Stop::NotAsked,
            has_ended: false,
            stopped_for: Vec::new(),
            last_checkpoint: None,
            past: Past::default(),
            has_promises: false,
            rehearsals: Rehearsals::default(),
            stops: Stops::default(),
            notifying: Notifying::new(settings.notify_after, now),
            reported: ReportedConditions::default(),
        };
        machine.hasten_first(now);
        machine
    }

    /// Handles an event, and returns the effects in the order in which they are to be carried out.
    pub(super) fn on(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        if self.has_ended {
            return ending::after_end(&event);
        }
        let mut effects = Vec::new();
        match event {
            Event::Tick => {
                self.begin_checkpoint(now, &mut effects);
                self.coalesce_as_asked(&mut effects);
                self.begin_flush(now, &mut effects);
                self.notify(now, &mut effects);
            }
            Event::Asked(request) => self.asked.push(request),
            Event::CoalescingAsked { client } => self.coalescing_asked.push(client),
            Event::AskedHere { client, again } => effects.push(self.answer_program(client, again, now)),
            Event::Enabled { client } => {
                if self.disabled_since.is_some() {
                    self.schedule.hasten(now);
                }
                effects.push(Effect::Answer(client, Reply::Noted));
            }
            Event::CheckpointAsked => self.signal_asked = true,
            Event::StopAsked if self.stopped_after().is_none() => self.stop = Stop::Wanted,
            Event::StopAsked => {}
            Event::Unprotectable { reason } => {
                if let Some(reason) = self.reported.note(Condition::NotTaken, Some(reason)) {
                    effects.push(Effect::Say(JobEvent::Unprotectable { reason }));
                }
            }
            Event::CheckpointEnded(outcome) => self.end_checkpoint(outcome, now, &mut effects),
            Event::FlushEnded(outcome) => self.end_flush(outcome, now, &mut effects),
            Event::CoalescingEnded(outcome) => self.end_coalescing(outcome, &mut effects),
            Event::CoalescingNotBegun(reason) => self.miss_coalescing(reason, &mut effects),
            Event::RehearsalEnded(outcome) => self.end_rehearsal(outcome, now, &mut effects),
            Event::Sized { resident_bytes } => self.note_size(resident_bytes, now),
            Event::JobEnded => self.end(&mut effects),
        }
        effects
    }

    /// Returns when the next [`Event::Tick`] will find something to begin; `None` if never.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.has_ended {
            return None;
        }
        let is_held = self.checkpoint.is_some() || self.stands_still_for_flush();
        let checkpoint = if is_held { None } else { self.schedule.due() };
        let flush = if self.flush.is_some() { None } else { self.flushes.due() };
        checkpoint.into_iter().chain(flush).chain(self.notification_due()).min()
    }

    /// Reports whether a signal has asked to stop the program after a checkpoint.
    pub(super) fn has_heard_stop(&self) -> bool {
        matches!(self.stop, Stop::Wanted | Stop::Failed)
    }

    /// Returns the generation after which the program was stopped.
    pub(super) fn stopped_after(&self) -> Option<u64> {
        match self.stop {
            Stop::After(generation) => Some(generation),
            Stop::NotAsked | Stop::Wanted | Stop::Failed => None,
        }
    }

    /// Returns the answers that are due when the stopped job can be restarted.
    pub(super) fn stopped_answers(&mut self) -> Vec<(ClientId, Reply)> {
        let Some(report) = self.last_checkpoint else { return Vec::new() };
        self.stopped_for.drain(..).map(|client| (client, Reply::Taken(report))).collect()
    }

    /// Reports whether a checkpoint has been taken in this life.
    pub(super) fn has_taken(&self) -> bool {
        self.last_checkpoint.is_some()
    }

    /// Reports whether the program is stopped for a flush, or is about to be.
    pub(super) fn stands_still_for_flush(&self) -> bool {
        self.flush.is_some_and(|flush| flush.mode == FlushMode::Foreground)
    }

    /// Turns off periodic checkpoints and those that the program asks for.
    pub(super) fn take_no_more(&mut self, now: Instant) {
        self.schedule = Schedule::new(Interval::Off, MinInterval::Never, now);
        self.intervals = None;
        self.settings.deadline = None;
    }

    /// Returns the state of the supervisor for a client.
    pub(super) fn report(&self, supervisor_pid: i32, program_pid: i32, now: Instant) -> LiveReport {
        let until = |due: Instant| due.saturating_duration_since(now).as_secs_f64();
        LiveReport {
            supervisor_pid,
            program_pid,
            is_checkpointing: self.checkpoint.is_some(),
            is_coalescing: self.coalescing.is_some(),
            flush: self.settings.has_memory.then(|| self.flush_costs.report(self.settings.flush, self.flushes.every())),
            disabled_seconds: self.disabled_since.map(|since| now.saturating_duration_since(since).as_secs_f64()),
            next_due_seconds: self.schedule.due().map(until),
            chosen_interval: self.intervals.as_ref().map(|intervals| intervals.report(now)),
            last_checkpoint: self.last_checkpoint,
            last_failure: self.reported.reason(Condition::NotTaken).cloned(),
            rehearsal: self.rehearsals.report(),
            stop: self.stops.report(self.settings.deadline, self.checkpoint.is_some(), now),
            restart: None,
        }
    }

    /// Begins a checkpoint if one is wanted and none is under way.
    fn begin_checkpoint(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let is_due = self.schedule.due().is_some_and(|due| due <= now);
        let is_put_off = self.disabled_since.is_some() && !is_due;
        let is_asked = self.here_asked || self.signal_asked || !self.asked.is_empty();
        let is_wanted = is_due || is_asked || self.stop == Stop::Wanted;
        if self.checkpoint.is_some() || self.stopped_after().is_some() || !is_wanted || is_put_off {
            return;
        }
        let stops = self.stop == Stop::Wanted || self.asked.iter().any(|request| request.purpose == Purpose::Stop);
        if self.stands_still_for_flush() {
            effects.extend(stops.then_some(Effect::GiveUpFlush));
            return;
        }
        let purpose = if stops { Purpose::Stop } else { Purpose::Protect };
        (self.here_asked, self.signal_asked) = (false, false);
        let served = self.asked.drain(..).map(|request| request.client).collect();
        self.checkpoint = Some(Running { purpose, served });
        effects.push(Effect::BeginCheckpoint(Order {
            purpose,
            past: self.past,
            after_success: self.schedule.advised(AttemptEnd::Taken, now),
            after_failure: self.schedule.advised(AttemptEnd::Failed, now),
        }));
    }

    /// Begins to flush a checkpoint from memory to the disk if one is due and no flush is under way.
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

    /// Coalesces the chain of the newest checkpoint while the program runs and checkpoints continue.
    fn coalesce(&mut self, level: Level, effects: &mut Vec<Effect>) {
        if self.coalescing.is_none() && (self.settings.builds_chains || self.has_promises) {
            self.coalescing = Some(Vec::new());
            effects.push(Effect::BeginCoalescing(Some(level)));
        }
    }

    /// Coalesces as much as possible for the clients that asked for it, unless a coalescing is under way.
    fn coalesce_as_asked(&mut self, effects: &mut Vec<Effect>) {
        if self.coalescing.is_none() && !self.coalescing_asked.is_empty() {
            self.coalescing = Some(std::mem::take(&mut self.coalescing_asked));
            effects.push(Effect::BeginCoalescing(None));
        }
    }

    /// Answers a program that asks for a checkpoint at its present point.
    fn answer_program(&mut self, client: ClientId, again: bool, now: Instant) -> Effect {
        let wait = self.schedule.honoured_in(now);
        let reply = if again && self.reported.reason(Condition::NotTaken).is_some() {
            // The checkpoint itself could not report that to the program.
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
