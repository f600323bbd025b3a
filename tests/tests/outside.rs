//! Connections, named pipes and terminals that lead out of the job, to a process outside. Standfast refuses them by name
//! before it writes anything, and the program continues with them. Datagrams to the outside have no state, so a
//! checkpoint carries them over.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{OUTPUT, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running};
use standfast_tests::screen::Screen;
use standfast_tests::victims::{HOLDER, SMALL};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

/// Runs `hold THING WHERE`, lets `meet` meet it, and asks for a checkpoint. Returns what standfast reported. The program
/// then continues to its end with what it holds.
fn said<T>(thing: &str, place: &str, arena: &Arena, meet: impl FnOnce() -> Result<T>) -> Result<String> {
    let running = Standfast::new(arena)?.run(Checkpoints::OnRequest, &HOLDER.with(&[thing, place])?)?;
    said_of(running, arena, meet)
}

/// Does the same with a run of some program with a gate.
fn said_of<T>(running: Running, arena: &Arena, meet: impl FnOnce() -> Result<T>) -> Result<String> {
    let standfast = Standfast::new(arena)?;
    standfast.await_gate()?;
    let met = meet()?;
    let asked = standfast.ask("checkpoint", &arena.images(), &[])?;
    let generations = standfast.status(&arena.images())?["generations"].as_array().map_or(0, Vec::len);
    ensure!(asked.status.success() == (generations == 1), "{} said, {generations} generations", asked.errors);
    open_gate(arena)?;
    running.wait(PATIENCE)?.well("the job").with_context(|| arena.evidence())?;
    drop(met);
    Ok(asked.errors)
}

#[test]
fn an_outside_tcp_connection_is_refused_with_its_address() -> Result<()> {
    let arena = Arena::new()?;
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = server.local_addr()?.port().to_string();
    let answered = || {
        let (mut connection, _) = server.accept()?;
        connection.write_all(b"hello")?;
        Ok(connection)
    };
    let told = said("tcp", &port, &arena, answered)?;
    ensure!(told.contains("outside the program") && told.contains(&format!("127.0.0.1:{port}")), "{told}");
    Ok(())
}

#[test]
fn an_outside_tcp_connection_not_yet_accepted_is_refused() -> Result<()> {
    let arena = Arena::new()?;
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = server.local_addr()?.port().to_string();
    let told = said("tcp", &port, &arena, || Ok(()))?;
    ensure!(told.contains("outside the program"), "{told}");
    Ok(())
}

#[test]
fn an_outside_unix_connection_is_refused() -> Result<()> {
    let arena = Arena::new()?;
    let path = arena.work().join("service");
    let server = UnixListener::bind(&path)?;
    let told = said("unix", &path.to_string_lossy(), &arena, || Ok(server.accept()?))?;
    ensure!(told.contains("outside the program"), "{told}");
    Ok(())
}

/// Runs `hold THING WHERE` with connections to be reset, and lets `meet` meet it. Saves, kills and restarts the program,
/// which finds the connection reset. A write to what `meet` returns shows whether the checkpoint left the connection
/// alone.
fn comes_back_reset<T: Read + Write>(thing: &str, place: &str, meet: impl FnOnce() -> Result<T>) -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let options = ["--external-sockets", "reset"].map(str::to_owned);
    let running = standfast.run_with(&options, Checkpoints::OnRequest, &HOLDER.with(&[thing, place])?)?;
    standfast.await_gate()?;
    let mut met = meet()?;
    // The program does not read this; it is lost with the connection.
    met.write_all(b"hello")?;
    standfast.checkpoint()?;
    met.write_all(b"once more").context("the connection of the running program was harmed")?;
    ensure!(standfast.kill_job()?, "the program has ended at its gate");
    running.wait(PATIENCE)?;
    let restarted = standfast.restart(&arena.images(), "restart")?;
    standfast.await_program()?;
    open_gate(&arena)?;
    restarted.wait(PATIENCE)?.well("the restarted job").with_context(|| arena.evidence())?;
    Ok(())
}

#[test]
fn an_outside_tcp_connection_is_restored_as_reset_on_request() -> Result<()> {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = server.local_addr()?.port().to_string();
    comes_back_reset("tcp-until-reset", &port, || Ok(server.accept()?.0))
}

#[test]
fn an_outside_unix_connection_is_restored_as_reset_on_request() -> Result<()> {
    let folder = Arena::new()?;
    let path = folder.work().join("service");
    let server = UnixListener::bind(&path)?;
    comes_back_reset("unix-until-reset", &path.to_string_lossy(), || Ok(server.accept()?.0))
}

#[test]
fn a_named_pipe_open_outside_is_refused() -> Result<()> {
    let arena = Arena::new()?;
    let path = arena.work().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU)?;
    let mut reader = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&path)?;
    let told = said("pipe", &path.to_string_lossy(), &arena, || Ok(()))?;
    ensure!(told.contains("named pipe") && told.contains(&std::process::id().to_string()), "{told}");
    let mut written = String::new();
    reader.read_to_string(&mut written)?;
    ensure!(written == "still here", "{written:?}");
    std::fs::remove_file(&path)?;
    Ok(())
}

#[test]
fn a_pipe_open_outside_is_refused() -> Result<()> {
    let arena = Arena::new()?;
    let (reader, writer) = std::io::pipe()?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
    let told = said("pipe", &path, &arena, || Ok(()))?;
    ensure!(told.contains("pipe") && told.contains("outside"), "{told}");
    drop(writer);
    ensure!(std::io::read_to_string(reader)? == "still here");
    Ok(())
}

