//! Every order of events and every moment of a kill, for small groups: the real [`Protocol`] in a world of abstract shards.
//!
//! A shard is only what epoch and logical rank it is of; encoding and rebuilding are one step each, which can happen once
//! everybody whose part it takes has begun. From each state all successors are made: every message that can be delivered
//! next, every storage action that can end next, every process that can be killed next, every process that can become
//! coordinator. States that were seen are not gone into again. What holds in every state is checked in every state
//! ([`World::check`]).
//!
//! Two reductions make six processes feasible, and each is checked on smaller groups against doing without it:
//!
//! - *durable*: messages arrive at once. What is in flight is forgotten at the next membership, and the lateness of a message
//!   shows nowhere but in the storage action that it brings about, which may be as late as it likes.
//! - *symmetric*: states that differ only in which process is which are one. Members of a rotating group are alike, and so
//!   are the choices of the next coordinator.

use crate::world::{Model, Step, Violation, World};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What an exploration saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Distinct states.
    pub states: usize,
    /// Transitions between them.
    pub transitions: usize,
    /// States in which nothing more could happen.
    pub ends: usize,
    /// Ends at which nothing could be recovered, because more was lost than is tolerated or processes were too few.
    pub refusals: usize,
}

/// A state that must not be, and how it came about.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What is wrong.
    pub violation: Violation,
    /// The steps from the beginning.
    pub steps: Vec<Step>,
}

/// Explores everything, or as far as the first violation.
///
/// # Errors
/// [`Counterexample`]
pub fn explore(model: &Model) -> Result<Explored, Box<Counterexample>> {
    let mut explored = Explored::default();
    let mut seen = HashSet::new();
    // How each state was come to: the state before, and the step.
    let mut ways: Vec<(usize, Option<Step>)> = vec![(0, None)];
    let first = World::new(model);
    seen.insert(first.key(model));
    let mut open = vec![(first, 0)];
    while let Some((world, way)) = open.pop() {
        explored.states += 1;
        world.check(model).map_err(|violation| counterexample(violation, &ways, way))?;
        let steps = world.steps(model);
        if steps.is_empty() {
            explored.ends += 1;
            explored.refusals += usize::from(world.is_refused());
        }
        for step in steps {
            explored.transitions += 1;
            let mut next = world.clone();
            let taken = next.take(model, step);
            if taken.is_err() || seen.insert(next.key(model)) {
                ways.push((way, Some(step)));
                taken.map_err(|violation| counterexample(violation, &ways, ways.len() - 1))?;
                open.push((next, ways.len() - 1));
            }
        }
    }
    Ok(explored)
}

fn counterexample(violation: Violation, ways: &[(usize, Option<Step>)], end: usize) -> Box<Counterexample> {
    let mut steps = Vec::new();
    let mut at = end;
    while let (before, Some(step)) = ways[at] {
        steps.push(step);
        at = before;
    }
    steps.reverse();
    Box::new(Counterexample { violation, steps })
}

/// Checks that the symmetric reduction loses nothing: explored without it, all states of one class lead to the same
/// classes. Returns the number of states and of classes.
///
/// # Panics
/// Where they do not.
pub fn symmetry_holds(model: &Model) -> (usize, usize) {
    let plain = Model { symmetric: false, ..model.clone() };
    let reduced = Model { symmetric: true, ..model.clone() };
    let mut classes: BTreeMap<u128, BTreeSet<u128>> = BTreeMap::new();
    let mut seen = HashSet::new();
    let first = World::new(&plain);
    seen.insert(first.key(&plain));
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        let mut successors = BTreeSet::new();
        for step in world.steps(&plain) {
            let mut next = world.clone();
            next.take(&plain, step).expect("a model that was explored before");
            successors.insert(next.key(&reduced));
            if seen.insert(next.key(&plain)) {
                open.push(next);
            }
        }
        let known = classes.entry(world.key(&reduced)).or_insert_with(|| successors.clone());
        assert_eq!(*known, successors, "two states of one class lead to different classes");
    }
    (seen.len(), classes.len())
}
