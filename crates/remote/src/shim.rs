//! The shim: executes the command of one client, stays beside it, and says how it ended.

use crate::error::system;
use crate::greeting;
use crate::message::{Purpose, RemoteMessage, StreamKind};
use crate::relay::{Relay, await_any};
use crate::secret::random;
use crate::{RemoteError, Secret};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::OsStr;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};

/// How long the streams of a command may take to be connected.
const STREAMS_MAX: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// The maximum number of connections to the streams' port that are looked at. Strangers can connect there as well.
const CONNECTIONS_MAX: usize = 30;

/// Answers one connection: executes its command, and returns when that has ended or cannot be started. A command whose
/// client is gone gets SIGHUP.
///
/// # Errors
/// When whoever has connected does not belong to the job, or the connection fails.
pub fn answer(mut control: TcpStream, secret: &Secret) -> Result<(), RemoteError> {
    if greeting::was_only_tried(&control)? {
        return Ok(());
    }
    let Purpose::Command { line } = greeting::answer(&mut control, secret)? else {
        return Err(RemoteError::Stranger("it wants the stream of another command"));
    };
    let begun = streams(&mut control, secret).and_then(|streams| begin(&line, streams));
    let (mut command, mut relays) = match begun {
        Ok(begun) => begun,
        Err(error) => return RemoteMessage::Refused { reason: error.to_string() }.send(&mut control),
    };
    match follow(&control, &mut command, &mut relays)? {
        Some(status) => RemoteMessage::Ended { status }.send(&mut control),
        None => Ok(()),
    }
}

/// Has the client connect the streams of its command.
fn streams(control: &mut TcpStream, secret: &Secret) -> Result<[TcpStream; 3], RemoteError> {
    let opening = || {
        let listener = TcpListener::bind((control.local_addr()?.ip(), 0))?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    let (listener, port) = opening().map_err(system("opening a port for the streams"))?;
    let ticket = random()?;
    RemoteMessage::Streams { port, ticket }.send(control)?;
    let mut found: [Option<TcpStream>; 3] = Default::default();
    for _ in 0..CONNECTIONS_MAX {
        let mut polled = [PollFd::new(&listener, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        let waited = rustix::event::poll(&mut polled, Some(&STREAMS_MAX));
        waited.map_err(|error| system("waiting for the streams")(error.into()))?;
        if polled[0].revents().is_empty() {
            break;
        }
        let (mut stream, _) = listener.accept().map_err(system("accepting a stream"))?;
        match greeting::answer(&mut stream, secret) {
            Ok(Purpose::Stream { ticket: shown, kind }) if shown == ticket => found[place(kind)] = Some(stream),
            _ => {}
        }
        if let [Some(_), Some(_), Some(_)] = &found {
            return Ok(found.map(|stream| stream.expect("it has just been seen")));
        }
    }
    Err(RemoteError::Lost)
}

fn place(kind: StreamKind) -> usize {
    match kind {
        StreamKind::Input => 0,
        StreamKind::Output => 1,
        StreamKind::Errors => 2,
    }
}

/// Starts a command between pipes: programs open /dev/stderr, which is not possible with a connection.
fn begin(line: &[u8], streams: [TcpStream; 3]) -> Result<(Child, [Relay; 3]), RemoteError> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(OsStr::from_bytes(line)).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(system("executing /bin/sh"))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(input), Some(output), Some(errors)) = pipes else { unreachable!("all three are pipes") };
    let [of_input, of_output, of_errors] = streams.map(OwnedFd::from);
    let relays = [
        Relay::new(of_input, input.into())?,
        Relay::new(output.into(), of_output)?,
        Relay::new(errors.into(), of_errors)?,
    ];
    Ok((child, relays))
}

/// Relays the streams until the command has ended and its output has been passed on; returns its status then. Returns `None`
/// if nobody wants to know it any more.
fn follow(control: &TcpStream, command: &mut Child, relays: &mut [Relay; 3]) -> Result<Option<i32>, RemoteError> {
    let own = Pid::from_child(command);
    let end = pidfd_open(own, PidfdFlags::empty()).map_err(|error| system("watching the command")(error.into()))?;
    let (mut status, mut is_wanted) = (None, true);
    loop {
        if status.is_some() && (!is_wanted || relays[1..].iter().all(Relay::is_done)) {
            return Ok(status.filter(|_| is_wanted));
        }
        let others = [status.is_none().then_some(end.as_fd()), is_wanted.then_some(control.as_fd())];
        let [has_ended, is_left] = await_any(relays, others)?;
        if has_ended {
            status = Some(command.wait().map_err(system("waiting for the command"))?.into_raw());
        }
        // The client says nothing: its connection is readable when it ends.
        if is_left {
            is_wanted = false;
            let _ = kill_process_group(own, Signal::HUP);
        }
    }
}
