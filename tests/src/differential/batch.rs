//! Many programs, two at a time, and what came of them.

use super::generator::{generate, theme_names};
use super::run::{Outcome, judge};
use super::script::Script;
use super::shrink::shrink;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Programs that run at the same time: each mostly waits.
pub(super) const AT_A_TIME: usize = 2;

/// Which programs to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Their seeds.
    pub seeds: Range<u64>,
    /// Where the smallest scripts of programs that differ go.
    pub failures: PathBuf,
    /// Whether to make these scripts smaller, which takes a minute for each.
    pub shrinks: bool,
}

/// What came of many programs.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The number of programs.
    pub programs: u64,
    /// Those of which a checkpoint or restart was refused, by code.
    pub refused: BTreeMap<String, u64>,
    /// The number of programs with a refusal.
    pub with_refusal: u64,
    /// The seeds of programs that differ without Standfast, too.
    pub unstable: Vec<u64>,
    /// What differs, by seed.
    pub different: BTreeMap<u64, String>,
    /// The number of programs with each theme.
    pub themes: BTreeMap<&'static str, u64>,
    /// How long all of them took.
    pub time: Duration,
}

impl Batch {
    /// Runs programs. `report` is called with each difference, as soon as it is found.
    ///
    /// # Errors
    /// When the harness fails.
    pub fn run(settings: &Settings, report: impl Fn(&str) + Sync) -> Result<Self> {
        let start = Instant::now();
        let next = AtomicU64::new(settings.seeds.start);
        let batch = Mutex::new(Self::default());
        let work = || -> Result<()> {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= settings.seeds.end {
                    return Ok(());
                }
                let outcome = one(seed, settings, &report).with_context(|| format!("seed {seed}"))?;
                batch.lock().expect("no thread panics with it").add(seed, outcome);
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker returns its errors"))
        })?;
        let mut batch = batch.into_inner().expect("no thread panics with it");
        batch.time = start.elapsed();
        Ok(batch)
    }

    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.programs += 1;
        for theme in generate(seed).themes {
            *self.themes.entry(theme).or_default() += 1;
        }
        match outcome {
            Outcome::Same => {}
            Outcome::Refused(codes) => {
                self.with_refusal += 1;
                codes.into_iter().for_each(|code| *self.refused.entry(code).or_default() += 1);
            }
            Outcome::Unstable(_) => self.unstable.push(seed),
            Outcome::Different(what) => _ = self.different.insert(seed, what),
        }
    }

    /// Returns the summary as text.
    pub fn summary(&self) -> String {
        let percent = |part: usize| 100.0 * part as f64 / self.programs.max(1) as f64;
        let mut text = format!(
            "{} programs in {} s: {} with a refusal ({:.1} %), {} unstable ({:.1} %), {} different\n",
            self.programs,
            self.time.as_secs(),
            self.with_refusal,
            percent(self.with_refusal as usize),
            self.unstable.len(),
            percent(self.unstable.len()),
            self.different.len(),
        );
        for (code, count) in &self.refused {
            text.push_str(&format!("refused {code}: {count}\n"));
        }
        for theme in theme_names() {
            let count = self.themes.get(theme).copied().unwrap_or(0);
            text.push_str(&format!("{theme}: {count}\n"));
        }
        if !self.unstable.is_empty() {
            text.push_str(&format!("unstable seeds: {:?}\n", self.unstable));
        }
        if !self.different.is_empty() {
            text.push_str(&format!("different seeds: {:?}\n", self.different.keys().collect::<Vec<_>>()));
        }
        text
    }
}

fn one(seed: u64, settings: &Settings, report: &impl Fn(&str)) -> Result<Outcome> {
    let script = generate(seed).script;
    let outcome = judge(&script)?;
    match &outcome {
        Outcome::Different(what) => {
            let path = keep(seed, &script, what, settings)?;
            report(&format!("seed {seed}: {what}\nrun it again with --script {}\n", path.display()));
        }
        Outcome::Unstable(what) => report(&format!("seed {seed} is unstable: {what}\n")),
        _ => {}
    }
    Ok(outcome)
}

fn differs(script: &Script) -> Result<bool> {
    Ok(matches!(judge(script)?, Outcome::Different(_)))
}

/// Writes the script of a program that differs, as small as possible.
fn keep(seed: u64, script: &Script, what: &str, settings: &Settings) -> Result<PathBuf> {
    // Only a difference that shows again can be made smaller.
    let smallest = if settings.shrinks && differs(script)? { shrink(script, differs)? } else { script.clone() };
    fs::create_dir_all(&settings.failures).with_context(|| format!("making {}", settings.failures.display()))?;
    let path = settings.failures.join(format!("{seed}.script"));
    let comment: String = what.lines().map(|line| format!("# {line}\n")).collect();
    fs::write(&path, format!("{comment}{}", smallest.text())).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}
