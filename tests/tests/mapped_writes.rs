//! Files that a program changed through a mapping that lasted no longer than the change. The times of such a file may not
//! show the change. A restart must still find what the file held, or report that it does not.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::OUTPUT;
use standfast_tests::running::{Ended, PATIENCE, Running, until};
use standfast_tests::victims::Program;
use standfast_tests::{Lacking, skip};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A folder whose files lie in memory.
const MEMORY: &str = "/dev/shm";

/// The beginning of all programs here: gates, a file of many pages, and writes that the times of the file do not show.
const PRELUDE: &str = r#"
import ctypes, os, sys, time
path = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
gates = 0
def gate():
    global gates
    gates += 1
    os.close(os.open(f'waiting-{gates}', os.O_CREAT | os.O_WRONLY))
    while not os.path.exists(f'gate-{gates}'):
        time.sleep(0.001)
def begin(pages):
    with open(path, 'wb') as file:
        file.write(b'begun   ' * 512 * pages)
        file.flush()
        os.fsync(file.fileno())
def settle():
    while time.time() - os.stat(path).st_ctime < 0.1:
        time.sleep(0.01)
def times():
    found = os.stat(path)
    return found.st_mtime_ns, found.st_ctime_ns
class Mapped:
    # One of Python's own would keep the file open.
    def __init__(self):
        with open(path, 'r+b') as file:
            self.address = libc.mmap(None, 4096, 3, 1, file.fileno(), 0)
        assert self.address != ctypes.c_void_p(-1).value
        # In memory a page that has been read may be written without a fault, by which alone times could change.
        assert ctypes.string_at(self.address, 1) != b''
    def write(self, text):
        ctypes.memmove(self.address, text, 8)
    def protect(self, access):
        assert libc.mprotect(ctypes.c_void_p(self.address), ctypes.c_size_t(4096), access) == 0
    def close(self):
        assert libc.munmap(ctypes.c_void_p(self.address), ctypes.c_size_t(4096)) == 0
def say(what):
    os.write(1, what + b'\n')
def content():
    with open(path, 'rb') as file:
        return file.read(8)
"#;

/// A program with gates.
struct Play {
    arena: Arena,
    running: Option<Running>,
    /// The folder that contains its file.
    folder: tempfile::TempDir,
}

impl Play {
    /// Begins `script` with a file in a folder of its own below `place`, and passes the path of that folder to `options`.
    fn begin(script: &str, place: &Path, options: impl FnOnce(&Path) -> Vec<String>) -> Result<Self> {
        let (arena, folder) = (Arena::new()?, tempfile::Builder::new().prefix("standfast-").tempdir_in(place)?);
        let text = format!("{PRELUDE}{script}");
        let arguments = ["-c".into(), text.into(), folder.path().join("file").into()];
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let program = Program { path: PathBuf::from("/usr/bin/python3"), arguments };
        let options = options(folder.path());
        let running = Some(Standfast::new(&arena)?.run_with(&options, Checkpoints::OnRequest, &program)?);
        Ok(Self { arena, running, folder })
    }

    fn standfast(&self) -> Result<Standfast<'_>> {
        Standfast::new(&self.arena)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    fn await_gate(&self, number: u32) -> Result<()> {
        let waiting = self.arena.work().join(format!("waiting-{number}"));
        until(PATIENCE, "the program to reach its gate", || Ok(waiting.exists().then_some(())))
            .with_context(|| self.arena.evidence())
    }

    fn open_gate(&self, number: u32) -> Result<()> {
        File::create(self.arena.work().join(format!("gate-{number}"))).map(drop).context("opening a gate")
    }

    fn kill(&mut self) -> Result<()> {
        ensure!(self.standfast()?.kill_job()?, "the program had ended: {}", self.arena.evidence());
        self.running.take().context("it runs")?.wait(PATIENCE).map(drop)
    }

    fn restart(&self) -> Result<Ended> {
        self.standfast()?.restart(&self.arena.images(), "restart")?.wait(PATIENCE)
    }

    fn said(&self) -> Result<String> {
        fs::read_to_string(self.arena.work().join(OUTPUT)).context("what the program says")
    }
}

fn in_memory(promise: &str) -> bool {
    let there = tempfile::tempdir_in(MEMORY).is_ok();
    if !there {
        skip(promise, &Lacking::system("there is no /dev/shm that this user may write to"));
    }
    there
}

