//! Programs that direct their own checkpoints through libstandfast: Standfast follows their directions to the byte, loses
//! nothing that counts, and reports the outcome to them.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{OUTPUT, RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::survival::{Torment, survives_kills};
use standfast_tests::victims::{DIRECTED, DIRECTOR, DRIVER, Program};
use standfast_tests::workshop::{library, library_flags};
use standfast_tests::{Lacking, seed, skip};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Bytes that the director fills with noise.
const LARGE: u64 = 16 << 20;
/// Bytes that the rest of the director may take in an image.
const SMALL: u64 = 2 << 20;

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
fn bytes_that_are_not_dead_come_back_from_chains() -> Result<()> {
    directed_survives(&["--incremental", "on", "--max-files", "4"])
}

#[test]
fn bytes_that_are_not_dead_come_back_where_only_promises_are_inherited() -> Result<()> {
    directed_survives(&["--incremental", "off", "--max-files", "4", "--snapshot", "sequential"])
}

#[test]
fn bytes_that_are_not_dead_come_back_from_what_checksums_tell() -> Result<()> {
    directed_survives(&["--track", "hash", "--snapshot", "copy"])
}

/// Returns where the compiler finds a shared library. If there is none, reports that and returns `None`.
fn shared_library(name: &str) -> Result<Option<String>> {
    let found = Command::new("cc").arg(format!("-print-file-name={name}")).output().context("starting cc")?;
    let path = String::from_utf8(found.stdout)?.trim().to_owned();
    if path.starts_with('/') {
        return Ok(Some(path));
    }
    skip("free memory of another allocator", &Lacking::program(name));
    Ok(None)
}

/// A director at work.
struct Stage {
    arena: Arena,
    running: Running,
}

impl Stage {
    fn new(direction: &str, options: &[&str]) -> Result<Self> {
        Self::of(DIRECTOR.with(&[direction])?, options)
    }

    fn of(program: Program, options: &[&str]) -> Result<Self> {
        let arena = Arena::new()?;
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let running = Standfast::new(&arena)?.run_with(&options, Checkpoints::OnRequest, &program)?;
        Ok(Self { arena, running })
    }

    fn standfast(&self) -> Result<Standfast<'_>> {
        Standfast::new(&self.arena)
    }

    fn said(&self) -> Result<Vec<String>> {
        let said = fs::read_to_string(self.arena.work().join(OUTPUT)).context("what the program says")?;
        Ok(said.lines().map(str::to_owned).collect())
    }

    fn image_bytes(&self) -> Result<Vec<u64>> {
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
    fn goes_on_from(self, generation: &str, wanted: &[&str]) -> Result<()> {
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
fn dead_memory_is_in_no_image_and_a_restart_is_the_second_return() -> Result<()> {
    let stage = Stage::new("dead", &[])?;
    stage.standfast()?.await_gate()?;
    ensure!(stage.said()? == ["taken 1"], "it said {:?}", stage.said()?);
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < SMALL), "images of {bytes:?} bytes");
    stage.goes_on_from("1", &["restarted 1"])
}

#[test]
fn memory_that_is_alive_again_is_saved_though_nobody_has_written_to_it() -> Result<()> {
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
fn memory_that_the_allocator_holds_as_free_is_in_no_image() -> Result<()> {
    let stage = Stage::new("free", &[])?;
    stage.standfast()?.await_gate()?;
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < SMALL), "images of {bytes:?} bytes");
    stage.goes_on_from("1", &["restarted 1"])
}

#[test]
fn what_is_dead_of_a_page_is_in_no_image() -> Result<()> {
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
fn what_is_read_only_of_a_page_is_saved_once() -> Result<()> {
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
fn free_memory_is_in_no_image_whoever_asks_for_it_where_the_run_wants_that() -> Result<()> {
    let stage = Stage::new("free-unasked", &["--free-memory"])?;
    stage.standfast()?.await_gate()?;
    stage.standfast()?.checkpoint()?;
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < SMALL), "images of {bytes:?} bytes");
    stage.goes_on_from("1", &[])
}

