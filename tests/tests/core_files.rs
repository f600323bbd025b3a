//! Core files of checkpoints: gdb finds the threads, the stacks and the memory of that moment in them.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast, standfast_binary};
use standfast_tests::moments::{FOLDER_VARIABLE, Moments};
use standfast_tests::result::OUTPUT;
use standfast_tests::running::{Ended, Output, PATIENCE, Running};
use standfast_tests::victims::{DEBUGGED, Program, SMALL};
use standfast_tests::{Lacking, skip};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The page on which users find the recipe.
const PAGE: &str = include_str!("../../docs/debugging.md");
/// Where the data area of an image begins.
const DATA_OFFSET: u64 = 4096;

/// A job of the program with known values.
struct Scene {
    arena: Arena,
    job: Running,
    moments: Moments,
    program: Program,
}

impl Scene {
    /// Returns `None` without gdb.
    fn set(promise: &str, options: &[&str], arguments: &[&str]) -> Result<Option<Self>> {
        if lacks_gdb(promise) {
            return Ok(None);
        }
        Self::begin(Arena::new()?, DEBUGGED.with(arguments)?, options).map(Some)
    }

    fn begin(arena: Arena, program: Program, options: &[&str]) -> Result<Self> {
        let moments = Moments::new(&arena)?;
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let mut run = Standfast::new(&arena)?.run_command_with(&options, Checkpoints::OnRequest, &program);
        let output = Output::File(arena.work().join(OUTPUT));
        let job = Running::start(&arena, "run", output, run.env(FOLDER_VARIABLE, moments.folder()))?;
        Ok(Self { arena, job, moments, program })
    }

    /// Takes a checkpoint after each 50th round, `count` times. The program then waits after the last of these.
    fn checkpoints(&mut self, count: u32) -> Result<()> {
        for number in 1..=count {
            let moment = self.moments.reached(number, &mut self.job)?.context("the job has ended too early")?;
            Standfast::new(&self.arena)?.checkpoint()?;
            if number < count {
                self.moments.open(&moment)?;
            }
        }
        Ok(())
    }

    fn core(&self, options: &[&str]) -> Result<Ended> {
        Standfast::new(&self.arena)?.ask("core", &self.arena.images(), options)
    }

    fn report(&self, options: &[&str]) -> Result<Value> {
        let said = self.core(&[options, &["--json"]].concat())?.well("core")?;
        serde_json::from_str(&said.output).context("core --json")
    }

    /// Returns the core files that the command reports, those of parents first.
    fn written(&self, options: &[&str]) -> Result<Vec<PathBuf>> {
        let report = self.report(options)?;
        let files = report["files"].as_array().context("the report lists files")?;
        ensure!(files.iter().all(|file| file["changed"] == Value::Array(Vec::new())), "no file has changed: {report}");
        let path = |file: &Value| file["path"].as_str().map(|path| self.arena.work().join(path));
        files.iter().map(path).collect::<Option<Vec<_>>>().context("each file has a path")
    }

    /// Returns what gdb says to some commands.
    fn gdb(&self, core: &Path, commands: &[&str]) -> Result<String> {
        self.gdb_with(&self.program.path, core, commands)
    }

    fn gdb_with(&self, program: &Path, core: &Path, commands: &[&str]) -> Result<String> {
        let mut gdb = self.arena.command("gdb");
        // Without the user's own settings, and without a server to ask for debugging information.
        gdb.args(["-nx", "-batch"]).env_remove("DEBUGINFOD_URLS");
        commands.iter().for_each(|command| _ = gdb.args(["-ex", command]));
        let said = Running::complete(&self.arena, "gdb", gdb.arg(program).arg(core))?.well("gdb")?;
        ensure!(!said.errors.contains("warning: core file"), "gdb does not like it: {}", said.errors);
        Ok(said.output)
    }

    fn ends_well(self) -> Result<()> {
        self.moments.open_all()?;
        self.job.wait(PATIENCE)?.well("the job")?;
        ensure!(
            fs::read_to_string(self.arena.work().join(OUTPUT))? == "debugged: 1000\n",
            "it has come to another end"
        );
        self.arena.wait_until_empty(PATIENCE)
    }
}

fn lacks_gdb(promise: &str) -> bool {
    let is_missing = Command::new("gdb").arg("--version").output().is_err();
    if is_missing {
        skip(promise, &Lacking::program("gdb"));
    }
    is_missing
}

