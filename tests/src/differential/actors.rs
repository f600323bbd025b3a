//! Who and what is in a program that is being generated: its actors, and which of their slots hold what. Nothing here
//! must be right; it only makes most steps meaningful.

use fastrand::Rng;
use std::collections::BTreeMap;

/// As in the interpreter.
const ACTORS: usize = 12;
const SLOTS: usize = 32;
const MAPPINGS: usize = 24;
/// Seeds of patterns.
const SEEDS: u32 = 1000;
/// The ways to hang, as in the interpreter, in a call on a descriptor.
const WAITS_ON_DESCRIPTORS: [&str; 6] = ["0", "1", "4", "5", "10", "11"];
/// One step in this many uses a slot that may hold anything.
const ODD: u32 = 12;

#[derive(Debug, Clone, Copy)]
struct Actor {
    /// The actor that is the main thread of its process.
    process: usize,
    lives: bool,
    hangs: bool,
}

#[derive(Debug, Clone, Default)]
struct Slot {
    kind: String,
    owners: Vec<usize>,
    /// Whether an actor waits in a call on it. It stays open then, and blocks: any stop, such as SIGSTOP and SIGCONT, makes
    /// the kernel look at the descriptor again, and end the call with EBADF or EAGAIN.
    is_waited_on: bool,
    /// Whether a step has shut down one of its directions.
    is_shut_down: bool,
    /// Whether a message holds it, maybe one that waits in its own queue: the kernel closes what only such messages hold
    /// when any program closes a Unix socket.
    was_sent: bool,
}

/// The state of a program, as far as the generator knows it.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    actors: Vec<Actor>,
    slots: BTreeMap<usize, Slot>,
    mappings: Vec<usize>,
    next_slot: usize,
    next_mapping: usize,
    /// Objects from which an actor waits to take something.
    takings: Vec<String>,
}

/// The steps of one template that are being written.
struct Filling<'a> {
    cast: &'a mut Cast,
    random: &'a mut Rng,
    fresh: Vec<usize>,
    /// Processes that have the descriptors that the steps use.
    owners: Vec<usize>,
    made: Option<usize>,
}

impl Default for Cast {
    fn default() -> Self {
        let first = Actor { process: 0, lives: true, hangs: false };
        Self {
            actors: vec![first],
            slots: BTreeMap::new(),
            mappings: Vec::new(),
            next_slot: 0,
            next_mapping: 0,
            takings: Vec::new(),
        }
    }
}

impl Slot {
    fn is_unix_socket(&self) -> bool {
        ["stream", "dgram", "listener"].contains(&self.kind.as_str())
    }
}

impl Cast {
    /// Returns the steps of a template with all that is to be chosen, or nothing if something that it uses is missing.
    pub(super) fn fill(&mut self, template: &str, random: &mut Rng) -> Option<Vec<String>> {
        let before = self.clone();
        let mut filling = Filling { cast: self, random, fresh: Vec::new(), owners: Vec::new(), made: None };
        let mut performer = None;
        let steps: Option<Vec<String>> = template.split(" ; ").map(|step| filling.step(step, &mut performer)).collect();
        if steps.is_none() {
            *self = before;
        }
        steps
    }

    /// Returns an actor that does what it is asked.
    pub(super) fn any(&self, random: &mut Rng) -> usize {
        self.pick(random, |_, actor| actor.lives && !actor.hangs).unwrap_or(0)
    }

    /// Returns the numbers of all actors, also of those that have ended.
    pub(super) fn all(&self) -> std::ops::Range<usize> {
        0..self.actors.len()
    }

    /// Returns the actors that have not ended.
    pub(super) fn living(&self) -> Vec<usize> {
        self.all().filter(|number| self.actors[*number].lives).collect()
    }

    /// Returns the slots that have been used.
    pub(super) fn slots(&self) -> Vec<usize> {
        self.slots.keys().copied().collect()
    }

    /// Returns an actor that has a descriptor.
    pub(super) fn owner_of(&self, slot: usize) -> usize {
        let owners = self.slots.get(&slot).map_or(&[][..], |slot| &slot.owners);
        owners.iter().copied().find(|owner| self.actors[*owner].lives).unwrap_or(0)
    }

    fn pick(&self, random: &mut Rng, wanted: impl Fn(usize, &Actor) -> bool) -> Option<usize> {
        let found: Vec<usize> = self.all().filter(|number| wanted(*number, &self.actors[*number])).collect();
        (!found.is_empty()).then(|| found[random.usize(..found.len())])
    }

