//! Rehearsed restarts: a restart that would fail is reported while the job is running, and the job notices nothing of it.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::unistd::geteuid;
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::damage::flip_bits_throughout;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::victims::Program;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Holds what a restart needs and others can take away. At the end it checks that nobody has touched its lock or its
/// pipe, and that it has had no other child than its own.
const HOLDER: &str = r#"
import fcntl, os, select, socket, time
os.makedirs("deep")
for name in ("data", "deep/input"):
    with open(name, "w") as made: made.write("what is there\n" * 100)
data, source = open("data", "r+"), open("deep/input")
fcntl.flock(data, fcntl.LOCK_EX)
os.mkdir("directory")
directory = os.open("directory", os.O_RDONLY)
os.mkfifo("pipe")
pipe = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
door = socket.socket(socket.AF_UNIX)
door.bind("door")
door.listen()
port = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(port.getsockname())
server = port.accept()[0]
client.send(b"on its way")
letters = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
letters.bind(("127.0.0.1", 0))
child = os.fork()
if child == 0:
    for one in port, client, server: one.close()
    time.sleep(3600)
with open("port", "w") as said: said.write(str(port.getsockname()[1]))
os.rename("port", "waiting")
while not os.path.exists("gate"):
    if port: port.setblocking(False)
    if port and os.path.exists("close"):
        port.close()
        port = None
        os.rename("close", "closed")
    time.sleep(0.01)
poll = select.poll()
poll.register(pipe)
assert poll.poll(0) == [], "somebody has had the other end of the pipe"
door.setblocking(False)
letters.setblocking(False)
for ask in door.accept, port.accept if port else door.accept, lambda: letters.recv(9):
    try: ask(); raise AssertionError("somebody has come")
    except BlockingIOError: pass
assert server.recv(99) == b"on its way", "somebody has read or sent"
os.kill(child, 9)
assert os.wait() == (child, 9)
try: os.wait(); raise AssertionError("a child too many")
except ChildProcessError: pass
print("unnoticed", file=open("result", "w"))
"#;

/// A job whose restart is rehearsed.
struct Rehearsed<'a> {
    arena: &'a Arena,
    standfast: Standfast<'a>,
    running: Running,
}

impl<'a> Rehearsed<'a> {
    fn start(arena: &'a Arena, options: &[&str]) -> Result<Self> {
        let program = Program { path: "/usr/bin/python3".into(), arguments: vec!["-c".into(), HOLDER.into()] };
        let standfast = Standfast::new(arena)?;
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
        standfast.await_gate()?;
        standfast.checkpoint()?;
        Ok(Self { arena, standfast, running })
    }

    fn passes(&self, what: &str) -> Result<String> {
        Ok(self.standfast.ask("rehearse", &self.arena.images(), &[])?.well(what)?.output)
    }

    fn fails(&self, what: &str, words: &[&str]) -> Result<()> {
        let said = self.standfast.ask("rehearse", &self.arena.images(), &[])?.refusal(what)?;
        ensure!(words.iter().all(|word| said.contains(word)), "{what}: it says {said}");
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.arena.work().join(name)
    }

    /// Lets the job end, and checks what it has noticed.
    fn end(self) -> Result<()> {
        fs::write(self.path("gate"), "")?;
        self.running.wait(PATIENCE)?.well("the job")?;
        ensure!(fs::read_to_string(self.arena.work().join("result"))? == "unnoticed\n", "it has noticed something");
        Ok(())
    }
}

/// Replaces the contents of a file for the time of `work`.
fn with_contents(path: &Path, contents: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = fs::read(path)?;
    fs::write(path, contents)?;
    work()?;
    Ok(fs::write(path, before)?)
}

/// Puts something else in the place of a name for the time of `work`.
fn with_another(path: &Path, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let aside = path.with_extension("aside");
    fs::rename(path, &aside)?;
    fs::write(path, "another file")?;
    work()?;
    fs::remove_file(path)?;
    Ok(fs::rename(aside, path)?)
}

/// Flips bits throughout the largest image for the time of `work`: later checkpoints build upon some of its pages.
fn with_flipped_bits(arena: &Arena, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let images = fs::read_dir(arena.images())?.flatten().map(|entry| entry.path());
    let image = images.max_by_key(|path| fs::metadata(path).map_or(0, |it| it.len())).context("an image")?;
    flip_bits_throughout(&image)?;
    work()?;
    flip_bits_throughout(&image)
}

