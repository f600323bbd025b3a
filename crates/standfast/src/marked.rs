//! Finds and ends processes that are known by a mark in their environment. The first process of a job was given the mark, and
//! has passed it on to all that it started.

use rustix::process::{Pid, Signal, kill_process};
use standfast_linux::proc::{self, Stat};
use std::io;
use std::time::{Duration, Instant};

/// Time for a process to end after SIGKILL. One that takes longer waits for a device that does not answer.
const ENDING_MAX: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(5);
/// Checks of a process within execve(2). One that takes longer waits for a file system that does not answer.
const EXECUTING_GLANCES: usize = 200;
/// Index of the end of the environment in [`Stat::layout`].
const ENVIRONMENT_END: usize = 9;

/// Kills the processes on this node whose environment has an entry, `NAME=VALUE`, that is a mark. Returns their number.
///
/// # Errors
/// If one of them does not end.
pub(crate) fn end_marked(is_mark: impl Fn(&[u8]) -> bool) -> io::Result<usize> {
    let mut ended = Vec::new();
    let deadline = Instant::now() + ENDING_MAX;
    loop {
        // Each may have started another one before it was killed.
        let left = marked(&is_mark)?;
        if left.is_empty() {
            return Ok(ended.len());
        }
        if Instant::now() >= deadline {
            return Err(io::Error::other(format!("these processes do not end: {left:?}")));
        }
        for pid in left {
            if let Some(target) = Pid::from_raw(pid) {
                // A process that has ended by itself needs no signal.
                let _ = kill_process(target, Signal::KILL);
            }
            if !ended.contains(&pid) {
                ended.push(pid);
            }
        }
        std::thread::sleep(GLANCE);
    }
}

/// Returns the processes whose environment has an entry that is a mark.
///
/// # Errors
/// If processes cannot be listed.
pub(crate) fn marked(is_mark: impl Fn(&[u8]) -> bool) -> io::Result<Vec<i32>> {
    let has_mark = |pid: &standfast_linux::Pid| {
        // The environment of other users' processes is unreadable, and processes that have ended have none.
        environment(*pid).split(|byte| *byte == 0).any(&is_mark)
    };
    Ok(proc::all()?.into_iter().filter(has_mark).map(standfast_linux::Pid::get).collect())
}

/// Reads the environment of a process. For a moment within execve(2) it is empty: the new memory is there, but has no
/// contents yet.
fn environment(pid: standfast_linux::Pid) -> Vec<u8> {
    let is_executing = || {
        let has_none = |stat: Stat| stat.state != b'Z' && stat.layout[ENVIRONMENT_END] == 0;
        proc::link(pid, "exe").is_ok() && Stat::of(pid).is_ok_and(has_none)
    };
    let read = || proc::read(pid, "environ").unwrap_or_default();
    for _ in 0..EXECUTING_GLANCES {
        let environment = read();
        if !environment.is_empty() {
            return environment;
        }
        if !is_executing() {
            // The process may have finished execve(2) meanwhile.
            return read();
        }
        std::thread::sleep(GLANCE);
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command};

    const VARIABLE: &str = "STANDFAST_TEST_OF_MARKS";

    fn end_left(job: &str) -> io::Result<usize> {
        end_marked(|entry| entry == format!("{VARIABLE}={job}").as_bytes())
    }

    /// A process that does not outlive its test.
    struct Sleeper(Child);

    impl Sleeper {
        fn of(job: &str) -> Self {
            Self(Command::new("sleep").arg("600").env(VARIABLE, job).spawn().expect("it starts"))
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn only_processes_with_this_mark_are_ended() {
        let (ours, others) = (format!("ours-{}", std::process::id()), format!("others-{}", std::process::id()));
        let (mut own, mut other) = (Sleeper::of(&ours), Sleeper::of(&others));
        assert_eq!(end_left(&ours).expect("it ends"), 1);
        assert_eq!(own.0.wait().expect("it has ended").signal(), Some(Signal::KILL.as_raw()));
        assert!(other.0.try_wait().expect("it can be asked").is_none());
        assert_eq!(end_left(&others).expect("it ends"), 1);
        other.0.wait().expect("it has ended");
        assert_eq!(end_left(&ours).expect("none is there"), 0);
    }

    /// A process that has just started is sometimes still within execve(2).
    #[test]
    fn a_process_is_found_as_soon_as_it_is_there() {
        let job = format!("executing-{}", std::process::id());
        for round in 0..50 {
            let _own = Sleeper::of(&job);
            assert_eq!(end_left(&job).expect("it ends"), 1, "in round {round}");
        }
    }
}
