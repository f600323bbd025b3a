//! Faults that make a restart impossible and that can be seen while the job is running. A rehearsal reports each of
//! them in advance; after the job was killed, the restart is refused for the same reason; and both succeed again when the
//! fault is gone.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};
use nix::libc;
use nix::unistd::geteuid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::damage::flip_bits_throughout;
use standfast_tests::running::{Ended, Output, PATIENCE, Running, until};
use standfast_tests::victims::Program;
use std::fs::{self, File, Permissions};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAM: &str = include_str!("../victims/rehearsed.py");
const SURROUNDINGS: &str = include_str!("../victims/surroundings.sh");
/// A library that few systems lack, of which the program loads a copy.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libz.so.1";
/// The checkpoint to restart: it builds upon the first one.
const GENERATION: &str = "2";
/// Faults that a plain user can plant, at least.
const FAULTS_MIN: usize = 50;

/// Takes a fault away.
type Undo = Box<dyn FnOnce() -> Result<()>>;

/// A fault.
struct Fault {
    name: &'static str,
    /// Words of the report.
    words: Vec<String>,
    plant: Box<dyn Fn() -> Result<Undo>>,
}

fn fault(name: &'static str, words: &[&str], plant: impl Fn() -> Result<Undo> + 'static) -> Fault {
    Fault { name, words: words.iter().map(|word| (*word).to_owned()).collect(), plant: Box::new(plant) }
}

fn undo(work: impl FnOnce() -> Result<()> + 'static) -> Result<Undo> {
    Ok(Box::new(work))
}

/// Keeps something until the fault is taken away.
fn held(thing: impl Sized + 'static) -> Result<Undo> {
    undo(move || {
        drop(thing);
        Ok(())
    })
}

fn aside(path: &Path) -> PathBuf {
    path.with_extension("aside")
}

fn gone(path: &Path) -> Result<Undo> {
    replaced(path, |_| Ok(()))
}

/// Puts what `make` makes in the place of a name.
fn replaced(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<Undo> {
    fs::rename(path, aside(path)).with_context(|| format!("moving {} aside", path.display()))?;
    make(path)?;
    let path = path.to_owned();
    undo(move || {
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
        Ok(fs::rename(aside(&path), &path)?)
    })
}

fn by_file(path: &Path) -> Result<Undo> {
    replaced(path, |path| Ok(fs::write(path, "another file")?))
}

fn by_directory(path: &Path) -> Result<Undo> {
    replaced(path, |path| Ok(fs::create_dir(path)?))
}

fn by_link_to_nothing(path: &Path) -> Result<Undo> {
    replaced(path, |path| Ok(symlink("nothing", path)?))
}

/// Changes the contents of a file in place.
fn contents(path: &Path, change: impl Fn(&mut Vec<u8>)) -> Result<Undo> {
    let before = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let mut after = before.clone();
    change(&mut after);
    fs::write(path, after)?;
    let path = path.to_owned();
    undo(move || Ok(fs::write(path, before)?))
}

fn cut(path: &Path) -> Result<Undo> {
    contents(path, |bytes| bytes.truncate(5))
}

fn changed(path: &Path) -> Result<Undo> {
    contents(path, |bytes| bytes.iter_mut().for_each(|byte| *byte ^= 1))
}

fn mode(path: &Path, mode: u32) -> Result<Undo> {
    let before = fs::metadata(path)?.permissions();
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    let path = path.to_owned();
    undo(move || Ok(fs::set_permissions(path, before)?))
}

fn flipped(path: &Path) -> Result<Undo> {
    flip_bits_throughout(path)?;
    let path = path.to_owned();
    undo(move || flip_bits_throughout(&path))
}

fn both(first: Undo, second: Result<Undo>) -> Result<Undo> {
    let second = second?;
    undo(move || {
        second()?;
        first()
    })
}

/// Takes away the copies of files with code that are kept in the job's directory.
fn copies_gone(images: &Path) -> Result<Undo> {
    let mut all: Result<Undo> = undo(|| Ok(()));
    for entry in fs::read_dir(images)?.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b"keepsake-") {
            all = both(all?, gone(&entry.path()));
        }
    }
    all
}

/// The job and its directory.
struct Place {
    work: PathBuf,
    images: PathBuf,
}