/// Checks that `said` contains each of these, as often as it says.
fn ensure_said(said: &str, wanted: &[(&str, usize)]) -> Result<()> {
    for (part, times) in wanted {
        let found = said.matches(part).count();
        ensure!(found == *times, "{part:?} comes {found} times instead of {times}:\n{said}");
    }
    Ok(())
}

#[test]
fn gdb_finds_the_threads_and_values_of_a_checkpoint_that_inherits_pages() -> Result<()> {
    let Some(mut scene) = Scene::set("gdb reads core files", &["--incremental", "on"], &[])? else { return Ok(()) };
    scene.checkpoints(2)?;
    let status = Standfast::new(&scene.arena)?.status(&scene.arena.images())?;
    ensure!(status["generations"][1]["pages_inherited"].as_u64() > Some(200), "it inherits too little: {status}");
    let files = scene.written(&[])?;
    let [main, child] = &files[..] else { anyhow::bail!("two processes, and {files:?}") };
    let name = main.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ensure!(name.starts_with("core.debugged.") && main != child, "{files:?}");
    ensure!(fs::metadata(main)?.permissions().mode() & 0o777 == 0o600, "others may read it");
    let questions = [
        "thread apply all bt full",
        "print energy",
        "print round_number",
        "print (int)constant[777777]",
        "print greeting",
        "print (int)untouched[4321]",
    ];
    let said = scene.gdb(main, &questions)?;
    let wanted = [
        ("\nThread ", 3),
        ("in main (argc=1", 1),
        ("in count_a_round () at", 1),
        ("moment (name=", 1),
        ("wait_for_end (depth=0, number=7)", 1),
        ("wait_for_end (depth=2, number=8)", 1),
        ("local = 207\n", 1),
        ("local = 108\n", 1),
        ("$1 = 1000\n", 1),
        ("$2 = 100\n", 1),
        ("$3 = 179\n", 1),
        ("$4 = \"as the linker wrote it\"\n", 1),
        ("$5 = 0\n", 1),
    ];
    ensure_said(&said, &wanted)?;
    ensure!(777_777 % 251 == 179, "the program computes this");
    let said = scene.gdb(child, &["bt", "print energy"])?;
    ensure_said(&said, &[("in child_waits () at", 1), ("in main (argc=1", 1), ("$1 = -1\n", 1)])?;
    scene.ends_well()
}

#[test]
#[ignore = "1 s of gdb; that newer checkpoints are read is tested"]
fn a_core_file_shows_the_requested_checkpoint_of_a_dead_job() -> Result<()> {
    let options = ["--keep", "4", "--compress", "lz4"];
    let Some(mut scene) = Scene::set("gdb reads core files", &options, &[])? else { return Ok(()) };
    scene.checkpoints(3)?;
    Standfast::new(&scene.arena)?.kill_job()?;
    let rounds = ["print round_number"];
    let files = scene.written(&["--at", "1", "-o", "first"])?;
    ensure!(files.len() == 2 && files.iter().all(|file| file.exists()), "{files:?}");
    ensure_said(&scene.gdb(&files[0], &rounds)?, &[("$1 = 50\n", 1)])?;
    // Only if it is asked to, it replaces a file.
    let before = fs::metadata(&files[0])?.ino();
    let said = scene.core(&["--at", "2", "-o", "first"])?.refusal("a core file over another")?;
    ensure!(said.contains("already exists") && said.contains("--overwrite"), "{said}");
    ensure!(fs::metadata(&files[0])?.ino() == before, "it was replaced");
    let files = scene.written(&["--at", "2", "-o", "first", "--overwrite"])?;
    ensure_said(&scene.gdb(&files[0], &rounds)?, &[("$1 = 100\n", 1)])?;
    // One process has a file of the very name.
    let pid = files[1].extension().and_then(|pid| pid.to_str()).context("the process id ends the name")?;
    let files = scene.written(&["--pid", pid, "-o", "child"])?;
    ensure!(files == [scene.arena.work().join("child")], "{files:?}");
    ensure_said(&scene.gdb(&files[0], &["print energy", rounds[0]])?, &[("$1 = -1\n", 1), ("$2 = 0\n", 1)])?;
    let said = scene.core(&["--pid", "1", "-o", "none"])?.refusal("a process that there is not")?;
    ensure!(said.contains("holds no process 1") && said.contains(pid), "{said}");
    Ok(())
}

