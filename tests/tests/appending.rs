//! Files that a program opens, writes and closes each time, or leaves to other programs of the job. The tests kill
//! everything at random moments, program and supervisor, and restart it at once. The result is that of an undisturbed
//! run, or Standfast has warned the user before the first kill.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::RunResult;
use standfast_tests::running::{Output, PATIENCE, Running, patience_for_a_whole_run, until};
use standfast_tests::victims::{APPEND_NODE, APPEND_SHELL, COMPILER_FILES, DATABASE, Program, Victim};
use standfast_tests::{seed, skip};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(100);
const KILLS: u32 = 5;
/// By this checkpoint Standfast has warned the user, if there is anything to warn about.
const TOLD_BY: u64 = 4;

/// How a program survived.
#[derive(Debug, PartialEq, Eq)]
enum Passage {
    /// The program was killed this many times, and gave the undisturbed result.
    Undisturbed(u32),
    /// Standfast warned the user with this text before the first kill.
    Told(String),
}

/// Kills everything, program and supervisor, and waits until the kernel has finished with all of it.
pub(crate) fn kill_everything(arena: &Arena) -> Result<()> {
    let all = arena.processes();
    arena.clear();
    until(PATIENCE, "everything to end", || {
        let lives = |pid: &Pid| {
            // The threads of a process do not all end at once, and the main thread may not be the last to end.
            let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            threads.into_iter().any(|thread| {
                let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
                stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
            })
        };
        Ok((!all.iter().any(lives)).then_some(()))
    })
}

fn killed_with_everything(victim: Victim, options: &[&str]) -> Result<Option<Passage>> {
    let Some(program) = victim.program()? else {
        skip(victim.name, &victim.lacking());
        return Ok(None);
    };
    let native = RunResult::native(&program)?;
    let (arena, seed) = (Arena::new()?, seed());
    let outcome = killed(&arena, &program, &native, options, &mut Rng::with_seed(seed));
    outcome.map(Some).with_context(|| format!("STANDFAST_SEED={seed} {}", arena.evidence()))
}

fn killed(arena: &Arena, program: &Program, native: &RunResult, options: &[&str], random: &mut Rng) -> Result<Passage> {
    let standfast = Standfast::new(arena)?;
    let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
    let mut running =
        standfast.run_with(&options, Checkpoints::EveryMilliseconds(INTERVAL.as_millis() as u64), program)?;
    // A program that has written nothing yet is not known as one that appends.
    let before = until(PATIENCE, "the first file", || {
        let has_written = running.has_ended()? || fs::read_dir(arena.work())?.next().is_some();
        has_written.then(|| Ok(standfast.newest_generation(&arena.images())?.unwrap_or(0))).transpose()
    })?;
    until(PATIENCE, "some checkpoints", || {
        let newest = standfast.newest_generation(&arena.images())?.unwrap_or(0);
        Ok((running.has_ended()? || newest >= before + TOLD_BY).then_some(()))
    })?;
    let told = running.errors_so_far();
    if told.contains("--save-f") || told.contains("--files") {
        return Ok(Passage::Told(told));
    }
    let mut kills = 0;
    loop {
        if kills == KILLS || running.has_ended()? {
            running.wait(patience_for_a_whole_run())?.well("the job")?;
            break;
        }
        sleep(INTERVAL.mul_f64(random.f64() * 3.0));
        kill_everything(arena)?;
        if running.wait(PATIENCE)?.exited(0) {
            break;
        }
        kills += 1;
        running = standfast.restart(&arena.images(), &format!("restart-{kills}"))?;
        until(PATIENCE, "a checkpoint of the restarted job", || {
            let begun = running.has_ended()? || standfast.status(&arena.images())?["live"].is_object();
            Ok(begun.then_some(()))
        })?;
    }
    RunResult::read(&arena.work())?.must_equal(native)?;
    Ok(Passage::Undisturbed(kills))
}

fn is_undisturbed(victim: Victim, options: &[&str]) -> Result<()> {
    match killed_with_everything(victim, options)? {
        Some(Passage::Told(told)) => bail!("there is nothing to tell, but it was told: {told}"),
        Some(Passage::Undisturbed(kills)) => {
            ensure!(kills > 0, "it was never killed");
            Ok(())
        }
        None => Ok(()),
    }
}