impl Place {
    fn of(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// A fault of a file of the program.
    fn fault(&self, name: &'static str, file: &str, plant: fn(&Path) -> Result<Undo>) -> Fault {
        let path = self.of(file);
        fault(name, &[file], move || plant(&path))
    }

    fn files(&self) -> Vec<Fault> {
        vec![
            self.fault("written file cut", "files/written", cut),
            self.fault("written file replaced", "files/written", by_file),
            self.fault("directory in place of the written file", "files/written", by_directory),
            self.fault("link in place of the written file", "files/written", by_link_to_nothing),
            self.fault("appended file cut", "files/appended", cut),
            self.fault("appended file changed", "files/appended", changed),
            self.fault("input cut", "input/source", cut),
            self.fault("input changed", "input/source", changed),
            self.fault("directory in place of the input", "input/source", by_directory),
            self.fault("link in place of the input", "input/source", by_link_to_nothing),
            self.fault("folder of the input gone", "input", gone),
            self.fault("file in place of the folder of the input", "input", by_file),
            self.fault("privately mapped file cut", "mapped/private", cut),
            self.fault("privately mapped file changed", "mapped/private", changed),
            self.fault("privately mapped file gone", "mapped/private", gone),
            self.fault("directory in place of the mapped file", "mapped/shared", by_directory),
            self.fault("folder of mapped files gone", "mapped", gone),
        ]
    }

    fn names(&self) -> Vec<Fault> {
        vec![
            self.fault("file in place of the open directory", "folders/opened", by_file),
            self.fault("file in place of the working directory", "folders/place", by_file),
            self.fault("file in place of the pipe", "pipes/read", by_file),
            self.fault("directory in place of the pipe", "pipes/read", by_directory),
            self.fault("file in place of the folder of the pipe", "pipes", by_file),
            self.fault("file in place of the stream socket", "sockets/stream", by_file),
            self.fault("directory in place of the stream socket", "sockets/stream", by_directory),
            self.fault("another server's socket", "sockets/stream", |path| {
                let before = gone(path)?;
                both(before, held(UnixListener::bind(path)?))
            }),
            self.fault("file in place of the datagram socket", "sockets/datagram", by_file),
            self.fault("another receiver's socket", "sockets/datagram", |path| {
                let before = gone(path)?;
                both(before, held(UnixDatagram::bind(path)?))
            }),
        ]
    }

    /// Files with code are reported only if the copy that Standfast keeps of them is gone, too: it takes their place.
    fn code(&self) -> Vec<Fault> {
        let without_copies = |name, file: &str, plant: fn(&Path) -> Result<Undo>| {
            let (path, images) = (self.of(file), self.images.clone());
            fault(name, &[file], move || both(plant(&path)?, copies_gone(&images)))
        };
        vec![
            without_copies("library swapped", "lib/loaded.so", by_file),
            without_copies("library gone", "lib/loaded.so", gone),
            without_copies("library changed", "lib/loaded.so", changed),
            without_copies("executable swapped", "bin/program", by_file),
            without_copies("executable gone", "bin/program", gone),
        ]
    }

    /// Ports and names that the job had at the checkpoint, has closed since, and another program has taken.
    fn taken(&self) -> Result<Vec<Fault>> {
        let said = fs::read_to_string(self.of("waiting"))?;
        let words: Vec<String> = said.split(' ').map(str::to_owned).collect();
        let [one, six, any, datagrams, door] = &words[..] else { anyhow::bail!("it said {said}") };
        let tcp = |name, host: &'static str, port: &str| {
            let number: u16 = port.parse()?;
            anyhow::Ok(fault(name, &[port], move || held(TcpListener::bind((host, number))?)))
        };
        let udp: u16 = datagrams.parse()?;
        let address = SocketAddr::from_abstract_name(door)?;
        let file = |name: &str| self.of(&format!("locks/{name}"));
        let (whole, part, description) = (file("whole"), file("part"), file("description"));
        let bytes = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 12,
            l_len: 1,
            l_pid: 0,
        };
        let opened = |path: &Path| File::options().read(true).write(true).open(path);
        Ok(vec![
            tcp("port taken", "127.0.0.1", one)?,
            tcp("port of IPv6 taken", "::1", six)?,
            tcp("port of all addresses taken", "0.0.0.0", any)?,
            tcp("port of all addresses taken at one", "127.0.0.1", any)?,
            fault("port of datagrams taken", &[datagrams], move || held(UdpSocket::bind(("127.0.0.1", udp))?)),
            fault("abstract name taken", &[door], move || held(UnixListener::bind_addr(&address)?)),
            fault("file locked", &["locks/whole"], move || {
                let lock = Flock::lock(opened(&whole)?, FlockArg::LockSharedNonblock);
                held(lock.map_err(|(_, error)| error)?)
            }),
            fault("bytes locked by a process", &["locks/part"], move || {
                let file = opened(&part)?;
                fcntl(&file, FcntlArg::F_SETLK(&bytes))?;
                held(file)
            }),
            fault("bytes locked by an open file", &["locks/description"], move || {
                let file = opened(&description)?;
                fcntl(&file, FcntlArg::F_OFD_SETLK(&bytes))?;
                held(file)
            }),
        ])
    }

    fn images(&self) -> Vec<Fault> {
        let file = |name: &str| self.images.join(name);
        let (first, second) = (file("generation-00000001.image"), file("generation-00000002.image"));
        let of = |name, path: &Path, plant: fn(&Path) -> Result<Undo>| {
            let path = path.to_owned();
            fault(name, &[], move || plant(&path))
        };
        let halved = |path: &Path| contents(path, |bytes| bytes.truncate(bytes.len() / 2));
        let other = second.clone();
        vec![
            of("bits of the first image flipped", &first, flipped),
            of("first image cut", &first, halved),
            of("first image gone", &first, gone),
            of("bits of the second image flipped", &second, flipped),
            of("second image cut", &second, halved),
            of("second image gone", &second, gone),
            fault("second image in place of the first", &[], move || {
                replaced(&first, |first| Ok(fs::copy(&other, first).map(drop)?))
            }),
            of("manifest gone", &file("manifest"), gone),
            of("bits of the manifest flipped", &file("manifest"), flipped),
            of("directory open to all", &self.images, |path| mode(path, 0o777)),
        ]
    }

    /// Rights that root does not need.
    fn rights(&self) -> Vec<Fault> {
        let closed = |name, file| self.fault(name, file, |path| mode(path, 0));
        vec![
            closed("folder of the written file closed", "files"),
            closed("folder of the input closed", "input"),
            closed("folder of mapped files closed", "mapped"),
            closed("working directory closed", "folders/place"),
            closed("parent of directories closed", "folders"),
        ]
    }

    /// What is gone, and a restart makes again.
    fn harmless(&self) -> Vec<Fault> {
        vec![
            self.fault("written file gone", "files/written", gone),
            self.fault("input gone", "input/source", gone),
            self.fault("open directory gone", "folders/opened", gone),
            self.fault("working directory gone", "folders/place", gone),
            self.fault("pipe gone", "pipes/read", gone),
            self.fault("stream socket gone", "sockets/stream", gone),
        ]
    }

    fn faults(&self) -> Result<Vec<Fault>> {
        let rights = if geteuid().is_root() { Vec::new() } else { self.rights() };
        let all = [self.files(), self.names(), self.code(), self.taken()?, self.images(), rights];
        Ok(all.into_iter().flatten().collect())
    }
}

