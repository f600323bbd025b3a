//! The differential soak: runs random programs with and without checkpoints, kills and restarts, and compares what they
//! observe. If root starts it, the programs run as a plain user (nobody), since that is how Standfast is used.
//!
//! ```text
//! differential [--programs N] [--seed S] [--script FILE] [--print S] [--failures DIR] [--shrink no] [--as-root yes]
//!              [--planted FAULT|all]
//!     --seed: the first seed; the others follow
//!     --script: only the program of this file
//!     --print: prints the program of this seed, and runs nothing
//!     --failures: where to put the programs that differ [default: differential-failures]
//!     --planted: runs programs until one observes this fault; the command must have been built with planted-faults
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to people")]

use anyhow::{Context as _, Result, bail, ensure};
use standfast_tests::command::standfast_binary;
use standfast_tests::differential::{Batch, FAULTS, Outcome, Script, Settings, find, generate, judge};
use std::ops::Range;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

/// The user without privileges, as in `scripts/as-plain-user`.
const PLAIN_ID: u32 = 65534;

/// How many lines are shown of how a fault was found.
const SHOWN_LINES: usize = 3;

struct Arguments {
    programs: u64,
    seed: u64,
    script: Option<PathBuf>,
    print: Option<u64>,
    failures: PathBuf,
    shrinks: bool,
    as_root: bool,
    planted: Option<String>,
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("differential: {problem:#}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Arguments> {
    let mut found = Arguments {
        programs: 200,
        seed: standfast_tests::seed() >> 1,
        script: None,
        print: None,
        failures: PathBuf::from("differential-failures"),
        shrinks: true,
        as_root: false,
        planted: None,
    };
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--programs" => found.programs = value.parse().context("--programs takes a whole number")?,
            "--seed" => found.seed = value.parse().context("--seed takes a whole number")?,
            "--script" => found.script = Some(fs::canonicalize(&value).with_context(|| format!("finding {value}"))?),
            "--print" => found.print = Some(value.parse().context("--print takes a whole number")?),
            "--failures" => found.failures = PathBuf::from(value),
            "--shrink" => found.shrinks = value != "no",
            "--planted" => found.planted = Some(value),
            "--as-root" => found.as_root = value == "yes",
            _ => bail!("unknown option {word}; the first comment of tests/src/bin/differential.rs lists all"),
        }
    }
    Ok(found)
}

/// Returns whether nothing differs.
fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(seed) = arguments.print {
        print!("{}", generate(seed).script.text());
        return Ok(true);
    }
    if nix::unistd::geteuid().is_root() && !arguments.as_root {
        return as_plain_user(arguments);
    }
    if let Some(path) = &arguments.script {
        let outcome = judge(&Script::read(path)?)?;
        println!("{}", described(&outcome));
        return Ok(!matches!(outcome, Outcome::Different(_)));
    }
    let seeds = arguments.seed..arguments.seed + arguments.programs;
    if let Some(planted) = &arguments.planted {
        return find_planted(planted, &seeds);
    }
    println!("programs from seed {} on", arguments.seed);
    let settings = Settings { seeds, failures: arguments.failures.clone(), shrinks: arguments.shrinks };
    let batch = Batch::run(&settings, |text| println!("{text}"))?;
    print!("{}", batch.summary());
    Ok(batch.different.is_empty())
}

/// Returns whether each of these faults is found.
fn find_planted(planted: &str, seeds: &Range<u64>) -> Result<bool> {
    let mut missed = 0;
    for fault in FAULTS.iter().filter(|fault| planted == "all" || planted == **fault) {
        let search = find(fault, seeds.clone())?;
        match search.found {
            Some(what) => {
                let beginning: Vec<&str> = what.lines().take(SHOWN_LINES).collect();
                println!("{fault}: found after {} programs\n{}\n", search.programs, beginning.join("\n"));
            }
            None => {
                missed += 1;
                println!("{fault}: not found by {} programs\n", search.programs);
            }
        }
    }
    println!("{missed} faults were not found");
    Ok(missed == 0)
}

fn described(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Same => "the same".to_owned(),
        Outcome::Refused(codes) => format!("the same, with refusals: {codes:?}"),
        Outcome::Unstable(what) => format!("unstable without Standfast, too: {what}"),
        Outcome::Different(what) => format!("different: {what}"),
    }
}

/// Runs this program again as the plain user, with all that it needs in a folder that this user can reach.
fn as_plain_user(arguments: &Arguments) -> Result<bool> {
    let stage = tempfile::Builder::new().prefix("standfast-differential-").tempdir_in("/tmp")?;
    fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o755))?;
    for folder in ["plain", "plain/home", "plain/tmp", "plain/victims"] {
        fs::create_dir(stage.path().join(folder))?;
        chown(stage.path().join(folder), Some(PLAIN_ID), Some(PLAIN_ID))?;
    }
    let binary = stage.path().join("standfast");
    fs::copy(standfast_binary()?, &binary).context("copying the command")?;
    let failures = reachable_failures(&arguments.failures)?;
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("scripts");
    let mut command = Command::new(scripts.join("as-plain-user"));
    command.arg(env::current_exe()?).args(["--seed", &arguments.seed.to_string()]);
    command.args(["--programs", &arguments.programs.to_string()]);
    command.args(["--shrink", if arguments.shrinks { "yes" } else { "no" }]).arg("--failures").arg(&failures);
    command.args(arguments.planted.iter().flat_map(|planted| ["--planted", planted]));
    if let Some(script) = &arguments.script {
        let copy = stage.path().join("script");
        fs::copy(script, &copy).context("copying the script")?;
        command.arg("--script").arg(copy);
    }
    command.env("STANDFAST_BIN", &binary).env("STANDFAST_STAGE", stage.path());
    command.env("STANDFAST_VICTIMS", stage.path().join("plain/victims")).current_dir(stage.path());
    let status = command.status().context("starting again as the plain user")?;
    ensure!(status.code() != Some(2), "it failed as the plain user");
    Ok(status.success())
}

/// Makes the folder for failures one to which the plain user can write, and returns its path.
fn reachable_failures(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    chown(folder, Some(PLAIN_ID), Some(PLAIN_ID))?;
    fs::canonicalize(folder).with_context(|| format!("finding {}", folder.display()))
}