/// Preloads another allocator into a program.
fn preloaded(library: &str, program: Program) -> Program {
    let preload = format!("LD_PRELOAD={library}").into();
    let arguments = [preload, program.path.into()].into_iter().chain(program.arguments).collect();
    Program { path: "/usr/bin/env".into(), arguments }
}

fn free_memory_of_another_allocator_is_in_no_image(name: &str) -> Result<()> {
    let Some(library) = shared_library(name)? else { return Ok(()) };
    for options in [&[][..], &["--free-memory"][..]] {
        let way = if options.is_empty() { "free" } else { "free-unasked" };
        let stage = Stage::of(preloaded(&library, DIRECTOR.with(&[way])?), options)?;
        stage.standfast()?.await_gate()?;
        if way == "free-unasked" {
            stage.standfast()?.checkpoint()?;
        }
        let bytes = stage.image_bytes()?;
        ensure!(matches!(bytes[..], [one] if one < 2 * SMALL), "images of {bytes:?} bytes with {options:?}");
        let said: &[&str] = if options.is_empty() { &["restarted 1"] } else { &[] };
        stage.goes_on_from("1", said)?;
    }
    Ok(())
}

#[test]
fn free_memory_of_jemalloc_is_in_no_image() -> Result<()> {
    free_memory_of_another_allocator_is_in_no_image("libjemalloc.so.2")
}

#[test]
fn free_memory_of_mimalloc_is_in_no_image() -> Result<()> {
    free_memory_of_another_allocator_is_in_no_image("libmimalloc.so.2")
}

const STOPPED_IN_MALLOC: &str = include_str!("../victims/stopped_in_malloc.c");

/// Takes a checkpoint for which a program cannot give its free memory back, since a stopped thread holds the allocator's
/// locks. Standfast takes it all the same, and neither the program nor its restart hangs.
fn locks_of_an_allocator_hold_up_no_checkpoint(
    arena: &Arena,
    compiler: &str,
    preload: Option<&str>,
    said: &str,
) -> Result<()> {
    let mut program = Program { path: compiled(arena, compiler, "stopped", STOPPED_IN_MALLOC)?, arguments: Vec::new() };
    if let Some(name) = preload {
        let Some(library) = shared_library(name)? else { return Ok(()) };
        program = preloaded(&library, program);
    }
    let stage = Stage::of(program, &["--free-memory"])?;
    stage.standfast()?.await_gate()?;
    ensure!(stage.said()? == [said], "it said {:?}", stage.said()?);
    stage.standfast()?.checkpoint()?;
    ensure!(stage.image_bytes()?.len() == 1, "there is no checkpoint");
    stage.goes_on_from("1", &[said])
}

#[test]
fn locks_of_the_gnu_allocator_hold_up_no_checkpoint() -> Result<()> {
    locks_of_an_allocator_hold_up_no_checkpoint(&Arena::new()?, "cc", None, "protected 1, held 1")
}

#[test]
fn locks_of_jemalloc_hold_up_no_checkpoint() -> Result<()> {
    let arena = Arena::new()?;
    locks_of_an_allocator_hold_up_no_checkpoint(&arena, "cc", Some("libjemalloc.so.2"), "protected 1, held 1")
}

#[test]
fn a_thread_that_is_stopped_in_mimalloc_holds_up_no_checkpoint() -> Result<()> {
    // mimalloc has no locks that threads wait for.
    let arena = Arena::new()?;
    locks_of_an_allocator_hold_up_no_checkpoint(&arena, "cc", Some("libmimalloc.so.2"), "protected 1, held 0")
}

#[test]
fn locks_of_musl_hold_up_no_checkpoint() -> Result<()> {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        skip("locks of musl", &Lacking::program("musl-gcc"));
        return Ok(());
    }
    locks_of_an_allocator_hold_up_no_checkpoint(&Arena::new()?, "musl-gcc", None, "protected 1, held 1")
}

