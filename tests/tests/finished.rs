//! The end of a program: what Standfast reports to its user, what it leaves, and what it does with that.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{OUTPUT, open_gate};
use standfast_tests::running::{Ended, Output, PATIENCE, Running};
use standfast_tests::victims::Program;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A shell that prints its progress, waits at its gate, and ends as `end` says.
fn shell(end: &str) -> Program {
    let script = format!("echo begun; : > waiting; until [ -e gate ]; do sleep 0.02; done; echo done; {end}");
    Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] }
}

/// Runs a job that is checkpointed once and then ends by itself.
fn ended(arena: &Arena, options: &[&str], end: &str) -> Result<Ended> {
    let standfast = Standfast::new(arena)?;
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    let job = standfast.run_with(&options, Checkpoints::OnRequest, &shell(end))?;
    standfast.await_gate()?;
    standfast.checkpoint_when_supervised()?;
    open_gate(arena)?;
    job.wait(PATIENCE)
}

/// Runs a subcommand about the job, whatever its outcome.
fn about(arena: &Arena, words: &[&str]) -> Result<Ended> {
    let mut command = Standfast::new(arena)?.command(words);
    Running::complete(arena, words[0], command.arg(arena.images()))
}

fn output(arena: &Arena) -> Result<String> {
    Ok(fs::read_to_string(arena.work().join(OUTPUT))?)
}

fn names(folder: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let is_meant = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    Ok(entries.into_iter().map(|entry| entry.path()).filter(is_meant).collect())
}

#[test]
fn a_finished_job_is_restarted_only_from_a_given_checkpoint() -> Result<()> {
    let arena = Arena::new()?;
    ended(&arena, &[], "exit 0")?.well("the job")?;
    let again = about(&arena, &["restart"])?.well("a restart of what has finished")?;
    ensure!(again.errors.contains("finished") && again.errors.contains("--at 1"), "it said {}", again.errors);
    ensure!(output(&arena)? == "begun\ndone\n", "it ran again");
    let repeated = about(&arena, &["restart", "--at", "1"])?.well("a restart from a checkpoint")?;
    ensure!(!repeated.errors.contains("nothing to restart"), "it said {}", repeated.errors);
    ensure!(
        output(&arena)? == "begun\ndone\n" && repeated.errors.contains("cut"),
        "it did not run: {}",
        repeated.errors
    );
    arena.wait_until_empty(PATIENCE)
}

#[test]
fn a_program_that_failed_by_itself_is_not_advised_to_restart() -> Result<()> {
    for (end, told, is_own) in [
        ("exit 3", "ended with status 3", true),
        ("kill -SEGV $$", "SIGSEGV", true),
        ("kill -KILL $$", "SIGKILL", false),
    ] {
        let arena = Arena::new()?;
        let job = ended(&arena, &[], end)?;
        ensure!(job.exited(3) || job.killed_by(Signal::SIGSEGV) || job.killed_by(Signal::SIGKILL), "{}", job.status);
        ensure!(job.errors.contains(told), "{end}: it said {}", job.errors);
        ensure!(job.errors.contains("continue it with") != is_own, "{end}: it said {}", job.errors);
        ensure!(job.errors.contains("fails again") == is_own, "{end}: it said {}", job.errors);
        let status = about(&arena, &["status"])?.well("status")?.output;
        ensure!(status.contains(told) && status.contains("continue with") != is_own, "{end}: status says {status}");
    }
    Ok(())
}

#[test]
fn a_finished_job_reports_its_checkpoints_and_clean_removes_them() -> Result<()> {
    let arena = Arena::new()?;
    let job = ended(&arena, &[], "exit 0")?.well("the job")?;
    ensure!(job.errors.contains("1 checkpoint is left") && job.errors.contains("standfast clean"), "{}", job.errors);
    let rehearsed = about(&arena, &["clean", "--dry-run"])?.well("clean --dry-run")?;
    ensure!(rehearsed.output.contains("would remove 1 checkpoint"), "it said {}", rehearsed.output);
    ensure!(names(&arena.images(), "generation-")?.len() == 1, "something was removed by a dry run");
    let cleaned = about(&arena, &["clean"])?.well("clean")?;
    ensure!(cleaned.output.contains("removed 1 checkpoint"), "it said {}", cleaned.output);
    ensure!(!arena.images().exists(), "something is left");
    ensure!(names(&arena.cache().join("standfast/binaries"), "")?.is_empty(), "binaries stay that nobody shares");
    Ok(())
}

