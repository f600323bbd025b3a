//! Job directories that are no longer trustworthy, that are no longer writable, or that are full.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::unistd::{Uid, chown, geteuid};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::damage::precious_files;
use standfast_tests::disaster::{KilledJob, Subject};
use standfast_tests::result::{OUTPUT, RunResult, open_gate};
use standfast_tests::running::{Ended, PATIENCE, Running};
use standfast_tests::victims::SMALL;
use standfast_tests::{Lacking, skip};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn allow(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode)).with_context(|| format!("chmod {}", path.display()))
}

/// Restarts from `directory`. The restart must name what is wrong, and then refuse or take an older generation.
fn named(job: &KilledJob, directory: &Path, culprit: &Path) -> Result<Ended> {
    let restarted = job.restart(directory, "refused")?;
    let name = culprit.file_name().context("the culprit has a name")?.to_string_lossy();
    ensure!(restarted.errors.contains(&*name), "{name} is not named: {}", restarted.errors);
    Ok(restarted)
}

/// The newest image is not trustworthy: the restart names it, and the generation before it gives the undisturbed result.
fn older_one_takes_its_place(job: &KilledJob, newest: &Path) -> Result<()> {
    let restarted = named(job, &job.arena().images(), newest)?;
    restarted.well("a restart from the older generation")?;
    RunResult::read(&job.arena().work())?.must_equal(job.native())
}

fn images_and_manifest(job: &KilledJob) -> Result<(Vec<PathBuf>, PathBuf)> {
    let (manifest, images): (Vec<_>, Vec<_>) =
        precious_files(&job.refresh()?)?.into_iter().partition(|file| file.ends_with("manifest"));
    Ok((images, manifest.into_iter().next().context("there is a manifest")?))
}

#[test]
fn a_directory_that_others_may_write_is_refused_by_name() -> Result<()> {
    let job = KilledJob::new(&Subject::small()?)?;
    let images = job.refresh()?;
    allow(&images, 0o777)?;
    named(&job, &images, &images)?.refusal("a restart from a directory that others may write").map(drop)
}

#[test]
fn a_manifest_that_others_may_write_is_refused_by_name() -> Result<()> {
    let job = KilledJob::new(&Subject::small()?)?;
    let (_, manifest) = images_and_manifest(&job)?;
    allow(&manifest, 0o666)?;
    let restarted = named(&job, &job.arena().images(), &manifest)?;
    restarted.refusal("a restart from a manifest that others may write").map(drop)
}

#[test]
fn an_image_writable_by_others_is_skipped_and_named() -> Result<()> {
    let job = KilledJob::new(&Subject::small()?)?;
    let newest = images_and_manifest(&job)?.0.pop().context("there is an image")?;
    allow(&newest, 0o666)?;
    older_one_takes_its_place(&job, &newest)
}

#[test]
fn a_restart_is_refused_if_all_images_are_writable_by_others() -> Result<()> {
    let job = KilledJob::new(&Subject::small()?)?;
    let (images, _) = images_and_manifest(&job)?;
    for image in &images {
        allow(image, 0o620)?;
    }
    let newest = images.last().context("there is an image")?;
    named(&job, &job.arena().images(), newest)?.refusal("a restart from images that others may write").map(drop)
}

#[test]
fn an_image_of_another_user_is_skipped_and_named() -> Result<()> {
    if !geteuid().is_root() {
        skip("an image of another user is skipped and named", &Lacking::user("only root can give files away"));
        return Ok(());
    }
    let job = KilledJob::new(&Subject::small()?)?;
    let newest = images_and_manifest(&job)?.0.pop().context("there is an image")?;
    chown(&newest, Some(Uid::from_raw(12345)), None)?;
    older_one_takes_its_place(&job, &newest)
}

/// Runs a script in a mount namespace of its own, with a small memory file system at the job's directory. Returns `None`
/// if this user may not do that.
fn in_small_file_system(arena: &Arena, script: &str) -> Result<Option<Ended>> {
    let flags: &[&str] = if geteuid().is_root() { &["-m"] } else { &["-U", "-r", "-m"] };
    if !Command::new("unshare").args(flags).arg("true").output().is_ok_and(|done| done.status.success()) {
        return Ok(None);
    }
    let standfast = Standfast::new(arena)?;
    fs::create_dir(arena.images())?;
    let run = standfast.run_command(Checkpoints::OnRequest, &SMALL.with(&[])?);
    let mut command = arena.command("unshare");
    command.args(flags).args(["sh", "-c", script, run.get_program().to_str().context("a path in UTF-8")?]);
    command.args(run.get_args()).env("DIR", arena.images()).env("WORK", arena.work()).env("OUTPUT", OUTPUT);
    Running::complete(arena, "script", command.stdin(Stdio::null())).map(Some)
}

