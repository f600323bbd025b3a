//! Rules for source files: purity, `unsafe`, size, header comments, leftovers, machine-specific paths.

use crate::code;
use crate::finding::Finding;
use crate::parameters;

/// A file with more lines than this holds more than one thought.
const LINES_MAX: usize = 500;

/// The only folder that may contain `unsafe`, since it wraps the kernel.
const FENCE: &str = "crates/linux/";

/// The only other files: vector instructions, each with a naive twin. Each file is added individually.
const VECTORS: [&str; 1] = ["crates/core/src/delta/simd.rs"];

/// The interface to programs in C, across which everything is an address.
const BORDER: &str = "bindings/mpi/src/";

/// Crates that only compute, without side effects.
const PURE: [&str; 3] = ["crates/core/src/", "crates/format/src/", "crates/group/src/"];

/// Modules of the standard library through which a crate has side effects.
const IMPURE: [&str; 6] = ["fs", "net", "time", "thread", "env", "process"];

/// Words for unfinished work. They are split in halves, so that the rule does not find itself.
const LEFTOVERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Prefixes of paths that exist on one machine only, split for the same reason.
const HOMES: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

/// Returns every violation in the file.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = machine_paths(path, text);
    if is_program_text(path) {
        findings.extend(too_long(path, text));
        findings.extend(leftovers(path, text));
    }
    if path.ends_with(".rs") {
        let code = code::without_comments(text);
        findings.extend(opening(path, text));
        findings.extend(unsafe_outside_the_fence(path, &code));
        findings.extend(impurity(path, &code));
        findings.extend(parameters::check(path, &code));
    }
    findings
}

fn is_program_text(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let known = [".rs", ".c", ".h", ".cc", ".go", ".py", ".f90", ".sh"];
    known.iter().any(|ending| name.ends_with(ending)) || path.starts_with("scripts/") || name == "Makefile"
}

fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let names_a_machine = |line: &str| {
        HOMES.iter().any(|home| {
            let mut places = line.match_indices(home);
            places.any(|(at, _)| {
                let inside_a_path =
                    line[..at].ends_with(|letter| code::is_word_letter(letter) || "}.~".contains(letter));
                !inside_a_path && line[at + home.len()..].starts_with(code::is_word_letter)
            })
        })
    };
    let lines = text.lines().enumerate().filter(|(_, line)| names_a_machine(line));
    let remedy = "take it from an argument, the environment or a temporary directory";
    lines.map(|(index, _)| Finding::new(path, index + 1, "a path of one machine", remedy)).collect()
}

fn too_long(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    (lines > LINES_MAX).then(|| {
        let what = format!("{lines} lines, more than {LINES_MAX}");
        Finding::new(path, 0, what, "split it by reason: one file, one thought")
    })
}

fn leftovers(path: &str, text: &str) -> Vec<Finding> {
    let of = |word: &'static str| {
        let remedy = "finish it, or open an issue and take the mark out";
        let lines = code::lines_with_word(text, word);
        lines.into_iter().map(move |line| Finding::new(path, line, format!("{word} left behind"), remedy))
    };
    LEFTOVERS.into_iter().flat_map(of).collect()
}

fn opening(path: &str, text: &str) -> Option<Finding> {
    (!text.starts_with("//!")).then(|| {
        let remedy = "open with `//!`: what the file is, and what it deliberately is not";
        Finding::new(path, 1, "the file does not say what it is", remedy)
    })
}

fn unsafe_outside_the_fence(path: &str, code: &str) -> Vec<Finding> {
    if path.starts_with(FENCE) || path.starts_with(BORDER) || VECTORS.contains(&path) {
        return Vec::new();
    }
    let lines = code::lines_with_word(code, "unsafe").into_iter();
    let remedy = format!("give {FENCE} a safe function that does it, and call that");
    lines.map(|line| Finding::new(path, line, format!("`unsafe` outside {FENCE}"), remedy.as_str())).collect()
}

fn impurity(path: &str, code: &str) -> Vec<Finding> {
    let is_test_file = path.ends_with("tests.rs") || path.contains("/tests/");
    if !PURE.iter().any(|room| path.starts_with(room)) || is_test_file {
        return Vec::new();
    }
    let code = code::without_tests(code);
    let uses = code.match_indices("std::").filter(|(at, _)| !code[..*at].ends_with(code::is_word_letter));
    let mut findings = Vec::new();
    for (at, prefix) in uses {
        let line = code[..at].matches('\n').count() + 1;
        for module in impure_modules(&code[at + prefix.len()..]) {
            let what = format!("std::{module} in a pure room");
            findings.push(Finding::new(path, line, what, "take what it gives as an argument, and read it further out"));
        }
    }
    findings
}

