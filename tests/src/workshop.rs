//! Compiles victims and caches the results. The cache is `STANDFAST_VICTIMS`, or `target/victims`, or a folder of the
//! user if that is not writable. A hash over all inputs identifies each entry.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Headers that C victims include.
const HEADERS: [(&str, &str); 10] = [
    ("check.h", include_str!("../victims/check.h")),
    ("mapped.h", include_str!("../victims/mapped.h")),
    ("family.h", include_str!("../victims/family.h")),
    ("datagrams.h", include_str!("../victims/datagrams.h")),
    ("guards.h", include_str!("../victims/guards.h")),
    ("forest.h", include_str!("../victims/forest.h")),
    ("terminal.h", include_str!("../victims/terminal.h")),
    ("proc_files.h", include_str!("../victims/proc_files.h")),
    ("proc_files_of_itself.h", include_str!("../victims/proc_files_of_itself.h")),
    ("pidfds_of_threads.h", include_str!("../victims/pidfds_of_threads.h")),
];

/// Returns the cache folder for something made from `ingredients`. It need not exist.
pub(crate) fn folder(name: &str, ingredients: impl Hash) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (ingredients, HEADERS).hash(&mut hasher);
    Ok(cache()?.join(format!("{name}-{:016x}", hasher.finish())))
}

/// Returns the executable `name` in `folder`, built if necessary. It is built in a folder next to that and moved into
/// place, since another process may build the same one at the same time.
pub(crate) fn built(folder: &Path, name: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let path = folder.join(name);
    if !path.exists() {
        let parent = folder.parent().context("the cache has a parent")?;
        let fresh = tempfile::Builder::new().prefix(".building-").tempdir_in(parent)?;
        build(&fresh.path().join(name))?;
        fs::set_permissions(fresh.path(), fs::Permissions::from_mode(0o755))?;
        if let Err(problem) = fs::rename(fresh.path(), folder)
            && !path.exists()
        {
            return Err(problem).with_context(|| format!("moving victim {name} into {}", folder.display()));
        }
    }
    Ok(fs::canonicalize(path)?)
}

/// Compiles C into the executable `path`, next to copies of the headers that victims share.
pub(crate) fn compile_c<Flag: AsRef<OsStr>>(
    path: &Path,
    source: &str,
    compiler: &str,
    flags: impl IntoIterator<Item = Flag>,
) -> Result<()> {
    let source_path = path.with_file_name(format!("{}.c", path.file_name().unwrap_or_default().display()));
    fs::write(&source_path, source)?;
    for (name, text) in HEADERS {
        fs::write(path.with_file_name(name), text)?;
    }
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(path).arg(source_path).args(flags);
    compile(&mut command)
}

/// Compiles several files of C into the executable `path`, next to copies of them and of the headers that victims share.
pub(crate) fn compile_together(path: &Path, sources: &[(&str, &str)]) -> Result<()> {
    for (name, text) in HEADERS.iter().chain(sources) {
        fs::write(path.with_file_name(name), text)?;
    }
    let files = sources.iter().filter(|(name, _)| name.ends_with(".c")).map(|(name, _)| path.with_file_name(name));
    let mut command = Command::new("cc");
    command.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-o"]).arg(path).args(files);
    compile(&mut command)
}

/// The sources of libstandfast. The build uses copies of them, since not every user can read the checkout.
pub(crate) const LIBRARY: [(&str, &str); 14] = [
    ("Makefile", include_str!("../../bindings/c/Makefile")),
    ("standfast.pc.in", include_str!("../../bindings/c/standfast.pc.in")),
    ("standfast-config.cmake.in", include_str!("../../bindings/c/standfast-config.cmake.in")),
    ("include/standfast.h", include_str!("../../bindings/c/include/standfast.h")),
    ("include/ckpt.h", include_str!("../../bindings/c/include/ckpt.h")),
    ("src/internal.h", include_str!("../../bindings/c/src/internal.h")),
    ("src/ask.c", include_str!("../../bindings/c/src/ask.c")),
    ("src/calls.c", include_str!("../../bindings/c/src/calls.c")),
    ("src/check.c", include_str!("../../bindings/c/src/check.c")),
    ("src/giver.c", include_str!("../../bindings/c/src/giver.c")),
    ("src/main.c", include_str!("../../bindings/c/src/main.c")),
    ("src/memory.c", include_str!("../../bindings/c/src/memory.c")),
    ("src/regions.c", include_str!("../../bindings/c/src/regions.c")),
    ("src/table.c", include_str!("../../bindings/c/src/table.c")),
];

/// Returns the folder with libstandfast, shared and static, built by a compiler. Its headers are in `include`.
///
/// # Errors
/// When the build fails.
pub fn library(compiler: &str) -> Result<PathBuf> {
    let folder = folder(&format!("libstandfast-{compiler}"), LIBRARY)?;
    built(&folder, "libstandfast.a", |archive| {
        let out = archive.parent().context("the archive lies in a folder")?;
        for part in ["include", "src"] {
            fs::create_dir(out.join(part))?;
        }
        for (name, text) in LIBRARY {
            fs::write(out.join(name), text)?;
        }
        let mut command = Command::new("make");
        command.arg("-C").arg(out).arg("OUT=.").arg(format!("CC={compiler}"));
        compile(command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"))
    })?;
    Ok(folder)
}

/// Returns the compiler arguments that build a program with libstandfast, linked statically.
///
/// # Errors
/// When the library cannot be built.
pub fn library_flags(compiler: &str) -> Result<Vec<String>> {
    let folder = library(compiler)?;
    Ok(vec![format!("-I{}", folder.join("include").display()), folder.join("libstandfast.a").display().to_string()])
}

/// Runs a compiler.
pub(crate) fn compile(command: &mut Command) -> Result<()> {
    let done = command.output().with_context(|| format!("starting the compiler: {command:?}"))?;
    if !done.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

/// Makes something in `folder` with the Makefile of the examples.
pub(crate) fn make_example(folder: &Path, words: &[&str]) -> Result<()> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("examples");
    let mut command = Command::new("make");
    command.arg("-C").arg(sources).arg(format!("OUT={}", folder.display())).args(words);
    // These may come from a make that has started the tests.
    compile(command.env_remove("MAKEFLAGS").env_remove("MAKEOVERRIDES"))
}

/// Reports whether the compiler finds a library to link with.
pub(crate) fn has_library(name: &str) -> bool {
    let asked = Command::new("cc").arg(format!("-print-file-name=lib{name}.so")).output();
    // If the library is missing, the compiler prints the name unchanged.
    asked.is_ok_and(|answer| answer.stdout.starts_with(b"/"))
}

fn cache() -> Result<PathBuf> {
    let beside = || target_folder().join("victims");
    let wanted = env::var_os("STANDFAST_VICTIMS").map_or_else(beside, PathBuf::from);
    let own = env::temp_dir().join(format!("standfast-victims-{}", nix::unistd::geteuid()));
    for folder in [&wanted, &own] {
        let usable = fs::create_dir_all(folder).is_ok() && tempfile::tempfile_in(folder).is_ok();
        if usable {
            return Ok(folder.clone());
        }
    }
    bail!("neither {} nor {} can be written: set STANDFAST_VICTIMS", wanted.display(), own.display())
}

/// Returns cargo's target folder, as this package sees it.
pub(crate) fn target_folder() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target");
    env::var_os("CARGO_TARGET_DIR").map_or_else(beside, PathBuf::from)
}
