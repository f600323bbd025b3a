//! Programs that direct their own checkpoints through libstandfast: Standfast follows their directions to the byte, loses
//! nothing that counts, and reports the outcome to them.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{OUTPUT, RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::seed;
use standfast_tests::survival::{Torment, survives_kills};
use standfast_tests::victims::{DIRECTED, DIRECTOR, DRIVER, Program};
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

/// Bytes that the director fills with noise.
const LARGE: u64 = 16 << 20;
/// Bytes that the rest of the director may take in an image.
pub(crate) const SMALL: u64 = 2 << 20;

fn directed_survives(options: &'static [&'static str]) -> Result<()> {
    let seed = seed();
    let interval = Duration::from_millis(30);
    // If others leave the harness no time, the program may end before it is killed; then it gets more to do.
    for steps in [1500, 6000, 24000] {
        let program = DIRECTED.with(&[&(seed >> 1).to_string(), &steps.to_string()])?;
        let native = RunResult::native(&program)?;
        let tally = survives_kills(&program, &native, Torment { interval, kills_max: 8, seed, options })?;
        if tally.kills >= 1 {
            return Ok(());
        }
    }
    anyhow::bail!("it ended before it could be killed even once (STANDFAST_SEED={seed})")
}

#[test]
fn live_bytes_survive_with_chains() -> Result<()> {
    directed_survives(&["--incremental", "on", "--max-files", "4"])
}

#[test]
fn live_bytes_survive_where_only_promises_are_inherited() -> Result<()> {
    directed_survives(&["--incremental", "off", "--max-files", "4", "--snapshot", "sequential"])
}

#[test]
fn live_bytes_survive_with_hash_tracking() -> Result<()> {
    directed_survives(&["--track", "hash", "--snapshot", "copy"])
}

/// A director at work.
pub(crate) struct Stage {
    pub(crate) arena: Arena,
    pub(crate) running: Running,
}

impl Stage {
    pub(crate) fn new(direction: &str, options: &[&str]) -> Result<Self> {
        Self::of(DIRECTOR.with(&[direction])?, options)
    }

    pub(crate) fn of(program: Program, options: &[&str]) -> Result<Self> {
        let arena = Arena::new()?;
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let running = Standfast::new(&arena)?.run_with(&options, Checkpoints::OnRequest, &program)?;
        Ok(Self { arena, running })
    }

    pub(crate) fn standfast(&self) -> Result<Standfast<'_>> {
        Standfast::new(&self.arena)
    }

    pub(crate) fn said(&self) -> Result<Vec<String>> {
        let said = fs::read_to_string(self.arena.work().join(OUTPUT)).context("what the program says")?;
        Ok(said.lines().map(str::to_owned).collect())
    }

    pub(crate) fn image_bytes(&self) -> Result<Vec<u64>> {
        // The program may be ahead of the disk.
        until(PATIENCE, "checkpoints to be durable", || {
            let status = self.standfast()?.status(&self.arena.images())?;
            if status["live"]["is_checkpointing"] != false {
                return Ok(None);
            }
            let generations = status["generations"].as_array().context("status has generations")?;
            Ok(Some(generations.iter().filter_map(|it| it["file_bytes"].as_u64()).collect()))
        })
    }

    /// Kills the program and restarts it from a generation; it must end well after its gate.
    pub(crate) fn goes_on_from(self, generation: &str, wanted: &[&str]) -> Result<()> {
        let Self { arena, running } = self;
        let standfast = Standfast::new(&arena)?;
        ensure!(standfast.kill_job()?, "the program had ended");
        running.wait(PATIENCE)?;
        open_gate(&arena)?;
        let mut command = standfast.restart_command(&arena.images());
        let running = Running::start(&arena, "restart", Output::Nowhere, command.args(["--at", generation]))?;
        running.wait(PATIENCE)?.well("the restarted job")?;
        let said = fs::read_to_string(arena.work().join(OUTPUT))?;
        ensure!(said.lines().eq(wanted.iter().copied()), "it said: {said}");
        Ok(())
    }
}

