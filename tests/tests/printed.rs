//! Names and arguments that somebody else has chosen reach a terminal as text, never as something that it obeys. In JSON
//! they appear exactly as they are.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::Standfast;
use standfast_tests::result::{OUTPUT, open_gate};
use standfast_tests::running::{Ended, Output, PATIENCE, Running, until};
use standfast_tests::victims::SMALL;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Sets the title, clears the screen, reverses the writing direction, and begins a line of its own.
const HOSTILE: &str = "\x1b]0;owned\x07\u{9b}2J\u{202e}\n\r\x7f";
/// The same for the name of a process, which has 15 bytes.
const NAME: &str = "\x1b[2J\u{9b}1m\u{202e}\r";

fn is_clean(text: &str) -> bool {
    let is_obeyed = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
    !text.contains(is_obeyed)
}

/// A job that has such names wherever it can choose them.
struct Scene {
    arena: Arena,
    images: PathBuf,
}

impl Scene {
    /// Runs a command with these words; `DIR` stands for a path.
    fn asked(&self, words: &[&str], path: &Path) -> Result<Ended> {
        let mut command = Standfast::new(&self.arena)?.command(&[]);
        command.args(words.iter().map(|word| if *word == "DIR" { path.as_os_str() } else { OsStr::new(word) }));
        let ended = Running::complete(&self.arena, "asked", &mut command)?;
        for said in [&ended.output, &ended.errors] {
            ensure!(is_clean(said), "{words:?} said {said:?}");
        }
        Ok(ended)
    }

    fn about(&self, words: &[&str]) -> Result<Ended> {
        self.asked(words, &self.images)
    }

    fn is_running(&self) -> Result<Option<i32>> {
        if !self.images.join("manifest").exists() {
            return Ok(None);
        }
        let status: serde_json::Value =
            serde_json::from_str(&self.about(&["status", "DIR", "--json"])?.well("status")?.output)?;
        Ok(status["program_pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()))
    }
}

#[test]
fn names_and_arguments_are_escaped_for_the_terminal() -> Result<()> {
    let arena = Arena::new()?;
    let images = arena.folder().join(format!("images{HOSTILE}"));
    let program = arena.folder().join(NAME);
    fs::copy(&SMALL.with(&[])?.path, &program)?;
    let standfast = Standfast::new(&arena)?;
    let mut run = standfast.command(&["-v", "run", "-i", "off", "-d"]);
    run.arg(&images).arg("--").arg(&program).args(["20", HOSTILE]);
    let job = Running::start(&arena, "run", Output::File(arena.work().join(OUTPUT)), &mut run)?;
    standfast.await_gate()?;
    let scene = Scene { arena, images };
    let pid = until(PATIENCE, "the program to run", || scene.is_running())?.to_string();

    // The command, and the part of the names that its answer must show.
    let shown = |words: &[&str], wanted: &str| {
        let ended = scene.about(words)?;
        let said = ended.output + &ended.errors;
        ensure!(said.contains(wanted), "{words:?} said {said:?}");
        anyhow::Ok(())
    };
    shown(&["checkpoint", "DIR"], "checkpoint 1")?;
    shown(&["status", "DIR"], r"\x1b]0;owned\x07\u{9b}2J\u{202e}\n\r\x7f")?;
    shown(&["list", "DIR"], "checkpoint")?;
    shown(&["inspect", "DIR"], r"\x1b]0;owned\x07\u{9b}2J\u{202e}\n\r\x7f")?;
    shown(&["inspect", "DIR"], r"\x1b[2J\u{9b}1m")?;
    shown(&["verify", "DIR"], "good")?;
    shown(&["run", "-d", "DIR", "--", "true"], r"\033]0;owned\007")?;
    shown(&["restart", "DIR"], r"\033]0;owned\007")?;
    shown(&["doctor", &pid], "process")?;
    let nowhere = scene.arena.folder().join(format!("nowhere{HOSTILE}"));
    for words in
        [["status", "DIR"].as_slice(), &["restart", "DIR"], &["group", "status", "DIR"], &["group", "end", "DIR"]]
    {
        scene.asked(words, &nowhere)?;
    }
    let missing = scene.asked(&["run", "-d", "x", "--", "DIR"], &nowhere)?;
    ensure!(missing.errors.contains(r"owned\x07"), "{:?}", missing.errors);
    let option = format!("--{HOSTILE}");
    for words in
        [[option.as_str()].as_slice(), &[HOSTILE], &["run", "--keep", HOSTILE, "true"], &["inspect", "--at", HOSTILE]]
    {
        let refused = scene.about(words)?;
        ensure!(!refused.status.success() && !refused.errors.is_empty(), "{words:?}: {:?}", refused.errors);
    }

    for words in [["status", "DIR", "--json"], ["inspect", "DIR", "--json"]] {
        let said = scene.about(&words)?.well("an answer in JSON")?.output;
        let answer: serde_json::Value = serde_json::from_str(&said)?;
        let arguments = answer.get("arguments").or_else(|| answer["processes"][0].get("arguments"));
        let last = arguments.and_then(serde_json::Value::as_array).and_then(|all| all.last()).context("arguments")?;
        ensure!(last.as_str() == Some(HOSTILE), "{said}");
    }

    open_gate(&scene.arena)?;
    let ended = job.wait(PATIENCE)?;
    ensure!(is_clean(&ended.errors), "the run said {:?}", ended.errors);
    ended.well("the job")?;
    shown(&["status", "DIR"], "finished")?;
    let written = fs::read_dir(&scene.images)?.flatten().filter(|it| it.file_name() == OsStr::new("messages"));
    for file in written {
        ensure!(is_clean(&fs::read_to_string(file.path())?), "messages are obeyed");
    }
    Ok(())
}
