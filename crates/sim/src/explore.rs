//! Explores every order of events and every moment of a kill, for small groups: the real [`standfast_group::Protocol`] in a
//! world of abstract shards.
//!
//! A shard is only its epoch and logical rank. Encoding and rebuilding are one step each, which is possible once all
//! processes that contribute have begun. From each state the explorer makes all successors: each message that can be
//! delivered next, each storage action that can end next, each process that can be killed next, each process that can
//! become coordinator. It does not enter known states again. In every state it checks the invariants ([`World::check`]).
//!
//! Two reductions make six processes feasible. Each is compared on smaller groups with exploration without it:
//!
//! - *durable*: messages arrive at once. The next membership discards all messages in flight, and a late message has an
//!   effect only through the storage action that it causes, which may itself be arbitrarily late.
//! - *symmetric*: states that differ only in the names of processes are one. Members of a rotating group are alike, and
//!   so are the choices of the next coordinator.

use crate::world::{Model, Step, Violation, World};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The result of an exploration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Distinct states.
    pub states: usize,
    /// Transitions between them.
    pub transitions: usize,
    /// States without successors.
    pub ends: usize,
    /// Final states in which recovery was refused, because more was lost than is tolerated or there were too few
    /// processes.
    pub refusals: usize,
}

/// An invalid state, and the steps that lead to it.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What is wrong.
    pub violation: Violation,
    /// The steps from the beginning.
    pub steps: Vec<Step>,
}

/// Explores all states, or until the first violation.
///
/// # Errors
/// [`Counterexample`]
pub fn explore(model: &Model) -> Result<Explored, Box<Counterexample>> {
    let mut explored = Explored::default();
    let mut seen = HashSet::new();
    // How each state was reached: the state before, and the step.
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

/// Checks that the symmetric reduction loses nothing: without it, all states of one class lead to the same classes.
/// Returns the number of states and of classes.
///
/// # Panics
/// If they do not.
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