#[test]
#[ignore = "1 s of gdb; that the file names copies is tested in its room"]
fn a_program_that_was_replaced_is_read_from_its_copy() -> Result<()> {
    if lacks_gdb("gdb reads the copy of a program") {
        return Ok(());
    }
    let arena = Arena::new()?;
    let installed = DEBUGGED.with(&["alone"])?;
    let path = arena.folder().join("debugged");
    fs::copy(&installed.path, &path)?;
    let mut scene = Scene::begin(arena, Program { path: path.clone(), ..installed }, &[])?;
    scene.checkpoints(1)?;
    // The other version has the text at the same place.
    let mut other = fs::read(&path)?;
    let at = other.windows(6).position(|bytes| bytes == b"linker").context("the text is in the program")?;
    other[at..at + 6].copy_from_slice(b"editor");
    let beside = path.with_extension("new");
    fs::write(&beside, other)?;
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755))?;
    fs::rename(&beside, &path)?;
    let report = scene.report(&["-o", "core"])?;
    let file = &report["files"][0];
    ensure!(file["changed"][0]["path"] == path.to_str().context("a name in UTF-8")?, "it is not named: {report}");
    let copy = Path::new(file["executable"].as_str().context("the report names the program")?);
    ensure!(copy.starts_with(scene.arena.images()), "the copy is not named: {report}");
    let questions = ["print greeting", "bt"];
    let said = scene.gdb_with(copy, &scene.arena.work().join("core"), &questions)?;
    ensure_said(&said, &[("$1 = \"as the linker wrote it\"\n", 1), ("in main (argc=2", 1)])?;
    scene.ends_well()
}

#[test]
fn a_flipped_bit_is_refused_by_name_and_leaves_no_core_file() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &SMALL.with(&[])?)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    let image = arena.images().join("generation-00000001.image");
    let file = fs::File::options().read(true).write(true).open(&image)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, DATA_OFFSET + 1000)?;
    file.write_all_at(&[byte[0] ^ 4], DATA_OFFSET + 1000)?;
    let said = standfast.ask("core", &arena.images(), &[])?.refusal("a core file from a damaged image")?;
    ensure!(said.contains("generation-00000001.image") && said.contains("damaged"), "{said}");
    let names: Vec<OsString> = fs::read_dir(arena.work())?.flatten().map(|entry| entry.file_name()).collect();
    let is_core = |name: &OsString| name.to_string_lossy().starts_with("core.");
    ensure!(!names.iter().any(is_core), "something is left: {names:?}");
    file.write_all_at(&byte, DATA_OFFSET + 1000)?;
    standfast.ask("core", &arena.images(), &[])?.well("a core file of the image as it was")?;
    running.signal(Signal::SIGKILL)
}

/// Returns the commands of the recipe on the page.
fn recipe() -> Result<&'static str> {
    let (_, section) = PAGE.split_once("\n## Find the moment").context("the page has the section")?;
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap_or_default());
    blocks.into_iter().find(|block| block.contains("while")).context("the section has a loop")
}

#[test]
#[ignore = "2 s of checkpoints and gdb; that core files are right is tested"]
fn the_documented_bisection_finds_the_wrong_round() -> Result<()> {
    let promise = "a bisection finds a wrong value";
    let Some(mut scene) = Scene::set(promise, &["--keep", "40"], &["alone"])? else { return Ok(()) };
    scene.checkpoints(20)?;
    let work = scene.arena.work();
    // The names on the page.
    symlink(scene.arena.images(), work.join("solver.standfast"))?;
    symlink(&scene.program.path, work.join("solver"))?;
    let binaries = standfast_binary()?.parent().context("the command lies in a folder")?.to_owned();
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([binaries].into_iter().chain(std::env::split_paths(&rest)))?;
    let mut shell = scene.arena.command("sh");
    shell.args(["-euc", recipe()?]).env("PATH", path).env_remove("DEBUGINFOD_URLS");
    let said = Running::complete(&scene.arena, "recipe", &mut shell)?.well("the recipe")?;
    let last = said.output.lines().last().unwrap_or_default();
    ensure!(last == "wrong from checkpoint 14 on", "{said:?}");
    scene.ends_well()
}