#[test]
fn dead_memory_is_not_saved_and_a_restart_returns_again() -> Result<()> {
    let stage = Stage::new("dead", &[])?;
    stage.standfast()?.await_gate()?;
    ensure!(stage.said()? == ["taken 1"], "it said {:?}", stage.said()?);
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < SMALL), "images of {bytes:?} bytes");
    stage.goes_on_from("1", &["restarted 1"])
}

#[test]
fn memory_included_again_is_saved_even_if_unwritten() -> Result<()> {
    let stage = Stage::new("include", &["--incremental", "on", "--keep", "3"])?;
    stage.standfast()?.await_gate()?;
    let bytes = stage.image_bytes()?;
    let is_right = matches!(bytes[..], [one, two, three] if one > LARGE && two < SMALL && three > LARGE);
    ensure!(is_right, "images of {bytes:?} bytes");
    stage.goes_on_from("3", &["taken 1", "taken 2", "restarted 3"])
}

#[test]
fn read_only_memory_is_saved_once_even_by_full_checkpoints() -> Result<()> {
    let stage = Stage::new("read-only", &["--incremental", "off", "--keep", "3"])?;
    stage.standfast()?.await_gate()?;
    let bytes = stage.image_bytes()?;
    let is_right = matches!(bytes[..], [one, two, three] if one > LARGE && two < SMALL && three < SMALL);
    ensure!(is_right, "images of {bytes:?} bytes");
    stage.goes_on_from("3", &["taken 1", "taken 2", "restarted 3"])
}

#[test]
fn dead_parts_of_pages_are_not_saved() -> Result<()> {
    let stage = Stage::new("fields-dead", &["--incremental", "on", "--keep", "3"])?;
    stage.standfast()?.await_gate()?;
    let bytes = stage.image_bytes()?;
    // The first image contains the table of a million regions.
    let small = LARGE / 4 * 6 / 5 + SMALL;
    let is_right = matches!(bytes[..], [one, two, three] if one < LARGE + small && two < small && three < small);
    ensure!(is_right, "images of {bytes:?} bytes");
    stage.goes_on_from("3", &["taken 1", "taken 2", "restarted 3"])
}

#[test]
fn read_only_parts_of_pages_are_saved_once() -> Result<()> {
    for options in [["--incremental", "on", "--keep", "3"], ["--track", "hash", "--keep", "3"]] {
        let stage = Stage::new("fields-read-only", &options)?;
        stage.standfast()?.await_gate()?;
        let bytes = stage.image_bytes()?;
        let small = LARGE / 4 * 6 / 5 + SMALL;
        let is_right = matches!(bytes[..], [one, two, three] if one > LARGE && two < small && three < small);
        ensure!(is_right, "images of {bytes:?} bytes with {options:?}");
        stage.goes_on_from("3", &["taken 1", "taken 2", "restarted 3"])?;
    }
    Ok(())
}

#[test]
fn exclusion_checks_report_writes_and_poison_dead_memory() -> Result<()> {
    let stage = Stage::new("violate", &["--check-exclusions"])?;
    stage.standfast()?.await_gate()?;
    stage.image_bytes()?;
    ensure!(stage.standfast()?.kill_job()?, "the program had ended");
    let Stage { arena, running } = stage;
    let errors = running.wait(PATIENCE)?.errors;
    let told: Vec<_> = errors.lines().filter(|line| line.starts_with("standfast: a write to read-only")).collect();
    ensure!(told.len() == 1, "one message for one page: {errors}");
    let region: Vec<_> = told[0].split(' ').filter_map(|word| word.strip_prefix("0x")).collect();
    let [written, start, end] = &region[..] else { anyhow::bail!("it names {region:?}") };
    let number = |text: &str| u64::from_str_radix(text.trim_end_matches(&[',', '.'][..]), 16);
    let (written, start, end) = (number(written)?, number(start)?, number(end)?);
    ensure!(start + 2 * 4096 == written + 100 && end == start + 3 * 4096, "{}", told[0]);
    // Both the code that wrote and the code that excluded the memory are in the program.
    let frames = errors.lines().filter(|line| line.contains("director")).count();
    ensure!(errors.contains("excluded by") && frames >= 2, "{errors}");
    open_gate(&arena)?;
    let standfast = Standfast::new(&arena)?;
    let mut command = standfast.restart_command(&arena.images());
    Running::start(&arena, "restart", Output::Nowhere, &mut command)?.wait(PATIENCE)?.well("the restarted job")?;
    let said = fs::read_to_string(arena.work().join(OUTPUT))?;
    ensure!(said.lines().eq(["restarted 1", "dead 1"]), "it said: {said}");
    Ok(())
}

