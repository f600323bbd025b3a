//! The soak runs the scenarios of the tests for hours, with random seeds, and prints each seed before it starts. It
//! stops at the first failure and keeps the evidence. A later start continues counting where this one stopped.
//!
//! ```text
//! soak [--hours H] [--state FILE] [--seed S] [--victim NAME] [--group-kills N]
//!     --seed: only the round of this seed
//!     --victim: only kills of this victim
//!     --group-kills: only kills of the parallel programs, and strikes at simulated nodes and distributed jobs, until each
//!         has this many
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to people")]

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use standfast_tests::cuts::{Cuts, STREAMS, Traffic, taken_under};
use standfast_tests::damage::one_flipped_bit_is_noticed;
use standfast_tests::disaster::{Before, DISASTERS, FLUSH_DISASTERS, KilledJob, Subject};
use standfast_tests::distributed;
use standfast_tests::mpi::{Code, MPIS};
use standfast_tests::papers::PAPERS;
use standfast_tests::parallel::{self, STRUCK};
use standfast_tests::result::RunResult;
use standfast_tests::stuck::survives_kills_at_the_start;
use standfast_tests::survival::{Torment, one_image_serves_many_restarts, survives_kills};
use standfast_tests::victims::{COMPUTING, DIRECTED, SMALL, Victim};
use standfast_tests::watched::survives_strikes;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs};

/// The number of calls in a checkpoint or restart of the smallest victim. Slightly too high, so that the last calls are
/// struck, too.
const CALLS_MAX: u64 = 1500;

/// The same for coalescing.
const COALESCING_CALLS_MAX: u64 = 400;

/// The same for a flush.
const FLUSHING_CALLS_MAX: u64 = 400;

/// Options that take checkpoints in different ways.
const OPTIONS: [&[&str]; 11] = [
    &[],
    &["--incremental", "on", "--max-files", "3", "--keep", "1"],
    &["--incremental", "on", "--max-files", "6", "--snapshot", "copy"],
    &["--track", "hash", "--snapshot", "sequential"],
    &["--snapshot", "fork"],
    &["--track", "hash", "--snapshot", "fork"],
    &["--snapshot", "precopy"],
    &["--incremental", "off", "--snapshot", "precopy"],
    &["--delta", "previous", "--max-files", "5"],
    &["--delta", "previous", "--compress", "zstd", "--track", "hash", "--snapshot", "fork"],
    &["--compress", "lz4", "--incremental", "on", "--snapshot", "precopy"],
];

/// Checkpoints of busy connections for each kill of parallel programs.
const CUTS_FOR_A_KILL: u64 = 5;

/// Of this number of them, one may take longer than a second.
const LATE_IN: usize = 100;

/// The number of kills of parallel programs under one seed.
const KILLS_AT_A_TIME: u64 = 20;

const NO_NODES: &str = "there are no simulated nodes: this machine gives a plain user no namespaces";

struct Settings {
    hours: f64,
    state: PathBuf,
    seed: Option<u64>,
    victim: Option<Victim>,
    group_kills: Option<u64>,
}

/// The progress of the soak over all its starts.
#[derive(Default)]
struct Progress {
    rounds: u64,
    seconds: f64,
    /// Kills of parallel programs, by name.
    group_kills: BTreeMap<String, u64>,
}

