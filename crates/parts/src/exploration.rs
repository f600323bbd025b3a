//! Explores every order of events of three parts, with a loss, a failure and the end of patience at each point.

use crate::{
    ConnectionEnd, CoordinatorEffect, CoordinatorEvent, Cut, CutOutcome, EndName, FromPart, PartIndex, PartReport,
    PartsRestart, RestartBarrier, RestartOutcome, ToPart,
};
use std::collections::{HashSet, VecDeque};

const PARTS: usize = 3;

/// What may go wrong, once each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Trouble {
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

impl Link {
    fn new() -> Self {
        Self { to_part: VecDeque::new(), to_coordinator: VecDeque::new(), is_up: true, is_noticed: false }
    }
}

/// What a part does in a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CutPart {
    Freezing,
    /// It has reported its ends.
    Meeting,
    Capturing,
    Captured,
    Sealing,
    Sealed,
    /// It runs without a checkpoint.
    RunsOn,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CutWorld {
    cut: Cut,
    parts: [CutPart; PARTS],
    has_captured: [bool; PARTS],
    has_met: [bool; PARTS],
    links: [Link; PARTS],
    trouble: Trouble,
}

/// How the coordinator acts; faults are planted here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steering {
    Right,
    /// It thaws as soon as one part is captured.
    ThawsEarly,
    /// It counts an epoch as soon as one part has sealed it.
    CountsEarly,
}

/// A connection between the first two parts, on which something is on its way at the first meeting.
fn report(part: PartIndex, has_met: bool) -> PartReport {
    let name = EndName { local: "10.0.0.1:1".parse().unwrap(), remote: "10.0.0.2:2".parse().unwrap() };
    let (unsent, acknowledged) = if has_met { (0, 6) } else { (5, 1) };
    let (seems_accepted, has_ended, has_received_all) = (false, false, false);
    let end = ConnectionEnd { name, seems_accepted, has_ended, has_received_all, unsent, acknowledged, received: 0 };
    let received = if has_met { 5 } else { 0 };
    let ends = match part {
        0 => vec![end],
        1 => vec![ConnectionEnd { name: name.of_other_end(), unsent: 0, acknowledged: 0, received, ..end }],
        _ => Vec::new(),
    };
    PartReport { ends, found: Vec::new() }
}

impl CutWorld {
    fn new() -> Self {
        Self {
            cut: Cut::begin(PARTS),
            parts: [CutPart::Freezing; PARTS],
            has_captured: [false; PARTS],
            has_met: [false; PARTS],
            links: std::array::from_fn(|_| Link::new()),
            trouble: Trouble { losses: 1, failures: 1, ends_of_patience: 1 },
        }
    }

    fn say(&mut self, part: PartIndex, said: FromPart) {
        if self.links[part].is_up {
            self.links[part].to_coordinator.push_back(said);
        }
    }

    fn steer(&mut self, event: CoordinatorEvent, steering: Steering) {
        let is_captured = matches!(event, CoordinatorEvent::Said(_, FromPart::Captured));
        let mut effects = self.cut.take(event);
        if steering == Steering::ThawsEarly && is_captured {
            effects = (0..PARTS).map(|to| CoordinatorEffect { to, message: ToPart::Thaw }).collect();
        }
        for CoordinatorEffect { to, message } in effects {
            if self.links[to].is_up {
                self.links[to].to_part.push_back(message);
            }
        }
    }

