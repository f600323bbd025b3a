//! Compiles the interpreter, which is one C program of several files (`tests/victims/differential`).

use crate::workshop;
use anyhow::Result;
use std::path::PathBuf;

const NAME: &str = "interpreter";

/// Includes files of the interpreter by name.
macro_rules! sources {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../victims/differential/", $name)))),+]
    };
}

const SOURCES: [(&str, &str); 20] = sources![
    "interpreter.h",
    "actors.c",
    "answers.c",
    "channels.c",
    "connections.c",
    "events.c",
    "files.c",
    "locks.c",
    "main.c",
    "memory.c",
    "observe_descriptors.c",
    "observe_memory.c",
    "observe_process.c",
    "observe_sockets.c",
    "processes.c",
    "shared.c",
    "signals.c",
    "sockets.c",
    "terminals.c",
    "timers.c",
];

/// Returns the executable, compiled if necessary.
///
/// # Errors
/// When it does not compile.
pub(super) fn interpreter() -> Result<PathBuf> {
    let folder = workshop::folder(NAME, SOURCES)?;
    workshop::built(&folder, NAME, |path| workshop::compile_together(path, &SOURCES))
}
