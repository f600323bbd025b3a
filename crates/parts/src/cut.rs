//! A checkpoint of all parts, as the coordinator steers it.
//!
//! ```text
//! each part:  prepares -> freezes, meets ... until settled -> captures -> waits -> runs on, seals
//! all parts:   all are ready                    all have met        all have captured      all have sealed: an epoch
//! ```
//!
//! What a part can do while it runs, such as precopying its memory, takes one longer than the other. So all freeze when all
//! are ready, and nobody stays frozen for that.
//!
//! If one part fails before all are thawed, the others give up as well: they run on without a checkpoint. Afterwards each
//! seals for itself, and the epoch counts if all do.

use crate::{
    ClosedConnectionEnd, ConnectionEnd, CoordinatorEffect, CoordinatorEvent, EndName, FromPart, ListChanges,
    MeetingReport, OppositeEnd, Pairing, PartIndex, PartReport, ToPart, pair,
};
use std::net::SocketAddr;

/// If at least half of what is unsent is still unsent after this number of meetings, receive queues are full: some bytes at a
/// time may go into them for seconds. A meeting takes 0.2 ms at least, usually one or more, and what the kernel can still deliver
/// moves within that, unless it was lost. Then it takes until it is sent again.
const SLOW_MEETINGS_MAX: u32 = if cfg!(test) { 1 } else { 25 };

/// How often the time may be up while a receive queue is empty, before the cut is given up.
const OVERDUE_MAX: u32 = if cfg!(test) { 1 } else { 120 };

/// A cut under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cut {
    parts: Vec<PartProgress>,
    /// The connection on which something was on its way at the last meeting.
    unsettled: Option<EndName>,
    /// The ends that the last meeting has asked for.
    asked: Vec<EndName>,
    /// What the parts have reported at the last meeting.
    last: Vec<PartReport>,
    /// What each part was told of the other ends.
    told: Vec<Vec<OppositeEnd>>,
    progress: Progress,
    /// The addresses of the UDP sockets of each part, until all have been told.
    udp: Vec<Vec<SocketAddr>>,
    /// How often the time was up while receive queues were empty.
    overdue: u32,
    outcome: Option<CutOutcome>,
}

/// How a cut has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CutOutcome {
    /// All parts have sealed these generations.
    Sealed {
        /// The generation of each part.
        generations: Vec<u64>,
        /// By how much it has made the program of the slowest part run longer, as estimated.
        overhead_nanoseconds: u64,
    },
    /// There is no epoch. The parts run on.
    GivenUp {
        /// The part that was the first to fail, if it was one.
        part: Option<PartIndex>,
        /// Why, for people.
        reason: String,
    },
}

/// How far a part has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum PartProgress {
    /// It runs, and does what can be done meanwhile.
    Preparing,
    /// It runs, and waits for the others.
    Ready,
    /// It is being frozen, or drives on what is on its way.
    Freezing,
    /// It is frozen and waits for the others.
    Frozen(PartReport),
    Capturing,
    /// It waits to be thawed.
    Captured,
    /// It runs and writes its image.
    Sealing,
    Sealed(SealedPart),
    /// It has failed, or nobody knows.
    Gone,
}

/// Whether what is on its way still arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Progress {
    /// How many bytes were unsent when it was last fast enough.
    unsent: u64,
    /// The number of meetings since then.
    meetings: u32,
}

impl Progress {
    /// Notes how many bytes are unsent at a meeting, and returns whether that has become less too slowly.
    fn is_slow(&mut self, unsent: u64) -> bool {
        if self.meetings == 0 || unsent <= self.unsent / 2 {
            *self = Self { unsent, meetings: 1 };
            return false;
        }
        self.meetings += 1;
        self.meetings > SLOW_MEETINGS_MAX
    }
}

/// Returns how many bytes are unsent at all ends.
fn unsent_of(reports: &[PartReport]) -> u64 {
    reports.iter().flat_map(|report| &report.ends).map(|end| end.unsent).fold(0, u64::saturating_add)
}

/// The checkpoint of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SealedPart {
    generation: u64,
    overhead_nanoseconds: u64,
}

impl Cut {
    /// Begins a cut of this number of parts, all of which have been asked for one.
    pub fn begin(parts: usize) -> Self {
        Self {
            parts: vec![PartProgress::Preparing; parts],
            unsettled: None,
            asked: Vec::new(),
            last: vec![PartReport::default(); parts],
            told: vec![Vec::new(); parts],
            progress: Progress::default(),
            udp: vec![Vec::new(); parts],
            overdue: 0,
            outcome: None,
        }
    }

    /// Returns how it has ended.
    pub fn outcome(&self) -> Option<&CutOutcome> {
        self.outcome.as_ref()
    }

    /// Takes an event in, and returns what is to be done.
    pub fn take(&mut self, event: CoordinatorEvent) -> Vec<CoordinatorEffect> {
        if self.outcome.is_some() {
            return Vec::new();
        }
        match event {
            CoordinatorEvent::Said(part, said) => self.hear(part, said),
            CoordinatorEvent::Lost(part) => {
                self.parts[part] = PartProgress::Gone;
                self.give_up(Some(part), "the connection to it was lost".to_owned())
            }
            // A part that holds what was in a receive queue could only end. It has it filled again soon.
            CoordinatorEvent::TimeUp if self.holds_bytes() && self.overdue < OVERDUE_MAX => {
                self.overdue += 1;
                Vec::new()
            }
            CoordinatorEvent::TimeUp => {
                let reason = match &self.unsettled {
                    Some(connection) => format!("what was sent over {connection} did not arrive in time"),
                    None => "it took too long".to_owned(),
                };
                self.give_up(None, reason)
            }
        }
    }

