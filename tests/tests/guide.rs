//! The guide: each of its command blocks is run as it is printed, in the order of the page, and its output is what the
//! page shows.
//!
//! The blocks of a section share one shell, in a folder that is empty at first. A `text` block that follows a block shows
//! its output: a line `...` stands for any lines, and `...` within a line for any text. A block that begins with
//! `# not run here` is left out.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Result, bail, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::standfast_binary;
use standfast_tests::running::{Output, Running, until};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs};

const GUIDE: &str = include_str!("../../docs/guide.md");
const NOT_RUN: &str = "# not run here";
/// The most blocks in a hundred that may not be run.
const NOT_RUN_PERCENT_MAX: usize = 15;
/// How long the blocks of a section may take.
const SECTION_MAX: Duration = Duration::from_secs(120);
/// How long the end of the output may take to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);
/// Stands for any lines, or any text within a line.
const ANYTHING: &str = "...";

/// A command block.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    section: String,
    commands: String,
    /// What it prints, if the page shows it.
    shown: Option<String>,
}

impl Block {
    fn is_run(&self) -> bool {
        !self.commands.starts_with(NOT_RUN)
    }
}

/// Returns the command blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut section, mut open) = (Vec::<Block>::new(), String::new(), None::<(String, String)>);
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, None) => section = line.strip_prefix("## ").map_or(section, str::to_owned),
            (None, Some(language)) => open = Some((language.to_owned(), String::new())),
            (Some((_, text)), None) => *text += &format!("{line}\n"),
            (Some((language, text)), Some(_)) => {
                let text = std::mem::take(text);
                match (language.as_str(), blocks.last_mut()) {
                    ("sh", _) => blocks.push(Block { section: section.clone(), commands: text, shown: None }),
                    ("text", Some(last)) if last.section == section => last.shown = Some(text),
                    _ => {}
                }
                open = None;
            }
        }
    }
    blocks
}

/// Reports whether an output is the one that is shown.
fn is_shown(output: &[&str], shown: &[&str]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((first, rest)) if first.trim() == ANYTHING => {
            (0..=output.len()).any(|from| is_shown(&output[from..], rest))
        }
        Some((first, rest)) => output.first().is_some_and(|line| is_line(line, first)) && is_shown(&output[1..], rest),
    }
}

fn is_line(line: &str, shown: &str) -> bool {
    let parts: Vec<&str> = shown.trim_end().split(ANYTHING).collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let Some(mut rest) = line.trim_end().strip_prefix(first) else { return false };
    if parts.len() == 1 {
        return rest.is_empty();
    }
    for part in &parts[1..parts.len() - 1] {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

/// Runs the blocks of one section, and compares what they print with what is shown.
fn follow(section: &str, blocks: &[&Block]) -> Result<()> {
    let arena = Arena::new()?;
    let binary = standfast_binary()?;
    fs::create_dir(arena.folder().join("bin"))?;
    std::os::unix::fs::symlink(binary, arena.folder().join("bin/standfast"))?;
    let folder = arena.logs();
    let mut script = String::new();
    for (number, block) in blocks.iter().enumerate() {
        // Through a pipe: a restart would cut a file back that a program has as its standard error.
        script += &format!("exec > >(cat >{}/{number}.shown) 2>&1\n{}", folder.display(), block.commands);
    }
    // What still runs in the background ends with the arena.
    script += "exit 0\n";
    let path = env::join_paths(
        [arena.folder().join("bin")].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    )?;
    let mut shell = arena.command("bash");
    shell.args(["-c", &script]).env("PATH", path).stdin(Stdio::null());
    Running::start(&arena, "shell", Output::Log, &mut shell)?.wait(SECTION_MAX)?;
    for (number, block) in blocks.iter().enumerate() {
        let Some(shown) = &block.shown else { continue };
        let shown: Vec<&str> = shown.lines().collect();
        let mut printed = String::new();
        let compared = until(ARRIVAL_MAX, "the output", || {
            printed = fs::read_to_string(folder.join(format!("{number}.shown"))).unwrap_or_default();
            // The shell's own remark about a job that was killed.
            let output: Vec<&str> = printed.lines().filter(|line| !line.starts_with("bash: line ")).collect();
            Ok(is_shown(&output, &shown).then_some(()))
        });
        if compared.is_err() {
            bail!("{section}: these commands\n{}printed\n{printed}instead of\n{}", block.commands, shown.join("\n"));
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: it follows the guide for half a minute"]
fn every_command_of_the_guide_does_what_the_guide_says() -> Result<()> {
    let blocks = blocks(GUIDE);
    let mut sections: Vec<&str> = blocks.iter().map(|block| block.section.as_str()).collect();
    sections.dedup();
    let follow_section = |section: &&str| {
        let run: Vec<&Block> = blocks.iter().filter(|block| block.section == *section && block.is_run()).collect();
        follow(section, &run)
    };
    // They wait most of the time.
    let failed: Vec<String> = std::thread::scope(|scope| {
        let followed: Vec<_> = sections.iter().map(|section| scope.spawn(move || follow_section(section))).collect();
        let ended = followed.into_iter().map(|section| section.join().expect("no section panics"));
        ended.filter_map(Result::err).map(|error| format!("{error:#}")).collect()
    });
    ensure!(failed.is_empty(), "{}", failed.join("\n\n"));
    Ok(())
}

#[test]
fn nearly_every_command_of_the_guide_is_run() {
    let blocks = blocks(GUIDE);
    let left_out = blocks.iter().filter(|block| !block.is_run()).count();
    assert!(left_out * 100 <= blocks.len() * NOT_RUN_PERCENT_MAX, "{left_out} of {} are not run", blocks.len());
    let shown = blocks.iter().filter(|block| block.shown.is_some()).count();
    assert!(shown * 2 >= blocks.len() - left_out, "only {shown} of {} show what they print", blocks.len());
}

#[test]
fn an_output_is_compared_with_its_wildcards() {
    let is =
        |output: &str, shown: &str| is_shown(&output.lines().collect::<Vec<_>>(), &shown.lines().collect::<Vec<_>>());
    assert!(is("a\nb\nc", "a\n...\nc") && is("a\nc", "a\n...\nc") && !is("a\nb", "a\n...\nc"));
    assert!(is("at 12:30 there", "at ... there") && !is("at 12:30 here", "at ... there"));
    assert!(is("", "") && is("", "...") && !is("a", "") && !is("a", "b") && !is("ab", "a"));
    let page = "## One\n```sh\nls\n```\n```text\nfile\n```\n## Two\n```sh\n# not run here\nsbatch\n```\n";
    let [first, second] = &blocks(page)[..] else { panic!("two blocks") };
    assert_eq!((first.section.as_str(), first.shown.as_deref()), ("One", Some("file\n")));
    assert!(first.is_run() && !second.is_run());
}
