//! Builds the programs of `examples`.

use crate::programs::in_path;
use crate::workshop;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// The suffix of the names of programs with directives.
const DIRECTED: &str = "-directed";

/// Sources that all programs share.
const SHARED: [&str; 4] = [
    include_str!("../../examples/Makefile"),
    include_str!("../../examples/example.h"),
    include_str!("../../examples/example.f90"),
    include_str!("../../examples/shallow_water.f90"),
];

/// The interface between Fortran and libstandfast.
const INTERFACE: &str = include_str!("../../bindings/fortran/standfast.f90");

/// Returns the executable of an example. Returns `None` if the example is in Fortran and the machine has no compiler for
/// it, or no LAPACK.
pub(crate) fn built(name: &str, source: &str) -> Result<Option<PathBuf>> {
    let is_fortran = source.starts_with('!');
    if is_fortran && (in_path("gfortran").is_none() || !workshop::has_library("lapack")) {
        return Ok(None);
    }
    let Some(name) = name.strip_suffix(DIRECTED) else {
        let folder = workshop::folder(name, (source, SHARED))?;
        return made(&folder, name, &[]).map(Some);
    };
    let folder = workshop::folder(&format!("{name}{DIRECTED}"), (source, SHARED, workshop::LIBRARY, INTERFACE))?;
    let [include, archive] = &workshop::library_flags("cc")?[..] else { bail!("libstandfast is a folder and a file") };
    made(&folder, name, &["CKPT=1", &format!("DIRECTIVES=-DCKPT {include}"), &format!("LIBRARY={archive}")]).map(Some)
}

fn made(folder: &Path, name: &str, how: &[&str]) -> Result<PathBuf> {
    workshop::built(folder, name, |path| {
        let folder = path.parent().context("a program lies in a folder")?;
        workshop::make_example(folder, &[how, &[name]].concat())
    })
}
