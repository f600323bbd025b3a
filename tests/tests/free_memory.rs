//! Memory that an allocator holds as free is in no image, whichever allocator it is, and its locks hold up no checkpoint.
#![allow(missing_docs, reason = "a test binary")]

use super::directions::{SMALL, Stage};
use super::library_package::compiled;
use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::victims::{DIRECTOR, Program};
use standfast_tests::{Lacking, skip};
use std::process::Command;

/// Returns where the compiler finds a shared library. If there is none, reports that and returns `None`.
fn shared_library(name: &str) -> Result<Option<String>> {
    let found = Command::new("cc").arg(format!("-print-file-name={name}")).output().context("starting cc")?;
    let path = String::from_utf8(found.stdout)?.trim().to_owned();
    if path.starts_with('/') {
        return Ok(Some(path));
    }
    skip("free memory of another allocator", &Lacking::program(name));
    Ok(None)
}

#[test]
fn free_memory_of_the_allocator_is_not_saved() -> Result<()> {
    let stage = Stage::new("free", &[])?;
    stage.standfast()?.await_gate()?;
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < SMALL), "images of {bytes:?} bytes");
    stage.goes_on_from("1", &["restarted 1"])
}

#[test]
fn free_memory_is_not_saved_with_the_free_memory_option() -> Result<()> {
    let stage = Stage::new("free-unasked", &["--free-memory"])?;
    stage.standfast()?.await_gate()?;
    stage.standfast()?.checkpoint()?;
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < SMALL), "images of {bytes:?} bytes");
    stage.goes_on_from("1", &[])
}

/// Preloads another allocator into a program.
fn preloaded(library: &str, program: Program) -> Program {
    let preload = format!("LD_PRELOAD={library}").into();
    let arguments = [preload, program.path.into()].into_iter().chain(program.arguments).collect();
    Program { path: "/usr/bin/env".into(), arguments }
}

fn free_memory_of_another_allocator_is_in_no_image(name: &str) -> Result<()> {
    let Some(library) = shared_library(name)? else { return Ok(()) };
    for options in [&[][..], &["--free-memory"][..]] {
        let way = if options.is_empty() { "free" } else { "free-unasked" };
        let stage = Stage::of(preloaded(&library, DIRECTOR.with(&[way])?), options)?;
        stage.standfast()?.await_gate()?;
        if way == "free-unasked" {
            stage.standfast()?.checkpoint()?;
        }
        let bytes = stage.image_bytes()?;
        ensure!(matches!(bytes[..], [one] if one < 2 * SMALL), "images of {bytes:?} bytes with {options:?}");
        let said: &[&str] = if options.is_empty() { &["restarted 1"] } else { &[] };
        stage.goes_on_from("1", said)?;
    }
    Ok(())
}

#[test]
fn free_memory_of_jemalloc_is_in_no_image() -> Result<()> {
    free_memory_of_another_allocator_is_in_no_image("libjemalloc.so.2")
}

#[test]
fn free_memory_of_mimalloc_is_in_no_image() -> Result<()> {
    free_memory_of_another_allocator_is_in_no_image("libmimalloc.so.2")
}

const STOPPED_IN_MALLOC: &str = include_str!("../victims/stopped_in_malloc.c");

/// Takes a checkpoint for which a program cannot give its free memory back, since a stopped thread holds the allocator's
/// locks. Standfast takes it all the same, and neither the program nor its restart hangs.
fn locks_of_an_allocator_hold_up_no_checkpoint(
    arena: &Arena,
    compiler: &str,
    preload: Option<&str>,
    said: &str,
) -> Result<()> {
    let mut program = Program { path: compiled(arena, compiler, "stopped", STOPPED_IN_MALLOC)?, arguments: Vec::new() };
    if let Some(name) = preload {
        let Some(library) = shared_library(name)? else { return Ok(()) };
        program = preloaded(&library, program);
    }
    let stage = Stage::of(program, &["--free-memory"])?;
    stage.standfast()?.await_gate()?;
    ensure!(stage.said()? == [said], "it said {:?}", stage.said()?);
    stage.standfast()?.checkpoint()?;
    ensure!(stage.image_bytes()?.len() == 1, "there is no checkpoint");
    stage.goes_on_from("1", &[said])
}

#[test]
fn locks_of_the_gnu_allocator_hold_up_no_checkpoint() -> Result<()> {
    locks_of_an_allocator_hold_up_no_checkpoint(&Arena::new()?, "cc", None, "protected 1, held 1")
}

#[test]
fn locks_of_jemalloc_hold_up_no_checkpoint() -> Result<()> {
    let arena = Arena::new()?;
    locks_of_an_allocator_hold_up_no_checkpoint(&arena, "cc", Some("libjemalloc.so.2"), "protected 1, held 1")
}

#[test]
fn a_thread_that_is_stopped_in_mimalloc_holds_up_no_checkpoint() -> Result<()> {
    // mimalloc has no locks that threads wait for.
    let arena = Arena::new()?;
    locks_of_an_allocator_hold_up_no_checkpoint(&arena, "cc", Some("libmimalloc.so.2"), "protected 1, held 0")
}

#[test]
fn locks_of_musl_hold_up_no_checkpoint() -> Result<()> {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        skip("locks of musl", &Lacking::program("musl-gcc"));
        return Ok(());
    }
    locks_of_an_allocator_hold_up_no_checkpoint(&Arena::new()?, "musl-gcc", None, "protected 1, held 1")
}

const FREES: &str = r#"
#include <fcntl.h>
#include <standfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    static unsigned char *blocks[800];
    unsigned state = 1;
    for (int i = 0; i < 800; i++) {
        blocks[i] = malloc(20000);
        for (int at = 0; at < 20000; at++)
            blocks[i][at] = (unsigned char)((state = state * 1103515245u + 12345u) >> 16);
    }
    for (int i = 0; i < 799; i++)
        free(blocks[i]);
    printf("%d\n", standfast_checkpoint_here(NULL));
    fflush(stdout);
    close(open("waiting", O_WRONLY | O_CREAT, 0644));
    while (access("gate", F_OK) != 0)
        usleep(500);
    return 0;
}
"#;

#[test]
fn free_memory_of_musl_is_in_no_image() -> Result<()> {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        skip("free memory of musl", &Lacking::program("musl-gcc"));
        return Ok(());
    }
    let made = Arena::new()?;
    let path = compiled(&made, "musl-gcc", "frees", FREES)?;
    let stage = Stage::of(Program { path, arguments: Vec::new() }, &[])?;
    stage.standfast()?.await_gate()?;
    let bytes = stage.image_bytes()?;
    ensure!(matches!(bytes[..], [one] if one < SMALL), "images of {bytes:?} bytes");
    stage.goes_on_from("1", &["2"])
}
