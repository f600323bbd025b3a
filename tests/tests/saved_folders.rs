//! Folders that go with a job: a restart changes and removes only what is in them.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::victims::SMALL;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

#[test]
fn a_restart_refuses_a_new_link_in_the_path_of_a_folder() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let work = arena.work();
    fs::create_dir_all(work.join("above/data"))?;
    fs::write(work.join("above/data/ours"), "ours")?;
    let options = ["--save-folder", "above/data"].map(str::to_owned);
    let running = standfast.run_with(&options, Checkpoints::OnRequest, &SMALL.with(&[])?)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    ensure!(standfast.kill_job()?, "the program had ended");
    running.wait(PATIENCE)?;
    // A link above the folder puts another folder in its place.
    fs::rename(work.join("above"), work.join("moved"))?;
    fs::create_dir_all(work.join("precious/data"))?;
    fs::write(work.join("precious/data/theirs"), "theirs")?;
    symlink("precious", work.join("above"))?;
    open_gate(&arena)?;
    let refused = standfast.restart(&arena.images(), "refused")?.wait(PATIENCE)?.refusal("a restart")?;
    ensure!(refused.contains("symbolic link"), "{refused}");
    ensure!(fs::read(work.join("precious/data/theirs"))? == b"theirs" && !work.join("precious/data/ours").exists());
    fs::remove_file(work.join("above"))?;
    fs::rename(work.join("moved"), work.join("above"))?;
    let restarted = standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?;
    restarted.well("the restarted job").with_context(|| arena.evidence()).map(drop)
}

/// Replaces `to` with a copy of a job's directory.
fn copy_job(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    ensure!(Command::new("cp").arg("-a").args([from, to]).status()?.success(), "cp -a");
    Ok(())
}

#[test]
fn a_restart_leaves_the_checkpoints_of_other_jobs_as_they_are() -> Result<()> {
    for (options, policy) in
        [(&[][..], "rollback"), (&["--save-folder", "auto"], "auto"), (&["--save-folder", "data"], "auto")]
    {
        let arena = Arena::new()?;
        let standfast = Standfast::new(&arena)?;
        let (early, late) = (arena.work().join("data/early"), arena.work().join("data/late"));
        fs::create_dir(arena.work().join("data"))?;
        let options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
        let running = standfast.run_with(&options, Checkpoints::OnRequest, &SMALL.with(&[])?)?;
        standfast.await_gate()?;
        standfast.checkpoint()?;
        copy_job(&arena.images(), &early)?;
        standfast.checkpoint()?;
        ensure!(standfast.kill_job()?, "the program had ended");
        running.wait(PATIENCE)?;
        // One of them was there at the checkpoint, in an earlier state; the other one was not.
        for copy in [&early, &late] {
            copy_job(&arena.images(), copy)?;
        }
        let mut restart = standfast.restart_command(&arena.images());
        restart.args(["--files", policy]);
        let mut restarted = Running::start(&arena, "restart", Output::Log, &mut restart)?;
        until(PATIENCE, "the job to end", || {
            // The restart may set the gate aside, which was made since the checkpoint.
            open_gate(&arena)?;
            Ok(restarted.has_ended()?.then_some(()))
        })?;
        restarted.wait(PATIENCE)?.well("the restart")?;
        for copy in [&early, &late] {
            let listed = Command::new("ls").arg(copy).output()?;
            standfast.ask("verify", copy, &[])?.well("verifying a copy").with_context(|| format!("{listed:?}"))?;
        }
    }
    Ok(())
}