fn main() -> ExitCode {
    match settings().and_then(|settings| soak(&settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("soak: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn settings() -> Result<Settings> {
    let state = PathBuf::from("soak/state.json");
    let mut settings = Settings { hours: 2.0, state, seed: None, victim: None, group_kills: None };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--hours" => settings.hours = value.parse().context("--hours takes a number")?,
            "--state" => settings.state = PathBuf::from(value),
            "--seed" => settings.seed = Some(value.parse().context("--seed takes a whole number")?),
            "--victim" => settings.victim = Some(victim_named(&value)?),
            "--group-kills" => {
                settings.group_kills = Some(value.parse().context("--group-kills takes a whole number")?)
            }
            _ => bail!(
                "unknown option {argument}; usage: soak [--hours H] [--state FILE] [--seed S] [--victim NAME] \
                 [--group-kills N]"
            ),
        }
    }
    Ok(settings)
}

fn victim_named(name: &str) -> Result<Victim> {
    let known: Vec<_> = victims().iter().map(|victim| victim.name).collect();
    let found = victims().into_iter().find(|victim| victim.name == name);
    found.with_context(|| format!("there is no victim {name}; there are {}", known.join(", ")))
}

/// Returns the victims that the soak kills: those that compute, and the papers' programs without and with directives.
fn victims() -> Vec<Victim> {
    let papers = PAPERS.into_iter().flat_map(|paper| [Some(paper.victim), paper.directed]).flatten();
    COMPUTING.into_iter().chain(papers).collect()
}

fn soak(settings: &Settings) -> Result<()> {
    let mut soak = Soak { victim: settings.victim, natives: HashMap::new(), subject: None, killed: None };
    if let Some(seed) = settings.seed {
        return soak.round(seed);
    }
    let mut progress = Progress::load(&settings.state)?;
    if let Some(wanted) = settings.group_kills {
        return kill_groups(&mut progress, wanted, &settings.state);
    }
    println!("soak: {} rounds in {:.1} h so far", progress.rounds, progress.seconds / 3600.0);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < settings.hours * 3600.0 {
        let round = Instant::now();
        let seed = fastrand::u64(..);
        soak.round(seed).with_context(|| format!("repeat this round with --seed {seed}"))?;
        progress.rounds += 1;
        progress.seconds += round.elapsed().as_secs_f64();
        progress.store(&settings.state)?;
    }
    println!("soak: {} rounds in {:.1} h, all well", progress.rounds, progress.seconds / 3600.0);
    Ok(())
}

/// Kills parallel programs, with both MPIs in turn, and ranks during their start. Strikes the ranks and nodes of one
/// program with the first MPI only. The other MPI sometimes hangs in MPI_Finalize if its nodes have their own networks
/// (docs/group-protocol.md).
fn kill_groups(progress: &mut Progress, wanted: u64, state: &Path) -> Result<()> {
    for (name, arguments) in STRUCK {
        let mut turns = [parallel::Mpi::Open, parallel::Mpi::Mpich].into_iter().cycle();
        progress.kill(name, wanted, state, |kills, seed| {
            let mpi = turns.next().expect("they come in turn");
            println!("    with {}", mpi.name());
            let mut random = Rng::with_seed(seed);
            let here = parallel::survives_kills(mpi, name, arguments, kills, &mut random)?;
            ensure!(here, "{} with Fortran and ScaLAPACK is not here", mpi.name());
            Ok(())
        })?;
    }
    for mpi in &MPIS[..2] {
        let program = mpi.program()?.with_context(|| format!("{} is not here", mpi.name))?;
        progress.kill(&format!("starts of {}", mpi.name), wanted, state, |strikes, seed| {
            survives_kills_at_the_start(*mpi, &program, strikes, seed)
        })?;
    }
    let mpi = MPIS[0];
    let program = mpi.program()?.with_context(|| format!("{} is not here", mpi.name))?;
    for code in [Code::Parity, Code::ReedSolomon] {
        progress.kill(&format!("nodes under {code:?}"), wanted, state, |strikes, seed| {
            let here = survives_strikes(mpi, &program, code, strikes, seed)?;
            ensure!(here, "{NO_NODES}");
            Ok(())
        })?;
    }
    for mpi in &MPIS[..2] {
        progress.kill(&format!("distributed jobs of {}", mpi.name), wanted, state, |blows, seed| {
            println!("    {:?}", distributed::survives_blows(*mpi, blows, seed)?.context(NO_NODES)?);
            Ok(())
        })?;
    }
    let of_mpi = MPIS[..2].iter().copied().map(Traffic::Of);
    for traffic in STREAMS.into_iter().chain(of_mpi) {
        let (name, mut all) = (format!("checkpoints of {traffic}"), Cuts::default());
        progress.kill(&name, CUTS_FOR_A_KILL * wanted, state, |cuts, _| {
            all.add(taken_under(traffic, cuts)?.context(NO_NODES)?);
            println!("    {all:?}");
            Ok(())
        })?;
        ensure!(all.late * LATE_IN <= all.taken.max(LATE_IN), "{name}: {all:?}");
    }
    Ok(())
}

/// State that is kept from round to round.
struct Soak {
    victim: Option<Victim>,
    natives: HashMap<Victim, RunResult>,
    subject: Option<Subject>,
    killed: Option<KilledJob>,
}

impl Soak {
    /// Runs one scenario. The seed determines which one, and everything random in it.
    fn round(&mut self, seed: u64) -> Result<()> {
        let mut random = Rng::with_seed(seed);
        match random.u32(..100) {
            _ if self.victim.is_some() => self.kills(seed, &mut random),
            0..25 => self.churn(seed, &mut random),
            25..35 => self.directed(seed, &mut random),
            35..50 => self.kills(seed, &mut random),
            50..58 => self.many_restarts(seed, &mut random),
            58..72 => self.struck_checkpoint(seed, &mut random),
            72..76 => self.struck_flush(seed, &mut random),
            76..80 => self.struck_coalescing(seed, &mut random),
            80..92 => self.struck_restart(seed, &mut random),
            _ => self.flipped_bit(seed, &mut random),
        }
    }

    fn kills(&mut self, seed: u64, random: &mut Rng) -> Result<()> {
        let interval = Duration::from_millis(random.u64(10..400));
        let victims = victims();
        let victim = self.victim.unwrap_or(victims[random.usize(..victims.len())]);
        println!("seed {seed}: kills of {}, a checkpoint every {} ms", victim.name, interval.as_millis());
        let Some(program) = victim.program()? else { return Ok(()) };
        let native = self.native(victim)?;
        let options = OPTIONS[random.usize(..OPTIONS.len())];
        let tally = survives_kills(&program, &native, Torment { interval, kills_max: 30, seed, options })?;
        println!("    {} kills", tally.kills);
        Ok(())
    }

    /// Kills a program that changes its memory in an order that the seed determines.
    fn churn(&self, seed: u64, random: &mut Rng) -> Result<()> {
        let interval = Duration::from_millis(random.u64(10..60));
        let options = OPTIONS[random.usize(..OPTIONS.len())];
        println!("seed {seed}: churned memory, a checkpoint every {} ms, {options:?}", interval.as_millis());
        let program = Victim::churned(seed)?;
        let native = RunResult::native(&program)?;
        let tally = survives_kills(&program, &native, Torment { interval, kills_max: 30, seed, options })?;
        println!("    {} kills", tally.kills);
        Ok(())
    }

    /// Kills a program that excludes and includes memory in an order that the seed determines.
    fn directed(&self, seed: u64, random: &mut Rng) -> Result<()> {
        let interval = Duration::from_millis(random.u64(10..60));
        let options = OPTIONS[random.usize(..OPTIONS.len())];
        println!("seed {seed}: directed memory, a checkpoint every {} ms, {options:?}", interval.as_millis());
        let program = DIRECTED.with(&[&(seed >> 1).to_string(), "6000"])?;
        let native = RunResult::native(&program)?;
        let tally = survives_kills(&program, &native, Torment { interval, kills_max: 30, seed, options })?;
        println!("    {} kills", tally.kills);
        Ok(())
    }

    fn many_restarts(&mut self, seed: u64, random: &mut Rng) -> Result<()> {
        let victim = COMPUTING[random.usize(..COMPUTING.len())];
        println!("seed {seed}: one image of {}, many restarts", victim.name);
        let Some(program) = victim.program()? else { return Ok(()) };
        let native = self.native(victim)?;
        one_image_serves_many_restarts(&program, &native, seed)
    }

    fn struck_checkpoint(&mut self, seed: u64, random: &mut Rng) -> Result<()> {
        let (disaster, at) = (DISASTERS[random.usize(..DISASTERS.len())], random.u64(1..CALLS_MAX));
        let before = if random.bool() { Before::Nothing } else { Before::OneGeneration };
        let options = OPTIONS[random.usize(..OPTIONS.len())];
        println!("seed {seed}: {disaster:?} at call {at} of a checkpoint, before it: {before:?}, {options:?}");
        let sighting = self.subject()?.protected_with(options).strike_checkpoint(before, disaster, at)?;
        println!("    {}", sighting.struck.unwrap_or("past the last call"));
        Ok(())
    }

    fn struck_coalescing(&mut self, seed: u64, random: &mut Rng) -> Result<()> {
        let (disaster, at) = (DISASTERS[random.usize(..DISASTERS.len())], random.u64(1..COALESCING_CALLS_MAX));
        println!("seed {seed}: {disaster:?} at call {at} of coalescing");
        let options = ["--incremental", "on", "--max-files", "100"];
        let sighting = self.subject()?.protected_with(&options).strike_coalescing(disaster, at)?;
        println!("    {}", sighting.struck.unwrap_or("past the last call"));
        Ok(())
    }

    fn struck_flush(&mut self, seed: u64, random: &mut Rng) -> Result<()> {
        let (disaster, at) =
            (FLUSH_DISASTERS[random.usize(..FLUSH_DISASTERS.len())], random.u64(1..FLUSHING_CALLS_MAX));
        let flush_mode = if random.bool() { "background" } else { "foreground" };
        println!("seed {seed}: {disaster:?} at call {at} of a flush in the {flush_mode}");
        let subject = self.subject()?.in_memory().protected_with(&["--flush-every", "1", "--flush", flush_mode]);
        println!("    {}", subject.strike_flush(disaster, at)?.struck.unwrap_or("past the last call"));
        Ok(())
    }

    fn struck_restart(&mut self, seed: u64, random: &mut Rng) -> Result<()> {
        let at = random.u64(1..CALLS_MAX);
        println!("seed {seed}: SIGKILL at call {at} of a restart");
        let sighting = self.killed()?.strike_restart(at)?;
        println!("    {}", sighting.struck.unwrap_or("past the last call"));
        Ok(())
    }

    fn flipped_bit(&mut self, seed: u64, random: &mut Rng) -> Result<()> {
        println!("seed {seed}: a flipped bit");
        one_flipped_bit_is_noticed(self.killed()?, random)
    }

    fn native(&mut self, victim: Victim) -> Result<RunResult> {
        if let Some(known) = self.natives.get(&victim) {
            return Ok(known.clone());
        }
        let native = RunResult::native(&victim.with(&[])?)?;
        self.natives.insert(victim, native.clone());
        Ok(native)
    }

    fn subject(&mut self) -> Result<&Subject> {
        if self.subject.is_none() {
            println!("    (first an undisturbed run of {})", SMALL.name);
            self.subject = Some(Subject::small()?);
        }
        self.subject.as_ref().context("it was put there just now")
    }

    fn killed(&mut self) -> Result<&KilledJob> {
        if self.killed.is_none() {
            let killed = KilledJob::new(self.subject()?)?;
            self.killed = Some(killed);
        }
        self.killed.as_ref().context("it was put there just now")
    }
}

impl Progress {
    fn load(path: &Path) -> Result<Self> {
        let Ok(text) = fs::read_to_string(path) else { return Ok(Self::default()) };
        let state: serde_json::Value =
            serde_json::from_str(&text).with_context(|| format!("{} is damaged; remove it", path.display()))?;
        let rounds = state["rounds"].as_u64().unwrap_or(0);
        let group_kills = state["group_kills"].as_object().into_iter().flatten();
        let group_kills = group_kills.map(|(name, kills)| (name.clone(), kills.as_u64().unwrap_or(0))).collect();
        Ok(Self { rounds, seconds: state["seconds"].as_f64().unwrap_or(0.0), group_kills })
    }

    /// Kills something, several times in a row, until it has been killed as often as wanted.
    fn kill(
        &mut self,
        name: &str,
        wanted: u64,
        state: &Path,
        mut some: impl FnMut(usize, u64) -> Result<()>,
    ) -> Result<()> {
        loop {
            let done = self.group_kills.get(name).copied().unwrap_or(0);
            println!("{name}: {done} of {wanted} kills");
            if done >= wanted {
                return Ok(());
            }
            let (seed, kills) = (fastrand::u64(..), KILLS_AT_A_TIME.min(wanted - done));
            println!("seed {seed}: {kills} kills of {name}");
            some(kills as usize, seed).with_context(|| format!("{name}, seed {seed}"))?;
            self.group_kills.insert(name.to_owned(), done + kills);
            self.store(state)?;
        }
    }

    /// Writes the progress. The file is replaced as a whole, so that an interrupted soak leaves the old state or the new
    /// one.
    fn store(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let fresh = path.with_extension("fresh");
        let (rounds, seconds, group_kills) = (self.rounds, self.seconds, &self.group_kills);
        let state = serde_json::json!({ "rounds": rounds, "seconds": seconds, "group_kills": group_kills });
        fs::write(&fresh, format!("{state}\n"))?;
        fs::rename(&fresh, path).with_context(|| format!("writing {}", path.display()))
    }
}
