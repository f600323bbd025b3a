//! Makes a random program from a seed: some themes, steps of these, and the moments at which the harness intervenes.
//! The program need not make sense. A step that fails is an observation, too.

use super::actors::Cast;
use super::script::Script;
use super::themes::{OF_OBJECTS, Theme, Trait};
use super::themes_of_processes::{OF_CONNECTIONS, OF_PROCESSES};
use fastrand::Rng;
use std::collections::BTreeSet;
use std::ops::Range;

/// The number of themes of a program. With more than these, each would get too few steps.
const THEMES: Range<usize> = 3..6;
/// The number of steps, without observations.
const STEPS: Range<usize> = 16..44;
/// Signals that steps use.
const SIGNALS: [u32; 12] = [1, 10, 12, 14, 15, 17, 23, 28, 34, 35, 36, 37];
/// Signals that would end the program, or that Rust ignores. They are handled from the beginning.
const HANDLED: [u32; 22] = [1, 2, 3, 10, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 34, 35, 36, 37, 38, 39, 40];
/// How many tries to find something that a step could use, before it is left out.
const TRIES: usize = 8;
/// Options with which the program runs, some more often.
const OPTIONS: [&[&str]; 14] = [
    &[],
    &[],
    &[],
    &["--snapshot", "copy"],
    &["--snapshot", "fork"],
    &["--snapshot", "precopy"],
    &["--snapshot", "sequential"],
    &["--delta", "previous"],
    &["--delta", "previous", "--snapshot", "fork", "--compress", "lz4"],
    &["--incremental", "on"],
    &["--incremental", "on", "--track", "hash"],
    &["--incremental", "off", "--snapshot", "precopy"],
    &["--save-files"],
    &["--stack", "whole"],
];

/// A program and the kinds of objects in it.
#[derive(Debug, Clone)]
pub struct Generated {
    /// The program.
    pub script: Script,
    /// The names of its themes.
    pub themes: Vec<&'static str>,
}

/// Returns the names of all themes.
pub(super) fn theme_names() -> Vec<&'static str> {
    all_themes().map(|theme| theme.name).collect()
}

fn all_themes() -> impl Iterator<Item = &'static Theme> {
    OF_OBJECTS.iter().chain(OF_CONNECTIONS).chain(OF_PROCESSES)
}

/// Makes the program that belongs to a seed.
pub fn generate(seed: u64) -> Generated {
    let mut random = Rng::with_seed(seed);
    let themes = choose_themes(&mut random);
    let mut program = Program { random, cast: Cast::default(), steps: Vec::new() };
    program.handle_signals(0);
    program.follow(&themes);
    program.end();
    let script = Script { options: program.options(&themes), steps: program.with_moments(&themes) };
    Generated { script, themes: themes.iter().map(|theme| theme.name).collect() }
}

fn choose_themes(random: &mut Rng) -> Vec<&'static Theme> {
    let total: u32 = all_themes().map(|theme| theme.weight).sum();
    let wanted = random.usize(THEMES);
    let mut names = BTreeSet::new();
    let mut chosen = Vec::new();
    while chosen.len() < wanted {
        let mut place = random.u32(..total);
        let theme = all_themes().find(|theme| {
            let is_here = place < theme.weight;
            place = place.saturating_sub(if is_here { 0 } else { theme.weight });
            is_here
        });
        chosen.extend(theme.filter(|theme| names.insert(theme.name)));
    }
    chosen
}

/// Returns one of the signals that steps use.
pub(super) fn a_signal(random: &mut Rng) -> u32 {
    SIGNALS[random.usize(..SIGNALS.len())]
}

/// A program that is being written.
struct Program {
    random: Rng,
    cast: Cast,
    steps: Vec<String>,
}