    /// Reports whether a step is known to differ after a restart: it
    /// - closes a descriptor on which an actor waits, or may keep it from waiting there;
    /// - closes a socket that may be garbage then;
    /// - listens again after a shutdown, when a port that the kernel has chosen is free natively;
    /// - waits to take what another actor waits for: any stop may change which of them is first.
    fn is_known_to_differ(&self, step: &str) -> bool {
        let slot = |word: &str| word.parse().ok().and_then(|slot: usize| self.slots.get(&slot));
        match step.split(' ').collect::<Vec<_>>()[..] {
            ["close", word] => {
                slot(word).is_some_and(|slot| slot.is_waited_on || slot.was_sent && slot.is_unix_socket())
            }
            // Several slots may have the same open file.
            ["set-flags", ..] => self.slots.values().any(|slot| slot.is_waited_on),
            ["hang", way, word, ..] => taking(way, word).is_some_and(|taking| self.takings.contains(&taking)),
            ["listen", word, ..] => slot(word).is_some_and(|slot| slot.is_shut_down),
            _ => false,
        }
    }

    fn child(&self, random: &mut Rng) -> Option<usize> {
        self.pick(random, |number, actor| number != 0 && actor.process == number && actor.lives)
    }

    /// Records what a step does to actors.
    fn note(&mut self, performer: usize, step: &str, made: Option<usize>) {
        let words: Vec<&str> = step.split(' ').collect();
        let process = self.actors[performer].process;
        match (words[0], made) {
            ("fork", Some(made)) => {
                self.actors.push(Actor { process: made, lives: true, hangs: false });
                self.slots.values_mut().filter(|slot| slot.owners.contains(&process)).for_each(|slot| {
                    slot.owners.push(made);
                });
            }
            ("thread", Some(_)) => self.actors.push(Actor { process, lives: true, hangs: false }),
            ("exit", _) => {
                let all = self.actors.iter_mut().enumerate();
                let ends = all.filter(|(number, actor)| *number == performer || actor.process == performer);
                ends.for_each(|(_, actor)| actor.lives = false);
            }
            ("hang", _) => {
                self.actors[performer].hangs = true;
                let on = words.get(2).filter(|_| WAITS_ON_DESCRIPTORS.contains(&words[1]));
                if let Some(slot) = on.and_then(|slot| self.slots.get_mut(&slot.parse().ok()?)) {
                    slot.is_waited_on = true;
                }
                if let ["hang", way, word, ..] = words[..] {
                    self.takings.extend(taking(way, word));
                }
            }
            ("shut-down", _) => {
                if let Some(slot) = words[1].parse().ok().and_then(|slot: usize| self.slots.get_mut(&slot)) {
                    slot.is_shut_down = true;
                }
            }
            ("send-descriptors", _) => {
                let [first, count] =
                    [4, 5].map(|place| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(0));
                self.slots.range_mut(first..first + count).for_each(|(_, slot)| slot.was_sent = true);
            }
            ("execute", _) => {
                let all = self.actors.iter_mut().enumerate();
                let ends = all.filter(|(number, actor)| *number != performer && actor.process == performer);
                ends.for_each(|(_, actor)| actor.lives = false);
            }
            _ => {}
        }
    }
}

/// Returns the object from which a call takes something that it waits for. A call that only looks, as poll does, takes nothing.
fn taking(way: &str, word: &str) -> Option<String> {
    match way {
        "6" => Some(format!("semaphores {word}")),
        "7" => Some(format!("queue {word}")),
        "1" => None,
        _ => WAITS_ON_DESCRIPTORS.contains(&way).then(|| format!("slot {word}")),
    }
}