    /// Returns every world that one step leads to.
    fn steps(&self, steering: Steering) -> Vec<Self> {
        let mut next = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            next.push(world);
        };
        for part in 0..PARTS {
            if let Some(said) = self.links[part].to_coordinator.front() {
                with(&|world| {
                    world.links[part].to_coordinator.pop_front();
                    world.steer(CoordinatorEvent::Said(part, said.clone()), steering);
                });
            } else if !self.links[part].is_up && !self.links[part].is_noticed {
                with(&|world| {
                    world.links[part].is_noticed = true;
                    world.steer(CoordinatorEvent::Lost(part), steering);
                });
            }
            if self.can_act(part) {
                with(&|world| world.act(part));
            }
            let is_busy = matches!(self.parts[part], CutPart::Freezing | CutPart::Capturing | CutPart::Sealing);
            if is_busy && self.trouble.failures > 0 {
                with(&|world| {
                    world.trouble.failures -= 1;
                    world.parts[part] = CutPart::RunsOn;
                    world.say(part, FromPart::Failed { reason: "it could not".to_owned() });
                });
            }
            if self.links[part].is_up && self.trouble.losses > 0 {
                for are_delivered in [true, false] {
                    with(&|world| {
                        world.trouble.losses -= 1;
                        world.links[part].is_up = false;
                        if !are_delivered {
                            world.links[part].to_part.clear();
                            world.links[part].to_coordinator.clear();
                        }
                    });
                }
            }
        }
        if self.trouble.ends_of_patience > 0 {
            with(&|world| {
                world.trouble.ends_of_patience -= 1;
                world.steer(CoordinatorEvent::TimeUp, steering);
            });
        }
        next
    }

    fn can_act(&self, part: PartIndex) -> bool {
        match self.parts[part] {
            CutPart::Freezing | CutPart::Capturing | CutPart::Sealing => true,
            CutPart::Meeting | CutPart::Captured => !self.links[part].to_part.is_empty() || !self.links[part].is_up,
            CutPart::Sealed | CutPart::RunsOn => false,
        }
    }

    /// Does what a part does next.
    fn act(&mut self, part: PartIndex) {
        self.parts[part] = match self.parts[part] {
            CutPart::Freezing => {
                self.say(part, FromPart::Frozen(report(part, self.has_met[part])));
                CutPart::Meeting
            }
            CutPart::Meeting => match self.links[part].to_part.pop_front() {
                Some(ToPart::Partners { is_settled: true, .. }) => CutPart::Capturing,
                Some(ToPart::Partners { is_settled: false, .. }) => {
                    self.has_met[part] = true;
                    CutPart::Freezing
                }
                _ => CutPart::RunsOn,
            },
            CutPart::Capturing => {
                self.has_captured[part] = true;
                self.say(part, FromPart::Captured);
                CutPart::Captured
            }
            CutPart::Captured => match self.links[part].to_part.pop_front() {
                Some(ToPart::Thaw) => CutPart::Sealing,
                _ => CutPart::RunsOn,
            },
            CutPart::Sealing => {
                self.say(part, FromPart::Sealed { generation: 1 });
                CutPart::Sealed
            }
            done => done,
        };
    }

    /// Returns what is wrong.
    fn fault(&self, steering: Steering, is_last: bool) -> Option<&'static str> {
        let runs = |part: &CutPart| matches!(part, CutPart::Sealing | CutPart::Sealed);
        if self.parts.iter().any(runs) && !self.has_captured.iter().all(|has| *has) {
            return Some("a part was thawed before all were captured");
        }
        let has_epoch = match steering {
            Steering::CountsEarly => self.parts.contains(&CutPart::Sealed),
            _ => matches!(self.cut.outcome(), Some(CutOutcome::Sealed { .. })),
        };
        if has_epoch && self.parts.iter().any(|part| *part != CutPart::Sealed) {
            return Some("an epoch counts that a part has not sealed");
        }
        let is_over = |part: &CutPart| matches!(part, CutPart::Sealed | CutPart::RunsOn);
        if is_last && !self.parts.iter().all(is_over) {
            return Some("a part stays frozen");
        }
        (is_last && self.cut.outcome().is_none()).then_some("nobody learns how it ended")
    }
}

/// Explores all that one world leads to. Returns the number of worlds, or the first fault.
fn explore<W: Clone + Eq + std::hash::Hash>(
    first: W,
    steps: impl Fn(&W) -> Vec<W>,
    fault: impl Fn(&W, bool) -> Option<&'static str>,
) -> Result<usize, &'static str> {
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        let next = steps(&world);
        if let Some(fault) = fault(&world, next.is_empty()) {
            return Err(fault);
        }
        open.extend(next.into_iter().filter(|world| seen.insert(world.clone())));
    }
    Ok(seen.len())
}

fn explore_cut(steering: Steering) -> Result<usize, &'static str> {
    explore(CutWorld::new(), |world| world.steps(steering), |world, is_last| world.fault(steering, is_last))
}

#[test]
fn every_order_of_events_of_a_cut_ends_well() {
    let worlds = explore_cut(Steering::Right).unwrap();
    assert!(worlds > 10_000, "{worlds} worlds");
}

#[test]
fn planted_faults_of_a_cut_are_found() {
    assert_eq!(explore_cut(Steering::ThawsEarly), Err("a part was thawed before all were captured"));
    assert_eq!(explore_cut(Steering::CountsEarly), Err("an epoch counts that a part has not sealed"));
}

/// How far a part has come in a restart: the phases that it has finished, and whether it waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RestartWorld {
    restart: PartsRestart,
    finished: [usize; PARTS],
    waits: [bool; PARTS],
    has_ended: [bool; PARTS],
    links: [Link; PARTS],
    trouble: Trouble,
}

