//! The simulated nodes are as honest as real ones: what a plain user may not do there, nobody may, and the nodes share nothing
//! but one directory and the kernel.

use anyhow::{Context as _, Result, ensure};
use standfast_tests::Lacking;
use standfast_tests::simulated::Nodes;
use standfast_tests::skip::skip;

/// What needs a capability, each tried; prints the errors' numbers.
const TRIED: &str = r#"
import fcntl, socket, struct
TCP_REPAIR, SO_RCVBUFFORCE, SIOCSIFADDR = 19, 33, 0x8916
tcp = socket.socket()
address = struct.pack("16sH2s4s8s", b"eth0", socket.AF_INET, b"", socket.inet_aton("10.77.0.99"), b"")
for attempt in (
    lambda: tcp.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1),
    lambda: tcp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 30),
    lambda: fcntl.ioctl(tcp, SIOCSIFADDR, address),
):
    try:
        attempt()
        print("done")
    except OSError as error:
        print(error.errno)
"#;

/// Ends a connection to node2 first; prints the state of what is left of it, and the time that it will stay.
const ENDED: &str = r#"
import socket, time
deadline = time.monotonic() + 20
while True:
    try:
        connection = socket.create_connection(("node2", 7777), timeout=5)
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
connection.shutdown(socket.SHUT_WR)
while connection.recv(1):
    pass
connection.close()
for line in open("/proc/net/tcp").readlines()[1:]:
    words = line.split()
    if words[2].endswith(":1E61"):
        print(words[3], int(words[5].split(":")[1], 16) / 100)
"#;

const ANSWERED: &str = r#"
import socket
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("", 7777))
listener.listen()
connection = listener.accept()[0]
while connection.recv(1):
    pass
connection.close()
"#;

/// Longer than it lingers on the loopback device of some kernels.
const LINGERS_MIN_SECONDS: f64 = 50.0;
const NOT_PERMITTED: &str = "1";

fn with_two_nodes(promise: impl Fn(Nodes) -> Result<()>) -> Result<()> {
    match Nodes::new(2)? {
        Some(nodes) => promise(nodes),
        None => {
            skip("simulated nodes", &Lacking::system("this machine gives a plain user no namespaces"));
            Ok(())
        }
    }
}

fn python(script: &str) -> String {
    format!("python3 -c '{script}'")
}

#[test]
fn processes_on_simulated_nodes_have_no_privileges() -> Result<()> {
    with_two_nodes(|nodes| {
        let status = nodes.on(0, "id -u; grep -E '^Cap(Prm|Eff|Bnd|Amb)' /proc/self/status")?;
        let words: Vec<&str> = status.split_whitespace().collect();
        ensure!(words.len() == 9 && words[0] == "1000", "not a plain user: {status}");
        ensure!(words[2..].iter().step_by(2).all(|set| set.bytes().all(|byte| byte == b'0')), "capable: {status}");
        let tried = nodes.on(0, &python(TRIED))?;
        ensure!(tried.split_whitespace().collect::<Vec<_>>() == [NOT_PERMITTED; 3], "allowed there: {tried}");
        let buffers = nodes.on(0, "cat /proc/sys/net/ipv4/tcp_rmem")?;
        ensure!(buffers.split_whitespace().last() == Some("6291456"), "receive buffers: {buffers}");
        Ok(())
    })
}

#[test]
fn simulated_nodes_share_one_directory_and_nothing_else() -> Result<()> {
    with_two_nodes(|nodes| {
        let shared = tempfile::tempdir().context("a directory that the nodes share")?;
        let at = |node: usize| -> Result<Vec<String>> {
            let asked = "hostname; stat -c %d / /home /usr; for place in net ipc uts pid mnt; do readlink /proc/self/ns/$place; done";
            Ok(nodes.on(node, asked)?.lines().map(str::to_owned).collect())
        };
        let (one, other) = (at(0)?, at(1)?);
        ensure!(one[0] == "node1" && other[0] == "node2", "host names: {one:?}, {other:?}");
        ensure!(one.iter().zip(&other).all(|(one, other)| one != other), "the same: {one:?}, {other:?}");
        let place = shared.path().display();
        nodes.on(0, &format!("touch ~/mark /tmp/mark /dev/shm/mark {place}/mark"))?;
        let seen = nodes.on(1, &format!("ls ~ /tmp/mark /dev/shm {place} 2>/dev/null || true"))?;
        ensure!(seen.matches("mark").count() == 1, "node2 sees: {seen}");
        Ok(())
    })
}

#[test]
fn simulated_nodes_leave_nothing_behind() -> Result<()> {
    with_two_nodes(|nodes| {
        nodes.on(0, "touch ~/mark")?;
        let folder = nodes.folder().to_owned();
        ensure!(folder.join("disk/node1").exists(), "no disk in {}", folder.display());
        drop(nodes);
        ensure!(!folder.exists(), "{} is left", folder.display());
        Ok(())
    })
}

#[test]
fn connections_between_simulated_nodes_linger_as_between_real_ones() -> Result<()> {
    with_two_nodes(|nodes| {
        let ended = std::thread::scope(|scope| {
            let answered = scope.spawn(|| nodes.on(1, &python(ANSWERED)));
            let ended = nodes.on(0, &python(ENDED));
            answered.join().expect("no panic").and(ended)
        })?;
        let (state, seconds) = ended.trim().split_once(' ').with_context(|| format!("nothing lingers: {ended:?}"))?;
        ensure!(state == "06", "not in TIME_WAIT: {ended}");
        ensure!(seconds.parse::<f64>()? > LINGERS_MIN_SECONDS, "it lingers for {seconds} s only");
        Ok(())
    })
}
