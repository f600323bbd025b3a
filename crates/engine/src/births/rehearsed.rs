//! A rehearsal of the births of a job. Its processes are mere numbers, in a world that knows what the kernel allows. So
//! the checkpoint already knows what the kernel would refuse.

use super::{Birth, Relative};
use crate::error::kernel;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{JobState, ProcessTree};
use standfast_linux::abi;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

/// The process that adopts processes without a parent; also the session and group in which the job is started.
const OUTSIDE: i32 = 0;

/// Returns what would prevent a restart from making all processes of a job in their places.
pub(crate) fn rehearse_births(job: &JobState) -> Vec<Blocker> {
    born(job).err().unwrap_or_default()
}

/// Records the children of each process in the order in which a restart makes them. They keep their order, except where a
/// session allows none of them to be made in turn.
pub(crate) fn settle_births(job: &mut JobState) {
    let Ok(world) = born(job) else { return };
    let mut in_order: Vec<usize> = (0..job.processes.len()).collect();
    in_order.sort_by_key(|place| world.living.get(&job.processes[*place].pid).map(|process| process.arrival));
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for place in in_order {
        let ProcessTree { parent: Some(parent), birth, .. } = &mut job.processes[place].process_tree else { continue };
        let count = counts.entry(*parent).or_default();
        *birth = *count;
        *count += 1;
    }
}

/// Makes all processes of a job in a world of its own, and returns it.
fn born(job: &JobState) -> Result<World, Vec<Blocker>> {
    let world = Rc::new(RefCell::new(World::default()));
    let Some(main) = job.processes.first() else { return Ok(world.take()) };
    let first = Actor { parent: OUTSIDE, session: OUTSIDE, group: OUTSIDE, takes_orphans: false, arrival: 0 };
    world.borrow_mut().living.insert(main.pid, first);
    world.borrow_mut().numbers.insert(main.pid);
    let mut birth = Birth::new(job, Player { id: main.pid, world: Rc::clone(&world) });
    match birth.make_all() {
        Err(EngineError::Refused(blockers)) => Err(blockers),
        Err(error) => Err(vec![in_the_way(error.to_string())]),
        Ok(()) if birth.born.len() < job.processes.len() => {
            Err(vec![in_the_way("a process has no parent left in its session".to_owned())])
        }
        Ok(()) => Ok(world.take()),
    }
}

fn in_the_way(why: String) -> Blocker {
    let why = format!("it cannot be rebuilt with these sessions and process groups ({why})");
    Blocker::new(RefusalCode::ProcessTree, "tree of processes", why)
}

#[derive(Default)]
struct World {
    living: BTreeMap<i32, Actor>,
    /// Ids that have been used. An id that leads or has led a session or a group cannot be used for another process.
    numbers: BTreeSet<i32>,
    /// The existing groups, with their sessions.
    groups: BTreeSet<(i32, i32)>,
    /// How many processes have come to a parent.
    arrivals: u32,
}

impl World {
    /// Returns the next position in which a process comes to its parent.
    fn arrive(&mut self) -> u32 {
        self.arrivals += 1;
        self.arrivals
    }
}

#[derive(Clone, Copy)]
struct Actor {
    parent: i32,
    session: i32,
    group: i32,
    takes_orphans: bool,
    /// Orders the children of a parent, by birth or adoption.
    arrival: u32,
}

/// One process of the rehearsal.
struct Player {
    id: i32,
    world: Rc<RefCell<World>>,
}

impl Player {
    fn change<T>(
        &self,
        action: &str,
        change: impl FnOnce(&mut World, Actor) -> Result<T, i32>,
    ) -> Result<T, EngineError> {
        let mut world = self.world.borrow_mut();
        let own = world.living.get(&self.id).copied().ok_or(abi::ESRCH);
        let changed = own.and_then(|own| change(&mut world, own));
        changed.map_err(|error| kernel(action, io::Error::from_raw_os_error(error)))
    }
}

impl Relative for Player {
    fn fork(&self, flags: i32, id: i32) -> Result<Self, EngineError> {
        self.change("making a process", |world, own| {
            if !world.numbers.insert(id) {
                return Err(abi::EEXIST);
            }
            let parent = if flags & abi::CLONE_PARENT == 0 { self.id } else { own.parent };
            let arrival = world.arrive();
            world.living.insert(id, Actor { parent, takes_orphans: false, arrival, ..own });
            Ok(())
        })?;
        Ok(Self { id, world: Rc::clone(&self.world) })
    }

    fn begin_session(&self) -> Result<(), EngineError> {
        self.change("beginning a session", |world, own| {
            if world.living.values().any(|other| other.group == self.id) {
                return Err(abi::EPERM);
            }
            world.living.insert(self.id, Actor { session: self.id, group: self.id, ..own });
            world.groups.insert((self.id, self.id));
            Ok(())
        })
    }

    fn take_terminal(&self, _: i32) -> Result<(), EngineError> {
        Ok(())
    }

    fn join_group(&self, group: i32) -> Result<(), EngineError> {
        let group = if group == 0 { self.id } else { group };
        self.change("joining a group", |world, own| {
            let is_there = world.groups.contains(&(group, own.session));
            if own.session == self.id || group != self.id && !is_there {
                return Err(abi::EPERM);
            }
            world.living.insert(self.id, Actor { group, ..own });
            world.groups.insert((group, own.session));
            Ok(())
        })
    }