impl Filling<'_> {
    fn step(&mut self, template: &str, performer: &mut Option<usize>) -> Option<String> {
        let (who, words) = match template.split_once(": ") {
            Some((who, words)) => (who, words),
            None => ("any", template),
        };
        self.made = None;
        let words: Vec<String> = words.split(' ').map(|word| self.word(word)).collect::<Option<_>>()?;
        // Steps that belong together are taken by the same actor.
        let actor = match *performer {
            Some(actor) if who == "any" => actor,
            _ => self.performer(who)?,
        };
        *performer = Some(actor);
        let step = words.join(" ");
        if self.cast.is_known_to_differ(&step) {
            return None;
        }
        for slot in &self.fresh {
            let process = self.cast.actors[actor].process;
            if let Some(slot) = self.cast.slots.get_mut(slot).filter(|slot| slot.owners.is_empty()) {
                slot.owners.push(process);
            }
        }
        self.cast.note(actor, &step, self.made);
        Some(format!("{actor} {step}"))
    }

    fn performer(&mut self, who: &str) -> Option<usize> {
        let owners = self.owners.clone();
        match who {
            "first" => Some(0),
            "child" => self.cast.child(self.random),
            "other" => self.cast.pick(self.random, |number, actor| number != 0 && actor.lives && !actor.hangs),
            _ if !owners.is_empty() && self.random.u32(..ODD) > 0 => {
                self.cast.pick(self.random, |_, actor| actor.lives && !actor.hangs && owners.contains(&actor.process))
            }
            _ => self.cast.pick(self.random, |_, actor| actor.lives && !actor.hangs),
        }
    }

    fn word(&mut self, word: &str) -> Option<String> {
        if word.contains('|') && !word.starts_with('@') {
            let choices: Vec<&str> = word.split('|').collect();
            let place = self.random.usize(..choices.len());
            return self.word(choices[place]);
        }
        if let Some((low, high)) = word.split_once("..") {
            let low: i64 = low.parse().ok()?;
            let high: i64 = high.parse().ok()?;
            return Some(self.random.i64(low..high).to_string());
        }
        if let Some(place) = word.strip_prefix('$') {
            return self.fresh.get(place.parse::<usize>().ok()? - 1).map(ToString::to_string);
        }
        if let Some(kinds) = word.strip_prefix('@') {
            return self.used(kinds).map(|slot| slot.to_string());
        }
        match word {
            "+map" => self.fresh_mapping(),
            "%map" => self.used_mapping(),
            "+actor" => self.fresh_actor(),
            _ => match word.strip_prefix('+') {
                Some(kind) => Some(self.fresh_slot(kind)),
                None => self.plain(word),
            },
        }
        .map(|chosen| chosen.to_string())
        .or_else(|| self.number(word))
    }

    fn plain(&mut self, word: &str) -> Option<usize> {
        match word {
            "actor" => self.cast.pick(self.random, |_, actor| actor.lives),
            "process" => self.cast.pick(self.random, |number, actor| actor.lives && actor.process == number),
            "child" => self.cast.child(self.random),
            _ => None,
        }
    }

    /// Returns the numbers that words stand for, or a word that stands for itself.
    fn number(&mut self, word: &str) -> Option<String> {
        match word {
            "seed" => Some(self.random.u32(1..SEEDS).to_string()),
            "sig" => Some(super::generator::a_signal(self.random).to_string()),
            "mask" => {
                let count = self.random.usize(1..5);
                let bits = (0..count).map(|_| 1_u64 << (super::generator::a_signal(self.random) - 1));
                Some(format!("{:#x}", bits.fold(0, |mask, bit| mask | bit)))
            }
            "actor" | "process" | "child" | "+map" | "%map" | "+actor" => None,
            _ => Some(word.to_owned()),
        }
    }

    fn used(&mut self, kinds: &str) -> Option<usize> {
        let is_odd = kinds.split('/').any(|kind| kind == "any") || self.random.u32(..ODD) == 0;
        let fits = |slot: &Slot| is_odd || kinds.split('/').any(|kind| kind == slot.kind);
        let found: Vec<usize> =
            self.cast.slots.iter().filter(|(_, slot)| fits(slot)).map(|(number, _)| *number).collect();
        let chosen = *found.get(self.random.usize(..found.len().max(1)))?;
        if self.owners.is_empty() {
            self.owners.clone_from(&self.cast.slots[&chosen].owners);
        }
        Some(chosen)
    }

    fn fresh_slot(&mut self, kind: &str) -> usize {
        // The last ones are for descriptors that arrive in messages.
        let mut slot = self.cast.next_slot % (SLOTS - 8);
        while self.cast.slots.get(&slot).is_some_and(|slot| slot.is_waited_on) {
            self.cast.next_slot += 1;
            slot = self.cast.next_slot % (SLOTS - 8);
        }
        self.cast.next_slot += 1;
        self.cast.slots.insert(slot, Slot { kind: kind.to_owned(), ..Slot::default() });
        self.fresh.push(slot);
        slot
    }

    fn fresh_mapping(&mut self) -> Option<usize> {
        let mapping = self.cast.next_mapping % MAPPINGS;
        self.cast.next_mapping += 1;
        self.cast.mappings.push(mapping);
        self.fresh.push(mapping);
        Some(mapping)
    }

    fn used_mapping(&mut self) -> Option<usize> {
        let mappings = &self.cast.mappings;
        mappings.get(self.random.usize(..mappings.len().max(1))).copied()
    }

    fn fresh_actor(&mut self) -> Option<usize> {
        let number = self.cast.actors.len();
        self.made = Some(number);
        (number < ACTORS).then_some(number)
    }
}