const PHASES: [RestartBarrier; 3] = [RestartBarrier::Listening, RestartBarrier::Connected, RestartBarrier::Rebuilt];

impl RestartWorld {
    fn new() -> Self {
        Self {
            restart: PartsRestart::begin(PARTS),
            finished: [0; PARTS],
            waits: [false; PARTS],
            has_ended: [false; PARTS],
            links: std::array::from_fn(|_| Link::new()),
            trouble: Trouble { losses: 1, failures: 1, ends_of_patience: 1 },
        }
    }

    fn steer(&mut self, event: CoordinatorEvent) {
        for CoordinatorEffect { to, message } in self.restart.take(event) {
            if self.links[to].is_up {
                self.links[to].to_part.push_back(message);
            }
        }
    }

    fn runs(&self, part: PartIndex) -> bool {
        self.finished[part] == PHASES.len() && !self.waits[part]
    }

    fn steps(&self) -> Vec<Self> {
        let mut next = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            next.push(world);
        };
        for part in 0..PARTS {
            if let Some(said) = self.links[part].to_coordinator.front() {
                with(&|world| {
                    world.links[part].to_coordinator.pop_front();
                    world.steer(CoordinatorEvent::Said(part, said.clone()));
                });
            } else if !self.links[part].is_up && !self.links[part].is_noticed {
                with(&|world| {
                    world.links[part].is_noticed = true;
                    world.steer(CoordinatorEvent::Lost(part));
                });
            }
            let is_under_way = !self.has_ended[part] && !self.runs(part);
            if is_under_way && !self.waits[part] {
                with(&|world| {
                    let phase = PHASES[world.finished[part]];
                    world.finished[part] += 1;
                    world.waits[part] = true;
                    if world.links[part].is_up {
                        world.links[part].to_coordinator.push_back(FromPart::Reached { phase });
                    }
                });
                if self.trouble.failures > 0 {
                    with(&|world| {
                        world.trouble.failures -= 1;
                        world.has_ended[part] = true;
                        if world.links[part].is_up {
                            let reason = "it could not".to_owned();
                            world.links[part].to_coordinator.push_back(FromPart::Failed { reason });
                        }
                    });
                }
            }
            let hears = !self.links[part].to_part.is_empty() || !self.links[part].is_up;
            if is_under_way && self.waits[part] && hears {
                with(&|world| {
                    world.waits[part] = false;
                    let is_over = world.links[part].to_part.pop_front() != Some(ToPart::Continue);
                    world.has_ended[part] = is_over;
                });
            }
            if self.links[part].is_up && self.trouble.losses > 0 {
                with(&|world| {
                    world.trouble.losses -= 1;
                    world.links[part].is_up = false;
                });
            }
        }
        if self.trouble.ends_of_patience > 0 {
            with(&|world| {
                world.trouble.ends_of_patience -= 1;
                world.steer(CoordinatorEvent::TimeUp);
            });
        }
        next
    }

    fn fault(&self, is_last: bool) -> Option<&'static str> {
        let is_complete = |finished: &usize| *finished == PHASES.len();
        if (0..PARTS).any(|part| self.runs(part) && !self.has_ended[part]) && !self.finished.iter().all(is_complete) {
            return Some("a part runs before all are complete");
        }
        let begun = |part: PartIndex| self.finished[part] + usize::from(!self.waits[part]);
        let under_way = (0..PARTS).filter(|part| !self.has_ended[*part]);
        let (furthest, last) = (under_way.map(begun).max(), self.finished.iter().min());
        if furthest.zip(last).is_some_and(|(furthest, last)| furthest > last + 1 && furthest <= PHASES.len()) {
            return Some("a part is in a phase for which another is not ready");
        }
        let is_over = |part| self.has_ended[part] || self.runs(part);
        if is_last && !(0..PARTS).all(is_over) {
            return Some("a part waits for ever");
        }
        let all_run = (0..PARTS).all(|part| self.runs(part) && !self.has_ended[part]);
        let is_said = matches!(self.restart.outcome(), Some(RestartOutcome::Running));
        (is_last && all_run && !is_said).then_some("nobody learns that all run")
    }
}

#[test]
fn every_order_of_events_of_a_restart_ends_well() {
    let worlds = explore(RestartWorld::new(), RestartWorld::steps, RestartWorld::fault).unwrap();
    assert!(worlds > 1_000, "{worlds} worlds");
}