/// Compiles a program with libstandfast linked in.
fn compiled(arena: &Arena, compiler: &str, name: &str, source: &str) -> Result<PathBuf> {
    let path = arena.work().join(name);
    fs::write(path.with_extension("c"), source)?;
    let mut command = Command::new(compiler);
    command.args(["-O2", "-pthread", "-o"]).arg(&path).arg(path.with_extension("c"));
    if compiler == "musl-gcc" {
        command.arg("-static");
    }
    must_work(command.args(library_flags(compiler)?))?;
    Ok(path)
}

const FREES: &str = r#"
#include <fcntl.h>
#include <standfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    static unsigned char *blocks[800];
    unsigned state = 1;
    for (int i = 0; i < 800; i++) {
        blocks[i] = malloc(20000);
        for (int at = 0; at < 20000; at++)
            blocks[i][at] = (unsigned char)((state = state * 1103515245u + 12345u) >> 16);
    }
    for (int i = 0; i < 799; i++)
        free(blocks[i]);
    printf("%d\n", standfast_checkpoint_here(NULL));
    fflush(stdout);
    close(open("waiting", O_WRONLY | O_CREAT, 0644));
    while (access("gate", F_OK) != 0)
        usleep(500);
    return 0;
}
"#;

#[test]
fn free_memory_of_musl_is_in_no_image() -> Result<()> {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        skip("free memory of musl", &Lacking::program("musl-gcc"));
        return Ok(());
    }
    let made = Arena::new()?;
    let path = compiled(&made, "musl-gcc", "frees", FREES)?;
    let stage = Stage::of(Program { path, arguments: Vec::new() }, &[])?;
    stage.standfast()?.await_gate()?;
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < SMALL), "images of {bytes:?} bytes");
    stage.goes_on_from("1", &["2"])
}