impl Program {
    fn follow(&mut self, themes: &[&'static Theme]) {
        let steps = self.random.usize(STEPS);
        let mut begun = BTreeSet::new();
        while self.steps.len() < steps + HANDLED.len() {
            let theme = themes[self.random.usize(..themes.len())];
            let is_first = begun.insert(theme.name);
            let templates = if is_first || self.random.u32(..8) == 0 { theme.makes } else { theme.uses };
            let template = templates[self.random.usize(..templates.len())];
            self.write(template);
            if self.random.u32(..24) == 0 {
                let actor = self.cast.any(&mut self.random);
                self.steps.push(format!("{actor} observe {}", [0, 1, 2, 4, 8][self.random.usize(..5)]));
            }
        }
    }

    /// Adds the steps of a template, if what they need is there.
    fn write(&mut self, template: &str) {
        let written = (0..TRIES).find_map(|_| self.cast.fill(template, &mut self.random));
        for step in written.into_iter().flatten() {
            let is_executed = step.ends_with(" execute");
            let actor = step.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
            self.steps.push(step);
            if is_executed {
                self.handle_signals(actor);
            }
        }
    }

    fn handle_signals(&mut self, actor: usize) {
        for signal in HANDLED {
            let flags = [0, 0x1000_0000, 0x800_0000, 4, 0x4000_0000][self.random.usize(..5)];
            self.steps.push(format!("{actor} handle {signal} 2 {flags:#x} 0"));
        }
    }

    /// Adds what shows in the end what is left: in descriptors, of signals, and of children.
    fn end(&mut self) {
        let slots = self.cast.slots();
        let living = self.cast.living();
        self.steps.extend(living.iter().map(|actor| format!("{actor} observe 0")));
        for slot in slots {
            let owner = self.cast.owner_of(slot);
            self.steps.push(format!("{owner} receive {slot} 60000 0 25"));
            self.steps.push(format!("{owner} drain {slot}"));
            self.steps.push(format!("{owner} read-signals {slot}"));
            self.steps.push(format!("{owner} read-events {slot}"));
        }
        self.steps.extend(living.iter().map(|actor| format!("{actor} take -1 9")));
        self.steps.extend((0..3).map(|_| "0 wait 0x1000004 0".to_owned()));
        self.steps.extend((0..2).map(|_| "0 wait 4 0".to_owned()));
        self.steps.push("0 look 60".to_owned());
        self.steps.push("0 observe 0".to_owned());
    }

    fn options(&mut self, themes: &[&'static Theme]) -> Vec<String> {
        let needs_ids = themes.iter().any(|theme| theme.traits.contains(&Trait::Ids))
            || ["hang", "fork", "kill"].iter().any(|word| self.has(&format!(" {word} ")));
        if !needs_ids && self.random.u32(..8) == 0 {
            return ["--ids", "new"].map(str::to_owned).to_vec();
        }
        OPTIONS[self.random.usize(..OPTIONS.len())].iter().map(|option| (*option).to_owned()).collect()
    }

    fn has(&self, words: &str) -> bool {
        self.steps.iter().any(|step| step.contains(words))
    }

    /// Returns the steps with one to three moments among them, and observations by all actors after each.
    fn with_moments(&mut self, themes: &[&'static Theme]) -> Vec<String> {
        let has_files = themes.iter().any(|theme| theme.traits.contains(&Trait::Files));
        let plans: &[&[&str]] = &[
            &["kill"],
            &["kill"],
            &["twice"],
            &["kill", "kill"],
            &["checkpoint", "kill"],
            &["checkpoint", "checkpoint", "kill"],
            &["kill", "checkpoint", "kill"],
            &["back", "return"],
        ];
        // Files that are not open are not part of a checkpoint, so a restart from an older one could find others.
        let plans = if has_files { &plans[..7] } else { plans };
        let plan = plans[self.random.usize(..plans.len())];
        let begin = HANDLED.len();
        let mut places: Vec<usize> = plan.iter().map(|_| self.random.usize(begin..self.steps.len())).collect();
        places.sort_unstable();
        let mut steps = Vec::new();
        let mut moments = places.iter().zip(plan).peekable();
        for (place, step) in self.steps.iter().enumerate() {
            while let Some((_, name)) = moments.next_if(|(at, _)| **at == place) {
                steps.push(format!("0 moment {name}"));
                steps.extend(self.cast.all().map(|actor| format!("{actor} observe 0")));
            }
            steps.push(step.clone());
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Themes of at least this weight are in 5 % of all programs. Rarer ones mostly prevent a checkpoint.
    const COMMON: u32 = 6;

    #[test]
    fn a_seed_always_gives_the_same_program() {
        assert_eq!(generate(7).script, generate(7).script);
        assert_ne!(generate(7).script, generate(8).script);
    }

    #[test]
    fn every_kind_of_object_is_in_one_of_twenty_programs() {
        let programs: Vec<Generated> = (0..2000).map(generate).collect();
        for theme in all_themes().filter(|theme| theme.weight >= COMMON) {
            let with = programs.iter().filter(|program| program.themes.contains(&theme.name)).count();
            assert!(with * 20 >= programs.len(), "{}: {with} of {}", theme.name, programs.len());
        }
    }

    #[test]
    fn every_program_has_a_moment_at_which_it_is_killed() {
        for seed in 0..500 {
            let script = generate(seed).script;
            let kills = ["0 moment kill", "0 moment twice", "0 moment return"];
            assert!(script.steps.iter().any(|step| kills.contains(&step.as_str())), "seed {seed}");
        }
    }
}