#[test]
fn inherited_files_without_a_name_are_refused() -> Result<()> {
    for (opened, name) in [
        ("os.memfd_create('lent')", "memfd:lent"),
        ("os.open('lent', os.O_CREAT | os.O_RDWR); os.unlink('lent')", "lent (deleted)"),
    ] {
        let arena = Arena::new()?;
        let run = Standfast::new(&arena)?.run_command(Checkpoints::OnRequest, &SMALL.with(&[])?);
        let mut lend = arena.command("python3");
        lend.arg("-c").arg(format!(
            "import os, sys; it = {opened}; os.set_inheritable(it, True); os.execv(sys.argv[1], sys.argv[1:])"
        ));
        lend.arg(run.get_program()).args(run.get_args()).stdin(Stdio::null());
        let running = Running::start(&arena, "run", Output::File(arena.work().join(OUTPUT)), &mut lend)?;
        let told = said_of(running, &arena, || Ok(()))?;
        ensure!(told.contains("was started with it") && told.contains(name), "{told}");
    }
    Ok(())
}

#[test]
fn an_epoll_watch_of_an_outside_descriptor_is_refused() -> Result<()> {
    let arena = Arena::new()?;
    let path = arena.work().join("service");
    let server = UnixListener::bind(&path)?;
    // The watched descriptor waits in a message to the test.
    let told = said("watch", &path.to_string_lossy(), &arena, || Ok(server.accept()?))?;
    ensure!(told.contains("still watches") && told.contains("no descriptor leads there"), "{told}");
    Ok(())
}

#[test]
fn a_session_on_an_outside_terminal_is_refused() -> Result<()> {
    let arena = Arena::new()?;
    let (_screen, _terminal, path) = Screen::open()?;
    let told = said("session", &path.to_string_lossy(), &arena, || Ok(()))?;
    ensure!(told.contains("controlling terminal is outside"), "{told}");
    Ok(())
}

#[test]
fn a_terminal_of_the_job_open_outside_is_refused() -> Result<()> {
    let arena = Arena::new()?;
    let path = arena.work().join("terminal");
    let open = || {
        let mut options = OpenOptions::new();
        Ok(options.read(true).write(true).custom_flags(nix::libc::O_NOCTTY).open(&path)?)
    };
    let told = said("terminal", &path.to_string_lossy(), &arena, open)?;
    ensure!(told.contains("ptmx") && told.contains(&std::process::id().to_string()), "{told}");
    Ok(())
}

#[test]
fn datagrams_sent_outside_are_no_blocker() -> Result<()> {
    let arena = Arena::new()?;
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let told = said("udp", &server.local_addr()?.port().to_string(), &arena, || Ok(()))?;
    ensure!(told.is_empty(), "{told}");
    Ok(())
}

/// A System V object that a program outside the job has made; it is removed when dropped.
struct Foreign {
    option: &'static str,
    id: String,
}

impl Foreign {
    fn make(arguments: &[&str], option: &'static str) -> Result<Self> {
        let made = Command::new("ipcmk").args(arguments).output().context("ipcmk, of util-linux")?;
        let said = String::from_utf8(made.stdout)?;
        let id = said.split_whitespace().last().context("ipcmk says an id")?.to_owned();
        Ok(Self { option, id })
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // The object may be gone; then there is nothing to remove.
        let _ = Command::new("ipcrm").args([self.option, &self.id]).output();
    }
}

#[test]
fn system_v_objects_older_than_the_job_are_refused_by_name() -> Result<()> {
    for (thing, arguments, option) in
        [("semaphores", &["-S", "1"][..], "-s"), ("segment", &["-M", "4096"], "-m"), ("messages", &["-Q"], "-q")]
    {
        let arena = Arena::new()?;
        let foreign = Foreign::make(arguments, option)?;
        let told = said(thing, &foreign.id, &arena, || Ok(()))?;
        ensure!(told.contains("System V") && told.contains(&foreign.id) && told.contains("there before"), "{told}");
    }
    Ok(())
}

#[test]
fn a_segment_attached_outside_is_refused() -> Result<()> {
    let (arena, other) = (Arena::new()?, Arena::new()?);
    let foreign = Foreign::make(&["-M", "4096"], "-m")?;
    let program = HOLDER.with(&["segment", &foreign.id])?;
    let mut outside = Command::new(&program.path).args(&program.arguments).current_dir(other.work()).spawn()?;
    let told = said("segment", &foreign.id, &arena, || Ok(()));
    open_gate(&other)?;
    ensure!(outside.wait()?.success(), "the other program was harmed");
    ensure!(told?.contains("other programs have attached it"), "it is not said who has it");
    Ok(())
}

#[test]
fn a_message_queue_open_outside_is_refused() -> Result<()> {
    let (arena, other) = (Arena::new()?, Arena::new()?);
    let name = format!("/standfast-test-{}", std::process::id());
    let program = HOLDER.with(&["queue", &name])?;
    let mut outside = Command::new(&program.path).args(&program.arguments).current_dir(other.work()).spawn()?;
    let told = said("queue", &name, &arena, || Ok(()));
    open_gate(&other)?;
    ensure!(outside.wait()?.success(), "the other program was harmed");
    let told = told?;
    ensure!(told.contains("message queue") && told.contains(&outside.id().to_string()), "{told}");
    Ok(())
}
