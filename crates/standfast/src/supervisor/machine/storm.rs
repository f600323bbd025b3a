//! Storms: events in random order, from a seed. In every storm, no two pieces of work of a kind are under way at once,
//! and nothing is saved while there is nothing new to save. Each client is answered once, and what was asked for is
//! done in the end. After the end of the job nothing begins.

use super::*;
use crate::checkpoint::Shortfall;
use crate::settings::Beside;
use crate::supervisor::flushing::{End, Measured};
use fastrand::Rng;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

const STORMS: u64 = 2000;
const EVENTS: usize = 200;
const EVENTS_AFTER_END: usize = 20;

/// Surroundings of a machine: work under way, and waiting clients.
struct World {
    machine: Machine,
    random: Rng,
    now: Instant,
    checkpoint: Option<Purpose>,
    /// Whether a signal has asked for a checkpoint that has not begun.
    is_signal_asked: bool,
    flush: Option<FlushMode>,
    is_coalescing: bool,
    is_rehearsing: bool,
    generation: u64,
    waiting: BTreeSet<u64>,
    clients: u64,
    is_stop_asked: bool,
    is_stop_refused: bool,
    has_ended: bool,
    /// Whether somebody was told that checkpoints fail.
    is_notified: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let now = Instant::now();
        let settings = Settings {
            interval: if random.bool() { Interval::Every(Duration::from_secs(1)) } else { Interval::Off },
            min_interval: MinInterval::After(Duration::ZERO),
            flush: random.choice([Flush::Auto, Flush::Foreground, Flush::Background]).expect("three"),
            flush_every: random.choice([FlushEvery::default(), FlushEvery::Auto]).expect("two"),
            is_tracking: random.bool(),
            builds_chains: random.bool(),
            has_memory: random.bool(),
            memory_is_automatic: random.bool(),
            deadline: random.bool().then(|| Duration::from_millis(random.u64(1..60_000))),
            notify_after: random.bool().then(|| Duration::from_millis(random.u64(1..60_000))),
            rehearse: random.choice([Rehearse::Off, Rehearse::First, Rehearse::Every(NonZeroU32::MIN)]).expect("three"),
        };
        let flushes = FlushSchedule::new(Default::default(), Default::default(), now);
        Self {
            machine: Machine::new(settings, flushes, None, now),
            random,
            now,
            checkpoint: None,
            is_signal_asked: false,
            flush: None,
            is_coalescing: false,
            is_rehearsing: false,
            generation: 0,
            waiting: BTreeSet::new(),
            clients: 0,
            is_stop_asked: false,
            is_stop_refused: false,
            has_ended: false,
            is_notified: false,
        }
    }

    fn client(&mut self) -> ClientId {
        self.clients += 1;
        self.waiting.insert(self.clients);
        ClientId::imagined(self.clients)
    }

    /// Sends an event to the machine and carries out its effects. Returns whether there were any.
    fn on(&mut self, event: Event) -> bool {
        let effects = self.machine.on(event, self.now);
        let is_any = !effects.is_empty();
        effects.into_iter().for_each(|effect| self.carry_out(effect));
        is_any
    }

    fn carry_out(&mut self, effect: Effect) {
        assert!(!self.has_ended || matches!(effect, Effect::Answer(..)), "after the end: {effect:?}");
        match effect {
            Effect::BeginCheckpoint(order) => {
                assert_eq!(self.checkpoint, None, "two checkpoints at once");
                assert_ne!(self.flush, Some(FlushMode::Foreground), "the program is stopped for a flush");
                assert_eq!(self.machine.stopped_after(), None, "the program is stopped");
                self.is_signal_asked = false;
                self.checkpoint = Some(order.purpose);
                if self.random.u8(..20) == 0 {
                    self.end_checkpoint(false);
                }
            }
            Effect::BeginFlush(order) => {
                assert!(self.flush.is_none() && self.checkpoint.is_none(), "a flush beside another work");
                self.flush = Some(order.mode);
            }
            Effect::GiveUpFlush => {
                assert_eq!(self.flush, Some(FlushMode::Foreground), "only such a flush is in the way");
                self.end_flush(Ok(End::Abandoned));
            }
            Effect::BeginCoalescing(_) => {
                assert!(!std::mem::replace(&mut self.is_coalescing, true), "two coalescings at once");
            }
            Effect::BeginRehearsal => {
                assert!(!std::mem::replace(&mut self.is_rehearsing, true), "two rehearsals at once");
            }
            Effect::RenewMemory => assert_eq!(self.flush, None, "a flush reads what is there"),
            Effect::Answer(client, _) => self.note_answer(client),
            Effect::Say(JobEvent::NotStopped { .. }) => self.is_stop_refused = true,
            Effect::Say(_) => {}
            Effect::Notify { is_protected, .. } => {
                assert_eq!(
                    is_protected, self.is_notified,
                    "the first notification is of failures, the next that they are over"
                );
                self.is_notified = !is_protected;
            }
        }
    }

    fn note_answer(&mut self, client: ClientId) {
        let number = (1..=self.clients).find(|number| ClientId::imagined(*number) == client).expect("it has asked");
        assert!(self.waiting.remove(&number), "answered twice");
    }

    fn end_checkpoint(&mut self, is_taken: bool) {
        if self.checkpoint.take().is_none() {
            return;
        }
        let outcome = if is_taken { Ok(self.taken()) } else { Err(self.failed()) };
        self.on(Event::CheckpointEnded(outcome));
    }

    fn taken(&mut self) -> TakenFacts {
        self.generation += 1;
        let is_in_memory = self.random.bool();
        let report = CheckpointReport {
            generation: self.generation,
            pages_read: self.random.u64(..1 << 20),
            pages_scanned: 1 << 20,
            file_bytes: self.random.u64(..1 << 32),
            durable_nanoseconds: self.random.u64(..1 << 34),
            ..CheckpointReport::default()
        };
        let mut reason = || self.random.choice([None, Some("a"), Some("b")]).flatten().map(str::to_owned);
        let all = [Shortfall::NotInMemory, Shortfall::Untracked, Shortfall::Uncloned, Shortfall::DirectivesIgnored];
        TakenFacts {
            report,
            level: if is_in_memory { Level::Memory } else { Level::Directory },
            may_be_flushed: true,
            shortfalls: all.into_iter().filter_map(|shortfall| Some((shortfall, reason()?))).collect(),
            broken: Vec::new(),
            listing: Vec::new(),
            retention: reason().map_or(Ok(()), Err),
            has_promises: is_in_memory,
        }
    }

    fn failed(&mut self) -> Failed {
        let stood_still = AttemptEnd::StoodStill(Duration::from_millis(self.random.u64(..100)));
        let attempts = [AttemptEnd::Failed, AttemptEnd::FailedInPassing, stood_still];
        Failed {
            reason: "it is not to be".to_owned(),
            attempt: self.random.choice(attempts).expect("three"),
            is_disabled: self.random.u8(..3) == 0,
            is_end: false,
        }
    }

    fn end_flush(&mut self, end: Result<End, String>) {
        if self.flush.take().is_none() {
            return;
        }
        let second = Duration::from_secs(1);
        let measures = [
            Measured::Nothing,
            Measured::Beside(Beside::default()),
            Measured::Foreground(self.random.u64(1..1 << 30), second / self.random.u32(1..100)),
            Measured::Unstoppable,
        ];
        let measured = self.random.choice(measures).expect("four");
        self.on(Event::FlushEnded(FlushOutcome { end, measured }));
    }

    fn end_coalescing(&mut self, outcome: Result<CoalescingReport, String>) {
        if std::mem::take(&mut self.is_coalescing) {
            self.on(Event::CoalescingEnded(outcome));
        }
    }

    /// Makes something happen.
    fn happen(&mut self) {
        match self.random.u8(..100) {
            0..15 => {
                let purpose = if self.random.u8(..20) == 0 { Purpose::Stop } else { Purpose::Protect };
                let client = self.client();
                self.on(Event::Asked(CheckpointRequest { client, purpose }));
            }
            15..20 => {
                let client = self.client();
                self.on(Event::CoalescingAsked { client });
            }
            20..25 => {
                let (client, again) = (self.client(), self.random.bool());
                self.on(Event::AskedHere { client, again });
            }
            25..28 => {
                let client = self.client();
                self.on(Event::Enabled { client });
            }
            28 => {
                self.is_stop_asked |= self.machine.stopped_after().is_none();
                self.on(Event::StopAsked);
            }
            29 if self.random.bool() => {
                self.on(Event::CheckpointAsked);
                self.is_signal_asked = self.machine.stopped_after().is_none();
            }
            29 => {
                self.on(Event::Unprotectable { reason: "nothing helps".to_owned() });
            }
            30 => {
                let resident_bytes = self.random.u64(..1 << 34);
                self.on(Event::Sized { resident_bytes });
            }
            31..45 => {
                let is_taken = self.random.bool();
                self.end_checkpoint(is_taken);
            }
            45..55 => {
                let end = self.random.choice([Ok(End::OnDisk(None)), Ok(End::Abandoned), Err("full".to_owned())]);
                self.end_flush(end.expect("three"));
            }
            55..60 => self.end_coalescing(Err("no room".to_owned())),
            60 if std::mem::take(&mut self.is_coalescing) => {
                self.on(Event::CoalescingNotBegun("no thread".to_owned()));
            }
            60..65 => self.end_coalescing(Ok(CoalescingReport { generation: None, file_bytes: 0, removed: 0 })),
            65..68 if std::mem::take(&mut self.is_rehearsing) => {
                self.on(Event::RehearsalEnded(Some(Err("it would fail".to_owned()))));
            }
            _ => {
                self.now += Duration::from_millis(self.random.u64(..3000));
                while self.on(Event::Tick) {}
            }
        }
    }

    /// Ends the storm: everything that is begun succeeds.
    fn succeed_in_everything(&mut self) {
        for _ in 0..10 {
            self.now += Duration::from_secs(3600);
            while self.on(Event::Tick) {}
            self.end_checkpoint(true);
            self.end_flush(Ok(End::OnDisk(None)));
            self.end_coalescing(Ok(CoalescingReport { generation: None, file_bytes: 0, removed: 0 }));
        }
    }
}

