//! What users cannot do to each other's jobs: read anything, ask for anything, take anything over, or pass themselves off
//! as a supervisor. Some tests use a job directory that its owner has opened to all, since permissions alone would hide
//! the rest. Only root can run these tests, since only root can be two users.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{Gid, Uid, chown, geteuid};
use standfast_tests::arena::Arena;
use standfast_tests::command::Standfast;
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::{Ended, Output, PATIENCE, Running, until};
use standfast_tests::victims::SMALL;
use standfast_tests::{Lacking, skip};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

const OWNER: u32 = 65534;
const STRANGER: u32 = 65533;

/// Says one line to the socket, and shows the answer.
const ASK: &str = r#"import socket, sys
it = socket.socket(socket.AF_UNIX)
it.connect(sys.argv[1])
try:
    it.sendall(b'{"version":1,"request":"checkpoint","stop":true}\n')
    it.settimeout(10)
    print(it.recv(4096).decode(), end="")
except (BrokenPipeError, ConnectionResetError):
    pass
"#;

/// Listens at the socket until it is killed, and answers whoever connects.
const LISTEN: &str = r#"import os, socket, sys, time
it = socket.socket(socket.AF_UNIX)
it.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
it.listen()
while True:
    try:
        it.accept()[0].sendall(b'{"version":1,"reply":"noted"}\n')
    except OSError:
        pass
"#;

/// Returns the same command, run by another user.
fn by(arena: &Arena, user: u32, command: &Command) -> Command {
    let mut done = arena.command("setpriv");
    done.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups", "--inh-caps=-all"]);
    done.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    // Only folders that other users can reach.
    done.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    done
}

fn asked_by(arena: &Arena, user: u32, words: &[&str]) -> Result<Ended> {
    let mut command = Standfast::new(arena)?.command(words);
    command.arg(arena.images());
    Running::complete(arena, &format!("{}-{user}", words[0]), &mut by(arena, user, &command))
}

/// Gives a file to a user, with these permissions.
fn give(path: &Path, user: u32, mode: u32) -> Result<()> {
    chown(path, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))?;
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

/// A job of the owner that waits at its gate.
struct Scene {
    arena: Arena,
    job: Running,
    native: RunResult,
}

impl Scene {
    /// Returns `None` unless root runs the test.
    fn set(promise: &str) -> Result<Option<Self>> {
        if !geteuid().is_root() {
            skip(promise, &Lacking::user("only root can be two users"));
            return Ok(None);
        }
        let arena = Arena::new()?;
        for folder in [arena.folder().to_owned(), arena.work(), arena.logs()] {
            give(&folder, OWNER, 0o755)?;
        }
        Self::set_with(arena, &SMALL.with(&[])?.path).map(Some)
    }

    /// Does the same with this copy of the program.
    fn set_with(arena: Arena, program: &Path) -> Result<Self> {
        let mut run = Standfast::new(&arena)?.command(&["run", "-i", "off", "-d"]);
        run.arg(arena.images()).arg("--").arg(program);
        let output = Output::File(arena.work().join(standfast_tests::result::OUTPUT));
        let job = Running::start(&arena, "run", output, &mut by(&arena, OWNER, &run))?;
        Standfast::new(&arena)?.await_gate()?;
        Ok(Self { arena, job, native: RunResult::native(&SMALL.with(&[])?)? })
    }

    /// Opens the job directory to everybody, as its owner.
    fn open(&self) -> Result<()> {
        fs::set_permissions(self.arena.images(), Permissions::from_mode(0o777))?;
        for entry in fs::read_dir(self.arena.images())? {
            fs::set_permissions(entry?.path(), Permissions::from_mode(0o666))?;
        }
        Ok(())
    }

    /// Returns how many generations the status shows to the owner.
    fn generations(&self) -> Result<usize> {
        let said = asked_by(&self.arena, OWNER, &["status", "--json"])?.well("status")?;
        let status: serde_json::Value = serde_json::from_str(&said.output)?;
        Ok(status["generations"].as_array().context("generations in the status")?.len())
    }