fn saved(folder: &Path) -> Vec<String> {
    vec!["--save-folder".to_owned(), folder.display().to_string()]
}

/// Takes two checkpoints of a folder, and restarts from the second. In between, the program writes the file without any
/// visible sign.
fn the_second_checkpoint_holds_it(play: Play) -> Result<()> {
    let mut play = play;
    play.await_gate(1)?;
    play.standfast()?.checkpoint()?;
    play.open_gate(1)?;
    play.await_gate(2)?;
    play.standfast()?.checkpoint()?;
    play.kill()?;
    play.open_gate(2)?;
    play.restart()?.well("the restarted job").with_context(|| play.arena.evidence())?;
    ensure!(play.said()? == "changed \n", "it said {:?}", play.said()?);
    Ok(())
}

#[test]
fn a_saved_tmpfs_folder_holds_writes_of_an_unmapped_mapping() -> Result<()> {
    if !in_memory("a saved folder in memory holds what was written through a mapping") {
        return Ok(());
    }
    let script = r#"
begin(3)
settle()
gate()
before = times()
memory = Mapped()
memory.write(b'changed ')
memory.close()
assert times() == before
gate()
say(content())
"#;
    the_second_checkpoint_holds_it(Play::begin(script, Path::new(MEMORY), saved)?)
}

#[test]
fn a_saved_folder_holds_writes_through_a_reprotected_mapping() -> Result<()> {
    // The file system does not learn of a second write to a page that is dirty and mapped, unless the checkpoint has made
    // the page durable.
    let script = r#"
begin(3)
memory = Mapped()
memory.write(b'written ')
memory.protect(1)
settle()
gate()
memory.protect(3)
memory.write(b'changed ')
memory.close()
gate()
say(content())
"#;
    the_second_checkpoint_holds_it(Play::begin(script, &std::env::temp_dir(), saved)?)
}

#[test]
fn a_tmpfs_file_changed_after_the_checkpoint_refuses_the_restart() -> Result<()> {
    if !in_memory("a file in memory that was changed unseen refuses the restart") {
        return Ok(());
    }
    let script = r#"
begin(512)
settle()
opened = os.open(path, os.O_RDONLY)
gate()
before = times()
memory = Mapped()
memory.write(b'changed ')
memory.close()
assert times() == before
gate()
say(os.pread(opened, 8, 0))
"#;
    let mut play = Play::begin(script, Path::new(MEMORY), |_| Vec::new())?;
    play.await_gate(1)?;
    play.standfast()?.checkpoint()?;
    play.open_gate(1)?;
    play.await_gate(2)?;
    play.kill()?;
    let refused = play.restart()?.refusal("a restart")?;
    ensure!(refused.contains("has been changed since"), "{refused}");
    // Only the content counts.
    let mut bytes = fs::read(play.file())?;
    bytes[..8].copy_from_slice(b"begun   ");
    fs::write(play.file(), bytes)?;
    play.open_gate(2)?;
    play.restart()?.well("the restarted job").with_context(|| play.arena.evidence())?;
    ensure!(play.said()? == "changed \n", "it said {:?}", play.said()?);
    Ok(())
}

#[test]
fn the_digest_includes_writes_through_a_mapping() -> Result<()> {
    // The program maps a part of the file, so the content of the file is not in the image.
    let script = r#"
begin(512)
opened = os.open(path, os.O_RDONLY)
memory = Mapped()
memory.write(b'written ')
memory.protect(1)
settle()
gate()
memory.protect(3)
memory.write(b'changed ')
gate()
say(os.pread(opened, 8, 0))
"#;
    let mut play = Play::begin(script, &std::env::temp_dir(), |_| Vec::new())?;
    play.await_gate(1)?;
    play.standfast()?.checkpoint()?;
    play.open_gate(1)?;
    play.await_gate(2)?;
    play.standfast()?.checkpoint()?;
    play.kill()?;
    // Copying a file back gives it other times.
    File::options().write(true).open(play.file())?.set_modified(std::time::UNIX_EPOCH)?;
    play.open_gate(2)?;
    play.restart()?.well("the restarted job").with_context(|| play.arena.evidence())?;
    ensure!(play.said()? == "changed \n", "it said {:?}", play.said()?);
    Ok(())
}
