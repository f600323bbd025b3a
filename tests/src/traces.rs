//! What outlives the processes of a scenario: kernel objects with names, and leftover files. The only objects that this
//! module knows are those of the victim `ring`, which names them after its working folder.

use crate::arena::Arena;
use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::mqueue::{MQ_OFlag, mq_open};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Checks that nothing is left when no process of the scenario runs any more.
///
/// # Errors
/// When something is left, or the search fails.
pub fn ensure_none(arena: &Arena) -> Result<()> {
    let sum = fold(fs::canonicalize(arena.work())?.as_os_str().as_bytes());
    let (key, name) = ((sum & 0x7fff_ffff) | 1, format!("/standfast-test-{sum:016x}"));
    let mut left = Vec::new();
    for kind in ["shm", "sem", "msg"] {
        let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
        let is_ours = |line: &&str| line.split_whitespace().next() == Some(&key.to_string());
        left.extend(table.lines().filter(is_ours).map(|line| format!("System V {kind}: {line}")));
    }
    let queue = mq_open(name.as_str(), MQ_OFlag::O_RDONLY, Mode::empty(), None);
    if queue.err() != Some(Errno::ENOENT) {
        left.push(format!("message queue {name}"));
    }
    if Path::new("/dev/shm").join(&name[1..]).exists() {
        left.push(format!("/dev/shm{name}"));
    }
    left.extend(files_left_in(&arena.images())?);
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

/// Returns children of the scenario's processes whose end is reported to nobody (`exit_signal` 0). No program creates
/// such children. A program that waits for all its children, of any kind, would find them.
pub fn strange_children(arena: &Arena) -> Vec<String> {
    // Field 38 of `/proc/PID/stat`, counted from 1. The name, before field 3, may contain spaces.
    const EXIT_SIGNAL: usize = 38 - 3;
    let children = |pid: Pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let stat = |child: String| fs::read_to_string(format!("/proc/{child}/stat")).ok();
    let is_strange = |stat: &String| {
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        fields.split(' ').nth(EXIT_SIGNAL) == Some("0")
    };
    arena.processes().into_iter().flat_map(children).filter_map(stat).filter(is_strange).collect()
}

/// Returns sockets and partially written files in a job's directory. The next supervisor removes those of a killed one.
/// There is a next one only if the job can continue.
fn files_left_in(images: &Path) -> Result<Vec<String>> {
    let mut left = Vec::new();
    let mut may_continue = false;
    for entry in fs::read_dir(images).with_context(|| format!("reading {}", images.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        may_continue |= name.starts_with("generation-");
        if name.ends_with(".tmp") || entry.file_type()?.is_socket() {
            left.push(name);
        }
    }
    Ok(if may_continue { left } else { Vec::new() })
}

/// FNV-1a, the hash that victims use.
fn fold(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
