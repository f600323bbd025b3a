//! Takes checkpoints so often that a stop ends within the deadline, and says where that cannot be.

use super::stops::Verdict;
use super::{Effect, Machine};
use crate::event::{DeadlineNews, JobEvent};
use std::time::{Duration, Instant};

/// Time from the start to the first checkpoint, at most: only a checkpoint shows how long a stop takes.
const FIRST: Duration = Duration::from_secs(5);

impl Machine {
    /// Brings the first checkpoint forward, if there is a deadline.
    pub(super) fn hasten_first(&mut self, now: Instant) {
        if self.settings.deadline.is_some() {
            self.schedule.shorten(now + FIRST);
        }
    }

    /// Brings the next checkpoint forward as the deadline needs it, after one was taken.
    pub(super) fn keep_deadline(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let Some(deadline) = self.settings.deadline else { return };
        match self.stops.verdict(deadline) {
            None => {}
            Some(Verdict::Unknown(wait)) => self.schedule.shorten(now + wait),
            Some(Verdict::Met(longest)) => {
                if let Some(longest) = longest {
                    self.schedule.shorten(now + longest);
                }
                if self.stops.end_news() {
                    effects.push(Effect::Say(JobEvent::Deadline(DeadlineNews::Met { deadline })));
                }
            }
            Some(Verdict::Unmet(needed)) => {
                let news = self.stops.is_news(needed, deadline).then_some(DeadlineNews::Unmet { deadline, needed });
                effects.extend(news.map(|news| Effect::Say(JobEvent::Deadline(news))));
            }
        }
    }

    /// Records the size of the job. If it has grown by what a stop could not save in time, a checkpoint is due.
    pub(super) fn note_size(&mut self, resident_bytes: u64, now: Instant) {
        self.stops.note_size(resident_bytes);
        let is_outgrown = self.settings.deadline.is_some_and(|deadline| self.stops.is_outgrown(deadline, now));
        if is_outgrown && self.disabled_since.is_none() && self.reported.reason(super::Condition::NotTaken).is_none() {
            self.schedule.shorten(now);
        }
    }
}
