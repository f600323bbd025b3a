//! Counts the page faults of a program with a preloaded meter, which reports them at the program's end.

use crate::arena::Arena;
use crate::victims::Program;
use crate::workshop;
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

const SOURCE: &str = include_str!("../victims/meter.c");

/// Returns the program with a meter in it.
pub fn metered(arena: &Arena, program: &Program) -> Result<Program> {
    let folder = workshop::folder("meter", SOURCE)?;
    let meter = workshop::built(&folder, "meter.so", |path| {
        workshop::compile_c(path, SOURCE, "cc", ["-O2", "-shared", "-fPIC"])
    })?;
    let set = |name: &str, value: PathBuf| {
        let mut word = OsString::from(name);
        word.push(value);
        word
    };
    let mut arguments = vec![set("LD_PRELOAD=", meter), set("STANDFAST_METER=", place(arena))];
    arguments.push(program.path.clone().into());
    arguments.extend(program.arguments.iter().cloned());
    Ok(Program { path: PathBuf::from("/usr/bin/env"), arguments })
}

/// Returns the number of page faults that needed no disk, once the program has ended.
pub fn faults(arena: &Arena) -> Result<u64> {
    let path = place(arena);
    let said = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    said.trim().parse().with_context(|| format!("the meter said {said:?}"))
}

fn place(arena: &Arena) -> PathBuf {
    arena.folder().join("meter")
}