#[test]
fn lines_that_a_shell_appends_are_neither_lost_nor_doubled() -> Result<()> {
    is_undisturbed(APPEND_SHELL, &[])
}

#[test]
fn lines_that_node_appends_are_neither_lost_nor_doubled() -> Result<()> {
    is_undisturbed(APPEND_NODE, &[])
}

#[test]
fn a_database_is_saved_and_survives() -> Result<()> {
    is_undisturbed(DATABASE, &[])
}

#[test]
fn a_database_above_the_save_limit_is_reported() -> Result<()> {
    match killed_with_everything(DATABASE, &["--save-files=1M"])? {
        Some(Passage::Told(told)) => {
            ensure!(told.contains("measured.db") && told.contains("--save-files"), "{told}");
            Ok(())
        }
        Some(Passage::Undisturbed(_)) => bail!("the user was not told"),
        None => Ok(()),
    }
}

#[test]
fn unsaved_temporary_files_of_a_compiler_are_reported() -> Result<()> {
    match killed_with_everything(COMPILER_FILES, &[])? {
        Some(Passage::Told(told)) => {
            ensure!(told.contains("/cc") && told.contains("--save-folder"), "{told}");
            Ok(())
        }
        Some(Passage::Undisturbed(_)) => bail!("the user was not told"),
        None => Ok(()),
    }
}

#[test]
fn lines_appended_by_a_shell_survive_with_an_auto_folder() -> Result<()> {
    is_undisturbed(APPEND_SHELL, &["--save-folder", "auto"])
}

#[test]
fn lines_appended_by_node_survive_with_an_auto_folder() -> Result<()> {
    is_undisturbed(APPEND_NODE, &["--save-folder", "auto"])
}

#[test]
fn a_database_survives_with_an_auto_folder() -> Result<()> {
    is_undisturbed(DATABASE, &["--save-folder", "auto"])
}

#[test]
fn temporary_files_of_a_compiler_survive_with_an_auto_folder() -> Result<()> {
    is_undisturbed(COMPILER_FILES, &["--save-folder", "auto"])
}

#[test]
fn a_temporary_file_open_in_a_program_is_reported() -> Result<()> {
    let (arena, other) = (Arena::new()?, Arena::new()?);
    // `mktemp` makes the file; the program that receives its name has it open for writing.
    let script = format!(
        "{WAIT} file=$(mktemp {}/XXXXXX); echo made > made; \
         sh -c 'exec > $0; while [ ! -e end ]; do sleep 0.01; done' $file; echo done",
        other.work().display()
    );
    let (shell, running) = Shell::run(&arena, &script)?;
    shell.await_text("made", "made")?;
    until(PATIENCE, "the program that writes", || {
        let open = other_writers_of(&arena, &other.work());
        Ok(open.then_some(()))
    })?;
    shell.standfast.checkpoint()?;
    until(PATIENCE, "the warning", || Ok(running.errors_so_far().contains("--save-folder").then_some(())))?;
    fs::write(arena.work().join("end"), "")?;
    running.wait(PATIENCE)?.well("the job")?;
    Ok(())
}

/// Reports whether a process of the arena has a file in `place` as its standard output.
fn other_writers_of(arena: &Arena, place: &Path) -> bool {
    let output = |pid: &Pid| fs::read_link(format!("/proc/{pid}/fd/1"));
    arena.processes().iter().any(|pid| output(pid).is_ok_and(|path| path.starts_with(place)))
}

#[test]
fn an_output_file_named_on_the_command_line_causes_no_warning() -> Result<()> {
    let (arena, other) = (Arena::new()?, Arena::new()?);
    let script = format!(
        "{WAIT} sh -c 'exec > $0; while [ ! -e end ]; do sleep 0.01; done' {}/results; echo done",
        other.work().display()
    );
    let (shell, running) = Shell::run(&arena, &script)?;
    until(PATIENCE, "the program that writes", || Ok(other_writers_of(&arena, &other.work()).then_some(())))?;
    for _ in 0..4 {
        shell.standfast.checkpoint()?;
    }
    fs::write(arena.work().join("end"), "")?;
    let told = running.wait(PATIENCE)?.well("the job")?.errors;
    ensure!(!told.contains("--save-f"), "{told}");
    Ok(())
}