/// Plants each fault, and returns those of which `report` does not return the words.
fn unreported(faults: &[Fault], mut report: impl FnMut(&Fault) -> Result<Option<String>>) -> Result<Vec<String>> {
    let mut unreported = Vec::new();
    for fault in faults {
        let undo = (fault.plant)().with_context(|| format!("planting: {}", fault.name))?;
        let reported = report(fault);
        undo().with_context(|| format!("taking away: {}", fault.name))?;
        match reported? {
            None => unreported.push(format!("{}: nothing", fault.name)),
            Some(said) if fault.words.iter().all(|word| said.contains(word)) => {}
            Some(said) => unreported.push(format!("{}: {said}", fault.name)),
        }
    }
    Ok(unreported)
}

fn refusal(ended: Ended) -> Option<String> {
    (!ended.status.success()).then_some(ended.errors)
}

/// Starts the job, takes two checkpoints, and lets the job release what others are to take.
fn begin(arena: &Arena) -> Result<Running> {
    let standfast = Standfast::new(arena)?;
    let work = arena.work();
    for (from, to) in [("/usr/bin/python3", "bin/program"), (LIBRARY, "lib/loaded.so")] {
        let to = work.join(to);
        fs::create_dir_all(to.parent().context("a folder")?)?;
        fs::copy(from, &to).with_context(|| format!("copying {from}"))?;
    }
    fs::write(work.join("program.py"), PROGRAM)?;
    let program =
        Program { path: work.join("bin/program"), arguments: vec!["program.py".into(), "lib/loaded.so".into()] };
    let options = ["--save-files=1", "--incremental", "on"].map(str::to_owned);
    let running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    standfast.checkpoint()?;
    fs::write(work.join("release"), "")?;
    until(PATIENCE, "the job to release its ports", || Ok(work.join("released").exists().then_some(())))?;
    Ok(running)
}

