//! A server, its shims and clients, in threads of one process.

use crate::greeting::greet;
use crate::message::{Purpose, RemoteMessage, StreamKind};
use crate::{NodeList, RemoteCommand, RemoteError, Secret, answer, run};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

struct Node {
    nodes: NodeList,
    secret: Secret,
    shim: JoinHandle<Result<(), RemoteError>>,
    _folder: tempfile::TempDir,
}

/// Answers one connection, in a thread.
fn node() -> Node {
    let secret = Secret::random().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, folder, of_shim) = (listener.local_addr().unwrap(), tempfile::tempdir().unwrap(), secret.clone());
    let shim = std::thread::spawn(move || answer(listener.accept().unwrap().0, &of_shim));
    Node { nodes: listed(&folder, address), secret, shim, _folder: folder }
}

fn listed(folder: &tempfile::TempDir, address: SocketAddr) -> NodeList {
    let path = folder.path().join("nodes");
    std::fs::write(&path, format!("here {address}\n")).unwrap();
    NodeList::load(&path).unwrap()
}

fn pipe() -> (OwnedFd, File) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    (read, File::from(write))
}

fn command(line: &str) -> RemoteCommand {
    RemoteCommand { node: "here".to_owned(), line: line.as_bytes().to_vec() }
}

/// Executes a line with this input; returns its status, output and errors.
fn executed(line: &str, input: &[u8]) -> (i32, Vec<u8>, String) {
    let node = node();
    let ((from, mut source), (sink, to), (sink_of_errors, errors)) = (pipe(), pipe(), pipe());
    let (input, line) = (input.to_vec(), command(line));
    let writer = std::thread::spawn(move || drop(source.write_all(&input)));
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        File::from(sink).read_to_end(&mut got).unwrap();
        got
    });
    let status = run(&line, &node.nodes, &node.secret, [from, to.into(), errors.into()]).unwrap();
    node.shim.join().unwrap().unwrap();
    writer.join().unwrap();
    let mut said = String::new();
    File::from(sink_of_errors).read_to_string(&mut said).unwrap();
    (status, reader.join().unwrap(), said)
}

#[test]
fn a_command_gets_its_input_and_gives_its_output_and_status() {
    let (status, output, errors) = executed("tr a-z A-Z; echo trouble >/dev/stderr; exit 3", b"some words\n");
    assert_eq!((status, output.as_slice(), errors.as_str()), (3 << 8, &b"SOME WORDS\n"[..], "trouble\n"));
}

#[test]
fn much_passes_in_both_directions() {
    let input: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let (status, output, _) = executed("cat", &input);
    assert_eq!(status, 0);
    assert!(output == input, "{} of {} bytes", output.len(), input.len());
}

#[test]
fn a_command_that_does_not_read_its_input_ends() {
    assert_eq!(executed("exit 0", &[0; 1 << 20]).0, 0);
}

#[test]
fn a_signal_that_ended_the_command_is_told() {
    assert_eq!(executed("kill -TERM $$", b"").0, 15);
}

#[test]
fn a_command_without_its_client_gets_a_hangup() {
    let node = node();
    let address = node.nodes.address("here").unwrap();
    let connected = |port: u16, purpose: &Purpose| {
        let mut stream = TcpStream::connect((address.ip(), port)).unwrap();
        greet(&mut stream, &node.secret, purpose).unwrap();
        stream
    };
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("hung-up");
    let line = format!("trap '>{}; exit' HUP; echo ready; while :; do sleep 0.01; done", mark.display());
    let mut control = connected(address.port(), &Purpose::Command { line: line.into_bytes() });
    let Ok(RemoteMessage::Streams { port, ticket }) = RemoteMessage::receive(&mut control) else {
        panic!("no streams")
    };
    let stream = |kind| connected(port, &Purpose::Stream { ticket, kind });
    let (_input, output, _errors) = (stream(StreamKind::Input), stream(StreamKind::Output), stream(StreamKind::Errors));
    let mut lines = BufReader::new(output).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    drop(control);
    node.shim.join().unwrap().unwrap();
    assert!(mark.exists());
}

#[test]
fn strangers_are_refused_on_both_sides() {
    let Node { nodes, shim, _folder, .. } = node();
    let ((from, _source), (_sink, to), (_sink_of_errors, errors)) = (pipe(), pipe(), pipe());
    let stranger = Secret::random().unwrap();
    let refused = run(&command("true"), &nodes, &stranger, [from, to.into(), errors.into()]);
    assert!(matches!(refused, Err(RemoteError::Stranger(_))), "{refused:?}");
    assert!(shim.join().unwrap().is_err());
}

#[test]
fn a_node_that_does_not_answer_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nodes = listed(&folder, closed);
    let ((from, _source), (_sink, to), (_sink_of_errors, errors)) = (pipe(), pipe(), pipe());
    let failed = run(&command("true"), &nodes, &Secret::random().unwrap(), [from, to.into(), errors.into()]);
    assert!(failed.unwrap_err().to_string().starts_with("here does not answer at 127.0.0.1:"));
}