    /// Checks that the job has noticed nothing.
    fn ends_well(self) -> Result<()> {
        open_gate(&self.arena)?;
        self.job.wait(PATIENCE)?.well("the job")?;
        RunResult::read(&self.arena.work())?.must_equal(&self.native)?;
        self.arena.wait_until_empty(PATIENCE)
    }
}

#[test]
fn another_user_cannot_read_query_or_restart_a_job() -> Result<()> {
    let Some(scene) = Scene::set("another user cannot read a job")? else { return Ok(()) };
    asked_by(&scene.arena, OWNER, &["checkpoint"])?.well("a checkpoint for the owner")?;
    let mode = |path: &Path| -> Result<u32> { Ok(fs::symlink_metadata(path)?.permissions().mode() & 0o777) };
    ensure!(mode(&scene.arena.images())? == 0o700, "others may enter");
    for entry in fs::read_dir(scene.arena.images())? {
        let path = entry?.path();
        ensure!(mode(&path)? & 0o077 == 0, "others may use {}", path.display());
    }
    for opened in [false, true] {
        for words in [
            &["status"][..],
            &["checkpoint"],
            &["checkpoint", "--stop"],
            &["attach"],
            &["restart"],
            &["verify"],
            &["core"],
        ] {
            let said = asked_by(&scene.arena, STRANGER, words)?;
            said.refusal("a stranger's wish").with_context(|| format!("{words:?}, opened: {opened}"))?;
        }
        scene.open()?;
    }
    ensure!(scene.generations().is_err(), "a directory that others may write is trusted");
    fs::set_permissions(scene.arena.images(), Permissions::from_mode(0o700))?;
    scene.ends_well()
}

/// Makes a link that belongs to `owner`, in a folder in which everybody may create names, such as `/tmp`.
fn linked(link: &Path, target: &Path, owner: u32) -> Result<()> {
    symlink(target, link)?;
    lchown(link, Some(owner), Some(owner))?;
    Ok(())
}

#[test]
fn a_directory_behind_a_link_of_another_user_is_refused() -> Result<()> {
    let Some(scene) = Scene::set("a directory behind a link of another user is refused")? else { return Ok(()) };
    asked_by(&scene.arena, OWNER, &["checkpoint"])?.well("a checkpoint")?;
    let shared = scene.arena.folder().join("shared");
    fs::create_dir(&shared)?;
    fs::set_permissions(&shared, Permissions::from_mode(0o1777))?;
    linked(&shared.join("planted"), &scene.arena.images(), STRANGER)?;
    linked(&shared.join("way"), scene.arena.folder(), STRANGER)?;
    linked(&shared.join("nowhere"), &scene.arena.folder().join("made"), STRANGER)?;
    linked(&shared.join("own"), &scene.arena.images(), OWNER)?;
    let asked = |words: &[&str], directory: &Path| {
        let mut command = Standfast::new(&scene.arena)?.command(&[]);
        command.args(words.iter().map(|word| if *word == "DIR" { directory.as_os_str() } else { OsStr::new(word) }));
        Running::complete(&scene.arena, "asked", &mut by(&scene.arena, OWNER, &command))
    };
    for directory in ["planted", "way/images", "nowhere"].map(|name| shared.join(name)) {
        let ways: [&[&str]; 8] = [
            &["status", "DIR"],
            &["checkpoint", "DIR"],
            &["checkpoint", "--stop", "DIR"],
            &["attach", "DIR"],
            &["verify", "DIR"],
            &["restart", "DIR"],
            &["run", "--fresh", "-d", "DIR", "--", "true"],
            &["group", "run", "-d", "DIR", "--", "true"],
        ];
        for words in ways {
            let said = asked(words, &directory)?.refusal("a stranger's link")?;
            // `checkpoint` and `attach` do not ask a listener behind the link either; they then report that nobody
            // listens.
            let is_named = said.contains("is a symbolic link of user 65533");
            ensure!(is_named || words[0] == "checkpoint" || words[0] == "attach", "{words:?}: {said}");
        }
    }
    ensure!(!scene.arena.folder().join("made").exists(), "something was made where the link led");
    asked(&["status", "DIR"], &shared.join("own"))?.well("the way by one's own link")?;
    ensure!(scene.generations()? == 1, "somebody was led to the job");
    scene.ends_well()
}