#[test]
fn a_truncated_file_gets_its_old_modification_time() -> Result<()> {
    let arena = Arena::new()?;
    let script = format!("{WAIT} echo one >> results.txt; await gate; echo two >> results.txt; await end; echo done");
    let (shell, running) = Shell::run(&arena, &script)?;
    shell.await_text("results.txt", "one\n")?;
    let modified = || arena.work().join("results.txt").metadata()?.modified().context("the time of a file");
    let was = modified()?;
    shell.standfast.checkpoint()?;
    // Longer than a tick of the clock that dates files.
    sleep(Duration::from_millis(50));
    standfast_tests::result::open_gate(&arena)?;
    shell.await_text("results.txt", "two\n")?;
    kill_everything(&arena)?;
    running.wait(PATIENCE)?;
    ensure!(modified()? != was, "the second line has the time of the first");
    fs::remove_file(arena.work().join("gate"))?;
    let restarted = shell.standfast.restart(&arena.images(), "restart")?;
    until(PATIENCE, "the restart", || Ok(shell.standfast.status(&arena.images())?["live"].is_object().then_some(())))?;
    ensure!(shell.text("results.txt")? == "one\n" && modified()? == was, "it does not show the time that it had");
    standfast_tests::result::open_gate(&arena)?;
    fs::write(arena.work().join("end"), "")?;
    restarted.wait(PATIENCE)?.well("the restart")?;
    ensure!(shell.text("results.txt")? == "one\ntwo\n", "{:?}", shell.text("results.txt")?);
    Ok(())
}

#[test]
fn files_passed_between_programs_are_reported() -> Result<()> {
    let (arena, other) = (Arena::new()?, Arena::new()?);
    let part = other.work().join("part.s");
    let script = format!(
        "{WAIT} echo code > {0}; sh -c 'while [ ! -e end ]; do sleep 0.01; done' sh {0}; echo done",
        part.display()
    );
    let (shell, running) = Shell::run(&arena, &script)?;
    until(PATIENCE, "the file", || Ok(part.exists().then_some(())))?;
    for _ in 0..4 {
        shell.standfast.checkpoint()?;
    }
    fs::write(arena.work().join("end"), "")?;
    let told = running.wait(PATIENCE)?.well("the job")?.errors;
    ensure!(told.contains("part.s") && told.contains("--save-folder"), "{told}");
    Ok(())
}

/// A job whose main program is a shell that runs `script`, which waits for files that the test makes.
pub(crate) struct Shell<'a> {
    arena: &'a Arena,
    pub(crate) standfast: Standfast<'a>,
}

impl<'a> Shell<'a> {
    fn run(arena: &'a Arena, script: &str) -> Result<(Self, Running)> {
        Self::run_with(arena, script, &[])
    }

    pub(crate) fn run_with(arena: &'a Arena, script: &str, options: &[&str]) -> Result<(Self, Running)> {
        let standfast = Standfast::new(arena)?;
        let program = Program { path: PathBuf::from("/bin/sh"), arguments: vec!["-c".into(), script.into()] };
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
        standfast.await_program()?;
        Ok((Self { arena, standfast }, running))
    }

    /// Waits until the file `name` contains `wanted`.
    pub(crate) fn await_text(&self, name: &str, wanted: &str) -> Result<()> {
        until(PATIENCE, &format!("{wanted:?} in {name}"), || {
            let text = fs::read_to_string(self.arena.work().join(name)).unwrap_or_default();
            Ok(text.contains(wanted).then_some(()))
        })
    }

    fn append(&self, name: &str, text: &str) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.arena.work().join(name))?;
        file.write_all(text.as_bytes()).context("appending")
    }

    pub(crate) fn text(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.arena.work().join(name)).with_context(|| format!("reading {name}"))
    }
}

/// Waits for a file that the test makes.
pub(crate) const WAIT: &str = "await() { while [ ! -e \"$1\" ]; do sleep 0.01; done; };";