    fn take_orphans(&self) -> Result<(), EngineError> {
        self.change("taking orphans", |world, own| {
            world.living.insert(self.id, Actor { takes_orphans: true, ..own });
            Ok(())
        })
    }

    fn forget_child(&self, _: i32) -> Result<(), EngineError> {
        Ok(())
    }

    fn end(&self) {
        let mut world = self.world.borrow_mut();
        let Some(own) = world.living.remove(&self.id) else { return };
        let mut adopter = own.parent;
        while let Some(actor) = world.living.get(&adopter).filter(|actor| !actor.takes_orphans) {
            adopter = actor.parent;
        }
        let mut orphans: Vec<(u32, i32)> = Vec::new();
        orphans.extend(world.living.iter().filter(|(_, it)| it.parent == self.id).map(|(id, it)| (it.arrival, *id)));
        orphans.sort_unstable();
        for (_, id) in orphans {
            let arrival = world.arrive();
            let orphan = world.living.get_mut(&id).expect("it has just been found");
            (orphan.parent, orphan.arrival) = (adopter, arrival);
        }
    }

    fn is_child_of(&self, parent: &Self) -> bool {
        self.world.borrow().living.get(&self.id).is_some_and(|own| own.parent == parent.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{ProcessState, ProcessSwitches, ProcessTree};

    /// Returns a job of processes given by pid, place of the parent, group, session, and whether they adopt orphans. Siblings
    /// are given in their order.
    fn job(processes: &[(i32, Option<u32>, i32, i32, bool)]) -> JobState {
        let process =
            |(birth, &(pid, parent, process_group, session, subreaper)): (u32, &(i32, Option<u32>, i32, i32, bool))| {
                ProcessState {
                    pid,
                    process_tree: ProcessTree { parent, process_group, session, birth, ..ProcessTree::default() },
                    switches: ProcessSwitches { subreaper, ..ProcessSwitches::default() },
                    ..ProcessState::default()
                }
            };
        JobState { processes: (0..).zip(processes).map(process).collect(), ..JobState::default() }
    }

    fn refused(processes: &[(i32, Option<u32>, i32, i32, bool)]) -> Vec<String> {
        rehearse_births(&job(processes)).into_iter().map(|it| it.to_string()).collect()
    }

    /// Returns the pids of the children of the main process, in the order in which a restart makes them.
    fn children_of_main(processes: &[(i32, Option<u32>, i32, i32, bool)]) -> Vec<i32> {
        let mut job = job(processes);
        settle_births(&mut job);
        let mut children: Vec<_> = job.processes.iter().filter(|it| it.process_tree.parent == Some(0)).collect();
        children.sort_by_key(|child| child.process_tree.birth);
        children.iter().map(|child| child.pid).collect()
    }

    #[test]
    fn ordinary_trees_can_be_made_again() {
        assert_eq!(refused(&[(10, None, 10, 0, false)]), [""; 0]);
        let shell = [(10, None, 10, 0, false), (11, Some(0), 11, 11, false), (12, Some(1), 12, 11, false)];
        assert_eq!(refused(&shell), [""; 0]);
        let daemon_of_a_dead_leader = [(10, None, 10, 0, false), (12, None, 11, 11, false), (13, None, 13, 11, false)];
        assert_eq!(refused(&daemon_of_a_dead_leader), [""; 0]);
        let adopted = [(10, None, 10, 0, true), (11, Some(0), 11, 11, false), (13, Some(0), 11, 11, false)];
        assert_eq!(refused(&adopted), [""; 0]);
    }

    #[test]
    fn an_adopted_process_stays_before_its_younger_siblings() {
        // 11 led the session of 13, which was adopted before 14 was born.
        let led = [(10, None, 10, 0, true), (11, Some(0), 11, 11, false), (13, Some(0), 11, 11, false)];
        let in_order = [&led[..], &[(14, Some(0), 14, 0, false)]].concat();
        assert_eq!(refused(&in_order), [""; 0]);
        assert_eq!(children_of_main(&in_order), [11, 13, 14]);
        // The leader of the session was adopted after it.
        let leader_last = [led[0], (13, Some(0), 11, 11, false), (14, Some(0), 14, 0, false), led[1]];
        assert_eq!(refused(&leader_last), [""; 0]);
        assert_eq!(children_of_main(&leader_last), [14, 11, 13]);
    }

    #[test]
    fn a_process_that_cannot_get_its_session_or_group_is_named() {
        // Adopted from the session of a living leader, by a process that no longer adopts orphans.
        let adopted = [(10, None, 10, 0, false), (11, None, 11, 11, false), (13, Some(0), 11, 11, false)];
        assert!(refused(&adopted)[0].contains("process 13"), "{:?}", refused(&adopted));
        // The leader of the session has ended, and two processes have different parents.
        let scattered = [(10, None, 10, 0, false), (12, None, 12, 11, false), (13, Some(0), 13, 11, false)];
        assert!(refused(&scattered)[0].contains("process 13"), "{:?}", refused(&scattered));
        // A group cannot span two sessions.
        let torn = [(10, None, 10, 0, false), (11, Some(0), 11, 11, false), (12, Some(0), 11, 0, false)];
        assert!(refused(&torn)[0].contains("tree of processes"), "{:?}", refused(&torn));
    }
}