#[test]
fn a_supervisor_does_not_answer_another_user() -> Result<()> {
    let Some(scene) = Scene::set("a supervisor does not answer another user")? else { return Ok(()) };
    // These permissions let anybody connect.
    fs::set_permissions(scene.arena.images(), Permissions::from_mode(0o711))?;
    fs::set_permissions(scene.arena.images().join("control"), Permissions::from_mode(0o666))?;
    let mut ask = scene.arena.command("python3");
    ask.args(["-c", ASK]).arg(scene.arena.images().join("control"));
    let heard = Running::complete(&scene.arena, "ask", &mut by(&scene.arena, STRANGER, &ask))?.well("asking")?;
    ensure!(heard.output.is_empty(), "it said {}", heard.output);
    let heard = Running::complete(&scene.arena, "ask-own", &mut by(&scene.arena, OWNER, &ask))?.well("asking")?;
    ensure!(heard.output.contains("taken"), "the owner is not heard: {}", heard.output);
    let ended = scene.job.wait(PATIENCE)?;
    ensure!(!ended.exited(0), "it was to stop");
    scene.arena.wait_until_empty(PATIENCE)
}

#[test]
fn another_user_cannot_impersonate_a_supervisor() -> Result<()> {
    let Some(scene) = Scene::set("another user cannot impersonate a supervisor")? else { return Ok(()) };
    let socket = scene.arena.images().join("control");
    fs::remove_file(&socket)?;
    scene.open()?;
    let mut listen = scene.arena.command("python3");
    listen.args(["-c", LISTEN]).arg(&socket);
    let impostor = Running::start(&scene.arena, "listen", Output::Log, &mut by(&scene.arena, STRANGER, &listen))?;
    until(PATIENCE, "the impostor to listen", || Ok(socket.exists().then_some(())))?;
    // Standfast checks the permissions of the directory later than it checks who listens there.
    until(PATIENCE, "the impostor to be met", || {
        let said = asked_by(&scene.arena, OWNER, &["checkpoint"])?.refusal("a checkpoint by an impostor")?;
        Ok(said.contains("another user").then_some(()))
    })?;
    drop(impostor);
    fs::set_permissions(scene.arena.images(), Permissions::from_mode(0o700))?;
    scene.ends_well()
}

#[test]
fn a_set_uid_program_is_refused_and_continues() -> Result<()> {
    let promise = "a set-uid program is refused";
    if !geteuid().is_root() {
        skip(promise, &Lacking::user("only root can make one"));
        return Ok(());
    }
    let arena = Arena::new()?;
    if statvfs(arena.folder())?.flags().contains(FsFlags::ST_NOSUID) {
        skip(promise, &Lacking::system("programs here do not take their owner's rights"));
        return Ok(());
    }
    for folder in [arena.folder().to_owned(), arena.work(), arena.logs()] {
        give(&folder, OWNER, 0o777)?;
    }
    let program = arena.folder().join("set-uid");
    fs::copy(&SMALL.with(&[])?.path, &program)?;
    give(&program, STRANGER, 0o4755)?;
    let scene = Scene::set_with(arena, &program)?;
    let refused = asked_by(&scene.arena, OWNER, &["checkpoint"])?.refusal("a checkpoint of a set-uid program")?;
    ensure!(refused.contains("user"), "{refused}");
    ensure!(scene.generations()? == 0, "something was written");
    scene.ends_well()
}

