//! libstandfast as its users get it: headers and modules for C, C++, Fortran and Python, found by pkg-config and CMake, and the
//! programs that its documentation shows.
#![allow(missing_docs, reason = "a test binary")]

use super::directions::Stage;
use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::victims::Program;
use standfast_tests::workshop::{library, library_flags};
use standfast_tests::{Lacking, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program with libstandfast linked in.
pub(crate) fn compiled(arena: &Arena, compiler: &str, name: &str, source: &str) -> Result<PathBuf> {
    let path = arena.work().join(name);
    fs::write(path.with_extension("c"), source)?;
    let mut command = Command::new(compiler);
    command.args(["-O2", "-pthread", "-o"]).arg(&path).arg(path.with_extension("c"));
    if compiler == "musl-gcc" {
        command.arg("-static");
    }
    must_work(command.args(library_flags(compiler)?))?;
    Ok(path)
}

const USES_ALL: &str = r"
#include <standfast.h>
#include <ckpt.h>
#include <standfast.h>
#include <ckpt.h>
int main(void)
{
    static char bytes[100];
    uint64_t generation = 0;
    int sum = standfast_exclude(bytes, sizeof bytes, STANDFAST_DEAD) + standfast_include(bytes, sizeof bytes);
    sum += standfast_checkpoint_here(&generation) + standfast_disable() + standfast_enable();
    sum += exclude_bytes(bytes, (long)sizeof bytes, CKPT_READONLY) + include_bytes(bytes, 1) + checkpoint_here();
    return sum + standfast_is_protected() + (standfast_next() != -1) + (standfast_error_text(0)[0] == 0);
}
";

const USES_FORTRAN: &str = "
program uses
    use standfast
    implicit none
    real(8) :: a(10, 10)
    integer :: status
    a = 1
    call exclude_bytes(a, 8*size(a), CKPT_DEAD, status)
    if (status /= 0 .or. is_protected() .or. next_checkpoint() /= -1) error stop
    call include_bytes(a, 8*size(a))
    call disable_checkpoints()
    call enable_checkpoints()
    call checkpoint_here(status)
    if (status /= CKPT_NOT_TAKEN) error stop
    call exclude_bytes(a, -1, CKPT_DEAD, status)
    if (status == 0) error stop
end program uses
";

fn must_work(command: &mut Command) -> Result<()> {
    let done = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{command:?}: {said}");
    Ok(())
}

#[test]
fn the_headers_are_c11_c17_and_cpp17_and_the_module_is_fortran_2018() -> Result<()> {
    let arena = Arena::new()?;
    let work = arena.work();
    let flags = library_flags("cc")?;
    for (compiler, standard, name) in
        [("cc", "c11", "uses.c"), ("cc", "c17", "uses.c"), ("c++", "c++17", "uses.cpp"), ("musl-gcc", "c11", "uses.c")]
    {
        fs::write(work.join(name), USES_ALL)?;
        if Command::new(compiler).arg("--version").output().is_err() {
            skip(standard, &Lacking::program(compiler));
            continue;
        }
        let flags = if compiler == "musl-gcc" { library_flags(compiler)? } else { flags.clone() };
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-o", "uses"]).arg(name);
        must_work(command.arg(format!("-std={standard}")).args(flags).current_dir(&work))?;
        must_work(&mut arena.command(work.join("uses")))?;
    }
    if Command::new("gfortran").arg("--version").output().is_err() {
        skip("the Fortran module", &Lacking::program("gfortran"));
        return Ok(());
    }
    fs::write(work.join("standfast.f90"), include_str!("../../bindings/fortran/standfast.f90"))?;
    fs::write(work.join("uses.f90"), USES_FORTRAN)?;
    let mut command = Command::new("gfortran");
    command.args(["-std=f2018", "-Wall", "-Wextra", "-Werror", "-o", "fortran", "standfast.f90", "uses.f90"]);
    must_work(command.arg(library("cc")?.join("libstandfast.a")).current_dir(&work))?;
    must_work(&mut arena.command(work.join("fortran")))
}

/// Returns the text between the fences of a language on the page about the library.
fn listing(language: &str) -> Result<&'static str> {
    let page = include_str!("../../docs/library.md");
    let (_, behind) = page.split_once(&format!("```{language}\n")).with_context(|| format!("no {language} there"))?;
    Ok(behind.split_once("```").context("a listing ends")?.0)
}

