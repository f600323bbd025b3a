//! Files that replace others of the same name: results that are written under a temporary name, and programs.
#![allow(missing_docs, reason = "a test binary")]

use super::appending::{Shell, kill_everything};
use anyhow::{Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use std::fs;

/// Writes two results of 3 MiB, and stops in the middle of each and at the end.
const RESULTS: &str = r#"exec python3 -c "
import os, time
def stop(place):
    open('at-' + place, 'w').close()
    while not os.path.exists('after-' + place): time.sleep(0.01)
for place in 'first', 'second':
    part = open('result.part', 'wb')
    part.write(place.encode() * (3 << 18))
    part.flush()
    stop(place)
    part.write(b'.')
    part.close()
    os.replace('result.part', 'result')
stop('last')
""#;

#[test]
fn a_replaced_result_file_refuses_the_restart_or_is_put_back() -> Result<()> {
    for options in [&[][..], &["--save-folder", "auto"]] {
        let arena = Arena::new()?;
        let (shell, running) = Shell::run_with(&arena, RESULTS, options)?;
        let await_file = |name: &str| until(PATIENCE, name, || Ok(arena.work().join(name).exists().then_some(())));
        let pass = |place: &str| fs::write(arena.work().join(format!("after-{place}")), "");
        await_file("at-first")?;
        shell.standfast.checkpoint()?;
        pass("first")?;
        await_file("at-second")?;
        pass("second")?;
        await_file("at-last")?;
        shell.standfast.checkpoint()?;
        kill_everything(&arena)?;
        let told = running.wait(PATIENCE)?.errors;
        let restart = |name: &str| {
            let mut restart = shell.standfast.restart_command(&arena.images());
            Running::start(&arena, name, Output::Log, restart.args(["--at", "1"]))
        };
        if options.is_empty() {
            ensure!(told.contains("result.part") && told.contains("--save-folder auto"), "{told}");
            let refused = restart("refused")?.wait(PATIENCE)?.refusal("the restart")?;
            ensure!(refused.contains("result.part") && refused.contains("cannot be found"), "{refused}");
            continue;
        }
        ensure!(!told.contains("result.part"), "{told}");
        let mut restarted = restart("restart")?;
        until(PATIENCE, "the job to end", || {
            // The restart sets aside the files made since the checkpoint.
            ["first", "second", "last"].iter().try_for_each(|place| pass(place))?;
            Ok(restarted.has_ended()?.then_some(()))
        })?;
        restarted.wait(PATIENCE)?.well("the restart")?;
        ensure!(shell.text("result")? == format!("{}.", "second".repeat(3 << 18)), "another result");
    }
    Ok(())
}

/// Returns a script that makes a file with a second name, stops, and removes both names.
fn with_two_names(second: &str, at_last: &str) -> String {
    format!(
        r#"exec python3 -c "
import os, time
def stop(place):
    open('at-' + place, 'w').close()
    while not os.path.exists('after-' + place): time.sleep(0.01)
os.mkdir('elsewhere')
file = open('own', 'x+')
file.write('held')
file.flush()
os.link('own', '{second}')
stop('first')
file.seek(0)
print(file.read(), file=open('read', 'w'))
os.unlink('own')
os.unlink('{second}')
{at_last}
stop('last')
""#
    )
}

#[test]
fn a_file_that_lost_a_hard_link_refuses_the_restart() -> Result<()> {
    for (second, at_last, named) in [
        ("other", "open('other', 'x').close()", "other as well, which another file has now"),
        ("elsewhere/other", "", "1 more of its names were not in its directory"),
    ] {
        let arena = Arena::new()?;
        let (shell, running) = Shell::run_with(&arena, &with_two_names(second, at_last), &[])?;
        let await_file = |name: &str| until(PATIENCE, name, || Ok(arena.work().join(name).exists().then_some(())));
        await_file("at-first")?;
        shell.standfast.checkpoint()?;
        fs::write(arena.work().join("after-first"), "")?;
        await_file("at-last")?;
        kill_everything(&arena)?;
        running.wait(PATIENCE)?;
        let refused = shell.standfast.restart(&arena.images(), "refused")?.wait(PATIENCE)?.refusal("the restart")?;
        ensure!(refused.contains(named) && refused.contains("--files keep"), "{refused}");
        fs::remove_file(arena.work().join("read"))?;
        let mut restart = shell.standfast.restart_command(&arena.images());
        let mut restarted = Running::start(&arena, "kept", Output::Log, restart.args(["--files", "keep"]))?;
        until(PATIENCE, "what was held", || Ok(shell.text("read").is_ok_and(|read| read == "held\n").then_some(())))?;
        kill_everything(&arena)?;
        restarted.has_ended()?;
    }
    Ok(())
}

#[test]
fn a_running_binary_replaced_after_the_checkpoint_is_put_back() -> Result<()> {
    let arena = Arena::new()?;
    let script = "cp /bin/sh tool; ./tool -c 'echo begun > begun; while [ ! -e gate ]; do sleep 0.01; done; :'; \
                  ./tool -c 'echo ran > ran; :'; cp /bin/true new; mv new tool; echo done > replaced; \
                  while [ ! -e end ]; do sleep 0.01; done; echo done";
    let (shell, running) = Shell::run_with(&arena, script, &["--save-folder", "auto"])?;
    shell.await_text("begun", "begun")?;
    // The first of the two checkpoints makes sure that a copy of the running binary has been kept.
    shell.standfast.checkpoint()?;
    shell.standfast.checkpoint()?;
    standfast_tests::result::open_gate(&arena)?;
    shell.await_text("replaced", "done")?;
    kill_everything(&arena)?;
    running.wait(PATIENCE)?;
    let restarted = shell.standfast.restart(&arena.images(), "restart")?;
    let are_gone = || ["gate", "ran", "replaced"].iter().all(|name| !arena.work().join(name).exists());
    until(PATIENCE, "what has come since to be set aside", || Ok(are_gone().then_some(())))?;
    standfast_tests::result::open_gate(&arena)?;
    shell.await_text("replaced", "done")?;
    fs::write(arena.work().join("end"), "")?;
    restarted.wait(PATIENCE)?.well("the restart")?;
    ensure!(shell.text("ran")? == "ran\n", "the second run was another program");
    Ok(())
}