#[test]
fn a_rehearsal_reports_a_restart_that_would_fail() -> Result<()> {
    let arena = Arena::new()?;
    let job = Rehearsed::start(&arena, &["--save-files=1"])?;
    let said = job.passes("a rehearsal")?;
    ensure!(said.contains("the job was rebuilt, compared and discarded"), "it says {said}");
    for part in ["locks on files", "named pipes"] {
        ensure!(said.contains(part), "{part} is not left out: {said}");
    }
    let may_be_apart = arena.command("unshare").args(["-Urn", "true"]).status()?.success();
    ensure!(said.contains("sockets") != may_be_apart, "sockets are left out only where they must be: {said}");
    let input = job.path("deep/input");
    with_contents(&job.path("data"), "short", || job.fails("a file cut short", &["data", "5 bytes", "1400"]))?;
    with_contents(&input, &"what is gone!\n".repeat(100), || job.fails("another content", &["deep/input", "changed"]))?;
    with_another(&job.path("directory"), || job.fails("no directory", &["directory"]))?;
    with_another(&job.path("pipe"), || job.fails("no pipe", &["pipe"]))?;
    with_another(&job.path("door"), || job.fails("no socket", &["door", "another file has taken its place"]))?;
    if !geteuid().is_root() {
        fs::set_permissions(job.path("deep"), fs::Permissions::from_mode(0o000))?;
        let refused = job.fails("a closed directory", &["deep/input"]);
        fs::set_permissions(job.path("deep"), fs::Permissions::from_mode(0o755))?;
        refused?;
    }
    job.passes("a rehearsal of a job that others have given back what is its own")?;
    fs::write(job.path("close"), "")?;
    until(PATIENCE, "the job to close its port", || Ok(job.path("closed").exists().then_some(())))?;
    let port: u16 = fs::read_to_string(job.path("waiting"))?.parse()?;
    let other = TcpListener::bind(("127.0.0.1", port)).context("taking the job's port")?;
    job.fails("a port that another has taken", &[&port.to_string(), "another program listens there"])?;
    drop(other);
    job.end()
}

#[test]
fn a_rehearsal_reports_a_damaged_page() -> Result<()> {
    let arena = Arena::new()?;
    let job = Rehearsed::start(&arena, &[])?;
    with_flipped_bits(&arena, || job.fails("a flipped bit", &["damaged"]))?;
    job.passes("a rehearsal")?;
    job.end()
}

#[test]
fn the_first_checkpoint_of_a_run_is_rehearsed_by_default() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut command = standfast.command(&["run", "-i", "off", "-d"]);
    command.arg(arena.images()).args(["--", "/usr/bin/python3", "-c", HOLDER]);
    let running = Running::start(&arena, "run", Output::Log, &mut command)?;
    standfast.await_gate()?;
    let job = Rehearsed { arena: &arena, standfast, running };
    job.standfast.checkpoint()?;
    until(PATIENCE, "the rehearsal to pass", || {
        let status = job.standfast.status(&arena.images())?;
        Ok((status["live"]["rehearsal"]["passed"]["generation"] == 1).then_some(()))
    })?;
    job.end()
}

#[test]
fn a_run_rehearses_as_asked_and_reports_what_would_fail() -> Result<()> {
    let arena = Arena::new()?;
    let job = Rehearsed::start(&arena, &["--rehearse", "every:1", "--save-files=1", "--incremental", "on"])?;
    let outcome = |is_it: fn(&Value) -> bool| {
        until(PATIENCE, "the rehearsal to end", || {
            Ok(is_it(&job.standfast.status(&arena.images())?["live"]["rehearsal"]).then_some(()))
        })
    };
    outcome(|it| it["passed"]["generation"] == 1 && it["passed"]["not_rebuilt"].is_null())?;
    with_flipped_bits(&arena, || {
        job.standfast.checkpoint()?;
        outcome(|it| it["failed"]["reason"].as_str().is_some_and(|reason| reason.contains("damaged")))
    })?;
    let said = job.running.errors_so_far();
    ensure!(said.contains("a restart would fail at present"), "not reported: {said}");
    job.standfast.checkpoint()?;
    outcome(|it| it["passed"]["generation"] == 3)?;
    let said = job.running.errors_so_far();
    ensure!(said.contains("a restart would succeed again"), "the end is not reported: {said}");
    job.end()
}
