//! Processes of an earlier life that still run, although both its supervisor and its main process are gone: they would
//! compute beside the restarted ones, and write to the same files. Those of the main process's group are found by the lease.
//! This module finds the others, by the variable that names the job's directory.

use crate::Error;
use crate::marked::marked;
use crate::takeover::{ALIVE_MIN, survives};
use standfast_engine::DIRECTORY_VARIABLE;
use standfast_linux::Pid;
use standfast_linux::proc::Stat;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The pause between two looks: a killed process runs for a moment.
const PAUSE: Duration = Duration::from_millis(20);

/// Refuses a restart beside processes of an earlier life.
///
/// # Errors
/// [`Error::Survives`].
pub(super) fn refuse_survivors(directory: &Path) -> Result<(), Error> {
    let whole = directory.canonicalize().map_err(Error::system("find the directory of the job"))?;
    let mark = [DIRECTORY_VARIABLE.as_bytes(), b"=", whole.as_os_str().as_bytes()].concat();
    let ancestors = ancestors();
    let begun = Instant::now();
    loop {
        let mut survivors = marked(|entry| entry == mark).map_err(Error::system("list processes"))?;
        survivors.retain(|pid| !ancestors.contains(pid));
        let Some(pid) = survivors.first().copied() else { return Ok(()) };
        if begun.elapsed() > ALIVE_MIN {
            return Err(survives(directory, Pid::new(pid)));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns this process and those that it descends from. A shell that belongs to the job may restart it.
fn ancestors() -> Vec<i32> {
    let own = i32::try_from(std::process::id()).expect("a process id has 22 bits");
    let parent = |pid: &i32| {
        let parent = Stat::of(Pid::new(*pid)).ok()?.parent.get();
        (parent > 1).then_some(parent)
    };
    std::iter::successors(Some(own), parent).collect()
}
