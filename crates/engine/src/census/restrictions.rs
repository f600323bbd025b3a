//! Obstacles in the process as a whole: children, timers, restrictions that a new process would not have.

use crate::Obstacle;
use standfast_linux::proc::{self, Stat, Status};
use std::io;

/// Finds them.
pub(super) fn find(pid: i32, status: &Status) -> io::Result<Vec<Obstacle>> {
    let mut obstacles = children(pid)?;
    let own = Status::of(std::process::id() as i32)?;
    let mut lasting = |hit: bool, what: &str, why: &str, remedy: &str| {
        if hit {
            obstacles.push(Obstacle {
                what: what.to_owned(),
                why: why.to_owned(),
                remedy: remedy.to_owned(),
                passing: false,
            });
        }
    };
    lasting(
        status.seccomp != own.seccomp,
        "seccomp filter",
        "the program has restricted its system calls, which a restart could not do again",
        "run it without its sandbox",
    );
    lasting(
        status.shadow_stack,
        "shadow stack",
        "the program runs on a hardware shadow stack, which cannot be rebuilt yet",
        "set GLIBC_TUNABLES=glibc.cpu.x86_shstk=off",
    );
    lasting(
        status.locked_kib > 0,
        "locked memory",
        "the program has locked memory into RAM (mlock), which cannot be brought back yet",
        "run it without locking",
    );
    Ok(obstacles)
}

/// A job is a tree of one for now.
pub(crate) fn children(pid: i32) -> io::Result<Vec<Obstacle>> {
    let describe = |child: i32| {
        let name = proc::read(child, "comm").unwrap_or_default();
        let state = Stat::of(child).map(|stat| stat.state).unwrap_or(b'Z');
        let what = format!("child process {child} ({})", String::from_utf8_lossy(&name).trim());
        let why = if state == b'Z' {
            "it has ended and the program has not yet asked how"
        } else {
            "jobs of several processes cannot be checkpointed yet"
        };
        Obstacle { what, why: why.to_owned(), remedy: "wait until it has ended".to_owned(), passing: true }
    };
    Ok(proc::children(pid)?.into_iter().map(describe).collect())
}