#[test]
fn a_change_of_read_only_bytes_is_reported_at_the_next_checkpoint() -> Result<()> {
    let stage = Stage::new("violate-part", &["--check-exclusions"])?;
    stage.standfast()?.await_gate()?;
    stage.image_bytes()?;
    let Stage { arena, running } = stage;
    open_gate(&arena)?;
    let errors = running.wait(PATIENCE)?.well("the job")?.errors;
    let told: Vec<_> = errors.lines().filter(|line| line.contains("read-only memory")).collect();
    ensure!(told.len() == 1 && told[0].contains("at checkpoint 2,"), "one message, at the second checkpoint: {errors}");
    let addresses: Vec<_> = told[0].split(' ').filter_map(|word| word.strip_prefix("0x")).collect();
    let [changed, start, end] = &addresses[..] else { anyhow::bail!("it names {addresses:?}") };
    let number = |text: &str| u64::from_str_radix(text.trim_end_matches([',', '.']), 16);
    let (changed, start, end) = (number(changed)?, number(start)?, number(end)?);
    ensure!(start + 50 == changed && start + 200 == end, "{}", told[0]);
    ensure!(
        errors.lines().any(|line| line.contains("director(+0x")),
        "who has excluded it is in the program: {errors}"
    );
    Ok(())
}

#[test]
fn a_checkpoint_waits_until_the_program_enables_it() -> Result<()> {
    let stage = Stage::new("disabled", &[])?;
    let standfast = stage.standfast()?;
    standfast.await_gate()?;
    let mut command = standfast.command(&["checkpoint"]);
    let asking = Running::start(&stage.arena, "asking", Output::Log, command.arg(stage.arena.images()))?;
    until(PATIENCE, "the supervisor to wait", || {
        let status = standfast.status(&stage.arena.images())?;
        Ok(status["live"]["disabled_seconds"].as_f64().map(drop))
    })?;
    open_gate(&stage.arena)?;
    asking.wait(PATIENCE)?.well("the checkpoint")?;
    ensure!(stage.said()? == ["enabled 0"], "it said {:?}", stage.said()?);
    fs::write(stage.arena.work().join("end"), "")?;
    stage.running.wait(PATIENCE)?.well("the job").map(drop)
}

#[test]
fn a_refused_checkpoint_is_reported_to_the_program() -> Result<()> {
    let stage = Stage::new("refused", &[])?;
    let Stage { arena, running } = stage;
    running.wait(PATIENCE)?.well("the job")?;
    let said = fs::read_to_string(arena.work().join(OUTPUT))?;
    let lines: Vec<_> = said.lines().collect();
    ensure!(lines.first() == Some(&"outcome -7"), "it said: {said}");
    ensure!(lines.last().is_some_and(|line| line.starts_with("taken ")), "it said: {said}");
    Ok(())
}

#[test]
fn requests_before_the_minimum_interval_are_not_honoured() -> Result<()> {
    for (options, next) in [(["--min-interval", "1h"], "next 0"), (["--min-interval", "never"], "next 0")] {
        let stage = Stage::new("not-due", &options)?;
        let Stage { arena, running } = stage;
        running.wait(PATIENCE)?.well("the job")?;
        ensure!(fs::read_to_string(arena.work().join(OUTPUT))?.trim() == next, "the timer is off");
        let generations = Standfast::new(&arena)?.newest_generation(&arena.images())?;
        ensure!(generations.is_none(), "a checkpoint was taken");
    }
    Ok(())
}