    /// Reports whether a part may have emptied a receive queue, and not filled it again.
    fn holds_bytes(&self) -> bool {
        let holds = |end: &ConnectionEnd| end.was_emptied && !end.was_refilled;
        let is_to_empty = |other: &OppositeEnd| matches!(other, OppositeEnd::Open(it) if it.empty_until.is_some());
        let before = self.last.iter().flat_map(|report| &report.ends).any(holds);
        before || self.told.iter().flatten().any(is_to_empty)
    }

    fn hear(&mut self, part: PartIndex, said: FromPart) -> Vec<CoordinatorEffect> {
        match (&self.parts[part], said) {
            (PartProgress::Preparing, FromPart::Ready) => {
                self.parts[part] = PartProgress::Ready;
                self.freeze()
            }
            (PartProgress::Freezing, FromPart::Frozen(MeetingReport { ends: changes, found, udp })) => {
                self.udp[part] = udp;
                let mut ends = self.last[part].ends.clone();
                if !changes.apply(&mut ends) {
                    return self.give_up(Some(part), "it reported ends that it does not have".to_owned());
                }
                self.parts[part] = PartProgress::Frozen(PartReport { ends, found });
                self.meet()
            }
            (PartProgress::Capturing, FromPart::Captured) => {
                self.parts[part] = PartProgress::Captured;
                self.thaw()
            }
            (PartProgress::Sealing, FromPart::Sealed { generation, overhead_nanoseconds }) => {
                self.parts[part] = PartProgress::Sealed(SealedPart { generation, overhead_nanoseconds });
                self.conclude();
                Vec::new()
            }
            (_, FromPart::Failed { reason }) => {
                self.parts[part] = PartProgress::Gone;
                self.give_up(Some(part), reason)
            }
            (_, said) => self.give_up(Some(part), format!("it said what was not its turn to say: {said:?}")),
        }
    }

    /// Freezes all parts once all are ready.
    fn freeze(&mut self) -> Vec<CoordinatorEffect> {
        self.all_go_on(&PartProgress::Ready, PartProgress::Freezing, &ToPart::Freeze)
    }

    /// Answers all parts once all are frozen.
    fn meet(&mut self) -> Vec<CoordinatorEffect> {
        let report = |part: &PartProgress| match part {
            PartProgress::Frozen(report) => Some(report.clone()),
            _ => None,
        };
        let Some(reports) = self.parts.iter().map(report).collect::<Option<Vec<_>>>() else { return Vec::new() };
        let are_full = self.progress.is_slow(unsent_of(&reports));
        let Pairing { others, closed, asked, unsettled } = pair(&reports, &self.asked, are_full);
        self.last = reports;
        let is_settled = unsettled.is_none();
        self.unsettled = unsettled;
        self.asked.clone_from(&asked);
        let next = if is_settled { PartProgress::Capturing } else { PartProgress::Freezing };
        self.parts.fill(next);
        let answer = |(to, (before, closed)): (PartIndex, (&Vec<OppositeEnd>, Vec<ClosedConnectionEnd>))| {
            let changes = ListChanges::between(before, &others[to]);
            let udp =
                self.udp.iter().enumerate().filter(|(part, _)| *part != to).flat_map(|(_, of_part)| of_part.clone());
            let udp = udp.collect();
            let message = ToPart::Partners { others: changes, asked: asked.clone(), closed, udp, is_settled };
            CoordinatorEffect { to, message }
        };
        let answers = self.told.iter().zip(closed).enumerate().map(answer).collect();
        self.udp.iter_mut().for_each(Vec::clear);
        self.told = others;
        answers
    }

    /// Thaws all parts once all are captured.
    fn thaw(&mut self) -> Vec<CoordinatorEffect> {
        self.all_go_on(&PartProgress::Captured, PartProgress::Sealing, &ToPart::Thaw)
    }

    /// If all parts wait, tells them to go on.
    fn all_go_on(&mut self, waits: &PartProgress, next: PartProgress, message: &ToPart) -> Vec<CoordinatorEffect> {
        if !self.parts.iter().all(|part| part == waits) {
            return Vec::new();
        }
        self.parts.fill(next);
        (0..self.parts.len()).map(|to| CoordinatorEffect { to, message: message.clone() }).collect()
    }

    fn conclude(&mut self) {
        let sealed = |part: &PartProgress| if let PartProgress::Sealed(sealed) = part { Some(*sealed) } else { None };
        let Some(sealed) = self.parts.iter().map(sealed).collect::<Option<Vec<_>>>() else { return };
        self.outcome = Some(CutOutcome::Sealed {
            generations: sealed.iter().map(|part| part.generation).collect(),
            overhead_nanoseconds: sealed.iter().map(|part| part.overhead_nanoseconds).max().unwrap_or_default(),
        });
    }

    /// Lets all parts run on that are not running yet.
    fn give_up(&mut self, part: Option<PartIndex>, reason: String) -> Vec<CoordinatorEffect> {
        let waits = |progress: &PartProgress| {
            !matches!(progress, PartProgress::Sealing | PartProgress::Sealed(_) | PartProgress::Gone)
        };
        let waiting = self.parts.iter().enumerate().filter(|(_, progress)| waits(progress));
        let message = ToPart::GiveUp { reason: reason.clone() };
        let effects = waiting.map(|(to, _)| CoordinatorEffect { to, message: message.clone() }).collect();
        self.outcome = Some(CutOutcome::GivenUp { part, reason });
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_by_a_few_bytes_at_a_meeting_is_slow() {
        let mut progress = Progress::default();
        let slow: Vec<bool> = [1000, 999, 998, 400, 399, 0, 0, 0].map(|unsent| progress.is_slow(unsent)).into();
        assert_eq!(slow, [false, true, true, false, true, false, false, false]);
    }
}