/// Returns the modules with side effects among those that follow `std::`, which are one name or a list in braces.
fn impure_modules(after: &str) -> Vec<&'static str> {
    let list = if after.starts_with('{') { top_level_names(after) } else { vec![after] };
    let touches = |name: &str| {
        let head_length = name.find(|letter| !code::is_word_letter(letter)).unwrap_or(name.len());
        let (head, rest) = name.split_at(head_length);
        // A duration is a number. Only the clocks are forbidden in a pure crate.
        let harmless = head == "time" && rest.starts_with("::Duration");
        IMPURE.into_iter().find(|module| *module == head && !harmless)
    };
    list.into_iter().filter_map(touches).collect()
}

/// Returns the entries of `{a, b::{c, d}, e}`, without descending into nested lists.
fn top_level_names(list: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut depth = 0usize;
    let mut start = 1;
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && letter == ',') {
            names.push(list[start..at].trim());
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(path: &str, text: &str) -> Vec<(usize, String)> {
        check(path, text).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn a_tidy_file_passes() {
        let text = "//! A page.\n\nuse std::fmt;\n\n/// Not unsafe, no std::fs.\npub fn f() {}\n";
        assert!(whats("crates/core/src/page.rs", text).is_empty());
    }

    #[test]
    fn a_pure_room_may_not_touch_the_world_by_any_spelling() {
        let text = "//! x\nuse std::fs::File;\nuse std::{fmt, collections::{BTreeMap, env}, thread};\nfn f() {\n    std::process::exit(1)\n}";
        let found = whats("crates/format/src/x.rs", text);
        let expected = [(2, "fs"), (3, "thread"), (5, "process")].map(|(l, m)| (l, format!("std::{m} in a pure room")));
        assert_eq!(found, expected);
        assert!(whats("crates/store/src/x.rs", text).is_empty());
    }

    #[test]
    fn a_duration_is_pure_and_a_clock_is_not() {
        let found = |text: &str| whats("crates/core/src/x.rs", &format!("//! x\n{text}")).len();
        assert_eq!(found("use std::time::Duration;"), 0);
        assert_eq!(found("use std::{fmt, time::Duration};"), 0);
        assert_eq!(found("use std::time::Instant;"), 1);
        assert_eq!(found("use std::time::{Duration, Instant};"), 1);
    }

    #[test]
    fn tests_of_a_pure_room_may_read_files() {
        let text = "//! x\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert!(whats("crates/core/src/x.rs", text).is_empty());
        assert!(whats("crates/core/src/page/tests.rs", "//! x\nuse std::fs;\n").is_empty());
    }

    #[test]
    fn unsafe_is_reported_outside_its_crate() {
        let text = "//! x\nfn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(whats("crates/engine/src/x.rs", text), [(3, "`unsafe` outside crates/linux/".to_owned())]);
        assert!(whats("crates/linux/src/x.rs", text).is_empty());
        assert!(whats(VECTORS[0], text).is_empty());
        assert!(!whats("crates/core/src/delta/mod.rs", text).is_empty());
        assert!(whats("crates/engine/src/y.rs", "//! x\n#![forbid(unsafe_code)]\n// unsafe\n").is_empty());
    }

    #[test]
    fn leftovers_are_found_in_code_and_comments_but_not_inside_words() {
        let text = format!("//! x\n// {}: later\nlet t = \"/tmp/a.XXXXXX\";\n", LEFTOVERS[0]);
        assert_eq!(whats("crates/cli/src/x.rs", &text).len(), 1);
        assert_eq!(whats("scripts/x", &format!("# {}\n", LEFTOVERS[1])).len(), 1);
    }

    #[test]
    fn paths_into_home_directories_are_reported() {
        let text = format!("see {}somebody/data\n", HOMES[0]);
        assert_eq!(whats("docs/x.md", &text).len(), 1);
        assert!(whats("docs/x.md", &format!("`{}` may be closed\n", HOMES[1])).is_empty());
        assert!(whats("scripts/x", &format!("TMPDIR=$stage{}tmp\n", HOMES[1])).is_empty());
    }

    #[test]
    fn a_long_file_and_one_without_a_header_comment_are_reported() {
        let found = whats("crates/cli/src/x.rs", &"fn f() {}\n".repeat(LINES_MAX + 1));
        assert_eq!(found.len(), 2);
        assert!(found[0].1.starts_with("501 lines"), "{}", found[0].1);
        assert!(whats("crates/cli/src/x.rs", &format!("//! x\n{}", "\n".repeat(LINES_MAX - 1))).is_empty());
    }
}