#[test]
fn children_and_executed_programs_have_their_own_directives() -> Result<()> {
    let stage = Stage::new("relatives", &["--min-interval", "1h"])?;
    stage.standfast()?.await_gate()?;
    stage.standfast()?.checkpoint()?;
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < SMALL), "images of {bytes:?} bytes");
    fs::write(stage.arena.work().join("end"), "")?;
    stage.goes_on_from("1", &["outcome 0", "next 0"])
}

#[test]
fn promises_end_with_the_program_that_gave_them() -> Result<()> {
    for options in [["--incremental", "on", "--keep", "3"], ["--track", "hash", "--keep", "3"]] {
        let stage = Stage::new("successor", &options)?;
        stage.standfast()?.await_gate()?;
        stage.goes_on_from("3", &["taken 1", "taken 2", "restarted 3"])?;
    }
    Ok(())
}

#[test]
fn wrong_arguments_give_error_codes_and_errno_stays() -> Result<()> {
    let program: Program = DIRECTOR.with(&["arguments"])?;
    let stage = Stage::new("arguments", &[])?;
    let Stage { arena, running } = stage;
    running.wait(PATIENCE)?.well("the job")?;
    ensure!(fs::read_to_string(arena.work().join(OUTPUT))?.trim() == "protected 1");
    // The same program without Standfast.
    RunResult::native(&program).map(drop)
}

/// Starts a program as a user would, with the command in `PATH`.
fn typed(arena: &Arena, name: &str, program: &Program, words: &[&str], output: Output) -> Result<Running> {
    let standfast = Standfast::new(arena)?;
    let folder = arena.folder().join("bin");
    fs::create_dir_all(&folder)?;
    let link = folder.join("standfast");
    if !link.exists() {
        symlink(standfast.command(&[]).get_program(), link)?;
    }
    let mut command = arena.command(&program.path);
    Running::start(arena, name, output, command.env("PATH", format!("{}:/usr/bin:/bin", folder.display())).args(words))
}

#[test]
fn the_papers_driver_starts_itself_under_standfast_and_recovers() -> Result<()> {
    let program = DRIVER.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    fs::write(arena.work().join(".ckptrc"), "maxtime 0\n")?;
    let output = Output::File(arena.work().join(OUTPUT));
    let running = typed(&arena, "run", &program, &[], output)?;
    standfast.await_gate()?;
    let images = arena.work().join("driver.standfast");
    let status = until(PATIENCE, "the checkpoint to be durable", || {
        let status = standfast.status(&images)?;
        let is_ready = status["live"]["is_checkpointing"] == false && !status["generations"][0].is_null();
        Ok(is_ready.then_some(status))
    })?;
    ensure!(status["options"]["keep"] == 1 && status["options"]["incremental"] == "off", "{}", status["options"]);
    let bytes = status["generations"][0]["file_bytes"].as_u64().context("a generation has a length")?;
    ensure!(bytes < SMALL, "an image of {bytes} bytes, though the data set is dead");
    let pid = status["program_pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).context("it runs")?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    open_gate(&arena)?;
    typed(&arena, "recover", &program, &["=recover"], Output::Nowhere)?.wait(PATIENCE)?.well("the recovered job")?;
    let said = fs::read_to_string(arena.work().join(OUTPUT))?;
    let native = Arena::new()?;
    open_gate(&native)?;
    let mut command = native.command(&program.path);
    let undisturbed =
        Running::start(&native, "native", Output::Log, command.env("PATH", "/nowhere"))?.wait(PATIENCE)?;
    ensure!(undisturbed.errors.contains("not in PATH"), "it said nothing of the missing command");
    ensure!(said == undisturbed.well("the undisturbed run")?.output, "it said: {said}");
    Ok(())
}
