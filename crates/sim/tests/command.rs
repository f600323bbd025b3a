//! The simulator as a command, called as `cargo xtask simulate` calls it.

use std::process::{Command, Output};

fn simulate(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_standfast-sim")).args(words).output().expect("it was built with this test")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it writes text")
}

#[test]
fn passing_seeds_end_with_a_summary_and_success() {
    let output = simulate(&["--ranks", "5", "--seeds", "0..4", "--kills", "1"]);
    assert!(output.status.success());
    assert!(text(&output).contains("4 seeds, 0 failed"));
    assert_eq!(output.stdout, simulate(&["--kills", "1", "--seeds", "0..4", "--ranks", "5"]).stdout, "a seed is a run");
}

#[test]
fn a_planted_fault_is_reported_with_its_seed_and_fails() {
    let output = simulate(&["--plant", "deleted-too-early", "--kills", "3", "--seeds", "0..20"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).lines().any(|line| line.starts_with("seed ") && line.contains("refused")));
    assert!(!text(&output).contains(" 0 failed"));
}

#[test]
fn unknown_options_are_refused() {
    assert_eq!(simulate(&["--quickly"]).status.code(), Some(2));
}
