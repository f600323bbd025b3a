//! Notebooks: kernels of Jupyter that run under Standfast.

use super::library_package::python_package;
use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::standfast_binary;
use standfast_tests::running::{Output, PATIENCE, Running};
use standfast_tests::{Lacking, skip};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Debian's packages of Jupyter are for Debian's Python.
const PYTHON: &str = "/usr/bin/python3";
const MODULES: [(&str, &str); 4] = [
    ("__init__.py", include_str!("../../bindings/python/python/standfast/jupyter/__init__.py")),
    ("__main__.py", include_str!("../../bindings/python/python/standfast/jupyter/__main__.py")),
    ("cells.py", include_str!("../../bindings/python/python/standfast/jupyter/cells.py")),
    ("provisioner.py", include_str!("../../bindings/python/python/standfast/jupyter/provisioner.py")),
];
const ENTRY_POINTS: &str = include_str!("../../bindings/python/entry_points.txt");
const TESTS: &str = include_str!("../../bindings/python/tests/test_jupyter.py");

/// Completes the package as pip would install it.
fn jupyter_package(work: &Path) -> Result<()> {
    python_package(work)?;
    let (modules, about) = (work.join("package/standfast/jupyter"), work.join("package/standfast-0.dist-info"));
    [&modules, &about].into_iter().try_for_each(fs::create_dir)?;
    MODULES.into_iter().try_for_each(|(name, text)| fs::write(modules.join(name), text))?;
    fs::write(about.join("METADATA"), "Metadata-Version: 2.1\nName: standfast\nVersion: 0\n")?;
    fs::write(about.join("entry_points.txt"), ENTRY_POINTS)?;
    Ok(fs::write(work.join("package/test_jupyter.py"), TESTS)?)
}

#[test]
#[ignore = "15 s: several kernels of Jupyter"]
fn notebooks_keep_their_variables() -> Result<()> {
    let has_jupyter = Command::new(PYTHON).args(["-c", "import ipykernel, jupyter_client"]).output();
    if !has_jupyter.is_ok_and(|answer| answer.status.success()) {
        skip("notebooks", &Lacking::program("Jupyter's kernels for Python"));
        return Ok(());
    }
    let arena = Arena::new()?;
    jupyter_package(&arena.work())?;
    let folder = standfast_binary()?.parent().context("it lies in a folder")?;
    let path = [folder.as_os_str(), &std::env::var_os("PATH").unwrap_or_default()].join(":".as_ref());
    let mut command = arena.command(PYTHON);
    command.args(["-W", "ignore", "-m", "unittest", "--verbose", "test_jupyter"]);
    command.env("PYTHONPATH", arena.work().join("package")).env("PATH", path);
    let ended = Running::start(&arena, "notebooks", Output::Log, &mut command)?.wait(PATIENCE)?;
    ensure!(ended.exited(0), "{}", ended.errors);
    arena.wait_until_empty(PATIENCE)
}
