//! Messages and other future events, in the order of a simulated clock. Messages between the same two processes keep
//! their order; others overtake each other.

use fastrand::Rng;
use standfast_group::Rank;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A future event.
#[derive(Debug)]
struct Due<T> {
    at: u64,
    order: u64,
    what: T,
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// All future events, and the clock.
#[derive(Debug)]
pub struct Agenda<T> {
    due: BinaryHeap<Reverse<Due<T>>>,
    now: u64,
    order: u64,
    last_between: BTreeMap<(Rank, Rank), u64>,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { due: BinaryHeap::new(), now: 0, order: 0, last_between: BTreeMap::new() }
    }
}

impl<T> Agenda<T> {
    /// Returns the simulated time.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event, `delay` from now.
    pub fn after(&mut self, delay: u64, what: T) {
        self.order += 1;
        self.due.push(Reverse(Due { at: self.now + delay, order: self.order, what }));
    }

    /// Adds a message. It mostly arrives soon and sometimes late, but never before an earlier one between the same two.
    pub fn message(&mut self, from: Rank, to: Rank, random: &mut Rng, what: T) {
        let delay = if random.u8(..16) == 0 { random.u64(..2000) } else { random.u64(..50) };
        let last = self.last_between.entry((from, to)).or_default();
        *last = (*last).max(self.now + delay);
        self.order += 1;
        self.due.push(Reverse(Due { at: *last, order: self.order, what }));
    }

    /// Removes the events that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.due.retain(|Reverse(due)| keep(&due.what));
    }
}

impl<T> Iterator for Agenda<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let Reverse(due) = self.due.pop()?;
        self.now = due.at;
        Some(due.what)
    }
}
