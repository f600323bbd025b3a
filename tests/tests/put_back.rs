//! Files that a restart puts back: older ones that the job has changed, and open ones that an earlier restart has made again.
#![allow(missing_docs, reason = "a test binary")]

use super::appending::{Shell, WAIT, kill_everything};
use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::running::{PATIENCE, until};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use tempfile::NamedTempFile;

#[test]
fn an_older_file_is_put_back_if_saved_and_else_reported() -> Result<()> {
    let arena = Arena::new()?;
    for name in ["early.txt", "late.txt"] {
        fs::write(arena.work().join(name), "old text\n")?;
    }
    // The kernel reports the creation time of a file to the precision of its tick.
    sleep(Duration::from_millis(50));
    let script = format!(
        "{WAIT} echo one > early.txt; echo begun > begun; await gate; echo two >> early.txt; echo two > late.txt; \
         echo done > written; await end; echo done"
    );
    let (shell, running) = Shell::run_with(&arena, &script, &["--save-folder", "auto"])?;
    shell.await_text("begun", "begun")?;
    for _ in 0..3 {
        shell.standfast.checkpoint()?;
    }
    standfast_tests::result::open_gate(&arena)?;
    shell.await_text("written", "done")?;
    kill_everything(&arena)?;
    let told = running.wait(PATIENCE)?.errors;
    ensure!(!told.contains("--files"), "it is saved, and needs no word: {told}");
    let restarted = shell.standfast.restart(&arena.images(), "restart")?;
    let are_gone = || ["gate", "written"].iter().all(|name| !arena.work().join(name).exists());
    until(PATIENCE, "what has come since to be set aside", || Ok(are_gone().then_some(())))?;
    standfast_tests::result::open_gate(&arena)?;
    shell.await_text("written", "done")?;
    fs::write(arena.work().join("end"), "")?;
    let errors = restarted.wait(PATIENCE)?.well("the restart")?.errors;
    ensure!(shell.text("early.txt")? == "one\ntwo\n", "{:?}", shell.text("early.txt")?);
    ensure!(errors.contains("late.txt") && errors.contains("did not save them"), "{errors}");
    Ok(())
}

/// Returns the number of a file's inode; 0 if there is no such file.
fn inode(file: impl AsRef<Path>) -> u64 {
    fs::metadata(file).map_or(0, |status| status.ino())
}

#[test]
fn an_open_file_that_a_restart_made_again_is_put_back_by_the_next_one() -> Result<()> {
    let arena = Arena::new()?;
    let script = format!(
        "{WAIT} mkdir part; exec 3> part/passed; echo one >&3; echo begun > begun; \
         await gate; echo two >&3; await end; echo done"
    );
    let (shell, running) = Shell::run_with(&arena, &script, &["--save-folder", "auto"])?;
    shell.await_text("begun", "begun")?;
    shell.standfast.checkpoint()?;
    standfast_tests::result::open_gate(&arena)?;
    shell.await_text("part/passed", "two")?;
    kill_everything(&arena)?;
    running.wait(PATIENCE)?;
    // A restart that was interrupted has made the file again. File systems like ext4 give it the inode number of the
    // removed one.
    let passed = arena.work().join("part/passed");
    let number = inode(&passed);
    fs::remove_file(&passed)?;
    let mut made = Vec::new();
    while made.len() < 100 && made.last().is_none_or(|file| inode(file) != number) {
        made.push(NamedTempFile::new_in(arena.folder())?);
    }
    let file = made.pop().context("no file was made")?;
    fs::write(&file, "one\ntwo\n")?;
    file.persist(&passed)?;
    let is_closed = || Ok((!arena.work().join("gate").exists()).then_some(()));
    for restart in ["restart-1", "restart-2"] {
        let mut running = shell.standfast.restart(&arena.images(), restart)?;
        until(PATIENCE, "the gate, which is new, to be set aside", || {
            if running.has_ended()? { Ok(Some(())) } else { is_closed() }
        })?;
        standfast_tests::result::open_gate(&arena)?;
        if restart == "restart-2" {
            fs::write(arena.work().join("end"), "")?;
            running.wait(PATIENCE)?.well("the job")?;
            break;
        }
        ensure!(!running.has_ended()?, "{}", running.wait(PATIENCE)?.errors);
        shell.await_text("part/passed", "two")?;
        kill_everything(&arena)?;
        running.wait(PATIENCE)?;
    }
    ensure!(shell.text("part/passed")? == "one\ntwo\n", "{}", shell.text("part/passed")?);
    Ok(())
}