/// Mounts the file system, runs to the gate, takes one good checkpoint, spoils the place with `$1`, and continues.
fn script(spoil: &str) -> String {
    format!(
        r#"
set -e
mount -t tmpfs -o size=16m,mode=0700 tmpfs "$DIR"
"$0" "$@" > "$WORK/$OUTPUT" &
run=$!
tries=0
until [ -e "$WORK/waiting" ]; do tries=$((tries + 1)); [ $tries -lt 3000 ]; sleep 0.01; done
"$0" checkpoint "$DIR"
{spoil}
if "$0" checkpoint "$DIR" 2> "$WORK/../logs/failed.err"; then echo 'the second checkpoint succeeded'; exit 3; fi
"$0" verify "$DIR"
: > "$WORK/gate"
wait $run
"#
    )
}

fn place_goes_bad(spoil: &str, promise: &str, wanted_words: &[&str]) -> Result<()> {
    let native = RunResult::native(&SMALL.with(&[])?)?;
    let arena = Arena::new()?;
    let Some(ended) = in_small_file_system(&arena, &script(spoil))? else {
        skip(promise, &Lacking::system("this user may not make a mount namespace"));
        return Ok(());
    };
    ended.well("the script").with_context(|| arena.evidence())?;
    let said = fs::read_to_string(arena.logs().join("failed.err"))?;
    ensure!(wanted_words.iter().any(|word| said.to_lowercase().contains(word)), "the failed checkpoint said: {said}");
    ensure!(!said.contains("os error") && !said.contains("panicked"), "told badly: {said}");
    RunResult::read(&arena.work())?.must_equal(&native)
}

#[test]
fn a_full_file_system_fails_the_checkpoint_and_nothing_else() -> Result<()> {
    let fill = r#"dd if=/dev/zero of="$DIR/filler" bs=64k 2> /dev/null || true"#;
    place_goes_bad(fill, "a full file system fails the checkpoint and nothing else", &["space", "full"])
}

#[test]
fn a_read_only_file_system_fails_the_checkpoint_and_nothing_else() -> Result<()> {
    // Imitates a disk with errors: the file system becomes read-only while files on it are open, hence the fallback.
    let spoil = r#"mount -o remount,ro "$DIR" 2> /dev/null || mount -o bind,remount,ro "$DIR""#;
    place_goes_bad(spoil, "a read-only file system fails the checkpoint and nothing else", &["read-only", "write"])
}

#[test]
fn a_directory_without_write_permission_fails_the_checkpoint_and_nothing_else() -> Result<()> {
    if geteuid().is_root() {
        skip("a directory without write permission fails the checkpoint", &Lacking::user("root may write everywhere"));
        return Ok(());
    }
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    allow(&arena.images(), 0o500)?;
    let said = standfast.ask("checkpoint", &arena.images(), &[])?.refusal("a checkpoint into it");
    allow(&arena.images(), 0o700)?;
    ensure!(said?.contains("images"), "the refusal does not name the directory");
    standfast.verify(&arena.images())?;
    standfast.checkpoint()?;
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

#[test]
fn a_checkpoint_that_would_use_the_reserve_is_refused() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let more_than_there_is = ["--reserve".to_owned(), "8000T".to_owned()];
    let running = standfast.run_with(&more_than_there_is, Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    let said = standfast.ask("checkpoint", &arena.images(), &[])?.refusal("a checkpoint that leaves too little")?;
    ensure!(
        said.contains("would leave less than 8000T free") && said.contains("hint: free some space"),
        "said: {said}"
    );
    let status = standfast.status(&arena.images())?;
    ensure!(status["generations"].as_array().is_some_and(Vec::is_empty) && status["durable"].is_null(), "{status}");
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

#[test]
fn a_file_with_the_name_of_a_checkpoint_is_neither_removed_nor_replaced() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    fs::create_dir(arena.images())?;
    let theirs = arena.images().join("generation-00000001.image");
    fs::write(&theirs, "a picture of my parents")?;
    let program = SMALL.with(&[])?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    let said = running.wait(PATIENCE)?.refusal("a run beside such a file")?;
    ensure!(said.contains("generation-00000001.image has the name of a checkpoint"), "{said}");
    ensure!(fs::read_to_string(&theirs)? == "a picture of my parents", "the file is another");
    Ok(())
}

#[test]
fn files_of_the_user_in_the_directory_stay() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    fs::create_dir(arena.images())?;
    let theirs = ["thesis.tmp", "manifest.tmp", ".tmp", "control", "terminal"].map(|name| arena.images().join(name));
    theirs.iter().try_for_each(|path| fs::write(path, "theirs"))?;
    fs::create_dir(arena.images().join("epoch-10"))?;
    let program = SMALL.with(&[])?;
    let running = standfast.run(Checkpoints::EveryMilliseconds(50), &program)?;
    standfast.await_gate()?;
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job")?;
    for path in theirs {
        let kept = fs::read_to_string(&path).with_context(|| format!("{} is gone", path.display()))?;
        ensure!(kept == "theirs", "{} holds something else", path.display());
    }
    ensure!(arena.images().join("epoch-10").is_dir(), "a folder is gone");
    Ok(())
}