#[test]
fn an_older_appended_file_refuses_the_restart_without_a_policy() -> Result<()> {
    for (policy, wanted) in [("rollback", "old\none\ntwo\n"), ("keep", "old\none\ntwo\ntwo\n")] {
        let arena = Arena::new()?;
        fs::write(arena.work().join("results.txt"), "old\n")?;
        // The kernel reports the creation time of a file to the precision of its tick.
        sleep(Duration::from_millis(50));
        let script =
            format!("{WAIT} echo one >> results.txt; await gate; echo two >> results.txt; await end; echo done");
        let (shell, running) = Shell::run(&arena, &script)?;
        shell.await_text("results.txt", "one\n")?;
        shell.standfast.checkpoint()?;
        standfast_tests::result::open_gate(&arena)?;
        shell.await_text("results.txt", "two\n")?;
        kill_everything(&arena)?;
        running.wait(PATIENCE)?;
        let refused = shell.standfast.restart(&arena.images(), "refused")?.wait(PATIENCE)?.refusal("the restart")?;
        ensure!(refused.contains("results.txt") && refused.contains("--files rollback"), "{refused}");
        let mut restart = shell.standfast.restart_command(&arena.images());
        restart.args(["--files", policy]);
        fs::write(arena.work().join("end"), "")?;
        Running::complete(&arena, "restart", &mut restart)?.well("the restart")?;
        ensure!(shell.text("results.txt")? == wanted, "{policy}: {:?}", shell.text("results.txt")?);
    }
    Ok(())
}

#[test]
fn files_of_others_in_the_working_directory_stay() -> Result<()> {
    let arena = Arena::new()?;
    let script = format!("{WAIT} echo one >> results.txt; await gate; echo two >> results.txt; await end; echo done");
    let (shell, running) = Shell::run(&arena, &script)?;
    shell.await_text("results.txt", "one\n")?;
    shell.standfast.checkpoint()?;
    shell.append("notes-of-the-user.txt", "do not lose this\n")?;
    standfast_tests::result::open_gate(&arena)?;
    shell.await_text("results.txt", "two\n")?;
    kill_everything(&arena)?;
    running.wait(PATIENCE)?;
    fs::write(arena.work().join("end"), "")?;
    let restarted = shell.standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("the restart")?;
    ensure!(restarted.errors.contains("results.txt"), "what was cut off is not said: {}", restarted.errors);
    ensure!(shell.text("results.txt")? == "one\ntwo\n", "{:?}", shell.text("results.txt")?);
    ensure!(shell.text("notes-of-the-user.txt")? == "do not lose this\n", "the user's file has been touched");
    Ok(())
}

#[test]
fn files_with_computed_names_are_reported_or_put_back() -> Result<()> {
    // Neither the memory of the shell nor the script contains any of these names.
    let script = format!(
        "{WAIT} await gate; mkdir out.$((1 + 1)); for i in 1 2 3; do echo line >> log.$((i * 7)); \
         echo line >> out.$((1 + 1))/log.$((i * 7)); done; ln -s there link.$((1 + 1)); echo done > written; await end; \
         echo done"
    );
    for (options, wanted) in [(&[][..], "line\nline\n"), (&["--save-folder", "auto"], "line\n")] {
        let arena = Arena::new()?;
        let (shell, running) = Shell::run_with(&arena, &script, options)?;
        shell.standfast.checkpoint()?;
        standfast_tests::result::open_gate(&arena)?;
        shell.await_text("written", "done")?;
        kill_everything(&arena)?;
        running.wait(PATIENCE)?;
        let restarted = shell.standfast.restart(&arena.images(), "restart")?;
        if !options.is_empty() {
            // The gate, too, has been made since the checkpoint.
            let are_gone = || {
                ["gate", "written", "link.2"]
                    .iter()
                    .all(|name| !arena.work().join(name).is_symlink() && !arena.work().join(name).exists())
            };
            until(PATIENCE, "what has come since to be set aside", || Ok(are_gone().then_some(())))?;
            standfast_tests::result::open_gate(&arena)?;
        }
        shell.await_text("written", "done")?;
        fs::write(arena.work().join("end"), "")?;
        let errors = restarted.wait(PATIENCE)?.errors;
        for name in ["log.7", "log.21"] {
            ensure!(shell.text(name)? == wanted, "{options:?} {name}: {:?} {errors}", shell.text(name)?);
        }
        if options.is_empty() {
            ensure!(errors.contains("log.") && errors.contains("--files rollback"), "{errors}");
        } else {
            ensure!(shell.text("out.2/log.14")? == wanted, "{:?} {errors}", shell.text("out.2/log.14")?);
            ensure!(errors.contains("kept in"), "{errors}");
        }
    }
    Ok(())
}