#[test]
fn an_open_file_that_the_user_may_not_reopen_is_refused() -> Result<()> {
    let promise = "an open file that the user may not reopen is refused";
    if !geteuid().is_root() {
        skip(promise, &Lacking::user("only root can be two users"));
        return Ok(());
    }
    let arena = Arena::new()?;
    for folder in [arena.folder().to_owned(), arena.work(), arena.logs()] {
        give(&folder, OWNER, 0o755)?;
    }
    let secret = arena.folder().join("secret");
    fs::write(&secret, "of root")?;
    give(&secret, 0, 0o600)?;
    let mut run = Standfast::new(&arena)?.command(&["run", "-i", "off", "-d"]);
    run.arg(arena.images()).arg("--").arg(&SMALL.with(&[])?.path);
    let run = by(&arena, OWNER, &run);
    let mut lent = arena.command("sh");
    lent.args(["-c", r#"exec "$@" 5>>"$0""#]).arg(&secret).arg(run.get_program()).args(run.get_args());
    lent.stdin(Stdio::null()).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let job = Running::start(&arena, "run", Output::File(arena.work().join("output")), &mut lent)?;
    Standfast::new(&arena)?.await_gate()?;
    let refused = asked_by(&arena, OWNER, &["checkpoint"])?.refusal("a checkpoint with a file of root's")?;
    ensure!(refused.contains("descriptor 5") && refused.contains("could not open it again"), "{refused}");
    open_gate(&arena)?;
    job.wait(PATIENCE)?.well("the job that was refused")?;
    Ok(())
}

#[test]
fn an_output_that_cannot_be_reopened_continues_elsewhere() -> Result<()> {
    let Some(scene) = Scene::set("an output that cannot be reopened continues elsewhere")? else { return Ok(()) };
    give(&scene.arena.work().join(standfast_tests::result::OUTPUT), 0, 0o600)?;
    let Scene { arena, job, .. } = scene;
    asked_by(&arena, OWNER, &["checkpoint", "--stop"])?.well("a checkpoint with an output of root's")?;
    job.wait(PATIENCE)?;
    arena.wait_until_empty(PATIENCE)?;
    let restart = Standfast::new(&arena)?.restart_command(&arena.images());
    open_gate(&arena)?;
    let again = Running::start(&arena, "again", Output::Nowhere, &mut by(&arena, OWNER, &restart))?;
    let ended = again.wait(PATIENCE)?.well("the restart")?;
    ensure!(ended.errors.contains("/dev/null") && ended.errors.contains("may not be opened"), "{}", ended.errors);
    Ok(())
}

#[test]
fn a_working_directory_that_cannot_be_entered_is_refused() -> Result<()> {
    let Some(scene) = Scene::set("a working directory that cannot be entered is refused")? else { return Ok(()) };
    give(&scene.arena.work(), 0, 0o700)?;
    let refused = asked_by(&scene.arena, OWNER, &["checkpoint"])?.refusal("a checkpoint in a closed directory")?;
    ensure!(refused.contains("working directory") && refused.contains("could not enter it"), "{refused}");
    give(&scene.arena.work(), OWNER, 0o755)?;
    ensure!(scene.generations()? == 0, "something was written");
    scene.ends_well()
}

/// A file: its name, its content and the time of its last change.
type Entry = (std::ffi::OsString, Vec<u8>, i64, i64);

/// Returns everything that a directory holds.
fn contents(folder: &Path) -> Result<Vec<Entry>> {
    use std::os::unix::fs::MetadataExt as _;
    let look = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry?;
        let status = entry.metadata()?;
        let content = if status.is_file() { fs::read(entry.path())? } else { Vec::new() };
        Ok((entry.file_name(), content, status.ctime(), status.ctime_nsec()))
    };
    let mut all = fs::read_dir(folder)?.map(look).collect::<Result<Vec<_>>>()?;
    all.sort();
    Ok(all)
}

#[test]
fn root_inspects_a_users_job_without_writing_or_following_links() -> Result<()> {
    let Some(scene) = Scene::set("root inspects a user's job")? else { return Ok(()) };
    asked_by(&scene.arena, OWNER, &["checkpoint"])?.well("a checkpoint for the owner")?;
    let images = scene.arena.images();
    let as_root = |words: &[&str]| asked_by(&scene.arena, 0, words);
    // The heartbeat changes the lease; nothing else changes anything at this moment.
    let still =
        || Ok::<_, anyhow::Error>(contents(&images)?.into_iter().filter(|it| it.0 != "lease").collect::<Vec<_>>());
    let before = still()?;
    for words in [&["status"][..], &["list"], &["inspect"], &["verify"]] {
        let said = as_root(words)?.well("a look by root")?;
        ensure!(said.output.contains("checkpoint") || said.output.contains("process"), "{words:?}: {}", said.output);
    }
    ensure!(as_root(&["status"])?.output.contains("runs as process"), "it does not say that the job runs");
    let core = scene.arena.folder().join("core");
    let said = as_root(&["core", "-o", core.to_str().context("a name in UTF-8")?])?.well("a core file for root")?;
    ensure!(said.output.contains("checkpoint 1") && fs::metadata(&core)?.uid() == 0, "{}", said.output);
    for words in [&["restart"][..], &["clean"], &["clean", "--unfinished"], &["checkpoint"], &["coalesce"]] {
        as_root(words)?.refusal("a wish of root's").with_context(|| format!("{words:?}"))?;
    }
    ensure!(still()? == before, "something has changed");
    // Root's own files are not read for root, by whatever way they came there.
    let (manifest, aside) = (images.join("manifest"), images.join("aside"));
    fs::rename(&manifest, &aside)?;
    let secret = scene.arena.folder().join("secret");
    fs::copy(&aside, &secret)?;
    give(&secret, 0, 0o600)?;
    std::os::unix::fs::symlink(&secret, &manifest)?;
    as_root(&["status"])?.refusal("a link in the place of the manifest")?;
    fs::remove_file(&manifest)?;
    fs::hard_link(&secret, &manifest)?;
    as_root(&["status"])?.refusal("root's own file in the place of the manifest")?;
    fs::remove_file(&manifest)?;
    fs::rename(&aside, &manifest)?;
    scene.ends_well()
}

#[test]
fn a_saved_folder_with_a_file_of_another_user_refuses_the_checkpoint() -> Result<()> {
    let promise = "a saved folder with a file of another user refuses the checkpoint";
    if !geteuid().is_root() {
        skip(promise, &Lacking::user("only root can give files away"));
        return Ok(());
    }
    let arena = Arena::new()?;
    let data = arena.work().join("data");
    fs::create_dir(&data)?;
    for folder in [arena.folder().to_owned(), arena.work(), arena.logs(), data.clone()] {
        give(&folder, OWNER, 0o755)?;
    }
    fs::write(data.join("ours"), "ours")?;
    give(&data.join("ours"), OWNER, 0o600)?;
    fs::write(data.join("theirs"), "theirs")?;
    give(&data.join("theirs"), STRANGER, 0o666)?;
    let mut run = Standfast::new(&arena)?.command(&["run", "-i", "off", "--save-folder", "data", "-d"]);
    run.arg(arena.images()).arg("--").arg(&SMALL.with(&[])?.path);
    let output = Output::File(arena.work().join(standfast_tests::result::OUTPUT));
    let job = Running::start(&arena, "run", output, &mut by(&arena, OWNER, &run))?;
    Standfast::new(&arena)?.await_gate()?;
    let refused = asked_by(&arena, OWNER, &["checkpoint"])?.refusal("a checkpoint of it")?;
    ensure!(refused.contains("data/theirs") && refused.contains("another user"), "{refused}");
    // As soon as the file belongs to the owner, or is gone, checkpoints continue.
    give(&data.join("theirs"), OWNER, 0o666)?;
    asked_by(&arena, OWNER, &["checkpoint"])?.well("a checkpoint of the owner's files")?;
    open_gate(&arena)?;
    job.wait(PATIENCE)?.well("the job").map(drop)
}
