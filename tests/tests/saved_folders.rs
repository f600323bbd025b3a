//! Folders that go with a job: a restart changes and removes only what is in them.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::PATIENCE;
use standfast_tests::victims::SMALL;
use std::fs;
use std::os::unix::fs::symlink;

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