#[test]
fn listings_in_the_documentation_compile_and_run() -> Result<()> {
    let arena = Arena::new()?;
    let work = arena.work();
    let said = |command: &mut Command| {
        let done = command.current_dir(&work).output().with_context(|| format!("{command:?}"))?;
        ensure!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8(done.stdout)?)
    };
    let written_in_c = said(&mut Command::new(compiled(&arena, "cc", "grid", listing("c")?)?))?;
    ensure!(written_in_c.trim().parse::<f64>().is_ok_and(|value| value > 0.0), "it said {written_in_c}");
    if Command::new("gfortran").arg("--version").output().is_ok() {
        fs::write(work.join("standfast.f90"), include_str!("../../bindings/fortran/standfast.f90"))?;
        fs::write(work.join("in_fortran.f90"), listing("fortran")?)?;
        let mut command = Command::new("gfortran");
        command.args(["-o", "in-fortran", "standfast.f90", "in_fortran.f90"]);
        said(command.arg(library("cc")?.join("libstandfast.a")))?;
        let written_in_fortran = said(&mut Command::new(work.join("in-fortran")))?;
        ensure!(written_in_fortran == written_in_c, "it said {written_in_fortran}");
    }
    if let Some(python) = python()? {
        python_package(&work)?;
        let mut command = Command::new(python);
        let written_in_python = said(command.env("PYTHONPATH", work.join("package")).args(["-c", listing("python")?]))?;
        ensure!(written_in_python == written_in_c, "it said {written_in_python}");
    }
    Ok(())
}

const CMAKE_LISTS: &str = "
cmake_minimum_required(VERSION 3.16)
project(uses C)
find_package(standfast REQUIRED)
add_executable(uses uses.c)
target_link_libraries(uses standfast::standfast)
";

#[test]
fn the_installed_library_is_found_by_pkg_config_and_cmake() -> Result<()> {
    let arena = Arena::new()?;
    let (work, prefix) = (arena.work(), arena.folder().join("prefix"));
    let mut install = Command::new("make");
    install.arg("-C").arg(library("cc")?).arg("install").arg(format!("OUT={}", work.join("out").display()));
    install.arg(format!("PREFIX={}", prefix.display())).env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    must_work(&mut install)?;
    fs::write(work.join("uses.c"), USES_ALL)?;
    let runs = |program| {
        let mut command = arena.command(work.join(program));
        must_work(command.env("LD_LIBRARY_PATH", prefix.join("lib")))
    };
    let ask = Command::new("pkg-config")
        .args(["--cflags", "--libs", "standfast"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output();
    match ask {
        Ok(told) => {
            let flags = String::from_utf8(told.stdout)?;
            ensure!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
            let mut command = Command::new("cc");
            must_work(
                command.args(["-o", "by-pkg-config", "uses.c"]).args(flags.split_whitespace()).current_dir(&work),
            )?;
            runs("by-pkg-config")?;
        }
        Err(_) => skip("pkg-config finds the library", &Lacking::program("pkg-config")),
    }
    if Command::new("cmake").arg("--version").output().is_err() {
        skip("CMake finds the library", &Lacking::program("cmake"));
        return Ok(());
    }
    fs::write(work.join("CMakeLists.txt"), CMAKE_LISTS)?;
    let prefix_path = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    must_work(Command::new("cmake").args(["-S", ".", "-B", "by-cmake", &prefix_path]).current_dir(&work))?;
    must_work(Command::new("cmake").args(["--build", "by-cmake"]).current_dir(&work))?;
    runs("by-cmake/uses")
}

const USES_PYTHON: &str = "
import os, sys, time
sys.path.insert(0, 'package')
import standfast

noise = bytearray(os.urandom(64 << 20))
try:
    standfast.exclude_dead(memoryview(noise)[::2])
    sys.exit('a buffer with holes was taken')
except BufferError:
    pass
with standfast.disabled():
    standfast.readonly(b'constant')
with standfast.dead(noise):
    print(standfast.checkpoint_here(), standfast.is_protected(), flush=True)
assert standfast.next_checkpoint() is None
open('waiting', 'w').close()
while not os.path.exists('gate'):
    time.sleep(0.001)
";

/// Returns a Python that has what the package needs.
fn python() -> Result<Option<PathBuf>> {
    let ask = Command::new("python3").args(["-c", "import ctypes, sys; print(sys.executable)"]).output();
    let Some(told) = ask.ok().filter(|told| told.status.success()) else { return Ok(None) };
    Ok(Some(String::from_utf8(told.stdout)?.trim().into()))
}

/// Puts the package into the folder `package`.
pub(crate) fn python_package(work: &Path) -> Result<()> {
    let package = work.join("package/standfast");
    fs::create_dir_all(&package)?;
    fs::write(package.join("__init__.py"), include_str!("../../bindings/python/python/standfast/__init__.py"))?;
    fs::copy(library("cc")?.join("libstandfast.so"), package.join("libstandfast.so")).map(drop).map_err(Into::into)
}

#[test]
fn the_python_package_excludes_dead_buffers() -> Result<()> {
    let arena = Arena::new()?;
    python_package(&arena.work())?;
    let Some(path) = python()? else {
        skip("the Python package", &Lacking::program("python3 with ctypes"));
        return Ok(());
    };
    let program = Program { path, arguments: ["-c", USES_PYTHON].map(Into::into).to_vec() };
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    let stage = Stage { arena, running };
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < 32 << 20), "images of {bytes:?} bytes");
    let restarted = "Checkpoint(outcome=<Outcome.RESTARTED: 2>, generation=1) True";
    stage.goes_on_from("1", &[restarted])
}