#[test]
fn under_random_events_each_client_is_answered_once() {
    for seed in 0..STORMS {
        let mut world = World::new(seed);
        let lifetime = world.random.usize(..=EVENTS);
        (0..lifetime).for_each(|_| world.happen());
        world.on(Event::JobEnded);
        world.has_ended = true;
        (0..EVENTS_AFTER_END).for_each(|_| world.happen());
        // Work that was under way ends late.
        world.end_checkpoint(true);
        world.end_flush(Ok(End::OnDisk(None)));
        world.end_coalescing(Err("the program ended".to_owned()));
        let stopped = world.machine.stopped_answers();
        stopped.into_iter().for_each(|(client, _)| world.note_answer(client));
        assert_eq!(world.waiting, BTreeSet::new(), "seed {seed}: never answered");
    }
}

#[test]
fn after_random_events_all_requests_are_done() {
    for seed in 0..STORMS {
        let mut world = World::new(seed);
        (0..EVENTS).for_each(|_| world.happen());
        world.succeed_in_everything();
        let is_stopped = world.machine.stopped_after().is_some();
        assert!(is_stopped || world.is_stop_refused || !world.is_stop_asked, "seed {seed}: not stopped, not refused");
        assert!(is_stopped || !world.is_signal_asked, "seed {seed}: a signal's checkpoint never began");
        assert!(is_stopped || world.waiting.is_empty(), "seed {seed}: {:?} wait still", world.waiting);
    }
}