/// Adds a row to a database, in a program of its own.
const ADD: &str = "add() { python3 -c \"import sqlite3; base = sqlite3.connect('runs.db'); \
    base.execute('create table if not exists runs (name text)'); base.execute('insert into runs values (?)', ['$1']); \
    base.commit()\"; echo $1 >> written; };";

#[test]
fn a_closed_database_refuses_the_restart_or_is_put_back() -> Result<()> {
    let script = format!(
        "{WAIT} {ADD} add one; await two; add two; await three; add three; await end; \
         python3 -c \"import sqlite3; print(*sqlite3.connect('runs.db').execute('select name from runs'))\" > rows"
    );
    for (options, policy, wanted) in [
        (&[][..], "keep", "('one',) ('two',) ('three',) ('three',)\n"),
        (&["--save-folder", "auto"], "auto", "('one',) ('two',) ('three',)\n"),
    ] {
        let arena = Arena::new()?;
        let (shell, running) = Shell::run_with(&arena, &script, options)?;
        shell.await_text("written", "one")?;
        shell.standfast.checkpoint()?;
        fs::write(arena.work().join("two"), "")?;
        shell.await_text("written", "two")?;
        shell.standfast.checkpoint()?;
        fs::write(arena.work().join("three"), "")?;
        shell.await_text("written", "three")?;
        kill_everything(&arena)?;
        let told = running.wait(PATIENCE)?.errors;
        if options.is_empty() {
            ensure!(told.contains("runs.db") && told.contains("--save-folder auto"), "{told}");
            let refused =
                shell.standfast.restart(&arena.images(), "refused")?.wait(PATIENCE)?.refusal("the restart")?;
            ensure!(refused.contains("runs.db") && refused.contains("--files keep"), "{refused}");
        } else {
            ensure!(!told.contains("runs.db"), "{told}");
        }
        let mut restart = shell.standfast.restart_command(&arena.images());
        restart.args(["--files", policy]);
        let mut restarted = Running::start(&arena, "restart", Output::Log, &mut restart)?;
        until(PATIENCE, "the job to end", || {
            // The restart may set aside what has been made since the checkpoint.
            ["three", "end"].iter().try_for_each(|gate| fs::write(arena.work().join(gate), ""))?;
            Ok(restarted.has_ended()?.then_some(()))
        })?;
        let errors = restarted.wait(PATIENCE)?.well("the restart")?.errors;
        ensure!(shell.text("rows")? == wanted, "{options:?}: {:?} {errors}", shell.text("rows")?);
    }
    Ok(())
}

#[test]
fn lines_appended_after_the_program_ended_refuse_the_restart() -> Result<()> {
    let arena = Arena::new()?;
    let script = format!("{WAIT} echo one >> results.txt; await gate; echo two >> results.txt; await end; echo done");
    let (shell, running) = Shell::run(&arena, &script)?;
    shell.await_text("results.txt", "one\n")?;
    shell.standfast.checkpoint()?;
    standfast_tests::result::open_gate(&arena)?;
    shell.await_text("results.txt", "two\n")?;
    ensure!(shell.standfast.kill_job()?, "the program has ended");
    running.wait(PATIENCE)?;
    // Longer than a tick of the clock that dates files.
    sleep(Duration::from_millis(100));
    shell.append("results.txt", "by hand\n")?;
    let refused = shell.standfast.restart(&arena.images(), "refused")?.wait(PATIENCE)?.refusal("the restart")?;
    ensure!(refused.contains("results.txt") && refused.contains("since the program ended"), "{refused}");
    ensure!(shell.text("results.txt")?.ends_with("by hand\n"), "it was cut back all the same");
    Ok(())
}