#[test]
#[ignore = "it rehearses and restarts a job a hundred times"]
fn rehearsals_report_fifty_faults_that_refuse_the_restart() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = begin(&arena)?;
    let place = Place { work: arena.work(), images: arena.images() };
    let faults = place.faults()?;
    ensure!(geteuid().is_root() || faults.len() >= FAULTS_MIN, "only {} faults", faults.len());
    let rehearse = |_: &Fault| Ok(refusal(standfast.ask("rehearse", &arena.images(), &[GENERATION])?));
    let by_rehearsal = unreported(&faults, rehearse)?;
    for harmless in place.harmless() {
        let undo = (harmless.plant)()?;
        let rehearsed = standfast.ask("rehearse", &arena.images(), &[GENERATION])?;
        undo()?;
        rehearsed.well(harmless.name)?;
    }
    // While the job is running, it may have done that itself.
    drop(cut(&place.of("mapped/shared"))?);
    standfast.ask("rehearse", &arena.images(), &[GENERATION])?.well("a rehearsal without faults")?;
    standfast.kill_job()?;
    running.wait(PATIENCE)?;
    let by_restart = unreported(&faults, |_| {
        let restarted = restart(&arena, &standfast)?;
        let ended = restarted.wait(Duration::from_secs(3));
        if ended.is_err() {
            standfast.kill_job()?;
        }
        Ok(ended.ok().and_then(refusal))
    })?;
    let all = |faults: &[String]| faults.join("\n");
    ensure!(
        by_rehearsal.is_empty() && by_restart.is_empty(),
        "not reported by a rehearsal:\n{}\nnot refused by the restart:\n{}",
        all(&by_rehearsal),
        all(&by_restart)
    );
    for harmless in place.harmless() {
        drop((harmless.plant)()?);
    }
    let restarted = restart(&arena, &standfast)?;
    fs::write(arena.work().join("gate"), "")?;
    restarted.wait(PATIENCE)?.well("the restart without what it can make again")?;
    ensure!(fs::read_to_string(arena.work().join("result"))? == "done\n", "it has not come to its end");
    Ok(())
}

fn restart(arena: &Arena, standfast: &Standfast<'_>) -> Result<Running> {
    let mut command = standfast.restart_command(&arena.images());
    Running::start(arena, "restart", Output::Log, command.args(["--at", GENERATION]))
}

#[test]
#[ignore = "it needs namespaces in which a plain user may change what the system offers"]
fn rehearsals_report_what_the_system_no_longer_offers() -> Result<()> {
    let arena = Arena::new()?;
    fs::write(arena.work().join("surroundings.sh"), SURROUNDINGS)?;
    let mut command = arena.command("unshare");
    command.args(["--user", "--map-current-user", "--keep-caps", "--pid", "--fork", "--mount-proc", "--net"]);
    let standfast = Standfast::new(&arena)?.command(&[]).get_program().to_owned();
    command.args(["--kill-child", "bash", "surroundings.sh"]).arg(standfast).arg("/usr/bin/python3");
    let said = Running::complete(&arena, "surroundings", &mut command)?.well("the script")?.output;
    ensure!(said.ends_with("reported\n"), "it says {said}");
    Ok(())
}
