//! Explores what can happen between a coordinator and its parts: every order of events of three parts, with a loss, a failure
//! and the end of patience at each point; and random orders of up to 64 parts.
//!
//! ```text
//! cut_world       a checkpoint of all parts, and planted faults of its coordinator
//! restart_world   a restart of all parts
//! epochs          which checkpoints count, after lives of several coordinators
//! ```

mod cut_world;
mod epochs;
mod restart_world;

use crate::{CoordinatorEffect, CoordinatorEvent, FromPart, PartIndex, ToPart};
use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

/// Parts in every order of events.
const PARTS: usize = 3;
/// Parts in random orders.
const PARTS_MAX: usize = 64;
/// Random orders.
const SEEDS: u64 = 2_000;
const SEEDS_OF_REST: u64 = 100_000;
/// A random order of more steps has no end.
const STEPS_MAX: usize = 200_000;

/// The connections between a coordinator and its parts, and what may still go wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Links {
    links: Vec<Link>,
    losses: u32,
    failures: u32,
    ends_of_patience: u32,
}

/// The connection between the coordinator and a part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Link {
    to_part: VecDeque<ToPart>,
    to_coordinator: VecDeque<FromPart>,
    is_up: bool,
    /// Whether the coordinator has noticed that it is down.
    is_noticed: bool,
}

impl Links {
    fn new(parts: usize) -> Self {
        let link = Link { to_part: VecDeque::new(), to_coordinator: VecDeque::new(), is_up: true, is_noticed: false };
        Self { links: vec![link; parts], losses: 1, failures: 1, ends_of_patience: 1 }
    }

    /// A part says something.
    fn say(&mut self, part: PartIndex, said: FromPart) {
        if self.links[part].is_up {
            self.links[part].to_coordinator.push_back(said);
        }
    }

    /// The coordinator says something.
    fn tell(&mut self, effects: Vec<CoordinatorEffect>) {
        for CoordinatorEffect { to, message } in effects {
            if self.links[to].is_up {
                self.links[to].to_part.push_back(message);
            }
        }
    }

    /// Takes what a part hears next; nothing if its connection is down.
    fn heard(&mut self, part: PartIndex) -> Option<ToPart> {
        self.links[part].to_part.pop_front()
    }

    /// Reports whether a part that waits for an answer goes on.
    fn hears(&self, part: PartIndex) -> bool {
        !self.links[part].to_part.is_empty() || !self.links[part].is_up
    }
}

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The coordinator hears what a part has said, or that its connection is down.
    Hear(PartIndex),
    /// A part does what it does next.
    Act(PartIndex),
    /// A part fails.
    Fail(PartIndex),
    /// A connection is lost, with or without what is on its way.
    Lose(PartIndex, bool),
    TimeUp,
}

/// A coordinator, its parts, and the connections between them.
trait World: Clone + Debug {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
    /// Lets the coordinator take in an event.
    fn steer(&mut self, event: CoordinatorEvent);
    /// Reports whether a part can go on, and whether it can fail.
    fn can_act(&self, part: PartIndex) -> bool;
    fn can_fail(&self, part: PartIndex) -> bool;
    fn act(&mut self, part: PartIndex);
    fn fail(&mut self, part: PartIndex);
    /// Returns what is wrong. `is_last` says that nothing more can happen.
    fn fault(&self, is_last: bool) -> Option<&'static str>;

    fn may(&self, step: Step) -> bool {
        let links = self.links();
        match step {
            Step::Hear(part) => {
                let link = &links.links[part];
                !link.to_coordinator.is_empty() || !link.is_up && !link.is_noticed
            }
            Step::Act(part) => self.can_act(part),
            Step::Fail(part) => links.failures > 0 && self.can_fail(part),
            Step::Lose(part, _) => links.losses > 0 && links.links[part].is_up,
            Step::TimeUp => links.ends_of_patience > 0,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Hear(part) => match self.links_mut().links[part].to_coordinator.pop_front() {
                Some(said) => self.steer(CoordinatorEvent::Said(part, said)),
                None => {
                    self.links_mut().links[part].is_noticed = true;
                    self.steer(CoordinatorEvent::Lost(part));
                }
            },
            Step::Act(part) => self.act(part),
            Step::Fail(part) => {
                self.links_mut().failures -= 1;
                self.fail(part);
                self.links_mut().say(part, FromPart::Failed { reason: "it could not".to_owned() });
            }
            Step::Lose(part, are_delivered) => {
                let links = self.links_mut();
                links.losses -= 1;
                links.links[part].is_up = false;
                if !are_delivered {
                    links.links[part].to_part.clear();
                    links.links[part].to_coordinator.clear();
                }
            }
            Step::TimeUp => {
                self.links_mut().ends_of_patience -= 1;
                self.steer(CoordinatorEvent::TimeUp);
            }
        }
    }

    /// Returns all that can happen next.
    fn steps(&self) -> Vec<Step> {
        let of_part = |part| {
            let [with, without] = [true, false].map(|are_delivered| Step::Lose(part, are_delivered));
            [Step::Hear(part), Step::Act(part), Step::Fail(part), with, without]
        };
        let all = (0..self.links().links.len()).flat_map(of_part).chain([Step::TimeUp]);
        all.filter(|step| self.may(*step)).collect()
    }
}

/// Explores all that one world leads to. Returns the number of worlds, or the first fault.
fn explore<W: World + Eq + Hash>(first: W) -> Result<usize, &'static str> {
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        let steps = world.steps();
        if let Some(fault) = world.fault(steps.is_empty()) {
            return Err(fault);
        }
        for step in steps {
            let mut next = world.clone();
            next.take(step);
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

/// Lets one thing happen after the other, at random, until nothing more can happen. Returns the first fault.
fn wander<W: World>(mut world: W, random: &mut fastrand::Rng) -> Result<(), &'static str> {
    for _ in 0..STEPS_MAX {
        let steps = world.steps();
        // What goes wrong does so seldom, so that much can happen before.
        let is_trouble = |step: &&Step| !matches!(step, Step::Hear(_) | Step::Act(_));
        let usual: Vec<&Step> = steps.iter().filter(|step| !is_trouble(step) || random.u32(0..200) == 0).collect();
        let Some(step) = random.choice(usual).or(random.choice(&steps)) else {
            return world.fault(true).map_or(Ok(()), Err);
        };
        world.take(*step);
        if let Some(fault) = world.fault(false) {
            return Err(fault);
        }
    }
    Err("it never ends")
}

/// Does so with worlds of 2 to 64 parts. Small ones are more frequent. Returns the first fault, with its seed.
fn wander_through<W: World>(seeds: u64, world: impl Fn(usize) -> W) -> Result<(), (u64, &'static str)> {
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let most = random.usize(2..=PARTS_MAX);
        let parts = random.usize(2..=most);
        wander(world(parts), &mut random).map_err(|fault| (seed, fault))?;
    }
    Ok(())
}
