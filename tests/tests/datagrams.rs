//! Datagrams that are on their way at a checkpoint, over a loopback interface that takes its time.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::standfast_binary;
use standfast_tests::result::OUTPUT;
use standfast_tests::running::Running;
use standfast_tests::skip::{Lacking, skip};
use std::fs;
use std::process::Stdio;

/// Sends three datagrams at once, of which the last one takes a third of a second.
const PROGRAM: &str = r#"
import os, socket, time
receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
receiver.bind(("127.0.0.1", 0))
for number in range(3):
    sender.sendto(bytes([number]) * 700, receiver.getsockname())
open("sent", "w").close()
while not os.path.exists("go"):
    time.sleep(0.001)
receiver.settimeout(30)
print([receiver.recv(1000)[0] for _ in range(3)])
"#;

const SLOW_LOOPBACK: &str = "ip link set lo up && tc qdisc replace dev lo root tbf rate 16kbit burst 1600 limit 100000";

const SCRIPT: &str = r#"
set -e
eval "$SLOW_LOOPBACK"
"$0" run -i off -d "$IMAGES" -- /usr/bin/python3 -c "$PROGRAM" > "$OUTPUT" &
run=$!
tries=0
until [ -e sent ]; do tries=$((tries + 1)); [ $tries -lt 3000 ]; sleep 0.01; done
"$0" checkpoint --stop "$IMAGES"
wait $run || [ $? = 75 ]
: > go
"$0" restart "$IMAGES"
"#;

#[test]
fn datagrams_on_their_way_over_the_loopback_are_not_lost() -> Result<()> {
    let arena = Arena::new()?;
    let apart = ["-Urn", "sh", "-c"];
    if !arena.command("unshare").args(apart).arg(SLOW_LOOPBACK).output()?.status.success() {
        let why = "this user may not make a network, or there is no queue that limits the rate (sch_tbf)";
        skip("datagrams on their way over the loopback are not lost", &Lacking::system(why));
        return Ok(());
    }
    let mut script = arena.command("unshare");
    script.args(apart).arg(SCRIPT).arg(standfast_binary()?).stdin(Stdio::null()).current_dir(arena.work());
    script.env("SLOW_LOOPBACK", SLOW_LOOPBACK).env("PROGRAM", PROGRAM).env("IMAGES", arena.images());
    script.env("OUTPUT", arena.work().join(OUTPUT));
    Running::complete(&arena, "script", &mut script)?.well("the script").with_context(|| arena.evidence())?;
    let received = fs::read_to_string(arena.work().join(OUTPUT))?;
    ensure!(received == "[0, 1, 2]\n", "it received {received:?}");
    Ok(())
}