#[test]
fn clean_needs_unfinished_for_an_unfinished_job() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let job = standfast.run(Checkpoints::OnRequest, &shell("exit 0"))?;
    standfast.await_gate()?;
    standfast.checkpoint_when_supervised()?;
    for words in [&["clean"][..], &["clean", "--unfinished"], &["clean", "--unfinished", "--force"]] {
        about(&arena, words)?.refusal("clean of a live job")?;
    }
    ensure!(standfast.kill_job()?, "it ended by itself");
    job.wait(PATIENCE)?;
    arena.wait_until_empty(PATIENCE)?;
    let refused = about(&arena, &["clean"])?.refusal("clean of an unfinished job")?;
    ensure!(refused.contains("--unfinished") && refused.contains("standfast restart"), "it said {refused}");
    about(&arena, &["clean", "--unfinished", "--dry-run"])?.well("a dry run")?;
    ensure!(names(&arena.images(), "generation-")?.len() == 1, "a checkpoint is gone");
    fs::write(arena.images().join("notes"), "mine")?;
    let cleaned = about(&arena, &["clean", "--unfinished"])?.well("clean --unfinished")?;
    ensure!(cleaned.output.contains("notes"), "it said {}", cleaned.output);
    ensure!(names(&arena.images(), "")? == [arena.images().join("notes")], "the user's file did not stay alone");
    Ok(())
}

#[test]
fn keep_finished_no_removes_checkpoints_and_keeps_the_outcome() -> Result<()> {
    let arena = Arena::new()?;
    let job = ended(&arena, &["--keep-finished", "no"], "exit 0")?.well("the job")?;
    ensure!(!job.errors.contains("standfast clean"), "it said {}", job.errors);
    for prefix in ["generation-", "keepsake-"] {
        ensure!(names(&arena.images(), prefix)?.is_empty(), "{prefix} stays");
    }
    let restarted = about(&arena, &["restart"])?.well("a restart of what has finished")?;
    ensure!(restarted.errors.contains("finished"), "it said {}", restarted.errors);
    let failing = Arena::new()?;
    ended(&failing, &["--keep-finished", "no"], "exit 4")?;
    ensure!(names(&failing.images(), "generation-")?.len() == 1, "the checkpoint of a failure is gone");
    Ok(())
}

#[test]
fn a_job_is_unfinished_if_a_leftover_process_was_killed() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let rest = "echo $$ > pid; : > waiting; until [ -e gate ]; do sleep 0.02; done; echo late > late";
    let script = format!("sh -c '{rest}' & until [ -e waiting ]; do sleep 0.02; done; exit 0");
    let program = Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] };
    let options = ["--keep-finished", "no"].map(str::to_owned);
    standfast.run_with(&options, Checkpoints::OnRequest, &program)?.wait(PATIENCE)?.well("the program")?;
    standfast.checkpoint_when_supervised()?;
    let survivor: i32 = fs::read_to_string(arena.work().join("pid"))?.trim().parse()?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(survivor), Signal::SIGKILL)?;
    arena.wait_until_empty(PATIENCE)?;
    let status = about(&arena, &["status"])?.well("status")?.output;
    ensure!(status.contains("killed by SIGKILL") && status.contains("continue with"), "status says {status}");
    open_gate(&arena)?;
    about(&arena, &["restart", "--wait"])?.well("the restart")?;
    ensure!(arena.work().join("late").exists(), "it was not continued");
    arena.wait_until_empty(PATIENCE)
}

#[test]
fn leftovers_of_a_killed_program_are_not_checkpointed() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let script = "until [ -e gate ]; do sleep 0.02; done & : > waiting; wait; echo done > done";
    let program = Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] };
    let job = standfast.run(Checkpoints::EveryMilliseconds(3_600_000), &program)?;
    standfast.await_gate()?;
    standfast.checkpoint_when_supervised()?;
    let due = || -> Result<bool> { Ok(!standfast.status(&arena.images())?["live"]["next_due_seconds"].is_null()) };
    ensure!(due()?, "no checkpoint was due before");
    nix::sys::signal::kill(standfast.await_program()?, Signal::SIGKILL)?;
    let ended = job.wait(PATIENCE)?;
    ensure!(ended.killed_by(Signal::SIGKILL) && ended.errors.contains("standfast restart"), "{}", ended.errors);
    ensure!(!due()?, "its remains are to be checkpointed");
    open_gate(&arena)?;
    arena.wait_until_empty(PATIENCE)?;
    about(&arena, &["restart"])?.well("the restart")?;
    ensure!(arena.work().join("done").exists(), "the program itself was not continued");
    Ok(())
}

