//! The harness is useful only if it strikes where it says, and finds every difference.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use standfast_tests::Lacking;
use standfast_tests::arena::Arena;
use standfast_tests::features::Feature;
use standfast_tests::result::RunResult;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::tracer::{Blow, Sighting, Strike, Tracer};
use standfast_tests::trials::{self, Verdict};
use standfast_tests::victims::SMALL;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

/// How a struck shell script ended, what the tracer saw, and what its file holds.
struct Struck {
    status: WaitStatus,
    seen: Sighting,
    file: String,
}

/// Runs a script that writes to `../images/file`, and strikes it. The script takes the place of a supervisor behind its
/// foreground proxy.
fn strike_script(script: &str, at: u64, blow: Blow) -> Result<Struck> {
    let arena = Arena::new()?;
    fs::create_dir(arena.images())?;
    let mut command = arena.command("sh");
    command.args(["-c", &format!("({script}); exit $?")]);
    let tracer = Tracer::start(&arena, "struck", Output::Log, &command, Some(Strike::new(at, blow)))?;
    until(PATIENCE, "the script to end", || Ok(tracer.has_ended().then_some(())))?;
    let seen = tracer.sighting();
    let status = tracer.wait()?;
    arena.wait_until_empty(PATIENCE)?;
    let file = fs::read_to_string(arena.images().join("file")).unwrap_or_default();
    Ok(Struck { status, seen, file })
}

/// The shell creates the file with its first call; each line is one more call.
const THREE_LINES: &str = "exec > ../images/file && echo one && echo two && echo three";

#[test]
fn a_struck_write_fails_and_writes_nothing() -> Result<()> {
    let struck = strike_script(THREE_LINES, 3, Blow::Fail(Errno::EIO))?;
    ensure!(struck.seen.struck == Some("write"), "{:?}", struck.seen);
    ensure!(!matches!(struck.status, WaitStatus::Exited(_, 0)), "the shell did not notice");
    ensure!(struck.file == "one\n", "the file holds {:?}", struck.file);
    Ok(())
}

/// All calls of the shell count. The number of calls before its first line is its own affair. Wherever the blow falls,
/// the file holds whole lines; the later it falls, the more lines there are.
#[test]
fn a_supervisor_is_killed_before_the_call_it_was_about_to_make() -> Result<()> {
    let mut lines = Vec::new();
    for at in 1.. {
        let struck = strike_script(THREE_LINES, at, Blow::KillSupervisor)?;
        if struck.seen.struck.is_none() {
            break;
        }
        ensure!(matches!(struck.status, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "{:?}", struck.status);
        lines.push(struck.file);
    }
    lines.dedup();
    ensure!(lines == ["", "one\n", "one\ntwo\n", "one\ntwo\nthree\n"], "the file held, one after the other: {lines:?}");
    Ok(())
}

#[test]
fn a_full_disk_stays_full() -> Result<()> {
    let script = "exec > ../images/file; echo one; echo two || echo three || echo four";
    let struck = strike_script(script, 3, Blow::FailFromHereOn(Errno::ENOSPC))?;
    ensure!(struck.file == "one\n", "the file holds {:?}", struck.file);
    ensure!(struck.seen.calls == 5, "{:?}", struck.seen);
    Ok(())
}

#[test]
fn processes_that_the_supervisor_starts_are_left_alone() -> Result<()> {
    let script = "sh -c 'echo inner >> ../images/file'; echo outer >> ../images/file";
    let struck = strike_script(script, 1_000_000, Blow::Fail(Errno::EIO))?;
    ensure!(matches!(struck.status, WaitStatus::Exited(_, 0)), "{:?}", struck.status);
    ensure!(struck.file == "inner\nouter\n", "the file holds {:?}", struck.file);
    ensure!(struck.seen.calls == 2, "the inner shell was followed: {:?}", struck.seen);
    Ok(())
}

#[test]
fn an_arena_ends_its_orphans() -> Result<()> {
    let arena = Arena::new()?;
    let mut command = arena.command("sh");
    command.args(["-c", "sleep 1000 & exit 0"]).stdin(Stdio::null());
    Running::start(&arena, "orphan", Output::Log, &mut command)?.wait(PATIENCE)?.well("the shell")?;
    // A process that is about to execute another program shows no environment for a moment.
    let found = || Ok(Some(arena.processes()).filter(|found| !found.is_empty()));
    let orphans = until(Duration::from_secs(10), "the orphan to be seen", found)?;
    ensure!(orphans.len() == 1, "found {orphans:?}");
    drop(arena);
    let gone = || Ok((!fs::exists(format!("/proc/{}/environ", orphans[0]))?).then_some(()));
    until(Duration::from_secs(10), "the orphan to be gone", gone)
}

#[test]
fn a_result_that_differs_in_one_bit_is_found() -> Result<()> {
    let program = SMALL.with(&[])?;
    let native = RunResult::native(&program)?;
    let arena = Arena::new()?;
    fs::write(arena.work().join("gate"), "")?;
    let mut command = arena.command(&program.path);
    let output = Output::File(arena.work().join("output"));
    Running::start(&arena, "again", output, &mut command)?.wait(PATIENCE)?.well("the victim")?;
    RunResult::read(&arena.work())?.must_equal(&native)?;
    let sums = arena.work().join("sums.bin");
    let mut bytes = fs::read(&sums)?;
    *bytes.last_mut().context("the victim writes sums")? ^= 1;
    fs::write(&sums, bytes)?;
    ensure!(RunResult::read(&arena.work())?.must_equal(&native).is_err(), "the flipped bit was not found");
    Ok(())
}

/// Judges a victim with this expectation and this body.
fn verdict(expect: &str, body: &str) -> Result<Verdict> {
    let source = format!(
        "/* Tries the harness.\n * expect: {expect}\n */\n#include \"check.h\"\nint main(void)\n{{ {body} }}\n"
    );
    trials::judge(&Feature::new("harness", source)?)
}

#[test]
fn a_broken_promise_of_a_feature_is_found() -> Result<()> {
    for (expect, body, named) in [
        ("survive", "puts(getenv(\"VICTIM_MOMENTS\") ? \"struck\" : \"not\"); moment(\"a\"); return 0;", "differs"),
        ("survive", "moment(\"a\"); return getenv(\"VICTIM_MOMENTS\") != NULL;", "exit status: 1"),
        ("survive", "return 0;", "no moment"),
        ("refuse \"a reason\"", "moment(\"a\"); return 0;", "doctor does not foresee"),
        ("refuse-restart \"a reason\"", "moment(\"a\"); return 0;", "should have been refused"),
    ] {
        let problem = verdict(expect, body).err().with_context(|| format!("found nothing wrong with {body}"))?;
        ensure!(format!("{problem:?}").contains(named), "another problem than {named:?} was found: {problem:?}");
    }
    Ok(())
}

#[test]
fn a_feature_that_the_machine_lacks_is_skipped_with_the_reason() -> Result<()> {
    let verdict = verdict("survive", "LACKS(\"such things\"); return 0;")?;
    ensure!(verdict == Verdict::Skipped(Lacking::system("this machine lacks such things")), "{verdict:?}");
    Ok(())
}