#[test]
fn a_write_to_read_only_memory_is_told_and_dead_memory_is_poisoned_where_exclusions_are_checked() -> Result<()> {
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
fn a_change_of_read_only_memory_that_shares_its_page_is_told_at_the_next_checkpoint() -> Result<()> {
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
fn a_refused_checkpoint_is_told_to_the_program() -> Result<()> {
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
fn requests_before_the_least_interval_are_not_honoured() -> Result<()> {
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
fn children_and_executed_programs_have_directions_of_their_own() -> Result<()> {
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
fn the_papers_driver_puts_itself_under_standfast_and_recovers() -> Result<()> {
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

const USES_ALL: &str = r"
#include <standfast.h>
#include <ckpt.h>
#include <standfast.h>
#include <ckpt.h>
int main(void)
{
    static char bytes[100];
    uint64_t generation = 0;
    int sum = standfast_exclude(bytes, sizeof bytes, STANDFAST_DEAD) + standfast_include(bytes, sizeof bytes);
    sum += standfast_checkpoint_here(&generation) + standfast_disable() + standfast_enable();
    sum += exclude_bytes(bytes, (long)sizeof bytes, CKPT_READONLY) + include_bytes(bytes, 1) + checkpoint_here();
    return sum + standfast_is_protected() + (standfast_next() != -1) + (standfast_error_text(0)[0] == 0);
}
";

const USES_FORTRAN: &str = "
program uses
    use standfast
    implicit none
    real(8) :: a(10, 10)
    integer :: status
    a = 1
    call exclude_bytes(a, 8*size(a), CKPT_DEAD, status)
    if (status /= 0 .or. is_protected() .or. next_checkpoint() /= -1) error stop
    call include_bytes(a, 8*size(a))
    call disable_checkpoints()
    call enable_checkpoints()
    call checkpoint_here(status)
    if (status /= CKPT_NOT_TAKEN) error stop
    call exclude_bytes(a, -1, CKPT_DEAD, status)
    if (status == 0) error stop
end program uses
";

fn must_work(command: &mut Command) -> Result<()> {
    let done = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{command:?}: {said}");
    Ok(())
}

#[test]
fn the_headers_are_c11_c17_and_cpp17_and_the_module_is_fortran_2018() -> Result<()> {
    let arena = Arena::new()?;
    let work = arena.work();
    let flags = library_flags("cc")?;
    for (compiler, standard, name) in
        [("cc", "c11", "uses.c"), ("cc", "c17", "uses.c"), ("c++", "c++17", "uses.cpp"), ("musl-gcc", "c11", "uses.c")]
    {
        fs::write(work.join(name), USES_ALL)?;
        if Command::new(compiler).arg("--version").output().is_err() {
            skip(standard, &Lacking::program(compiler));
            continue;
        }
        let flags = if compiler == "musl-gcc" { library_flags(compiler)? } else { flags.clone() };
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-o", "uses"]).arg(name);
        must_work(command.arg(format!("-std={standard}")).args(flags).current_dir(&work))?;
        must_work(&mut arena.command(work.join("uses")))?;
    }
    if Command::new("gfortran").arg("--version").output().is_err() {
        skip("the Fortran module", &Lacking::program("gfortran"));
        return Ok(());
    }
    fs::write(work.join("standfast.f90"), include_str!("../../bindings/fortran/standfast.f90"))?;
    fs::write(work.join("uses.f90"), USES_FORTRAN)?;
    let mut command = Command::new("gfortran");
    command.args(["-std=f2018", "-Wall", "-Wextra", "-Werror", "-o", "fortran", "standfast.f90", "uses.f90"]);
    must_work(command.arg(library("cc")?.join("libstandfast.a")).current_dir(&work))?;
    must_work(&mut arena.command(work.join("fortran")))
}

/// Returns the text between the fences of a language on the page about the library.
fn listing(language: &str) -> Result<&'static str> {
    let page = include_str!("../../docs/library.md");
    let (_, behind) = page.split_once(&format!("```{language}\n")).with_context(|| format!("no {language} there"))?;
    Ok(behind.split_once("```").context("a listing ends")?.0)
}

#[test]
fn what_the_documentation_shows_compiles_and_runs() -> Result<()> {
    let arena = Arena::new()?;
    let work = arena.work();
    let said = |command: &mut Command| {
        let done = command.current_dir(&work).output().with_context(|| format!("{command:?}"))?;
        ensure!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8(done.stdout)?)
    };
    let written_in_c = said(&mut Command::new(compiled(&arena, "cc", "grid", listing("c")?)?))?;
    ensure!(written_in_c.trim().parse::<f64>().is_ok_and(|value| value > 0.0), "it said {written_in_c}");
    if Command::new("gfortran").arg("--version").output().is_ok() {
        fs::write(work.join("standfast.f90"), include_str!("../../bindings/fortran/standfast.f90"))?;
        fs::write(work.join("in_fortran.f90"), listing("fortran")?)?;
        let mut command = Command::new("gfortran");
        command.args(["-o", "in-fortran", "standfast.f90", "in_fortran.f90"]);
        said(command.arg(library("cc")?.join("libstandfast.a")))?;
        let written_in_fortran = said(&mut Command::new(work.join("in-fortran")))?;
        ensure!(written_in_fortran == written_in_c, "it said {written_in_fortran}");
    }
    if let Some(python) = python()? {
        python_package(&work)?;
        let mut command = Command::new(python);
        let written_in_python = said(command.env("PYTHONPATH", work.join("package")).args(["-c", listing("python")?]))?;
        ensure!(written_in_python == written_in_c, "it said {written_in_python}");
    }
    Ok(())
}

const CMAKE_LISTS: &str = "
cmake_minimum_required(VERSION 3.16)
project(uses C)
find_package(standfast REQUIRED)
add_executable(uses uses.c)
target_link_libraries(uses standfast::standfast)
";

#[test]
fn what_is_installed_is_found_by_pkg_config_and_cmake() -> Result<()> {
    let arena = Arena::new()?;
    let (work, prefix) = (arena.work(), arena.folder().join("prefix"));
    let mut install = Command::new("make");
    install.arg("-C").arg(library("cc")?).arg("install").arg(format!("OUT={}", work.join("out").display()));
    install.arg(format!("PREFIX={}", prefix.display())).env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    must_work(&mut install)?;
    fs::write(work.join("uses.c"), USES_ALL)?;
    let runs = |program| {
        let mut command = arena.command(work.join(program));
        must_work(command.env("LD_LIBRARY_PATH", prefix.join("lib")))
    };
    let ask = Command::new("pkg-config")
        .args(["--cflags", "--libs", "standfast"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output();
    match ask {
        Ok(told) => {
            let flags = String::from_utf8(told.stdout)?;
            ensure!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
            let mut command = Command::new("cc");
            must_work(
                command.args(["-o", "by-pkg-config", "uses.c"]).args(flags.split_whitespace()).current_dir(&work),
            )?;
            runs("by-pkg-config")?;
        }
        Err(_) => skip("pkg-config finds the library", &Lacking::program("pkg-config")),
    }
    if Command::new("cmake").arg("--version").output().is_err() {
        skip("CMake finds the library", &Lacking::program("cmake"));
        return Ok(());
    }
    fs::write(work.join("CMakeLists.txt"), CMAKE_LISTS)?;
    let prefix_path = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    must_work(Command::new("cmake").args(["-S", ".", "-B", "by-cmake", &prefix_path]).current_dir(&work))?;
    must_work(Command::new("cmake").args(["--build", "by-cmake"]).current_dir(&work))?;
    runs("by-cmake/uses")
}

const USES_PYTHON: &str = "
import os, sys, time
sys.path.insert(0, 'package')
import standfast

noise = bytearray(os.urandom(64 << 20))
try:
    standfast.exclude_dead(memoryview(noise)[::2])
    sys.exit('a buffer with holes was taken')
except BufferError:
    pass
with standfast.disabled():
    standfast.readonly(b'constant')
with standfast.dead(noise):
    print(standfast.checkpoint_here(), standfast.is_protected(), flush=True)
assert standfast.next_checkpoint() is None
open('waiting', 'w').close()
while not os.path.exists('gate'):
    time.sleep(0.001)
";

/// Returns a Python that has what the package needs.
fn python() -> Result<Option<PathBuf>> {
    let ask = Command::new("python3").args(["-c", "import ctypes, sys; print(sys.executable)"]).output();
    let Some(told) = ask.ok().filter(|told| told.status.success()) else { return Ok(None) };
    Ok(Some(String::from_utf8(told.stdout)?.trim().into()))
}

/// Puts the package into the folder `package`.
fn python_package(work: &Path) -> Result<()> {
    let package = work.join("package/standfast");
    fs::create_dir_all(&package)?;
    fs::write(package.join("__init__.py"), include_str!("../../bindings/python/python/standfast/__init__.py"))?;
    fs::copy(library("cc")?.join("libstandfast.so"), package.join("libstandfast.so")).map(drop).map_err(Into::into)
}

#[test]
fn the_python_package_leaves_dead_buffers_out() -> Result<()> {
    let arena = Arena::new()?;
    python_package(&arena.work())?;
    let Some(path) = python()? else {
        skip("the Python package", &Lacking::program("python3 with ctypes"));
        return Ok(());
    };
    let program = Program { path, arguments: ["-c", USES_PYTHON].map(Into::into).to_vec() };
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    let stage = Stage { arena, running };
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < 32 << 20), "images of {bytes:?} bytes");
    let restarted = "Checkpoint(outcome=<Outcome.RESTARTED: 2>, generation=1) True";
    stage.goes_on_from("1", &[restarted])
}