#[test]
fn jobs_share_saved_binaries_and_a_copied_job_keeps_its_own() -> Result<()> {
    let arena = Arena::new()?;
    ended(&arena, &[], "exit 0")?.well("the job")?;
    let first = names(&arena.images(), "keepsake-")?;
    ensure!(!first.is_empty(), "no binary was saved");
    let copied = arena.folder().join("copied");
    standfast_tests::command::copy_folder(&arena.images(), &copied)?;
    let moved = arena.folder().join("first");
    fs::rename(arena.images(), &moved)?;
    for signpost in ["waiting", "gate"] {
        fs::remove_file(arena.work().join(signpost))?;
    }
    ended(&arena, &[], "exit 0")?.well("the second job")?;
    // A binary that took too long to read at the only checkpoint of a job has no copy yet.
    let has_it = |binary: &&PathBuf| binary.file_name().is_some_and(|name| arena.images().join(name).is_file());
    let both: Vec<&PathBuf> = first.iter().filter(has_it).collect();
    ensure!(!both.is_empty(), "the second job has saved none of {first:?}");
    for binary in &both {
        let name = binary.file_name().context("it has a name")?;
        let inode = |folder: &Path| -> Result<u64> { Ok(fs::metadata(folder.join(name))?.ino()) };
        ensure!(inode(&moved)? == inode(&arena.images())?, "{} is not shared", name.display());
        ensure!(inode(&copied)? != inode(&moved)?, "{} is not copied", name.display());
    }
    fs::remove_dir_all(arena.cache())?;
    fs::remove_dir_all(&moved)?;
    for folder in [&copied, &arena.images()] {
        Standfast::new(&arena)?.verify(folder)?;
        for binary in &both {
            let name = binary.file_name().context("it has a name")?;
            ensure!(fs::metadata(folder.join(name))?.len() > 0, "{} is empty", name.display());
        }
    }
    Ok(())
}

/// Runs a job up to its gate, saves and kills it. Its restart comes to the end.
fn killed_before_its_end<'a>(arena: &'a Arena, options: &[&str]) -> Result<Standfast<'a>> {
    let standfast = Standfast::new(arena)?;
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    let job = standfast.run_with(&options, Checkpoints::OnRequest, &shell("exit 0"))?;
    standfast.await_gate()?;
    standfast.checkpoint_when_supervised()?;
    ensure!(standfast.kill_job()?, "it ended by itself");
    job.wait(PATIENCE)?;
    open_gate(arena)?;
    Ok(standfast)
}

#[test]
fn output_stays_in_its_file_unless_the_restart_redirects_it() -> Result<()> {
    for redirect in [false, true] {
        let arena = Arena::new()?;
        let standfast = killed_before_its_end(&arena, &[])?;
        let mut command = standfast.restart_command(&arena.images());
        command.args(redirect.then_some("--redirect"));
        let restarted =
            Running::start(&arena, "restart", Output::Log, &mut command)?.wait(PATIENCE)?.well("restart")?;
        let (own, old) = if redirect { ("done\n", "begun\n") } else { ("", "begun\ndone\n") };
        ensure!(restarted.output == own, "redirected {redirect}: the new file holds {:?}", restarted.output);
        ensure!(output(&arena)? == old, "redirected {redirect}: the old file holds {:?}", output(&arena)?);
        ensure!(restarted.errors.contains("--redirect") != redirect, "it said {}", restarted.errors);
    }
    Ok(())
}

#[test]
fn output_and_errors_of_two_files_can_be_redirected_to_one() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = killed_before_its_end(&arena, &[])?;
    let restart = standfast.restart_command(&arena.images());
    let mut command = arena.command("/bin/sh");
    command.args(["-c", r#"exec "$0" "$@" 2>&1"#]).arg(restart.get_program()).args(restart.get_args());
    command.arg("--redirect");
    let restarted = Running::start(&arena, "together", Output::Log, &mut command)?.wait(PATIENCE)?.well("restart")?;
    ensure!(restarted.output.lines().any(|line| line == "done"), "the file holds {:?}", restarted.output);
    Ok(())
}

#[test]
fn output_whose_file_is_gone_can_be_redirected() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = killed_before_its_end(&arena, &["--save-files=off"])?;
    fs::remove_file(arena.work().join(OUTPUT))?;
    let refused = about(&arena, &["restart"])?.refusal("a restart without its output")?;
    ensure!(refused.contains("--redirect"), "it said {refused}");
    let mut command = standfast.restart_command(&arena.images());
    command.arg("--redirect");
    let restarted = Running::start(&arena, "redirected", Output::Log, &mut command)?.wait(PATIENCE)?.well("restart")?;
    ensure!(restarted.output == "done\n", "the new file holds {:?}", restarted.output);
    Ok(())
}
